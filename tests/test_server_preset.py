"""A preset rejects wrong values when it is made, and names the field."""

import pytest

from pflow_mcp_plugin import types
from pflow_mcp_plugin.types import PresetInput, ServerPreset

TOKEN = PresetInput(name="TOKEN", description="A token", secret=True)
FOLDER = PresetInput(name="folder", description="A folder")
NOTE = PresetInput(name="note", description="A note", required=False)


def preset(**fields):
    given = {"name": "acme", "title": "Acme", "description": "Does it", "command": "server", **fields}
    return ServerPreset(**given)


def remote(**fields):
    return preset(command="", transport="http", url="https://example.com/mcp", **fields)


def test_a_whole_preset_is_accepted_and_lists_become_tuples():
    made = preset(
        command="npx",
        args=["-y", "@acme/tickets@1.2.3", "${folder}"],
        env={"TOKEN": "${TOKEN}", "MODE": "fast"},
        inputs=[TOKEN, FOLDER],
        tools=["read_*"],
        homepage="https://example.com",
        manifest_hash="sha256:" + "0" * 64,
    )
    assert made.args == ("-y", "@acme/tickets@1.2.3", "${folder}")
    assert made.packages == ("@acme/tickets@1.2.3",)
    assert remote(headers={"Authorization": "Bearer ${TOKEN}"}, inputs=[TOKEN]).packages == ()


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("name", {"name": "Acme!"}),
        ("title", {"title": ""}),
        ("description", {"description": ""}),
        ("transport", {"transport": "ws"}),
        ("command", {"command": ""}),
        ("url", {"url": "https://example.com"}),
        ("url", {"command": "", "transport": "http", "url": "example.com"}),
        ("command", {"transport": "http", "url": "https://example.com/mcp"}),
        ("headers", {"headers": {"X": "y"}}),
        ("args", {"args": ["a", 1]}),
        ("env", {"env": {"A": 1}}),
        ("inputs", {"inputs": ["folder"]}),
        ("rename", {"rename": {"a": ""} | {"": "b"}}),
        ("tools", {"tools": [1]}),
        ("startup_timeout", {"startup_timeout": 0}),
        ("env", {"env": {"A=B": "c"}}),
        ("command", {"command": " "}),
        ("args", {"args": "-y acme"}),
        ("manifest_hash", {"manifest_hash": "sha256:12"}),
    ],
)
def test_a_wrong_value_is_rejected_with_its_field(field, fields):
    with pytest.raises(ValueError, match=rf"ServerPreset\.{field} "):
        preset(**fields)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"args": ["${folder}"]}, r"args\[0\] refers to folder, which is not among the inputs"),
        ({"inputs": [FOLDER]}, "inputs declares folder, which nothing refers to"),
        ({"args": ["${folder}"], "inputs": [FOLDER, FOLDER]}, "inputs declares folder twice"),
        ({"args": ["${folder:-x}"], "inputs": [FOLDER]}, r"args\[0\] gives folder a default"),
        ({"args": ["${input:folder}"]}, r"args\[0\] .* is not a reference to an input"),
        ({"command": "${note}", "inputs": [NOTE]}, "command refers to note, which is optional"),
    ],
)
def test_references_and_inputs_belong_together(fields, said):
    with pytest.raises(ValueError, match=said):
        preset(**fields)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"env": {"API_TOKEN": "abc"}}, r"env\.API_TOKEN contains a literal secret"),
        ({"args": ["--token=abcdef"]}, r"args\[0\] contains a literal secret"),
        ({"args": ["${TOKEN}"], "inputs": [TOKEN]}, r"args\[0\] shows the secret TOKEN to all users"),
        ({"env": {"API_TOKEN": "${folder}"}, "inputs": [FOLDER]}, "needs the input folder to be declared"),
    ],
)
def test_a_secret_is_never_in_a_preset_nor_on_a_command_line(fields, said):
    with pytest.raises(ValueError, match=said) as rejected:
        preset(**fields)
    assert "abc" not in str(rejected.value)
    with pytest.raises(ValueError, match=r"headers\.Authorization contains a literal secret"):
        remote(headers={"Authorization": "Bearer abcdef"})


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("npx", ["-y", "acme@latest"]),
        ("npx", ["--package=acme@next", "acme"]),
        ("npx", []),
        ("uvx", ["--from", "git+https://example.com/acme", "acme"]),
        ("uvx", ["--with=mcp<2", "acme@1.2.3"]),
        ("docker", ["run", "-i", "acme/server:latest"]),
        ("docker", ["run", "-i", "--user", "1000:1000", "acme/server"]),
        ("docker", ["run", "-ip", "8080:80", "acme/server"]),
        ("uvx", ["--python", "3.12", "acme"]),
    ],
)
def test_a_package_without_an_exact_version_is_rejected(command, args):
    with pytest.raises(ValueError, match=r"ServerPreset\.args must (give an exact version|name the package)"):
        preset(command=command, args=args)


@pytest.mark.parametrize(
    ("command", "args", "packages"),
    [
        ("npx", ["-y", "acme@1.2.3-beta.1", "run@1"], ("acme@1.2.3-beta.1",)),
        ("uvx", ["--from=acme[cli]==1.2.3", "acme"], ("acme[cli]==1.2.3",)),
        ("uvx", ["--with", "mcp==1.30.0", "acme==1.2.3"], ("mcp==1.30.0", "acme==1.2.3")),
        ("pipx", ["run", "acme==1.2.3"], ("acme==1.2.3",)),
        ("docker", ["run", "-i", "ghcr.io/acme/server:1.2.3"], ("ghcr.io/acme/server:1.2.3",)),
        ("python3", ["-m", "acme"], ()),
        ("uvx", ["--python", "3.12", "acme==1.2.3"], ("acme==1.2.3",)),
        ("uvx", ["-p", "3.12", "--from", "acme==1.2.3", "acme"], ("acme==1.2.3",)),
        ("npx", ["-y", "acme@1.2.3", "-p", "8080"], ("acme@1.2.3",)),
        ("docker", ["run", "--rm", "--user", "1:1", "-e", "A=b", "acme:1.2.3", "c:1"], ("acme:1.2.3",)),
    ],
)
def test_the_packages_of_a_runner_are_known(command, args, packages):
    assert preset(command=command, args=args).packages == packages


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("name", {"name": "a-b"}),
        ("description", {"description": ""}),
        ("secret", {"secret": True, "default": "abc"}),
        ("default", {"choices": ["a", "b"], "default": "c"}),
        ("choices", {"choices": [1]}),
    ],
)
def test_a_wrong_input_is_rejected_with_its_field(field, fields):
    with pytest.raises(ValueError, match=rf"PresetInput\.{field} "):
        PresetInput(**{"name": "folder", "description": "A folder", **fields})


def test_the_types_are_loaded_on_demand_and_no_others():
    assert types.ServerPreset is ServerPreset
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = types.Nothing
