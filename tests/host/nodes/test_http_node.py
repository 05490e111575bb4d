"""The node `http` against real servers on loopback, with TLS where that matters."""

import asyncio
import base64
import gzip
import re
import socket
import ssl
import zlib
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pocketflow
import pytest
from http_server import FaultServer, Proxy, always
from resolver import Names
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.contract import NetworkRules, PflowError, RunControl, RunOptions, RunOrigin
from pflow_mcp_plugin.contract.problems import STATUS_ACTIONS
from pflow_mcp_plugin.contract.run_requests import Keeper
from pflow_mcp_plugin.host.nodes import http_request
from pflow_mcp_plugin.host.nodes.http_node import Http
from pflow_mcp_plugin.host.running.recorded_run import StepOfRun
from pflow_mcp_plugin.network.http_headers import next_link

NAME = "api.example.com"
MIB = 1 << 20
JSON = b'\xef\xbb\xbf{"a": "\xc3\xbc"}'

BASIC = base64.b64encode(b"ann:pass-4711").decode()
BEARER = {"type": "bearer", "token": "tok-4711"}

pytestmark = [pytest.mark.timeout(40), pytest.mark.usefixtures("no_leftovers", "bare_network")]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(http_request, "FIRST_PAUSE", 0.01)


@pytest.fixture
def serve():
    """Start servers that answer each request with what their script says."""
    with ExitStack() as stack:
        yield lambda script, *given, **place: stack.enter_context(
            FaultServer(always(script), *given, **place)
        )


@pytest.fixture
def echo(serve):
    """Start a server that answers with the request."""

    async def script(request, reply):
        shown = {"method": request.method, "target": request.target, "headers": dict(request.headers)}
        await reply.json({**shown, "body": request.body.decode("latin-1")})

    return serve(script)


@pytest.fixture
def rules(bench):
    """Set the rules of the network."""

    def set_rules(**fields):
        def pflow_run_context(run):
            run.resources["network"] = lambda: NetworkRules(**fields)

        bench.plug(pflow_run_context=pflow_run_context)

    return set_rules


@pytest.fixture
def names(monkeypatch):
    made = Names()
    monkeypatch.setattr(socket, "getaddrinfo", made)
    return made


def http(url, **params):
    return step("get", "http", {"url": url, **params})


def got(bench, url, **params):
    outcome = bench.run(flow(http(url, **params)))
    assert outcome.error is None, outcome.error
    return outcome.outputs


def fails(bench, url, match="", **params):
    outcome = bench.run(flow(http(url, **params)))
    assert outcome.error is not None
    assert match in str(outcome.error)
    return outcome.error


def showing(message, url, **params):
    """A workflow that shows outputs of a request which has failed."""
    return flow(
        http(url, **params), step("show", "echo", {"message": message}), edges=[edge("get", "show", "error")]
    )


def answering(code=200, body=b"", **headers):
    async def script(request, reply):
        await reply.status(code, body, **headers)

    return script


def in_turn(*scripts):
    left = list(scripts)

    async def script(request, reply):
        await (left.pop(0) if len(left) > 1 else left[0])(request, reply)

    return script


async def cut(request, reply):
    reply.reset()


async def silent(request, reply):
    await asyncio.sleep(30)


async def half(request, reply):
    await reply.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf")
    reply.close()


def redirecting(location, code=302):
    return answering(code, location=location)


def pages(last=None, body=lambda number: [number]):
    """Answer with a page, whose header leads to the next one unless it is the last."""

    async def script(request, reply):
        number = int(request.target.partition("p=")[2] or 1)
        link = f'<?p={number + 1}>; rel="next", <?p=1>; rel=first'
        await reply.json(body(number), **({} if number == last else {"link": link}))

    return script


@pytest.fixture
def unused():
    """A URL at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/"


def test_a_page_is_fetched_with_its_status_and_headers(bench, serve):
    server = serve(answering(body=b"hello", content_type="text/plain", X_Mark="a"))
    outputs = got(bench, server.url())
    assert (outputs["status"], outputs["body"], outputs["headers"]["x-mark"]) == (200, "hello", "a")
    assert "path" not in outputs
    (request,) = server.requests
    assert (request.method, request.headers["user-agent"]) == ("GET", "pflow")


def test_query_and_headers_reach_the_server(bench, echo):
    query = {"q": "a b&c", "n": 3, "tags": ["x", "y"], "on": True, "none": None}
    sent = got(bench, f"{echo.url()}?old=1#part", query=query, headers={"X-Count": 5})["body"]
    found = parse_qs(urlsplit(sent["target"]).query)
    assert found == {"old": ["1"], "q": ["a b&c"], "n": ["3"], "tags": ["x", "y"], "on": ["true"]}
    assert sent["headers"]["x-count"] == "5"
    assert sent["headers"]["accept-encoding"] == "gzip, deflate"  # what can be read


@pytest.mark.parametrize(
    ("body", "headers", "kind", "text"),
    [
        ({"a": [1, None]}, {}, "application/json", '{"a": [1, null]}'),
        ([], {}, "application/json", "[]"),
        ("naïve", {}, "text/plain; charset=utf-8", "naïve".encode().decode("latin-1")),
        (5, {}, "application/json", "5"),
        ({}, {"Content-Type": "application/vnd.api+json"}, "application/vnd.api+json", "{}"),
    ],
)
def test_a_body_is_text_or_json_unless_the_author_names_another_content_type(
    bench, echo, body, headers, kind, text
):
    sent = got(bench, echo.url(), method="post", body=body, headers=headers)["body"]
    assert (sent["method"], sent["headers"]["content-type"], sent["body"]) == ("POST", kind, text)


def test_a_form_is_encoded(bench, echo):
    sent = got(bench, echo.url(), method="POST", form={"a": "1&2", "b": ["x", "y"], "n": 4})["body"]
    assert sent["headers"]["content-type"] == "application/x-www-form-urlencoded"
    assert parse_qs(sent["body"]) == {"a": ["1&2"], "b": ["x", "y"], "n": ["4"]}


def test_files_are_uploaded_with_the_fields_of_a_form(bench, echo, tmp_path):
    path = tmp_path / "data.bin"
    path.write_bytes(bytes(range(256)))
    sent = got(bench, echo.url(), method="POST", form={"title": "t"}, files={"upload": str(path)})["body"]
    assert sent["headers"]["content-type"].startswith("multipart/form-data; boundary=")
    assert 'name="upload"; filename="data.bin"' in sent["body"]
    assert bytes(range(256)).decode("latin-1") in sent["body"]
    assert 'name="title"' in sent["body"]


def test_a_file_that_is_missing_or_special_is_named_before_anything_is_sent(bench, echo, tmp_path):
    for path in (tmp_path / "no", tmp_path, Path("/dev/zero")):
        error = fails(bench, echo.url(), str(path), method="POST", files={"f": str(path)})
        assert error.ran == "not ran"
    assert echo.connections == 0


@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [
        (BEARER, "authorization", "Bearer tok-4711"),
        ({"type": "basic", "username": "ann", "password": "pass-4711"}, "authorization", f"Basic {BASIC}"),
        ({"type": "header", "name": "X-API-Key", "value": "key-4711"}, "x-api-key", "key-4711"),
    ],
)
def test_auth_is_sent_and_redacted(bench, echo, auth, header, value):
    outcome = bench.run(flow(http(echo.url(), auth=auth)))
    assert outcome.outputs["body"]["headers"][header] == value
    trace = outcome.trace_path.read_text()
    assert not [it for it in ("tok-4711", "pass-4711", "key-4711", BASIC) if it in trace]


OF_A_VARIABLE = {"type": "bearer", "token": {"variable": "HTTP_TOKEN"}}


def test_a_token_may_come_from_a_variable_or_else_a_setting(bench, echo, monkeypatch):
    def sent():
        return got(bench, echo.url(), auth=OF_A_VARIABLE)["body"]["headers"]["authorization"]

    bench.host.settings.set("HTTP_TOKEN", "of-the-setting")
    assert sent() == "Bearer of-the-setting"
    monkeypatch.setenv("HTTP_TOKEN", "of-the-environment\n")
    assert sent() == "Bearer of-the-environment"


def test_a_variable_that_is_missing_is_named_with_both_ways_to_set_it(bench, echo):
    error = fails(bench, echo.url(), "HTTP_TOKEN", auth=OF_A_VARIABLE)
    assert (error.kind, error.ran, echo.connections) == ("config", "not ran", 0)
    assert any("pflow settings set HTTP_TOKEN" in step for step in error.suggestions)
    assert any("environment" in step for step in error.suggestions)


@pytest.mark.parametrize(
    "auth",
    [
        "${auth}",
        {"type": "bearer", "token": "${auth.token}"},
        {"type": "bearer", "token": {"variable": "${name}"}},
    ],
)
def test_no_template_names_a_variable(bench, echo, monkeypatch, auth):
    monkeypatch.setenv("HTTP_TOKEN", "of-the-user")
    node = http(echo.url(), auth=auth, headers={"X": "${auth.type}${name}"})
    workflow = flow(node, inputs={"auth": {"type": "dict"}, "name": {"type": "str"}})
    error = bench.run(workflow, auth=OF_A_VARIABLE, name="HTTP_TOKEN").error
    assert "must be written in the workflow" in str(error) or "must be a string" in str(error)
    assert echo.connections == 0


def test_clients_that_pflow_serves_get_neither_variables_nor_this_machine(bench, echo, monkeypatch):
    monkeypatch.setenv("HTTP_TOKEN", "of-the-user")
    for origin in (RunOrigin(keeper=Keeper()), RunOrigin(owner="ann")):
        for params, match in (
            ({"auth": OF_A_VARIABLE}, "only in runs that you start"),
            ({}, "which neither allow names nor, in a run of your own, its url as written up to a /"),
        ):
            outcome = bench.host.runner.run(flow(http(echo.url(), **params)), {}, origin=origin)
            assert match in str(outcome.error)
        (step,) = outcome.error.suggestions
        assert step.startswith('If that is intended, add "127.0.0.1" to allow in [network], or write it')
        assert step.endswith("in a workflow that you run yourself")
    assert echo.connections == 0


@pytest.mark.parametrize(
    ("params", "place", "message"),
    [
        ({"method": "GTE"}, "method", "Unknown method GTE"),
        ({"body": {}}, "body", "A GET request has no body"),
        ({"method": "POST", "body": "", "form": {}}, "body", "body excludes form and files"),
        ({"url": "https://ann:secret@example.com/"}, "url", "url contains credentials"),
        ({"url": "ftp://example.com/"}, "url", "not an http or https address"),
        ({"url": "https://example.com:x/"}, "url", "not an http or https address"),
        ({"url": "https://example.com/\r\nX: y"}, "url", "url contains '\\r', which no address may"),
        ({"expect": ["6xx"]}, "expect[0]", "6xx is not a status"),
        ({"method": "POST", "next_page": "link"}, "next_page", "POST has no pages"),
        ({"next_page": "body..next"}, "next_page", "next_page: "),
        ({"next_page": "link", "download": "x"}, "next_page", "excludes next_page"),
        ({"headers": {"X": "a\r\nB: c"}}, "headers.X", "characters that a header cannot have"),
        ({"headers": {"Host": "other"}}, "headers.Host", "set by pflow itself"),
        ({"headers": {"Authorization": "x"}, "auth": BEARER}, "headers.Authorization", "is set by auth"),
        ({"auth": {"type": "bearr"}}, "auth.type", "Unknown auth type bearr"),
        ({"auth": {"type": ["bearer"]}}, "auth.type", "Unknown auth type"),
        ({"tls_pins": [1]}, "tls_pins", "tls_pins must be strings"),
        ({"auth": {"type": "bearer"}}, "auth.token", "needs token"),
        ({"auth": {**BEARER, "tokn": "t"}}, "auth.tokn", "Unknown key tokn"),
        ({"auth": {"type": "basic", "username": "a:b", "password": "c"}}, "auth.username", "a colon"),
        ({"files": {"f": 5}, "method": "POST"}, "files", "files must be strings"),
        ({"retries": -1}, "retries", "at least 0"),
    ],
)
def test_mistakes_are_found_before_anything_runs(bench, params, place, message):
    workflow = flow(http(**{"url": "https://example.com/", **params}))
    found = [it for it in bench.host.runner.validate(workflow) if it.severity == "error"]
    assert [it.path for it in found] == [f"$.nodes[0].params.{place}"]
    assert message in found[0].message
    assert found[0].suggestion
    assert "secret" not in str(found[0])


def test_what_only_the_run_knows_is_checked_there_and_redacted(bench, echo):
    auth = {"type": "bearer", "token": "${say.message}"}
    node = http(echo.url(), auth=auth, headers={"X": "${say.message}\n"})
    workflow = flow(step("say", "echo", {"message": "tok-4711"}), node)
    assert list(bench.host.runner.validate(workflow)) == []
    outcome = bench.run(workflow)
    assert "characters that a header cannot have" in str(outcome.error)
    assert "tok-4711" not in outcome.trace_path.read_text()
    assert echo.connections == 0


def test_an_unexpected_status_fails_with_the_answer_in_the_outputs(bench, serve):
    server = serve(answering(404, b'{"why": "gone"}', content_type="application/json", X_Mark="m"))
    workflow = showing("${get.status} ${get.body.why}", server.url())
    assert bench.run(workflow).outputs["message"] == "404 gone"
    error = fails(bench, server.url(), '404 Whatever: {"why": "gone"}')
    assert (error.details["status"], error.details["headers"]["x-mark"]) == (404, "m")
    assert (error.ran, error.action) == ("ran", "resource_missing")


@pytest.mark.parametrize("action", sorted({*STATUS_ACTIONS.values()}))
def test_an_edge_takes_the_action_of_a_status_also_from_a_workflow_around_it(bench, serve, action):
    code = next(status for status, known in STATUS_ACTIONS.items() if known == action)
    inner = step("sub", "workflow", {"workflow": flow(http(serve(answering(code)).url(), retries=0))})
    outcome = bench.run(
        flow(inner, step("show", "echo", {"message": "on"}), edges=[edge("sub", "show", action)])
    )
    assert outcome.outputs == {"message": "on"}
    assert action in bench.host.registry.get("http").interface.actions


@pytest.mark.parametrize(("code", "expect"), [(404, ["404"]), (404, ["2XX", "4xx"]), (302, [302])])
def test_a_status_may_be_expected_also_that_of_a_redirect(bench, serve, code, expect):
    outputs = got(bench, serve(answering(code, b"no", location="/there")).url(), expect=expect)
    assert (outputs["status"], outputs["headers"]["location"]) == (code, "/there")


def test_a_secret_that_the_server_repeats_is_redacted_in_the_message(bench, serve):
    async def script(request, reply):
        await reply.status(400, b"bad token " + request.headers["authorization"].encode())

    error = fails(bench, serve(script).url(), "bad token", auth=BEARER)
    assert "tok-4711" not in f"{error} {error.details}"


@pytest.mark.parametrize(
    ("code", "kind", "sent", "body"),
    [
        (204, "text/plain", b"", ""),
        (200, "application/json", b"", None),
        (200, "application/json", JSON, {"a": "ü"}),
        (200, "APPLICATION/JSON", JSON, {"a": "ü"}),
    ],
)
def test_no_content_is_empty_text_or_null_and_json_is_parsed(bench, serve, code, kind, sent, body):
    assert got(bench, serve(answering(code, sent, content_type=kind)).url())["body"] == body


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"a": 1,\n "b" }', "line 2, column 6"),
        (b"[" * 100_000, "cannot be read"),
        (b"9" * 10_000, "cannot be read"),
        (b"[1e999]", "1e999 is too large"),
        (b'{"a": 1, "a": 2}', "duplicate key a"),
    ],
)
def test_json_that_is_invalid_or_would_lose_something_is_an_error(bench, serve, body, why):
    server = serve(answering(body=body, content_type="application/json"))
    error = fails(bench, server.url(), "the answer to GET")
    assert (why in str(error), error.ran) == (True, "ran")
    failed = serve(answering(500, body, content_type="application/json"))
    assert bench.run(showing("${get.body}", failed.url())).outputs["message"] == body.decode()


@pytest.mark.parametrize(
    ("kind", "body", "text", "warns"),
    [
        ("text/plain; charset=iso-8859-1", b"na\xefve", "naïve", False),
        ("text/html", b"na\xefve", "na\ufffdve", True),
        ("text/plain; charset=klingon", b"na\xc3\xafve", "naïve", True),
        ("text/plain; charset=hex", b"6e", "6e", True),
        ("text/plain; charset=\x00x", b"6e", "6e", True),
        ("text/plain", "naïve".encode("utf-16"), "naïve", False),
        ("image/svg+xml", b"<svg/>", "<svg/>", False),
    ],
)
def test_text_is_read_by_its_charset_else_as_utf_8_with_a_warning(bench, serve, kind, body, text, warns):
    async def script(request, reply):
        head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n" % len(body)
        typed = b"content-type: %s\r\n" % kind.replace("\x00", "?").encode() if kind else b""
        await reply.raw(head + typed + b"\r\n" + body)

    assert got(bench, serve(script).url())["body"] == text
    assert bool([it for it in bench.warnings if "as UTF-8" in it.message]) == warns


@pytest.mark.parametrize("kind", ["image/png", "application/octet-stream", ""])
def test_bytes_that_are_no_text_need_a_download(bench, serve, tmp_path, kind):
    body = b"\x89PNG\r\n\x1a\n\x00\xff"
    server = serve(answering(body=body, **({"content_type": kind} if kind else {})))
    error = fails(bench, server.url(), "is not text")
    assert "download" in str(error.suggestions)
    target = tmp_path / "new" / "x.png"
    outputs = got(bench, server.url(), download=str(target))
    assert (outputs["path"], outputs["body"], target.read_bytes()) == (str(target), str(target), body)


def test_a_download_replaces_a_file_as_a_whole_or_leaves_it(bench, serve, tmp_path):
    target = tmp_path / "file"
    target.write_text("old")
    target.chmod(0o640)
    for script, match, options in (
        (half, "connection was lost", {"retries": 1}),
        (answering(500), "500", {}),
        (answering(body=b"x" * 2000), "has more than", {"max_mb": 0.001}),
    ):
        fails(bench, serve(script).url(), match, download=str(target), **options)
    assert target.read_text() == "old"
    got(bench, serve(in_turn(half, answering(body=b"new"))).url(), download=str(target))
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("new", 0o640)
    assert list(tmp_path.glob(".file*")) == []


def test_a_download_does_not_touch_what_belongs_to_pflow_nor_what_is_no_file(bench, echo, tmp_path):
    own = bench.host.paths.config / "pflow.toml"
    fails(bench, echo.url(), "pflow keeps its own files", download=str(own))
    assert echo.connections == 0
    fails(bench, echo.url(), "Cannot write", download="/dev/null")
    fails(bench, echo.url(), "is a folder", download=f"{tmp_path}/new/")


@pytest.mark.parametrize(
    ("key", "value"), [("body", "a\udcff"), ("form", {"a": ["\ud83d"]}), ("query", {"a": "\ud83d"})]
)
def test_what_utf_8_cannot_hold_is_not_sent(bench, echo, key, value):
    error = fails(bench, echo.url(), "which UTF-8 cannot hold", method="POST", **{key: value})
    assert (error.ran, echo.connections) == ("not ran", 0)


ROWS = "\n".join(f"row {n}, {n * n % 9973}" for n in range(3000)).encode()
_raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
RAW_DEFLATE = _raw.compress(ROWS) + _raw.flush()
WHOLE = [
    ("gzip", gzip.compress(ROWS)),
    ("x-gzip", gzip.compress(ROWS[:999]) + gzip.compress(b"") + gzip.compress(ROWS[999:])),
    ("deflate", zlib.compress(ROWS)),
    ("deflate", RAW_DEFLATE),
    ("deflate, gzip", gzip.compress(zlib.compress(ROWS))),
]


def compressed(coding, body, size):
    """Answer with a body of a content coding, in pieces of `size` bytes."""

    async def script(request, reply):
        head = f"HTTP/1.1 200 OK\r\ncontent-type: text/csv\r\ncontent-encoding: {coding}\r\n"
        await reply.raw(f"{head}content-length: {len(body)}\r\n\r\n".encode())
        for start in range(0, len(body), size):
            await reply.raw(body[start : start + size])

    return script


@pytest.mark.parametrize("size", [1, 1 << 16])
@pytest.mark.parametrize(("coding", "body"), WHOLE)
def test_a_compressed_body_is_read_to_its_end(bench, serve, coding, body, size):
    assert got(bench, serve(compressed(coding, body, size)).url())["body"] == ROWS.decode()


@pytest.mark.parametrize(("coding", "body"), WHOLE)
@pytest.mark.parametrize("left", [lambda body: body[: len(body) // 2], lambda body: body[:-1]])
def test_a_compressed_body_that_ends_too_early_is_a_failure(bench, serve, tmp_path, coding, body, left):
    url = serve(compressed(coding, left(body), 1 << 16)).url()
    error = fails(bench, url, "cannot be decompressed: it is incomplete")
    assert error.suggestions == ("Report it to whoever runs the server",)
    fails(bench, url, "cannot be decompressed: it is incomplete", download=str(tmp_path / "file"))
    assert list(tmp_path.glob("*file*")) == []


@pytest.mark.parametrize("more", [b"\0" * 512, b"\x1fx\x1f\x8b"])
@pytest.mark.parametrize("size", [1, 1 << 16])
def test_what_follows_the_last_gzip_member_is_ignored_and_an_empty_body_is_empty(bench, serve, more, size):
    body = gzip.compress(b"well") + more
    assert got(bench, serve(compressed("gzip", body, size)).url())["body"] == "well"
    assert got(bench, serve(compressed("gzip", b"", size)).url())["body"] == ""


def test_a_status_is_reported_even_if_its_body_is_incomplete(bench, serve):
    script = answering(500, gzip.compress(ROWS)[:500], content_encoding="gzip")
    fails(bench, serve(script).url(), "was answered with 500", retries=0)


async def endless(request, reply):
    await reply.raw(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 10000000000\r\n\r\n")
    zeros = bytes(MIB)
    for _ in range(10_000):
        await reply.raw(zeros)


async def bomb(request, reply):
    one = gzip.compress(bytes(64 * MIB))
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-encoding: gzip\r\n"
    await reply.raw(head + b"content-length: %d\r\n\r\n" % (len(one) * 100))
    for _ in range(100):
        await reply.raw(one)


@pytest.mark.parametrize("script", [endless, bomb])
def test_ten_gigabytes_end_at_the_limit(bench, serve, tmp_path, script):
    fails(bench, serve(script).url(), "has more than 32 MiB")
    fails(bench, serve(script).url(), "has more than 1 MiB", max_mb=1)
    fails(bench, serve(script).url(), "has more than 40 MiB", max_mb=40, download=str(tmp_path / "big"))
    assert list(tmp_path.glob("*big*")) == []


async def drip(request, reply):
    await reply.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
    while True:
        await reply.raw(b"x")
        await asyncio.sleep(0.02)


def test_a_slow_drip_ends_with_the_timeout(bench, serve):
    error = fails(bench, serve(drip).url(), "was not done after 0.5 s", timeout=0.5)
    assert (error.action, error.retryable) == ("timeout", True)


def test_endless_headers_end(bench, serve):
    async def script(request, reply):
        await reply.raw(b"HTTP/1.1 200 OK\r\n")
        for _ in range(1000):
            await reply.raw(b"x-more: " + b"y" * 1000 + b"\r\n")

    fails(bench, serve(script).url(), "GET", retries=0)


@pytest.mark.parametrize("first", [[answering(503)], [answering(429, retry_after="0")], [cut], [half, half]])
def test_a_get_is_sent_again(bench, serve, first):
    server = serve(in_turn(*first, answering(body=b"well")))
    assert got(bench, server.url())["body"] == "well"
    assert len(server.requests) == len(first) + 1


def test_retries_have_an_end_and_may_be_none(bench, serve):
    for retries in (0, 2):
        server = serve(answering(503))
        error = fails(bench, server.url(), "503", retries=retries)
        assert error.retryable
        assert len(server.requests) == retries + 1


def test_a_retry_waits_as_long_as_it_is_asked_to_unless_that_is_too_long(bench, serve):
    then = format_datetime(datetime.now(UTC) + timedelta(seconds=3000), usegmt=True)
    for after in ("3000", then):
        server = serve(answering(429, retry_after=after))
        error = fails(bench, server.url(), "429")
        assert error.action == "rate_limited"
        assert 2000 < error.retry_after <= 3000
        assert "Try again after" in error.suggestions[0]
        assert len(server.requests) == 1
    past = format_datetime(datetime.now(UTC) - timedelta(seconds=60), usegmt=True)
    server = serve(in_turn(answering(429, retry_after=past), answering(body=b"well")))
    assert got(bench, server.url())["body"] == "well"


@pytest.mark.parametrize(
    ("script", "match", "action", "ran", "retryable"),
    [
        (cut, "the connection was lost", "error", "unknown", False),
        (silent, "nobody knows", "timeout", "unknown", False),
        (drip, "was not done after 0.5 s", "timeout", "unknown", False),
        (answering(body=b"x", content_type="application/json"), "not valid JSON", "error", "unknown", False),
        (answering(503), "503", "error", "ran", False),
        (answering(429), "429", "rate_limited", "not ran", True),
        (answering(429, retry_after="7"), "429", "rate_limited", "not ran", True),
    ],
)
def test_a_post_is_sent_once_and_its_failure_says_whether_it_happened(
    bench, serve, script, match, action, ran, retryable
):
    server = serve(script)
    error = fails(bench, server.url(), match, method="POST", body="x", timeout=0.5)
    assert (error.action, error.ran, error.retryable) == (action, ran, retryable)
    assert ("7 s" in error.suggestions[0]) == (error.retry_after == 7)
    assert len(server.requests) == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_nobody_listens(bench, unused, method):
    error = fails(bench, unused, "no connection", method=method)
    assert (error.kind, error.ran, error.retryable) == ("connection", "not ran", True)


@pytest.mark.parametrize(
    ("code", "method", "then"),
    [
        (302, "POST", ("GET", b"")),
        (303, "POST", ("GET", b"")),
        (303, "PUT", ("GET", b"")),
        (302, "PUT", ("PUT", b"data")),
        (307, "POST", ("POST", b"data")),
        (308, "POST", ("POST", b"data")),
    ],
)
def test_a_redirect_keeps_the_method_or_becomes_a_get(bench, serve, code, method, then):
    server = serve(in_turn(redirecting("/there", code), answering(body=b"well")))
    assert got(bench, server.url(), method=method, body="data")["body"] == "well"
    last = server.requests[1]
    assert (last.target, last.method, last.body) == ("/there", *then)


def test_redirects_in_a_circle_end(bench, serve):
    fails(bench, serve(redirecting("/mcp")).url(), "redirected more than 10 times")


def test_another_origin_gets_no_credentials(bench, serve, echo):
    location = f"http://ann:secret@127.0.0.1:{echo.port}/there"
    server = serve(redirecting(location))
    headers = {"Cookie": "session=1", "X-API-Key": "key", "Authorization": "Bearer t"}
    for params in ({"headers": headers}, {"auth": {"type": "header", "name": "X-API-Key", "value": "key"}}):
        sent = got(bench, server.url(), **params)["body"]["headers"]
        assert server.requests[-1].headers["x-api-key"] == "key"
        assert not {"cookie", "x-api-key", "authorization"} & set(sent)


def test_a_post_is_not_redirected_to_another_origin(bench, serve, echo):
    server = serve(redirecting(echo.url(), 307))
    error = fails(bench, server.url(), "is redirected to another origin", method="POST", body="data")
    assert error.ran == "ran"
    assert echo.connections == 0


@pytest.mark.parametrize(
    ("place", "match"),
    [
        ("https://169.254.169.254/latest/meta-data", "cloud metadata"),
        ("https://10.1.2.3/", "private"),
        ("http://10.1.2.3/", "plain http"),
        ("file:///etc/passwd", "not an http or https address"),
    ],
)
def test_no_redirect_leads_to_an_address_that_is_not_public(bench, serve, place, match):
    server = serve(redirecting(place))
    error = fails(bench, server.url(), match, retries=0)
    assert "Traceback" not in str(error)


def test_a_host_of_a_template_must_be_public_or_allowed(bench, echo, rules):
    workflow = flow(http("${url}"), inputs={"url": {"type": "str"}})
    for there in (echo.url("localhost"), echo.url("127.0.0.1.")):
        error = bench.run(workflow, url=there).error
        assert "its url as written up to a /" in str(error)
        assert error.ran == "not ran"
    here = f"127.0.0.1:{echo.port}"
    for url, host in (
        ("http://${host}/mcp", here),
        ("http://127.0.0.1${rest}/", here),
        ("http://127.0.0.1:${rest}/", here),
        ("${host}${rest}", f"http://{here}/"),
    ):
        node = http(url, headers={"X": "${host}${rest}"})
        part = flow(node, inputs={"host": {"type": "str"}, "rest": {"type": "str"}})
        assert not bench.run(part, host=host, rest=f"{echo.port}").success
    error = bench.run(flow(http(f"http://{here}${{rest}}"), inputs={"rest": {"type": "str"}}), rest="/").error
    assert "or write it in the url, with a / before any template" in error.suggestions[0]
    pinned = http("https://10.1.2.3${rest}", retries=0)
    error = bench.run(flow(pinned, inputs={"rest": {"type": "str"}}), rest="/").error
    assert error.suggestions[0].endswith("with a / before any template, in a workflow that you run yourself")
    assert echo.connections == 0
    rules(allow=("127.0.0.1",))
    assert bench.run(workflow, url=echo.url()).success


@pytest.mark.parametrize(
    ("url", "value", "fits"),
    [
        ("http://127.0.0.1:{port}${x}", "/a", True),
        ("http://127.0.0.1:{port}/${x}", "@169.254.169.254/", True),
        ("HTTP://127.0.0.1:{port}${x}", "?a", True),
        ("http://127.0.0.1:${x}/", "{port}", True),
        ("http://${x}:{port}/", "127.0.0.1", True),
        ("${x}/a", "http://127.0.0.1:{port}", True),
        ("https://api.example.com${x}", ".evil.example/", False),
        ("https://api.example.com:4${x}", "43", False),
        ("https://${x}.example.com/", "evil.example/?", False),
        ("https://${x}.example.com/", "evil.example\\", False),
        ("https://api.${x}.com/", "evil.example/", False),
        ("${x}://api.example.com/", "https://evil.example/", False),
        ("https://${x}:y@api.example.com/", "evil.example/", False),
    ],
)
def test_what_is_written_of_a_host_stays_whatever_a_value_is(bench, echo, rules, url, value, fits):
    rules(allow=("127.0.0.1",))
    url, value = (text.replace("{port}", str(echo.port)) for text in (url, value))
    workflow = flow(http(url, auth=BEARER, retries=0), inputs={"x": {"type": "str"}})
    error = bench.run(workflow, x=value).error
    assert bool(echo.connections) == (error is None) == fits
    if error:
        assert f"a value changes the host that url names: {url}" in str(error)
        assert error.ran == "not ran"


def test_plain_http_stays_on_this_machine_unless_the_author_allows_it(bench, echo, names, rules):
    rules(allow=("127.0.0.1",))
    names.answers[NAME] = [["127.0.0.1"]]
    error = fails(bench, echo.url(NAME), "uses plain http to api.example.com")
    assert "insecure" in error.suggestions[0]
    assert (echo.connections, names.asked) == (0, [])
    assert got(bench, echo.url(NAME), insecure=True)["status"] == 200
    workflow = flow(http("${url}", insecure=True), inputs={"url": {"type": "str"}})
    assert bench.run(workflow, url=echo.url(NAME)).success


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::1"])
def test_a_name_with_an_address_that_is_not_public_gets_no_byte(bench, echo, names, address):
    names.answers[NAME] = [[address]]
    error = fails(bench, echo.url(NAME), "which the config does not name", insecure=True)
    assert (error.ran, echo.connections, names.asked) == ("not ran", 0, [NAME])


def test_a_certificate_is_verified_and_a_ca_may_be_named(bench, serve, authority):
    server = serve(answering(body=b"well"), authority.server_context("127.0.0.1"))
    error = fails(bench, server.url(), "its certificate is not valid")
    assert (error.kind, error.ran) == ("connection", "not ran")
    assert "ca_bundle" in error.suggestions[0]
    assert got(bench, server.url(), ca_bundle=str(authority.file))["body"] == "well"
    fails(bench, server.url("localhost"), "its certificate is not valid", ca_bundle=str(authority.file))
    fails(bench, server.url(), "cannot be read", ca_bundle="/no/such.pem")
    assert not server.requests[1:]


def test_a_key_may_be_pinned(bench, serve, authority):
    server = serve(answering(body=b"well"), authority.server_context("127.0.0.1"))
    trusted = {"ca_bundle": str(authority.file)}
    error = fails(bench, server.url(), "has the pin", tls_pins=["A" * 43 + "="], method="POST", **trusted)
    assert (error.ran, server.requests) == ("not ran", [])
    (pin,) = re.findall("has the pin ([^,]+),", str(error))
    assert got(bench, server.url(), tls_pins=[pin], **trusted)["body"] == "well"


def test_a_client_certificate_is_shown_to_its_own_origin_only(bench, serve, authority):
    seen = []

    def wanting():
        context = authority.server_context("127.0.0.1")
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(authority.file)
        return context

    def noting(*answer, **headers):
        async def script(request, reply):
            seen.append(reply.writer.get_extra_info("peercert"))
            await reply.status(*answer, **headers)

        return serve(script, wanting())

    server = noting(302, location=noting(200, b"well").url())
    mine = authority.server_file("me", file_name="me.pem")
    got(bench, server.url(), client_cert=str(mine), ca_bundle=str(authority.file))
    assert [bool(certificate) for certificate in seen] == [True, False]


def test_a_proxy_is_used_and_a_post_is_announced_only_to_the_server(bench, serve, authority, monkeypatch):
    server = serve(answering(body=b"well"), authority.server_context(NAME))
    with Proxy(server.port) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        url, trusted = server.url(NAME), {"ca_bundle": str(authority.file)}
        assert got(bench, url, method="POST", **trusted)["body"] == "well"
        assert proxy.asked[0].startswith("CONNECT")
        error = fails(bench, url.replace(NAME, "other.example.com"), "certificate", method="POST", **trusted)
        assert error.ran == "not ran"


@pytest.mark.parametrize("proxy", ["http://user:SECRET/part2@127.0.0.1:1", "http://127.0.0.1:1"])
def test_a_proxy_that_cannot_be_used_is_named_by_its_variable(bench, monkeypatch, proxy):
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    error = fails(bench, "https://mcp.example.invalid", "the proxy failed: ")
    assert "HTTPS_PROXY" in str(error)
    assert "SECRET" not in f"{error} {error.details}"


def test_a_proxy_that_wants_a_password_leads_to_its_variable(bench, serve):
    assert fails(bench, serve(answering(407)).url(), "407").suggestions == ("Check HTTP_PROXY",)


def test_pages_follow_the_link_header_with_headers_and_auth(bench, serve):
    server = serve(pages(4, lambda number: [number, number * 10]))
    outputs = got(bench, server.url(), next_page="link", auth=BEARER)
    assert outputs["body"] == [1, 10, 2, 20, 3, 30, 4, 40]
    assert [it.headers["authorization"] for it in server.requests] == ["Bearer tok-4711"] * 4


def test_pages_follow_an_expression(bench, serve):
    async def script(request, reply):
        cursor = int(request.target.partition("c=")[2] or 0)
        following = f"/list?c={cursor + 1}" if cursor < 2 else None
        await reply.json({"items": [cursor], "next": following}, X_Total="3")

    server = serve(script)
    outputs = got(bench, server.url(), next_page="body.next")
    assert [page["items"] for page in outputs["body"]] == [[0], [1], [2]]
    assert len(server.requests) == 3
    expression = "(status == 200 && headers.\"x-total\" == '3') && body.next || null"
    assert len(got(bench, server.url(), next_page=expression)["body"]) == 3


@pytest.mark.parametrize(
    ("link", "match"),
    [
        ("</mcp>; rel=next", "leads back"),
        ("<https://example.com/>; rel=next", "another origin"),
        ("<http://[::1>; rel=next", "GET"),
    ],
)
def test_pages_end_where_they_lead_astray(bench, serve, link, match):
    server = serve(answering(body=b"[]", link=link, content_type="application/json"))
    fails(bench, server.url(), match, next_page="link")


def test_more_than_the_most_pages_or_bytes_of_all_is_an_error_and_not_silence(bench, serve):
    server, bounds = serve(pages()), {"next_page": "link", "max_pages": 3}
    assert bench.run(showing("${get.body}", server.url(), **bounds)).outputs["message"] == [1, 2, 3]
    error = fails(bench, server.url(), "has more than 3 pages", **bounds)
    assert "max_pages" in error.suggestions[0]
    large = serve(pages(body=lambda number: ["x" * 600]))
    fails(bench, large.url(), "has more than 0.000", next_page="link", max_mb=0.001)


@pytest.mark.parametrize(
    ("header", "target"),
    [
        ('<https://a/?x=1,2>; title="a; b"; rel="prev next"', "https://a/?x=1,2"),
        ("<a>; rel=prev, <b>; REL=NEXT", "b"),
        ("<a>; rel=prev", ""),
        ("", ""),
        ("<" * 50_000, ""),
    ],
)
def test_the_next_link_of_a_header(header, target):
    assert next_link(header) == target


def test_a_run_that_is_cancelled_ends_at_once(bench, serve):
    control = RunControl()

    async def cancelling(request, reply):
        control.cancel()
        await silent(request, reply)

    workflow = flow(http(serve(cancelling).url(), method="POST"))
    assert bench.host.runner.run(workflow, {}, control=control).error.kind == "interrupted"


def test_it_works_in_a_plain_pocketflow_program(echo):
    node, shared = Http(), {}
    program = pocketflow.Flow(start=node)
    program.set_params({"url": echo.url(), "auth": BEARER})
    program.run(shared)
    assert shared["body"]["headers"]["authorization"] == "Bearer tok-4711"
    assert (shared["status"], shared["error"]) == (200, None)
    node.set_params({"url": echo.url(), "expect": [404]})
    assert node.run(shared) == "error"
    assert isinstance(shared["__error__"], PflowError)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, ("flow_safe", True)),
        ({"method": "head"}, ("flow_safe", True)),
        ({"auth": BEARER}, ("flow_safe", False)),
        ({"method": "POST"}, ("impure", True)),
        ({"method": "${m}"}, ("impure", True)),
        ({"download": "file"}, ("impure", True)),
    ],
)
def test_only_a_request_that_is_written_to_fetch_something_is_safe(bench, params, expected):
    nodes = http("https://example.com/", **params), {**http("https://example.com/"), "id": "other"}
    compiled = bench.host.runner.compile(flow(*nodes, inputs={"m": {"type": "str", "default": "GET"}}), "wf")
    found = [(node.ref.entry.purity, node.ref.entry.cacheable) for node in compiled.nodes]
    assert found == [expected, ("flow_safe", True)]


def test_a_fetched_page_is_cached_unless_it_takes_auth(bench, echo):
    workflow = flow({**http(echo.url()), "cache": True})
    for _ in range(2):
        assert bench.run(workflow).success
    assert len(echo.requests) == 1
    workflow["nodes"][0]["params"]["auth"] = BEARER
    assert any("not kept" in it.message for it in bench.host.runner.validate(workflow))


def test_requests_count_as_calls_and_those_that_change_something_as_writes(bench, echo):
    for limits, method, allowed in (
        ({"max_calls": 1}, "GET", 1),
        ({"max_writes": 1}, "GET", 3),
        ({"max_writes": 1}, "POST", 1),
    ):
        before = len(echo.requests)
        node = http(f"{echo.url()}${{item}}", method=method)
        runner = bench.host.runner.with_options(RunOptions(**limits))
        runner.run(flow({**node, "batch": {"items": [1, 2, 3]}}), {})
        assert len(echo.requests) - before == allowed


def test_it_announces_what_may_change_something_once_the_connection_stands(bench, serve, unused, monkeypatch):
    told = []

    def sending(self, *others):
        told.append(len(server.requests))

    monkeypatch.setattr(StepOfRun, "sending", sending)
    server = serve(in_turn(redirecting("/there", 307), answering(body=b"well")))
    got(bench, server.url(), method="POST", body="x")
    assert told == [0, 1]
    fails(bench, unused, method="POST")
    assert told == [0, 1]


def test_the_documented_batch_with_failures_is_resumed_as_documented(
    bench, serve, rules, resumed, tmp_path, monkeypatch
):
    async def script(request, reply):
        await reply.status(404 if request.target in gone else 200, b"")

    server, gone = serve(script), {"/b", "/c"}
    rules(allow=("127.0.0.1",))
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[3] / "docs" / "workflows.md").read_text(encoding="utf-8")
    example = text.partition("**A batch with failures.**")[2].split("```")[1].removeprefix("yaml")
    workflow = bench.host.runner.read(example, "pages.yaml")
    failed = bench.run(workflow, urls=[server.url(path=f"/{it}") for it in "abc"])
    assert "2 of 3 pages could not be fetched" in failed.error.message
    gone.clear()
    assert resumed("--only-failed").error is None
    assert Path("pages.md").read_text(encoding="utf-8").count("| 200 |") == 3
    assert sorted(it.target for it in server.requests[3:]) == ["/b", "/c"]
