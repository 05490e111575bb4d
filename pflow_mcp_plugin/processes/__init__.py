"""Processes that must not outlive this one: what host and client share.

- `reaper`, `reaper_process`: a helper process that ends servers and commands if pflow dies
"""
