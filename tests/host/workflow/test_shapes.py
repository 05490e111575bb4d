import json
import time

import pytest
from node_types import fields

from pflow_mcp_plugin.host.workflow.expressions import parsed
from pflow_mcp_plugin.host.workflow.expressions.shapes import Reading

FIELDS = {("run", it.key): it for it in fields("stdout: str", "code: int", "rows: list")}
SIZE, NAME = ("run", "rows", 0, "size"), ("run", "rows", 0, "name")


def read(text):
    return Reading.of(parsed(text), FIELDS.get)


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("run.rows[0].name", [NAME]),
        ("run.rows[?size > $.limit] | [0].name", [SIZE, ("limit",), NAME]),
        ("length(run.rows) > limit && done", [("run", "rows"), ("limit",), ("done",)]),
        ("sort_by(run.rows, &size)[*].name", [SIZE, NAME]),
    ],
)
def test_the_values_that_an_expression_reads_are_known(text, paths):
    reading = read(text)
    assert reading.longest_paths == paths
    assert not reading.everything


@pytest.mark.parametrize("text", ["@", "keys($)", "[$]", "*", "to_json(@)", "{all: $}", "map(&$, run.rows)"])
def test_an_expression_that_reads_all_values_is_known(text):
    assert read(text).everything


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("run.code == 3", "bool"),
        ("run.rows[*].name", "list"),
        ("run.x[*].name", "list | None"),
        ("{a: run.x, b: length(run.rows)}", "dict"),
        ("run.x", "any"),
        ("-run.code // 2 + run.code", "int"),
        ("run.code + ratio", "float | int"),
        ("run.x + 1", "float | int"),
    ],
)
def test_the_type_of_an_expression_is_known(text, kind):
    assert {*read(text).result.field("result").types} == {*map(str.strip, kind.split("|"))}


def test_the_members_of_an_object_that_is_made_are_known():
    schema = read("run.rows[*].{size: length(name), all: [`1`]}").result.schema()
    assert schema["items"] == {
        "type": ["dict"],
        "properties": {"size": {"type": ["int"]}, "all": {"type": ["list"]}},
        "additionalProperties": False,
    }
    json.dumps(schema)


@pytest.mark.parametrize("text", ["|".join(["{a: @, b: @}"] * 40), "|".join(["map(&{a: @, b: @}, @)"] * 30)])
def test_a_value_that_doubles_with_each_step_is_not_described(text):
    began = time.process_time()
    assert len(json.dumps(read(text).result.schema())) < 1_000
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("run.stdout > 3", "have no order"),
        ("length(run.code) > 3", "argument 1 of length() is a number"),
        ("{a: run.x}.b", "there is no b among a"),
        ("run.rows[?length(name) == '3']", "a number is compared with a string"),
    ],
)
def test_what_cannot_be_right_is_known(text, mistake):
    assert mistake in " ".join(message for message, _ in read(text).mistakes)


@pytest.mark.parametrize(
    "text",
    [
        *("run.stdout == null", "run.x > 3", "to_number(run.stdout) > 3", "run.stdout.items[0].n"),
        "not_null(run.stdout, `1`) == `1`",
    ],
)
def test_what_may_be_right_is_no_mistake(text):
    assert read(text).mistakes == []
