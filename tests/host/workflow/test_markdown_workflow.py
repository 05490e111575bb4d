"""Workflows in Markdown: what they become, and where their mistakes are."""

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.workflow.markdown_workflow import MOST_MARKDOWN, convert_markdown

FOLDER = Path(__file__).parents[2] / "data" / "markdown"
SAY = "# T\n\n## Steps\n\n### say\n- type: shell\n- command: echo hi\n"
STEP = "# T\n\n## Steps\n\n### say\n"


def converted(text):
    return convert_markdown(text, "wf.md")


def document(name):
    """Return what a workflow of the folder becomes; nothing of it is reported as an error."""
    found = converted((FOLDER / f"{name}.md").read_text(encoding="utf-8"))
    assert [it for it in found.problems if it.severity == "error"] == []
    return found.workflow


def params(name):
    return {node["id"]: node["params"] for node in document(name)["nodes"]}


def problems(text, severity="error"):
    return [(it.line, it.message) for it in converted(text).problems if it.severity == severity]


def test_title_prose_inputs_steps_and_outputs_have_their_places_in_the_document():
    whole = document("everyday")
    assert whole["name"] == "Count the words of a folder"
    assert whole["description"].startswith(
        "Counts the words of its text files,\nand writes the sum to a file.\n\n"
    )
    assert whole["inputs"] == {
        "folder": {"type": "str", "default": ".", "description": "Where the files are."},
        "report": {"type": "str", "required": True},
    }
    assert [node.get("purpose") for node in whole["nodes"]] == ["Counts them, file by file.", None]
    assert whole["nodes"][1]["params"]["content"] == "# Words\n\nThere are ${count.stdout}"
    assert whole["outputs"]["file"] == {"source": "${save.file_path}", "description": "The report."}


def test_types_of_inputs_are_called_as_here():
    inputs = document("input_types")["inputs"]
    kinds = ["str", "float", "int", "bool", "list", "dict", "str | int", None]
    assert [it.get("type") for it in inputs.values()] == kinds
    assert inputs["options"]["default"] == {"depth": 1, "tags": ["a", "b"]}
    assert document("piped")["inputs"]["data"] == {"type": "str", "stdin": True, "description": "The lines."}


def test_a_batch_is_a_member_of_its_node():
    (shout,) = document("batch_block")["nodes"]
    assert shout["batch"].pop("items") == "${names}"
    assert shout["batch"].items() >= {"as": "name", "parallel": True, "error_handling": "continue"}.items()
    (get, each) = document("dotted")["nodes"]
    assert get["params"]["headers"] == {"Accept": "text/html", "X-Team": "blue"}
    assert each["batch"] == {"items": [1, 2], "parallel": True}


def test_params_and_outputs_that_are_called_otherwise_are_renamed_wherever_they_are_named():
    assert params("code")["total"]["inputs"] == {"rows": "${rows}", "factor": 2}
    assert "# ### no heading\n" in params("code")["total"]["code"]
    assert params("request")["post"]["body"] == {"text": "${text}", "tags": ["a", 1]}
    assert params("request")["show"]["command"] == "echo ${post.body.id} ${post.status} ${post.headers}"
    assert document("batch_of_requests")["outputs"] == {
        "first": {"source": "${fetch.results[0].body}"},
        "state": {"source": "${fetch.results[0].status}"},
    }
    assert params("model")["summary"]["options"] == {"max_tokens": 300}
    assert params("model")["summary"]["prompt"].startswith("## The text\n\n${text}")
    assert document("model")["outputs"]["tokens"] == {"source": "${summary.usage}"}


def test_what_only_looks_like_a_reference_stays():
    stays = "echo $${say.response} ${say.responses} ${other.response}"
    step = f"{STEP}- type: http\n- url: $${{say.response}}\n### b\n- type: shell\n- command: |\n    {stays}\n"
    whole = converted(step).workflow
    assert whole["nodes"][0]["params"]["url"] == "$${say.response}"
    assert whole["nodes"][1]["params"]["command"] == f"{stays}\n"


def test_headings_and_fences_of_every_form_are_read():
    assert [node["id"] for node in document("underlined")["nodes"]] == ["say"]
    block = "```shell command\necho hi\n```"
    assert params("fences") == {
        "tildes": {"command": '# Steps\necho "### no heading"\n```'},
        "long": {"file_path": "doc.md", "content": f"# A document\n\n## Steps\n\n{block}"},
        "indented": {"command": "echo three spaces\n  and two more"},
    }


def test_what_is_no_field_is_the_purpose():
    prose = document("prose")
    assert prose["description"].endswith("### A heading of the introduction\n\n> quoted")
    (say,) = prose["nodes"]
    assert say["params"] == {"command": "echo hi"}
    assert say["purpose"].split("\n\n") == [
        "It says **hi**:",
        "1. one\n2. two",
        "- no field\n- neither",
        "#### Why",
        "Because.",
        "More about it.",
    ]


def test_comments_and_front_matter_are_no_part_of_it():
    plain = {"nodes": [{"id": "say", "type": "shell", "params": {"command": "echo hi"}}]}
    assert document("comments") == {"name": "With comments", **plain}
    assert document("front_matter") == {"name": "With front matter", **plain}
    assert document("untitled") == plain


def test_texts_in_fields_keep_their_lines():
    (say,) = document("blocks_in_yaml")["nodes"]
    assert say["params"] == {
        "command": "echo one\n\n# ### no heading\necho two\n",
        "env": {"A": "1", "B": "folded text\n"},
        "timeout": 5,
        "check": True,
    }


def test_a_source_without_braces_is_a_reference_if_it_names_a_step():
    assert document("plain_sources")["outputs"]["fixed"] == {"source": "${say.exit_code}"}
    hello = converted(f"{SAY}\n## Outputs\n### a\n- source: hello\n").workflow
    assert hello["outputs"] == {"a": {"source": "hello"}}


@pytest.mark.parametrize(
    "text",
    [
        *(SAY.replace("\n", "\r\n"), SAY.replace("\n", "\r"), f"\ufeff{SAY}", SAY.replace("- ", "-\t")),
        *(SAY.replace("- ", "* "), SAY.replace("## Steps", "## STEPS ##"), SAY.replace("say", "`say`", 1)),
    ],
)
def test_line_ends_bullets_and_other_ways_to_write_the_same_make_no_difference(text):
    assert converted(text) == converted(SAY)


def test_a_section_may_be_there_twice():
    found = converted(f"{SAY}\n## Outputs\n### a\n- source: x\n\n## Steps\n### b\n- type: echo\n")
    assert [node["id"] for node in found.workflow["nodes"]] == ["say", "b"]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "There is no section ## Steps"),
        (f"{STEP}Prose.\n", 5, "Step say has no type"),
        (f"{STEP}- type: claude-code\n", 6, "Step say: claude-code has no equivalent"),
        (f"{STEP}- type: [a]\n", 6, "Step say has a type that is a list"),
        (f"{SAY}- type: echo\n", 8, "type is given twice, first in line 6"),
        (f"{SAY}\n```shell command\nls\n```\n", 9, "command is given twice, first in line 7"),
        (f"{SAY}\n```sh stdin\n1\n```\n```sh stdin\n2\n```\n", 12, "stdin is given twice, first in line 9"),
        (f"{STEP}- type: shell\n  type: echo\n", 7, "Duplicate key type"),
        (f"{SAY}\n\n# Again\n", 10, "# Again is a second title"),
        (f"{STEP}\nText\n---\n- type: shell\n", 7, "Text is a heading, as it is underlined with ---"),
        (f"{SAY}\n```\nls\n```\n", 9, "The code block has no name"),
        (f"{SAY}\n~~~ sh stdin\nls\n```\n~~\n", 9, "The code block does not end"),
        (f"{SAY}\n<!-- a -->\n<!-- never\n\n## Outputs\n", 10, "The comment does not end"),
        (f"{SAY}- stdin: a: b\n", 8, "Not valid YAML: mapping values are not allowed in this context"),
        (f"{SAY}- env: &a\n    b: *c\n", 9, "*c refers to no earlier anchor"),
        (f"{SAY}more\n", 8, "This line belongs to the list item above it"),
        (f"{SAY}  ```sh stdin\n  1\n  ```\n", 8, "This code block is inside a list item"),
        (f"{STEP}\n    - type: shell\n\n- type: shell\n", 7, "An indented list is text, not a field"),
        (f"{SAY}\n```yaml batch\nitems: [1, 2\n```\n", 10, "Not valid YAML"),
        ("# T\n\n## Steps\n\n- type: shell\n", 5, "This belongs to no entry of ## Steps"),
        ("## Inputs\n### a\n### b\n### a\n## Steps\n", 4, "a is there twice, first in line 2"),
        (f"{STEP}- type: workflow\n- param_mapping: [a]\n", 7, "param_mapping of step say must be an object"),
        (f"{STEP}- type: workflow\n- who: a\n- param_mapping: {{who: b}}\n", 8, "Input who is also a field"),
        (f"{STEP}- type: llm\n- options: all\n- max_tokens: 3\n", 8, "max_tokens is given twice, also as"),
        (f"{STEP}- type: copy-file\n- source: a\n- source_path: b\n", 8, "source_path is given twice, also"),
    ],
)
def test_what_is_malformed_is_named_with_its_line(text, line, message):
    found = problems(text)
    assert [(it, said[: len(message)]) for it, said in found] == [(line, message)]
    assert all(it.suggestion and it.column for it in converted(text).problems)


def test_every_mistake_is_named_at_once():
    text = f"{STEP}- type: a: b\n- env: [1\n\n```\nx\n```\n\n### other\n\n### third\n- type: claude-code\n"
    assert [line for line, _ in problems(text)] == [6, 7, 9, 13, 16]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (f"---\ntitle: x\n---\n\n{SAY}", 1, "The front matter is not converted"),
        (f"{SAY}\n## Notes\n\n### a\n- b: 1\n", 9, "The section Notes is not converted"),
        (f"# T\n## Steps\nWords.\n\n{SAY[13:]}", 3, "The text under ## Steps is not converted"),
        (f"{STEP}- type: delete-file\n- confirm_delete: true\n", 7, "confirm_delete of step say is left out"),
        (
            f"{STEP}- type: workflow\n- workflow_ref: a.pflow.md\n",
            7,
            "Step say runs a.pflow.md, which has to",
        ),
    ],
)
def test_what_is_not_converted_and_does_no_harm_is_a_warning(text, line, message):
    assert problems(text) == []
    ((found, said),) = problems(text, "warning")
    assert (found, said[: len(message)]) == (line, message)


def test_a_line_between_two_rules_is_no_front_matter():
    text = f"---\n\n{SAY}\n---\n"
    assert converted(text).workflow == converted(SAY).workflow
    assert converted(text).problems == []


def test_each_part_of_the_document_has_the_place_of_what_it_was_made_from():
    text = (FOLDER / "request.md").read_text()
    lines = text.splitlines()
    at = {path: lines[line - 1][column - 1 :] for path, (line, column) in converted(text).places.items()}
    assert at["$.nodes[0]"] == at["$.nodes[0].id"] == at["$.nodes[0].params"] == "### post"
    assert at["$.nodes[0].type"] == "type: http"
    assert at["$.nodes[0].params.timeout"] == "timeout: 20"
    assert at["$.nodes[0].params.headers"] == "headers:"
    assert at["$.nodes[0].params.headers.X-Team"] == "X-Team: blue"
    assert at["$.nodes[0].params.query.draft"] == 'draft: "yes"'
    assert at["$.nodes[0].params.body"] == "```json body"
    assert at["$.nodes[0].params.body.tags"] == '"tags": ["a", 1]'
    assert at["$.nodes[0].params.body.tags[1]"] == "1]"
    assert at["$.outputs.answer.source"] == "source: ${post.response}"
    shifted = converted((FOLDER / "batch_of_requests.md").read_text()).places
    assert shifted["$.nodes[0].batch.as"] == (15, 5)


def test_a_text_that_is_too_long_is_refused_before_it_is_parsed():
    with pytest.raises(PflowError, match="too long for a workflow") as refused:
        converted("x" * (MOST_MARKDOWN + 1))
    assert refused.value.kind == "validation"


def test_thousands_of_mistakes_end_the_conversion_and_of_comments_that_never_end_one_is_named():
    found = converted(f"{STEP}- type: shell\n" + "- type: shell\n" * 10_001)
    assert len(found.problems) == 10_001
    assert "more than 10,000 problems" in found.problems[-1].message
    found = converted(SAY + "\n" + "<!-- " * 50_000)
    assert [it.message for it in found.problems] == ["The comment does not end"]


_LINES = st.sampled_from(
    [
        *("# T", "## Inputs", "## Steps", "## Outputs", "### a", "### b", "- type: shell", "- type: http"),
        *("- command: ls ${a.response}", "  more: 1", "```shell command", "```", "~~~", "", "text", "---"),
        *("- batch:", "    items: [1]", "\t- x", "<!--", "-->", "===", "    code", "> - type: x", "1. one"),
        *("- a.b: 1", "- a: [", "- workflow_ref: x.md", "- type: workflow", "- output_mapping: {a: b}"),
    ]
)


@given(st.lists(_LINES, max_size=25))
def test_whatever_lines_there_are_every_problem_has_a_line_of_the_file(lines):
    found = converted("\n".join(lines))
    assert all(1 <= it.line <= max(1, len(lines)) for it in found.problems)
    assert all(1 <= line <= max(1, len(lines)) for line, _ in found.places.values())


@given(st.text(alphabet=string.printable + "äß\u2028", max_size=200))
def test_any_text_is_read(text):
    assert isinstance(converted(text).workflow["nodes"], list)
