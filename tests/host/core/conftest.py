import json
import sys
from contextlib import contextmanager
from itertools import count
from textwrap import dedent
from types import SimpleNamespace

import pytest

from pflow_mcp_plugin.host.cli.command_line import main
from pflow_mcp_plugin.host.embedded_host import open_host
from pflow_mcp_plugin.host.plugins import create_manager

_number = count()


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("PFLOW_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PFLOW_DISABLE_PLUGINS", raising=False)
    return tmp_path / "home"


@pytest.fixture
def write(tmp_path):
    """Write a workflow to a file, and return the name by which it is run in its folder."""

    def write(workflow, name="wf.json"):
        (tmp_path / name).write_text(json.dumps(workflow))
        return name

    return write


@pytest.fixture
def saved(home):
    """Write the saved registry, as it is or some entries, and return its path."""

    def write(data="", **nodes):
        path = home / "data" / "registry.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(data or json.dumps({"schema_version": 1, "nodes": nodes}))
        return path

    return write


@pytest.fixture
def install(monkeypatch, tmp_path):
    """Put a distribution with one plugin on the path, as an installer would; returns its module."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    modules = []

    def put(name, source, *, distribution="", version="1.0"):
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


@pytest.fixture
def in_process(capsys):
    """Run a command line with plugins; returns exit code, what it printed, and the errors."""

    def run(*arguments, plugins=()):
        manager = create_manager()
        for number, plugin in enumerate(plugins):
            manager.register(plugin, f"plugin-{number}")
        code = main(arguments, manager)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


class Opened:
    def __init__(self, host, problems):
        self.host = host
        self.problems = problems

    @property
    def messages(self):
        return "\n".join(str(problem) for problem in self.problems)


@contextmanager
def opened(*plugins, manager=None, scan=False):
    """Open a host with these plugins only, or with what is installed."""
    problems = []
    if not scan:
        manager = manager or create_manager()
        for number, plugin in enumerate(plugins):
            manager.register(plugin, getattr(plugin, "plugin_name", f"plugin-{number}"))
    with open_host(None if scan else manager, show=problems.append) as host:
        yield Opened(host, problems)


@pytest.fixture
def open_with():
    return opened


class Model:
    """A language model that always answers the same."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = ""
        self.key_env_var = "SAGE_KEY"

    def prompt(self, text, *, stream, key=None):
        self.asked, self.key = text, key
        return SimpleNamespace(text=lambda: self.answer)


@pytest.fixture
def model(monkeypatch):
    """The model `sage` of the library llm, which the user has chosen for discovery."""
    made = Model("- t-charts-drawpie\nt-nowhere\n`t-bank-getprice`")

    def get_model(name):
        if name != "sage":
            raise KeyError(name)
        return made

    monkeypatch.setitem(sys.modules, "llm", SimpleNamespace(get_model=get_model))
    monkeypatch.setenv("PFLOW_DISCOVER_MODEL", "sage")
    return made
