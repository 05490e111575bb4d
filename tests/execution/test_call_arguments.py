"""Which arguments are sent."""

from __future__ import annotations

from pflow_mcp_plugin.execution.node import gather
from pflow_mcp_plugin.schemas.schema_document import declaration

DECLARED = declaration({"type": "object", "properties": {"timeout": {"type": "integer"}, "title": {}}})
OPEN = declaration({"type": "object", "properties": {"title": {}}, "additionalProperties": True})


def test_params_go_before_the_shared_store():
    assert gather(DECLARED, {"title": "p"}, {"title": "s", "timeout": 3}) == {"title": "p", "timeout": 3}


def test_only_what_the_tool_declares_is_sent():
    assert gather(DECLARED, {"other": 1, "timeout": 5}, {"third": 2}) == {"timeout": 5}


def test_an_open_tool_gets_params_it_does_not_name_but_nothing_else_of_the_store():
    assert gather(OPEN, {"other": 1}, {"third": 2, "title": "s"}) == {"other": 1, "title": "s"}


def test_a_param_that_is_none_is_sent_as_null():
    assert gather(DECLARED, {"title": None}, {"title": "s"}) == {"title": None}


def test_none_in_the_store_counts_only_where_the_tool_takes_null():
    nullable = declaration({"properties": {"a": {"type": ["string", "null"]}, "b": {"type": "string"}}})
    assert gather(nullable, {}, {"a": None, "b": None}) == {"a": None}


def test_special_params_and_keys_are_never_sent():
    schema = {"properties": {"__run__": {}}, "additionalProperties": True}
    assert gather(declaration(schema), {"__mcp_server__": "a"}, {"__run__": object()}) == {}
    assert gather(None, {"__mcp_tool__": "x", "a": 1}, {"b": 2}) == {"a": 1}
