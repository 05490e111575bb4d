"""Tasks in many words, over definitions of real tools: each plans right, or says which part is missing."""

import re

import pytest

from pflow_mcp_plugin import naming
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.planning.offline_plan import offline_plan
from pflow_mcp_plugin.registration.tool_entry import entry
from pflow_mcp_plugin.types import Server, Tool, ToolRecord


def tool(name, description, needed="", **optional):
    """Return a tool that needs some texts and takes others, or numbers."""
    fields = {**dict.fromkeys(needed.split(), "string"), **optional}
    properties = {key: {"type": kind} for key, kind in fields.items()}
    schema = {"type": "object", "properties": properties, "required": needed.split()}
    return Tool(name=name, description=description, input_schema=schema)


TO_MARKDOWN = "Convert a resource described by an http:, https:, file: or data: URI to markdown"
TREE = "Get a recursive tree view of files and directories as a JSON structure."
LISTING = "Get a detailed listing of all files and directories in a specified path."
TOOLS = {
    "git": [
        tool("git_log", "Shows the commit logs", "repo_path", max_count="integer"),
        tool("git_commit", "Records changes to the repository", "repo_path message"),
        tool("git_reset", "Unstages all staged changes", "repo_path"),
    ],
    "database": [
        tool("read_query", "Execute a SELECT query on the SQLite database", "query"),
        tool("write_query", "Execute an INSERT, UPDATE, or DELETE query on the SQLite database", "query"),
        tool("drop_table", "Drop a table of the SQLite database", "table"),
    ],
    "slack": [
        tool("slack_post_message", "Post a new message to a Slack channel", "channel_id text"),
    ],
    "github": [
        tool("create_issue", "Create a new issue in a GitHub repository", "owner repo title", body="string"),
        tool("search_code", "Search for code across GitHub repositories", "q", order="string"),
        tool("search_issues", "Search for issues and pull requests across GitHub repositories", "q"),
        tool("delete_file", "Delete a file from a GitHub repository", "owner repo path"),
    ],
    "filesystem": [
        tool("list_directory", LISTING, "path"),
        tool("directory_tree", TREE, "path"),
        tool("move_file", "Move or rename files and directories.", "source destination"),
    ],
    "markitdown": [
        tool("convert_to_markdown", TO_MARKDOWN, "uri"),
        tool("write_pdf", "Write a PDF file from the HTML of a page", "html output_path"),
    ],
}


@pytest.fixture
def plan(bench):
    bench.prefixes = ("mcp-",)
    for server, tools in TOOLS.items():
        for it in tools:
            record = ToolRecord(server=server, node=naming.node_name(server, it.name), tool=it)
            made = entry(record, Server(name=server))
            bench.known[made.node] = made

    def plan(task):
        made = offline_plan(task, bench.host.registry, bench.host.runner)
        assert made.errors == []
        return made

    return plan


def nodes(made):
    return [node["type"].removeprefix("mcp-") for node in made.workflow["nodes"]]


@pytest.mark.parametrize(
    "task",
    [
        "Get the commits of the repository, count them by author and save a table to authors.md",
        "How many commits has each author made? Write a table of it",
        "List the commits, sum them up per author, and keep the result as a table in authors.txt",
    ],
)
def test_counting_by_author_is_no_part_that_a_plan_claims_silently(plan, task):
    made = plan(task)
    assert nodes(made)[0] == "git-git-log"
    assert nodes(made)[-1] == "write-file"
    counting = re.compile(r"\b(?:count|tally|group|number|rank|aggregate|sum|how many)\b", re.IGNORECASE)
    assert counting.search("; ".join(made.missing))
    # Nor does the purpose of a node claim it.
    assert not any(counting.search(node.get("purpose", "")) for node in made.workflow["nodes"])


@pytest.mark.parametrize(
    "task",
    [
        "Query the database, and post the rows to the Slack channel if there are any",
        "Read the rows with a query, and only if there are rows post a message to Slack",
        "Query the database and post the rows to Slack unless there are none",
        "Query the database, then post to Slack in case there are rows",
    ],
)
def test_a_condition_is_named_as_missing(plan, task):
    made = plan(task)
    assert nodes(made)[0].startswith("database-")
    condition, _, reason = made.missing[0].partition(": ")
    # What stands in one clause with a condition before it is missing too.
    assert nodes(made)[1:] == ([] if "post" in condition else ["slack-slack-post-message"])
    assert re.search(r"\b(?:rows|any|none)\b", condition)
    assert reason == "the plan has no conditions; add `when`, or a branch"


@pytest.mark.parametrize(
    "task",
    [
        "List the files in docs/ and write the list to out.txt",
        "Write the list of all files in a directory to out.txt",
        "List the directory and dump the list into out.txt",
    ],
)
def test_a_list_is_made_once_and_written(plan, task):
    made = plan(task)
    assert nodes(made) == ["filesystem-list-directory", "write-file"]
    written = made.workflow["nodes"][1]
    mapped = made.workflow.get("mappings", {}).get(written["id"], {}).get("input_mappings", {})
    assert written["params"]["file_path"] == "out.txt"
    assert "list-directory" in str({**written["params"], **mapped}["content"])


@pytest.mark.parametrize(
    "task",
    [
        "Look at the tables of the database",
        "Find the table of the database to drop",
        "Get the file that was deleted from a GitHub repository",
    ],
)
def test_nothing_is_removed_unless_the_task_asks_for_it(plan, task):
    assert not {"database-drop-table", "github-delete-file", "git-git-reset"} & set(nodes(plan(task)))


def test_words_that_no_node_accounts_for_are_named(plan):
    made = plan("Find code about logins on GitHub, then frobnicate the gizmo")
    assert made.missing == ['"then frobnicate the gizmo": no node fits', 'no node accounts for "logins"']


def test_a_value_that_no_node_takes_is_named(plan):
    made = plan("List the files into out.txt")
    assert nodes(made) == ["filesystem-list-directory"]
    assert made.missing == ['no node accounts for "out.txt"']
    made = plan("Take the page p.html, convert it to markdown, save it")
    assert nodes(made) == ["markitdown-convert-to-markdown", "write-file"]
    assert made.missing == ['"Take the page p.html": no node fits', 'no node accounts for "p.html"']
    made = plan("Summarize notes.txt")
    assert (nodes(made), made.missing) == (["llm"], ['no node accounts for "notes.txt"'])


def test_a_part_that_should_run_before_another_is_not_planned_in_the_wrong_order(plan):
    made = plan("Before you post to Slack, read the git log")
    assert nodes(made) == ["git-git-log"]
    assert made.missing == ['"Before you post to Slack": the plan has no conditions; add `when`, or a branch']


def test_a_task_that_nothing_fits_has_no_plan(plan):
    with pytest.raises(PflowError) as raised:
        plan("frobnicate gizmos")
    assert raised.value.kind == "not_found"
    assert [it.message for it in raised.value.problems] == ['Not planned: "frobnicate gizmos": no node fits']


PLANNED = {
    # Words for reading choose a tool that reads.
    ("github-search-code",): [
        "Find code about logins on GitHub",
        "Where on GitHub is the code that creates logins?",
        "I would like to find the code of the login page on GitHub",
    ],
    ("markitdown-convert-to-markdown", "write-file"): [
        "Convert p.html to markdown, then save it to p.md",
        "Turn the page p.html into markdown and write it to a file",
        "Convert the page p.html into markdown. Save the markdown on disk",
    ],
    ("markitdown-convert-to-markdown",): ["Convert https://example.org/p to markdown"],
    # A task may ask for removing.
    ("database-drop-table",): ["Drop the table users of the database"],
    ("github-delete-file",): ["Delete the file a.txt from the GitHub repository"],
    ("filesystem-move-file",): ["Rename the file a.txt to b.txt"],
    # The nodes of the host do what no tool does.
    ("http", "write-file"): ["Fetch https://example.org/a.json and save it to a.json"],
    ("http", "slack-slack-post-message"): ["Get https://example.org/a.json and post it to the chat"],
    ("copy-file",): ["Copy the file a.txt to b.txt"],
    ("shell",): ["Run `ls -l`", "Execute the command `ls -l`"],
}


@pytest.mark.parametrize(("planned", "task"), [(nodes, task) for nodes in PLANNED for task in PLANNED[nodes]])
def test_a_task_is_planned_with_the_nodes_that_fit(plan, planned, task):
    made = plan(task)
    assert nodes(made) == [*planned]
    if "p.html" in task:
        assert made.workflow["nodes"][0]["params"]["uri"] == "p.html"
