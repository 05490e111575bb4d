"""The nodes of the hostile plugin."""

import hostile_plugin as plugin
import pocketflow

plugin.at("node_import")


class Hostile(pocketflow.Node):
    """Does at each of its steps what is asked for."""

    def __init__(self):
        plugin.at("node_init")
        super().__init__()

    def __copy__(self):
        plugin.at("node_copy")
        copied = type(self).__new__(type(self))
        vars(copied).update(vars(self))
        return copied

    def set_params(self, params):
        plugin.at("node_set_params")
        super().set_params(params)

    def prep(self, shared):
        plugin.at("node_prep")
        return shared

    def exec(self, prep_res):
        plugin.at("node_exec")
        if plugin.PLACE == "node_exec_fallback":
            raise ValueError("to be mended")

    def exec_fallback(self, prep_res, exc):
        plugin.at("node_exec_fallback")
        raise exc

    def post(self, shared, prep_res, exec_res):
        plugin.at("node_post")
        if plugin.PLACE == "node_action":
            return plugin.Exiting()
        if plugin.PLACE == "node_error":
            shared["__error__"] = plugin.RAISED[plugin.HOW]()
            return "error"
        if plugin.PLACE == "node_reports":
            shared["error"] = plugin.VALUES[plugin.HOW]()
            return "error"
        if plugin.PLACE == "node_annotates":
            shared["__run__"].annotate("a", {"details": plugin.VALUES[plugin.HOW]()})
        shared["value"] = plugin.VALUES[plugin.HOW]() if plugin.PLACE == "node_outputs" else "done"
        shared["items"] = plugin.Endless(a=1) if plugin.PLACE == "node_items" else [1]
        return None


class HostileAsync(pocketflow.AsyncNode):
    """The same, for a coroutine."""

    async def exec_async(self, prep_res):
        plugin.at("node_async")

    async def post_async(self, shared, prep_res, exec_res):
        shared["value"] = "done"
