"""The tools of the bundled demo server."""

from conversations import talk

from pflow_mcp_plugin.server.demo_server import build_server

HINTS = {
    "add": (True, None, True, False),
    "echo": (True, None, True, False),
    "word_count": (True, None, True, False),
    "now": (True, None, None, False),
    "remember": (False, False, True, False),
    "recall": (True, None, True, False),
}
"""What each tool says of itself: that it is read-only, destructive, idempotent, open to the world."""


def test_its_tools_add_count_and_remember_and_say_what_they_do_to_the_world():
    calls = [
        ("add", {"a": 2, "b": 3}, {"result": 5}),
        ("echo", {"value": "[1]"}, {"value": "[1]"}),
        ("word_count", {"text": "a bc\nd"}, {"words": 3, "characters": 6, "lines": 2}),
        ("recall", {"key": "k"}, "nothing yet"),
        ("remember", {"key": "k", "value": [1, None]}, {"result": "Remembered k"}),
        ("recall", {"key": "k"}, {"value": [1, None]}),
        ("recall", {"key": "other"}, "remembered so far: k"),
    ]

    async def conversation(client):
        for tool in (await client.list_tools()).tools:
            it = tool.annotations
            hints = (it.read_only_hint, it.destructive_hint, it.idempotent_hint, it.open_world_hint)
            assert hints == HINTS[tool.name]
        return [await client.call_tool(tool, arguments) for tool, arguments, _ in calls]

    for result, (_, _, expected) in zip(talk(build_server(), conversation), calls, strict=True):
        if result.is_error:
            assert expected in result.content[0].text
        else:
            assert result.structured_content == expected
