"""From servers to tools, and how the tools are stored.

- `tool_sync`: asks several servers for their tools concurrently
- `sync_failures`: why the last sync of a server failed
- `catalog`: the stored tools, one file for each server; finds the tool of a node type
- `resource_reading`: what reads the resources of a server, as a tool beside those that it lists
- `servers`: the config and the catalog of a user, as one value
- `tool_file`: the content of a server's file, and its JSON form
- `stored_tool_file`: such a file on disk, of which only the requested part is decoded
- `tool_audit`: the checks of `trust.tool_checks` on the stored tools
- `tool_filter`: which tools become nodes according to the config
- `server_launch`: a configured server, ready to be started
- `launch_identity`: what identifies the launch of a server
- `pins`: what was approved of each server, one file for each
- `pin_comparison`: the difference between what a sync found and what was approved
- `tool_approval`: whether a tool may be used as it was last synced, and what may be shown of it
- `tool_use`: whether a use of a tool fits it, also where it changed since it was approved
- `lock_file`: the lock file of a team; `lock_differences`: what differs from it; `lock_check`: compares the
  synced servers, or what a server lists now, with it
- `tool_hashes`: hashes of a tool and of all tools of a server
- `tool_changes`: the difference between two lists of tools, breaking or compatible

Nothing here starts a server: `tool_sync` receives a pool.
"""

__all__: list[str] = []
