"""The servers of the built-in presets.

Versions are exact. A manifest hash is given where tools depend on the server's version alone: not for
Python servers, whose schemas change with the version of pydantic that is installed beside them.
"""

from __future__ import annotations

import sys
from typing import Any

from pflow_mcp_plugin.types import PresetInput, ServerPreset

_REFERENCE = "https://github.com/modelcontextprotocol/servers/tree/main/src"
_REFERENCE_NPM = "2026.8.31"
_ARCHIVED = "https://github.com/modelcontextprotocol/servers-archived/tree/main/src"


def _reference(name: str, *args: str) -> tuple[str, ...]:
    return ("-y", f"@modelcontextprotocol/server-{name}@{_REFERENCE_NPM}", *args)


def _is_there(tool: str, holds: str, result: str, **arguments: str) -> dict[str, Any]:
    """Return a preset's recipe to verify a call: its effect is there, or nothing; else the user decides."""
    happened = f"!contains(error || '', 'ENOENT: no such file') && ({holds} || null)"
    return {"tool": tool, "arguments": arguments, "happened": happened, "result": result}


_FILES = {
    "write_file": _is_there(
        "read_text_file",
        "result.content == arguments.content",
        "{content: join('', ['Successfully wrote to ', arguments.path])}",
        path="arguments.path",
    ),
    "create_directory": _is_there(
        "get_file_info",
        "contains(result.content || '', 'isDirectory: true')",
        "{content: join('', ['Successfully created directory ', arguments.path])}",
        path="arguments.path",
    ),
}
_ENTITIES = {
    "create_entities": {
        "tool": "open_nodes",
        "arguments": {"names": "arguments.entities[].name"},
        # Entities that exist are not created twice, so the call may be repeated for the others.
        "happened": "length(result.entities) == length(arguments.entities)",
        "result": "{entities: result.entities}",
    }
}

PRESETS = (
    ServerPreset(
        name="demo",
        title="Demo",
        description="The server in pflow-mcp itself: counts words, adds numbers; needs only Python",
        homepage="https://github.com/pflow-mcp/pflow-mcp",
        command=sys.executable,
        # -P: a file in the current folder must not shadow a module.
        args=("-P", "-m", "pflow_mcp_plugin.server.demo_server"),
    ),
    ServerPreset(
        name="filesystem",
        title="Filesystem",
        description="Read, write and search files in one folder",
        homepage=f"{_REFERENCE}/filesystem",
        command="npx",
        args=_reference("filesystem", "${folder}"),
        inputs=(PresetInput(name="folder", description="The folder it may use", path=True),),
        verify=_FILES,
        manifest_hash="sha256:ad2d2ce75909fa7bf32be389da02dacdbd9794e0b3c0f259f1c56521178b2675",
    ),
    ServerPreset(
        name="git",
        title="Git",
        description="Status, diff, commit, branch and log of a local Git repository",
        homepage=f"{_REFERENCE}/git",
        command="uvx",
        args=("mcp-server-git@2026.10.19", "--repository=${repository}"),
        inputs=(PresetInput(name="repository", description="The folder of the repository", path=True),),
    ),
    ServerPreset(
        name="github",
        title="GitHub",
        description="Repositories, issues, pull requests and workflows, through GitHub's own server",
        homepage="https://github.com/github/github-mcp-server",
        transport="http",
        url="https://api.githubcopilot.com/mcp/",
        headers={"Authorization": "Bearer ${GITHUB_TOKEN}"},
        inputs=(
            PresetInput(
                name="GITHUB_TOKEN",
                description="Personal access token, from https://github.com/settings/tokens",
                secret=True,
            ),
        ),
    ),
    ServerPreset(
        name="fetch",
        title="Fetch",
        description="Fetch a web page and convert it to Markdown",
        homepage=f"{_REFERENCE}/fetch",
        command="uvx",
        args=("mcp-server-fetch@2026.10.24",),
    ),
    ServerPreset(
        name="time",
        title="Time",
        description="The current time, and conversion between time zones",
        homepage=f"{_REFERENCE}/time",
        command="uvx",
        args=("mcp-server-time@2026.10.19", "--local-timezone=${timezone}"),
        inputs=(
            PresetInput(
                name="timezone",
                description="The local time zone, such as Europe/Berlin; the machine's own if left out",
                required=False,
            ),
        ),
    ),
    ServerPreset(
        name="memory",
        title="Memory",
        description="A knowledge graph of entities and relations, kept in a file",
        homepage=f"{_REFERENCE}/memory",
        command="npx",
        args=_reference("memory"),
        env={"MEMORY_FILE_PATH": "${file}"},
        inputs=(
            PresetInput(
                name="file", description="The file that holds the graph (.jsonl)", required=False, path=True
            ),
        ),
        verify=_ENTITIES,
        manifest_hash="sha256:d851480e62b31edf3b09f077179c44a95bcef5be7ec04cb3d1dec69375d86e54",
    ),
    ServerPreset(
        name="everything",
        title="Everything",
        description="The reference server that shows every feature of the protocol, for tests",
        homepage=f"{_REFERENCE}/everything",
        command="npx",
        args=_reference("everything", "stdio"),
        manifest_hash="sha256:69f908bea3551cd3f8febcc0c8d02e1ea6d8b01c8e4d32c659e3e1def173f6f2",
    ),
    ServerPreset(
        name="sequential-thinking",
        title="Sequential thinking",
        description="A tool that records reasoning step by step, with revisions and branches",
        homepage=f"{_REFERENCE}/sequentialthinking",
        command="npx",
        args=_reference("sequential-thinking"),
        manifest_hash="sha256:237495ff9a257c692784e364da54b891a0faa5820d6c9092eab3b4c908a656bf",
    ),
    ServerPreset(
        name="slack",
        title="Slack",
        description="Read channels, threads and users of a Slack workspace, and search its messages",
        homepage="https://github.com/korotovsky/slack-mcp-server",
        command="npx",
        args=("-y", "slack-mcp-server@1.3.0", "--transport=stdio"),
        env={"SLACK_MCP_XOXP_TOKEN": "${SLACK_TOKEN}"},
        inputs=(PresetInput(name="SLACK_TOKEN", description="User OAuth token (xoxp-...)", secret=True),),
    ),
    ServerPreset(
        name="postgres",
        title="PostgreSQL",
        description="Run SQL on a PostgreSQL database, with all rights of its user; needs Node.js 22",
        homepage="https://github.com/bytebase/dbhub",
        command="npx",
        args=("-y", "@bytebase/dbhub@1.4.0", "--transport=stdio"),
        env={"DSN": "${POSTGRES_URL}"},
        inputs=(
            PresetInput(
                name="POSTGRES_URL", description="postgres://USER:PASSWORD@HOST:5432/DATABASE", secret=True
            ),
        ),
    ),
    ServerPreset(
        name="sqlite",
        title="SQLite",
        description="Query and change an SQLite database",
        homepage=f"{_ARCHIVED}/sqlite",
        command="uvx",
        # It needs version 1 of the SDK, and does not say so itself.
        args=("--with=mcp==1.30.0", "mcp-server-sqlite@2025.4.25", "--db-path=${database}"),
        inputs=(
            PresetInput(name="database", description="The database file; made if it is missing", path=True),
        ),
    ),
    ServerPreset(
        name="playwright",
        title="Playwright",
        description="Operate a web browser: open pages, click, type, read, take screenshots",
        homepage="https://github.com/microsoft/playwright-mcp",
        command="npx",
        args=(
            "-y",
            "@playwright/mcp@0.0.83",
            "--headless",
            "--isolated",
            "--browser=${browser}",
            "--executable-path=${executable}",
        ),
        inputs=(
            PresetInput(
                name="browser",
                description="The browser to use",
                default="chrome",
                choices=("chrome", "firefox", "webkit", "msedge"),
            ),
            PresetInput(
                name="executable",
                description="The browser's program, if it is not in its usual place",
                required=False,
                path=True,
            ),
        ),
        manifest_hash="sha256:25f917f7f18838ca76ba122938187ec83d025e3c17702ec844dbad3191c8ff28",
    ),
    ServerPreset(
        name="context7",
        title="Context7",
        description="Current documentation and examples of libraries, by version",
        homepage="https://github.com/upstash/context7",
        command="npx",
        args=("-y", "@upstash/context7-mcp@4.1.1"),
        env={"CONTEXT7_API_KEY": "${CONTEXT7_API_KEY}"},
        inputs=(
            PresetInput(
                name="CONTEXT7_API_KEY",
                description="API key, for higher limits: https://context7.com/dashboard",
                required=False,
                secret=True,
            ),
        ),
        manifest_hash="sha256:c0b31e22509173e47c923a5d14b454e8dbd692eb851151343ea7cb06ad1dd6b7",
    ),
    ServerPreset(
        name="notion",
        title="Notion",
        description="Pages, databases and comments of a Notion workspace",
        homepage="https://github.com/makenotion/notion-mcp-server",
        command="npx",
        args=("-y", "@notionhq/notion-mcp-server@2.5.2"),
        env={"NOTION_TOKEN": "${NOTION_TOKEN}"},
        inputs=(
            PresetInput(
                name="NOTION_TOKEN",
                description="Token of an integration, from https://www.notion.so/profile/integrations",
                secret=True,
            ),
        ),
    ),
    ServerPreset(
        name="duckdb",
        title="DuckDB",
        description="Run SQL with DuckDB: on a database file, in memory, or on CSV and Parquet files",
        homepage="https://github.com/motherduckdb/mcp-server-motherduck",
        command="uvx",
        args=("mcp-server-motherduck@1.1.0", "--db-path=${database}", "--read-write"),
        inputs=(
            PresetInput(
                name="database",
                description="The database file, or :memory:",
                default=":memory:",
                path=True,
            ),
        ),
    ),
)
