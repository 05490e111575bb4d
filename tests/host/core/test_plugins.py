import re
import sys
import zipfile
from importlib import metadata
from types import SimpleNamespace

import pytest

from pflow_mcp_plugin.contract import hookimpl
from pflow_mcp_plugin.host.cli.config_commands import plugins as list_plugins
from pflow_mcp_plugin.host.plugins import Plugins, create_manager, entry_points

GOOD = """
from pflow_mcp_plugin.contract import hookimpl
calls = []
@hookimpl
def pflow_configure(host): calls.append("configure")
@hookimpl
def pflow_unconfigure(host): calls.append("unconfigure")
"""
AS_CLASS = """
import sys
class Plugin:
    def pflow_configure(self, host): 1
sys.modules[__name__] = Plugin
"""
HEAD = "from pflow_mcp_plugin.contract import hookimpl\n"


def status(opened, name):
    return next(plugin for plugin in opened.host.plugins.all if plugin.name == name)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (AS_CLASS, "could not be loaded: TypeError: its entry point names a class; name an instance of it"),
        ("import nowhere_to_be_found", "could not be loaded: ModuleNotFoundError"),
        (HEAD + "@hookimpl\ndef pflow_configure(host): 1/0", "could not be configured: ZeroDivisionError"),
        (
            HEAD + "@hookimpl\ndef pflow_configure(host, more): 1",
            "could not be loaded: PluginValidationError",
        ),
    ],
)
def test_a_bad_plugin_is_named_and_skipped_and_the_next_one_works(install, open_with, source, told):
    install("bad", source, version="0.3")
    install("good", GOOD)
    with open_with(scan=True) as opened:
        assert status(opened, "bad").status == "skipped"
        assert status(opened, "good").status == "loaded"
        assert f"Plugin bad (dist-bad 0.3) {told}" in opened.messages
        assert not opened.host.plugins.manager.has_plugin("bad")
        listed = list_plugins.main([], obj=opened.host, standalone_mode=False).render()
        assert f"\nbad  dist-bad 0.3  skipped: {told.partition(': ')[0]}" in listed
        assert re.search("^good .*  loaded$", listed, re.MULTILINE)
        assert "echo" in [entry.node for entry in opened.host.registry.entries()]


def test_two_plugins_of_one_name_are_both_named(install, open_with):
    install("twin", GOOD, distribution="first")
    install("twin", GOOD, distribution="second")
    with open_with(scan=True) as opened:
        assert sorted(p.status for p in opened.host.plugins.all if p.name == "twin") == ["loaded", "skipped"]
        assert "twin (first 1.0)" in opened.messages
        assert "twin (second 1.0)" in opened.messages


@pytest.mark.parametrize("name", ["mcp", "pflow-nodes"])
def test_no_plugin_takes_the_place_of_one_of_ours_by_its_name(install, open_with, name):
    install(name, GOOD, distribution="aaa")
    with open_with(scan=True) as opened:
        (skipped,) = (plugin for plugin in opened.host.plugins.all if plugin.status == "skipped")
        assert (skipped.name, skipped.distribution) == (name, "aaa")
        assert [problem.suggestion for problem in opened.problems] == ["Upgrade or uninstall aaa"]


def test_a_disabled_plugin_is_not_imported(install, open_with, monkeypatch):
    install("off", "raise AssertionError")
    monkeypatch.setenv("PFLOW_DISABLE_PLUGINS", "other, off")
    with open_with(scan=True) as opened:
        assert status(opened, "off").status == "disabled"
        assert "off" not in opened.messages
        assert "PFLOW_DISABLE_PLUGINS names other, which is no installed plugin" in opened.messages


@hookimpl
def marked(host):
    return ()


@pytest.mark.parametrize(
    ("hooks", "told"),
    [
        (
            {"pflow_register_node": marked},
            "pflow_register_node is not a hook; the closest is pflow_register_nodes",
        ),
        (
            {"pflow_confgure": lambda host: None},
            "pflow_confgure is not a hook; the closest is pflow_configure",
        ),
        ({"pflow_configure": lambda host: None}, "pflow_configure is not marked and never called"),
    ],
)
def test_a_hook_that_is_misspelt_or_lacks_its_mark_is_reported(open_with, hooks, told):
    with open_with(SimpleNamespace(**hooks)) as opened:
        assert told in opened.messages


def test_hooks_with_the_prefix_of_an_absent_plugin_are_ignored(open_with):
    plugin = SimpleNamespace(pflow_shout_presets=marked, pflow_shout_configure=marked)
    with open_with(plugin) as opened:
        assert opened.messages == ""


def test_the_plugin_that_brings_specs_does_not_fail_for_one_that_misfits_them(install, open_with):
    install("a-user", HEAD + "@hookimpl\ndef pflow_shout_volume(loudness): return 1")
    install(
        "shout",
        HEAD
        + """
import types, pluggy
specs = types.ModuleType("specs")
def pflow_shout_volume(call): "A hook of its own."
specs.pflow_shout_volume = pluggy.HookspecMarker("pflow")(pflow_shout_volume)
@hookimpl
def pflow_addhooks(manager): manager.add_hookspecs(specs)
""",
    )
    with open_with(scan=True) as opened:
        assert status(opened, "shout").status == "loaded"
        assert status(opened, "a-user").status == "skipped"
        assert "implements pflow_shout_volume with the argument loudness" in opened.messages


def test_a_wrapper_around_a_collecting_hook_is_reported_not_called(open_with):
    @hookimpl(wrapper=True)
    def wrapping(host):
        yield

    with open_with(SimpleNamespace(pflow_configure=wrapping)) as opened:
        assert "wraps pflow_configure" in opened.messages


def test_implementations_come_in_the_order_of_their_plugins_but_for_first_and_last():
    manager = create_manager()
    for name, options in (("a", {}), ("b", {"trylast": True}), ("c", {}), ("d", {"tryfirst": True})):
        plugin = SimpleNamespace(pflow_configure=hookimpl(**options)(lambda host, name=name: name))
        manager.register(plugin, name)
    found = Plugins(print, manager).implementations("pflow_configure")
    assert [plugin.name for plugin, _ in found] == ["d", "a", "c", "b"]


def facts(points):
    return sorted((point.name, point.value) for point in points)


def lay(folder, name, version, entry_points):
    """Lay out an installed distribution in a folder."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(entry_points)


def test_the_same_is_found_as_by_the_standard_library():
    for group in ("console_scripts", "pflow", "pytest11"):
        assert facts(entry_points(group)) == facts(metadata.entry_points(group=group))


def test_a_zip_on_the_path_is_looked_into(monkeypatch, tmp_path):
    archive = tmp_path / "lib.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped-1.dist-info/METADATA", "Name: zipped\nVersion: 1\n")
        file.writestr("zipped-1.dist-info/entry_points.txt", "[pflow]\nzipped = json:dumps\n")
    monkeypatch.syspath_prepend(str(archive))
    (found,) = (point for point in entry_points("pflow") if point.name == "zipped")
    assert (found.distribution.name, found.distribution.version) == ("zipped", "1")
    assert found.load()(1) == "1"


def test_the_first_of_two_versions_on_the_path_counts(monkeypatch, tmp_path):
    for version in ("1", "2"):
        points = "# comment\n[other]\na = b\n[pflow]\nmine = os.path:join [extra]\n"
        lay(tmp_path / version, "My.Dist", version, points)
        monkeypatch.syspath_prepend(str(tmp_path / version))
    (found,) = (point for point in entry_points("pflow") if point.name == "mine")
    assert (found.distribution.name, found.distribution.version) == ("My.Dist", "2")
    assert found.load() is sys.modules["os.path"].join


@pytest.mark.parametrize("beside", ["a folder", "a zip file"])
def test_a_distribution_that_is_found_twice_counts_once(monkeypatch, tmp_path, beside):
    for folder in ("one", "two"):
        lay(tmp_path / folder, "twice", 1, "[pflow]\ntwice = json:dumps\n")
        monkeypatch.syspath_prepend(str(tmp_path / folder))
    if beside == "a zip file":  # then the standard library is asked
        zipfile.ZipFile(tmp_path / "lib.zip", "w").close()
        monkeypatch.syspath_prepend(str(tmp_path / "lib.zip"))
    assert [point.name for point in entry_points("pflow")].count("twice") == 1
