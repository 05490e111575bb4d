"""Asking servers for their tools.

- `servers`: the config, the stored tools and the pins as one value, and what commands work with; a server
  ready to be started
- `tool_sync`: asks several servers concurrently, and stores their answers
- `lock_file`: the lock file of a team: written, read and checked
- `lock_check`: how the synced servers, or what a server lists now, differ from that file

`tool_sync` starts no server: it receives a pool.
"""

__all__: list[str] = []
