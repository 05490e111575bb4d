import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pflow_mcp_plugin import naming
from pflow_mcp_plugin.catalog.tool_catalog import Catalog
from pflow_mcp_plugin.exchange import Listing
from pflow_mcp_plugin.types import ServerInfo, Tool


def listing(*names):
    return Listing(info=ServerInfo(), tools=tuple(Tool(name=name, description=f"d{name}") for name in names))


@pytest.fixture
def catalog(tmp_path):
    catalog = Catalog(tmp_path)
    catalog.save("a", listing("one", "two", "three"), "f1")
    return catalog


def change(catalog, old, new):
    path = catalog.folder / "a.json"
    path.write_bytes(path.read_bytes().replace(old, new))


def test_a_look_up_decodes_no_other_tool(catalog):
    change(catalog, b'"dtwo"', b'~dtwo"')
    assert catalog.find("mcp-a-one").tool.description == "done"
    assert catalog.tool("a", "three").tool.name == "three"
    assert catalog.fingerprint_of("a") == "f1"
    assert not catalog.set_aside("a")


def test_a_tool_that_is_damaged_is_noticed_when_it_is_needed(catalog):
    change(catalog, b'"dtwo"', b'~dtwo"')
    assert catalog.find("mcp-a-two") is None
    assert catalog.set_aside("a")


def test_a_file_that_was_cut_is_noticed_whatever_is_looked_up(catalog):
    path = catalog.folder / "a.json"
    path.write_bytes(path.read_bytes()[:-20])
    assert catalog.find("mcp-a-one") is None
    assert catalog.set_aside("a")


def test_an_index_that_is_wrong_about_a_tool_is_not_believed(catalog):
    change(catalog, b'"name": "two"', b'"name": "six"')
    assert catalog.find("mcp-a-two") is None
    assert catalog.find("mcp-a-six").tool.description == "dtwo"
    assert not catalog.set_aside("a")


SERVERS = ("a", "a-b", "a-b-c")
NAMES = st.sampled_from(["b", "c", "B", "b-c", "b.c", "c-d", "B_C", "d", "?", "!", "", "c-abcdef"])


@given(
    st.dictionaries(st.sampled_from(SERVERS), st.lists(NAMES, unique=True, max_size=6), min_size=1),
    st.dictionaries(NAMES, NAMES, max_size=3),
    st.booleans(),
)
@settings(max_examples=40)
def test_a_look_up_finds_each_tool_under_the_name_that_it_has_among_all(
    tmp_path_factory, tools, renames, twist
):
    catalog = Catalog(tmp_path_factory.mktemp("tools"), lambda _: renames)
    for server, names in tools.items():
        catalog.save(server, listing(*names), "")
    if twist:  # a tool that is called what the suffix of another would make of it
        claimed = naming.node_names([("a", "b-c"), ("a-b", "c")])["a", "b-c"].removeprefix("mcp-a-")
        catalog.save("a", listing("b-c", claimed), "")
        catalog.save("a-b", listing("c"), "")
    fresh = Catalog(catalog.folder, catalog.renames)
    for record in catalog.records():
        assert fresh.find(record.node) == record
        assert fresh.tool(record.server, record.tool.name) == record


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: line[:-30] + line[-20:],
        lambda line: b"\xff" + line,
        lambda line: b'{"a":' * 100_000 + line,
        lambda line: line.replace(b'"size"', b'"length"'),
        lambda line: line.replace(b'"index": ', b'"index": null, "was": '),
        lambda line: line.replace(b'"gone": {', b'"gone": [{}], "was": {'),
        lambda line: line.replace(b'"info": {', b'"info": ["x"], "was": {'),
        lambda line: line.replace(b'"skipped": [', b'"skipped": ["x"'),
    ],
    ids=["cut", "not UTF-8", "deep", "no size", "no index", "a list", "info", "skipped"],
)
@pytest.mark.parametrize(
    "look_up",
    [
        lambda catalog: catalog.find("mcp-a-one"),
        lambda catalog: catalog.tool("a", "one"),
        lambda catalog: catalog.tool_names("a", "o"),
        lambda catalog: catalog.head("a"),
        lambda catalog: catalog.servers(),
    ],
)
def test_a_first_line_that_is_damaged_by_hand_is_not_fatal_whatever_is_looked_up(catalog, damage, look_up):
    catalog.save("b", listing("one"), "f2")
    path = catalog.folder / "a.json"
    first, rest = path.read_bytes().split(b"\n", 1)
    path.write_bytes(damage(first) + b"\n" + rest)
    look_up(catalog)
    assert catalog.find("mcp-b-one").tool.description == "done"
    found = catalog.find("mcp-a-one")
    assert (found is None) == (catalog.set_aside("a") is not None)
    assert (catalog.set_aside("a") or path).read_bytes().endswith(rest)
