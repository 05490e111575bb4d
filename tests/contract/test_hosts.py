"""What the base classes of a host offer to one that implements only what it must."""

from __future__ import annotations

import pytest

from pflow_mcp_plugin.contract import Entry, PflowError, Registry, Settings


class Few(Registry):
    """A registry with two nodes."""

    known = (
        Entry(node="shout-loud", class_name="N", module="m", description="Say a word loudly"),
        Entry(node="shout-low", class_name="N", module="m", description="Whisper"),
    )

    def get(self, node_type):
        for entry in self.known:
            if entry.node == node_type:
                return entry
        raise PflowError(f"no {node_type}", kind="config" if node_type == "broken" else "not_found")

    def entries(self, pattern=""):
        return (entry for entry in self.known if pattern in entry.node)


class Fixed(Settings):
    """Settings that cannot be changed."""

    def get(self, key):
        return {"KEY": "value"}.get(key)


def test_a_registry_finds_and_searches_by_what_it_must_have():
    assert Few().find("shout-loud") is Few.known[0]
    assert Few().find("shout-none") is None
    with pytest.raises(PflowError, match="broken"):
        Few().find("broken")
    assert [(entry.node, score) for entry, score in Few().search("shout a Word")] == [
        ("shout-loud", 1.0),
        ("shout-low", 1 / 3),
    ]
    assert [match.item.node for match in Few().discover("whisper", 1).matches] == ["shout-low"]
    assert not Few().search("")


def test_settings_that_cannot_be_changed_say_so():
    assert (Fixed().names(), Fixed().unset("KEY")) == ({}, False)
    with pytest.raises(PflowError, match="does not save settings") as caught:
        Fixed().set("KEY", "x")
    assert caught.value.kind == "usage"


@pytest.mark.parametrize("missing", ["get", "entries"])
def test_what_a_registry_must_have_is_required(missing):
    given = {name: getattr(Few, name) for name in ("get", "entries") if name != missing}
    with pytest.raises(TypeError, match=missing):
        type("Part", (Registry,), given)()
