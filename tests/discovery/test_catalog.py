import json

import attrs

from pflow_mcp_plugin.catalog.tool_catalog import Catalog
from pflow_mcp_plugin.exchange import Listing
from pflow_mcp_plugin.types import ServerInfo, Tool

INFO = ServerInfo(name="Demo", version="1", protocol="2026-07-28", era="modern", instructions="be kind")


def listing(*names, **others):
    return Listing(
        info=INFO, tools=tuple(Tool(name=name, description=f"does {name}") for name in names), **others
    )


def test_what_a_sync_found_is_there_for_another_process(catalog):
    tool = Tool(
        name="create_issue",
        title="Create",
        description="Creates",
        input_schema={"type": "object", "properties": {"titre\ud800": {"enum": [None, 1.5]}}},
        output_schema={},
        annotations={"readOnlyHint": True},
        meta={"x/y": [1]},
    )
    before, saved = catalog.save(
        "github", Listing(info=INFO, tools=(tool,), skipped=(("bad", "no name"),)), "f1"
    )
    assert before is None
    assert [each.name for each in saved.tools] == ["create_issue"]
    other = Catalog(catalog.folder)
    record = other.find("mcp-github-create-issue")
    assert attrs.evolve(record.tool, hash="") == tool
    assert record.info == INFO
    assert record.tool.hash.startswith("sha256:")
    assert record.manifest_hash.startswith("sha256:")
    assert other.file("github").skipped == (("bad", "no name"),)
    data = json.loads((catalog.folder / "github.json").read_text())
    assert (data["schema_version"], data["config_fingerprint"]) == (1, "f1")


def test_a_renamed_tool_is_found_under_its_new_name_and_counts_in_clashes(tmp_path):
    catalog = Catalog(
        tmp_path, lambda server: {"x": "Fresh Name", "y": "fresh_name"} if server == "s" else {}
    )
    catalog.save("s", listing("x"), "")
    assert catalog.find("mcp-s-fresh-name").tool.name == "x"
    assert catalog.find("mcp-s-x").tool.name == "x"  # as an alias
    catalog.save("s", listing("x", "y"), "")
    assert catalog.find("mcp-s-fresh-name") is None
    assert len({record.node for record in catalog.records()}) == 2


def test_a_look_up_reads_only_the_files_of_servers_that_fit(catalog):
    catalog.save("a", listing("x"), "")
    (catalog.folder / "zzz.json").write_text("{")
    assert catalog.find("mcp-a-x")
    assert (catalog.folder / "zzz.json").exists()


def test_a_corrupt_file_is_set_aside_and_means_not_synced(catalog):
    catalog.save("a", listing("x"), "")
    for number, text in enumerate(["{", "[]", '{"schema_version": 1}', '{"server": "b"}'], start=1):
        (catalog.folder / "a.json").write_text(text)
        assert catalog.find("mcp-a-x") is None
        assert catalog.file("a") is None
        assert catalog.set_aside("a").name == f"a.json.corrupt-{number}"
    before, saved = catalog.save("a", listing("x"), "")
    assert before is None
    assert [each.name for each in saved.tools] == ["x"]
    assert catalog.find("mcp-a-x")


def test_a_file_under_the_name_of_another_server_is_corrupt(catalog):
    catalog.save("a", listing("x"), "")
    (catalog.folder / "a.json").rename(catalog.folder / "b.json")
    assert catalog.file("b") is None


def test_the_era_counts_only_for_the_config_it_was_found_with(catalog):
    catalog.save("a", listing("x"), "f1")
    assert catalog.current("a", "f1").info.era == "modern"
    assert catalog.current("a", "f2") is None
    assert catalog.current("b", "f1") is None
    assert catalog.fingerprint_of("a") == "f1"
    assert catalog.fingerprint_of("b") == ""


def test_a_tool_is_found_by_the_spelling_of_its_node_type(catalog):
    catalog.save("a", listing("Create_Issue", "x.y", "x_y"), "")
    assert catalog.tool("a", "create-issue").tool.name == "Create_Issue"
    assert catalog.tool("a", "x-y") is None
    assert catalog.tool("b", "x") is None


def test_files_that_are_kept_apart_are_those_of_their_server_alone(catalog, tmp_path):
    catalog.save("a", listing("mine"), "f")
    catalog.save("b", listing("mine"), "f")
    folders = {"a": tmp_path / "apart", "c": tmp_path / "apart"}
    apart = Catalog(catalog.folder, renames=catalog.renames, apart=lambda: folders)
    assert apart.servers() == ("b",)
    assert apart.find("mcp-a-mine") is None
    apart.save("a", listing("theirs"), "f")
    assert apart.servers() == ("a", "b")
    assert [record.node for record in apart.records()] == ["mcp-a-theirs", "mcp-b-mine"]
    assert (apart.folder_of("a"), apart.folder_of("b")) == (tmp_path / "apart", catalog.folder)
    assert apart.tool_names("a") == ("theirs",)
    assert Catalog(catalog.folder).tool_names("a") == ("mine",)
    (tmp_path / "apart" / "a.json").write_text("{")
    assert apart.servers() == ("a", "b")
    assert apart.file("a") is None
    assert apart.set_aside("a").parent == tmp_path / "apart"


def test_a_name_that_tools_of_two_servers_claim_is_neither(catalog):
    catalog.save("git", listing("hub-search"), "f")
    assert catalog.find("mcp-git-hub-search").server == "git"
    catalog.save("git-hub", listing("search"), "f")  # its name is the longer one
    assert catalog.find("mcp-git-hub-search") is None
    assert {record.server for record in catalog.claimants("mcp-git-hub-search")} == {"git", "git-hub"}
    assert all(catalog.find(record.node) == record for record in catalog.claimants("mcp-git-hub-search"))
