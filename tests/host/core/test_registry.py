import json
import sqlite3
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from node_types import ListedNodes, plugin_of

from pflow_mcp_plugin.contract import Entry, Field, Interface, PflowError, Problem, Sketch
from pflow_mcp_plugin.host.cli.registry_commands import describe_entry
from pflow_mcp_plugin.host.registry.node_index import open_index
from pflow_mcp_plugin.host.registry.node_sources import is_installed

FAILED = "(node source shout) failed to list its nodes"


class Source(ListedNodes):
    def __init__(self, name, *found, prefixes=("shout-",)):
        super().__init__(name, *found, prefixes=prefixes)

    def upgrade(self, node):
        return {**node, "type": "shout-loud"} if node.get("type") == "old" else None


def entry(node, description="", **options):
    return Entry(node=node, class_name="Node", module="somewhere", description=description, **options)


def sketch(node):
    return Sketch(node=node, description="")


def plugin(*sources):
    return plugin_of(*sources, name="shout")


def test_a_node_is_found_by_the_source_whose_prefix_fits(open_with):
    other = Source("other", entry("shout-loud", "never asked"), prefixes=("whisper-",))
    with open_with(plugin(other, Source("shout", entry("shout-loud", "right")))) as opened:
        assert opened.host.registry.get("shout-loud").description == "right"
        assert opened.host.registry.get("shout-loud").source == "shout"


def test_precedence_is_own_then_saved_then_sources_by_name_and_an_overwrite_is_told_once(open_with):
    sources = [Source("b", entry("shout-x", "b")), Source("a", entry("shout-x", "a"))]
    greedy = Source("greedy", entry("echo", "not the host's"), prefixes=("echo",))
    with open_with(plugin(*sources, greedy)) as opened:
        registry = opened.host.registry
        assert registry.get("shout-x").description == "a"
        assert registry.get("echo").source == "pflow"
        registry.save({"shout-x": {"class_name": "Mine", "module": "mine"}})
        assert registry.get("shout-x").class_name == "Mine"
        assert [found.class_name for found in registry.entries("shout")] == ["Mine"]
        registry.get("shout-x")
        assert opened.messages.count("of a is overwritten by that of b") == 0
        assert opened.messages.count("Node type shout-x of b is overwritten by that of a") == 1
        assert opened.messages.count("Node type shout-x of a is overwritten by that of registry.json") == 1
        assert "Node type echo of greedy is overwritten by that of pflow" in opened.messages


def test_a_saved_entry_of_the_older_shape_is_read(open_with, saved):
    interface = {"description": "Makes an issue", "params": [{"name": "title", "type": "str"}]}
    node = {"class_name": "N", "module": "m", "interface": interface, "extra": {"a": 1}}
    path = saved(json.dumps({"nodes": {"make-issue": node, "bad": {}}, "later": 1}))
    with open_with() as opened:
        found = opened.host.registry.get("make-issue")
        assert (found.description, found.interface.params[0].key) == ("Makes an issue", "title")
        assert found.extra == {"extra": {"a": 1}}
        assert "bad is left out" in opened.messages
        opened.host.registry.save({"more": {"class_name": "N", "module": "m"}})
    written = json.loads(path.read_text())
    assert written["later"] == 1
    assert sorted(written["nodes"]) == ["bad", "make-issue", "more"]


def test_what_is_exported_can_be_saved_again(open_with):
    params = (Field(key="words", type="str", required=True),)
    said = entry("shout-loud", "Say it", interface=Interface(params=params), extra={"own": 1})
    with open_with(plugin(Source("shout", said))) as opened:
        exported = opened.host.registry.export()
    assert exported["nodes"]["shout-loud"]["interface"]["description"] == "Say it"
    with open_with() as opened:
        opened.host.registry.save(exported["nodes"])
        again = opened.host.registry.get("shout-loud")
        assert (again.interface.params, again.extra, again.description) == (params, {"own": 1}, "Say it")


def test_a_corrupt_saved_registry_is_backed_up_and_named(open_with, saved):
    path = saved("oops")
    with open_with() as opened:
        assert opened.host.registry.get("echo")
        assert "registry.json" in opened.messages
    assert path.with_name("registry.json.corrupt-1").read_text() == "oops"


@pytest.mark.parametrize("method", ["fingerprint", "get", "entries", "missing", "lacking", "upgrade"])
def test_a_broken_source_is_named_and_the_others_answer(open_with, method):
    broken = Source("broken", entry("echo-broken"), prefixes=("",))
    setattr(broken, method, lambda *args: 1 / 0)
    with open_with(plugin(broken)) as opened:
        registry = opened.host.registry
        assert registry.get("echo").source == "pflow"
        assert "echo" in [found.node for found in registry.entries()]
        told = registry.missing("echo-broken").message
        assert ("failed to look up a node: ZeroDivisionError" in told) is (method == "get")
        registry.rows("nowhere")
        registry.upgrade({"type": "x"})
        assert "Plugin shout (node source broken)" in opened.messages


@pytest.mark.parametrize("method", ["entries", "sketches"])
def test_a_list_without_a_source_says_so_each_time_and_is_not_kept(open_with, method):
    def refuse():
        raise PflowError("shout.toml, line 2: not TOML", suggestions=("Correct it",), kind="config")

    source = Source("shout", entry("shout-loud"))
    setattr(source, method, refuse)
    for _ in range(2):
        with open_with(plugin(source)) as opened:
            assert "echo" in [row.node for row in opened.host.registry.rows()]
            (told,) = opened.problems
            assert told.message == "The nodes of shout are left out: shout.toml, line 2: not TOML"
            assert told.suggestion == "Correct it"
    delattr(source, method)
    with open_with(plugin(source)) as opened:
        assert "shout-loud" in [row.node for row in opened.host.registry.rows()]
        assert opened.problems == []


def test_what_is_no_source_and_a_second_source_of_a_name_are_reported(open_with):
    with open_with(plugin(Source("same"), Source("same"), 7, Source("text", prefixes="x-"))) as opened:
        names = [origin.name for origin in opened.host.registry.sources]
        assert names.count("same") == 1
        assert "registered an invalid node source: TypeError: 7 does not extend NodeSource" in opened.messages
        assert "prefixes of text must be a tuple" in opened.messages
        assert "both register a node source named same" in opened.messages


def refuse(text):
    raise PflowError("The config is not TOML", suggestions=("Correct it",), kind="config")


def explain(node_type):
    return Problem(message=f"{node_type} is hoarse", suggestion="Rest")


@pytest.mark.parametrize(
    ("missing", "message", "suggestion"),
    [(explain, "shout-loud is hoarse", "Rest"), (refuse, "The config is not TOML", "Correct it")],
)
def test_the_source_itself_says_what_is_missing_and_is_not_broken_if_it_cannot(
    open_with, missing, message, suggestion
):
    source = Source("shout")
    source.missing, source.lacking = missing, refuse
    with open_with(plugin(source)) as opened:
        problem = opened.host.registry.missing("shout-loud")
        assert (problem.message, problem.suggestion) == (message, suggestion)
        assert opened.host.registry.search_rows("loud") == []
        assert "shout" not in opened.messages


@pytest.mark.parametrize("ask", ["rows", "search_rows", "discovered", "discover"])
def test_what_a_source_could_offer_for_a_search_is_told_once_and_for_no_list_of_all(open_with, ask):
    asked, source = [], Source("shout")

    def lacking(text):
        asked.append(text)
        return (Problem(message="Nobody has shouted yet", suggestion="Shout", severity="error"),)

    source.lacking = lacking
    with open_with(plugin(source)) as opened:
        registry = opened.host.registry
        registry.rows()
        assert (asked, opened.messages) == ([], "")
        for _ in range(2):
            getattr(registry, ask)("say it loud")
        assert asked == ["say it loud"] * 2
        assert opened.messages.count("Nobody has shouted yet") == 1


NODES = """
from pflow_mcp_plugin.contract import NodeSource, hookimpl
class Source(NodeSource):
    name = "shout"
    prefixes = ("shout-", "yell-")
    def fingerprint(self): return ""
    def get(self, node_type): return None
    def entries(self): return iter(())
@hookimpl
def pflow_register_nodes(host): return [Source()]
"""


def test_a_node_of_an_absent_plugin_names_what_to_enable_or_install(
    install, open_with, monkeypatch, tmp_path
):
    install("loud", NODES, distribution="pflow-loud")
    with open_with(scan=True) as opened:
        list(opened.host.registry.rows())
    monkeypatch.setenv("PFLOW_DISABLE_PLUGINS", "loud")
    with open_with(scan=True) as opened:
        assert "PFLOW_DISABLE_PLUGINS disables" in opened.host.registry.missing("yell-x").message
    monkeypatch.delenv("PFLOW_DISABLE_PLUGINS")
    (tmp_path / "site").rename(tmp_path / "gone")
    with open_with(scan=True) as opened:
        problem = opened.host.registry.missing("yell-x")
        assert "pflow-loud, which is not installed" in problem.message
        assert problem.suggestion == "pip install pflow-loud"


def test_a_disabled_plugin_that_was_never_seen_is_guessed_by_its_name(install, open_with, monkeypatch):
    install("loud", NODES)
    monkeypatch.setenv("PFLOW_DISABLE_PLUGINS", "loud")
    with open_with(scan=True) as opened:
        assert opened.host.registry.missing("loud-x").suggestion == "Remove loud from PFLOW_DISABLE_PLUGINS"
        assert opened.host.registry.missing("calm-x").message == "Unknown node type calm-x"


def test_an_older_node_is_upgraded_by_the_source_that_knows_it(open_with):
    with open_with(plugin(Source("shout"))) as opened:
        assert opened.host.registry.upgrade({"id": "n", "type": "old"}) == {"id": "n", "type": "shout-loud"}
        assert opened.host.registry.upgrade({"id": "n", "type": "new"}) is None


def test_search_ranks_names_over_descriptions_and_finds_parameters(open_with):
    volume = Interface(params=(Field(key="loudNess", description="how much"),))
    source = Source(
        "shout",
        entry("shout-issue", "make noise"),
        entry("shout-other", "like an issue"),
        entry("shout-third", "nothing", interface=volume),
        extra := entry("shout-label", "tagged", labels={"server": "s", "tool": "t"}),
    )
    with open_with(plugin(source)) as opened:
        registry = opened.host.registry
        found = registry.search("issues")
        assert [item.node for item, _ in found] == ["shout-issue", "shout-other"]
        assert found[0][1] > found[1][1] > 0
        assert [item.node for item, _ in registry.search("loud ness")] == ["shout-third"]
        assert [item.node for item, _ in registry.search("lik")] == ["shout-other"]
        assert registry.search("li") == []  # of two letters, many words may begin so
        assert registry.search('") * ^ {:-') == registry.search("") == []
        assert len(registry.search("shout", limit=2)) == 2
        row = registry.search_rows("tagged")[0].to_dict()
        assert (row["server"], row["tool"], row["node"]) == ("s", "t", extra.node)
        assert row["score"] > 0


def test_a_change_in_a_source_is_seen_and_the_older_index_is_swept(open_with, home):
    source = Source("shout", entry("shout-a"))
    with open_with(plugin(source)) as opened:
        registry = opened.host.registry
        assert [row.node for row in registry.rows("SHOUT")] == ["shout-a"]
        source.found.append(entry("shout-b"))
        assert [row.node for row in registry.rows("shout")] == ["shout-a", "shout-b"]
        assert [item.node for item in registry.entries("SHOUT")] == ["shout-a", "shout-b"]
    assert len(list((home / "cache").glob("*.sqlite"))) == 1


def test_the_index_is_built_once_and_anew_when_it_is_damaged(tmp_path):
    built = []

    def sketches():
        built.append(1)
        return [sketch("a")], True

    open_index(tmp_path, "1", sketches).close()
    open_index(tmp_path, "1", sketches).close()
    assert len(built) == 1
    (path,) = tmp_path.glob("*.sqlite")
    path.write_bytes(path.read_bytes()[:100])
    index = open_index(tmp_path, "1", sketches)
    assert index.names() == ["a"]
    index.close()
    assert len(built) == 2


def test_threads_on_one_host_find_what_they_would_one_by_one(open_with):
    kinds = ("loud", "soft", "high", "low")
    found = [entry(f"shout-{word}", f"Shout {word} of {len(word)}") for word in kinds]
    words = ["loud", "shout soft", "file", "write a file", "echo", "shell command", "of 4", "nothing"]
    with open_with(plugin(Source("shout", *found))) as opened:
        registry = opened.host.registry

        def seen(text):
            listed = registry.rows(text), registry.beginning("sh"), registry.count(text)
            discovered = registry.discover(text).matches if text == "echo" else ()
            return registry.search_rows(text, 5), listed, [match.item.node for match in discovered]

        def search(_):
            start.wait(60)
            return [(text, seen(text)) for text in words * 3]

        alone = {text: seen(text) for text in words}
        start = threading.Barrier(8)
        with ThreadPoolExecutor(8) as threads:
            answers = [answer for answers in threads.map(search, range(8)) for answer in answers]
    assert [text for text, answer in answers if answer != alone[text]] == []


@pytest.mark.parametrize("cached", [True, False])
def test_threads_may_read_an_index_that_is_closed_meanwhile(tmp_path, cached):
    folder = tmp_path / ("cache" if cached else "file")
    if not cached:
        folder.touch()
    names = [f"node-{number:03}" for number in range(200)]
    index = open_index(folder, "1", lambda: (map(sketch, names), True))
    answers = []

    def read():
        start.wait(60)
        for _ in range(500):
            try:
                answers.append(index.names())
            except sqlite3.ProgrammingError as error:
                return str(error)
            if len(answers) > 500:
                index.close()
        return "never closed"

    start = threading.Barrier(4)
    with ThreadPoolExecutor(4) as threads:
        told = [reading.result(60) for reading in [threads.submit(read) for _ in range(4)]]
    assert set(told) == {"Cannot operate on a closed database."}
    assert [answer for answer in answers if answer != names] == []


def test_a_text_that_is_no_unicode_is_listed_and_searched(open_with):
    source = Source("shout", entry("shout-a", "half \ud83d an emoji"))
    source.fingerprint = lambda: "half \ud83d"
    with open_with(plugin(source)) as opened:
        assert opened.host.registry.rows("\udcff") == []
        assert opened.host.registry.search("emoji \udcff")[0][0].description == "half \ud83d an emoji"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: entry("whisper-low"), "begins with none of shout-"),
        (lambda: entry(5), FAILED),
        (lambda: entry("shout-a", None), FAILED),
        (lambda: entry("shout-a", interface=Interface(params=(Field(key=1),))), FAILED),
    ],
    ids=["prefix", "name", "description", "parameter"],
)
def test_entries_that_are_invalid_are_left_out_and_their_source_named(open_with, wrong, told):
    source = Source("shout")
    source.entries = lambda: (made() for made in [wrong])
    with open_with(plugin(source, Source("zeta", entry("shout-b")))) as opened:
        rows = opened.host.registry.rows("s")
        assert [row.node for row in rows if row.source in ("shout", "zeta")] == ["shout-b"]
        assert told in opened.messages


def test_saved_entries_that_are_none_are_named_and_neither_used_nor_written_over(open_with, saved):
    path = saved('{"schema_version": 1, "nodes": [1]}')
    with open_with() as opened:
        assert opened.host.registry.find("saved-node") is None
        assert f'{path}: "nodes" must be an object' in opened.messages
        with pytest.raises(PflowError, match="must be an object"):
            opened.host.registry.save({"a": {"module": "m", "class_name": "C"}})
    assert path.read_text() == '{"schema_version": 1, "nodes": [1]}'


def test_what_a_saved_entry_says_nothing_of_may_be_named(open_with, saved):
    saved(silent=FINE, exact={**FINE, "interface": {"outputs": []}})
    with open_with() as opened:
        for node, severities in (("silent", []), ("exact", ["error"])):
            workflow = {"nodes": [{"id": node}], "outputs": {"x": f"${{{node}.anything}}"}}
            problems = opened.host.runner.validate(workflow)
            assert [problem.severity for problem in problems] == severities
        described = describe_entry(opened.host.registry.get("silent"))
        assert "  and others, known only when it runs" in described


FINE = {"class_name": "Echo", "module": "pflow_mcp_plugin.host.nodes.value_nodes"}
OLDER = {"class_name": "Caller", "module": "no_such_core.nodes.caller", "interface": {"params": []}}


def test_entries_outside_nodes_are_told_with_what_to_do(open_with, saved):
    content = {"shout-loud": OLDER, "mine": {"module": "json"}, "later": {"a": 1}, "schema_version": 1}
    path = saved(json.dumps(content))
    with open_with() as opened:
        assert opened.host.registry.rows("loud") == []
        (told,) = map(str, opened.problems)
    unused = f'{path}: entries outside "nodes" are not used: shout-loud, mine'
    assert told.startswith(f"{unused} (Remove them")


def test_what_an_older_pflow_left_is_told_by_every_list(open_with, saved):
    saved(mine=OLDER)
    for _ in range(2):  # the second reads the index that the first made
        with open_with() as opened:
            opened.host.registry.rows()
            assert "cannot run: mine" in opened.messages


@pytest.mark.parametrize(
    ("module", "installed"),
    [
        ("json.decoder", True),
        ("builtins", True),
        ("pflow_mcp_plugin.host.nodes.shell", True),
        ("json.no_such", False),
        ("", False),
        ("a..b", False),
    ],
)
def test_a_module_is_looked_for_without_being_imported(module, installed):
    before = {*sys.modules}
    assert is_installed(module) is installed
    assert {*sys.modules} == before
