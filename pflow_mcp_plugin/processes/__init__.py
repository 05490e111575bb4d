"""Processes that must not outlive this one: starting, watching and ending them, for host and client.

- `process_group`: a process that leads a group, its exit code, its end with all that it started; and the
  helper process that ends servers and commands if pflow dies, whose program is `reaper_process`
- `missing_programs`: programs such as npx and uvx that are not on PATH: where they are, or where to get them
- `shutdown`: waits for a process to exit, ends it step by step, and limits its memory; imports asyncio
- `system_calls`: what differs between operating systems, such as memory, pipes and the longest arguments
"""
