"""What a host promises by its features, and that it keeps it."""

from __future__ import annotations

import importlib.util
from operator import attrgetter
from pathlib import Path

import pytest

from pflow_mcp_plugin import contract
from pflow_mcp_plugin.contract import FEATURES, hosts
from pflow_mcp_plugin.host.app import open_host
from pflow_mcp_plugin.host.hooks import create_manager

ROOT = Path(__file__).resolve().parents[2]
PROTOCOLS = {
    "registry": hosts.Registry,
    "runner": hosts.Runner,
    "settings": hosts.Settings,
    "library": hosts.Library,
    "traces": hosts.Traces,
}


def embedded(_):
    with open_host(create_manager()) as host:
        return host


def foreign(home):
    path = ROOT / "tests" / "foreign_host" / "foreign_host.py"
    spec = importlib.util.spec_from_file_location("foreign_host", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ForeignHost(home)


@pytest.mark.parametrize("open_one", [embedded, foreign])
def test_a_host_has_what_its_features_promise(pflow_home, open_one):
    host = open_one(pflow_home)
    assert host.features <= FEATURES.keys()
    for feature in host.features:
        for method in FEATURES[feature]:
            assert callable(attrgetter(method)(host)), method


def test_the_embedded_host_has_every_feature(pflow_home):
    assert embedded(pflow_home).features == FEATURES.keys()


def test_each_method_of_what_hangs_on_a_host_belongs_to_one_feature():
    promised = [method for methods in FEATURES.values() for method in methods]
    declared = [
        f"{name}.{method}" for name, kind in PROTOCOLS.items() for method in vars(kind) if method[0] != "_"
    ]
    assert sorted(promised) == sorted(declared)


def test_the_features_are_documented():
    text = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    for feature, methods in FEATURES.items():
        assert f"| `{feature}` | {', '.join(f'`{method}`' for method in methods)} |" in text
    assert "FEATURES" in contract.__all__
