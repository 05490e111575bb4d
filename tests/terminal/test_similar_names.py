import pytest

from pflow_mcp_plugin.terminal.similar_names import closest, first_meant

NODES = ["read-file", "read-files-all", "write-file", "readme", "echo"]


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("read", NODES, ["read-file", "read-files-all"]),
        ("ecko", NODES, ["echo"]),
        ("wrte-file", NODES, ["write-file", "read-file"]),
        ("", NODES, []),
        ("abc", ["abc-defg", "abc-d", "abc.x", "abc_yy", "abcd"], ["abc-d", "abc.x", "abc_yy"]),
        ("tool1", ["tool2", "tool3", "tool4", "tool5"], ["tool5", "tool4", "tool3"]),
        ("titel", ["title", "state"], ["title", "state"]),
        ("abcdefghij", ["abcdefghix", "abcdezzzzz", "abcdefzzzz"], ["abcdefghix"]),
    ],
)
def test_at_most_three_names_that_begin_so_or_are_about_as_similar_are_meant(name, known, meant):
    assert closest(name, known) == meant


def test_the_first_suggested_name_is_read_back():
    steps = ("Did you mean a?", "Did you mean a or b?", "Did you mean a b?", "Run: a")
    assert [first_meant(step) for step in steps] == ["a", "a", "", ""]
