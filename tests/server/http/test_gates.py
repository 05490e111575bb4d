"""The gates and limits of the application, handed one request without a socket."""

import json
from types import SimpleNamespace
from unittest.mock import AsyncMock

import anyio
import pytest
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from pflow_mcp_plugin.contract import PflowError, RunControl, RunOrigin
from pflow_mcp_plugin.server.http import http_app, request_tokens
from pflow_mcp_plugin.server.http.http_app import AppOptions, RequestLimits, TokenGate, note_call, refuse
from pflow_mcp_plugin.server.http.listening_address import ListeningAddress
from pflow_mcp_plugin.server.http.request_tokens import BearerToken, KeptByToken, Refusal, http_caller


def handled(app, *, body=b"", headers=None, path="/mcp", meanwhile=None):
    """Let an application handle a request; return the status, headers and body of its answer."""
    sent = []

    async def main():
        messages = [{"type": "http.request", "body": body}]

        async def receive():
            return messages.pop() if messages else await anyio.sleep_forever()

        async def send(message):
            sent.append(message)

        fields = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                if meanwhile:
                    tasks.start_soon(meanwhile, sent)
                await app({"type": "http", "path": path, "headers": fields}, receive, send)

    anyio.run(main)
    start, *rest = sent
    fields = {name.decode(): value.decode() for name, value in start["headers"]}
    return start["status"], fields, b"".join(message["body"] for message in rest)


def limits(app, **more):
    given = {"max_request_size": 4, "max_requests": 1, "request_timeout": 30, **more}
    address = ListeningAddress(host="127.0.0.1", port=80)
    return RequestLimits(app=app, options=AppOptions(address=address, check=BearerToken("x" * 16), **given))


async def echo(scope, receive, send):
    await refuse(send, 200, "none", (await receive())["body"].decode())


@pytest.mark.parametrize(
    ("body", "length", "status"),
    [(b"1234", None, 200), (b"1234", "4", 200), (b"12345", None, 413), (b"", "5", 413), (b"", "four", 413)],
)
def test_a_request_has_at_most_the_bytes_that_are_allowed(body, length, status):
    found, headers, content = handled(
        limits(echo), body=body, headers={"content-length": length} if length else {}
    )
    assert (found, headers["cache-control"], headers["content-length"]) == (
        status,
        "no-store",
        str(len(content)),
    )
    expected = {"error_description": body.decode()} if status == 200 else {"error": "too_large"}
    assert json.loads(content).items() >= expected.items()


STREAM = [(b"content-type", b"text/event-stream; charset=utf-8")]


def begins(headers, *, more=True, run=""):
    """An application that begins an answer, perhaps with a run, and never ends."""
    control = RunControl()
    control.run_id = run

    async def app(scope, receive, send):
        note_call(control)
        if headers is not None:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b": begun", "more_body": more})
        await anyio.sleep_forever()

    return app


@pytest.mark.parametrize(
    ("app", "status", "said"),
    [
        (begins(None), 504, 'more than 0.05 seconds"'),
        (begins(None, run="r7"), 504, "more than 0.05 seconds; run r7 was cancelled"),
        (
            begins(STREAM),
            200,
            '"id": 7, "error": {"code": -32603, "message": "The request took more than 0.05',
        ),
        (begins([]), 200, ": begun"),
        (begins(STREAM, more=False), 200, " "),
    ],
    ids=["nothing", "a run", "a stream", "another answer", "a whole answer"],
)
def test_a_request_that_takes_too_long_is_broken_off_whatever_was_sent(app, status, said):
    request_ = b'{"id": 7}'
    found, headers, content = handled(
        limits(app, max_request_size=20, request_timeout=0.05), body=request_, headers={}
    )
    assert (found, "retry-after" in headers) == (status, False)
    assert said in content.decode()
    if found == 200 and "error" not in said:
        assert content.decode() == said


LISTENS = {"mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}


@pytest.mark.parametrize(
    ("headers", "end"),
    [({}, RequestLimits.cancel), (LISTENS, RequestLimits.cancel), (LISTENS, RequestLimits.drain)],
)
def test_what_runs_is_ended_when_the_server_shuts_down(headers, end):
    async def shut_down(_sent):
        await anyio.wait_all_tasks_blocked()
        end(serving_)

    timeout = 0.01 if headers else 30  # streams that clients listen on have none
    serving_ = limits(begins(None), request_timeout=timeout)
    status, fields, content = handled(serving_, headers=headers, meanwhile=shut_down)
    assert (status, fields["retry-after"], b"shutting down" in content) == (503, "1", True)
    assert not serving_._answering | serving_._listening


ANN = AuthenticatedUser(AccessToken(token="t", client_id="c", scopes=[], subject="ann"))


@pytest.mark.parametrize(
    ("session", "number", "more", "status"),
    [
        ("s", 7, {}, 400),
        ("t", 7, {}, 504),
        ("s", 8, {}, 504),
        ("s", "7", {}, 504),
        ("s", 7, {"user": ANN}, 504),
    ],
)
def test_a_message_cancels_the_call_with_its_owner_session_and_number(
    monkeypatch, session, number, more, status
):
    monkeypatch.setattr(http_app, "_CLOSING_SECONDS", 0)
    limited = limits(begins(None), max_request_size=100, max_requests=2, request_timeout=0.3)

    async def cancel(_sent):
        await anyio.wait_all_tasks_blocked()
        body = {"method": "notifications/cancelled", "params": {"requestId": number}}
        scope = {"type": "http", "headers": [(b"mcp-session-id", session.encode())], **more}
        with anyio.move_on_after(0):
            message = {"type": "http.request", "body": json.dumps(body).encode()}
            await limited(scope, AsyncMock(return_value=message), AsyncMock())

    headers = {"mcp-session-id": "s"}
    assert handled(limited, body=b'{"id": 7}', headers=headers, meanwhile=cancel)[0] == status
    assert not limited._calls


def gate(verdict, **more):
    async def check(token):
        return verdict if token == "right" else Refusal(reason="wrong")

    return TokenGate(app=echo, check=SimpleNamespace(check=check), **more)


@pytest.mark.parametrize(
    ("given", "verdict", "status", "challenge"),
    [
        ("bearer  right ", AccessToken(token="right", client_id="c", scopes=[]), 200, None),
        (None, None, 401, 'Bearer realm="pflow", resource_metadata="https://m"'),
        ("Basic right", None, 401, 'error="invalid_token"'),
        ("Bearer", None, 401, 'error="invalid_token"'),
        ("Bearer right", Refusal(error="insufficient_scope", reason="no", scope="a b"), 403, 'scope="a b"'),
        ("Bearer right", Refusal(error="temporarily_unavailable", reason="later"), 503, None),
    ],
)
def test_a_refusal_of_a_token_says_what_is_needed(given, verdict, status, challenge):
    headers = {"authorization": given} if given else {}
    found, fields, body = handled(gate(verdict, metadata_url="https://m"), headers=headers)
    assert (found, fields.get("retry-after")) == (status, "5" if status == 503 else None)
    if status != 200:
        assert json.loads(body)["error"] == (getattr(verdict, "error", "") or "invalid_token")
    said = fields.get("www-authenticate")
    assert said is None if challenge is None else challenge in said
    assert handled(gate(verdict, open_paths=frozenset({"/open"})), path="/open")[0] == 200


def sent_with(token, work, **more):
    """Do something while a request with a token is handled."""
    access = AccessToken(token=token, client_id="c", scopes=[], **more)
    before = auth_context_var.set(AuthenticatedUser(access))
    try:
        return work()
    finally:
        auth_context_var.reset(before)


def test_what_is_kept_for_a_token_is_closed_once_others_were_used_since(monkeypatch):
    monkeypatch.setattr(request_tokens, "MOST_TOKENS", 2)
    closed = []
    kept = KeptByToken()
    keepers = {}
    for token in "abac":
        keepers[token] = sent_with(token, kept.keeper)
        keepers[token].get("k", lambda token=token: SimpleNamespace(close=lambda: closed.append(token)))
    assert closed == ["b"]
    assert sent_with("a", kept.keeper) is keepers["a"]
    kept.close()
    assert sorted(closed) == ["a", "b", "c"]


def test_the_owner_of_a_request_is_the_subject_at_its_issuer_or_the_user():
    context = SimpleNamespace(meta={"traceparent": "00-1"})
    claims = {"iss": "https://issuer"}
    owner = sent_with("t", lambda: http_caller(context), subject="ann", claims=claims)
    assert owner == RunOrigin(owner="https://issuer ann", trace_parent="00-1")
    assert sent_with("t", lambda: http_caller(SimpleNamespace(meta=None))) == RunOrigin()
    with pytest.raises(PflowError, match="no token"):
        http_caller(context)
