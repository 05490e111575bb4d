"""Attacks by plugins, and around them: whatever one does harms no other, and no call goes past it.

`tests/data/threat_rows.py` says which tests play which row.
"""

import json
import os
import signal
from functools import partial
from pathlib import Path

import pytest
from programs import put_plugin, script_server

pytestmark = pytest.mark.usefixtures("no_leftovers")
CLIENT_SERVER = Path(__file__).parents[1] / "client/scripted.py"
HEAD = "import os, sys, time\nfrom pflow_mcp_plugin.contract import hookimpl\n"
HANG = "print('hanging', file=sys.stderr, flush=True); time.sleep(600)"

GOOD = """
import click
from pflow_mcp_plugin.contract import Command, hookimpl

@hookimpl
def pflow_register_commands(host):
    yield Command(path=("greet",), help="Greet", load="good_plugin:greet")

@click.command()
def greet():
    print("hello")
"""
HOOKS = {
    "pflow_configure": "host",
    "pflow_register_nodes": "host",
    "pflow_register_commands": "host",
    "pflow_mcp_presets": "host",
    "pflow_mcp_prepare_call": "call",
}
DEEDS = {
    "raises": "raise ValueError('on purpose')",
    "returns a wrong type": "return 42",
    "yields a wrong type": "return [object()]",
    "prints": "print('printed by it'); return None",
    "closes stdout": "sys.stdout.close(); return None",
}


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a plugin: a module with a distribution that announces it, on the path of all programs."""
    site = tmp_path / "site"
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
    return partial(put_plugin, site)


@pytest.fixture
def server(configured, pflow, log):
    """A server whose tool `act` notes its arguments, added and synced."""
    script = f"""
if request["params"].get("arguments") is not None:
    open({str(log)!r}, "a").write(json.dumps(request["params"]["arguments"]) + "\\n")
reply({{"content": [], "structuredContent": request["params"].get("arguments")}})
"""
    start = (
        "schema = {'type': 'object', 'properties': {'value': {'type': 'string'}}}\n"
        "state['tools'] = [{'name': 'act', 'inputSchema': schema}]"
    )
    configured("odd", script_server(CLIENT_SERVER, script, env={"AT_START": start}))


@pytest.mark.parametrize("deed", DEEDS)
def test_row_35_a_plugin_that_misbehaves_in_every_hook_harms_no_other(
    install, server, pflow, workflow, log, deed
):
    implementations = (
        f"@hookimpl\ndef {hook}({argument}): {DEEDS[deed]}" for hook, argument in HOOKS.items()
    )
    install("bad", HEAD + "\n\n".join(implementations).replace("{printed}", "printed by it"))
    install("good", GOOD)
    listed = pflow("plugins", "--json")
    assert listed.exit_code == 0
    status = {plugin["name"]: plugin["status"] for plugin in listed.envelope["data"]}
    assert (status["good"], status["mcp"]) == ("loaded", "loaded")
    greeted = pflow("greet")
    assert greeted.stdout.endswith("hello\n"), greeted
    ran = pflow("run", workflow(("a", "mcp-odd-act", {"value": "x"})), "--json")
    if deed in ("prints", "closes stdout"):
        assert ran.exit_code == 0
        return
    assert "bad 1.0" in listed.stderr
    if status["bad"] == "skipped":  # over its first hook
        assert ran.exit_code == 0
    else:  # a call over which it fails is not sent
        assert ran.exit_code == 1
        assert "bad" in ran.envelope["error"]["message"]
        assert not log.exists()


@pytest.mark.parametrize("place", ["import", "pflow_mcp_presets", "pflow_mcp_prepare_call"])
def test_row_35_a_plugin_that_hangs_is_left_with_one_ctrl_c(
    install, server, workflow, started, log, signalled, place
):
    """No clock runs: a plugin may have long work to do. What it holds up has not been sent."""
    source = HANG if place == "import" else f"@hookimpl\ndef {place}({HOOKS[place]}): {HANG}"
    install("bad", HEAD + source)
    command = (
        ["mcp", "presets"]
        if place == "pflow_mcp_presets"
        else ["run", str(workflow(("a", "mcp-odd-act", {})))]
    )
    program = started(*command)
    assert program.stderr.readline() == "hanging\n"
    _, said = signalled(program, signal.SIGINT)
    assert program.returncode == 130
    assert "Traceback" not in said
    assert not log.exists()


VETO = """
import attrs
from pflow_mcp_plugin.contract import hookimpl
from pflow_mcp_plugin.errors import CallRefused, Where

@hookimpl
def pflow_mcp_prepare_call(call):
    if call.arguments.get("value") == "forbidden":
        raise CallRefused("the plugin says no", where=Where(server=call.server, tool=call.tool))
    return attrs.evolve(call, arguments={"value": "changed"})
"""
NODE = "from pflow_mcp_plugin.nodes import McpOddActNode, session\n"
PYTHON = {
    "a pocketflow Flow": "from pocketflow import Flow\nFlow(start=McpOddActNode(value=given)).run({})",
    "a session": "with session():\n    McpOddActNode(value=given).run({})",
    "the class itself": (
        "from pflow_mcp_plugin.execution.node import MCPNode\n"
        "node = MCPNode()\n"
        "node.set_params({'__mcp_server__': 'odd', '__mcp_tool__': 'act', 'value': given})\n"
        "shared = {}\nnode.run(shared)\nprint(shared)"
    ),
}


@pytest.fixture
def ways(pflow, python, tmp_path):
    """Call the tool in every way but those of a served pflow; return what was said, by way."""

    def said(*command, run=pflow):
        done = run(*command)
        return done.stdout + done.stderr

    def document(name, **more):
        path = tmp_path / f"{name}.json"
        params = {"value": "${item}" if "batch" in more else "${given}"}
        node = {"id": "a", "type": "mcp-odd-act", "params": params, **more}
        inputs = {"given": {"type": "string", "required": True}}
        path.write_text(json.dumps({"nodes": [node], "inputs": inputs}))
        return path

    def play(given):
        at_once = {"items": ["${given}"], "parallel": True, "error_handling": "continue"}
        for name, more in (("plain", {}), ("batch", {"batch": at_once}), ("retried", {"retry": {"max": 2}})):
            yield name, said("run", document(name, **more), f"given={given}", "--json")
        plain, value, flag = tmp_path / "plain.json", f"value={given}", f"--value={given}"
        assert pflow("workflow", "save", plain, "--name", "kept", "--description", "x").exit_code == 0
        yield "a saved workflow", said("run", "kept", f"given={given}")
        yield "registry run", said("registry", "run", "mcp-odd-act", value)
        yield "a chain", said("echo", "--message=x", "then", "mcp-odd-act", flag)
        yield "mcp call", said("mcp", "call", "odd", "act", flag)
        for name, text in PYTHON.items():
            yield name, said("-c", f"import sys\ngiven = sys.argv[1]\n{NODE}{text}", given, run=python)
        exported = pflow("workflow", "export-python", plain)
        assert exported.exit_code == 0
        yield "an exported program", said("-c", exported.stdout, f"given={given}", run=python)

    return lambda given: dict(play(given))


@pytest.mark.timeout(300)
def test_row_36_a_call_that_a_plugin_refuses_is_sent_in_no_way(install, server, ways, log):
    install("veto", VETO)
    refused = ways("forbidden")
    assert [way for way, said in refused.items() if "the plugin says no" not in said] == []
    assert not log.exists()


@pytest.mark.timeout(300)
def test_row_36_a_call_that_a_plugin_changes_arrives_changed_in_every_way(install, server, ways, log):
    install("veto", VETO)
    changed = ways("allowed")
    assert log.read_text().splitlines() == ['{"value": "changed"}'] * len(changed)


def test_row_36_the_order_of_plugins_does_not_let_a_call_slip_through(install, server, pflow, workflow, log):
    """One that refuses is heard before and after others that change calls, or answer them."""
    answers = """
from pflow_mcp_plugin.contract import hookimpl
from pflow_mcp_plugin.exchange import CallResult

@hookimpl(tryfirst=True)
def pflow_mcp_call_tool(call):
    return CallResult(content=({"type": "text", "text": "answered by a plugin"},))
"""
    for name in ("aaa", "zzz"):
        install(name, answers)
    install("veto", VETO)
    for given, expected in (("forbidden", "the plugin says no"), ("allowed", "answered by a plugin")):
        path = workflow(("a", "mcp-odd-act", {"value": given}), outputs={"said": "${a.result}"})
        ran = pflow("run", path)
        assert expected in ran.stdout + ran.stderr
    assert not log.exists()
