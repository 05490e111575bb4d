"""The JSON Schema for editors and the check come to the same verdict on every table."""

from __future__ import annotations

import json

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pflow_mcp_plugin.config import auth, server_schema
from pflow_mcp_plugin.config.locations import SCHEMA_FILE

SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

HTTP = {"type": "http", "url": "https://example.com"}
OAUTH = {
    "type": "oauth",
    "flow": "client_credentials",
    "client_id": "${ID}",
    "client_secret": "${SECRET}",
    "issuer": "https://login.example.com",
}
WITH_KEY = {name: value for name, value in OAUTH.items() if name != "client_secret"}

PIN = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="

texts = st.one_of(
    st.sampled_from(["npx", "", " ", "${A}", "${A:-b c}", "$${A}", "${", "$", "a\nb", "\x00", "a b", "auto"]),
    st.sampled_from(["2025-11-25", "http://a", "https://", "https://${A}", "${A}/x", "https://a b", "X-Key"]),
    st.text(alphabet="${}:-A1 \n=\\", max_size=8),
)
numbers = st.one_of(st.integers(-1, 700), st.floats(allow_nan=False), st.sampled_from([86_400, 86_401, 4096]))
kinds = st.sampled_from([*server_schema.SPELLINGS, "", "ws", "HTTP"])
auth_values = st.one_of(
    texts, st.sampled_from(["bearer", "api_key", "basic", "oauth"]), st.lists(texts, max_size=2)
)
pins = st.sampled_from([PIN, f"sha256/{PIN}", f"sha256//{PIN}", f"{PIN}\n", "x", ""])
auths = st.one_of(
    st.dictionaries(st.sampled_from([*auth.FIELDS, "scope"]), auth_values, max_size=4),
    st.fixed_dictionaries({"type": st.just("bearer"), "token": texts}),
    st.fixed_dictionaries({"token_env": texts}),
    st.dictionaries(st.sampled_from([*OAUTH, "private_key", "private_key_id"]), auth_values, max_size=3).map(
        lambda changed: {**OAUTH, **changed}
    ),
    st.dictionaries(
        st.sampled_from([*OAUTH, "private_key", "private_key_id", "client_metadata_url", "redirect_port"]),
        st.one_of(auth_values, st.sampled_from([0, 1, 8400.0, 8400.5, 65_535, 65_536, True, "device_code"])),
        max_size=3,
    ).map(lambda changed: {"type": "oauth", **changed}),
)
anything = st.one_of(
    texts, numbers, st.booleans(), st.lists(texts, max_size=2), st.dictionaries(texts, texts)
)
fitting = {
    **dict.fromkeys(("command", "cwd", "path", "url", "protocol"), texts),
    "type": kinds,
    "args": st.lists(texts, max_size=3),
    "env": st.dictionaries(texts, texts, max_size=2),
    "headers": st.dictionaries(texts, texts, max_size=2),
    "verify": st.dictionaries(
        texts,
        st.dictionaries(
            st.sampled_from(["tool", "happened", "result", "arguments", "other"]),
            st.one_of(texts, st.dictionaries(texts, texts, max_size=2)),
        ),
        max_size=2,
    ),
    **dict.fromkeys(("rename", "idempotency_argument"), st.dictionaries(texts, texts, max_size=2)),
    "tools": st.dictionaries(st.sampled_from(["allow", "deny", "alow"]), st.lists(texts, max_size=2)),
    "auth": auths,
    "tls_pins": st.one_of(texts, st.lists(pins, max_size=2)),
    "ca_bundle": texts,
    "client_cert": st.one_of(
        texts, st.dictionaries(st.sampled_from(["cert", "key", "password"]), texts, max_size=3)
    ),
    **dict.fromkeys(("trust_readonly", "trust_idempotent", "disabled", "insecure"), st.booleans()),
}
fields = [*server_schema.FIELDS, "unknown"]


@st.composite
def tables(draw, keys=tuple(fields), base=({}, {"command": "npx"}, HTTP, {"type": "uds", "path": "/a"})):
    """A server's table: a good one, with some fields changed for fitting or for any values."""
    table = dict(draw(st.sampled_from(base)))
    for key in draw(st.lists(st.sampled_from(keys), max_size=3)):
        table[key] = draw(st.one_of(fitting.get(key, numbers), anything))
    return table


def accepts(document):
    """Return the check's verdict, once the JSON Schema's is the same."""
    errors = [problem for problem in server_schema.check_document(document) if problem.severity == "error"]
    judged = next(VALIDATOR.iter_errors(document), None)
    assert (judged is None) == (not errors), (judged and judged.message, [str(error) for error in errors])
    return not errors


@example(table={"command": "npx", "tls_pins": ["A" * 43 + "="]}, name="x")
@given(table=tables(), name=st.just("x") | st.text(alphabet="a-0A \n.", max_size=4))
def test_on_generated_servers(table, name):
    accepts({"mcpServers": {name: table}})


@given(table=tables(keys=[*fields], base=({},)))
def test_on_generated_defaults(table):
    accepts({"defaults": table})


good_hosts = ["a.example", "*.example", "10.0.0.0/8", "::1", "fe80::/10", "1.2.3.4"]
bad_hosts = ["a b", "https://a", "a:80", "a/b", "a\n", "", "${A}"]
hosts = st.lists(st.sampled_from([*good_hosts, *bad_hosts]), max_size=3)


@given(
    table=st.dictionaries(
        st.sampled_from(["policy", "allow", "deny", "alow"]),
        st.one_of(hosts, st.sampled_from(["open", "registered", "closed"]), numbers),
    )
)
def test_on_generated_network_rules(table):
    accepts({"network": table})


@pytest.mark.parametrize(
    "table",
    [
        {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-github"], "env": {"A": "${A}"}},
        {"command": "npx", "timeout": 60, "autoApprove": []},
        {**HTTP, "auth": {"type": "bearer", "token": "${SLACK_TOKEN}"}, "timeout": 60},
        {**HTTP, "auth": {"type": "api_key", "key": "x"}},
        {**HTTP, "auth": {"type": "basic", "username": "u", "password": ""}},
        {**HTTP, "auth": {"token_env": "A", "scopes": ["a"]}},
        {**HTTP, "auth": OAUTH},
        {**HTTP, "auth": {**WITH_KEY, "private_key": "~/key.pem", "private_key_id": "${KEY_ID}"}},
        {**HTTP, "auth": {"type": "oauth", "flow": "device_code", "client_id": "a"}},
        {**HTTP, "auth": {"type": "oauth", "client_metadata_url": "https://a.example/b"}},
        {**HTTP, "headers": {"Authorization": "Bearer ${A}"}, "env": {"A": "b"}},
        {"type": "streamable-http", "url": "HTTPS://example.com"},
        {"type": "pipe", "path": "\\\\.\\pipe\\a", "command": "a", "args": ["b"]},
        {
            "command": "npx",
            "tools": {"allow": ["a*"], "deny": []},
            "rename": {"a": "b"},
            "verify": {"a": {"tool": "b", "arguments": {"c": "arguments.c"}, "happened": "result"}},
            "inline_limit_kb": 0,
        },
    ],
)
def test_on_good_servers(table):
    assert accepts({"mcpServers": {"x": table}, "other": {"a": 1}})


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"url": "https://example.com"},
        {"type": "http"},
        {"type": 3},
        {**HTTP, "command": "npx"},
        {**HTTP, "timeout": 601},
        {**HTTP, "auth": {"type": "bearer", "token": "a", "token_env": "A"}},
        {**HTTP, "auth": {"token_env": "A\n"}},
        {**HTTP, "headers": {"X-A": "a\r\nX-B: b"}},
        {**HTTP, "url": "https://a\\@b"},
        {"command": "npx", "env": {"A": 1}},
        {"command": "npx", "env": {"A=B": "1"}},
        {"command": "npx", "protocol": "auto\n"},
        {"command": "npx", "cwd": "${A:-${B}}"},
        {"command": "npx", "max_line_mb": 0},
    ],
)
def test_on_bad_servers(table):
    assert not accepts({"mcpServers": {"x": table}})


def test_the_schema_is_one_and_describes_every_field():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["$defs"]["server"]["properties"]) == set(server_schema.FIELDS)
    defaults = SCHEMA["$defs"]["defaults"]["properties"].items()
    assert {name for name, rule in defaults if rule is not False} == set(server_schema.DEFAULTABLE)
    assert set(SCHEMA["properties"]["network"]["properties"]) == set(server_schema.NETWORK_FIELDS)
    assert set(SCHEMA["$defs"]["auth"]["properties"]) == set(auth.FIELDS)
