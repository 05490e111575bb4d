"""One server, field by field, and references in the syntaxes of clients."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin import variable_references
from pflow_mcp_plugin.config import server_schema
from pflow_mcp_plugin.config.interchange import client_formats as formats
from pflow_mcp_plugin.config.interchange import server_translation
from pflow_mcp_plugin.config.interchange.clients import CLIENTS
from pflow_mcp_plugin.config.interchange.server_translation import (
    BRACED,
    CURLY,
    DOLLAR,
    INPUTS,
    NONE,
    OURS,
    PREFIXED,
    read_server,
    write_server,
)


def read(form, table):
    return read_server("mcpServers.a", table, form, {})


@pytest.mark.parametrize(
    ("form", "table", "transport"),
    [
        (formats.CURSOR, {"url": "https://x.example/mcp"}, "http"),
        (formats.CURSOR, {"url": "https://x.example/sse/?a=1"}, "sse"),
        (formats.GEMINI_CLI, {"url": "https://x.example/mcp"}, "sse"),
        (formats.GEMINI_CLI, {"httpUrl": "https://x.example/sse"}, "http"),
    ],
)
def test_a_url_without_a_type_gets_the_transport_that_its_client_infers(form, table, transport):
    assert read(form, table).table["type"] == transport


def test_numbers_and_booleans_where_strings_belong_become_what_they_are_there():
    table = {"type": "stdio", "cmd": "x", "args": [8080], "envs": {"A": 1, "B": True, 3: "c"}}
    env = {"A": "1", "B": "true", "3": "c"}
    assert read(formats.GOOSE, table).table == {"command": "x", "args": ["8080"], "env": env}


def test_null_and_empty_fields_say_nothing_and_a_variable_or_header_that_is_null_is_named():
    table = {"command": "x", "args": [], "env": {}, "headers": None, "cwd": None, "note": ""}
    reading = read(formats.CURSOR, table)
    assert (reading.table, reading.lost) == ({"command": "x"}, ())
    reading = read(formats.CURSOR, {"command": "x", "env": {"A": None, "B": 1}, "headers": {"H": None}})
    assert (reading.table, reading.lost) == ({"command": "x", "env": {"B": "1"}}, ("env.A", "headers.H"))


def test_a_limit_above_ours_lifts_ours_too_and_is_not_reported_as_lost_on_the_way_back():
    reading = read(formats.GEMINI_CLI, {"command": "x", "timeout": 1_800_000})
    assert reading.table == {"command": "x", "call_timeout": 1800, "call_timeout_max": 1800}
    assert write_server(reading.table, formats.GEMINI_CLI).lost == ()
    assert read(formats.CLAUDE_CODE, {"command": "x", "timeout": 600_000}).table["call_timeout"] == 600
    assert "call_timeout_max" not in read(formats.CLAUDE_CODE, {"command": "x", "timeout": 600_000}).table


def test_auth_becomes_the_header_that_it_sends_and_a_password_stays_behind():
    table = {"type": "http", "url": "https://x.example/mcp"}
    for auth, headers in (
        ({"type": "bearer", "token": "${T}"}, {"Authorization": "Bearer ${env:T}"}),
        ({"token_env": "T"}, {"Authorization": "Bearer ${env:T}"}),
        ({"type": "api_key", "key": "${T}", "header": "X-K"}, {"X-K": "${env:T}"}),
    ):
        assert write_server({**table, "auth": auth}, formats.CURSOR).table["headers"] == headers
    basic = {"type": "basic", "username": "u", "password": "${P}"}
    assert "basic" in write_server({**table, "auth": basic}, formats.CURSOR).reason
    reason = write_server({**table, "auth": {"type": "oauth", "client_id": "me"}}, formats.CURSOR).reason
    assert reason == "it cannot express auth of type oauth in a header"
    assert write_server({**table, "auth": basic}, formats.MCP_JSON).table["auth"] == basic


def test_globs_are_no_tool_names_elsewhere_and_a_field_with_its_default_is_not_missed():
    tools = {"allow": ["get_*"], "deny": ["drop"]}
    writing = write_server({"command": "x", "tools": tools}, formats.GEMINI_CLI)
    assert writing.table == {"command": "x", "excludeTools": ["drop"]}
    assert writing.lost == ("tools.allow",)
    table = {"command": "x", "call_timeout_max": 600.0, "disabled": False, "protocol": "auto", "rename": {}}
    assert write_server(table, formats.CLAUDE_DESKTOP).lost == ()
    assert write_server({**table, "protocol": "handshake"}, formats.CLAUDE_DESKTOP).lost == ("protocol",)


def test_codex_gets_its_variables_in_fields_of_their_own():
    env = {"A": "${A}", "B": "${A}", "C": "c"}
    writing = write_server({"command": "x", "env": env}, formats.CODEX)
    assert writing.table == {"command": "x", "env": {"B": "${A}", "C": "c"}, "env_vars": ["A"]}
    assert writing.lost == ("env.B: it does not expand ${A}",)
    forwarded = {"command": "x", "env_vars": [{"name": "R", "source": "remote"}, "S"]}
    assert read(formats.CODEX, forwarded).table["env"] == {"R": "${R}", "S": "${S}"}


_TEXT = st.text(
    st.characters(exclude_characters="$", exclude_categories=("Cs", "Cc")), min_size=1, max_size=8
).filter(str.strip)
_STDIO = st.fixed_dictionaries(
    {"command": _TEXT},
    optional={
        "args": st.lists(_TEXT | st.just("${A:-b}"), min_size=1, max_size=3),
        "env": st.dictionaries(st.sampled_from("ABC"), _TEXT | st.just("${A}"), min_size=1),
        "call_timeout": st.integers(1, 600),
        "tools": st.fixed_dictionaries({"allow": st.lists(_TEXT, min_size=1, max_size=2)}),
        "disabled": st.just(True),
    },
)


@given(_STDIO, st.sampled_from(sorted(CLIENTS)))
def test_what_a_client_does_not_lose_comes_back(table, name):
    form = CLIENTS[name].format
    writing = write_server(table, form)
    written = {**writing.table, **({"name": "a"} if form.names_itself else {})}
    back = read_server("mcpServers.a", written, form, {"input:a": "${A:-b}"})
    assert [it for it in back.problems if it.severity == "error"] == []
    if not writing.lost and "{env:" not in str(table):
        assert server_schema.build("a", back.table, {}) == server_schema.build("a", table, {})


def test_certificates_and_pins_survive_in_our_own_format_and_are_named_where_a_client_has_none():
    table = {
        "type": "http",
        "url": "https://x.example/mcp",
        "tls_pins": ["47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="],
        "ca_bundle": "${DIR}/ca.pem",
        "client_cert": {"cert": "${DIR}/a.pem", "key": "a.key"},
    }
    written = write_server(table, formats.MCP_JSON)
    assert written.lost == ()
    assert read(formats.MCP_JSON, written.table).table == table
    assert set(write_server(table, formats.CURSOR).lost) == {"tls_pins", "ca_bundle", "client_cert"}


SYNTAXES = [OURS, BRACED, PREFIXED, DOLLAR, CURLY, NONE]


def converted(text, syntax=OURS, **known):
    found, problems = server_translation.read_references("p", text, syntax, known)
    assert problems == []
    return found


@pytest.mark.parametrize(
    ("text", "syntax", "ours"),
    [
        ("Bearer ${env:TOKEN}", PREFIXED, "Bearer ${TOKEN}"),
        ("${env:A}${env:B}", INPUTS, "${A}${B}"),
        ("$TOKEN and ${TOKEN}", DOLLAR, "${TOKEN} and ${TOKEN}"),
        ("price: $5, $$TOKEN", DOLLAR, "price: $5, $$TOKEN"),
        ("$${} and $${a/b}", OURS, "$${} and $${a/b}"),
        ("${A:-}", DOLLAR, "${A:-}"),
        ("{env:TOKEN}/x", CURLY, "${TOKEN}/x"),
        ("${X}", NONE, "${X}"),
        ("echo ${VAR%/*} ${", OURS, "echo $${VAR%/*} $${"),
    ],
)
def test_a_reference_becomes_ours(text, syntax, ours):
    assert converted(text, syntax) == ours
    assert variable_references.malformed(ours) == ""


def test_what_a_client_does_not_expand_may_be_for_the_program_if_its_env_has_it():
    env = {"AUTH": "Bearer ${TOKEN}", "AUTH_2": "${AUTH_2}"}
    given = {"command": "npx", "args": ["--header", "Authorization:${AUTH}", "${OTHER}"], "env": env}
    ours = read(formats.CLAUDE_DESKTOP, given).table
    assert ours["args"] == ["--header", "Authorization:$${AUTH}", "${OTHER}"]
    assert ours["env"] == env
    assert read(formats.CLAUDE_CODE, given).table["args"][1] == "Authorization:${AUTH}"


def test_a_word_that_has_a_meaning_in_its_file_is_replaced():
    known = {"userHome": "${HOME}", "/": "/", "input:api-key": "${API_KEY}"}
    assert converted("${userHome}${/}x/${input:api-key}", INPUTS, **known) == "${HOME}/x/${API_KEY}"


@pytest.mark.parametrize(
    ("text", "syntax", "step"),
    [
        ("${cmd:op read op://Private/token}", OURS, "settings set KEY --from-command"),
        ("${command:extension.token}", INPUTS, "--from-command"),
        ("${file:/run/secrets/token}", PREFIXED, "--from-command 'cat FILE'"),
        ("{file:~/.token}", CURLY, "--from-command 'cat FILE'"),
        ("${input:unknown}", INPUTS, "defines no such input"),
        ("${workspaceFolder}/x", PREFIXED, "Write the folder itself"),
    ],
)
def test_what_has_no_equivalent_is_a_problem_with_its_remedy(text, syntax, step):
    _, [problem] = server_translation.read_references("mcpServers.a.command", text, syntax, {})
    assert problem.path == "mcpServers.a.command"
    assert step in problem.suggestion
    assert "op://" not in problem.message


@pytest.mark.parametrize(
    ("ours", "syntax", "theirs", "lost"),
    [
        ("Bearer ${TOKEN}", PREFIXED, "Bearer ${env:TOKEN}", []),
        ("${API_TOKEN}", INPUTS, "${input:api-token}", []),
        ("${LEVEL}", INPUTS, "${env:LEVEL}", []),
        ("${A:-b}", DOLLAR, "${A:-b}", []),
        ("${A:-b}", PREFIXED, "${env:A}", ["the default of ${A}"]),
        ("${A}", CURLY, "{env:A}", []),
        ("${A}", NONE, "${A}", ["it does not expand ${A}"]),
        ("$${A}", OURS, "$${A}", []),
        ("$${A}", BRACED, "${A}", ["a literal ${, which it would expand"]),
        ("{env:${A}", CURLY, "{env:{env:A}", ["a literal {env:, which it would expand"]),
        ("$HOME", DOLLAR, "$HOME", ["a literal $, which it would expand"]),
    ],
)
def test_a_reference_becomes_theirs_and_what_cannot_be_said_is_listed(ours, syntax, theirs, lost):
    assert server_translation.write_references(ours, syntax) == (theirs, lost)


@pytest.mark.parametrize(
    ("text", "name"), [("api-key", "API_KEY"), ("9lives", "VALUE_9LIVES"), ("日", "VALUE"), ("aB.c", "AB_C")]
)
def test_a_variable_is_named_after_what_it_holds(text, name):
    assert server_translation.variable_name(text) == name
    assert variable_references.is_variable(name)


_TEXTS = st.lists(
    st.sampled_from(
        ["${A}", "${B_2}", "${C:-x y}", "$${", "$", "{", "}", "env:", "text ", "/", "A", "$A", "é"]
    ),
    max_size=6,
).map("".join)


@given(_TEXTS, st.sampled_from(SYNTAXES))
def test_a_value_that_loses_nothing_comes_back_as_it_was(text, syntax):
    if variable_references.malformed(text):
        return
    theirs, lost = server_translation.write_references(text, syntax)
    if lost or ("$${" in text and syntax is not OURS):
        return
    back, problems = server_translation.read_references("p", theirs, syntax, {})
    assert (back, problems) == (text, [])


@given(st.text(alphabet="${}:-AB_env input/", max_size=20), st.sampled_from(SYNTAXES))
def test_whatever_is_read_is_well_formed_or_a_problem(text, syntax):
    found, problems = server_translation.read_references("p", text, syntax, {})
    assert problems or not variable_references.malformed(found)
