"""Files that survive crashes, full disks and several writers at once.

- `places`: the folders they are kept in
- `files`: reading, locking, and writing as a whole or not at all
- `objects`: JSON objects in files, changed under a lock
- `failures`: what is raised, with the path
"""

from pflow_mcp_plugin.storage.failures import CorruptFile, StoreError
from pflow_mcp_plugin.storage.files import (
    files_in,
    locked,
    make_folder,
    read_bytes,
    set_aside,
    sweep,
    write_atomic,
    write_output,
)
from pflow_mcp_plugin.storage.objects import JsonStore, decode_json, encode_json
from pflow_mcp_plugin.storage.places import default_paths

__all__ = [
    "CorruptFile",
    "JsonStore",
    "StoreError",
    "decode_json",
    "default_paths",
    "encode_json",
    "files_in",
    "locked",
    "make_folder",
    "read_bytes",
    "set_aside",
    "sweep",
    "write_atomic",
    "write_output",
]
