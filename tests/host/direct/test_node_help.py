from pflow_mcp_plugin.contract import Entry, Field, Interface
from pflow_mcp_plugin.host.direct.direct_run import chain_help, node_help


def help_of(*params, **interface):
    made = Interface(params=params, **interface)
    entry = Entry(node="t-send", class_name="T", module="t", interface=made, description="Send it")
    return node_help(entry, "pflow")


def test_the_help_of_a_node_lists_flags_with_types_defaults_and_what_comes_out():
    shown = help_of(
        Field(key="channel_id", type="str", required=True, description="Where to"),
        Field(key="count", type="int", description="How often", schema={"default": 3}),
        Field(key="labels", type="list", description="Which"),
        Field(key="draft", type="bool"),
        Field(key="state", type="str", schema={"enum": ["open", "closed"]}),
        outputs=[Field(key="result", type="dict", description="The answer"), Field(key="error")],
    )
    about, options = shown.split("Options of pflow:\n")
    assert [line for line in about.splitlines() if line] == [
        "Usage: pflow t-send --channel-id TEXT [--FLAG VALUE]... [then NODE ...]",
        "  Send it",
        "Flags:",
        "  --channel-id TEXT    Where to [required]",
        "  --count INTEGER      How often [default 3]",
        "  --labels JSON-LIST   Which [may be repeated]",
        "  --draft, --no-draft",
        "  --state open|closed",
        "Piped input, or the result of the node before, becomes --channel-id.",
        "Outputs:",
        "  result  (dict, the result) The answer",
        "  error   (any)",
    ]
    assert "--locked" in options
    assert options.endswith("Example: pflow t-send --channel-id 'some text'")
    assert "--OTHER VALUE" in help_of(open=True)
    state = Field(key="state", type="str", required=True, schema={"enum": ["open", "closed"]})
    assert help_of(state).endswith("Example: pflow t-send --state open")


def test_a_parameter_that_is_called_like_an_option_of_pflow_is_shown_with_param():
    shown = help_of(Field(key="save", type="str", required=True), Field(key="print", type="bool"))
    assert "--param save=TEXT" in shown.splitlines()[0]
    assert "Piped input, or the result of the node before, becomes --param save." in shown
    assert "  --param print=true|false" in shown.splitlines()
    assert shown.endswith("Example: pflow t-send --param save='some text'")


def test_long_descriptions_are_wrapped():
    shown = help_of(Field(key="text", type="str", description="many words " * 40 + "\x1b[31mred\nnext"))
    assert max(map(len, shown.splitlines())) <= 100


def test_help_says_when_the_piped_text_depends_on_the_flags():
    shown = help_of(Field(key="a", type="str", required=True), Field(key="b", type="str", required=True))
    assert "becomes the required text that no flag sets" in shown


def test_the_general_help_names_every_option_of_pflow():
    shown = chain_help("pflow run-node")
    for option in ("--save", "--print", "--input", "--param", "--description", "--json", "--help"):
        assert option in shown
