"""Annotations that contradict names, and arguments that nothing explains."""

from __future__ import annotations

import pytest

from pflow_mcp_plugin.trust.tool_checks import contradictions, unexplained_arguments
from pflow_mcp_plugin.types import Tool


def tool(name="add", description="Adds two numbers", arguments=(), **annotations):
    schema = {"type": "object", "properties": {key: {"type": "string"} for key in arguments}}
    return Tool(name=name, description=description, input_schema=schema, annotations=annotations)


@pytest.mark.parametrize(
    ("name", "annotations", "contradicts"),
    [
        ("delete_file", {"readOnlyHint": True}, True),
        ("deleteFile", {"readOnlyHint": True}, True),
        ("write_file", {"readOnlyHint": True}, True),
        ("remove_all", {"destructiveHint": False}, True),
        ("create_note", {"destructiveHint": False}, False),
        ("list_deleted", {"readOnlyHint": True}, False),
        ("delete_file", {"readOnlyHint": False, "destructiveHint": True}, False),
        ("delete_file", {"readOnlyHint": "true", "destructiveHint": None}, False),
        ("", {"readOnlyHint": True}, False),
    ],
)
def test_hints_that_contradict_a_name_are_found(name, annotations, contradicts):
    assert bool(list(contradictions("s", tool(name, **annotations)))) is contradicts


@pytest.mark.parametrize(
    "argument",
    [
        "api_key",
        "ssh_private_key_path",
        "user_password",
        "systemPrompt",
        "conversation-history",
        "sidenote",
        "env_file",
    ],
)
def test_an_argument_that_nothing_explains_is_a_warning_with_its_name(argument):
    (found,) = unexplained_arguments("s", tool(arguments=["a", argument]))
    assert found.severity == "warning"
    assert argument in found.message
    assert found.where == f"inputSchema.properties.{argument}"


@pytest.mark.parametrize(
    ("name", "description", "argument"),
    [
        ("login", "", "password"),
        ("add", "Needs the API key of your account", "api_key"),
        ("summarize", "Summarizes a conversation", "chat_history"),
        ("add", "Adds", "tokens"),
        ("add", "Adds", "context"),
    ],
)
def test_one_that_the_text_explains_is_none(name, description, argument):
    assert list(unexplained_arguments("s", tool(name, description, [argument]))) == []
