import attrs
import pytest

from pflow_mcp_plugin.contract import Field

URL = Field(key="url", type="str", required=True, description="The address of the page")
REPO = Field(key="repo", type="str", required=True, description="The repository, as owner/name")
PAGE = Field(key="result", type="any", description="The answer of the tool")


@pytest.fixture
def office(bench):
    """Return a host whose node types are its own and those of the office."""

    def add(node, description, params=(), outputs=(PAGE,), family=""):
        entry = bench.declare(node, params, outputs)
        local = node.removeprefix("t-")
        bench.known[node] = attrs.evolve(entry, description=description, local_name=local, family=family)

    add("t-search-code", "Search code on GitHub", ["query: str!", "language: str"], ["hits: list"], "github")
    issue = [REPO, "title: str!", "body: str"]
    add("t-create-issue", "Create an issue on GitHub", issue, ["number: int"], "github")
    add("t-close-issue", "Close an issue on GitHub", [REPO, "number: int!"], family="github")
    message = ["channel: str!", "message: str!"]
    add("t-post-message", "Post a message to a Slack channel", message, family="slack")
    add("t-fetch-page", "Fetch a web page from its address", [URL], family="web")
    add("t-screenshot-page", "Take a screenshot of a web page", [URL], family="web")
    add("t-weather", "Get the weather forecast of a city", ["city: str!"], family="weather")
    add("t-roll-dice", "Roll dice", ["sides: int!", "count: int"], family="dice")
    return bench.host
