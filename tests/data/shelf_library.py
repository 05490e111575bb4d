"""The least that a library of a host is."""

from pathlib import Path

from pflow_mcp_plugin.contract import Library, PflowError, SavedWorkflow


class Shelf(Library):
    """A library that keeps workflows in `shelf`; one called `torn` cannot be read."""

    def __init__(self):
        self.shelf = {}

    def names(self):
        return sorted(self.shelf)

    def get(self, name, version=None):
        return self.shelf[name]

    def describe(self, name):
        if name == "torn":
            raise PflowError("a page is missing", kind="config")
        return SavedWorkflow(name=name, description=self.shelf[name]["description"], path=Path(name))

    def save(self, name, workflow, description=""):
        self.shelf[name] = {**workflow, "description": description}
        return self.describe(name)

    def delete(self, name):
        del self.shelf[name]
