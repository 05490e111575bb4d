"""What every test can ask for: a home of its own, the real program, real servers, a leak check."""

from __future__ import annotations

import errno
import gc
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import prepared_starts
import pytest
import real_servers
import threat_rows
import told_failures
from hypothesis import HealthCheck, settings
from prepared_starts import Finished

_Report = TypeVar("_Report", pytest.TestReport, pytest.CollectReport)

_RUN_SECONDS = 90
_GONE_SECONDS = 5
_POLL_SECONDS = 0.02

# A property says nothing about speed, and a build that fails must fail for everyone. As the examples of a
# build are always the same, few are enough; those of the night are others each time, and many.
settings.register_profile(
    "pflow",
    deadline=None,
    max_examples=int(os.environ.get("PFLOW_EXAMPLES", "40")),
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("pflow")

# The programs that tests start keep what they compile: where none does so, half of their time goes there.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# With it, pflow takes any broken pipe in a command for that of its own output.
os.environ.pop("PYTHONUNBUFFERED", None)

# What a terminal is told by its user: tests say it themselves where they are about it.
for _variable in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "PAGER", "EDITOR", "VISUAL", "BROWSER"):
    os.environ.pop(_variable, None)

# Where the extra [semantic] is installed, tests of anything else are not about it.
os.environ["PFLOW_SEMANTIC_MODEL"] = "off"

# The keyring of whoever runs the tests is left alone.
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"

# `nohup` ignores SIGHUP for all it runs, and a shell SIGINT for what runs in its background; the
# programs that tests start and signal would inherit that.
for _number, _usual in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)


ALLOWED_SKIPS = (
    "a server is not available: ",  # PFLOW_REQUIRE_SERVERS makes it a failure
    "a shell is not installed: ",  # PFLOW_REQUIRE_SHELLS does
    "no Chromium here",  # PFLOW_REQUIRE_BROWSER does
    "the fault matrix is not beside the project",
    # Run in a tox environment of their own.
    "could not import 'mypy'",
    "the extra [llm] and its echoing model are not installed",
    "the extra [llm] is not installed",
    "the extra [llm] is installed",
    "the extra [keyring] and a keyring that is a file are not installed",
    "the extra [otel] is not installed",
    "the extra [semantic] is not installed",
    # Other platforms, and an installation without the SDK.
    "could not import 'mcp'",
    "elsewhere nobody can tell what a server has read",
    "there they work",
    "needs /dev/full",
    "no user has a private group",
    "this file system has no ",
    "this system lets nobody mount it",
    "the check reads /proc",
)
"""How the reasons begin for which a test may be skipped; any other skip is a failure."""


PROGRAMS = ("end_to_end", "faults", "foreign_host", "plugins")
"""The folders whose tests play whole programs, or many faults: they take minutes.

Tests elsewhere that ask for `pflow` start the program too.
"""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the folders of whole programs out where only other tests are wanted."""
    return (collection_path.name in PROGRAMS and "not programs" in config.option.markexpr) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what plays whole programs, and what plays a threat."""
    for item in items:
        if item.path.parent.name in PROGRAMS or "pflow" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.programs)
        if row := threat_rows.row_of(item.path, item.name):
            item.add_marker(pytest.mark.threat)
            item.user_properties.append(("threat", row))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many rows of the threat matrix were played, where nothing else is run."""
    if terminalreporter.config.option.markexpr != "threat":
        return
    failed = {row for key in ("failed", "error") for row in _threats(terminalreporter, key)}
    passed = _threats(terminalreporter, "passed") - failed
    missing = set(threat_rows.PLAYED) - passed - failed | threat_rows.NOT_YET
    terminalreporter.write_line(
        f"threat matrix: {len(passed)} of {len(threat_rows.ALL)} rows played and passed"
    )
    for what, rows in (
        ("failed", failed),
        ("not played", missing),
        ("out of scope", threat_rows.OUT_OF_SCOPE),
    ):
        if rows:
            terminalreporter.write_line(f"  {what}: {', '.join(map(str, sorted(rows)))}")


def _threats(terminalreporter: pytest.TerminalReporter, key: str) -> set[int]:
    reports = terminalreporter.stats.get(key, ())
    return {row for report in reports for name, row in report.user_properties if name == "threat"}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that is skipped for a reason of its own."""
    return _without_other_skips((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail a file of tests that is skipped for a reason of its own."""
    return _without_other_skips((yield))


def _without_other_skips(report: _Report) -> _Report:
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):  # no expected failure
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not reason.startswith(ALLOWED_SKIPS):
            report.outcome = "failed"
            report.longrepr = f"skipped for a reason that ALLOWED_SKIPS in {__file__} does not name: {reason}"
    return report


@pytest.fixture(autouse=True)
def no_crash_in_the_background() -> Iterator[None]:
    """Fail the test if a task or callback of an event loop crashed and nobody was told."""
    crashes = Crashes()
    logger = logging.getLogger("asyncio")
    logger.addHandler(crashes)
    try:
        yield
        # What nobody retrieved is logged when it is collected. What outlives the test is set apart, which
        # keeps the next collection short.
        gc.collect()
        gc.freeze()
    finally:
        logger.removeHandler(crashes)
    assert not crashes.seen, "\n".join(crashes.seen)


_left_without_help = told_failures.watch()


@pytest.fixture(autouse=True)
def every_failure_says_what_to_do() -> Iterator[None]:
    """Fail the test if the package made a failure of a server without a next step; see `told_failures`."""
    yield
    missing = list(_left_without_help)
    _left_without_help.clear()
    assert not missing, "\n".join(missing)


class Crashes(logging.Handler):
    """Keeps what asyncio reports as an error, such as "Task exception was never retrieved"."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it, with its traceback."""
        self.seen.append(self.format(record))


@pytest.fixture
def pflow_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty `$PFLOW_HOME`, for this process and those it starts."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("PFLOW_HOME", str(home))
    return home


@pytest.fixture
def bare_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the proxies and certificates that the machine which runs the tests has set."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def signalled() -> Callable[[subprocess.Popen[str], int], tuple[str, str]]:
    """Send a signal to a program and return what it wrote to stdout and stderr until it ended.

    One that comes just before the program waits for the system does not end the wait; the next does.
    """

    def signalled(program: subprocess.Popen[str], number: int) -> tuple[str, str]:
        for _ in range(6):
            program.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                return program.communicate(timeout=10)
        raise AssertionError(f"the program goes on after signal {number}")

    return signalled


@pytest.fixture
def hosts() -> list[int]:
    """The process ids under which pflow ran in this test, this process first."""
    return [os.getpid()]


@pytest.fixture(scope="session", autouse=True)
def prepared_process() -> Iterator[None]:
    """End at last what programs were started from."""
    with prepared_starts.ended_at_last():
        yield


@pytest.fixture
def new_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the program as users do: the system shows the command line and environment that it got."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")


@pytest.fixture
def pflow(pflow_home: Path, tmp_path: Path, hosts: list[int]) -> Callable[..., Finished]:
    """Run the real program: `pflow("mcp", "list", "--json")`; `env`, `stdin` and `cwd` by keyword."""

    def run(
        *arguments: str | Path, env: Mapping[str, str] | None = None, stdin: str = "", cwd: Path = tmp_path
    ) -> Finished:
        variables = {**os.environ, "PFLOW_HOME": str(pflow_home), **(env or {})}
        pipe = subprocess.PIPE
        with prepared_starts.start(
            arguments, env=variables, cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe
        ) as process:
            hosts.append(process.pid)
            try:
                stdout, stderr = process.communicate(stdin, timeout=_RUN_SECONDS)
            finally:
                process.kill()
        return Finished(process.returncode, stdout, stderr)

    return run


@pytest.fixture
def python(pflow_home: Path, tmp_path: Path) -> Callable[..., Finished]:
    """Run a program of Python's: `python("program.py")`; options of `subprocess.run` by keyword."""

    def run(*arguments: str | Path, **options: Any) -> Finished:
        done = subprocess.run(
            [sys.executable, "-P", *map(str, arguments)],
            capture_output=True,
            encoding="utf-8",
            check=False,
            **{"cwd": tmp_path, "timeout": _RUN_SECONDS, **options},
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def started(pflow_home: Path, tmp_path: Path, hosts: list[int]) -> Iterator[Callable[..., Any]]:
    """Start the program and do not wait for it: `started("run", path)`; it is killed in the end, if need be.

    `program` are the words for another one, `env` further variables; options of `Popen` by keyword.
    """
    running: list[subprocess.Popen[str]] = []

    def start(
        *arguments: str | Path,
        program: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        options = {
            "cwd": tmp_path,
            "encoding": "utf-8",
            "env": {**os.environ, **(env or {})},
            **pipes,
            **options,
        }
        if program:
            process = subprocess.Popen([*program, *map(str, arguments)], **options)
        else:
            process = prepared_starts.start(arguments, **options)
        hosts.append(process.pid)
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def typed_command() -> list[str]:
    """The command of the tests' own server, `typed_server.py`."""
    return [sys.executable, str(real_servers.HERE / "typed_server.py")]


@pytest.fixture
def everything_command() -> list[str]:
    """The command of the reference server, over stdio."""
    return _required(real_servers.everything)


@pytest.fixture
def filesystem_command(tmp_path: Path) -> list[str]:
    """The command of the filesystem server, confined to `tmp_path / "files"`, which is made."""
    folder = tmp_path / "files"
    folder.mkdir()
    return _required(real_servers.filesystem, folder)


@pytest.fixture(scope="session")
def memory_command() -> list[str]:
    """The command of the memory server."""
    return _required(real_servers.memory)


@pytest.fixture
def time_command() -> list[str]:
    """The command of the time server."""
    return _required(real_servers.local_time)


@pytest.fixture
def git_command(tmp_path: Path) -> list[str]:
    """The command of the git server, for a fresh repository in `tmp_path / "repository"`."""
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "--quiet", str(repository)], check=True)
    return _required(real_servers.git, repository)


@pytest.fixture
def duckdb_command() -> list[str]:
    """The command of the DuckDB server, with a database in memory."""
    return _required(real_servers.duckdb)


@pytest.fixture
def inspector_command() -> list[str]:
    """The command of the MCP Inspector without a window, an independent client."""
    return _required(real_servers.inspector)


@pytest.fixture
def preset_runners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, first on PATH, with `npx` and `uvx` that start the installed servers."""
    folder = tmp_path / "runners"
    folder.mkdir()
    _required(real_servers.package_runners, folder)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return folder


@pytest.fixture(scope="session")
def everything_http() -> Iterator[str]:
    """The URL of a reference server over streamable HTTP, shared by the tests of this process."""
    with _everything_over("streamableHttp") as url:
        yield url


@pytest.fixture(scope="session")
def everything_sse() -> Iterator[str]:
    """The URL of a reference server over HTTP with server-sent events, shared likewise."""
    with _everything_over("sse") as url:
        yield url


@contextmanager
def _everything_over(transport: str) -> Iterator[str]:
    with ExitStack() as stack:
        yield _required(stack.enter_context, real_servers.everything_over_http(transport))


@pytest.fixture
def chromium() -> str:
    """The program of a Chromium; `browser.py` starts it."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        missing = "no Chromium here: install the Debian package chromium"
        if os.environ.get("PFLOW_REQUIRE_BROWSER"):
            pytest.fail(missing)
        pytest.skip(missing)
    return found


@pytest.fixture
def authority(tmp_path: Path) -> Any:
    """A CA that nobody trusts yet."""
    from certificates import Authority

    return Authority(tmp_path)


@pytest.fixture(scope="session")
def certificate_authority(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The CA of the two servers below."""
    from certificates import Authority

    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def _authorization_server(certificate_authority: Any) -> Iterator[Any]:
    from authorization_server import authorization_server

    with authorization_server(certificate_authority) as running:
        yield running


@pytest.fixture(scope="session")
def _protected_server(certificate_authority: Any, _authorization_server: Any) -> Iterator[Any]:
    from protected_server import protected_server

    with protected_server(certificate_authority, _authorization_server) as running:
        yield running


@pytest.fixture
def authorization_server(_authorization_server: Any) -> Iterator[Any]:
    """An `AuthorizationServer` with TLS on loopback, as new for each test."""
    yield _authorization_server
    _authorization_server.reset()


@pytest.fixture
def protected_server(_protected_server: Any, authorization_server: Any) -> Iterator[Any]:
    """A `ProtectedServer` that believes `authorization_server`, as new for each test."""
    yield _protected_server
    _protected_server.reset()


@pytest.fixture
def notes(pflow: Callable[..., Finished], protected_server: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The protected server, added without saying that one signs in there."""
    monkeypatch.setenv("SSL_CERT_FILE", str(protected_server.ca_file))
    assert pflow("mcp", "add", "notes", protected_server.url).exit_code == 0
    return protected_server


@pytest.fixture
def realm(tmp_path: Path) -> Iterator[Any]:
    """A server that wants access tokens, with an authorization server beside it; both are scripted."""
    from scripted_realm import Realm

    made = Realm(tmp_path / "oauth")
    with made.server:
        yield made


@pytest.fixture
def no_leftovers(pflow_home: Path, hosts: list[int]) -> Iterator[None]:
    """Fail the test if a process it caused outlives it, or if it leaves a file descriptor open.

    What an earlier test left behind is that test's failure alone.
    """
    prepared_starts.prepared()  # outlives the test
    open_before, running_before = _descriptors(), _processes_of(pflow_home, hosts)
    yield
    left = _wait_for_none(lambda: _processes_of(pflow_home, hosts) - running_before)
    assert not left, f"processes left behind: {left}"
    left = _wait_for_none(lambda: _descriptors() - open_before)
    assert not left, f"file descriptors left open: {left}"


def _required(get: Callable[..., Any], *arguments: object) -> Any:
    """Get a server; skip where it can't be had, or fail where `PFLOW_REQUIRE_SERVERS` is set."""
    try:
        return get(*arguments)
    except real_servers.Unavailable as reason:
        if os.environ.get("PFLOW_REQUIRE_SERVERS"):
            pytest.fail(f"a server is required and not available: {reason}")
        pytest.skip(f"a server is not available: {reason}")


def _wait_for_none(look: Callable[[], set[str]]) -> set[str]:
    """Return what `look` still finds after the time that an ending process may take."""
    deadline = time.monotonic() + _GONE_SECONDS
    while (found := look()) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return found


def _descriptors() -> set[str]:
    """Return this process's open file descriptors, each with what it stands for."""
    found = set()
    for link in Path("/proc/self/fd").glob("*"):
        with suppress(OSError):  # the one that lists the folder is closed again
            found.add(f"{link.name} {link.readlink()}")
    return found


def _processes_of(home: Path, hosts: list[int]) -> set[str]:
    """Return the ids and command lines of programs run with `home`, and of servers and reapers of `hosts`."""
    markers = [f"PFLOW_HOME={home}".encode(), *(b"PFLOW_RUN_MARKER=%d-" % host for host in hosts)]
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile, or is another user's
            command = (process / "cmdline").read_bytes().split(b"\0")
            variables = (process / "environ").read_bytes().split(b"\0")
            marked = any(variable.startswith(tuple(markers)) for variable in variables)
            if command[0] and (marked or _reaps(command, hosts)):
                found.add(f"{process.name} {b' '.join(command).decode(errors='replace')}")
    return found


def _reaps(command: list[bytes], hosts: list[int]) -> bool:
    """Whether a command line is that of a reaper which watches one of `hosts`."""
    script = any(part.endswith(b"reaper_process.py") for part in command)
    return script and any(b"%d" % host in command for host in hosts)


class Disk:
    """A disk that is full from `fill` until `full` is taken back.

    Attributes:
        full: Whether it is.
    """

    def __init__(self) -> None:
        self.full = False

    def fill(self) -> None:
        """Leave no space on it."""
        self.full = True


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """The disk to which this process writes files atomically."""
    made, write = Disk(), os.write

    def written(descriptor: int, data: bytes) -> int:
        if made.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    monkeypatch.setattr("pflow_mcp_plugin.storage.atomic_files.os.write", written)
    return made
