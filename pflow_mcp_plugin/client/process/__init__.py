"""A server's process, from its start to its end.

- `spawning`: starts the process in its own group
- `environment`: the environment variables of the process
- `package_runners`, `installation`: programs that may have to download the server first, and the time for it
- `npx_cache`: removes what npx has installed incompletely
- `shutdown`: waits for the process to exit, then ends it
- `memory`: the memory that the processes use
- `memory_limit`: ends a server that uses more memory than its config allows
- `stderr_files`: files with the full stderr of failing servers

Importing these loads neither the SDK nor, except for `shutdown`, `installation` and `memory_limit`, asyncio.
"""
