"""pflow served to clients of the SDK in this process, in both protocol generations."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from conversations import Conversation, talk

from pflow_mcp_plugin.server import ALL_TOOLS, ServedTool, ServingOptions, build_server
from pflow_mcp_plugin.testing import PflowHost


@dataclass
class Served:
    """A served pflow, and how to call its tools."""

    pflow: PflowHost
    root: Path
    mode: str = "auto"
    options: dict[str, Any] = field(default_factory=dict)
    client: dict[str, Any] = field(default_factory=dict)
    tools: Callable[[], tuple[ServedTool, ...]] = lambda: ALL_TOOLS

    def build(self, **options: Any) -> Any:
        """Return a server of the SDK."""
        chosen = {"root": self.root, **self.options, **options}
        return build_server(self.pflow.host, self.tools, ServingOptions(**chosen))

    def talk(self, conversation: Conversation, **options: Any) -> Any:
        """Let an async function talk to the server, and return what it returns."""
        return talk(self.build(**options), conversation, self.mode, **self.client)

    def call(self, tool: str, _options: dict[str, Any] | None = None, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its envelope, after a look at its form."""

        async def conversation(client: Any) -> Any:
            return await client.call_tool(tool, arguments)

        return self.envelope(self.talk(conversation, **(_options or {})))

    def data(self, tool: str, **arguments: Any) -> Any:
        """Call a tool that succeeds, and return its data."""
        answered = self.call(tool, **arguments)
        assert answered["success"], answered
        return answered["data"]

    def error(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that fails, and return its error."""
        answered = self.call(tool, **arguments)
        assert not answered["success"], answered
        error: dict[str, Any] = answered["error"]
        assert set(error) == {"type", "message", "details", "suggestions"}
        return error

    @staticmethod
    async def until(condition: Callable[[], Any]) -> Any:
        """Wait until a condition holds, and return its value."""
        while not (value := condition()):  # noqa: ASYNC110 - files and lists tell nobody
            await anyio.sleep(0.01)
        return value

    @staticmethod
    def envelope(result: Any) -> dict[str, Any]:
        """Return the envelope in the result of a call."""
        content: dict[str, Any] = result.structured_content
        assert json.loads(result.content[0].text) == content
        assert content["schema"] == 1
        assert result.is_error is not content["success"]
        assert "data" in content if content["success"] else "error" in content
        return content


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder whose files clients may name."""
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def served(pflow_host: PflowHost, root: Path) -> Served:
    """A served pflow, spoken to in the protocol of 2026-07-28."""
    return Served(pflow_host, root)


@pytest.fixture(params=["legacy", "auto"])
def either(request: pytest.FixtureRequest, served: Served) -> Served:
    """A served pflow, in either generation of the protocol."""
    served.mode = request.param
    return served
