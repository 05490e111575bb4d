import pytest
from workflow_parts import flow

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.direct.direct_run import read_links
from pflow_mcp_plugin.host.direct.link_words import read_chain


@pytest.fixture
def links(bench):
    bench.declare("t-issue", ["title: str!", "body: str!", "draft: bool"], ["url: str"], inputs=("title",))

    def read(line):
        return read_links(read_chain(line.split()), bench.host.registry, bench.host.library)

    return read


def messages(read, line):
    with pytest.raises(PflowError) as failure:
        read(line)
    assert failure.value.exit_code == 2
    return [problem.message for problem in failure.value.problems]


def test_what_a_node_lacks_is_left_open_while_another_is_unknown(links):
    assert messages(links, "t-issue then nope") == ["Unknown node type nope"]


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("t-issue --title a --body b then t-issue --body c --input body --print", [("body",), ()]),
        ("t-issue --title a --body b then t-issue --draft --input draft --print", [(), ("draft",)]),
        ("t-issue --title a --body b --input t-issue.draft --input TITLE --print", [("draft", "title")]),
        ("t-issue --title a --body b --input title --input title --print", [("title",)]),
    ],
)
def test_a_flag_that_becomes_an_input_is_that_of_the_node_which_was_given_it(links, line, asked):
    assert [link.asked for link in links(line)] == asked


def test_a_saved_workflow_or_a_file_in_place_of_the_first_node_leads_to_pflow_run(
    links, bench, tmp_path, monkeypatch
):
    bench.host.library.save("daily", flow({"id": "echo"}))
    (tmp_path / "wf.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    for word in ("daily", "wf.json"):
        with pytest.raises(PflowError) as failure:
            links(word)
        assert failure.value.suggestions == (f"Did you mean pflow run {word}?",)
        assert failure.value.details == {"unknown": word}
