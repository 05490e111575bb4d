"""Files that survive crashes, full disks and several writers at once.

- `folders`: the folders that pflow uses
- `atomic_files`: reading, locking, and atomic writing
- `json_files`: JSON objects in files, changed under a lock
- `file_errors`: the exceptions, each with the path of its file
"""

from pflow_mcp_plugin.storage.atomic_files import (
    files_in,
    keep_backup,
    locked,
    make_folder,
    read_bytes,
    set_aside,
    sweep,
    write_atomic,
    write_output,
)
from pflow_mcp_plugin.storage.file_errors import CorruptFile, StoreError
from pflow_mcp_plugin.storage.folders import default_paths
from pflow_mcp_plugin.storage.json_files import JsonStore, decode_json, encode_json

__all__ = [
    "CorruptFile",
    "JsonStore",
    "StoreError",
    "decode_json",
    "default_paths",
    "encode_json",
    "files_in",
    "keep_backup",
    "locked",
    "make_folder",
    "read_bytes",
    "set_aside",
    "sweep",
    "write_atomic",
    "write_output",
]
