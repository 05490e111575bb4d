import importlib.util
import json
import sys
from email.message import Message
from socket import gaierror
from types import SimpleNamespace
from urllib.error import HTTPError

import pytest
from chat_completions import fails, provider
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.language_model import kept_key, turned_away


def ask(**params):
    return flow(step("ask", "llm", {"prompt": "Hi ${who}", **params}), inputs={"who": {}})


@pytest.fixture
def parrot(bench, pflow_home, monkeypatch):
    """Ask a model of the real library, which answers with what it was asked; the settings have its key."""
    monkeypatch.setenv("LLM_USER_PATH", str(pflow_home / "llm"))
    monkeypatch.delenv("PARROT_KEY", raising=False)
    llm = pytest.importorskip("llm", reason="the extra [llm] is not installed")

    class Parrot(llm.KeyModel):
        model_id = "parrot"
        needs_key = "parrot"
        key_env_var = "PARROT_KEY"
        supports_schema = True

        class Options(llm.Options):
            temperature: float | None = None

        def execute(self, prompt, stream, response, conversation, key):
            response.set_usage(input=2, output=3)
            said = {"said": prompt.prompt, "system": prompt.system, "heat": prompt.options.temperature}
            yield json.dumps(said) if prompt.schema else f"{prompt.prompt}! ({key})"

    class Plugin:
        @llm.hookimpl
        def register_models(self, register):
            register(Parrot())

    plugin = Plugin()
    llm.get_models()  # loads the library's own plugins
    llm.pm.register(plugin)
    bench.host.settings.set("PARROT_KEY", "swordfish")
    yield lambda **params: bench.run(ask(model="parrot", **params), who="Ann")
    llm.pm.unregister(plugin)


def test_a_model_answers_with_the_key_from_the_settings(parrot):
    outcome = parrot()
    usage = {"input": 2, "output": 3}
    assert outcome.outputs == {"response": "Hi Ann! (swordfish)", "model": "parrot", "usage": usage}
    assert "swordfish" not in outcome.trace_path.read_text()


def test_with_a_schema_the_answer_is_a_value(parrot):
    response = parrot(schema={"type": "object"}, system="Be brief", temperature=1).outputs["response"]
    assert response == {"said": "Hi Ann", "system": "Be brief", "heat": 1.0}


def test_options_that_the_model_does_not_take_are_named(parrot):
    error = parrot(options={"colour": "red"}).error
    assert "The model parrot does not accept this: colour: Extra inputs are not permitted" in error.message
    assert error.suggestions == ("See: llm models --options",)


@pytest.fixture
def known(bench, pflow_home, monkeypatch):
    """Tell the real library of a model behind the port of this machine."""
    monkeypatch.setenv("LLM_USER_PATH", str(pflow_home / "llm"))
    pytest.importorskip("llm", reason="the extra [llm] is not installed")

    def known(there):
        table = {"model_id": "there", "model_name": "x", "api_base": f"http://127.0.0.1:{there.port}"}
        (pflow_home / "llm").mkdir()
        (pflow_home / "llm" / "extra-openai-models.yaml").write_text(json.dumps([table]))

    return known


def test_a_question_that_was_turned_away_is_asked_again(bench, known):
    workflow = ask(model="there")
    with provider() as there:
        there.answer(fails(429, retry_after="0"))
        known(there)
        bench.run(workflow, who="Ann")
        once = len(there.requests)  # the provider's own library may try a few times by itself
        workflow["nodes"][0]["retry"] = {"max": 2, "wait": 0}
        error = bench.run(workflow, who="Ann").error
    assert len(there.requests) == 4 * once
    assert (error.action, error.details["status"], error.retry_after) == ("rate_limited", 429, 0)


def test_a_model_that_is_not_reached_may_be_asked_again(bench, known):
    with provider() as there:
        known(there)
    error = bench.run(ask(model="there"), who="Ann").error
    assert "could not be reached" in error.message
    assert (error.kind, error.retryable) == ("connection", True)


def test_a_missing_model_or_key_is_told(bench, parrot):
    missing = bench.run(ask(model="nobody"), who="Ann")
    assert "Unknown model nobody" in missing.error.message
    assert missing.exit_code == 2
    bench.host.settings.unset("PARROT_KEY")
    assert "No key found" in parrot().error.message


@pytest.mark.parametrize(
    ("status", "header", "action", "seconds"),
    [
        (429, {"Retry-After": "7"}, "rate_limited", 7),
        (429, {}, "rate_limited", None),
        (503, {"retry-after": "30"}, "error", 30),
        (529, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, "error", None),
    ],
)
def test_what_a_provider_says_when_it_turns_a_request_away_is_kept(status, header, action, seconds):
    headers = Message()
    for name, value in header.items():
        headers[name] = value
    error = RuntimeError("the library's own")
    error.__cause__ = HTTPError("http://127.0.0.1", status, "busy", headers, None)
    failure = turned_away(error)
    assert (failure.action, failure.retry_after, failure.details) == (action, seconds, {"status": status})
    assert (failure.ran, failure.retryable, failure.kind) == ("not ran", True, "execution")


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "refused"), gaierror(-2, "unknown name")])
def test_a_request_that_reached_nobody_may_be_repeated(error):
    wrapped = RuntimeError("the library's own")
    wrapped.__cause__ = error
    failure = turned_away(wrapped)
    assert (failure.kind, failure.ran, failure.retryable) == ("connection", "not ran", True)
    assert str(error) in failure.message


@pytest.mark.parametrize(
    ("variable", "environment", "key"),
    [("A_KEY", {}, "sk"), ("A_KEY", {"A_KEY": "x"}, None), (None, {}, None)],
)
def test_a_key_is_taken_from_the_settings_unless_the_environment_has_it(
    monkeypatch, variable, environment, key
):
    monkeypatch.delenv("A_KEY", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert kept_key(SimpleNamespace(key_env_var=variable), {"A_KEY": "sk"}.get) == key


@pytest.mark.parametrize("status", [401, 500])
def test_another_failure_of_a_request_may_have_done_something(status):
    assert turned_away(HTTPError("http://127.0.0.1", status, "no", Message(), None)) is None
    assert turned_away(TimeoutError()) is None


@pytest.mark.skipif(importlib.util.find_spec("llm") is not None, reason="the extra [llm] is installed")
def test_without_the_library_it_says_what_to_install(bench):
    with pytest.raises(PflowError, match=r"^The library llm is not installed") as caught:
        bench.host.runner.run_node("llm", {"prompt": "Hi"})
    error = caught.value
    assert error.exit_code == 2
    assert "[llm]" in error.suggestions[0]
    assert "llm" not in sys.modules


@pytest.mark.parametrize(
    ("about", "after"),
    [("a long text", "\n\na long text"), ({"a": [1]}, '\n\n{"a": [1]}'), ("", ""), (None, "")],
)
def test_the_text_that_a_prompt_is_about_follows_it(parrot, about, after):
    assert parrot(input=about).outputs["response"] == f"Hi Ann{after}! (swordfish)"


def test_an_input_of_the_workflow_named_input_is_not_sent_unless_the_node_names_it(bench, parrot):
    workflow = {**ask(model="parrot"), "inputs": {"who": {}, "input": {"default": "more"}}}
    assert bench.run(workflow, who="Ann").outputs["response"] == "Hi Ann! (swordfish)"
