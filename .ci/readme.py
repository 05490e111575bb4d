"""What PyPI shows of the README: its links lead to the repository, as there are no files beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE = re.compile(r"\]\((?!https?:|#)")


class Readme(MetadataHookInterface):
    """Fills the dynamic field `readme` of pyproject.toml."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the text, with absolute links."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        files = f"{metadata['urls']['Homepage']}/blob/main/"
        metadata["readme"] = {"content-type": "text/markdown", "text": _RELATIVE.sub(f"]({files}", text)}
