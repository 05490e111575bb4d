"""A server that wants access tokens, and a pool that calls it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted_realm import ACT, Realm
from signing_in import Visitor

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.exchange import Launch, ToolCall


@pytest.fixture
def pool(realm: Realm, warnings_seen: list[str]) -> Iterator[Pool]:
    """A pool whose sign-ins are those of the realm, closed before its servers."""
    with Pool(warnings_seen.append, sign_in_folder=realm.folder) as opened:
        yield opened


@pytest.fixture
def call(pool: Pool, realm: Realm) -> Callable[..., str]:
    """Call the tool and return its text."""

    def made(launch: Launch | None = None) -> str:
        return str(pool.call(launch or realm.launch(), ACT).content[0]["text"])

    return made


@pytest.fixture
def use_notes(tmp_path: Path) -> Callable[..., str]:
    """Call a tool of the protected server in a run of its own, and return its text."""

    def made(launch: Launch, tool: str = "read_note", **arguments: object) -> str:
        with Pool(pytest.fail, sign_in_folder=tmp_path / "oauth") as pool:
            result = pool.call(launch, ToolCall(server="notes", tool=tool, arguments=arguments))
        return str(result.content[0]["text"])

    return made


@pytest.fixture
def visitor(protected_server: Any, tmp_path: Path) -> Visitor:
    """Somebody who signs in at the protected server."""
    return Visitor(protected_server, tmp_path / "oauth")
