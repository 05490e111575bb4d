"""Build the source distribution of this checkout and unpack it into a folder."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

_ROOT = Path(__file__).parents[1]


def unpack(folder: Path) -> None:
    """Put what the source distribution holds into `folder`, in place of what was there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        build = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", scratch]
        subprocess.run(build, cwd=_ROOT, stdout=subprocess.DEVNULL, check=True)  # noqa: S603 - its own tool
        (archive,) = Path(scratch).glob("*.tar.gz")
        with tarfile.open(archive) as files:
            files.extractall(scratch, filter="data")
        (Path(scratch) / archive.name.removesuffix(".tar.gz")).rename(folder)


def main() -> None:
    """Unpack to where the argument says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    unpack(parser.parse_args().folder.resolve())


if __name__ == "__main__":
    main()
