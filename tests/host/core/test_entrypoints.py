import sys
import zipfile
from importlib import metadata

import pytest

from pflow_mcp_plugin.host.plugins import entry_points


def facts(points):
    return sorted((point.name, point.value) for point in points)


def lay(folder, name, version, entry_points):
    """Lay out an installed distribution in a folder."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(entry_points)


def test_the_same_is_found_as_by_the_standard_library():
    for group in ("console_scripts", "pflow", "pytest11"):
        assert facts(entry_points(group)) == facts(metadata.entry_points(group=group))


def test_a_zip_on_the_path_is_looked_into(monkeypatch, tmp_path):
    archive = tmp_path / "lib.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped-1.dist-info/METADATA", "Name: zipped\nVersion: 1\n")
        file.writestr("zipped-1.dist-info/entry_points.txt", "[pflow]\nzipped = json:dumps\n")
    monkeypatch.syspath_prepend(str(archive))
    (found,) = (point for point in entry_points("pflow") if point.name == "zipped")
    assert (found.distribution.name, found.distribution.version) == ("zipped", "1")
    assert found.load()(1) == "1"


def test_the_first_of_two_versions_on_the_path_counts(monkeypatch, tmp_path):
    for version in ("1", "2"):
        points = "# comment\n[other]\na = b\n[pflow]\nmine = os.path:join [extra]\n"
        lay(tmp_path / version, "My.Dist", version, points)
        monkeypatch.syspath_prepend(str(tmp_path / version))
    (found,) = (point for point in entry_points("pflow") if point.name == "mine")
    assert (found.distribution.name, found.distribution.version) == ("My.Dist", "2")
    assert found.load() is sys.modules["os.path"].join


@pytest.mark.parametrize("beside", ["a folder", "a zip file"])
def test_a_distribution_that_is_found_twice_counts_once(monkeypatch, tmp_path, beside):
    for folder in ("one", "two"):
        lay(tmp_path / folder, "twice", 1, "[pflow]\ntwice = json:dumps\n")
        monkeypatch.syspath_prepend(str(tmp_path / folder))
    if beside == "a zip file":  # then the standard library is asked
        zipfile.ZipFile(tmp_path / "lib.zip", "w").close()
        monkeypatch.syspath_prepend(str(tmp_path / "lib.zip"))
    assert [point.name for point in entry_points("pflow")].count("twice") == 1
