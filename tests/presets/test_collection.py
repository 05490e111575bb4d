"""The built-in presets and those of several plugins, their values, and the servers that they become."""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace

import attrs
import pluggy
import pytest

from pflow_mcp_plugin import mcp_hookspecs, presets
from pflow_mcp_plugin.config import server_schema
from pflow_mcp_plugin.contract import PflowError, hookimpl
from pflow_mcp_plugin.presets.builtin_servers import PRESETS
from pflow_mcp_plugin.presets.collection import (
    OfferedPreset,
    collect,
    lacking_inputs,
    manifest_difference,
    origin,
    parse_inputs,
    resolve_inputs,
    server_table,
)
from pflow_mcp_plugin.types import PresetInput, Server, ServerPreset
from pflow_mcp_plugin.variable_references import references


@pytest.fixture
def manager():
    """A plugin manager with the hooks of this plugin."""
    made = pluggy.PluginManager("pflow")
    made.add_hookspecs(mcp_hookspecs)
    return made


@pytest.fixture
def host(manager):
    """What the presets of all plugins are collected from."""
    return SimpleNamespace(hook=manager.hook)


@pytest.fixture
def offer(manager):
    """Register a plugin whose `pflow_mcp_presets` is the given function."""
    return lambda name, function: manager.register(
        SimpleNamespace(pflow_mcp_presets=hookimpl(function)), name
    )


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
    manager.register(presets, "mcp-presets")
    offer("acme", lambda host: [preset("acme"), preset("zeta")])
    collection = collect(host)
    assert list(collection.offered) == sorted(collection.offered)
    assert {"acme", "zeta", "filesystem", "git"} <= set(collection.offered)
    assert collection.get("acme").plugin == "acme"
    assert origin(collection.get("git").plugin).startswith("pflow-mcp ")
    assert collection.problems == ()
    assert collect(SimpleNamespace(hook=SimpleNamespace())).offered == {}  # a host without the hook


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
    manager.register(presets, "mcp-presets")
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


class Speechless(Exception):
    """Cannot be formatted."""

    def __str__(self):
        raise RuntimeError("no words")


def raising(error):
    def offered(host):
        raise error

    return offered


@pytest.mark.parametrize(
    ("offered", "said"),
    [
        (lambda host: None, ""),
        (lambda host: [{"name": "x"}], "offers dict instead of ServerPreset"),
        (lambda host: [preset("twice"), preset("twice")], "twice"),
        (lambda host: sys.exit(1), "SystemExit"),
        (lambda host: 1 // 0, "ZeroDivisionError"),
        (raising(asyncio.CancelledError()), "failed in pflow_mcp_presets: CancelledError"),
        (raising(Speechless()), "failed in pflow_mcp_presets: Speechless"),
        (lambda host: [Speechless], "offers type instead of ServerPreset"),
    ],
)
def test_whatever_a_plugin_offers_or_raises_the_others_go_on(host, offer, offered, said):
    offer("odd", offered)
    offer("good", lambda host: [preset("fine")])
    collection = collect(host)
    assert list(collection.offered) == ["fine"]
    assert len(collection.problems) == bool(said)
    assert all(said in problem.message for problem in collection.problems)


def test_an_interruption_ends_the_collection(host, offer):
    offer("odd", raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        collect(host)


def test_a_search_wants_every_word(host, manager):
    manager.register(presets, "mcp-presets")
    collection = collect(host)
    assert [each.preset.name for each in collection.search(["SQL", "lite"])] == ["sqlite"]
    assert [each.preset.name for each in collection.search(["@playwright/mcp"])] == ["playwright"]
    assert collection.search(["nothing of the kind"]) == []


PRESET = ServerPreset(
    name="acme",
    title="Acme",
    description="Does it",
    command="server",
    args=("${folder}", "--mode=${mode}", "--note=${note}"),
    env={"TOKEN": "${TOKEN}", "EXTRA_KEY": "${EXTRA_KEY}"},
    inputs=(
        PresetInput(name="folder", description="A folder", path=True),
        PresetInput(name="mode", description="A mode", default="fast", choices=("fast", "slow")),
        PresetInput(name="note", description="A note", required=False),
        PresetInput(name="TOKEN", description="A token", secret=True),
        PresetInput(name="EXTRA_KEY", description="A key", secret=True, required=False),
    ),
)


def unset(name):
    return None


def test_values_are_parsed_and_empty_ones_are_none_and_one_that_is_not_a_choice_is_refused():
    assert parse_inputs(PRESET, ["folder=/a=b", "note=", "mode=slow"]) == {"folder": "/a=b", "mode": "slow"}
    with pytest.raises(PflowError, match="cannot be 'medium'") as refused:
        resolve_inputs(PRESET, {"mode": "medium"}, unset)
    assert refused.value.suggestions == ("Choose from: fast, slow",)


@pytest.mark.parametrize(("pair", "said"), [("folder", "NAME=VALUE"), ("foldr=/a", "no input foldr")])
def test_a_malformed_or_unknown_input_is_refused_and_the_inputs_are_named(pair, said):
    with pytest.raises(PflowError, match=said) as refused:
        parse_inputs(PRESET, [pair])
    assert refused.value.suggestions == ("Its inputs: folder, mode, note, TOKEN, EXTRA_KEY",)
    assert refused.value.exit_code == 2


def test_a_given_secret_becomes_a_reference_and_is_kept_apart():
    values = resolve_inputs(PRESET, {"folder": "/data", "TOKEN": "s3cret"}, unset)
    assert values.texts == {"folder": "/data", "mode": "fast", "TOKEN": "${TOKEN}"}
    assert values.secrets == {"TOKEN": "s3cret"}
    assert values.missing == ()


def test_all_missing_inputs_are_named_at_once():
    missing = resolve_inputs(PRESET, {}, unset).missing
    assert [each.name for each in missing] == ["folder", "TOKEN"]
    error = lacking_inputs(PRESET, missing)
    assert error.message == "Preset acme needs: folder (A folder), TOKEN (A token)"
    assert error.suggestions == ("pflow mcp add acme --input folder=...", "pflow settings set TOKEN -")
    assert error.exit_code == 2


def test_paths_are_made_absolute_unless_they_hold_a_reference_or_are_a_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for given, expected in {
        "notes": str(tmp_path / "notes"),
        "~/notes": str(Path.home() / "notes"),
        "${HOME}/notes": "${HOME}/notes",
    }.items():
        assert resolve_inputs(PRESET, {"folder": given}, unset).texts["folder"] == expected
    memory = PresetInput(name="file", description="A file", default=":memory:", path=True)
    made = preset("db", args=("${file}",), inputs=(memory,))
    assert resolve_inputs(made, {}, unset).texts == {"file": ":memory:"}


DECLARED, OTHER = ("sha256:" + digit * 64 for digit in "ab")
DECLARING = attrs.evolve(
    preset("acme"),
    command="npx",
    args=("-y", "acme@1.2.3", "${folder}"),
    inputs=(PresetInput(name="folder", description="A folder"),),
    manifest_hash=DECLARED,
)
OFFER = OfferedPreset(preset=DECLARING, plugin="acme-plugin")
SERVER = Server(name="work", command="/opt/node/bin/npx", args=("-y", "acme@1.2.3", "/data"), preset="acme")


@pytest.mark.parametrize(
    ("offer", "server", "found"),
    [
        (OFFER, SERVER, DECLARED),
        (OFFER, attrs.evolve(SERVER, args=("-y", "acme@1.3.0", "/data")), OTHER),
        (OFFER, attrs.evolve(SERVER, command="bunx"), OTHER),
        (OfferedPreset(preset=attrs.evolve(DECLARING, manifest_hash=""), plugin="x"), SERVER, OTHER),
    ],
    ids=["the same", "another version", "another program", "none known"],
)
def test_nothing_is_said_if_it_is_the_same_or_not_comparable(offer, server, found):
    assert manifest_difference(offer, server, found) is None
    assert manifest_difference(OFFER, SERVER, OTHER) is not None  # what it says is shown by `pflow mcp sync`


FOLDER = PresetInput(name="folder", description="A folder")
TOKEN = PresetInput(name="TOKEN", description="A token", secret=True)
ZONE = PresetInput(name="zone", description="A zone", required=False)


URL = "https://example.com/sse"
PASSED_ON = {
    "rename": {"read_all": "read"},
    "idempotency_argument": {"pay": "key"},
    "verify": {"put": {"tool": "get", "happened": "result"}},
    "startup_timeout": 9,
    "call_timeout": 90,
}


@pytest.mark.parametrize(
    ("fields", "inputs", "texts", "table"),
    [
        (
            {"command": "npx", "args": ("-y", "acme@1.2.3", "${folder}/x"), "env": {"TOKEN": "${TOKEN}"}},
            (FOLDER, TOKEN),
            {"folder": "/data", "TOKEN": "${WORK_TOKEN}"},
            {"command": "npx", "args": ["-y", "acme@1.2.3", "/data/x"], "env": {"TOKEN": "${WORK_TOKEN}"}},
        ),
        (
            {"command": "server", "args": ("--zone=${zone}", "run"), "env": {"ZONE": "${zone}", "A": "1"}},
            (ZONE,),
            {},
            {"command": "server", "args": ["run"], "env": {"A": "1"}},
        ),
        (
            {"transport": "sse", "url": URL, "headers": {"Authorization": "Bearer ${TOKEN}"}},
            (TOKEN,),
            {"TOKEN": "${TOKEN}"},
            {"type": "sse", "url": URL, "headers": {"Authorization": "Bearer ${TOKEN}"}},
        ),
        (
            {"command": "server", "args": ("$${literal}",), "tools": ("read_*",), **PASSED_ON},
            (),
            {},
            {"command": "server", "args": ["$${literal}"], "tools": {"allow": ["read_*"]}, **PASSED_ON},
        ),
    ],
    ids=["a secret stays a reference", "an absent input", "a url", "names and times"],
)
def test_a_preset_becomes_the_table_of_a_server(fields, inputs, texts, table):
    made = ServerPreset(name="acme", title="Acme", description="Does it", inputs=inputs, **fields)
    assert server_table(made, texts) == {**table, "preset": "acme"}


NAMES = (
    "demo filesystem git github fetch time memory everything sequential-thinking "
    "slack postgres sqlite playwright context7 notion duckdb"
)


def test_there_are_sixteen_of_them():
    assert [preset.name for preset in presets.pflow_mcp_presets(host=None)] == NAMES.split()


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_each_becomes_a_valid_server_with_and_without_its_optional_inputs(preset):
    needed = {given.name: "/value" for given in preset.inputs if given.required}
    every = {given.name: given.default or "/value" for given in preset.inputs}
    for texts in (needed, every):
        assert server_schema.check_server(preset.name, server_table(preset, texts)) == []


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_each_downloads_an_exact_version_or_nothing_and_has_a_page_to_read(preset):
    assert preset.packages or preset.url or preset.command == sys.executable
    assert len(preset.description) <= 90
    assert preset.homepage.startswith("https://")


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_each_refers_to_its_inputs_of_which_those_that_are_named_as_a_variable_are_secrets(preset):
    texts = (preset.url, *preset.args, *preset.env.values(), *preset.headers.values())
    assert {found.name for text in texts for found in references(text)} == {it.name for it in preset.inputs}
    assert [given.secret for given in preset.inputs] == [given.name.isupper() for given in preset.inputs]
