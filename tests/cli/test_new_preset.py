"""`pflow mcp new-preset`. That the package works once it is installed is tested in tests/plugins."""

from __future__ import annotations

import ast
import tomllib

import pytest


def test_it_writes_a_package_of_that_name_and_says_what_to_run(pflow, tmp_path):
    done = pflow("mcp", "new-preset", "my-own-mail", "--json")
    assert done.exit_code == 0
    data = done.envelope["data"]
    assert data["folder"] == "my-own-mail"
    assert data["next"].startswith("pip install --editable my-own-mail")
    folder = tmp_path / "my-own-mail"
    written = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert sorted(data["files"]) == written
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pflow"] == {"my-own-mail": "my_own_mail.presets"}
    for path in map(folder.joinpath, written):
        text = path.read_text(encoding="utf-8")
        assert "acme" not in text.lower()
        if path.suffix == ".py":
            ast.parse(text)


def test_an_empty_folder_is_filled_and_another_is_left_alone(pflow, tmp_path):
    folder = tmp_path / "there"
    folder.mkdir()
    assert pflow("mcp", "new-preset", "mail", folder).exit_code == 0
    before = sorted(folder.rglob("*"))
    again = pflow("mcp", "new-preset", "post", folder)
    assert again.exit_code == 2
    assert "is not empty" in again.stderr
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("name", ["Mail", "9mail", "mail_box", "import", "-mail", ""])
def test_a_name_that_cannot_be_one_of_a_module_and_a_preset_is_refused(pflow, tmp_path, name):
    done = pflow("mcp", "new-preset", "--", name, "folder")
    assert done.exit_code == 2
    assert "Invalid package name" in done.stderr
    assert not (tmp_path / "folder").exists()


def test_the_name_of_a_preset_that_exists_is_refused(pflow, tmp_path):
    done = pflow("mcp", "new-preset", "github", "folder")
    assert done.exit_code == 2
    assert "A preset named github already exists" in done.stderr
    assert not (tmp_path / "folder").exists()
