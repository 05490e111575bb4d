from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from textwrap import dedent

import pytest

from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost, open_host
from pflow_mcp_plugin.host.plugins import Manager, create_manager

_number = count()


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path) -> Path:
    monkeypatch.setenv("PFLOW_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PFLOW_DISABLE_PLUGINS", raising=False)
    return tmp_path / "home"


@pytest.fixture
def install(monkeypatch, tmp_path) -> Iterator[Callable[..., str]]:
    """Put a distribution with one plugin on the path, as an installer would; returns its module."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    modules: list[str] = []

    def put(name: str, source: str, *, distribution: str = "", version: str = "1.0") -> str:
        module = f"plugin_{next(_number)}_{tmp_path.name.replace('-', '_')}"
        modules.append(module)
        distribution = distribution or f"dist-{name}"
        (site / f"{module}.py").write_text(dedent(source))
        info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n\nText"
        )
        (info / "entry_points.txt").write_text(f"[pflow]\n{name} = {module}\n")
        return module

    yield put
    for module in modules:
        sys.modules.pop(module, None)


class Opened:
    """A host in a test, and the problems it reported."""

    def __init__(self, host: EmbeddedHost, problems: list[Problem]) -> None:
        self.host = host
        self.problems = problems

    @property
    def messages(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


@contextmanager
def opened(*plugins: object, manager: Manager | None = None, scan: bool = False) -> Iterator[Opened]:
    """Open a host with these plugins only, or with what is installed."""
    problems: list[Problem] = []
    if not scan:
        manager = manager or create_manager()
        for number, plugin in enumerate(plugins):
            manager.register(plugin, getattr(plugin, "plugin_name", f"plugin-{number}"))
    with open_host(None if scan else manager, show=problems.append) as host:
        yield Opened(host, problems)


@pytest.fixture
def open_with() -> Callable[..., object]:
    return opened
