"""The server that the conformance suite tests: pflow's own server and HTTP application.

Beside the tools that pflow serves, it offers what the suite calls by name, declared as pflow's are. The
suite cannot send a token: each request gets it here, before the application sees it.

`python server_under_test.py` prints its URL, and serves until it is terminated.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pflow_mcp_plugin.contract import PflowError, Progress
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.server import envelopes
from pflow_mcp_plugin.server.served_tool import Claims, ServedRequest, ServedTool

TOKEN = "token-of-the-conformance-suite-0123456789"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TEMPLATE = "test://template/"
ADDRESS_SCHEMA: JSONObject = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def simple_text(_request: ServedRequest, _arguments: Mapping[str, Any]) -> JSONObject:
    """Answer with text."""
    return envelopes.success({"text": "This is a simple text response for testing."})


def failing(_request: ServedRequest, _arguments: Mapping[str, Any]) -> JSONObject:
    """Fail."""
    raise PflowError("This tool intentionally returns an error for testing")


def with_progress(request: ServedRequest, _arguments: Mapping[str, Any]) -> JSONObject:
    """Report progress three times, with pauses."""
    for done in (0, 50, 100):
        request.control.report(Progress(done=done, total=100, message=f"{done} of 100"))
        request.control.wait(0.05)
    return envelopes.success({"text": "done"})


def tools() -> Iterator[ServedTool]:
    """Yield the tools that the suite calls by name."""
    nothing: JSONObject = {"type": "object", "properties": {}}
    for name, schema, answer in (
        ("test_simple_text", nothing, simple_text),
        ("test_error_handling", nothing, failing),
        ("test_tool_with_progress", nothing, with_progress),
        ("json_schema_2020_12_tool", ADDRESS_SCHEMA, simple_text),
    ):
        yield ServedTool(
            name=name,
            title=name,
            description=f"Called by the conformance suite: {name}",
            input_schema=schema,
            output_schema=envelopes.output_schema({"type": "object"}),
            claims=Claims(read_only=True, destructive=False, idempotent=False, open_world=True),
            answer=answer,
        )


class SuiteResources:
    """The resources that the suite reads."""

    def resources(self, request: ServedRequest) -> Sequence[JSONObject]:
        """Return those that are listed."""
        kinds = {"test://static-text": "text/plain", "test://static-binary": "image/png"}
        return [
            {"uri": uri, "name": uri.partition("//")[2], "description": "Read by the suite", "mimeType": kind}
            for uri, kind in kinds.items()
        ]

    def templates(self) -> Sequence[JSONObject]:
        """Return the one template."""
        return [{"uriTemplate": TEMPLATE + "{id}/data", "name": "template", "mimeType": "application/json"}]

    def read(self, request: ServedRequest, uri: str) -> Sequence[JSONObject]:
        """Return the contents of one."""
        if uri == "test://static-text":
            text = "This is the content of the static text resource."
            return [{"uri": uri, "mimeType": "text/plain", "text": text}]
        if uri == "test://static-binary":
            return [{"uri": uri, "mimeType": "image/png", "blob": PIXEL}]
        if uri.startswith(TEMPLATE):
            number = uri.removeprefix(TEMPLATE).partition("/")[0]
            data = {"id": number, "templateTest": True, "data": f"Data for ID: {number}"}
            return [{"uri": uri, "mimeType": "application/json", "text": json.dumps(data)}]
        raise PflowError(f"There is no resource {uri}", kind="not_found", details={"uri": uri})


class SuitePrompts:
    """The prompts that the suite gets."""

    def prompts(self) -> Sequence[JSONObject]:
        """Return all of them."""
        arguments = {
            "test_prompt_with_arguments": ("arg1", "arg2"),
            "test_prompt_with_embedded_resource": ("resourceUri",),
        }
        names = ("test_simple_prompt", "test_prompt_with_image", *arguments)
        return [
            {
                "name": name,
                "description": "Got by the suite",
                "arguments": [
                    {"name": it, "description": "Any text", "required": True}
                    for it in arguments.get(name, ())
                ],
            }
            for name in names
        ]

    def get(self, request: ServedRequest, name: str, arguments: Mapping[str, str]) -> JSONObject:
        """Return the messages of one."""
        contents: dict[str, list[JSONObject]] = {
            "test_simple_prompt": [_text("This is a simple prompt for testing.")],
            "test_prompt_with_arguments": [_text(f"Prompt with arguments: {dict(arguments)}")],
            "test_prompt_with_embedded_resource": [_embedded(arguments), _text("Please process it.")],
            "test_prompt_with_image": [
                {"type": "image", "data": PIXEL, "mimeType": "image/png"},
                _text("Please analyze it."),
            ],
        }
        if name not in contents:
            raise PflowError(f"There is no prompt {name}", kind="not_found")
        return {"messages": [{"role": "user", "content": content} for content in contents[name]]}


def _text(text: str) -> JSONObject:
    return {"type": "text", "text": text}


def _embedded(arguments: Mapping[str, str]) -> JSONObject:
    uri = arguments.get("resourceUri", "test://none")
    text = "Embedded resource content for testing."
    return {"type": "resource", "resource": {"uri": uri, "mimeType": "text/plain", "text": text}}


class WithToken:
    """An ASGI application that gives each request the token, unless it brings one."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle an ASGI event."""
        if scope["type"] == "http":
            token = (b"authorization", f"Bearer {TOKEN}".encode())
            scope = {**scope, "headers": [*scope["headers"], token]}
        await self._app(scope, receive, send)


def main() -> int:
    """Print the URL, and serve until a signal."""
    from pflow_mcp_plugin.server.http.http_app import AppOptions, build_app
    from pflow_mcp_plugin.server.http.http_server import HttpServer
    from pflow_mcp_plugin.server.http.listening_address import listen, parse_address
    from pflow_mcp_plugin.server.http.request_tokens import BearerToken
    from pflow_mcp_plugin.server.offer import ALL_TOOLS
    from pflow_mcp_plugin.server.pflow_server import ServingOptions, build_server
    from pflow_mcp_plugin.testing import open_pflow_host

    every = (*ALL_TOOLS, *tools())
    options = ServingOptions(resources=SuiteResources(), prompts=SuitePrompts())
    listening, address = listen(parse_address("127.0.0.1:0"))
    with open_pflow_host(Path(os.environ["PFLOW_HOME"])) as opened:
        server = build_server(opened.host, lambda: every, options)
        app, limits = build_app(server, AppOptions(address=address, check=BearerToken(TOKEN)))
        print(address.url(), flush=True)
        return HttpServer(WithToken(app), limits, listening).run()


if __name__ == "__main__":
    sys.exit(main())
