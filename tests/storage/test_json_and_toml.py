"""A dotted key of many parts is refused before it is parsed, which would take long; so is what is deep."""

import json
from pathlib import Path

import pytest

from pflow_mcp_plugin.config import document_text, server_input
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.storage import CorruptFile
from pflow_mcp_plugin.storage.json_and_toml import DEEPEST, decode_toml, is_too_deep

MANY = 50_000
DOTS = "." * 500
LONG = ".".join("a" * MANY)
STRINGS = ["a = '''\"...'''", 'b = "\'"', "c = '#\"' # it's \"", 'd = """\\"""\n\'\'\'"""']
REFUSED = {
    "key": LONG + " = 1",
    "header": f"[{LONG}]",
    "spaces": " \t. ".join("a" * MANY) + " = 1",
    "every kind of part": ".".join(["'a'", "b", '"c"', '""'] * MANY) + " = 1",
    "later in an inline table": f"a = {{ b = '1', {LONG} = 1}}",
    "table in a list": f"a = [1, {{{LONG} = 1}}]",
    "after strings": "\n".join([*STRINGS, LONG + " = 1"]),
    "carriage return": f"a = 1\r\n{LONG} = 1",
}
READ = {
    "comment behind a value": "a = 1 # " + ". " * 500,
    "string": f'a = "{DOTS}"',
    "quoted key": f"'{DOTS}' = 1",
    "text of many lines": f"a = '''{DOTS}\n{DOTS}'''",
    "times on one line": "a = [" + "07:32:00.5, " * 500 + "]",
    "tables on one line": "a = [" + "{ b.c = 1.5 }, " * 500 + "]",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_a_key_of_very_many_parts_is_refused_at_once(text):
    with pytest.raises(CorruptFile, match="nested too deeply"):
        decode_toml(Path("a.toml"), text.encode())


@pytest.mark.parametrize("text", READ.values(), ids=READ)
def test_other_dots_count_for_nothing(text):
    decode_toml(Path("a.toml"), text.encode())


def test_a_key_may_have_as_many_parts_as_there_are_levels():
    assert decode_toml(Path("a.toml"), (".".join("a" * (DEEPEST - 1)) + " = 1").encode())
    with pytest.raises(CorruptFile, match="nested too deeply"):
        decode_toml(Path("a.toml"), (".".join("a" * (DEEPEST + 1)) + " = 1").encode())


@pytest.mark.parametrize("begin", ['"\\' * MANY, "a = = 1\n", "a = '", 'a = """'])
def test_what_is_not_toml_is_refused_as_that_or_for_its_depth(begin):
    with pytest.raises(CorruptFile, match=r"not TOML|nested too deeply"):
        decode_toml(Path("a.toml"), f"{begin}{LONG} = 1".encode())


def nested(levels):
    value = "x"
    for _ in range(levels):
        value = {"a": [value]}
    return value


def test_the_limit_counts_tables_and_lists():
    assert not is_too_deep(nested(DEEPEST // 2))
    assert is_too_deep({"b": 1, **nested(DEEPEST // 2 + 1)})
    assert not is_too_deep([{"a": "x"}] * 1000)


def test_json_of_many_levels_is_refused(tmp_path):
    text = json.dumps({"mcpServers": {"a": {"command": "x", "env": nested(300)}}})
    with pytest.raises(PflowError, match="nested too deeply"):
        server_input.from_json(text, "The JSON")
    for form, written in (("json", text), ("yaml", text), ("toml", "[" + ".".join("a" * 300) + "]")):
        with pytest.raises(CorruptFile, match="nested too deeply"):
            document_text.parse(tmp_path / f"a.{form}", written.encode())
