"""References in the syntaxes of clients."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin import variable_references
from pflow_mcp_plugin.config.interchange import server_translation
from pflow_mcp_plugin.config.interchange.server_translation import (
    BRACED,
    CURLY,
    DOLLAR,
    INPUTS,
    NONE,
    OURS,
    PREFIXED,
)

SYNTAXES = {
    "ours": OURS,
    "braced": BRACED,
    "prefixed": PREFIXED,
    "dollar": DOLLAR,
    "curly": CURLY,
    "none": NONE,
}


def read(text, syntax=OURS, **known):
    converted, problems = server_translation.read_references("p", text, syntax, known)
    assert problems == []
    return converted


@pytest.mark.parametrize(
    ("text", "syntax", "ours"),
    [
        ("Bearer ${env:TOKEN}", PREFIXED, "Bearer ${TOKEN}"),
        ("${env:A}${env:B}", INPUTS, "${A}${B}"),
        ("$TOKEN and ${TOKEN}", DOLLAR, "${TOKEN} and ${TOKEN}"),
        ("$TOKEN", OURS, "$TOKEN"),
        ("price: $5, $$TOKEN", DOLLAR, "price: $5, $$TOKEN"),
        ("${A:-b c}", OURS, "${A:-b c}"),
        ("$${} and $${a/b}", OURS, "$${} and $${a/b}"),
        ("${A:-}", DOLLAR, "${A:-}"),
        ("{env:TOKEN}/x", CURLY, "${TOKEN}/x"),
        ("{env:TOKEN}", OURS, "{env:TOKEN}"),
        ("${X}", NONE, "${X}"),
        ("echo ${VAR%/*} ${", OURS, "echo $${VAR%/*} $${"),
        ("plain", PREFIXED, "plain"),
    ],
)
def test_a_reference_becomes_ours(text, syntax, ours):
    assert read(text, syntax) == ours
    assert variable_references.malformed(ours) == ""


def test_a_word_that_has_a_meaning_in_its_file_is_replaced():
    known = {"userHome": "${HOME}", "/": "/", "input:api-key": "${API_KEY}"}
    assert read("${userHome}${/}x/${input:api-key}", INPUTS, **known) == "${HOME}/x/${API_KEY}"


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
        ("${LEVEL:-info}", INPUTS, "${input:level}", []),
        ("${A:-b}", DOLLAR, "${A:-b}", []),
        ("${A:-b}", PREFIXED, "${env:A}", ["the default of ${A}"]),
        ("${A}", CURLY, "{env:A}", []),
        ("${A}", NONE, "${A}", ["it does not expand ${A}"]),
        ("$${A}", NONE, "${A}", []),
        ("$${A}", OURS, "$${A}", []),
        ("$${A}", BRACED, "${A}", ["a literal ${, which it would expand"]),
        ("{env:${A}", CURLY, "{env:{env:A}", ["a literal {env:, which it would expand"]),
        ("{file:b}", CURLY, "{file:b}", ["a literal {file:, which it would expand"]),
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


@given(_TEXTS, st.sampled_from(sorted(SYNTAXES)))
def test_a_value_that_loses_nothing_comes_back_as_it_was(text, name):
    if variable_references.malformed(text):
        return
    syntax = SYNTAXES[name]
    theirs, lost = server_translation.write_references(text, syntax)
    if lost or ("$${" in text and syntax is not OURS):
        return
    back, problems = server_translation.read_references("p", theirs, syntax, {})
    assert (back, problems) == (text, [])


@given(st.text(alphabet="${}:-AB_env input/", max_size=20), st.sampled_from(sorted(SYNTAXES)))
def test_whatever_is_read_is_well_formed_or_a_problem(text, name):
    converted, problems = server_translation.read_references("p", text, SYNTAXES[name], {})
    assert problems or not variable_references.malformed(converted)
