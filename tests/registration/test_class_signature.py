import ast

from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.registration import class_signature
from pflow_mcp_plugin.registration.class_signature import stub
from pflow_mcp_plugin.registration.tool_entry import entry
from pflow_mcp_plugin.types import Server, ServerInfo, Tool, ToolRecord

PART = st.text("ab01", min_size=1, max_size=3)


def made(name="search_code", description="", version="1.0", **properties):
    tool = Tool(
        name=name,
        description=description,
        input_schema={"type": "object", "properties": properties, "additionalProperties": False},
    )
    info = ServerInfo(version=version)
    return entry(ToolRecord(server="s", node="mcp-s-x", tool=tool, info=info), Server(name="s"))


def test_a_node_type_and_its_class_name_lead_to_each_other():
    assert class_signature.class_name("mcp-github-search-code") == "McpGithubSearchCodeNode"
    assert class_signature.class_name("mcp-12306-get-2x") == "Mcp_12306Get_2xNode"
    assert class_signature.node_type("Mcp_12306Get_2xNode") == "mcp-12306-get-2x"
    assert class_signature.node_type("McpGithubSearchCode") == "mcp-github-search-code"
    for name in ("Node", "McpNode", "Mcp", "GithubSearchNode", "GithubSearch", "Mcp__XNode", "mcpXNode"):
        assert class_signature.node_type(name) is None


@given(st.lists(PART, min_size=1))
def test_no_two_node_types_share_a_class_name(parts):
    name = "-".join(["mcp", *parts])
    assert class_signature.node_type(class_signature.class_name(name)) == name
    assert class_signature.class_name(name).isidentifier()


def test_the_stub_is_python_whatever_the_servers_say():
    entries = [
        made(
            description='"""\n\\N{x} \ud83d"',
            others={},
            **{
                "self": {},
                "class": {},
                "a b": {},
                "fi": {},
                "\ufb01": {},
                "ok": {"type": "string", "description": '"""'},
            },
        ),
        made(),
    ]
    text = stub(entries).encode()
    compile(text, "nodes.pyi", "exec")
    tree = ast.parse(text)
    odd, plain = (item for item in tree.body if isinstance(item, ast.ClassDef) and item.name == "McpSXNode")
    (init,) = (item for item in odd.body if isinstance(item, ast.FunctionDef))
    assert [argument.arg for argument in init.args.kwonlyargs] == ["others", "fi", "ok"]
    assert init.args.kwarg.arg == "others_"
    assert '"""' in ast.get_docstring(odd)
    assert ast.get_docstring(plain).startswith("The tool search_code.\n\nInterface:\n- Writes:")
