"""The listener takes the one redirect that is waited for, says what came of it, and leaves nothing open."""

import asyncio
from urllib.parse import urlsplit

import pytest

from pflow_mcp_plugin.client.oauth import login_flows
from pflow_mcp_plugin.client.oauth.login_flows import LoopbackListener
from pflow_mcp_plugin.client.request_failures import NoAccessToken


async def sent(listener, text):
    """Send a request as it is and return the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(listener))
    writer.write(text.encode())
    answer = (await asyncio.wait_for(reader.read(), 20)).decode()
    writer.close()
    return answer


def get(target):
    return f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def port_of(listener):
    return urlsplit(listener.redirect_uri).port


async def received(listener, *others):
    """Wait for the redirect with the state `s`, after other requests; return their answers, and all of it."""
    waiting = asyncio.create_task(listener.response("s"))
    await asyncio.sleep(0)
    answers = [await sent(listener, other) for other in others]
    assert not waiting.done()
    arriving = asyncio.create_task(sent(listener, get("/callback?state=s&code=c")))
    return answers, await waiting, arriving


def test_the_redirect_that_is_waited_for_is_taken_and_its_page_says_what_came_of_it():
    async def main():
        async with LoopbackListener() as listener:
            _, fields, arriving = await received(listener)
            listener.tell("Signed in", "Hello <script>alert(1)</script> & 'all'")
        return fields, await arriving

    fields, page = asyncio.run(main())
    assert fields == {"state": "s", "code": "c"}
    assert page.startswith("HTTP/1.1 200 OK\r\n")
    assert "<h1>Signed in</h1>" in page
    assert "Hello &lt;script&gt;alert(1)&lt;/script&gt; &amp; &#x27;all&#x27;" in page
    assert "Content-Security-Policy: default-src 'none'" in page
    assert "Referrer-Policy: no-referrer" in page
    assert "code=c" not in page


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (get("/callback?state=wrong&code=planted"), 400),
        (get("/callback?state=s&state=s&code=planted"), 400),
        (get("/favicon.ico"), 404),
        (get("//127.0.0.1/callback?state=s"), 404),
        (get("/callback/?state=s&code=planted"), 404),
        (get("http://[/callback"), 404),
        ("POST /callback?state=s&code=planted HTTP/1.1\r\n\r\n", 405),
        ("\r\n\r\n", 404),
    ],
)
def test_anything_else_is_refused_and_the_wait_goes_on(request_text, status):
    async def main():
        async with LoopbackListener() as listener:
            answers, fields, arriving = await received(listener, request_text)
            listener.tell("Signed in", "")
        await arriving
        return answers[0], fields

    answer, fields = asyncio.run(main())
    assert answer.startswith(f"HTTP/1.1 {status} ")
    assert "planted" not in answer
    assert fields["code"] == "c"


def test_nothing_is_taken_before_there_is_a_state():
    async def main():
        async with LoopbackListener() as listener:
            return await sent(listener, get("/callback?state=&code=c"))

    assert asyncio.run(main()).startswith("HTTP/1.1 400 ")


def test_a_page_that_is_loaded_twice_gets_the_same_answer():
    async def main():
        async with LoopbackListener() as listener:
            _, fields, arriving = await received(listener)
            again = asyncio.create_task(sent(listener, get("/callback?state=s&code=other")))
            await asyncio.sleep(0.05)
            listener.tell("Signed in", "Once")
        return fields, await arriving, await again

    fields, first, second = asyncio.run(main())
    assert fields["code"] == "c"
    assert first == second


def test_connections_that_say_nothing_or_too_much_do_not_keep_it():
    async def main():
        async with LoopbackListener() as listener:
            port = port_of(listener)
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            assert await sent(listener, "GET /" + "x" * 99_999 + " HTTP/1.1\r\n\r\n") == ""
        for _, writer in silent:
            writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    asyncio.run(asyncio.wait_for(main(), 5))


def test_a_wait_ends_after_some_minutes(monkeypatch):
    monkeypatch.setattr(login_flows, "_MINUTES", 0.001)

    async def main():
        async with LoopbackListener() as listener:
            await listener.response("s")

    with pytest.raises(NoAccessToken, match=r"nobody signed in within 0\.001 minutes"):
        asyncio.run(main())


def test_a_port_can_be_asked_for_and_only_this_machine_reaches_it():
    async def main():
        async with LoopbackListener() as first:
            port = port_of(first)
            with pytest.raises(OSError, match="address already in use"):
                async with LoopbackListener(port):
                    pass
        async with LoopbackListener(port) as again:
            assert again.redirect_uri == first.redirect_uri == f"http://127.0.0.1:{port}/callback"

    asyncio.run(main())
