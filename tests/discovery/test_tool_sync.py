import os
import threading

import pytest

from pflow_mcp_plugin.catalog.tool_catalog import forget_failure, keep_failure, read_failure
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.discovery.servers import Servers, launch
from pflow_mcp_plugin.discovery.tool_sync import sync
from pflow_mcp_plugin.errors import ConnectionFailed, Where
from pflow_mcp_plugin.exchange import Listing
from pflow_mcp_plugin.types import ServerInfo, Tool


class Lister:
    def __init__(self, answers):
        self.answers = answers
        self.launches = {}

    def list_tools(self, launch):
        name = launch.server.name
        self.launches[name] = launch
        answer = self.answers[name]
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer


def listing(*names, **others):
    info = {"info": ServerInfo(name="x", era="modern")}
    return Listing(**info | others, tools=tuple(Tool(name=name) for name in names))


@pytest.fixture
def store(tmp_path):
    return ServerStore(tmp_path / "mcp-servers.toml")


def add(store, **tables):
    store.add({name: {"command": "x", **table} for name, table in tables.items()})


def run(store, catalog, answers, names=None, **others):
    pool = Lister(answers)
    known = Servers(store=store, catalog=catalog, pin_folder=catalog.folder.parent / "pins")
    results = sync(names or list(answers), known, pool.list_tools, {}.get, **others)
    return pool, {synced.server: synced for synced in results}


def test_an_interrupted_sync_keeps_no_failure_of_the_servers_it_leaves_behind(store, catalog):
    add(store, good={}, slow={})
    over = threading.Event()

    def listed_too_late():
        assert over.wait(30)
        raise ConnectionFailed("The run is over", where=Where(server="slow", phase="list"))

    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(store, catalog, {"good": listing("a"), "slow": listed_too_late}, on_done=interrupt)
    over.set()
    for thread in threading.enumerate():
        if thread.name.startswith("sync"):
            thread.join(30)
    assert read_failure(catalog.folder, "slow") == ""


def test_a_failing_server_neither_stops_the_others_nor_loses_what_was_known(store, catalog):
    add(store, good={}, bad={}, deep={})
    run(store, catalog, {"good": listing("a"), "bad": listing("b")})
    failure = ConnectionFailed("no", where=Where(server="bad", phase="start"))
    answers = {"good": listing("a", "c"), "bad": failure, "deep": RecursionError("too deep")}
    done = []
    _, results = run(store, catalog, answers, on_done=done.append)
    assert results["good"].changes.added == ("c",)
    assert results["bad"].error is failure
    assert catalog.find("mcp-bad-b")
    assert "too deep" in results["deep"].error.message
    assert results["deep"].error.suggestions
    assert {results[name].to_dict()["error"]["type"] for name in ("bad", "deep")} == {"connection"}
    assert {synced.server for synced in done} == {"good", "bad", "deep"}


def test_the_config_says_which_tools_are_registered_and_misspelt_names_are_noted(store, catalog):
    add(store, a={"tools": {"allow": ["get_*"], "deny": ["*_secret"]}, "rename": {"gone": "x"}})
    _, results = run(store, catalog, {"a": listing("get_a", "get_secret", "put")})
    assert (results["a"].tools_discovered, results["a"].tools_registered) == (3, 1)
    assert any("gone" in note for note in results["a"].notes)
    assert catalog.tool("a", "put")  # kept: the config can change without a sync


def test_a_variable_that_is_not_set_is_noted(store, catalog):
    add(store, a={"env": {"KEY": "${NO_SUCH_VARIABLE}"}})
    _, results = run(store, catalog, {"a": listing()})
    assert any("NO_SUCH_VARIABLE" in note for note in results["a"].notes)


def test_the_era_of_the_last_sync_is_passed_on_while_the_config_is_the_same(store, catalog):
    add(store, a={})
    assert launch("a", store, catalog, os.environ.get).era is None
    run(store, catalog, {"a": listing()})
    assert launch("a", store, catalog, os.environ.get).era == "modern"
    pool, _ = run(store, catalog, {"a": listing()})
    assert pool.launches["a"].era is None  # a sync finds it out anew
    add(store, a={"args": ["other"]})
    assert launch("a", store, catalog, os.environ.get).era is None


def test_what_the_config_forbids_is_the_error_of_that_server(store, catalog):
    add(store, off={"disabled": True}, unset={"args": ["${NO_SUCH_VARIABLE}"]}, on={})
    names = ["off", "unset", "missing", "on"]
    _, results = run(store, catalog, {"on": listing("x")}, names)
    assert "disabled" in results["off"].error.message
    assert results["unset"].error.kind == "config"
    assert results["missing"].error.kind == "not_found"
    assert results["on"].error is None


def test_instructions_that_hide_text_withhold_all_tools_from_the_first_sync_on(store, catalog):
    add(store, sly={}, easy={"trust": "auto"})
    answer = listing("one", info=ServerInfo(name="x", instructions="Be polite.\U000e0041"))
    _, results = run(store, catalog, {"sly": answer, "easy": answer})
    assert "hide text" in results["sly"].comparison.unapproved
    assert "hide text" in catalog.head("sly").unapproved
    assert not catalog.head("easy").unapproved


def test_a_server_with_corrupt_pins_is_not_asked(store, catalog):
    add(store, torn={})
    pins = catalog.folder.parent / "pins"
    pins.mkdir()
    (pins / "torn.json").write_text('{"schema_version": 1')
    pool, results = run(store, catalog, {"torn": listing("one")})
    assert results["torn"].error.exit_code == 2
    assert not pool.launches


def test_no_more_servers_are_asked_at_once_than_are_allowed(catalog, store):
    names = [f"s{number}" for number in range(6)]
    store.add({name: {"command": "x"} for name in names})
    running, most, lock = 0, 0, threading.Lock()
    both = threading.Barrier(2)

    def answer():
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        both.wait(20)
        with lock:
            running -= 1
        return listing("now")

    known = Servers(store=store, catalog=catalog, pin_folder=catalog.folder.parent / "pins")
    pool = Lister(dict.fromkeys(names, answer))
    found = sync(names, known, pool.list_tools, lambda name: None, at_once=2)
    assert [each.error for each in found] == [None] * 6
    assert most == 2


def test_a_failure_is_kept_until_it_is_forgotten(tmp_path):
    folder = tmp_path / "servers"
    assert read_failure(folder, "clock") == ""
    forget_failure(folder, "clock")
    keep_failure(folder, "clock", "Command not found: clöck")
    assert read_failure(folder, "clock") == "Command not found: clöck"
    assert read_failure(folder, "other") == ""
    forget_failure(folder, "clock")
    assert read_failure(folder, "clock") == ""


def test_a_folder_that_cannot_be_written_does_not_fail_the_sync(tmp_path):
    folder = tmp_path / "file"
    folder.write_text("")
    keep_failure(folder, "clock", "Command not found")
    assert read_failure(folder, "clock") == ""
