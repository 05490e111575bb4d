"""A value is itself, whatever its size and kind and wherever it goes."""

import json
import sys
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pflow_mcp_plugin.calls import call, session
from pflow_mcp_plugin.host.workflow.workflow_text import MOST_TEXT

IMAGE = {"type": "image", "data": b64encode(b"\x89PNG not really").decode(), "mimeType": "image/png"}
DEMO = {"command": sys.executable, "args": ["-m", "pflow_mcp_plugin.server.demo_server"]}

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"))
    | st.sampled_from(["${x}", "$${x}", '{"a": 1}', "[1, 2]", "null", "3", IMAGE, {"result": 1}, {}, []])
    | st.builds(
        lambda part, times: part * times, st.text(min_size=1, max_size=3), st.sampled_from([3000, 300_000])
    ),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=8,
)


def exactly(value):
    """Return a text that two values share only if they are equal, of the same types and in the same order."""
    return json.dumps(value)


@pytest.fixture
def echoing(pflow_host):
    """A pflow with the demo server."""
    pflow_host.add("demo", DEMO)
    pflow_host.sync("demo")
    return pflow_host


def examples(most):
    return settings(deadline=None, max_examples=most, suppress_health_check=list(HealthCheck))


def test_python_gets_back_what_it_sent(echoing):
    @examples(15)
    @given(value=VALUES)
    def comes_back(value):
        assert exactly(call("demo", "echo", value=value)) == exactly({"value": value})

    with session():
        comes_back()


ECHO = {"type": "mcp-demo-echo"}
AT_ONCE = {"items": "${values}", "parallel": True}
SAY = {
    "inputs": {"given": {"type": "any"}},
    "nodes": [{"id": "say", **ECHO, "params": {"value": "${given}"}}],
    "outputs": {"said": "${say.value}"},
}
INNER = {"workflow": SAY, "given": "${item}"}
ROUND = {
    "inputs": {"values": {"type": "list"}, "first": {"type": "any"}},
    "nodes": [
        {"id": "each", **ECHO, "params": {"value": "${item}"}, "batch": AT_ONCE},
        {"id": "inner", "type": "workflow", "params": INNER, "batch": {"items": "${values}"}},
        {"id": "nested", **ECHO, "params": {"value": {"in": ["${first}", {"all": "${values}"}]}}},
        {"id": "shaped", "type": "transform", "params": {"expression": "each.results[*].[value]"}},
    ],
    "outputs": {
        "batch": "${each.results}",
        "inner": "${inner.results}",
        "nested": "${nested.value}",
        "shaped": "${shaped.result}",
    },
}


@pytest.mark.slow
def test_templates_batches_and_workflows_in_workflows_pass_values_on_as_they_are(echoing, pflow, tmp_path):
    (tmp_path / "wf.json").write_text(json.dumps(ROUND))
    env = {"PFLOW_HOME": str(echoing.home)}

    @examples(3)
    @given(values=st.lists(VALUES, min_size=1, max_size=5))
    def come_through(values):
        written = json.dumps({"values": values, "first": values[0]})
        assume(len(written) <= MOST_TEXT)  # a file of inputs may hold no more
        (tmp_path / "inputs.json").write_text(written)
        ran = pflow("run", "wf.json", "--inputs", "inputs.json", "--json", env=env)
        assert ran.exit_code == 0, ran.stderr
        outputs = ran.envelope["data"]["outputs"]
        assert exactly([it["value"] for it in outputs["batch"]]) == exactly(values)
        assert exactly([it["said"] for it in outputs["inner"]]) == exactly(values)
        assert exactly(outputs["nested"]) == exactly({"in": [values[0], {"all": values}]})
        assert exactly(outputs["shaped"]) == exactly([[value] for value in values])

    come_through()


@pytest.mark.servers
def test_the_words_of_a_large_file_are_counted_as_in_the_readme(
    pflow, configured, filesystem_command, tmp_path, no_leftovers
):
    megabytes = 20
    program, *arguments = filesystem_command
    for name, server in (("demo", DEMO), ("files", {"command": program, "args": arguments})):
        configured(name, {**server, "call_timeout": 100})
    (tmp_path / "files" / "large.txt").write_text("four " * (megabytes * 200_000))
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    workflow = readme.partition("<!-- file: count.json -->\n```json\n")[2].partition("```")[0]
    (tmp_path / "count.json").write_text(workflow)
    ran = pflow("run", "count.json", f"path={tmp_path}/files/large.txt", "--json")
    assert ran.exit_code == 0, ran.stderr
    assert ran.envelope["data"]["outputs"] == {"words": megabytes * 200_000}
