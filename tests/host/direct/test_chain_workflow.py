import attrs
import pytest
from node_types import fields
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import Entry, Field, Interface
from pflow_mcp_plugin.host.direct.chain_workflow import NodeLink, chain_workflow
from pflow_mcp_plugin.host.direct.link_words import Chain
from pflow_mcp_plugin.host.direct.node_flags import FlagReader

TEXT = {"type": "str"}


def node(name, params="", outputs="result", **more):
    """Return a node type; parameters are written `title! count:int`, and all are read from the store."""
    given = tuple(map(_field, params.split()))
    interface = {"inputs": [field.key for field in given], **more}
    made = Interface(params=given, outputs=fields(*outputs.split()), **interface)
    return Entry(node=name, class_name="T", module="t", interface=made)


def _field(word):
    key, _, kind = word.partition(":")
    return Field(key=key.strip("!"), type=kind or "str", required=key.endswith("!"))


SEARCH = node("search", "query! limit:int", "result count", open_outputs=True)
SUMMARIZE = node("summarize", "text!")
SEND = node("send", "channel! message! thread", "ts error", inputs=["channel", "message"])
READER = node("reader", "stdin path", "text", inputs=["stdin"])


def chain(*links, asked="", stdin=False, kept=False, **more):
    """Return the workflow of nodes with flags written `--a 1 --b 2`."""
    built = []
    for place, (entry, words) in enumerate(links):
        reader = FlagReader(entry, templates=place > 0)
        given = reader.read(words.split())
        assert not reader.problems
        here = [word.partition(".") for word in asked.split()]
        keys = tuple(key for name, _, key in here if name == entry.node)
        built.append(NodeLink(entry=entry, given=given, asked=keys))
    return chain_workflow(built, Chain(links=(), is_shown=kept, **more), has_stdin=stdin)


def params_of(built, place=-1):
    return built.workflow["nodes"][place].get("params", {})


def test_a_chain_is_a_whole_workflow():
    links = ((SEARCH, "--query bugs"), (SUMMARIZE, ""))
    nodes = [step("search", "search"), step("summarize", "summarize", {"text": "${result}"})]
    inputs = {"query": {**TEXT, "default": "bugs"}}
    workflow = flow(*nodes, ir_version="1.0", enable_namespacing=False, inputs=inputs)
    assert chain(*links).workflow == workflow
    assert chain(*links, kept=True, description="Sum up", allows_extra=True).workflow == {
        **workflow,
        "description": "Sum up",
        "nodes": [{**it, "extra": True} for it in nodes],
        "outputs": {"result": "${result}"},
    }


def test_a_flag_that_overrides_a_default_of_its_node_is_a_param_and_an_input_keeps_its_description():
    limit = Field(key="limit", type="int", schema={"default": 5})
    words = Field(key="words", type="str", description="For")
    entry = attrs.evolve(SEARCH, interface=Interface(params=[limit, words], inputs=["limit", "words"]))
    built = chain((entry, "--limit 3 --words x"))
    assert params_of(built) == {"limit": 3}
    assert built.workflow["inputs"] == {"words": {**TEXT, "description": "For", "default": "x"}}


@pytest.mark.parametrize(
    ("outputs", "wanted", "source"),
    [
        ("result:dict content:str error:str", "body!", "content"),
        ("content:str whole:bool result:dict", "body!", "content"),
        ("result:dict content:str", "body!:any", "result"),
    ],
)
def test_an_output_of_the_same_name_fits_best_and_of_an_object_the_only_text(outputs, wanted, source):
    first, second = node("first", "", outputs), node("second", wanted)
    assert params_of(chain((first, ""), (second, ""))) == {"body": f"${{{source}}}"}


def test_what_the_shared_store_holds_leaves_a_single_text_to_be_piped():
    both = node("both", "query! text!")
    built = chain((SEARCH, "--query bugs"), (both, ""))
    assert params_of(built) == {"text": "${result}"}
    assert not built.problems


def test_what_no_flag_and_no_node_gives_is_reported_as_flags():
    built = chain((SEARCH, "--limit 3"), (SEND, "--thread x"))
    assert [str(problem) for problem in built.problems] == [
        "search needs --query (Write --query ..., or pipe it in)",
        "send needs --channel, --message (Write --channel ...)",
    ]
    built = chain((node("keep", "save!"), ""), stdin=False)
    assert str(built.problems[0]) == "keep needs --param save (Write --param save=..., or pipe it in)"
    built = chain((SEND, "--thread x"), stdin=False)
    assert built.problems[0].suggestion == "Write --channel ..."  # which of two would be piped?


def test_a_key_that_two_nodes_are_given_differently_is_a_param_of_the_later_one():
    closed = node("closed", "path", "content", open_outputs=False)
    built = chain((closed, "--path a"), (closed, "--path b"), (closed, "--path a"))
    assert built.workflow["inputs"] == {"path": {**TEXT, "default": "a"}}
    assert [params_of(built, place) for place in range(3)] == [{}, {"path": "b"}, {}]
    assert [item["id"] for item in built.workflow["nodes"]] == ["closed", "closed-2", "closed-3"]


def test_a_dollar_brace_is_text_for_the_first_node_and_a_template_for_later_ones():
    plain = node("plain", "command env:dict", "result", inputs=[])
    built = chain((plain, '--command echo,${x} --env {"a":"${y}"}'), (plain, "--command ${result}"))
    assert params_of(built, 0) == {"command": "echo,$${x}", "env": {"a": "$${y}"}}
    assert params_of(built, 1) == {"command": "${result}"}
    assert chain((SEARCH, "--query ${x}")).workflow["inputs"]["query"]["default"] == "${x}"


def test_a_node_that_reads_the_key_stdin_finds_what_is_piped_in():
    built = chain((READER, "--path x"), stdin=True)
    piped = {**TEXT, "description": "What is piped in", "required": False, "stdin": True}
    assert built.workflow["inputs"] == {"stdin": piped}
    assert params_of(built) == {"path": "x"}
    typed = chain((READER, "--stdin typed"), stdin=True).workflow["inputs"]
    assert typed == {"stdin": {**TEXT, "default": "typed"}}


def test_what_a_flag_pipes_into_a_list_is_needed_and_may_be_anything():
    take = node("take", "items:list")
    piped = {"type": "any", "description": "What is piped in", "stdin": True}
    assert chain((take, "--items -"), stdin=True).workflow["inputs"]["stdin"] == piped
    typed = chain((READER, "--stdin typed"), (take, "--items ${stdin}"), stdin=True)
    assert typed.workflow["inputs"]["stdin"] == {**TEXT, "default": "typed"}


def test_a_flag_that_takes_what_is_piped_in_leaves_nothing_for_another():
    built = chain((SEND, "--channel -"), stdin=True)
    assert params_of(built) == {"channel": "${stdin}"}
    assert [problem.message for problem in built.problems] == ["send needs --message"]


@pytest.mark.parametrize(
    ("asked", "words", "inputs"),
    [
        ("search.query", "--query bugs", {"query": {**TEXT, "default": "bugs"}}),
        ("search.query", "", {"query": {**TEXT, "stdin": True}}),
        ("search.query", "--query -", {"query": {**TEXT, "stdin": True}}),
        ("search.limit", "--query bugs", {"limit": {"type": "int"}, "query": {**TEXT, "default": "bugs"}}),
    ],
)
def test_a_flag_becomes_an_input_on_request(asked, words, inputs):
    built = chain((SEARCH, words), asked=asked, stdin=True, kept=True)
    assert built.workflow["inputs"] == inputs
    assert built.workflow["outputs"] == {"result": "${result}"}
    assert not built.problems


def test_an_input_on_request_of_a_later_node_is_kept_apart_from_what_earlier_ones_write():
    built = chain((SEARCH, "--query x"), (SEND, "--channel dev --thread 5"), asked="send.channel send.thread")
    assert built.workflow["inputs"]["channel"] == {**TEXT, "default": "dev"}
    moved = {"channel": "search-channel", "thread": "search-thread"}
    assert built.workflow["mappings"] == {"search": {"output_mappings": moved}}
    assert params_of(built) == {"thread": "${thread}", "message": "${result}"}


@pytest.mark.parametrize(("outputs", "moved"), [("content", False), ("channel", True)])
def test_only_an_output_that_would_replace_an_input_is_moved_away(outputs, moved):
    closed = node("closed", "path", outputs, open_outputs=False)
    built = chain((closed, "--path a"), (SEND, "--channel dev"), asked="send.channel")
    assert ("mappings" in built.workflow) is moved


def test_a_value_that_refers_to_another_cannot_be_a_default():
    built = chain((SEARCH, "--query x"), (SEND, "--channel ${result}"), asked="send.channel")
    [problem] = built.problems
    assert problem.message == "--input channel: a value with a template cannot be a default"
    assert (problem.kind, problem.suggestion) == ("usage", "Leave out --channel, or --input")
    assert "channel" not in built.workflow["inputs"]


def test_a_node_type_that_is_no_id_gets_one():
    built = chain((node("odd.type/x"), ""), (node("odd.type/x"), ""))
    assert [item["id"] for item in built.workflow["nodes"]] == ["odd-type-x", "odd-type-x-2"]


def test_keys_that_no_template_can_name_are_passed_on_too():
    odd = node("odd", "$filter text!", "@value")
    built = chain((odd, "--$filter x --text y"), (odd, "--$filter z"), asked="odd.$filter", kept=True)
    assert built.workflow["inputs"]["filter"] == {**TEXT, "default": "x"}
    assert params_of(built, 0) == {"$filter": "${filter}"}
    assert params_of(built, 1) == {"$filter": "${odd-2-filter}", "text": '${odd["@value"]}'}
    assert built.workflow["outputs"] == {"@value": '${odd-2["@value"]}'}
    assert params_of(chain((odd, "--$filter x --text y"))) == {"$filter": "x"}


def test_a_shell_line_does_not_become_an_input():
    line = Field(key="command", type="str", required=True, shell_line=True)
    shell = attrs.evolve(SEARCH, interface=Interface(params=[line]))
    [problem] = chain((shell, "--command ls"), asked="search.command").problems
    assert problem.message == "--input command: a shell command cannot be an input"
