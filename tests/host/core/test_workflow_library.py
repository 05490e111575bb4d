import io
import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pocketflow
import pytest
from screen import Screen
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.rendering.python_export import python_script
from pflow_mcp_plugin.host.workflow_library import WorkflowLibrary
from pflow_mcp_plugin.script import Script
from pflow_mcp_plugin.storage import StoreError

GREET = flow(
    step("greet-all", "echo", {"message": "${word} ${item}"}, batch={"items": "${names}"}),
    step("class", "echo", {"message": "${greet-all.results}"}),
    step("sorry", "echo", {"message": 'no "greeting"\n<b>'}),
    inputs={"names": {"type": "list"}, "word": {"type": "str", "default": "Hi"}},
    edges=[edge("greet-all", "class"), edge("greet-all", "sorry", "error")],
    outputs={"first": "${class.message[0].message}", "count": "${greet-all.count}"},
)


@pytest.fixture
def greet(write):
    return write(GREET, "greet.json")


@pytest.fixture
def exported(pflow, python):
    """Export a workflow to `wf.py` and return how that program is run."""

    def export(file):
        assert pflow("workflow", "export-python", file, "--output", "wf.py").exit_code == 0
        return partial(python, "wf.py")

    return export


@pytest.fixture
def library(tmp_path):
    return WorkflowLibrary(tmp_path / "workflows")


def workflow(message):
    return flow(step("a", "echo", {"message": message}))


def test_a_saved_workflow_is_listed_shown_run_and_deleted(pflow, greet):
    saved = pflow("workflow", "save", greet, "--name", "greet-all", "--description", "Greets", "--json")
    assert (saved.envelope["data"]["name"], saved.envelope["data"]["version"]) == ("greet-all", 1)
    [listed] = pflow("workflow", "list", "--json").envelope["data"]
    assert listed == saved.envelope["data"]
    assert pflow("workflow", "show", "greet-all", "--json").envelope["data"]["description"] == "Greets"
    ran = pflow("run", "greet-all", 'names=["Ann"]', "word=Hello", "--json")
    assert ran.envelope["data"]["outputs"] == {"first": "Hello Ann", "count": 1}
    assert pflow("validate", "greet-all").exit_code == 0
    assert pflow("workflow", "delete", "greet-all").exit_code == 0
    assert pflow("workflow", "list", "--json").envelope["data"] == []
    gone = pflow("run", "greet-all", "--json")
    assert (gone.exit_code, gone.envelope["error"]["type"]) == (2, "not_found")


def test_saving_over_a_workflow_keeps_what_it_was(library):
    for message in ("one", "two", "two", "three"):
        last = library.save("a", workflow(message))
    assert last.version == 3
    messages = [library.get("a", number)["nodes"][0]["params"]["message"] for number in (1, 2, 3)]
    assert messages == ["one", "two", "three"]
    with pytest.raises(PflowError, match="a has no version 4"):
        library.get("a", 4)
    library.delete("a")
    assert library.save("a", workflow("new")).version == 1


@pytest.mark.parametrize(
    "name", ["", "A", "a b", "../a", "a/b", "-a", "a-", "a--b", "ä", "a.json", "a" * 101, "con", "lpt1"]
)
def test_a_name_that_does_not_do_is_refused(library, name):
    with pytest.raises(PflowError) as caught:
        library.save(name, workflow("x"))
    assert caught.value.exit_code == 2
    assert not library.folder.exists()


def test_a_name_that_is_not_saved_names_the_closest(library):
    library.save("daily-report", workflow("x"))
    with pytest.raises(PflowError) as caught:
        library.get("daily-reprot")
    assert caught.value.suggestions == ("Did you mean daily-report?",)


@pytest.mark.parametrize("content", [b'{"nodes": [\n\xff', b'{"nodes": [\n,'])
def test_a_corrupt_workflow_is_not_written_over(pflow, greet, pflow_home, content):
    path = pflow_home / "data" / "workflows" / "a.json"
    assert pflow("workflow", "save", greet, "--name", "a").exit_code == 0
    path.write_bytes(content)
    refused = pflow("workflow", "save", greet, "--name", "a")
    assert refused.exit_code == 2
    assert f"{path}, line 2, column 1" in refused.stderr
    assert f"Correct {path}, or move it away" in refused.stderr
    assert path.read_bytes() == content
    assert list(path.parent.glob("versions/*/*")) == []


def test_a_number_that_json_has_not_is_neither_saved_nor_read(library):
    with pytest.raises(PflowError, match="could not be written as JSON"):
        library.save("a", workflow(float("inf")))
    library.save("a", workflow(1))
    library.path("a").write_text('{"nodes": 1e999}')
    for use in (lambda: library.get("a"), lambda: library.save("a", workflow(2))):
        with pytest.raises(PflowError, match="1e999"):
            use()


def test_a_broken_workflow_is_listed_with_what_is_wrong_beside_the_others(pflow, greet, pflow_home):
    pflow("workflow", "save", greet, "--name", "good")
    (pflow_home / "data" / "workflows" / "bad.json").write_text("{")
    listed = pflow("workflow", "list", "--json").envelope["data"]
    assert [(row["name"], bool(row["problem"])) for row in listed] == [("bad", True), ("good", False)]
    assert "line 1, column 2" in listed[0]["problem"]
    assert listed[0]["path"] == str(pflow_home / "data" / "workflows" / "bad.json")
    shown = pflow("workflow", "list")
    assert shown.exit_code == 0
    assert f"broken: {listed[0]['problem']}" in shown.stdout


def test_inputs_and_outputs_that_are_no_objects_are_none(library):
    library.save("a", {**workflow("x"), "inputs": ["b"], "outputs": "c"})
    assert (library.describe("a").inputs, library.describe("a").outputs) == ({}, {})


def test_a_deeply_nested_default_does_not_hide_the_other_workflows(pflow, greet, pflow_home):
    assert pflow("workflow", "save", greet, "--name", "good").exit_code == 0
    deep = '{"inputs": {"a": {"default": ' + "[" * 800 + "]" * 800 + '}}, "nodes": []}'
    (pflow_home / "data" / "workflows" / "deep.json").write_text(deep)
    for command in (("list",), ("discover", "greet all")):
        found = pflow("workflow", *command, "--json")
        assert (found.exit_code, found.stderr) == (0, "")
        assert "good" in [row["name"] for row in found.envelope["data"]]


def test_what_is_saved_is_in_normal_form(pflow, pflow_home, write, open_with):
    [node] = workflow("x")["nodes"]
    given = flow(node, {**node, "id": "b"})
    assert pflow("workflow", "save", write(given), "--name", "a").exit_code == 0
    saved = json.loads((pflow_home / "data" / "workflows" / "a.json").read_text())
    with open_with() as opened:
        assert saved == {**opened.host.runner.normalise(given), "name": "a"}


def test_a_description_finds_its_workflow_and_another_task_does_not(library):
    described = {
        "weekly-sales": "Read the sales of the week from a spreadsheet and post a summary to the chat",
        "greet-customers": "Send a greeting to each new customer by email. It skips those who opted out.",
        "backup": "Copy the notes folder to the backup disk",
    }
    for name, description in described.items():
        library.save(name, workflow("x"), description)
    for name, description in described.items():
        best = library.discover(description).matches[0]
        assert (best.item, best.confidence) == (library.describe(name), 1.0)
        assert "in its description" in best.reason
    [found] = library.discover("the weekly sales as a chat summary", 1).matches
    assert found.item.name == "weekly-sales"
    other = library.discover("email the landlord about the rent").matches
    assert all(match.confidence < 0.5 for match in other)
    assert library.discover("translate a poem into Norwegian").matches == ()


def test_a_model_may_order_the_saved_workflows_of_a_task(library, model):
    for name, description in (("one", "Post the news"), ("two", "Post the news and the weather")):
        library.save(name, workflow("x"), description)
    model.answer = "two"

    found = library.discover("post the news")
    assert [match.item.name for match in found.matches] == ["two", "one"]
    assert (found.ranked_by, found.note) == ("sage", "")
    assert "- one: Post the news\n" in model.asked


def test_a_broken_workflow_is_not_found_for_a_task(library):
    library.save("a", workflow("x"), "Say x aloud")
    library.path("b").write_text("{")
    assert [match.item.name for match in library.discover("say x aloud").matches] == ["a"]


def test_discover_prints_saved_workflows_with_confidence_and_reason(pflow, greet):
    pflow("workflow", "save", greet, "--name", "greet-all", "--description", "Greet everybody by name")
    pflow("workflow", "save", greet, "--name", "greet-loud", "--description", "Greet the neighbours loudly")
    found = pflow("workflow", "discover", "greet", "everybody", "by", "name", "--json").envelope
    assert [row["name"] for row in found["data"]] == ["greet-all", "greet-loud"]
    assert (found["data"][0]["confidence"], found["ranked_by"]) == (1.0, "words")
    assert found["data"][0]["inputs"] == GREET["inputs"]
    shown = pflow("workflow", "discover", "greet everybody by name", "--limit", "1").stdout.splitlines()
    assert [line.split()[:2] for line in shown] == [["NAME", "CONFIDENCE"], ["greet-all", "1.00"]]
    assert pflow("workflow", "discover", "xyzzy").stdout == "Nothing matches 'xyzzy'\n"


def test_the_fingerprint_changes_with_an_edited_file_too_and_not_with_what_is_no_file(library):
    library.save("a", workflow("one"))
    before = library.fingerprint()
    library.save("a", workflow("one"))
    (library.folder / "away.json").symlink_to("nowhere")
    assert library.fingerprint() == before
    library.path("a").write_text("{")
    assert library.fingerprint() != before


def test_a_workflow_that_cannot_be_deleted_as_a_whole_names_what_is_left(library):
    for message in ("one", "two"):
        library.save("a", workflow(message))
    left = library.folder / "versions" / "a" / "folder"
    left.mkdir()
    with pytest.raises(StoreError, match="folder: could not be deleted"):
        library.delete("a")
    left.rmdir()
    library.delete("a")  # it is still there to be deleted
    assert library.names() == []
    assert list(library.folder.glob("versions/*")) == []


def test_a_library_that_cannot_be_read_is_named(pflow, pflow_home):
    (pflow_home / "data").mkdir()
    (pflow_home / "data" / "workflows").write_text("no folder")
    for words, said in ((["list"], "workflows: the folder could"), (["show", "a"], "a.json: could")):
        refused = pflow("workflow", *words, "--json")
        assert (refused.exit_code, refused.envelope["error"]["type"]) == (2, "config")
        assert f"{said} not be read" in refused.stderr


def test_saves_at_the_same_time_lose_no_version(library):
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: library.save("a", workflow(number)), range(16)))
    kept = {library.get("a", number)["nodes"][0]["params"]["message"] for number in range(1, 17)}
    assert kept == set(range(16))


def test_a_workflow_with_a_mistake_is_not_saved_but_one_whose_nodes_are_missing_is(pflow, write):
    for node, code in ((step("a", "echo", {"x": 1}), 2), (step("a", "yet-to-come"), 0)):
        saved = pflow("workflow", "save", write(flow(node)), "--name", "a")
        assert saved.exit_code == code
    assert "yet-to-come" in saved.stdout


def test_a_saved_workflow_has_the_files_in_it_that_its_nodes_name(pflow, greet, write, tmp_path):
    calls = step("call", "workflow", {"workflow": f"./{greet}", "names": ["Ada"]})
    assert pflow("workflow", "save", write(flow(calls), "outer.json")).exit_code == 0
    (tmp_path / greet).unlink()
    assert pflow("validate", "outer").exit_code == 0
    inside = json.loads(pflow("workflow", "show", "outer").stdout)["nodes"][0]["params"]["workflow"]
    assert [node["id"] for node in inside["nodes"]] == [node["id"] for node in GREET["nodes"]]


def test_a_workflow_is_drawn_as_mermaid_with_its_actions(pflow, greet):
    text = pflow("workflow", "graph", greet).stdout
    assert 'n0[["greet-all<br>echo<br>for each item"]]' in text
    assert "n0 --> n1" in text
    assert 'n0 -->|"error"| n2' in text


@pytest.fixture
def page_of(pflow, write):
    """Return the page that shows a workflow."""
    return lambda workflow: pflow("workflow", "graph", write(workflow), "--html", "-").stdout


def test_a_page_with_a_drawing_holds_everything_itself(page_of):
    page = page_of({**GREET, "edges": [*GREET["edges"], edge("class", "sorry", "<script>")]})
    assert page.count("<rect") == 2 * 3  # for narrow and wide windows
    # It scrolls: no label gets too small.
    assert re.search(r'<div class="drawing" tabindex="0" [^>]*>\n<svg', page)
    assert "max-width: 100%" not in page
    assert page.count('class="edge') == 2 * 3
    assert "<script>" not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")


def test_a_workflow_that_is_written_in_a_node_is_drawn_inside_it(pflow, page_of):
    deepest = flow(step("say", "echo", {"message": "x"}))
    inner = flow(step("first", "echo"), step("deep", "workflow", {"workflow": deepest}))
    nodes = [
        step("each", "workflow", {"workflow": inner}, batch={"items": [1]}),
        step("named", "workflow", {"workflow": "greet"}),
        step("broken", "workflow", {"workflow": {"nodes": 3}}),
    ]
    page = page_of(flow(*nodes))
    lines = pflow("workflow", "graph", "wf.json").stdout.splitlines()
    assert [line.strip() for line in lines[2:12]] == [
        'subgraph n0["each<br>workflow<br>for each item"]',
        'n0n0["first<br>echo"]',
        'subgraph n0n1["deep<br>workflow"]',
        'n0n1n0["say<br>echo"]',
        "end",
        "n0n0 --> n0n1",
        "end",
        'n1["named<br>workflow:greet"]',
        'n2["broken<br>workflow"]',
        "n0 --> n1",
    ]
    for path in ("each", "each/deep"):
        assert f'href="#in-{path}"' in page
        assert f'<h2 id="in-{path}">{path}</h2>' in page
    assert page.count("<h2") == 2
    markers = re.findall('<marker id="([^"]*)"', page)
    assert len({*markers}) == len(markers)


def test_two_routes_between_the_same_nodes_are_drawn_apart_and_no_label_is_crossed_out(page_of):
    nodes = [step(node, "echo", {"message": "x"}) for node in ("one", "two")]
    page = page_of(flow(*nodes, edges=[edge("one", "two"), edge("one", "two", "error")]))
    drawings = page.split("<svg")[1:]
    assert len(drawings) == 2
    for drawing in drawings:
        lines = re.findall(r'class="edge[^"]*" [^>]* d="([^"]+)"', drawing)
        assert len(set(lines)) == 2
        assert drawing.rindex('class="edge') < drawing.index('class="action')


def test_the_values_of_a_program_have_the_order_that_they_have_in_its_workflow(bench):
    given = flow(step("a", "echo", {"message": {"b": 1, "a": 2}}))
    assert "{'b': 1, 'a': 2}" in python_script(bench.host.runner.compile(given), given)


def test_a_drawing_is_as_wide_as_the_window_and_long_names_keep_their_ends(page_of):
    names = [f"a-name-made-of-a-sentence-about-the-step-{number}" for number in range(8)]
    page = page_of(flow(*(step(name, "echo", {"message": "x"}) for name in names)))
    needed = [float(width) for width in re.findall(r"min-width: ([0-9.]+)rem", page)]
    drawn = [int(width) for width in re.findall(r'<svg [^>]*width="(\d+)"', page)]
    assert len(drawn) == 5
    assert all(0 < least - wide / 16 < 6 for wide, least in zip(drawn[1:], needed, strict=True))
    assert re.search(">a-name-made-of-a-…he-step-7<", page)


@pytest.mark.parametrize("words", [("graph", "--html"), ("export-python", "--output")])
def test_a_folder_is_not_written_over(pflow, greet, tmp_path, words):
    refused = pflow("workflow", *words, tmp_path, greet)
    assert refused.exit_code == 2
    assert "could not be written: is a directory" in refused.stderr


@pytest.mark.parametrize("words", [("graph", "--html"), ("export-python", "--output")])
def test_what_is_made_of_a_workflow_does_not_replace_it(pflow, greet, tmp_path, words):
    (tmp_path / "linked.json").symlink_to("greet.json")
    for target in (greet, "./greet.json", "linked.json"):
        refused = pflow("workflow", *words, target, greet)
        assert refused.exit_code == 2
        assert f"{Path(target)} is the file that is read" in refused.stderr
    assert json.loads((tmp_path / "greet.json").read_text()) == GREET


@pytest.mark.parametrize("options", [(), ("--html", "graph.html")])
def test_a_workflow_that_starts_nowhere_is_not_drawn(pflow, write, options):
    refused = pflow("workflow", "graph", write({**GREET, "start_node": "clas"}), *options)
    assert refused.exit_code == 2
    assert "start_node names unknown node clas" in refused.stderr
    assert "Did you mean class?" in refused.stderr


def test_an_exported_program_gives_what_a_run_gives(pflow, greet, exported, tmp_path):
    run = exported(greet)
    ran = pflow("run", greet, 'names=["Ann"]', "--json").envelope["data"]["outputs"]
    assert json.loads(run('names=["Ann"]').stdout) == ran == {"first": "Hi Ann", "count": 1}
    text = (tmp_path / "wf.py").read_text()
    assert "greet_all >> node_class\n" in text
    assert "greet_all - 'error' >> sorry\n" in text
    refused = run()
    assert refused.exit_code == 2
    assert "Input names is required" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_exported_program_has_flags_for_its_inputs_help_and_one_json_object(exported, write):
    text = {"type": "str", "description": "What to say, 100 % of it"}
    inputs = {"text": text, "json": {"default": 1}, "times": {"type": "int", "default": 1, "maximum": 9}}
    say = step("a", "echo", {"message": "${text} ${json} ${times}"})
    run = exported(write(flow(say, description="Say it", inputs=inputs)))
    assert json.loads(run("--text", "hi").stdout) == {"message": "hi 1 1"}
    envelope = json.loads(run("--text=hi", "json=2", "--json").stdout)
    assert (envelope["success"], envelope["data"]["outputs"]) == (True, {"message": "hi 2 1"})
    shown = run("--help")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert "\nSay it\n" in shown.stdout
    assert re.search(r"\n  --text VALUE +What to say, 100 % of it, str\n", shown.stdout)
    assert "int, at most 9, default 1" in shown.stdout
    assert "must be at most 9, got int 10" in run("--text", "hi", "--times", "10").stderr
    refused = run("--json", "--txt", "hi")
    assert (refused.exit_code, json.loads(refused.stdout)["error"]["type"]) == (2, "usage")
    assert "unrecognized arguments: --txt\n" in refused.stderr


def test_an_exported_program_whose_output_nobody_takes_says_so_or_ends(greet, exported, started):
    def ended(stdout):
        run = started('names=["Ann"]', program=(sys.executable, "wf.py"), stdout=stdout)
        return run.communicate(timeout=60)[1], run.returncode

    exported(greet)
    with Path("/dev/full").open("wb") as full:
        assert ended(full) == ("Error: the output could not be written: No space left on device\n", 1)
    reading, writing = os.pipe()
    os.close(reading)
    assert ended(writing) == ("", 0)
    os.close(writing)


class Halve(pocketflow.Node):
    def post(self, shared, prep_res, exec_res):
        shared["half"] = len(self.params["text"]) / 2
        if not self.params["text"]:
            shared["error"] = "nothing to halve"
            return "empty"
        return "default"


def test_a_program_may_add_a_class_of_its_own_and_its_failure_is_the_programs(pflow_home, capsys):
    script = Script("halve", inputs={"text": {"type": "str"}})
    say = script.node("say", "echo", params={"message": "${text}"})
    say >> script.node("mine", "mine", Halve, params={"text": "${say.message}"})
    assert script.main(say, ["text=abc"]) == 0
    assert json.loads(capsys.readouterr().out) == {"half": 1.5}
    assert script.main(say, ["text="]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Node mine failed: nothing to halve" in printed.err


class PrintsToo(Halve):
    def exec(self, prep_res):
        print("halving")


def test_what_a_node_prints_does_not_break_the_json_of_a_program(pflow_home, capsys):
    script = Script("halve")
    assert script.main(script.node("mine", "mine", PrintsToo, params={"text": "abc"}), ["--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["data"]["outputs"] == {"half": 1.5}
    assert printed.err.startswith("halving")


def test_no_text_of_a_workflow_breaks_its_program(exported, write):
    odd = {**workflow("a"), "description": 'a \x00 NUL, \x1b[31m, """ and \\\n a \ud800 half\\'}
    finished = exported(write(odd))()
    assert (finished.stdout, finished.stderr) == ('{\n  "message": "a"\n}\n', "")


def test_a_program_that_fails_says_where_its_trace_is(pflow, exported, write):
    failed = exported(write(flow(step("a", "read-file", {"file_path": "none"}))))()
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert f"trace path: {pflow('trace', 'list', '--json').envelope['data'][0]['path']}" in failed.stderr


class Interrupting(io.StringIO):
    """What is read when the user presses Ctrl-C instead of typing."""

    def fileno(self):
        raise KeyboardInterrupt


def test_ctrl_c_ends_a_program_that_waits_for_its_input(pflow_home, monkeypatch, capsys):
    script = Script("read", inputs={"text": {"type": "str", "stdin": True}})
    say = script.node("say", "echo", params={"message": "${text}"})
    monkeypatch.setattr(sys, "stdin", Interrupting())
    assert script.main(say, []) == 130
    assert capsys.readouterr().err == "Error: interrupted\n"


def test_a_narrow_terminal_shows_the_whole_name_which_is_typed_again(pflow, write, pflow_home, tmp_path):
    name = "the-daily-report-of-all-the-teams"
    saved = ("workflow", "save", write(workflow("x")), "--name", name, "--description", "words " * 20)
    assert pflow(*saved).exit_code == 0
    screen = Screen(["workflow", "list"], pflow_home, cwd=tmp_path, columns=40)
    assert screen.end() == 0
    assert any(line.startswith(name) for line in screen.lines)
