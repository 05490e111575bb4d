"""The nodes `read-file` and `write-file`."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pocketflow

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.nodes.node_arguments import argument


class ReadFile(pocketflow.Node):
    """The node `read-file` reads a text file."""

    def prep(self, shared: MutableMapping[str, Any]) -> tuple[Path, str]:
        """Return the path and the encoding that `read-file` gets."""
        path = argument(self.params, shared, "file_path")
        return Path(path).expanduser(), argument(self.params, shared, "encoding", "utf-8")

    def exec(self, prep_res: tuple[Path, str]) -> str:
        """Read the file for `read-file` and return its text, line endings unchanged.

        Raises:
            PflowError: The file does not exist, cannot be read, or is not text in that encoding.
        """
        path, encoding = prep_res
        try:
            # `newline=""` keeps `\r\n` as it is.
            with path.open(encoding=encoding, newline="") as file:
                return file.read()
        except OSError as error:
            raise _file_problem("read", path, error.strerror or str(error)) from error
        except UnicodeError as error:
            raise _file_problem("read", path, f"it is not {encoding} text", "Set encoding") from error
        except LookupError as error:
            raise _file_problem("read", path, f"unknown encoding {encoding}", "Use utf-8") from error

    def post(self, shared: MutableMapping[str, Any], prep_res: tuple[Path, str], exec_res: str) -> str:
        """Write the `content` and `file_path` of `read-file`, and return the action.

        Args:
            shared: The node's view of the shared store.
            prep_res: What `prep` returned.
            exec_res: What `exec` returned.
        """
        shared["content"] = exec_res
        shared["file_path"] = str(prep_res[0])
        return "default"


class WriteFile(pocketflow.Node):
    """The node `write-file` writes a text file; any value other than a string is written as JSON."""

    def prep(self, shared: MutableMapping[str, Any]) -> tuple[Path, str, bool]:
        """Return the path and the text that `write-file` gets, and whether to append it."""
        path = Path(argument(self.params, shared, "file_path")).expanduser()
        content = argument(self.params, shared, "content")
        return path, _as_text(content), argument(self.params, shared, "append", default=False)

    def exec(self, prep_res: tuple[Path, str, bool]) -> int:
        """Write the file of `write-file`, create its folder if necessary, and return its new length in bytes.

        Raises:
            PflowError: It cannot be written.
        """
        path, text, append = prep_res
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a" if append else "w", encoding="utf-8", newline="") as file:
                file.write(text)
            return path.stat().st_size
        except OSError as error:
            failure = _file_problem("write", path, error.strerror or str(error))
            failure.retryable = not append  # a part may have been appended
            raise failure from error

    def post(self, shared: MutableMapping[str, Any], prep_res: tuple[Path, str, bool], exec_res: int) -> str:
        """Write the `file_path` and `size` of `write-file`, and return the action.

        Args:
            shared: The node's view of the shared store.
            prep_res: What `prep` returned.
            exec_res: What `exec` returned.
        """
        shared["file_path"] = str(prep_res[0])
        shared["size"] = exec_res
        return "default"


def _file_problem(doing: str, path: Path, reason: str, *suggestions: str) -> PflowError:
    return PflowError(
        f"Cannot {doing} {path}: {reason}", details={"file_path": str(path)}, suggestions=suggestions
    )


def _as_text(content: object) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=2) + "\n"
