from __future__ import annotations

import pytest

from pflow_mcp_plugin.contract import Field
from pflow_mcp_plugin.host.planning.task_literals import literals, place


def field(text, **more):
    key, _, kind = text.partition(":")
    return Field(key=key, type=kind.rstrip("!") or "str", required=text.endswith("!"), **more)


def placed(clause, *fields):
    """Return the parameter and the value of each literal of a clause that has a place."""
    left = [field(it) if isinstance(it, str) else it for it in fields]
    found = {}
    for literal in literals(clause):
        at = place(literal, left)
        if at:
            found[at[0].key] = at[1]
            left.remove(at[0])
    return found


@pytest.mark.parametrize(
    ("clause", "found"),
    [
        ("Read lease.pdf.", [("lease.pdf", "path")]),
        ("open ~/notes and ./b/c", [("~/notes", "path"), ("./b/c", "path")]),
        ("read C:\\a\\b.txt", [("C:\\a\\b.txt", "path")]),
        ("see (https://x.org/a?b=1).", [("https://x.org/a?b=1", "url")]),
        ('say "a, b" or `ls -l`', [("a, b", "text"), ("ls -l", "text")]),
        ("«да», “ja” and 'yes'", [("да", "text"), ("ja", "text"), ("yes", "text")]),
        ('open "my file.txt"', [("my file.txt", "text")]),
        ('open "a.txt"', [("a.txt", "path")]),
        ("mail bob@x.org on 2024-05-06", [("bob@x.org", "email"), ("2024-05-06", "date")]),
        ("who has 8.8.8.8 or example.org", [("8.8.8.8", "ip"), ("example.org", "domain")]),
        ("slide 3, -2.5 degrees", [("3", "number"), ("-2.5", "number")]),
        ("a branch called fix-login", [("fix-login", "text")]),
        ("a dog named spot", []),
        ("version 3.12.0 of Node.js and/or 24/7, it's Tom's", []),
    ],
)
def test_values_are_found_in_the_words(clause, found):
    assert [(it.value, it.kind) for it in literals(clause)] == found


@pytest.mark.parametrize(
    ("clause", "fields", "found"),
    [
        ("fetch https://x.org", ["url:str!", "format:str"], {"url": "https://x.org"}),
        ("fetch https://x.org", ["urls:list!"], {"urls": ["https://x.org"]}),
        (
            "copy a.txt to b.txt",
            ["source:str!", "destination:str!"],
            {"source": "a.txt", "destination": "b.txt"},
        ),
        ("go to slide 3", ["slide_number:int!", "limit:int"], {"slide_number": 3}),
        ("give me 5 results", ["query:str!", "max_results:int"], {"max_results": 5}),
        ("roll it 3 times", ["sides:int!"], {}),
        ('search for "cheap flights"', ["query:str!", "lang:str!"], {"query": "cheap flights"}),
        ('post "done"', ["channel:str!", "text:str!"], {"text": "done"}),
        ('the issue titled "Broken"', ["title:str!", "body:str!"], {"title": "Broken"}),
        ('choose "Sales"', ["selector:str!", "value:str!"], {}),
        ('press "Enter"', ["key:str!"], {"key": "Enter"}),
        ("who has example.org", ["domain:str!"], {"domain": "example.org"}),
        ("read a.txt", ["count:int!"], {}),
        ("put it in b/notes.md", ["folder:str!", "file:str!"], {"file": "b/notes.md"}),
        ("list ~/notes", ["folder:str!"], {"folder": "~/notes"}),
        ("read a.txt", ["flag:bool", "more:dict"], {}),
    ],
)
def test_a_value_goes_where_it_is_obviously_meant_to_go(clause, fields, found):
    assert placed(clause, *fields) == found


def test_a_choice_takes_only_what_can_be_chosen():
    color = field("color:str!", schema={"enum": ["red", "green"]})
    assert placed('paint it "red"', color, "text:str!") == {"color": "red"}
    assert placed('paint it "blue"', color) == {}


def test_a_quoted_line_is_a_command():
    assert placed("run `ls -l`", field("command:str | list!", shell_line=True)) == {"command": "ls -l"}
    assert placed("run a.txt", field("command:str | list!", shell_line=True)) == {}
