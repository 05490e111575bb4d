"""The folders that pflow uses."""

from __future__ import annotations

import os
from pathlib import Path

from pflow_mcp_plugin.contract import Paths


def default_paths() -> Paths:
    """Return the folders of pflow: below `$PFLOW_HOME` if it is set, otherwise the platform's usual ones."""
    home = os.environ.get("PFLOW_HOME")
    if home:
        root = Path(home).expanduser().absolute()
        return Paths(config=root / "config", data=root / "data", state=root / "state", cache=root / "cache")
    from platformdirs import PlatformDirs

    dirs = PlatformDirs("pflow", appauthor=False)
    return Paths(
        config=dirs.user_config_path,
        data=dirs.user_data_path,
        state=dirs.user_state_path,
        cache=dirs.user_cache_path,
    )
