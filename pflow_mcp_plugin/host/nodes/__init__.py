"""The host's own nodes: their entries in `source`, the classes in `echo` and `files`."""
