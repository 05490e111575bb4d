"""A virtual environment for a test, into which packages are really installed, offline."""

import os
import subprocess
import sysconfig
import tomllib
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_SECONDS = 110
_SCRIPT = """#!/bin/sh
exec "{python}" -P -m {module} "$@"
"""


class VirtualEnvironment:
    """A virtual environment in which everything that the tests run with can be imported.

    Args:
        folder: Where it is made.

    Attributes:
        programs: The folder of its programs: `python`, `pip`, `pflow`, `pytest`.
        variables: The environment of its programs, in which pip fetches nothing and builds with what is here.
    """

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)  # pip is among what can be imported
        self.programs = folder / "bin"
        (packages,) = folder.glob("lib/python3*/site-packages")
        ours = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        lines = [f"import site; site.addsitedir({path!r})\n" for path in sorted(ours)]
        (packages / "ours.pth").write_text("".join(lines), encoding="utf-8")
        for name, module in (("pflow", "pflow_mcp_plugin"), ("pytest", "pytest"), ("pip", "pip")):
            script = self.programs / name
            script.write_text(
                _SCRIPT.format(python=self.programs / "python", module=module), encoding="utf-8"
            )
            script.chmod(0o755)
        self.variables: Mapping[str, str] = {
            **os.environ,
            "PATH": os.pathsep.join([str(self.programs), os.environ["PATH"]]),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # pip reads it as the opposite: build without isolation
            "PIP_NO_INDEX": "1",
        }

    def run(self, *command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run one of its programs, whatever its exit code is."""
        program, *arguments = map(str, command)
        return subprocess.run(
            [self.programs / program, *arguments],
            env={**self.variables, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=_SECONDS,
            check=False,
        )

    @contextmanager
    def installed(self, *folders: Path) -> Iterator[None]:
        """Build and install the packages in these folders; uninstall them at the end."""
        projects = [tomllib.loads((folder / "pyproject.toml").read_text("utf-8")) for folder in folders]
        self.pip("install", "--quiet", *folders)
        try:
            yield
        finally:
            self.pip("uninstall", "--quiet", "--yes", *(project["project"]["name"] for project in projects))

    def pip(self, *arguments: str | Path) -> None:
        """Run pip; it must succeed."""
        done = self.run("python", "-m", "pip", *arguments)
        assert done.returncode == 0, f"pip {arguments}\n{done.stdout}\n{done.stderr}"
