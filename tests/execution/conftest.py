"""A config with tool files, and a pool that knows its answers."""

from types import SimpleNamespace

import pytest

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.catalog.tool_catalog import Catalog
from pflow_mcp_plugin.config.locations import server_file, tool_folder
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.exchange import CallResult, Listing
from pflow_mcp_plugin.execution.call_hooks import CallHooks
from pflow_mcp_plugin.execution.runtime import Runtime
from pflow_mcp_plugin.types import ServerInfo, Tool

ADD = Tool(
    name="add_up",
    input_schema={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "timeout": {"type": "integer"}},
        "required": ["a", "b"],
    },
)


class Bench:
    """A runtime with everything around it; `answer` is what the next calls give, or raise."""

    def __init__(self, tmp_path):
        paths = storage.default_paths()
        self.store = ServerStore(server_file(paths))
        self.catalog = Catalog(tool_folder(paths))
        self.calls, self.launches, self.warnings, self.secrets, self.notes = [], [], [], [], {}
        self.answer = CallResult(structured={"sum": 3}, has_structured=True, info=ServerInfo(version="1"))
        self.run = SimpleNamespace(
            run_id="r1",
            resources={},
            artifacts_dir=tmp_path / "artifacts",
            annotate=self.notes.__setitem__,
            current_step=lambda: None,
        )
        self.runtime = self.new_runtime()

    def new_runtime(self, hook=None):
        self.runtime = Runtime(
            store=self.store,
            catalog=self.catalog,
            lookup={"TOKEN": "s3cret!", "BLANK": ""}.get,
            pool=self,
            hooks=CallHooks(hook),
            warn=self.warnings.append,
            add_secrets=self.secrets.extend,
            progress=lambda *_: None,
        )
        self.run.resources["mcp"] = self.runtime
        return self.runtime

    def add(self, name="calc", *tools, **table):
        self.store.add({name: {"command": "x", **table}})
        listing = Listing(info=ServerInfo(version="1"), tools=tools or (ADD,))
        self.catalog.save(name, listing, self.store.fingerprint(name))

    def forget(self, name):
        with self.catalog.locked(name) as path:
            path.unlink()

    def prepare(self, launch):
        self.launches.append(launch)

    def call(self, launch, call, on_progress=None, *, safe_to_repeat=False, chain=tuple, step=None):
        self.repeatable = safe_to_repeat
        self.launches.append(launch)
        self.calls.append(call)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def bench(tmp_path, monkeypatch):
    monkeypatch.setenv("PFLOW_HOME", str(tmp_path / "home"))
    return Bench(tmp_path)
