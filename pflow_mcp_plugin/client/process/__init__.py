"""A server's process, from its start to its end.

- `spawning`: the process is started, in a group of its own
- `environment`: the variables that it gets
- `installation`: a package runner may have to download the server before it starts
- `shutdown`: it is given time to end, then ended
- `reaper`, `reaper_process`: no process outlives pflow, however pflow ends
- `memory`: how much memory it uses
- `stderr_files`: what it wrote to stderr, where an error shows only a part

Importing these loads neither the SDK nor, but for `shutdown`, asyncio.
"""
