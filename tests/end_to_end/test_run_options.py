"""`--trust-readonly`, `--cache` and `--locked` hold wherever something runs."""

import asyncio
import json

import pytest
from mcp import Client

from pflow_mcp_plugin.contract import PflowError, RunOptions
from pflow_mcp_plugin.host.direct.direct_run import DirectRun
from pflow_mcp_plugin.script import Script
from pflow_mcp_plugin.server import ALL_TOOLS, ServingOptions, build_server

NODE = "mcp-shop-count"
WORKFLOW = {"nodes": [{"id": "count", "type": NODE}]}


@pytest.fixture
def calls(pflow_host, tmp_path, monkeypatch):
    """The calls of a tool that claims to only read; in a folder without a lock file."""
    monkeypatch.chdir(tmp_path)
    tool = {"name": "count", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    answers = pflow_host.stub("shop", [tool])
    answers.give("count", {"number": 1})
    return answers.calls


def raised(outcome):
    if outcome.error:
        raise outcome.error


def in_python(pflow_host, options):
    raised(pflow_host.host.runner.with_options(options).run(WORKFLOW, {}))


def as_a_single_node(pflow_host, options):
    raised(pflow_host.host.runner.with_options(options).run_node(NODE, {}).outcome)


def as_typed(pflow_host, options):
    host = pflow_host.host
    words = ["--trust-readonly"] * options.trust_readonly + ["--locked"] * options.locked
    words += [f"--cache={options.cache:g}s"] if options.cache else []
    run = DirectRun(host, host.registry, host.runner, "pflow", host.showing_inside)
    report = run.report([NODE, *words])
    if report.error:
        raise report.error


def as_served(pflow_host, options):
    async def answers():
        served = build_server(pflow_host.host, lambda: ALL_TOOLS, ServingOptions(run_options=options))
        async with Client(served) as client:
            node = await client.call_tool("registry_run", {"node_type": NODE})
            return [node, await client.call_tool("workflow_execute", {"workflow": WORKFLOW})]

    for answer in asyncio.run(answers()):
        if not answer.structured_content["success"]:
            raise PflowError(answer.structured_content["error"]["message"])


@pytest.mark.parametrize("run", [in_python, as_a_single_node, as_typed, as_served])
def test_the_options_of_a_run_hold_wherever_it_begins(calls, pflow_host, run):
    options = RunOptions(trust_readonly=True, cache=60)
    for _ in range(2):
        run(pflow_host, options)
    assert len(calls) == 1
    run(pflow_host, RunOptions(cache=60))
    assert len(calls) > 1
    asked = len(calls)
    with pytest.raises(PflowError, match=r"mcp-lock\.toml"):
        run(pflow_host, RunOptions(locked=True))
    assert len(calls) == asked


def test_a_command_reuses_the_result_of_an_earlier_run(pflow):
    shown = []
    for _ in range(2):
        assert pflow("registry", "run", "echo", "message=hi", "--cache=15m").exit_code == 0
        shown.append(pflow("trace", "show").stdout)
    assert ["cached" in text for text in shown] == [False, True]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("echo", "--message", "hi", "--cache", "--no-cache"), "--cache and --no-cache exclude each other"),
        (("echo", "--message", "hi", "--print", "--locked"), "are for a run"),
        (("run", "--cache", "5m", "wf.json"), "Write --cache=5m"),
        (("mcp", "serve", "--cache=soon"), "'soon' is not a time"),
    ],
)
def test_options_that_cannot_be_met_are_refused(pflow, words, message):
    done = pflow(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_program_takes_them_on_its_command_line_and_where_it_is_written(calls, pflow_host, capsys):
    script = Script("says", inputs={"cache": {"type": "int"}}, outputs={"said": "${say.message}"})
    say = script.node("say", "echo", params={"message": "${cache}"})
    for words in (["--trust-readonly", "--cache", "cache=1"], ["--cache=15m", "cache=1"]):
        assert script.main(say, words) == 0
    assert script.options == RunOptions(trust_readonly=True, cache=900)
    steps = [json.loads(path.read_text())["steps"] for path in sorted(pflow_host.host.traces.paths())]
    assert sorted(bool(step["details"]["cache"].get("cached")) for (step,) in steps) == [False, True]
    assert script.main(say, ["--cache=soon", "cache=1"]) == 2
    assert "'soon' is not a time" in capsys.readouterr().err
    locked = Script("counts", options=RunOptions(locked=True))
    assert locked.main(locked.node("count", NODE), []) == 2
    assert "mcp-lock.toml" in capsys.readouterr().err
