import pytest

from pflow_mcp_plugin.contract import Field
from pflow_mcp_plugin.host.direct import chain_completion
from pflow_mcp_plugin.host.direct.chain_completion import by_stem


@pytest.fixture
def completed(bench):
    fields = (
        Field(key="dry_run", type="bool", description="Only show it"),
        Field(key="color", type="str", schema={"enum": ["red", "dark red", None]}, description="Which"),
        Field(key="tags", type="list", schema={"items": {"enum": ["a", "b"]}}),
        Field(key="size", type="any", schema={"anyOf": [{"const": "big"}, {"enum": [1, True]}]}),
    )
    bench.declare("t-make", ["title: str!", "file_path: str", "out_folder: str", *fields, "save: str"])
    bench.declare("t-mail")

    def completed(*words):
        found = bench.host.complete_chain(words[:-1], words[-1])
        return [it.value if it.type == "plain" else (it.type, it.value) for it in found]

    return completed


def test_what_is_suggested_is_explained(bench, completed):
    def about(*words):
        return {it.value: it.help for it in bench.host.complete_chain(words[:-1], words[-1])}

    flags = about("t-make", "--")
    assert flags["--title"].startswith("Required.")
    assert flags["--color"] == "Which"
    assert flags["--dry-run"] == flags["--no-dry-run"] == "Only show it"
    assert flags["--help"]
    assert about("t-make", "--input", "")["color"] == about("t-make", "--param", "")["color="] == "Which"


def test_the_first_word_is_a_node_and_so_is_that_after_then(completed):
    assert completed("t-") == ["t-mail", "t-make"]
    assert completed("t-make", "--title", "x", "then", "t-ma") == ["t-mail", "t-make"]
    assert completed("t-make", ">>", "t-mai") == ["t-mail"]
    assert completed("--t") == []
    assert completed("absent", "--") == []


def test_flags_are_those_of_the_node_that_are_not_given(completed):
    own = completed("t-make", "--")
    assert (own[:2], own[3:5], own[7]) == (
        ["--title", "--file-path"],
        ["--dry-run", "--no-dry-run"],
        "--size",
    )
    assert completed("t-make", "--ti") == ["--title"]
    assert completed("t-make", "--color") == ["--color"]
    given = completed("t-make", "--TITLE", "x", "--no-dry-run", "--tags", "a", "--file_path=y", "--")
    assert given[:4] == ["--out-folder", "--color", "--tags", "--size"]
    assert completed("t-make", "--title", "x", "then", "t-mail", "--ti") == []
    assert completed("t-make", "--file_") == ["--file_path"]
    assert completed("t-make", "--title", "x", "t") == ["then"]
    assert completed("t-make", "")[:2] == ["then", "--title"]


def test_an_option_of_pflow_wins_over_a_flag_of_its_name(completed):
    assert completed("t-make", "--sa") == ["--save"]
    assert completed("t-make", "--print", "--in") == ["--input"]
    assert completed("t-make", "--input", "ti") == ["title"]
    assert completed("t-make", "--param", "sa") == [("stem", "save=")]


def test_the_values_of_an_enumeration_are_completed_also_after_an_equals_sign(completed):
    assert completed("t-make", "--title", "x", "--color", "") == ["red", "dark red"]
    assert completed("t-make", "--color=d") == ["--color=dark red"]
    assert completed("t-make", "--dry_run=") == ["--dry_run=true", "--dry_run=false"]
    assert completed("t-make", "--size", "") == ["big", "1", "true"]
    assert completed("t-make", "--tags", "") == ["a", "b"]


def test_files_are_completed_where_a_path_or_an_at_sign_stands(completed):
    assert completed("t-make", "--file-path", "no") == [("file", "")]
    assert completed("t-make", "--out-folder=") == [("dir", "--out-folder=")]
    assert completed("t-make", "--title", "@no") == [("file", "@")]
    assert completed("t-make", "--file-path", "@no") == [("file", "@")]
    assert completed("t-make", "--title=@no") == [("file", "--title=@")]
    assert completed("t-make", "--title", "@@no") == []
    assert completed("t-make", "--title", "no") == []


def test_too_many_names_are_gathered_up_to_the_next_hyphen(monkeypatch):
    monkeypatch.setattr(chain_completion, "_MANY", 5)
    names = [f"mcp-{server}-tool-{number}" for server in ("git", "hub") for number in range(9)]
    assert list(by_stem([*names, "mcp-x"], "m")) == ["mcp-git-", "mcp-hub-", "mcp-x"]


def test_names_without_a_hyphen_are_gathered_one_letter_further(monkeypatch):
    monkeypatch.setattr(chain_completion, "_MANY", 20)
    names = [f"mcp-git-{number}" for number in range(30)]
    assert by_stem(names, "mcp-")["mcp-git-1"] == [f"mcp-git-{number}" for number in (1, *range(10, 20))]
