import pytest
from virtual_environment import VirtualEnvironment

collect_ignore = ["acme_preset"]  # its tests are run where it is installed


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """A virtual environment of its own, in which no plugin but ours is installed."""
    return VirtualEnvironment(tmp_path_factory.mktemp("environment") / "venv")
