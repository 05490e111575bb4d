import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.contract import Entry, Field, Interface
from pflow_mcp_plugin.host.direct.node_flags import FlagReader

STRINGS = {"type": "array", "items": {"type": "string"}}
NUMBERS = {"type": "array", "items": {"type": "integer"}}
FIELDS = (
    Field(key="title", type="str", required=True),
    Field(key="max_results", type="int"),
    Field(key="ratio", type="float | None"),
    Field(key="draft", type="bool"),
    Field(key="labels", type="list", schema=STRINGS),
    Field(key="ids", type="list", schema=NUMBERS),
    Field(key="options", type="dict"),
    Field(key="command", type="str | list"),
    Field(key="perPage", type="int"),
    Field(key="state", type="str", schema={"enum": ["open", "closed"]}),
    Field(key="anything"),
)


def entry(*fields, is_open=False):
    made = Interface(params=fields or FIELDS, open=is_open)
    return Entry(node="t-issue", class_name="T", module="t", interface=made)


def read(*words, templates=False, of=None):
    """Return what the words give, or the problems, as strings."""
    reader = FlagReader(of or entry(), templates=templates)
    given_values = reader.read(words)
    if reader.problems:
        return [str(problem) for problem in reader.problems]
    return {key: item.value for key, item in given_values.items()}


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["--title", ""], {"title": ""}),
        (["--title", "--odd"], {"title": "--odd"}),
        (["--title=--draft"], {"title": "--draft"}),
        (["--maxResults", "7"], {"max_results": 7}),
        (["--per-page", "7"], {"perPage": 7}),
        (["--ratio", " 3.0 "], {"ratio": 3.0}),
        (["--no-draft"], {"draft": False}),
        (["--labels", "bug", "--labels", "two words"], {"labels": ["bug", "two words"]}),
        (["--labels", '["a"]', "--labels", "b"], {"labels": ["a", "b"]}),
        (["--command", '["ls", "-l"]'], {"command": ["ls", "-l"]}),
        (["--title", "@@ann"], {"title": "@ann"}),
        (["--param=title=@ann"], {"title": "@ann"}),
        (["title=a b", "max-results=3", "--draft"], {"title": "a b", "max_results": 3, "draft": True}),
        (['--params={"title": "@x", "anything": 5}'], {"title": "@x", "anything": 5}),
    ],
)
def test_flags_give_values_of_the_declared_types(words, values):
    found = read(*words)
    assert found == values
    assert json.dumps(found) == json.dumps(values)  # 1 is not True, 3 is not 3.0


@pytest.mark.parametrize(
    ("type_", "choices", "value"),
    [
        ("str | int | None", ["a", 3, None], None),
        ("str | None", ["a", "null", None], "null"),
        ("any", [], "null"),
        ("int | None", [], None),
    ],
)
def test_null_is_a_text_only_where_that_text_fits(type_, choices, value):
    field = Field(key="mode", type=type_, schema={"enum": choices} if choices else None)
    assert read("--mode", "null", of=entry(field)) == {"mode": value}


def test_choices_are_shown_as_they_are_written():
    field = Field(key="mode", type="str | int | bool | None", schema={"enum": ["a", 3, True, None]})
    assert read("--mode", "b", of=entry(field))[0].endswith("(Write --mode a|3|true|null)")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["-st", "x"], "t-issue has no flag -st; flags begin with two hyphens (Its flags are "),
        (["--title", "--draft"], "--title of t-issue needs a value (Write --title TEXT)"),
        (["--title", "a", "--title", "b"], "--title of t-issue is given twice (Remove one)"),
        (["--max-results", "many"], 'of t-issue must be int, got str "many" (Write --max-results INTEGER)'),
        (["--draft", "false"], "word 'false' after t-issue (--draft takes no value; write --draft=false"),
        (["--draft=maybe"], '--draft of t-issue must be bool, got str "maybe" (Write --draft or --no-draft)'),
        (["--no-draft=x"], "--no-draft takes no value (Write --no-draft, or --draft=x)"),
        (["--labels", "[bug]"], 'of t-issue must be a JSON list, got str "[bug]" (Write --labels JSON-LIST)'),
        (["--ids", "x"], '--ids of t-issue must be a list of integer, got str "x" (Write --ids JSON-LIST)'),
        (["--state", "opne"], '--state of t-issue must be one of "open", "closed", got str "opne"'),
        (["hello"], "Unexpected word 'hello' after t-issue (Did you mean --title hello?)"),
        (["--title", "fix", "the", "--draft"], "t-issue (Quote a value of several words: --title '...')"),
        (["--param=titel=x"], "t-issue has no parameter titel (Did you mean title or state?)"),
        (["--param=title"], "--param title: a value is missing (Write --param NAME=VALUE)"),
        (["a/b?c=d"], "Unexpected word 'a/b?c=d' after t-issue (Did you mean --title 'a/b?c=d'?)"),
        (["--params=[1]"], "--params of t-issue: not a JSON object (Write an object, such as"),
        (["--params=@/nowhere"], "--params of t-issue: no such file: /nowhere"),
    ],
)
def test_a_wrong_flag_is_named_with_the_nearest_right_one(words, problem):
    (found,) = read(*words)
    assert problem in found


PAIR = entry(Field(key="userId", type="str"), Field(key="user_id", type="str"))
EQUALS = entry(Field(key="a", type="str"), Field(key="a=b", type="str"))
SAVE = entry(Field(key="save", type="str"))
NO_CACHE = entry(Field(key="no_cache", type="bool"), Field(key="cache", type="bool"))
OPEN = entry(is_open=True)


@pytest.mark.parametrize(
    ("of", "words", "found"),
    [
        (PAIR, ["--userId", "a", "--user-id", "b"], {"userId": "a", "user_id": "b"}),
        (PAIR, ["--USERID", "a"], ["t-issue has no flag --USERID (Did you mean --userId or --user-id?)"]),
        (EQUALS, ["--param=a=b=c=d", "--param=a=x"], {"a=b": "c=d", "a": "x"}),
        # pflow takes --save for its own.
        (SAVE, ["stray"], ["Unexpected word 'stray' after t-issue (Did you mean --param save=stray?)"]),
        (NO_CACHE, ["--no-no-cache"], {"no_cache": False}),
        (OPEN, ["--extra-key", "x"], {"extra_key": "x"}),
        (OPEN, ["--titel", "x"], ["t-issue has no flag --titel (Did you mean --title?)"]),
    ],
)
def test_a_flag_is_that_of_the_parameter_which_its_name_can_only_mean(of, words, found):
    assert read(*words, of=of) == found


def test_a_file_and_standard_input_stand_for_their_content(tmp_path):
    contents = {"title": "two\nlines ${x}\n", "options": '{"a": 1}\n', "max_results": "12\n"}
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    others = (f"--{name}=@{tmp_path}/{name}" for name in ("options", "max_results"))
    found = read("--title", f"@{tmp_path}/title", *others)
    assert found == {**contents, "options": {"a": 1}, "max_results": 12}
    assert read("--title", "-", "--labels=-") == {"title": "${stdin}", "labels": "${stdin}"}
    (problem,) = read("--title", "@nobody")
    assert "no such file: nobody (For the text @nobody itself, write @@nobody)" in problem


def test_a_shell_line_is_never_taken_from_a_pipe():
    shell = entry(Field(key="command", type="str", shell_line=True))
    (problem,) = read("--command", "-", of=shell)
    assert "a shell command is never read from a pipe" in problem
    assert read("--param=command=-", of=shell) == {"command": "-"}


def test_templates_are_kept_for_the_nodes_after_the_first():
    reader = FlagReader(entry(), templates=True)
    templates = {"max_results": "${count}", "labels": "${tags}", "title": "a ${b}"}
    values = reader.read([*(f"--{key}={value}" for key, value in templates.items()), "--state", "open"])
    assert {key: item.value for key, item in values.items() if item.is_template} == templates
    assert not reader.problems


def test_lists_and_objects_may_contain_templates():
    found = read("--ids", "${a}", "--ids", "5", "--options", '{"a": "${b}"}', templates=True)
    assert found == {"ids": ["${a}", 5], "options": {"a": "${b}"}}
    assert read("--ids", '["${a}", 5]', templates=True) == {"ids": ["${a}", 5]}
    (problem,) = read("--options", "a ${b}", templates=True)
    assert problem.startswith("--options of t-issue must be dict")


@given(
    st.lists(
        st.text(max_size=8) | st.sampled_from(["--title", "--draft", "--labels", "--options", "-", "--"])
    )
)
def test_any_words_give_values_or_problems(words):
    reader = FlagReader(entry(), templates=False)
    reader.read([word for word in words if not word.startswith("@") and "=@" not in word])
    assert all(problem.kind == "usage" and problem.suggestion for problem in reader.problems)
