"""Files on the disk that survive crashes, full disks and several writers at once.

- `files`: the folders that pflow uses; the exceptions, each with the path of its file; reading regular files
  only, up to a limit, or, on demand, pipes, terminals and devices; who else could have written a file
- `atomic_files`: reading, locking, atomic writing, and removing
- `json_and_toml`: JSON and TOML decoded strictly, with the place of a mistake, encoded and compared; JSON
  objects in files, changed under a lock; how deep a document may be nested
"""

from pflow_mcp_plugin.storage.atomic_files import (
    append_regular,
    copy_regular,
    file_stamp,
    is_open_to_others,
    json_files_in,
    keep_backup,
    locked,
    make_folder,
    put_in_place,
    read_bytes,
    read_own,
    remove,
    replaced_regular,
    set_aside,
    sweep,
    temporary_name,
    write_atomic,
    write_output,
    write_regular,
)
from pflow_mcp_plugin.storage.files import (
    LIMIT,
    CorruptFile,
    NotRegular,
    StoreError,
    absolute,
    default_paths,
    is_descriptor,
    open_regular,
    read_named,
    read_regular,
    read_special,
    refuse_special,
    require_own,
    require_regular,
    write_special,
)
from pflow_mcp_plugin.storage.json_and_toml import JsonStore, decode_json, encode_json

__all__ = [
    "LIMIT",
    "CorruptFile",
    "JsonStore",
    "NotRegular",
    "StoreError",
    "absolute",
    "append_regular",
    "copy_regular",
    "decode_json",
    "default_paths",
    "encode_json",
    "file_stamp",
    "is_descriptor",
    "is_open_to_others",
    "json_files_in",
    "keep_backup",
    "locked",
    "make_folder",
    "open_regular",
    "put_in_place",
    "read_bytes",
    "read_named",
    "read_own",
    "read_regular",
    "read_special",
    "refuse_special",
    "remove",
    "replaced_regular",
    "require_own",
    "require_regular",
    "set_aside",
    "sweep",
    "temporary_name",
    "write_atomic",
    "write_output",
    "write_regular",
    "write_special",
]
