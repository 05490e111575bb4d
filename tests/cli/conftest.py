"""A desk to run commands at: real files, and a host that only takes notes; and the whole command line."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pluggy
import pytest
from prepared_starts import Finished

from pflow_mcp_plugin import mcp_hookspecs, presets
from pflow_mcp_plugin.client.oauth.sign_in_state import AuthorizationServer, Registration, SignIn, Tokens
from pflow_mcp_plugin.client.oauth.sign_in_store import SignInKey, SignInStore
from pflow_mcp_plugin.config.locations import sign_in_folder
from pflow_mcp_plugin.contract import CommandLike, Paths, Problem, Report
from pflow_mcp_plugin.discovery.servers import servers
from pflow_mcp_plugin.discovery.tool_sync import Synced, sync
from pflow_mcp_plugin.exchange import Listing
from pflow_mcp_plugin.host.cli.command_line import main
from pflow_mcp_plugin.types import ServerInfo, Tool


def _manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager("pflow")
    manager.add_hookspecs(mcp_hookspecs)
    manager.register(presets, "mcp-presets")
    return manager


@attrs.define
class Desk:
    """Stands in for a host: what these commands use of one, and a record of what it was told."""

    paths: Paths
    settings: Any = None
    library: Any = None
    manager: pluggy.PluginManager = attrs.field(factory=_manager)
    problems: list[Problem] = attrs.field(factory=list)
    refreshed: list[str] = attrs.field(factory=list)
    chains: list[tuple[list[str], str]] = attrs.field(factory=list)

    @property
    def hook(self) -> pluggy.HookRelay:
        return self.manager.hook

    def report(self, problem: Problem) -> None:
        assert problem.severity == "warning"
        self.problems.append(problem)

    def refresh(self, source: str) -> None:
        self.refreshed.append(source)

    def run_chain(self, words: Sequence[str], prog_name: str) -> Report:
        self.chains.append((list(words), prog_name))
        return Report()

    def run(self, command: CommandLike, *arguments: str) -> Report:
        """Run a command as a host does."""
        report: Report = command.main(list(arguments), "pflow", obj=self, standalone_mode=False)
        return report

    def sync(self, *tools: Tool, instructions: str = "") -> Synced:
        """Sync the server `a` of the config as if it had answered this; nothing is started."""
        listing = Listing(info=ServerInfo(instructions=instructions), tools=tools)
        (result,) = sync(["a"], servers(self.paths), lambda _: listing, {}.get)
        assert result.error is None
        return result

    def store(self, server: str, *tools: Tool, **info: str) -> None:
        """Store the tools of a configured server as a sync does that approves everything."""
        known = servers(self.paths)
        fingerprint = known.store.fingerprint(server) if server in known.store.names() else ""
        known.catalog.save(server, Listing(info=ServerInfo(**info), tools=tools), fingerprint)

    def warnings(self) -> str:
        """Return what the user was warned of."""
        return "\n".join(str(problem) for problem in self.problems)

    def write(self, text: str) -> Path:
        """Write the config of the servers."""
        path = self.paths.config / "mcp-servers.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def raw(self) -> dict[str, Any]:
        """Return the config of the servers as it stands in the file."""
        import tomllib

        return tomllib.loads((self.paths.config / "mcp-servers.toml").read_text(encoding="utf-8"))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A desk whose folders do not exist yet."""
    folders = ("config", "data", "state", "cache")
    return Desk(Paths(**{name: tmp_path / "pflow" / name for name in folders}))


@pytest.fixture
def signed_in(desk: Desk) -> Callable[..., SignIn]:
    """Store a sign-in at `https://example.com/mcp`."""
    issuer = "https://login.example.com"

    def store(
        *,
        url: str = "https://example.com/mcp",
        client: str = "",
        expires_in: float | None = 3600,
        refresh: str = "planted-refresh",
        **changed: Any,
    ) -> SignIn:
        now = time.time()
        expires_at = None if expires_in is None else now + expires_in
        found = AuthorizationServer(issuer=issuer, token_endpoint=f"{issuer}/token")
        given: dict[str, Any] = {
            "server": "web",
            "server_url": url,
            "resource": url,
            "authorization_server": found,
            "registration": Registration(client_id=client or "registered"),
            "tokens": Tokens(
                access="planted-access",
                refresh=refresh,
                expires_at=expires_at,
                issued_at=now - 60,
                scopes=("read",),
            ),
            "signed_in_at": now - 60,
        }
        sign_in = SignIn(**{**given, **changed})
        SignInStore(sign_in_folder(desk.paths)).write(SignInKey(url, client), sign_in)
        return sign_in

    return store


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user without files."""
    folder = tmp_path / "user"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "APPDATA"):
        monkeypatch.setenv(name, "")
    return folder


@pytest.fixture
def typed(
    pflow_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Finished]:
    """Run a command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def typed(*words: object) -> Finished:
        capfd.readouterr()
        return Finished(main([*map(str, words)]), *capfd.readouterr())

    return typed
