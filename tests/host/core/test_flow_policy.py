import json

import pytest

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.flow_policy import FlowRule, matches, read_policy


def policy(folder, text):
    (folder / "pflow.toml").write_text(text)
    return read_policy(folder)


def mistakes(folder, text):
    with pytest.raises(PflowError) as caught:
        policy(folder, text)
    assert (caught.value.kind, caught.value.exit_code) == ("config", 2)
    file, problems = str(folder / "pflow.toml"), caught.value.problems
    assert {(problem.kind, problem.source) for problem in problems} == {("config", file)}
    assert all(problem.suggestion for problem in problems)
    only, several = f"{file}: {problems[0].path}: {problems[0].message}", f"{file} has {len(problems)} errors"
    assert caught.value.message == (only if len(problems) == 1 else several)
    assert caught.value.suggestions == ((problems[0].suggestion,) if len(problems) == 1 else ())
    return {problem.path: problem.message for problem in problems}


def test_rules_are_read_with_their_place_in_the_file(tmp_path):
    deny, allow = '[{from = "inputs", to = "a-*"}]', '[{from = "b", to = "c"}]'
    read = policy(tmp_path, f"[flows]\ndeny = {deny}\nallow = {allow}")
    assert read.deny == (FlowRule(begin="inputs", end="a-*", path="flows.deny[0]"),)
    assert read.allow == (FlowRule(begin="b", end="c", path="flows.allow[0]"),)


def test_without_a_file_there_is_no_policy_and_an_empty_one_denies_nothing(tmp_path):
    assert read_policy(tmp_path) is None
    assert read_policy(tmp_path / "no folder") is None
    assert policy(tmp_path, "").deny == ()
    assert policy(tmp_path, "[flows]\ndeny = []").deny == ()


def test_every_mistake_is_found_at_once_with_its_path(tmp_path):
    text = """
        flow = 1
        [flows]
        denny = []
        deny = [
            "all",
            { from = "inputs" },
            { from = 3, to = "" },
            { from = "untrusted-output", to = "inputs" },
            { from = "*", to = "*", why = "" },
        ]
        allow = 3
    """
    assert mistakes(tmp_path, text) == {
        "flow": "Unknown key flow",
        "flows.denny": "Unknown key denny",
        "flows.deny[0]": "Must be a table",
        "flows.deny[1]": "to is missing",
        "flows.deny[2].from": "Must be a string",
        "flows.deny[2].to": "Is empty",
        "flows.deny[3].from": "Unknown word untrusted-output",
        "flows.deny[3].to": "Data cannot flow to the inputs of a run",
        "flows.deny[4].why": "Unknown key why",
        "flows.allow": "Must be a list",
    }


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("deny = []\nalow = []", "Did you mean allow?"),
        ("deny = []\nzzz = []", "Known here: deny, allow"),
        ("deny = [{from = 'Sends', to = '*'}]", "write [S]ends"),
    ],
)
def test_a_mistake_is_told_with_what_may_be_meant(tmp_path, text, step):
    with pytest.raises(PflowError) as caught:
        policy(tmp_path, f"[flows]\n{text}")
    assert step in caught.value.suggestions[0]


@pytest.mark.parametrize("text", ["flows = 3", "[flows]", "[flows]\nallow = []"])
def test_a_table_without_deny_is_a_mistake(tmp_path, text):
    assert list(mistakes(tmp_path, text)) == ["flows"]


@pytest.mark.parametrize("word", ["Inputs", "sends-data", "untrusted"])
def test_a_misspelt_word_is_not_taken_for_a_node_type(tmp_path, word):
    found = mistakes(tmp_path, f'[flows]\ndeny = [{{from = "{word}", to = "*"}}]')
    assert list(found) == ["flows.deny[0].from"]
    glob = f"[{word[0]}]{word[1:]}"
    assert matches(glob, [word], ())
    assert policy(tmp_path, f'[flows]\ndeny = [{{from = "{glob}", to = "*"}}]').deny


@pytest.mark.parametrize("word", [" mcp-a", "mcp-a, mcp-b", "mcp-{a,b}", "!mcp-a", "mcp-[a", "a|b", "a\tb"])
def test_what_is_no_glob_is_not_taken_for_one_that_matches_nothing(tmp_path, word):
    found = mistakes(tmp_path, f"[flows]\ndeny = [{{from = {json.dumps(word)}, to = '*'}}]")
    assert list(found) == ["flows.deny[0].from"]
    assert "would match nothing" in found["flows.deny[0].from"]


def test_any_character_may_stand_in_the_brackets_of_a_glob(tmp_path):
    text = "[flows]\ndeny = [{from = 'a[ ]b', to = '[!{]*[[]'}, {from = '[]]', to = '*'}]"
    assert [rule.begin for rule in policy(tmp_path, text).deny] == ["a[ ]b", "[]]"]


@pytest.mark.parametrize("content", [b"[flows", b"\xff", b"a." * 200_000 + b"a = 1"])
def test_a_file_that_is_not_toml_is_refused(tmp_path, content):
    (tmp_path / "pflow.toml").write_bytes(content)
    with pytest.raises(PflowError, match=r"not TOML|not UTF-8|nested too deeply") as caught:
        read_policy(tmp_path)
    assert caught.value.exit_code == 2


def test_a_policy_that_cannot_be_read_is_not_taken_for_none(tmp_path):
    (tmp_path / "pflow.toml").symlink_to(tmp_path / "gone.toml")
    (tmp_path / "a file").touch()
    (tmp_path / "config" / "pflow.toml").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "a file", tmp_path / "config"):
        with pytest.raises(PflowError, match=r"pflow\.toml"):
            read_policy(folder)


def test_a_word_is_a_glob_over_node_types_or_an_effect():
    assert matches("mcp-*", ["mcp-a-b"], ())
    assert not matches("mcp", ["mcp-a-b"], ())
    assert not matches("MCP-*", ["mcp-a-b"], ())
    assert matches("mcp-A", ["mcp-a", "mcp-A"], ())
    assert matches("destructive", ["x"], ("destructive",))
    assert not matches("destructive", ["destructive"], ())
    assert not matches("inputs", ["inputs"], ())
