"""A server's process, from its start to its end.

- `server_process`: the process in its own group, its environment, the files with its stderr
- `package_runners`: programs that may have to download the server first, and what npx left incomplete
- `shutdown`: waits for the process to exit, ends it, and limits its memory
- `memory`: the memory that the processes use

Importing these loads neither the SDK nor, except for `shutdown`, asyncio.
"""
