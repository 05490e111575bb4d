import sys
from collections.abc import Callable, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import pocketflow
import pytest
from node_types import fields

from pflow_mcp_plugin.contract import Entry, Interface, NodeSource, Problem, hookimpl
from pflow_mcp_plugin.host.cli.resume_command import resume
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost, open_host
from pflow_mcp_plugin.host.plugins import create_manager
from pflow_mcp_plugin.host.running import flow

MODULE = "nodes_on_the_bench"


class Bench(NodeSource):
    """Node types for a test, and the host that runs them."""

    name = "bench"
    prefixes = ("t-",)

    def __init__(self, module):
        self.module = module
        self.known: dict[str, Entry] = {}
        self.upgrades: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] = lambda node: None
        self.warnings: list[Problem] = []
        self.failing: dict[Any, Exception] = {}
        self.host: EmbeddedHost

    def fingerprint(self):
        return str(sorted(self.known))

    def get(self, node_type):
        return self.known.get(node_type)

    def entries(self):
        yield from self.known.values()

    def upgrade(self, node):
        return self.upgrades(node)

    def declare(self, node_type, params=(), outputs=(), **interface):
        """Add a node type; fields are written `count: int!` (required) or given as `Field`."""
        made = Interface(params=fields(*params), outputs=fields(*outputs), **interface)
        entry = Entry(node=node_type, class_name=node_type, module=MODULE, interface=made)
        self.known[node_type] = entry
        return entry

    def node(self, node_type, params=(), outputs=(), **interface):
        """Add a class as a node type."""

        def add(node_class):
            self.declare(node_type, params, outputs, **interface)
            setattr(self.module, node_type, node_class)
            return node_class

        return add

    def acts(self, node_type, params=(), outputs=(), **interface):
        """Add a node type that calls a function, which returns the action, with the store and its params."""

        def add(function):
            class Acts(pocketflow.Node):
                def post(self, shared, prep_res, exec_res):
                    return function(shared, self.params)

            self.node(node_type, params, outputs, **interface)(Acts)
            return function

        return add

    def configure(self, text):
        """Write `pflow.toml`."""
        folder = self.host.paths.config
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pflow.toml").write_text(text)

    def run_bounded(self, most, workflow, inputs, **options):
        """Run a workflow that may take so many steps."""
        with patch.multiple(flow, MOST_STEPS=most, STEPS_PER_NODE=0):
            return self.host.runner.run(workflow, inputs, **options)

    def run(self, workflow, **inputs):
        return self.host.runner.run(workflow, inputs, name="wf")

    def run_failing(self, failing, workflow, **inputs):
        """Run a workflow whose node `t-send` fails for some values; it does not fail for them after that."""
        with patch.object(self, "failing", failing):
            return self.run(workflow, **inputs)

    def plug(self, **hooks):
        """Register hook implementations as one plugin, named after the first of them."""
        plugin = SimpleNamespace(**{name: hookimpl(function) for name, function in hooks.items()})
        name = next(iter(hooks.values())).__name__
        self.host.plugins.manager.register(plugin, name)

    @hookimpl
    def pflow_register_nodes(self, host):
        return [self]


@pytest.fixture
def bench(pflow_home, monkeypatch):
    module = ModuleType(MODULE)
    monkeypatch.setitem(sys.modules, MODULE, module)
    made = Bench(module)
    manager = create_manager()
    manager.register(made, "bench")
    with open_host(manager, show=made.warnings.append) as host:
        made.host = host
        yield made
        host.registry.close()


@pytest.fixture
def resumed(bench):
    """Run `pflow resume` in this process; return its report."""

    def run(*words):
        return resume.main([*words], "resume", standalone_mode=False, obj=bench.host)

    return run
