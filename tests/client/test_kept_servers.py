"""Servers that are kept between the runs of one caller: their state, their end, whose calls are cancelled."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import attrs
import pytest
from programs import until

from pflow_mcp_plugin.client import Pool, kept_servers
from pflow_mcp_plugin.client.kept_servers import KeptServers, Share
from pflow_mcp_plugin.client.supervisor import OnStart
from pflow_mcp_plugin.contract import Keeper
from pflow_mcp_plugin.errors import CallFailed, McpError
from pflow_mcp_plugin.exchange import CallResult, Launch, ToolCall
from pflow_mcp_plugin.processes.reaper_process import marked_processes

STAYS = "import time; time.sleep(60)"
NOTES = """
known, asked = state.setdefault("known", []), request["params"]["arguments"]
reply({"content": [], "isError": "recall" in asked and asked["recall"] not in known})
known.append(asked.get("remember"))
"""


def opened(warn: Callable[[str], None], on_start: OnStart) -> Pool:
    return Pool(warn, on_start=on_start)


@pytest.fixture
def notes(scripted: Callable[..., Launch]) -> Launch:
    """A server that knows what it was told."""
    return scripted(NOTES)


@pytest.fixture
def kept() -> Iterator[KeptServers]:
    made = KeptServers(opened)
    yield made
    made.close()
    assert not running()


def running() -> int:
    """Return the number of servers of this process."""
    return len(marked_processes(f"{os.getpid()}-"))


def joined(kept: KeptServers, warn: Callable[[str], None] = print, **options: Any) -> Any:
    """Return the context of a share."""
    return kept.share(warn, options.pop("on_start", lambda _: lambda _: None), **options)


def act(share: Share, launch: Launch, **arguments: object) -> CallResult:
    return share.call(launch, ToolCall(server=launch.server.name, tool="act", arguments=arguments))


def remember(share: Share, launch: Launch, key: str) -> None:
    act(share, launch, remember=key)


def recalls(share: Share, launch: Launch, key: str) -> bool:
    return not act(share, launch, recall=key).is_error


def test_a_run_finds_the_state_that_an_earlier_one_left(kept, notes):
    with joined(kept) as first:
        remember(first, notes, "a")
    with joined(kept) as second:
        assert recalls(second, notes, "a")
        assert running() == 1


def test_a_server_that_no_run_uses_is_ended_after_a_while_and_started_again(notes):
    kept = KeptServers(opened, idle_seconds=0.05)
    with joined(kept) as share:
        remember(share, notes, "a")
    until(lambda: not running())
    with joined(kept) as share:
        assert not recalls(share, notes, "a")
    kept.close()


def test_a_server_that_a_run_uses_is_not_ended_however_long_that_run_waits(notes):
    others = {*threading.enumerate()}
    kept = KeptServers(opened, idle_seconds=0)
    with joined(kept) as slow:
        remember(slow, notes, "a")
        with joined(kept) as quick:
            assert recalls(quick, notes, "a")
        assert not any(isinstance(each, threading.Timer) for each in {*threading.enumerate()} - others)
        assert recalls(slow, notes, "a")
    until(lambda: not running())
    kept.close()


def test_closing_waits_for_the_runs_that_go_on(kept, notes):
    with joined(kept) as share:
        remember(share, notes, "a")
        kept.close()
        assert recalls(share, notes, "a")
    assert not running()
    with joined(kept) as late:  # a run that had begun when its caller left
        remember(late, notes, "b")
    assert not running()


def test_cancelling_a_run_ends_its_calls_alone(kept, scripted):
    slow = scripted("if request['params']['arguments'].get('wait'): " + STAYS + "\nreply({'content': []})")
    quick = scripted()
    with joined(kept) as one, joined(kept) as other, ThreadPoolExecutor(1) as threads:
        act(other, quick)
        waiting = threads.submit(act, one, slow, wait=True)
        until(lambda: running() == 2)
        one.cancel()
        with pytest.raises(McpError) as failed:
            waiting.result(20)
        assert failed.value.ran == "unknown"
        with pytest.raises(McpError) as refused:
            act(one, quick)
        assert refused.value.ran == "not ran"
        assert not act(other, quick).is_error


@pytest.mark.parametrize("change", ["config", "tools"])
def test_a_server_is_started_anew_once_its_config_changed_or_a_sync_found_other_tools(kept, notes, change):
    before = attrs.evolve(notes, synced="sha256:one")
    changed = attrs.evolve(before, synced="sha256:other")
    if change == "config":
        changed = attrs.evolve(before, server=attrs.evolve(notes.server, call_timeout=50))
    with joined(kept) as first:
        remember(first, before, "a")
    for _ in range(2):
        with joined(kept) as later:
            assert not recalls(later, changed, "a")
            remember(later, changed, "b")
    with joined(kept) as later:
        assert recalls(later, changed, "b")
        until(lambda: running() == 1)


def test_no_more_are_kept_than_may_be(kept, notes, monkeypatch):
    monkeypatch.setattr(kept_servers, "MOST_IDLE", 2)
    named = [attrs.evolve(notes.server, name=f"notes{number}") for number in range(4)]
    servers = [attrs.evolve(notes, server=server) for server in named]
    for server in servers:
        with joined(kept) as share:
            remember(share, server, "a")
    until(lambda: running() == 2)
    with joined(kept) as share:
        assert [recalls(share, server, "a") for server in reversed(servers)] == [True, True, False, False]


def test_a_server_that_ends_after_each_call_is_started_for_every_run(kept, scripted):
    """Within one run it is not started again after five times."""
    for _ in range(7):
        with joined(kept, lambda _: None) as share:
            assert not act_once(share, scripted).is_error


def act_once(share: Share, scripted: Callable[..., Launch]) -> CallResult:
    """Call a server that ends after its answer, also if the end of the last one was not noticed yet."""
    server = scripted("reply({'content': []}); sys.stdout.flush(); os._exit(0)")
    while True:
        with suppress(CallFailed):
            return act(share, server)


def test_starts_and_losses_are_told_to_the_runs_that_are_there(kept, scripted):
    started, warned, absent = [], [], []

    def start(name: str) -> Callable[[str], object]:
        started.append(name)
        return started.append

    with joined(kept, absent.append):
        pass
    with joined(kept, warned.append, on_start=start) as share:
        act_once(share, scripted)
        until(lambda: not running())
        act_once(share, scripted)
    assert started[:2] == ["odd", ""]
    assert any("state is lost" in line for line in warned)
    assert absent == []


def test_a_secret_that_one_run_learned_is_redacted_in_the_others(notes):
    launches: list[Launch] = []

    class Noting(Pool):
        def call(self, launch: Launch, *arguments: Any, **options: Any) -> CallResult:
            launches.append(launch)
            return super().call(launch, *arguments, **options)

    kept = KeptServers(lambda warn, on_start: Noting(warn, on_start=on_start))
    first, second, third = set(), set(), set()
    with joined(kept, add_secrets=first.update) as share, joined(kept, add_secrets=second.update):
        remember(share, notes, "a")
        launches[0].learn(["fresh-access-token"])
    with joined(kept, add_secrets=third.update):
        pass
    kept.close()
    assert first == second == third == {"fresh-access-token"}


def test_many_runs_at_once_share_one_server(kept, notes):
    def run(number: int) -> bool:
        with joined(kept) as share:
            remember(share, notes, f"k{number}")
            return recalls(share, notes, f"k{number}")

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(run, range(16)))
    assert running() == 1


def test_a_keeper_makes_an_object_once_and_closes_it():
    class Thing:
        closed = 0

        def close(self) -> None:
            self.closed += 1

    keeper = Keeper()
    get = partial(keeper.get, "thing", Thing)
    with ThreadPoolExecutor(8) as threads:
        things = list(threads.map(lambda _: get(), range(50)))
    assert len(set(map(id, things))) == 1
    assert not things[0].closed
    keeper.close()
    assert things[0].closed
    assert keeper.get("late", Thing).closed  # of a run that began just before
