"""The tests' own server, asked in process."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("mcp")


@pytest.fixture
def call():
    """Call tools of one server, one after the other; give the results."""
    import typed_server
    from mcp import Client

    async def ask(calls):
        async with Client(typed_server.build_server()) as client:
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    return lambda *calls: asyncio.run(ask(calls))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (3, "integer"),
        (3.5, "number"),
        (True, "boolean"),
        (None, "null"),
        ("3", "string"),
        ([1, "2"], "array"),
        ({"inner": {"deep": [None]}}, "object"),
    ],
)
def test_a_value_arrives_with_its_json_type(call, value, name):
    (result,) = call(("describe", {"value": value}))
    assert result.structured_content == {"type": name, "repr": repr(value)}


def test_every_argument_is_described_by_name(call):
    sent = {
        "text": "1",
        "integer": 1,
        "number": 1.0,
        "flag": False,
        "nullable": None,
        "items": [1],
        "nested": {"inner": {}},
    }
    (result,) = call(("describe_each", sent))
    described = {name: value["type"] for name, value in result.structured_content.items()}
    assert described == {
        "text": "string",
        "integer": "integer",
        "number": "number",
        "flag": "boolean",
        "nullable": "null",
        "items": "array",
        "nested": "object",
    }


def test_the_counter_lives_as_long_as_the_server(call):
    assert [result.structured_content for result in call(("count", {}), ("count", {}))] == [
        {"result": 1},
        {"result": 2},
    ]


def test_a_failure_carries_its_message(call):
    (result,) = call(("fail", {"message": "out of paper"}))
    assert result.is_error
    assert "out of paper" in result.content[0].text


def test_an_image_comes_as_png(call):
    (result,) = call(("image", {}))
    assert result.content[0].mime_type == "image/png"
