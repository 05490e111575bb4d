"""The requests of the node `http`: redirects, retries, pages, downloads, and what a response means.

Every URL goes through the checked connections of `network`. A request of a method that may change something
is announced just before its first byte, once the connection is established, and is never sent twice after
that.
"""

from __future__ import annotations

import asyncio
import codecs
import json
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import ExitStack, asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import IO, Any, NoReturn

import attrs
import httpx2

from pflow_mcp_plugin.contract import NetworkRules, PflowError
from pflow_mcp_plugin.contract.problems import STATUS_ACTIONS, Ran
from pflow_mcp_plugin.contract.runs import RunStep
from pflow_mcp_plugin.daemon_threads import Threads
from pflow_mcp_plugin.host.nodes.file_content_nodes import file_problem
from pflow_mcp_plugin.host.nodes.value_nodes import utf8
from pflow_mcp_plugin.host.workflow.findings import cut, shown
from pflow_mcp_plugin.host.workflow.templates import as_text
from pflow_mcp_plugin.host.workflow.workflow_document import SAFE_METHODS as SAFE
from pflow_mcp_plugin.network.certificates import CertificatesUnreadable, KeyNotPinned, client_context
from pflow_mcp_plugin.network.checked_connections import CheckedTransport, sent
from pflow_mcp_plugin.network.content_codings import ACCEPTED, decompressed
from pflow_mcp_plugin.network.egress import HostRefused, is_same_origin
from pflow_mcp_plugin.network.http_headers import media_type, next_link, retry_after
from pflow_mcp_plugin.storage import open_regular, replaced_regular
from pflow_mcp_plugin.storage.json_and_toml import strict_json
from pflow_mcp_plugin.terminal.looks import one_line

MOST_REDIRECTS = 10
FIRST_PAUSE = 0.5
"""Seconds before the first retry; each further wait is twice as long."""
_NAP = 0.1
"""Seconds of one wait: a Ctrl-C just before a wait does not interrupt it."""
_GRACE = 2.0
"""Seconds that a stopped request may take to close its connections."""
_MIB = 1 << 20
_SHOWN = 300
"""The number of characters of a response that a message shows."""
_BESIDE = 30
"""The number of characters shown before and after a mistake in JSON."""
_RETRIED = frozenset({429, 502, 503, 504})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HINTS = {
    401: "Check auth",
    403: "Check auth, and what it may do",
    404: "Check the url",
    405: "Check method",
    407: "Check HTTP_PROXY",  # the proxy answered, as it does in place of a server without TLS
}
_NO_CHARSETS = frozenset({"idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape"})
"""Python encodings that are not charsets; some are very slow."""
_NO_TEXT = "no text"
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_TEXTUAL = ("+xml", "/xml", "javascript", "x-www-form-urlencoded", "yaml", "csv")
_NETWORK_ERRORS = (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError)


@attrs.frozen(kw_only=True)
class HttpEndpoint:
    """Where an HTTP request, with its redirects and pages, may connect to; see `network.egress.Endpoint`.

    Its `url` is that of the node if the author wrote its host, or it is allowed anyway; else it is empty.
    """

    owner: str
    url: str = attrs.field(default="", repr=False)
    network: NetworkRules = attrs.field(factory=NetworkRules)
    insecure: bool = False
    tls_pins: tuple[str, ...] | str = ()
    ca_bundle: str = ""
    client_cert: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, repr=False)
class HttpCall:
    """The requests that a node `http` is to send, from its params.

    `credentials` are headers, too; like the `headers` they go to the origin of `url` only. `most` is in
    bytes, and `shorten` redacts and cuts a text. With `is_fetch` its node is known to be read-only.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    credentials: Mapping[str, str]
    content: bytes | None
    form: Mapping[str, str | list[str]]
    files: Mapping[str, Path]
    expect: tuple[str, ...]
    next_page: str
    max_pages: int
    download: Path | None
    retries: int
    timeout: float
    most: int
    endpoint: HttpEndpoint
    shorten: Callable[[str, int], str]
    is_fetch: bool

    @property
    def what(self) -> str:
        """What a node `http` requests, for messages: without the query, which may contain a secret."""
        return f"{self.method} {httpx2.URL(self.url).copy_with(query=None, userinfo=b'')}"

    def expects(self, status: int) -> bool:
        return str(status) in self.expect or f"{status // 100}xx" in self.expect


@attrs.define(kw_only=True, repr=False)
class HttpAnswer:
    """What all HTTP requests of one node came to: its outputs, its failure if it failed, and warnings."""

    status: int | None = None
    headers: dict[str, str] = attrs.field(factory=dict)
    body: Any = None
    path: str | None = None
    failure: PflowError | None = None
    requests: int = 0
    warnings: list[str] = attrs.field(factory=list)


def texts(value: Any, key: str) -> str | list[str]:
    """Return a field of an HTTP request's query or form as text; a list gives it several values."""
    if isinstance(value, list):
        return [utf8(as_text(item), key).decode() for item in value]
    return utf8(as_text(value), key).decode()


def with_query(url: str, query: Mapping[str, Any]) -> str:
    """Return the URL of an HTTP request with further fields in its query; a null field is left out."""
    try:
        parts = httpx2.URL(url).copy_with(fragment=None)
        fields = {str(key): texts(it, f"query.{key}") for key, it in query.items() if it is not None}
        return str(parts.copy_merge_params(fields) if fields else parts)
    except httpx2.InvalidURL as error:
        raise PflowError(f"url is not valid: {error}", suggestions=("Check it",), ran="not ran") from error


def perform(call: HttpCall, step: RunStep | None, stopped: Callable[[], bool]) -> HttpAnswer:
    """Send a request, with its retries, redirects, pages; ends soon after `stopped` is true, or at Ctrl-C."""
    exchange, answered = _Exchange(call, step), Future[HttpAnswer]()
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = Future()

    async def whole() -> None:
        begun.set_result((asyncio.get_running_loop(), asyncio.current_task()))
        try:
            answered.set_result(await exchange.run())
        except BaseException as error:  # noqa: BLE001 - raised again where the answer is awaited
            answered.set_exception(error)

    # On a thread of its own, which Ctrl-C does not interrupt, and whose hanging look-up does not delay the
    # result.
    with Threads(1, "http") as threads:
        work = threads.submit(lambda: asyncio.run(whole()))
        try:
            while not answered.done():
                wait([answered], _NAP)
                if stopped() and not answered.done():
                    stop = PflowError("The run was interrupted", kind="interrupted", ran=exchange.ran)
                    return HttpAnswer(failure=stop)
            return answered.result()
        finally:
            if not answered.done():
                with suppress(RuntimeError, TimeoutError):  # it ended meanwhile, or never began
                    loop, task = begun.result(_GRACE)
                    loop.call_soon_threadsafe(task.cancel if task else loop.stop)
            wait([work], _GRACE)


class _Exchange:
    def __init__(self, call: HttpCall, step: RunStep | None) -> None:
        self.ran: Ran = "not ran"
        self._call = call
        self._step = step
        self._left = call.most
        self._end = 0.0
        self._clients: dict[tuple[str, str, int | None], httpx2.AsyncClient] = {}
        self._answer = HttpAnswer()

    async def run(self) -> HttpAnswer:
        call, answer = self._call, self._answer
        self._end = asyncio.get_running_loop().time() + call.timeout
        try:
            async with asyncio.timeout(call.timeout):
                await self._pages()
        except TimeoutError:
            late, again = f"{call.what} was not done after {call.timeout:g} s", call.method in SAFE
            step = "Raise timeout, or ask for less"
            answer.failure = self._failed(late, step, action="timeout", retryable=again)
        except PflowError as error:
            answer.failure = error
        except (*_NETWORK_ERRORS, HostRefused, KeyNotPinned, CertificatesUnreadable) as error:
            answer.failure = self._explained(error)
        finally:
            for client in self._clients.values():
                await client.aclose()
        return answer

    async def _pages(self) -> None:
        call, answer = self._call, self._answer
        url, asked, bodies = call.url, set[str](), []
        while True:
            asked.add(url)
            at = await self._page(url)
            if answer.failure or not call.next_page:
                return
            bodies.append(answer.body)
            following = self._next(at)
            if following is None or following in asked or len(asked) >= call.max_pages:
                break
            url = following
        lists = all(isinstance(body, list) for body in bodies)
        answer.body = [item for body in bodies for item in body] if lists else bodies
        if following in asked:
            self._fail(f"page {len(asked)} of {call.what} leads back to an earlier page", "Check next_page")
        if following is not None:
            message = f"{call.what} has more than {call.max_pages} pages; what was read is in the output body"
            self._fail(message, "Raise max_pages, or ask for less")

    def _next(self, at: httpx2.URL) -> str | None:
        """Return the URL of the HTTP request for the next page; None after the last."""
        call, answer = self._call, self._answer
        if call.next_page == "link":
            target: Any = next_link(answer.headers.get("link", ""))
        else:
            from pflow_mcp_plugin.host.workflow.expressions import parsed

            values = {"status": answer.status, "headers": answer.headers, "body": answer.body}
            target = parsed(call.next_page).value(values, values)
        if target is None or target in ("", False):
            return None
        if not isinstance(target, str):
            message = f"next_page of {call.what} must be a URL or null, got {shown(target)}"
            self._fail(message, "Correct next_page")
        following = at.join(target).copy_with(fragment=None)
        if not is_same_origin(str(following), call.url):
            message = f"the next page of {call.what} is at {following.host}, which is another origin"
            self._fail(message, "Request it with a node of its own, if this is intended")
        return str(following)

    async def _page(self, url: str) -> httpx2.URL:
        left, pause, room = self._call.retries, FIRST_PAUSE, self._left
        while True:
            self._left = room
            try:
                async with self._followed(url) as response:
                    seconds = self._pause_of(response, pause) if left else None
                    if seconds is None:
                        await self._take(response)
                        return response.url
            except httpx2.TransportError as error:
                is_unsent = self.ran == "not ran" and isinstance(error, httpx2.ConnectError)
                may_repeat = self._call.method in SAFE or is_unsent
                if not left or not may_repeat or _is_about_certificate(error):
                    raise
                seconds = pause
            left, pause = left - 1, 2 * pause
            await asyncio.sleep(seconds)

    def _pause_of(self, response: httpx2.Response, pause: float) -> float | None:
        status, call = response.status_code, self._call
        if call.method not in SAFE or status not in _RETRIED or call.expects(status):
            return None
        asked = retry_after(response.headers.get("retry-after", ""))
        seconds = pause if asked is None else asked
        return seconds if asyncio.get_running_loop().time() + seconds < self._end else None

    @asynccontextmanager
    async def _followed(self, url: str) -> AsyncIterator[httpx2.Response]:
        call, method = self._call, self._call.method
        for _ in range(MOST_REDIRECTS + 1):
            async with self._sent(method, url) as response:
                status, location = response.status_code, response.headers.get("location")
                if status not in _REDIRECTS or location is None or call.expects(status):
                    yield response
                    return
                target = response.url.join(location)
            # No credentials in the URL itself, which would be sent.
            target = target.copy_with(userinfo=b"", fragment=None)
            is_moved = method == "POST" and status < HTTPStatus.TEMPORARY_REDIRECT
            if is_moved or status == HTTPStatus.SEE_OTHER:
                method = method if method in SAFE else "GET"
            if method not in SAFE and not is_same_origin(str(target), call.url):
                message = f"{call.what} is redirected to another origin, {target.host}, and was not sent"
                self._fail(message, "Check the url, and write the intended one")
            url = str(target)
        self._fail(f"{call.what} was redirected more than {MOST_REDIRECTS} times", "Check the url")

    @asynccontextmanager
    async def _sent(self, method: str, url: str) -> AsyncIterator[httpx2.Response]:
        """Send one request of the node `http`, with only what its origin may see, and yield the response."""
        call, client = self._call, self._client(url)
        headers = {**call.headers, **call.credentials} if is_same_origin(url, call.url) else {}
        with ExitStack() as stack:
            content: dict[str, Any] = {}
            if method not in SAFE:
                files = {key: (it.name, stack.enter_context(_opened(it))) for key, it in call.files.items()}
                content = {"content": call.content, "data": call.form or None, "files": files or None}
            request = client.build_request(
                method, url, headers=headers, extensions={"trace": self._announce}, **content
            )
            self._answer.requests += 1
            response = await sent(client, request)
        try:
            self.ran = "ran"
            yield response
        finally:
            await response.aclose()

    async def _announce(self, event: str, info: Mapping[str, Any]) -> None:
        if event != "http11.send_request_headers.started":
            return
        method = info["request"].method.decode()
        if method == "CONNECT":  # a proxy is asked for a connection first
            return
        if self._step is not None and (method not in SAFE or self._call.is_fetch):
            self._step.sending()
        if method not in SAFE:
            self.ran = "unknown"

    def _client(self, url: str) -> httpx2.AsyncClient:
        """Return the client for requests to an origin; only that of the node's `url` sees its certificate."""
        parts, call = httpx2.URL(url), self._call
        place = parts.scheme, parts.host, parts.port
        if place not in self._clients:
            own = is_same_origin(url, call.url)
            endpoint = call.endpoint if own else attrs.evolve(call.endpoint, client_cert=())
            self._clients[place] = httpx2.AsyncClient(
                headers={"user-agent": "pflow", "accept-encoding": ACCEPTED},
                timeout=None,
                transport=CheckedTransport(endpoint, client_context(endpoint, url)),
            )
        return self._clients[place]

    async def _take(self, response: httpx2.Response) -> None:
        call, answer = self._call, self._answer
        answer.status, answer.headers = response.status_code, dict(response.headers)
        if call.expects(response.status_code):
            if call.method not in SAFE:  # it was done: if its answer cannot be read, it must not be repeated
                self.ran = "unknown"
            if call.download is not None:
                await self._save(response, call.download)
                return
            content = bytearray()
            async for chunk in self._limited(response, "use download, or raise max_mb"):
                content += chunk
            answer.body = self._read(bytes(content))
            return
        beginning = bytearray()
        with suppress(httpx2.DecodingError):  # the status says more
            async for chunk in decompressed(response):
                beginning += chunk[: _MIB - len(beginning)]
                if len(beginning) == _MIB:
                    break
        text = _decoded(bytes(beginning), answer.headers)[0]
        answer.body = text
        if _is_json(answer.headers):
            with suppress(ValueError, RecursionError):
                answer.body = strict_json(text)
        answer.failure = self._unexpected(response, text)

    async def _save(self, response: httpx2.Response, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replaced_regular(path) as write:
                async for chunk in self._limited(response, "raise max_mb"):
                    write(chunk)
        except OSError as error:
            raise file_problem("write", path, error.strerror or str(error), ran=self.ran) from error
        self._answer.path = self._answer.body = str(path)

    async def _limited(self, response: httpx2.Response, step: str) -> AsyncIterator[bytes]:
        async for chunk in decompressed(response):
            self._left -= len(chunk)
            if self._left < 0:
                message = f"the answer to {self._call.what} has more than {self._call.most / _MIB:g} MiB"
                self._fail(message, f"Ask for less, {step}")
            yield chunk

    def _read(self, content: bytes) -> Any:
        headers, what = self._answer.headers, self._call.what
        text, problem = _decoded(content, headers)
        if not content:
            return None if _is_json(headers) else ""
        if problem not in ("", _NO_TEXT):
            self._answer.warnings.append(f"the answer to {what} was read as UTF-8 with gaps: {problem}")
        if _is_json(headers):
            try:
                return strict_json(text)
            except json.JSONDecodeError as error:
                near = text[max(0, error.pos - _BESIDE) : error.pos + _BESIDE]
                place = f"{error.msg} at line {error.lineno}, column {error.colno}, near {one_line(near)!r}"
                step = "Report it to whoever runs the server"
                self._fail(f"the answer to {what} is not valid JSON: {place}", step)
            except (ValueError, RecursionError) as error:  # parsing loses something; too deep
                self._fail(f"the answer to {what} is JSON that cannot be read: {error}", "Use download")
        if problem == _NO_TEXT:
            kind = headers.get("content-type", "no content type")
            self._fail(f"the answer to {what} is not text ({cut(kind)})", "Set download to the file for it")
        return text

    def _unexpected(self, response: httpx2.Response, text: str) -> PflowError:
        call, status = self._call, response.status_code
        reason = response.reason_phrase or ""
        start = one_line(call.shorten(" ".join(text.split()), _SHOWN))
        message = f"{call.what} was answered with {status} {reason}".rstrip()
        message += f": {start}" if start else ""
        seconds = retry_after(response.headers.get("retry-after", ""))
        step = _HINTS.get(status, f'Read the output body; to accept this status, add "{status}" to expect')
        limited = status == HTTPStatus.TOO_MANY_REQUESTS
        if limited:
            step = f"Try again after {seconds:g} s" if seconds is not None else "Try again later"
        return PflowError(
            message,
            details={"status": status, "headers": dict(response.headers)},
            suggestions=(step,),
            action=STATUS_ACTIONS.get(status, "error"),
            # A server that limits requests has not processed this one (RFC 6585, section 4).
            ran="not ran" if limited else "ran",
            retryable=limited or (call.method in SAFE and status in _RETRIED),
            retry_after=seconds,
        )

    def _fail(self, message: str, step: str) -> NoReturn:
        raise self._failed(message, step)

    def _failed(self, message: str, step: str, **more: Any) -> PflowError:
        if self.ran == "unknown":
            message += "; nobody knows whether it was done"
        return PflowError(message, suggestions=(step,) if step else (), ran=self.ran, **more)

    def _explained(self, error: Exception) -> PflowError:
        what, more = self._call.what, dict[str, Any](kind="connection")
        reason = cut(self._call.shorten(str(error), _SHOWN)) or type(error).__name__
        message, step = f"{what}: {reason}", "Check the url"
        if isinstance(error, HostRefused):
            refusal = error.refusal
            message, step = refusal.message, refusal.next_step[:1].upper() + refusal.next_step[1:]
            more = {"kind": "config", "details": {"host": refusal.host, "address": refusal.address}}
        elif isinstance(error, KeyNotPinned):
            message = f"{what}: {error}"
            step = "Add the pin, if the key was changed on purpose"
        elif isinstance(error, CertificatesUnreadable):
            message, step = str(error), f"Correct {error.setting}"
            more = {"kind": "config"}
        elif isinstance(error, httpx2.DecodingError):
            message, more = f"the answer to {what} cannot be decompressed: {reason}", {}
            step = "Report it to whoever runs the server"
        elif _is_about_certificate(error):
            message = f"{what}: its certificate is not valid: {reason}"
            step = "Set ca_bundle to the file of the CA that signed it, if you trust it"
        elif isinstance(error, httpx2.ConnectError | httpx2.ProxyError):
            is_proxy = isinstance(error, httpx2.ProxyError)
            message = f"{what}: {'the proxy failed' if is_proxy else 'no connection'}: {reason}"
            step = f"Check {'HTTP_PROXY, HTTPS_PROXY, NO_PROXY' if is_proxy else 'the url and the network'}"
            more["retryable"] = True
        elif isinstance(error, httpx2.TransportError):
            message = f"{what}: the connection was lost: {reason}"
            more["retryable"] = is_safe = self._call.method in SAFE
            step = "Try again" if is_safe else "Check there whether it was done"
        return self._failed(message, step, **more)


def _opened(path: Path) -> IO[bytes]:
    return open(path, "rb", opener=open_regular)


def _is_about_certificate(error: BaseException) -> bool:
    return "CERTIFICATE" in str(error)


def _is_json(headers: Mapping[str, str]) -> bool:
    kind = media_type(headers)
    return kind == "application/json" or kind.endswith("+json")


def _decoded(content: bytes, headers: Mapping[str, str]) -> tuple[str, str]:
    kind, charset = media_type(headers), _charset(headers)
    encoding = next((name for bom, name in _BOMS if content.startswith(bom)), charset or "utf-8")
    try:
        is_none = codecs.lookup(encoding).name in _NO_CHARSETS
        text = content.decode("unknown" if is_none else encoding)
    except (LookupError, UnicodeError, ValueError) as error:
        is_text = bool(charset) or kind.startswith("text/") or kind.endswith(_TEXTUAL) or _is_json(headers)
        return content.decode("utf-8", "replace"), cut(str(error)) if is_text else _NO_TEXT
    return text, _NO_TEXT if "\0" in text and not charset else ""


def _charset(headers: Mapping[str, str]) -> str:
    for parameter in headers.get("content-type", "").split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip("\"'")
    return ""
