"""Checks of servers: what is refused, where, and what to do; and the server that is built.

The JSON Schema for editors comes to the same verdict.
"""

import json
import tomllib
from datetime import date

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pflow_mcp_plugin.config import auth, server_schema
from pflow_mcp_plugin.config.field_checks import SCHEMA_FILE
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.types import Server, ToolFilter

NPX = {"command": "npx"}
HTTP = {"type": "http", "url": "https://example.com/mcp"}
PIN = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
OAUTH = {
    "type": "oauth",
    "flow": "client_credentials",
    "client_id": "me",
    "client_secret": "${SECRET}",
    "issuer": "https://login.example.com",
}


WITH_KEY = {name: value for name, value in OAUTH.items() if name != "client_secret"}
SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def accepts(document):
    """Return the check's verdict, once the JSON Schema's is the same."""
    errors = [problem for problem in server_schema.check_document(document) if problem.severity == "error"]
    judged = next(VALIDATOR.iter_errors(document), None)
    assert (judged is None) == (not errors), (judged and judged.message, [str(error) for error in errors])
    return not errors


def found(table, severity):
    problems = [it for it in server_schema.check_server("slack", table) if it.severity == severity]
    assert all(problem.path.startswith("mcpServers.slack") for problem in problems)
    return {problem.path.removeprefix("mcpServers.slack."): problem for problem in problems}


def errors(table):
    """Return the errors of a server's table by their place in it."""
    return found(table, "error")


def warnings(table):
    return found(table, "warning")


def test_every_mistake_of_a_server_is_found_at_once_each_with_its_path_and_fix():
    wrong = {"headers": {"X-One": 1, "bad name": "x"}, "timeout": 601, "tools": {"allow": "get_*"}}
    found = errors({"type": "http", "url": "ftp://example.com", **wrong})
    assert set(found) == {"url", "headers.X-One", 'headers."bad name"', "timeout", "tools.allow"}
    assert all(problem.suggestion for problem in found.values())


@pytest.mark.parametrize(
    ("table", "place", "found", "step"),
    [
        ({"command": ["npx"]}, "command", "string, not a list", "in quotes"),
        ({**NPX, "args": {"a": "b"}}, "args", "list of strings, not a table", 'args = ["'),
        ({**NPX, "args": ["a", {}]}, "args[1]", "string, not a table", "one string"),
        ({**NPX, "env": []}, "env", "table of strings, not a list", "env = {"),
        ({**NPX, "env": {"A": date(2020, 1, 1)}}, "env.A", "not a date or time", "in quotes"),
        ({**NPX, "env": {"A=B": "x"}}, 'env."A=B"', "name of a variable", "letters"),
        ({**NPX, "disabled": "yes"}, "disabled", "true or false, not a string", "without quotes"),
        ({**NPX, "trust": "yes"}, "trust", "pin or auto", '"auto"'),
        ({**NPX, "call_timeout": True}, "call_timeout", "number, not true or false", "without quotes"),
        ({**NPX, "call_timeout": 86_401}, "call_timeout", "at most 86400, not 86401", "86400"),
        ({**NPX, "call_timeout": 10**12}, "call_timeout", "a number with many digits", "86400"),
        ({"command": "x\0"}, "command", "NUL", "Remove"),
        ({"command": " "}, "command", "not be empty", "Give command a value"),
        ({**NPX, "protocol": "1"}, "protocol", "auto, handshake or a protocol version", '"auto"'),
        ({"url": None, "type": "http"}, "url", "http server needs a url", "https://"),
        ({"url": HTTP["url"]}, "type", "", '"type": "http"'),
        ({"type": "uds"}, "path", "uds server needs a path", 'path = "/'),
        ({"type": "ssee", "url": HTTP["url"]}, "type", "'ssee'; known: stdio, http", '"type": "sse"'),
        ({"path": "x"}, "type", "with a path needs its type; without one it is a stdio", '"type": "uds"'),
        ({}, "command", "stdio server needs a command", 'command = "'),
        ({**HTTP, "path": "x"}, "path", "no path; it belongs to uds and pipe", '"type": "uds"'),
        ({**HTTP, "headers": {"A": "a\nb"}}, "headers.A", "line breaks", "one line"),
        ({**HTTP, "auth": 3}, "auth", "table, not a number", "auth = {"),
        ({**HTTP, "auth": {"type": "x"}}, "auth.type", "known: bearer, api_key", 'type = "bearer"'),
        ({**HTTP, "auth": {"username": "x"}}, "auth", "has no type", 'type = "basic"'),
        ({**HTTP, "auth": {"token_env": "a b"}}, "auth.token_env", "name of a variable", '"API_TOKEN"'),
        ({**HTTP, "auth": {"token_env": "${A}"}}, "auth.token_env", "", 'Write the bare name: "A"'),
        ({**NPX, "env": {"PIN": 123456}}, "env.PIN", "a string, not a number", "in quotes"),
        ({**HTTP, "client_cert": {"key": "k"}}, "client_cert.cert", "needs a cert", "cert = "),
        ({**HTTP, "tls_pins": []}, "tls_pins", "", "pin"),
        ({**HTTP, "tls_pins": [PIN, "sha256/x"]}, "tls_pins[1]", "", "pin"),
    ],
)
def test_a_mistake_says_what_was_found_and_what_to_write(table, place, found, step):
    assert not accepts({"mcpServers": {"slack": table}})
    problem = errors(table)[place]
    assert found in problem.message
    assert "123456" not in str(problem)
    assert problem.suggestion
    assert step in problem.suggestion


@pytest.mark.parametrize(
    ("document", "place", "found", "step"),
    [
        ({"mcpServers": {"A b": 3}}, 'mcpServers."A b"', "not a number", '[mcpServers."A b"]'),
        ({"defaults": []}, "defaults", "not a list", "Write [defaults]"),
        ({"defaults": {"url": "x"}}, "defaults.url", "cannot be set for all servers", "[mcpServers.NAME]"),
        ({"serve": {"show_secret": True}}, "serve.show_secret", "not used", "show_secrets?"),
        ({"network": {"policy": 3}}, "network.policy", "open or registered", '"registered"'),
        ({"zzz": 3}, "zzz", "kept but not used", "mcpServers, defaults, serve, network"),
        ({"b c": {"url": "x"}}, '"b c"', "not under mcpServers", 'Write [mcpServers."b c"]'),
    ],
)
def test_a_mistake_outside_of_the_servers_says_so_too(document, place, found, step):
    problem = next(it for it in server_schema.check_document(document) if step in it.suggestion)
    assert (problem.path, problem.kind) == (place, "config")
    assert found in problem.message
    assert not server_schema.check_document({"$schema": "x", "mcpServers": {}, "defaults": {}, "serve": {}})


@pytest.mark.parametrize("seconds", [0, 600.001, float("inf"), float("nan")])
def test_the_http_timeout_is_above_0_and_at_most_600(seconds):
    problem = errors({**HTTP, "timeout": seconds})["timeout"]
    assert "greater than 0 and at most 600" in problem.message
    assert problem.suggestion == "Write a number greater than 0, at most 600"
    assert not errors({**HTTP, "timeout": 600})
    assert "a number with many digits" in errors({**HTTP, "timeout": 10**5000})["timeout"].message


@pytest.mark.parametrize("url", ["https://localhost:99999/", "https://a:b/", "https://[::1/", "https://me@/"])
def test_a_url_has_a_host_and_a_possible_port(url):
    assert errors({**HTTP, "url": url})["url"].message == "The host or port is invalid"
    assert not errors({**HTTP, "url": "https://${HOST}:${PORT:-99999}/"})


def test_spellings_of_a_type_mean_the_same_and_are_written_as_one():
    for spelling in ("http", "stream-http", "streamable-http"):
        table = {**HTTP, "type": spelling}
        assert not errors(table)
        assert server_schema.build("slack", table, {}).transport == "http"
        assert server_schema.clean(table)["type"] == "http"
    for kind in ({}, {"type": "stdio"}, {"type": None}):
        table = {"command": "npx", "cwd": None, "env": {"A": None}, **kind}
        assert not errors(table)
        assert server_schema.build("slack", table, {}).transport == "stdio"
        assert server_schema.clean(table) == {"command": "npx", "env": {}}


def test_a_field_of_another_transport_says_whose_it_is():
    assert "http and sse" in errors({"command": "npx", "url": "https://e.com"})["url"].message
    assert "stdio" in errors({**HTTP, "command": "npx"})["command"].message
    unused = warnings(
        {"command": "npx", "timeout": 3, "insecure": True, "ca_bundle": "a", "client_cert": "b"}
    )
    assert set(unused) == {"timeout", "insecure", "ca_bundle", "client_cert"}
    assert [place for place, problem in unused.items() if "call_timeout" in problem.suggestion] == ["timeout"]


def test_an_unknown_field_is_a_warning_with_the_nearest_one():
    assert "Did you mean args?" in str(warnings({"command": "npx", "arg": []})["arg"])
    assert "Did you mean type?" in str(warnings({"command": "npx", "transport": "x"})["transport"])


@pytest.mark.parametrize("name", ["Git Hub", "GitHub", "", "a_b", "a\n", "ä"])
def test_a_server_name_that_does_not_fit_is_refused_with_one_that_does(name):
    problems = server_schema.check_server(name, {"command": "npx"})
    assert [problem.suggestion.startswith("Name it ") for problem in problems] == [True]


@pytest.mark.parametrize(
    ("auth", "place"),
    [
        ({}, "auth"),
        ({"type": "bearer"}, "auth.token"),
        ({"type": "bearer", "token": "a", "token_env": "A"}, "auth"),
        ({"type": "api_key"}, "auth.key"),
        ({"type": "api_key", "key": "x", "header": "a b"}, "auth.header"),
        ({"type": "basic", "username": "u"}, "auth.password"),
        ({**OAUTH, "flow": "implicit"}, "auth.flow"),
        ({"type": "oauth", "client_secret": "${A}"}, "auth.client_id"),
        ({"type": "oauth", "client_id": "a", "client_secret": "b", "private_key": "c"}, "auth"),
        ({"type": "oauth", "client_metadata_url": "http://a.example/b"}, "auth.client_metadata_url"),
        ({"type": "oauth", "redirect_port": 0}, "auth.redirect_port"),
        ({key: value for key, value in OAUTH.items() if key != "issuer"}, "auth.issuer"),
        ({**OAUTH, "private_key": "key.pem"}, "auth"),
        ({**OAUTH, "private_key_id": "first"}, "auth.private_key"),
        ({**OAUTH, "scopes": "read"}, "auth.scopes"),
    ],
)
def test_auth_is_refused_where_it_is_wrong(auth, place):
    assert list(errors({**HTTP, "auth": auth})) == [place]
    assert not accepts({"mcpServers": {"slack": {**HTTP, "auth": auth}}})


@pytest.mark.parametrize(
    "auth",
    [
        {"type": "bearer", "token": "${A}"},
        {"type": "api_key", "key": "${A}"},
        {"type": "basic", "username": "u", "password": "${A}"},
        OAUTH,
    ],
)
def test_a_field_of_another_type_of_auth_is_a_warning_and_its_own_are_none(auth):
    others = {"token": "x", "key": "x", "username": "x", "client_id": "x"}
    unused = {f"auth.{key}" for key in others.keys() - auth.keys()}
    assert not warnings({**HTTP, "auth": auth})
    assert accepts({"mcpServers": {"slack": {**HTTP, "auth": auth}}})
    told = warnings({**HTTP, "auth": {**others, **auth}})
    assert {path for path, problem in told.items() if "has no effect" in problem.message} == unused


@pytest.mark.parametrize("given", ["client_secret", "private_key"])
def test_credentials_of_a_client_without_an_issuer_are_a_warning(given):
    auth = {"type": "oauth", "client_id": "a", given: "b"}
    assert given in warnings({**HTTP, "auth": auth})["auth.issuer"].message
    assert not warnings({**HTTP, "auth": {**auth, "issuer": "https://login.example.com"}})


@pytest.mark.parametrize("text", ["a ${1x} b", "${A", "${A-b}", "${A:-${B}}", "${env:TOKEN}", "${input:a}"])
def test_a_malformed_reference_is_explained(text):
    problem = errors({"command": "npx", "env": {"A": text}})["env.A"]
    assert text != "${env:TOKEN}" or problem.suggestion == "Write ${TOKEN}"


def test_deadlines_that_contradict_each_other_are_a_warning():
    assert warnings({"command": "npx", "call_timeout": 900})
    assert not warnings({"command": "npx", "call_timeout": 900, "call_timeout_max": 900})
    table, defaults = {"command": "npx", "call_timeout": 60}, {"call_timeout_max": 30}
    (problem,) = server_schema.check_server("slack", table, defaults)
    assert "call_timeout (60) is longer than call_timeout_max (30)" in problem.message
    assert "at least 60" in problem.suggestion
    assert not server_schema.check_server("slack", {"command": "npx"}, {"call_timeout": 900, **defaults})


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
        {"command": "npx", "timeout": 60, "autoApprove": []},
        {**HTTP, "auth": {**WITH_KEY, "private_key": "~/key.pem", "private_key_id": "${KEY_ID}"}},
        {**HTTP, "auth": {"type": "oauth", "flow": "device_code", "client_id": "a"}},
        {**HTTP, "auth": {"type": "oauth", "client_metadata_url": "https://a.example/b"}},
        {"type": "streamable-http", "url": "HTTPS://example.com"},
        {"type": "pipe", "path": "\\\\.\\pipe\\a", "command": "a", "args": ["b"]},
        {
            "command": "npx",
            "verify": {"a": {"tool": "b", "arguments": {"c": "arguments.c"}, "happened": "result"}},
            "inline_limit_kb": 0,
        },
    ],
)
def test_good_servers_have_no_errors(table):
    assert accepts({"mcpServers": {"slack": table}, "other": {"a": 1}})


def test_the_schema_is_one_and_describes_every_field():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["$defs"]["server"]["properties"]) == set(server_schema.FIELDS)
    defaults = SCHEMA["$defs"]["defaults"]["properties"].items()
    assert {name for name, rule in defaults if rule is not False} == set(server_schema.DEFAULTABLE)
    assert set(SCHEMA["properties"]["network"]["properties"]) == set(server_schema.NETWORK_FIELDS)
    assert set(SCHEMA["$defs"]["auth"]["properties"]) == set(auth.FIELDS)


def test_defaults_fill_in_what_a_server_leaves_out_and_hold_only_what_can_hold_for_all():
    defaults = {"call_timeout": 7, "trust_readonly": True, "timeout": 9}
    assert server_schema.check_defaults(defaults) == []
    server = server_schema.build("slack", {**HTTP, "call_timeout": 8}, defaults)
    assert (server.call_timeout, server.trust_readonly, server.timeout) == (8.0, True, 9.0)
    problems = server_schema.check_defaults({"command": "npx", "call_timeout": "x", "cal_timeout": 1})
    found = [(problem.path, problem.severity) for problem in problems]
    wrong = [("defaults.call_timeout", "error"), ("defaults.command", "error")]
    assert sorted(found) == [("defaults.cal_timeout", "warning"), *wrong]


def test_a_whole_table_becomes_a_server():
    same = {
        "url": "${BASE}/mcp",
        "headers": {"X-A": "b"},
        "auth": {"token_env": "A", "scopes": ["repo:read"]},
        "rename": {"a": "b"},
        "protocol": "2025-11-25",
    }
    table = {"type": "sse", "tools": {"allow": ["get_*"]}, "timeout": 60, **same}
    assert accepts({"mcpServers": {"slack": table}})
    changed = {"transport": "sse", "tools": ToolFilter(allow=("get_*",)), "timeout": 60.0}
    assert server_schema.build("slack", table, {}) == Server(name="slack", **changed, **same)


@pytest.mark.parametrize("value", [[None], [{"a": {"b": [None]}}], {"a": [None]}])
def test_null_in_a_list_of_an_unknown_field_is_refused_however_deep_and_elsewhere_means_not_given(value):
    found = errors({"command": "npx", "later": value})
    assert ["null in a list" in problem.message for problem in found.values()] == [True]
    assert errors({"command": "npx", "later": {"a": {"b": None}}}) == {}


def test_a_policy_on_data_flows_in_the_wrong_file_is_not_ignored(tmp_path):
    text = '[flows]\ndeny = []\n[mcpServers.a]\ncommand = "npx"\n'
    (problem,) = server_schema.check_document(tomllib.loads(text))
    assert (problem.severity, problem.path) == ("error", "flows")
    assert "pflow.toml" in problem.suggestion
    store = ServerStore(tmp_path / "mcp-servers.toml")
    store.path.write_text(text)
    with pytest.raises(McpError, match="has no effect in this file"):
        store.get("a")


def test_the_fingerprint_changes_with_what_decides_the_tools_only():
    table = {"command": "npx", "args": ["a"]}
    same = {"args": ["a"], "command": "npx", "type": "stdio", "call_timeout": 3, "rename": {"a": "b"}}
    assert server_schema.fingerprint(table) == server_schema.fingerprint(same)
    assert server_schema.fingerprint(table) != server_schema.fingerprint({**table, "args": ["b"]})
    assert server_schema.fingerprint(table) != server_schema.fingerprint(table, {"protocol": "handshake"})
    day = date(2020, 1, 1)
    one, other = ({**table, "env": env} for env in ({"A": "1", "B": day}, {"B": day, "A": "1"}))
    assert server_schema.fingerprint(one) == server_schema.fingerprint(other)


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("HTTP://localhost:1", "sse"),
        ("http://${HOST}/mcp", "streamable-http"),
    ],
)
@pytest.mark.parametrize(
    "field", [{"tls_pins": [PIN]}, {"tls_pins": "pins"}, {"ca_bundle": "a"}, {"client_cert": "a"}]
)
def test_row_62_what_belongs_to_tls_is_an_error_beside_an_http_url(url, kind, field):
    (key,) = field
    found = errors({"type": kind, "url": url, "insecure": True, **field})
    assert found[key].suggestion == f"Write https in its url, or remove {key}"
    assert not errors({"type": kind, "url": url.replace("http", "https").replace("HTTP", "https"), **field})
    assert not errors({"type": kind, "url": "${URL}", **field})


@pytest.mark.parametrize(
    "table",
    [{"command": "npx"}, {"type": "uds", "path": "/run/s"}, {"type": "pipe", "path": "p", "command": "npx"}],
)
def test_row_62_pins_are_an_error_on_a_server_without_tls(table):
    assert set(errors({**table, "tls_pins": [PIN]})) == {"tls_pins"}
    assert not server_schema.check_server("slack", table, {"tls_pins": [PIN]})


def test_row_62_pins_of_all_servers_are_an_error_for_one_on_plain_http_other_files_are_not():
    plain = {"type": "http", "url": "http://localhost/"}
    (problem,) = server_schema.check_server("web", plain, {"tls_pins": [PIN], "ca_bundle": "ca.pem"})
    assert (problem.severity, problem.path) == ("error", "mcpServers.web.url")
    assert "tls_pins of [defaults]" in problem.message
    assert not server_schema.check_server("web", plain, {"client_cert": "a.pem", "ca_bundle": "ca.pem"})


def test_a_limit_of_memory_has_no_effect_on_a_server_that_pflow_does_not_start():
    assert set(warnings({**HTTP, "memory_limit_mb": 100})) == {"memory_limit_mb"}
    assert not warnings({"command": "npx", "memory_limit_mb": 100})
    assert not warnings({"type": "uds", "path": "/run/a.sock", "command": "npx", "memory_limit_mb": 0.5})
    assert set(errors({"command": "npx", "memory_limit_mb": 0})) == {"memory_limit_mb"}


def test_certificates_and_pins_of_a_server_may_come_from_the_defaults():
    defaults = {"ca_bundle": "ca.pem", "client_cert": "client.pem", "tls_pins": "pins.txt"}
    assert server_schema.check_defaults(defaults) == []
    server = server_schema.build("web", {**HTTP, "tls_pins": [PIN]}, defaults)
    assert (server.ca_bundle, server.client_cert, server.tls_pins) == ("ca.pem", ("client.pem",), (PIN,))
    pair = {"cert": "a.pem", "key": "a.key"}
    server = server_schema.build("web", {**HTTP, "client_cert": pair}, defaults)
    assert server.client_cert == ("a.pem", "a.key")


def test_mistakes_in_the_rules_for_the_network_are_named_with_their_path():
    problems = server_schema.check_document(
        {
            "network": {
                "policy": "closed",
                "allow": ["https://example.com", "example.com:443", "10.0.0.0/33", "bücher.example", 3],
                "deny": "*",
                "alow": [],
            }
        }
    )
    assert {(problem.path, problem.severity) for problem in problems} == {
        ("network.policy", "error"),
        *((f"network.allow[{index}]", "error") for index in range(5)),
        ("network.deny", "error"),
        ("network.alow", "error"),
    }
    assert all(problem.suggestion for problem in problems)


@pytest.mark.parametrize("name", ["netwrok", "Network", "networks"])
def test_a_table_with_nearly_the_name_of_the_rules_for_the_network_is_an_error(name):
    (problem,) = server_schema.check_document({name: {"policy": "registered"}})
    assert (problem.path, problem.severity) == (name, "error")
    assert problem.suggestion == "Did you mean network?"
    (problem,) = server_schema.check_document({name: {"command": "npx"}})
    assert problem.severity == "warning"


def test_registered_hosts_are_those_that_the_config_writes():
    urls = {
        "a": "https://A.example.com:8443/mcp",
        "b": "https://user:${PASSWORD}@b.example.com:${PORT:-80/81}/${PATH}",
        "c": "https://${HOST}/mcp",
        "d": "https://${SUB}.example.com",
        "e": "${URL}",
        "f": "https://[::1",
        "g": "https://10.1.2.3/${TOKEN}",
    }
    servers = {name: {"type": "http", "url": url} for name, url in urls.items()}
    document = {"mcpServers": {**servers, "h": {"command": "npx"}, "i": 3}, "network": {"deny": ["x"]}}
    rules = server_schema.network_rules(document)
    assert rules.hosts == ("a.example.com", "b.example.com", "10.1.2.3")
    assert (rules.policy, rules.allow, rules.deny) == ("open", (), ("x",))


def test_insecure_on_an_https_url_is_a_warning():
    found = warnings({**HTTP, "insecure": True})
    assert "certificates are always checked" in found["insecure"].message
    assert warnings({**HTTP, "url": "http://example.com", "insecure": True}) == {}


@pytest.mark.parametrize(
    ("headers", "severity", "wrong"),
    [
        ({"content-Length": "3"}, "error", "by pflow itself"),
        ({"Mcp-Session-Id": "a"}, "error", "by pflow itself"),
        ({"X-A": "1", "x-A": "2"}, "error", "twice"),
        ({"x-api-KEY": "a"}, "warning", "auth sets it"),
    ],
)
def test_a_header_that_pflow_sets_or_that_is_set_twice_is_a_mistake(headers, severity, wrong):
    table = {**HTTP, "headers": {"Host": "a", **headers}, "auth": {"type": "api_key", "key": "b"}}
    (problem,) = server_schema.check_server("slack", table)
    assert problem.severity == severity
    assert wrong in problem.message
