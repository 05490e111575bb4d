"""Files for content that does not belong in the shared store: images, blobs, large results."""

from __future__ import annotations

import re
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import attrs

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.contract.json_types import JSON

_EXTENSION = re.compile(r"\.[a-z0-9]{1,8}")
_KNOWN = {
    "application/json": ".json",
    "audio/mpeg": ".mp3",
    "audio/wav": ".wav",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/webp": ".webp",
    "text/plain": ".txt",
}


@attrs.frozen
class Artifacts:
    """Writes artifacts: files in one folder, named after their content.

    Attributes:
        folder: Created (mode 0700) with the first file.
    """

    folder: Path

    def write(self, content: bytes, mime_type: str) -> dict[str, JSON]:
        """Write an artifact: the whole of `content`, to a file (mode 0600); nothing is redacted.

        Returns:
            A reference to the file: `path`, `mimeType`, `size` in bytes, `sha256`.

        Raises:
            storage.StoreError: The file could not be written.
        """
        digest = sha256(content).hexdigest()
        path = self.folder / f"{digest[:24]}{_extension(mime_type)}"
        if path.is_file() and not path.is_symlink():
            with suppress(OSError):
                path.touch()  # a host may remove files by their age
        else:
            storage.write_atomic(path, content, follow=False)
        return {"path": str(path), "mimeType": mime_type, "size": len(content), "sha256": digest}


def _extension(mime_type: str) -> str:
    """Return the usual extension of a MIME type, or `.bin`."""
    plain = mime_type.partition(";")[0].strip().lower()
    if plain in _KNOWN:
        return _KNOWN[plain]
    from mimetypes import MimeTypes

    # MimeTypes() ignores the system's tables, which are slow to read and differ between machines
    found = MimeTypes().guess_extension(plain) or ""
    return found if _EXTENSION.fullmatch(found) else ".bin"
