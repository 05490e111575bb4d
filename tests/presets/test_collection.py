"""Presets of several plugins, good and bad."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.presets import builtin
from pflow_mcp_plugin.presets.collection import collect
from pflow_mcp_plugin.types import ServerPreset


def preset(name, **fields):
    return ServerPreset(name=name, title=name.title(), description="Does it", command="server", **fields)


def installed(tmp_path, monkeypatch, distribution, plugin):
    """Put the metadata of a distribution with one plugin on the path."""
    info = tmp_path / "site" / f"{distribution.replace('-', '_')}-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[pflow]\n{plugin} = nowhere\n")
    monkeypatch.syspath_prepend(info.parent)


def test_the_presets_of_all_plugins_are_offered_sorted(host, manager, offer):
    manager.register(builtin, "mcp-presets")
    offer("acme", lambda host: [preset("acme"), preset("zeta")])
    collection = collect(host)
    assert list(collection.offered) == sorted(collection.offered)
    assert {"acme", "zeta", "filesystem", "git"} <= set(collection.offered)
    assert collection.get("acme").plugin == "acme"
    assert collection.get("git").origin.startswith("pflow-mcp ")
    assert collection.problems == ()


def test_a_host_without_the_hook_has_no_presets():
    assert collect(SimpleNamespace(hook=SimpleNamespace())).offered == {}


def test_a_name_that_two_plugins_offer_is_refused_with_both_distributions(host, offer, tmp_path, monkeypatch):
    installed(tmp_path, monkeypatch, "acme-tools", "acme")
    installed(tmp_path, monkeypatch, "other-tools", "other")
    offer("acme", lambda host: [preset("tickets"), preset("acme")])
    offer("other", lambda host: [preset("tickets")])
    collection = collect(host)
    assert list(collection.offered) == ["acme"]
    (problem,) = collection.problems
    assert "acme-tools 1.2" in problem.message
    assert "other-tools 1.2" in problem.message
    with pytest.raises(PflowError, match=r"acme-tools 1\.2 .* and other-tools 1\.2") as refused:
        collection.get("tickets")
    assert refused.value.exit_code == 2


def test_the_step_after_a_clash_with_one_of_ours_names_the_other_plugin(host, manager, offer):
    offer("acme", lambda host: [preset("git")])
    manager.register(builtin, "mcp-presets")
    (problem,) = collect(host).problems
    assert problem.suggestion == "Uninstall plugin acme, or set PFLOW_DISABLE_PLUGINS=acme"


def test_a_plugin_that_raises_is_named_and_what_it_yielded_before_stays(host, offer, tmp_path, monkeypatch):
    installed(tmp_path, monkeypatch, "bad-tools", "bad")

    def broken(host):
        yield preset("first")
        yield preset("Second")

    offer("bad", broken)
    offer("good", lambda host: [preset("fine")])
    collection = collect(host)
    assert list(collection.offered) == ["fine", "first"]
    (problem,) = collection.problems
    assert problem.severity == "warning"
    assert "Plugin bad (bad-tools 1.2) failed in pflow_mcp_presets" in problem.message
    assert "ServerPreset.name" in problem.message
    assert "PFLOW_DISABLE_PLUGINS=bad" in problem.suggestion


def fails_with(error):
    def presets(host):
        raise error

    return presets


@pytest.mark.parametrize(
    ("offered", "said"),
    [
        (lambda host: None, ""),
        (lambda host: [{"name": "x"}], "offers dict instead of ServerPreset"),
        (lambda host: [preset("twice"), preset("twice")], "twice"),
        (fails_with(SystemExit(1)), "SystemExit"),
        (fails_with(RuntimeError("boom")), "RuntimeError"),
        (fails_with(ImportError("gone")), "ImportError"),
    ],
)
def test_whatever_a_plugin_offers_or_raises_the_others_go_on(host, offer, offered, said):
    offer("odd", offered)
    offer("good", lambda host: [preset("fine")])
    collection = collect(host)
    assert list(collection.offered) == ["fine"]
    assert len(collection.problems) == bool(said)
    assert all(said in problem.message for problem in collection.problems)


def test_a_search_wants_every_word(host, manager):
    manager.register(builtin, "mcp-presets")
    collection = collect(host)
    assert [each.preset.name for each in collection.search(["SQL", "database"])] == [
        "duckdb",
        "postgres",
        "sqlite",
    ]
    assert [each.preset.name for each in collection.search(["@playwright/mcp"])] == ["playwright"]
    assert collection.search(["nothing of the kind"]) == []
