"""The host's own nodes: their entries in `source`, each class in a module of its own."""
