"""The node `http`: its params, what is wrong with them, and its outputs; `http_request` does the work."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator, Mapping, MutableMapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pocketflow

from pflow_mcp_plugin.contract import UNKNOWN, NetworkRules, PflowError, Problem, Run
from pflow_mcp_plugin.host.nodes.file_content_nodes import file_problem, refuse_own
from pflow_mcp_plugin.host.nodes.value_nodes import argument, ended, path_from, positive, utf8, written_params
from pflow_mcp_plugin.host.workflow.findings import at, cut, said
from pflow_mcp_plugin.host.workflow.templates import as_text, has_template, parse
from pflow_mcp_plugin.host.workflow.workflow_document import SAFE_METHODS, only_fetches
from pflow_mcp_plugin.network.egress import RESOURCE, refusal_of_url
from pflow_mcp_plugin.network.http_headers import FRAMING
from pflow_mcp_plugin.storage import require_regular
from pflow_mcp_plugin.terminal.looks import abbreviated
from pflow_mcp_plugin.terminal.similar_names import did_you_mean

if TYPE_CHECKING:
    from pflow_mcp_plugin.host.nodes.http_request import HttpAnswer, HttpCall, HttpEndpoint

TIMEOUT = 60.0
"""Seconds for all requests of a node together, if the workflow does not set a timeout."""
RETRIES, MOST_PAGES = 2, 100
MOST_MB, MOST_DOWNLOAD_MB = 32.0, 4096.0
"""MiB of a response, and of a downloaded one, if the workflow does not set `max_mb`."""
_METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
_AUTH = {"bearer": ("token",), "basic": ("username", "password"), "header": ("name", "value")}
_SECRET = ("token", "password", "value")
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_PRINTABLE = re.compile(r"[\t\x20-\x7e]*")
_AUTHORITY = re.compile(r"[^:/?#]*://([^/?#]*)")
"""A URL up to the end of its host and port."""
_STATUS = re.compile(r"[1-5](?:[0-9]{2}|xx)")
_LEAST = {"retries": 0, "max_pages": 1}
_WRITTEN_NAME = "{}: the name of a variable must be written in the workflow, without a template"


class Http(pocketflow.Node):
    """The node `http` sends a request, and those that follow from it, and returns the response.

    Its params are never read from the shared store. A host that is not public is reached only if the workflow
    itself contains the url, not by a template.
    """

    announces_sending = True
    """It notifies its run just before a request that may change something; see `Run.current_step`."""

    def prep(self, shared: MutableMapping[str, Any]) -> tuple[HttpCall, Run | None]:
        params = {key: value for key, value in self.params.items() if value is not None}
        argument(params, {}, "url")
        run: Run | None = shared.get("__run__")
        auth = params.get("auth", {})
        if run is not None:  # before anything can fail
            run.add_secrets(it for key in _SECRET if isinstance(it := auth.get(key), str))
        wrong = next(mistakes(params), None)
        if wrong is not None:
            steps = (wrong.suggestion,) if wrong.suggestion else ()
            raise PflowError(wrong.message, suggestions=steps, ran="not ran")
        return _call(params, written_params(self.params, run), run), run

    def exec(self, prep_res: tuple[HttpCall, Run | None]) -> HttpAnswer:
        from pflow_mcp_plugin.host.nodes.http_request import perform

        call, run = prep_res
        step = run.current_step() if run else None
        return perform(call, step, run.cancelled if run else lambda: False)

    def post(
        self, shared: MutableMapping[str, Any], prep_res: tuple[HttpCall, Run | None], exec_res: HttpAnswer
    ) -> str:
        run, failure = prep_res[1], exec_res.failure
        if exec_res.status is not None:
            shared.update(status=exec_res.status, headers=exec_res.headers, body=exec_res.body)
        if exec_res.path is not None:
            shared["path"] = exec_res.path
        if run is not None:
            for warning in exec_res.warnings:
                run.warn(Problem(message=warning, severity="warning", kind="execution"))
            details = {"status": exec_res.status, "requests": exec_res.requests}
            run.annotate(self.params.get("__node_id__", ""), {"http": details})
        return ended(shared, failure)


def _call(params: Mapping[str, Any], written: Mapping[str, Any], run: Run | None) -> HttpCall:
    from pflow_mcp_plugin.host.nodes.http_request import HttpCall, texts, with_query

    headers = {str(key): as_text(value) for key, value in params.get("headers", {}).items()}
    content, body = None, params.get("body")
    if body is not None:
        content = utf8(body, "body") if isinstance(body, str) else json.dumps(body).encode()
        kind = "text/plain; charset=utf-8" if isinstance(body, str) else "application/json"
        if not any(name.lower() == "content-type" for name in headers):
            headers["content-type"] = kind
    files = {str(key): path_from(value, f"files.{key}") for key, value in params.get("files", {}).items()}
    for path in files.values():
        try:
            require_regular(path)
        except OSError as error:
            reason = error.strerror or str(error)
            raise file_problem("read", path, reason, "Check files", ran="not ran") from error
    download = None
    if "download" in params:
        download = path_from(params["download"], "download", is_written=True)
        refuse_own("write", download, run)
    most = MOST_MB if download is None else MOST_DOWNLOAD_MB
    redactor = getattr(run, "redactor", None)
    url = with_query(params["url"].strip(), params.get("query", {}))
    return HttpCall(
        method=params.get("method", "GET").upper(),
        url=url,
        headers=headers,
        credentials=_credentials(params.get("auth", {}), written.get("auth"), run),
        content=content,
        form={str(key): texts(value, f"form.{key}") for key, value in params.get("form", {}).items()},
        files=files,
        expect=tuple(str(it).lower() for it in params.get("expect", ("2xx",))),
        next_page=params.get("next_page", ""),
        max_pages=params.get("max_pages", MOST_PAGES),
        download=download,
        retries=params.get("retries", RETRIES),
        timeout=positive(params, "timeout", TIMEOUT, "seconds"),
        most=int(positive(params, "max_mb", most, "MiB") * (1 << 20)),
        endpoint=_endpoint(url, params, written, run),
        shorten=abbreviated if redactor is None else redactor.shortened,
        is_fetch=only_fetches(written),
    )


def _is_of_user(run: Run | None) -> bool:
    return run is None or (run.origin.keeper is None and not run.origin.owner)


def _endpoint(
    url: str, params: Mapping[str, Any], written: Mapping[str, Any], run: Run | None
) -> HttpEndpoint:
    from pflow_mcp_plugin.host.nodes.http_request import HttpEndpoint

    rules = run.resources.get(RESOURCE) if run else None
    pins, certificate = params.get("tls_pins", ()), params.get("client_cert", ())
    endpoint = partial(
        HttpEndpoint,
        owner="this node",
        network=rules() if rules else NetworkRules(),
        insecure=params.get("insecure", False),
        tls_pins=pins if isinstance(pins, str) else tuple(pins),
        ca_bundle=params.get("ca_bundle", ""),
        client_cert=(certificate,) if isinstance(certificate, str) else tuple(certificate),
    )
    raw = written.get("url")
    # Each run of templates as one NUL, which no URL contains.
    parts = (part if isinstance(part, str) else "\0" for part in parse(raw.strip() if raw else "${"))
    named = _AUTHORITY.match(re.sub("\0+", "\0", "".join(parts)))
    host = named[1] if named else "\0"
    if not re.fullmatch(r"\0(:[\0\d]*)?", host):  # what the author wrote of it stays
        fitting = re.sub(r"(?<=[\w\]])\0$", r"(:\\d*)?", re.escape(host)).replace(":\0", r":\d*")
        filled = _AUTHORITY.match(params["url"].strip())
        if not (filled and re.fullmatch(fitting.replace("\0", r"[\w.-]*"), filled[1], re.ASCII)):
            message = f"a value changes the host that url names: {cut(str(raw))}"
            steps = ("Write a / between the host and the template, or correct the value",)
            raise PflowError(message, suggestions=steps, ran="not ran")
    # The node's own host may be private if the author wrote it.
    is_written = "\0" not in host and _is_of_user(run)
    # A host that a template named counts as the node's own only where it would be allowed anyway.
    there = f"https://{urlsplit(url).netloc}"
    return endpoint(url=url if is_written or refusal_of_url(endpoint(), there) is None else "")


def _credentials(auth: Mapping[str, Any], written: Any, run: Run | None) -> dict[str, str]:
    if not auth:
        return {}
    raw = written if isinstance(written, Mapping) else {}
    values = [_secret(key, auth[key], raw.get(key), run).strip() for key in _AUTH[auth["type"]]]
    name, value = "Authorization", values[-1]
    secrets = [value]
    if auth["type"] == "header":
        name = values[0]
    elif auth["type"] == "bearer":
        value = f"Bearer {value}"
    else:
        pair = base64.b64encode(":".join(values).encode()).decode()
        secrets.append(pair)
        value = f"Basic {pair}"
    if run is not None:
        run.add_secrets(secrets)
    if not _PRINTABLE.fullmatch(value) or not _TOKEN.fullmatch(name):
        message = "auth has characters that a header cannot have"
        raise PflowError(message, suggestions=("Check its values",), ran="not ran")
    return {name: value}


def _secret(key: str, value: Any, written: Any, run: Run | None) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    name = str(value["variable"])
    if not isinstance(written, Mapping) or written.get("variable") != name or has_template(name):
        message = _WRITTEN_NAME.format(f"auth.{key}")
        raise PflowError(message, suggestions=("Write the name",), ran="not ran")
    if not _is_of_user(run):
        message = f"auth.{key}: {name} is used only in runs that you start, not in runs of clients"
        raise PflowError(message, suggestions=("Declare an input, and pass its value",), ran="not ran")
    settings = run.host.settings if run else None
    found = os.environ.get(name) or (settings.get(name) if settings else None)
    if not found:
        message = f"auth.{key} needs {name}, which is neither an environment variable nor a setting"
        steps = (f"Store it: pflow settings set {name} -", f"Or set the environment variable {name}")
        raise PflowError(message, suggestions=steps, kind="config", ran="not ran")
    return found


def mistakes(params: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield each mistake in the params of the node `http`, as far as it is known before the run."""
    params = {key: value for key, value in params.items() if value is not None}
    auth = params["auth"] if isinstance(params.get("auth"), Mapping) else {}
    found = (_method_mistakes(params), _url_mistakes(params), _value_mistakes(params))
    for path, message, step in chain(*found, _header_mistakes(params, auth), _auth_mistakes(auth)):
        yield Problem(message=message, path=path, suggestion=step)


_Mistake = tuple[str, str, str]
"""The path to the mistake, the mistake, and the next step."""


def _method_mistakes(params: Mapping[str, Any]) -> Iterator[_Mistake]:
    method = params.get("method", "GET")
    if not isinstance(method, str):
        return
    method = method.upper()
    if method not in _METHODS:
        step = did_you_mean(method, _METHODS, f"Use one of {', '.join(_METHODS)}")
        yield "method", f"Unknown method {cut(method)}", step
    elif method not in SAFE_METHODS:
        if "next_page" in params:
            yield "next_page", f"{method} has no pages", "Use GET, or a node for each page"
    elif content := next((key for key in ("body", "form", "files") if key in params), ""):
        yield content, f"A {method} request has no {content}", "Set method to POST, or use query"


def _url_mistakes(params: Mapping[str, Any]) -> Iterator[_Mistake]:
    url, next_page = params.get("url"), params.get("next_page")
    if isinstance(url, str):
        url = url.strip()
        try:
            parts = urlsplit(url)
            has_host, _ = bool(parts.hostname), parts.port
        except ValueError:
            has_host = False
        wrong = next((it for it in url if it == " " or not it.isprintable()), "")
        if wrong:
            step = "Write %20, or use query" if wrong == " " else "Remove it"
            yield "url", f"url contains {wrong!r}, which no address may", step
        elif not has_host or parts.scheme not in ("http", "https"):
            yield "url", "url is not an http or https address", "Write https://HOST/PATH"
        elif parts.username is not None or parts.password is not None:
            step = 'Use auth: {"type": "basic", "username": ..., "password": ...}'
            yield "url", "url contains credentials", step
    if isinstance(next_page, str) and next_page != "link":
        from pflow_mcp_plugin.host.workflow.expressions import parsed

        try:
            parsed(next_page)
        except PflowError as error:
            general = 'Write "link", or an expression over status, headers and body'
            yield "next_page", f"next_page: {said(error)}", next(iter(error.suggestions), general)


def _value_mistakes(params: Mapping[str, Any]) -> Iterator[_Mistake]:
    if "body" in params and ("form" in params or "files" in params):
        yield "body", "body excludes form and files", "Use one of them"
    if "download" in params and "next_page" in params:
        yield "next_page", "download takes one page, so it excludes next_page", "Leave one of them out"
    for key, least in _LEAST.items():
        if isinstance(params.get(key), int) and params[key] < least:
            yield key, f"{key} must be at least {least}", "Correct it"
    for number, status in enumerate(params["expect"] if isinstance(params.get("expect"), list) else ()):
        if status is not UNKNOWN and not _STATUS.fullmatch(str(status).lower()):
            yield f"expect[{number}]", f"expect: {cut(str(status))} is not a status", 'Write 404, or "4xx"'
    for key in ("files", "tls_pins", "client_cert"):
        given = params.get(key, ())
        items = given.values() if isinstance(given, Mapping) else given if isinstance(given, list) else ()
        if not all(item is UNKNOWN or isinstance(item, str) for item in items):
            yield key, f"{key} must be strings", "Write strings"


def _header_mistakes(params: Mapping[str, Any], auth: Mapping[str, Any]) -> Iterator[_Mistake]:
    own = auth.get("name") if auth.get("type") == "header" else "authorization" if auth else ""
    headers = params.get("headers")
    for key, value in headers.items() if isinstance(headers, Mapping) else ():
        name, path = str(key), at("headers", str(key))
        if value is UNKNOWN:
            continue
        if not _TOKEN.fullmatch(name) or not _PRINTABLE.fullmatch(as_text(value)):
            message = f"header {cut(name)!r} has characters that a header cannot have"
            yield path, message, "Remove or encode them"
        elif name.lower() in {*FRAMING, "host"}:
            yield path, f"header {name} is set by pflow itself", "Remove it"
        elif isinstance(own, str) and name.lower() == own.lower():
            yield path, f"header {name} is set by auth", "Leave one of them out"


def _auth_mistakes(auth: Mapping[str, Any]) -> Iterator[_Mistake]:
    kind = auth.get("type")
    if kind is UNKNOWN or not auth:
        return
    if not isinstance(kind, str) or kind not in _AUTH:
        step = did_you_mean(str(kind), _AUTH, f"Use one of {', '.join(_AUTH)}")
        yield "auth.type", f"Unknown auth type {cut(str(kind))}", step
        return
    for key in auth:
        if key not in ("type", *_AUTH[kind]):
            step = did_you_mean(str(key), _AUTH[kind], f"It takes {' and '.join(_AUTH[kind])}")
            yield at("auth", str(key)), f"Unknown key {key} in auth", step
    for key in _AUTH[kind]:
        value, path = auth.get(key), f"auth.{key}"
        name = value.get("variable") if isinstance(value, Mapping) and len(value) == 1 else None
        if value is None:
            yield path, f"auth of type {kind} needs {key}", f"Add {key}"
        elif isinstance(value, Mapping) and value.get("variable") is UNKNOWN:
            yield path, _WRITTEN_NAME.format(path), "Write the name"
        elif not (value is UNKNOWN or isinstance(value, str) or isinstance(name, str)):
            yield path, f'{path} must be a string, or {{"variable": NAME}}', "Correct it"
    if kind == "basic" and isinstance(auth.get("username"), str) and ":" in auth["username"]:
        yield "auth.username", "auth.username contains a colon", "Remove it"
