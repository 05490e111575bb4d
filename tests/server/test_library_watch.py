"""Clients learn of changes of the library."""

import asyncio
import threading

import anyio
import pytest
from conversations import talk
from mcp.client.subscriptions import listen

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.server import client_notifications
from pflow_mcp_plugin.server.client_notifications import ListChanges, watched
from pflow_mcp_plugin.server.offer import Offer
from pflow_mcp_plugin.server.pflow_server import build_server

GREET = {"nodes": [{"id": "greet", "type": "echo", "params": {"message": "hello"}}]}


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Libraries are looked at every few milliseconds."""
    monkeypatch.setattr(client_notifications, "INTERVAL", 0.005)


@pytest.fixture
def server(pflow_host):
    """pflow, which looks at its library every few milliseconds."""
    offer = Offer(pflow_host.host, workflows=("*",))
    options = offer.options()
    return build_server(pflow_host.host, offer.tools, options)


def test_a_client_that_listens_is_told_of_a_saved_workflow(server, pflow_host):
    async def conversation(client):
        async with listen(client.session, tools_list_changed=True, resources_list_changed=True) as events:
            pflow_host.host.library.save("greet", GREET)
            seen = {type(await anext(events)).__name__, type(await anext(events)).__name__}
        return seen, [tool.name for tool in (await client.list_tools()).tools][-1]

    seen, last = talk(server, conversation)
    assert seen == {"ToolsListChanged", "ResourcesListChanged"}
    assert last == "greet"


def test_nobody_is_promised_to_be_told_of_changes_of_one_resource(server):
    async def conversation(client):
        uris = ["pflow://workflows/greet"]
        async with listen(client.session, tools_list_changed=True, resource_subscriptions=uris) as events:
            honored = events.honored
        return client.session.server_capabilities.resources.subscribe, honored

    subscribe, honored = talk(server, conversation)
    assert subscribe is False
    assert (honored.tools_list_changed, honored.resource_subscriptions) == (True, None)


@pytest.mark.parametrize("listing", ["list_tools", "list_resources"])
def test_a_client_of_the_handshake_that_has_seen_a_list_is_notified(server, pflow_host, listing):
    told = {"ToolListChangedNotification": anyio.Event(), "ResourceListChangedNotification": anyio.Event()}

    async def take(message):
        if (name := type(message).__name__) in told:
            told[name].set()

    async def conversation(client):
        await getattr(client, listing)()
        pflow_host.host.library.save("greet", GREET)
        for event in told.values():
            await event.wait()
        return (await client.list_tools()).tools[-1].name

    assert talk(server, conversation, "legacy", message_handler=take) == "greet"


class Shelf:
    """A library that counts how often it is looked at."""

    def __init__(self):
        self.looks = asyncio.Semaphore(0)
        self.state = "a"
        self.broken = False

    def fingerprint(self):
        self.looks.release()
        if self.broken:
            raise PflowError("unreadable")
        return self.state


class Audience(ListChanges):
    """Records what is announced."""

    def __init__(self):
        super().__init__()
        self.there = True
        self.asked = asyncio.Semaphore(0)
        self.announced = asyncio.Queue()

    @property
    def has_audience(self):
        self.asked.release()
        return self.there

    async def announce(self, changed):
        self.announced.put_nowait(changed)


async def times(number, semaphore):
    """Wait until a semaphore has been released some times more."""
    for _ in range(number):
        await asyncio.wait_for(semaphore.acquire(), 10)


def test_nothing_is_read_while_nobody_would_learn_of_it():
    async def main():
        shelf, changes = Shelf(), Audience()
        changes.there = False
        async with watched(shelf, changes, ["tools"]):
            await times(1, shelf.looks)
            shelf.state = "b"
            await times(3, changes.asked)
            assert shelf.looks.locked()
            changes.there = True  # it learns of what changed before
            assert await asyncio.wait_for(changes.announced.get(), 10) == "tools"

    asyncio.run(main())


def test_a_library_that_cannot_be_read_has_not_changed():
    async def main():
        shelf, changes = Shelf(), Audience()
        async with watched(shelf, changes, ["tools"]):
            await times(1, shelf.looks)
            shelf.broken = True
            await times(3, shelf.looks)
            assert changes.announced.empty()
            shelf.broken, shelf.state = False, "b"
            assert await asyncio.wait_for(changes.announced.get(), 10) == "tools"

    asyncio.run(main())


def test_the_watch_ends_with_its_block_and_leaves_no_thread():
    before = threading.active_count()

    async def main():
        async with watched(Shelf(), Audience(), ["tools"]):
            await asyncio.sleep(0)
        return [task.get_name() for task in asyncio.all_tasks() if "library" in task.get_name()]

    assert asyncio.run(main()) == []
    assert threading.active_count() == before
