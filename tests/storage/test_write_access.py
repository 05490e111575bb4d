"""What others can write or own is refused with the command that mends it.

Root plays the user, with real owners, modes, links and access lists; where no other user is needed, anyone.
"""

import grp
import os
import pwd
import shlex
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from pflow_mcp_plugin.storage import StoreError, read_own, read_regular

OTHER = 12_345
"""A user and group that this machine does not know."""
NOBODY = 65_534
as_root = pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root may give files away")
pytestmark = pytest.mark.skipif(os.name == "nt", reason="permissions of Unix")

ASKED = """
import json, sys
from pathlib import Path
from pflow_mcp_plugin.storage import StoreError, read_own
try:
    print(json.dumps((read_own(Path(sys.argv[1])) or b"").decode()))
except StoreError as error:
    print(json.dumps("refused: " + str(error)))
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "above" / "folder" / "file.json"
    path.parent.mkdir(parents=True)
    for folder in (path.parent.parent, path.parent):
        folder.chmod(0o700)
    path.write_text("content")
    path.chmod(0o600)
    return path


def refusal(path):
    with pytest.raises(StoreError) as caught:
        read_own(path)
    return caught.value


def mended(error):
    command = error.suggestions[0].rpartition("run: ")[2].removeprefix("sudo ")
    subprocess.run(shlex.split(command), check=True)


def refused_until_mended(file, place, words):
    """Check that a file is not read because of a place, and is once what the error says was run."""
    error = refusal(file)
    assert (str(error.path), words in error.message) == (str(place), True)
    mended(error)
    assert read_own(file) == b"content"


def private_user():
    """Return a user of this machine whose group has the same name and no other member, and that group."""
    groups = {group.gr_name: group for group in grp.getgrall() if not group.gr_mem}
    for user in pwd.getpwall():
        group = groups.get(user.pw_name)
        users = [it for it in pwd.getpwall() if group and it.pw_gid == group.gr_gid]
        if group and user.pw_uid and users in ([user], []):
            return user.pw_uid, group.gr_gid
    pytest.skip("no user has a private group")


def asked_as(user, group, path):
    """Read a file as another user, who may go through the folders of the tests."""
    identity = [f"--reuid={user}", f"--regid={group}", "--clear-groups"]
    search = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    command = ["setpriv", *identity, *search, sys.executable, "-P", "-c", ASKED, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip().strip('"')


def test_what_only_the_user_can_write_is_read_whoever_may_read_it(file):
    file.chmod(0o644)
    file.parent.chmod(0o755)
    assert read_own(file) == b"content"
    assert read_own(file.with_name("none")) is None
    assert read_own(file.parent / "none" / "none") is None


@pytest.mark.parametrize("mode", [0o666, 0o602])
def test_row_60_a_file_that_everybody_can_write_is_refused_until_it_is_mended(file, mode):
    assert read_own(file) == b"content"
    file.chmod(mode)
    assert read_regular(file) == b"content"  # as data
    error = refusal(file)
    assert error.message == f"{file}: every user can write it (its mode is {mode:04o})"
    assert error.suggestions == (f"Check what is in it, then run: chmod go-w {file}",)
    mended(error)
    assert read_own(file) == b"content"


@pytest.mark.parametrize(
    ("mode", "name"), [(0o777, "file.json"), (0o1777, "none.json"), (0o722, "none.json")]
)
def test_row_60_a_folder_in_which_everybody_can_write_is_refused_with_or_without_the_file(file, mode, name):
    assert read_own(file) == b"content"  # what was found then is not believed for ever
    file.parent.chmod(mode)
    error = refusal(file.with_name(name))
    assert error.message == f"{file.parent}: every user can write it (its mode is {mode:04o})"
    mended(error)
    assert read_own(file) == b"content"


def test_row_60_a_folder_above_is_refused_without_the_sticky_bit_only(file):
    file.parent.parent.chmod(0o777)
    refused_until_mended(file, file.parent.parent, "every user")
    file.parent.parent.chmod(0o1777)
    assert read_own(file) == b"content"
    file.parent.parent.chmod(0o777)
    assert str(refusal(file.parent / "new" / "none").path) == str(file.parent.parent)


def test_row_60_the_folders_behind_links_are_looked_at(file, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    by_folder = shared / "folder"
    by_folder.symlink_to(file.parent)
    by_file = tmp_path / "file.json"
    by_file.symlink_to(os.path.relpath(file, tmp_path))
    through = tmp_path / "through.json"
    through.symlink_to(shared / "folder" / ".." / "folder" / file.name)
    for path in (by_folder / file.name, by_file, through):
        assert read_own(path) == b"content"
    shared.chmod(0o777)
    for path in (by_folder / file.name, through):
        assert str(refusal(path).path) == str(shared)
    assert read_own(by_file) == b"content"
    shared.chmod(0o700)
    file.parent.chmod(0o777)
    for path in (by_folder / file.name, by_file, through):
        assert "every user can write it" in refusal(path).message
    file.parent.chmod(0o1777)  # nobody can replace the file there
    assert read_own(by_file) == b"content"
    (tmp_path / "to-itself").symlink_to("to-itself/c")
    assert "could not be read" in refusal(tmp_path / "to-itself" / "file").message


def test_row_60_a_relative_path_is_looked_at_from_the_working_folder(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    assert read_own(Path(file.name)) == b"content"
    assert read_own(Path("../folder") / file.name) == b"content"
    file.parent.parent.chmod(0o777)
    monkeypatch.chdir(file.parent.parent)
    assert "every user can write it" in refusal(Path("folder") / file.name).message


def test_a_working_folder_that_is_gone_does_not_matter(file, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert read_own(file) == b"content"
    assert read_own(file.with_name("none")) is None
    assert "could not be read" in refusal(Path("none")).message


@as_root
def test_row_60_what_belongs_to_another_user_is_refused_until_it_is_given_back(file):
    assert read_own(file) == b"content"
    for place, user in ((file, OTHER), (file.parent, NOBODY), (file.parent.parent, OTHER)):
        os.chown(place, user, 0)
        refused_until_mended(file, place, "it belongs to ")


@as_root
def test_row_60_a_link_of_another_user_is_refused(file, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(file.parent)
    os.chown(link, OTHER, OTHER, follow_symlinks=False)
    refused_until_mended(link / file.name, link, "it belongs to ")


@as_root
def test_row_60_the_file_that_was_opened_is_checked_not_the_one_that_is_there_now(file, monkeypatch):
    """It is replaced after it was opened: by one that would pass the check."""
    good = file.with_name("good")
    good.write_text("content")
    os.chown(file, OTHER, OTHER)
    opened = os.open

    def replaced(path, *arguments, **named):
        descriptor = opened(path, *arguments, **named)
        if str(path) == str(file):
            good.replace(file)
        return descriptor

    monkeypatch.setattr(os, "open", replaced)
    assert "it belongs to" in refusal(file).message
    assert not good.exists()


@as_root
def test_row_60_what_a_group_of_others_can_write_is_refused(file):
    for place, mode in ((file, 0o660), (file.parent, 0o770), (file.parent.parent, 0o775)):
        os.chown(place, -1, OTHER)
        place.chmod(mode)
        refused_until_mended(file, place, "the group")
    file.parent.parent.chmod(0o3775)  # sticky
    assert read_own(file) == b"content"


@as_root
def test_a_group_that_only_the_user_is_in_may_write_as_with_umask_002(file):
    user, group = private_user()
    for place, mode in ((file, 0o664), (file.parent, 0o775), (file.parent.parent, 0o2775)):
        os.chown(place, user, group)
        place.chmod(mode)
    assert asked_as(user, group, file) == "content"
    os.chown(file, user, OTHER)
    assert "refused" in asked_as(user, group, file)


@as_root
def test_files_of_root_are_read_by_every_user_and_those_of_a_user_not_by_root(file):
    user, group = private_user()
    for mode in (0o644, 0o664):
        file.chmod(mode)
        assert asked_as(user, group, file) == "content"
        assert asked_as(OTHER, OTHER, file) == "content"
    os.chown(file, user, group)
    assert asked_as(user, group, file) == "content"
    assert "refused" in asked_as(OTHER, OTHER, file)
    assert "it belongs to" in refusal(file).message


def access_list(*entries):
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


@as_root
@pytest.mark.parametrize(
    ("tag", "rights", "identifier", "mask", "is_refused"),
    [
        (0x02, 6, OTHER, 7, True),
        (0x08, 6, OTHER, 7, True),
        (0x02, 4, OTHER, 7, False),
        (0x02, 6, 0, 7, False),
    ],
)
def test_row_60_an_access_list_that_lets_others_write_is_refused(
    file, tag, rights, identifier, mask, is_refused
):
    none = 0xFFFF_FFFF
    entries = [
        (0x01, 7, none),
        (tag, rights, identifier),
        (0x04, 0, none),
        (0x10, mask, none),
        (0x20, 0, none),
    ]
    for place in (file, file.parent):
        try:
            os.setxattr(place, "system.posix_acl_access", access_list(*sorted(entries)))
        except OSError:
            pytest.skip("this file system has no access lists")
        if is_refused:
            assert "can write it" in refusal(file).message
            os.removexattr(place, "system.posix_acl_access")
        assert read_own(file) == b"content"
