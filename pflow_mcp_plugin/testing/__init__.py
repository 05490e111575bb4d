"""What the authors of presets and workflows test with; `docs/testing.md` shows it in use.

    from pflow_mcp_plugin.testing import assert_preset_starts

    def test_the_preset_starts():
        assert "search" in assert_preset_starts("acme-tickets", {"project": "DEMO"})

    def test_my_workflow(pflow_host):
        tickets = pflow_host.stub("acme-tickets", [search])
        assert pflow_host.run("triage.json").success

Nothing here needs pytest. With pytest, the fixture `pflow_host` comes with the package.

- `pflow_host`: pflow with a temporary home, and whether a preset's server starts and lists its tools in it
- `fake_server`: a server whose tools are functions of the test, started through `pipe_relay`
- `tool_answers`: a server's tools as a test writes them down, what they answer, and the calls that were made
"""

from pflow_mcp_plugin.testing.fake_server import FakeServer
from pflow_mcp_plugin.testing.pflow_host import PflowHost, assert_preset_starts, open_pflow_host
from pflow_mcp_plugin.testing.tool_answers import ToolAnswers, ToolFailure, ToolLike, read_tools

__all__ = [
    "FakeServer",
    "PflowHost",
    "ToolAnswers",
    "ToolFailure",
    "ToolLike",
    "assert_preset_starts",
    "open_pflow_host",
    "read_tools",
]
