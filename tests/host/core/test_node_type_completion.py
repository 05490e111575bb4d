from pflow_mcp_plugin.host.registry.node_registry import by_stem


def test_too_many_names_are_gathered_up_to_the_next_hyphen():
    names = [f"mcp-{server}-tool-{number}" for server in ("git", "hub") for number in range(9)]
    assert list(by_stem([*names, "mcp-x"], "m", many=5)) == ["mcp-git-", "mcp-hub-", "mcp-x"]


def test_names_without_a_hyphen_are_gathered_one_letter_further():
    names = [f"mcp-git-{number}" for number in range(30)]
    assert by_stem(names, "mcp-", many=20)["mcp-git-1"] == [
        f"mcp-git-{number}" for number in (1, *range(10, 20))
    ]
