import io
import json
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import pytest
from foreign_host import ForeignHost

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.cli.main import main
from pflow_mcp_plugin.host.embedded_host import open_host
from pflow_mcp_plugin.host.plugins import create_manager


class Embedded:
    def __init__(self, plugins):
        self.plugins = plugins
        self.reported = []

    def manager(self):
        manager = create_manager()
        for name, plugin in self.plugins.items():
            manager.register(plugin, name)
        return manager

    def warnings(self):
        return "\n".join(map(str, self.reported))

    def command(self, words):
        out = io.StringIO()
        with redirect_stdout(out), redirect_stderr(io.StringIO()):
            code = main([*words, "--json"], self.manager())
        return code, json.loads(out.getvalue())


class Foreign:
    def __init__(self, host):
        self.host = host

    def warnings(self):
        return "\n".join(self.host.reported)

    def command(self, words):
        try:
            report = self.host.command(words)
        except PflowError as error:
            return error.exit_code, {"success": False, "error": error.to_dict()}
        return 0, {"success": True, "data": report.data}


@pytest.fixture
def foreign_of():
    def opener(kind):
        @contextmanager
        def opened(plugins, home):
            with kind(home, plugins) as host:
                yield Foreign(host)

        return opened

    return opener


@pytest.fixture
def foreign(foreign_of):
    return foreign_of(ForeignHost)


@pytest.fixture
def embedded(monkeypatch):
    @contextmanager
    def opened(plugins, home):
        monkeypatch.setenv("PFLOW_HOME", str(home))
        subject = Embedded(plugins)
        with open_host(subject.manager(), show=subject.reported.append) as subject.host:
            yield subject

    return opened
