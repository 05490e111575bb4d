"""The code that guards each row of the fault matrix, and what to put in its place to be without it.

`unguarded.py` takes out one after the other and sees whether the row's tests notice. A text stands
exactly once in its file; a test sees to that.
"""

from __future__ import annotations

from typing import NamedTuple


class Guard(NamedTuple):
    """A piece of code that keeps a fault from doing harm.

    Attributes:
        row: The fault.
        file: Below the package.
        text: What stands there.
        instead: What stands there when the guard is off.
        among: Which of the row's tests to run, as an expression for `pytest -k`; empty for all.
    """

    row: int
    file: str
    text: str
    instead: str
    among: str = ""


_BRAKE = "if len(self._starts) == STARTS and now - self._starts[0] < SECONDS:"
_CONTEXT = "        return ssl.create_default_context(cafile=file, capath=folder)"
_LOOSE_CONTEXT = (
    "        context = ssl.create_default_context(cafile=file, capath=folder)\n"
    "        context.check_hostname = False\n"
    "        return context"
)
_JOINED_ANEW = "self._begun = BytesIO(self._begun.getvalue() + rest); self._begun.seek(0, 2)"
_BY_PIPES = "client/transport/pipes.py"
_BY_PROCESS = "client/failures/exits.py"
_BY_MESSAGES = "client/transport/messages.py"
_BY_CONNECTION = "client/connection.py"
_BY_STATUS = "client/failures/http_status.py"
_BY_HTTP = "client/transport/streamable_http.py"
_BY_HTTP_REQUESTS = "client/transport/http_requests.py"
_BY_RETRY_AFTER = "client/transport/retry_after.py"
_VERIFIED = 'verify=_trusting_nobody() if local and url.scheme == "http" else tls_context(os.environ),'

GUARDS = (
    Guard(1, "client/process/spawning.py", "if found is None:", "if False:"),
    Guard(
        1,
        "client/process/spawning.py",
        'near = closest_program(server.command, environment.get("PATH", ""))',
        "near = None",
    ),
    Guard(
        2,
        "client/process/spawning.py",
        "        _refuse_not_executable(server, environment, where)",
        "        pass",
    ),
    Guard(
        2,
        "client/process/spawning.py",
        "if path.is_dir() or not os.access(path, os.X_OK):",
        "if path.is_dir():",
    ),
    Guard(3, _BY_PROCESS, 'if not evidence.calling and evidence.phase != "list":', "if False:"),
    Guard(4, _BY_MESSAGES, "if self.seen.strays == 1:", "if True:"),
    Guard(4, _BY_MESSAGES, "self.seen.invalid_json = line[:", "_ = line[:"),
    Guard(5, _BY_MESSAGES, "self.seen.unfinished = self._lines.pending", "pass"),
    Guard(6, _BY_MESSAGES, "if not _is_utf8(line):", "if False:"),
    Guard(7, "client/transport/line_framing.py", "if size > self._cap:", "if False:"),
    Guard(7, "client/transport/line_framing.py", "self._begun.write(rest)", _JOINED_ANEW, "copied"),
    Guard(8, _BY_CONNECTION, "deadline = asyncio.timeout(", "deadline = asyncio.timeout(None and "),
    Guard(9, _BY_MESSAGES, "self.seen.unmatched += 1", "pass"),
    Guard(10, _BY_MESSAGES, "self._waiting.discard(reply_to)", "pass"),
    Guard(
        11, "client/session.py", "if answer.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:", "if False:"
    ),
    Guard(
        12,
        _BY_PIPES,
        "                transport.abort()\n                raise error from Undelivered()",
        "                raise",
    ),
    Guard(13, "client/process/shutdown.py", "self._process.signal_group(signal.SIGKILL)", "pass"),
    Guard(13, "client/process/spawning.py", "os.killpg(self.pid, number)", "os.kill(self.pid, number)"),
    Guard(14, "client/process/spawning.py", "os.killpg(self.pid, number)", "os.kill(self.pid, number)"),
    Guard(15, "client/pool.py", "end_marked(", "str("),
    Guard(16, _BY_PIPES, "del self._kept[:-_TAIL]", "pass"),
    Guard(17, _BY_PROCESS, "if evidence.returncode is None:", "if True:"),
    Guard(
        18,
        "client/deadlines.py",
        "asyncio.timeout_at(min(loop.time() + idle.seconds, end))",
        "asyncio.timeout_at(None)",
    ),
    Guard(18, _BY_CONNECTION, "                self._stop.set()", "                pass"),
    Guard(18, "client/pool.py", "            future.cancel()  #", "            pass  #", "ctrl"),
    Guard(19, "execution/result.py", "if result.is_error:", "if False:"),
    Guard(20, "client/failures/json_rpc.py", "if isinstance(leaf, MCPError):", "if False:"),
    Guard(21, "client/pagination.py", "if cursor in seen:", "if False:"),
    Guard(21, "client/pagination.py", "_MAX_PAGES = 100", "_MAX_PAGES = 1000"),
    Guard(22, "client/pagination.py", "for tool in self.raw if", "for tool in self.raw if True or"),
    Guard(23, "client/session.py", "self._screen(raw) if", "raw if"),
    Guard(24, "execution/argument_validation.py", "budgets[-1].spend()", "pass"),
    Guard(
        25,
        "execution/argument_validation.py",
        'extend(Draft202012Validator, {"$ref": follow})',
        "Draft202012Validator",
    ),
    Guard(
        26,
        "execution/schema_reduction.py",
        'if key != "not":\n            return {}, False',
        'if key != "not":\n            return {key: value}, True',
    ),
    Guard(27, "execution/runtime.py", "return bool(compare(", "return bool(() and ("),
    Guard(27, _BY_CONNECTION, "self.list_changed = True", "pass"),
    Guard(28, "client/failures/json_rpc.py", "says_tool_is_gone(text, evidence.tool):", "False:"),
    Guard(29, "client/elicitation.py", 'self._warn(f"asks', 'str(f"asks'),
    Guard(
        29,
        "client/elicitation.py",
        "if self._ask is None or not isinstance(params, ElicitRequestFormParams):",
        "if False:",
    ),
    Guard(
        30,
        "client/process/reaper_process.py",
        "end_groups(watch(lifeline, host_pid))",
        "watch(lifeline, host_pid)",
    ),
    Guard(30, "client/process/reaper_process.py", "    end_marked(marker)\n    os._exit", "    os._exit"),
    Guard(31, "client/restart_limit.py", _BRAKE, "if False:"),
    Guard(
        32,
        "client/pool.py",
        'if not lost and (connection.alive or error.ran != "not ran" or not error.retryable):',
        "if not lost:",
    ),
    Guard(32, _BY_PROCESS, "retryable=evidence.exchange.unsent,", ""),
    Guard(
        33,
        "client/supervisor.py",
        "if connection.unheard or not _died_on_probe(self.launch, error):",
        "if True:",
    ),
    Guard(
        33,
        "client/supervisor.py",
        "self.launch = attrs.evolve(self.launch, era=self._connection.info.era)",
        "pass",
    ),
    Guard(33, "discovery/catalog.py", "return content.info.era if content and same else None", "return None"),
    Guard(34, "client/negotiation.py", "min(patience, DISCOVER_TIMEOUT_SECONDS)", "None"),
    Guard(34, "discovery/catalog.py", "return content.info.era if content and same else None", "return None"),
    Guard(35, "client/failures/network.py", "isinstance(cause, ConnectionRefusedError)", "False"),
    Guard(36, "client/failures/network.py", "isinstance(cause, socket.gaierror)", "False"),
    Guard(37, "client/transport/http_client.py", _VERIFIED, "verify=False,"),
    Guard(37, "client/failures/network.py", "    18: (", "    -18: ("),
    Guard(38, "client/transport/http_client.py", _VERIFIED, "verify=False,"),
    Guard(38, "client/failures/network.py", "    10: (", "    -10: ("),
    Guard(39, "client/transport/http_client.py", _CONTEXT, _LOOSE_CONTEXT),
    Guard(40, _BY_STATUS, "if status == HTTPStatus.UNAUTHORIZED:", "if False:"),
    Guard(
        40,
        "config/expansion.py",
        "if found is None or (guarded and not found and ref.default is None):",
        "if False:",
        "unset",
    ),
    Guard(41, _BY_STATUS, 'if challenge.get("error") != "insufficient_scope" and not scope:', "if True:"),
    Guard(42, _BY_STATUS, "if status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):", "if False:"),
    Guard(43, _BY_HTTP_REQUESTS, "session_lost=lost,", "session_lost=False,"),
    Guard(43, "client/pool.py", "if lost and not safe_to_repeat:", "if False:"),
    Guard(44, _BY_RETRY_AFTER, "        if seconds is None:\n            raise", "        raise"),
    Guard(44, _BY_RETRY_AFTER, "asyncio.get_running_loop().time() + seconds >= end", "False"),
    Guard(45, "redaction.py", "return text if self._pattern is None else", "return text or"),
    Guard(46, _BY_STATUS, "if status < HTTPStatus.BAD_REQUEST:", "if False:"),
    Guard(
        47, _BY_HTTP, "raise RequestFailed(Exchange(cut=True, error=stream.error, resumes=resumes))", "return"
    ),
    Guard(48, _BY_HTTP, "while resumes < left and stream.event_id:", "while stream.event_id:"),
    Guard(49, _BY_HTTP, "self.pause = granted_pause(event.retry)", "self.pause = event.retry / 1000"),
    Guard(50, _BY_HTTP_REQUESTS, "max_event_size=limit", "max_event_size=None"),
    Guard(51, _BY_HTTP_REQUESTS, "if len(content) > limit:", "if False:"),
    Guard(
        52,
        _BY_HTTP_REQUESTS,
        "except (*NETWORK_ERRORS, TooLarge) as error:",
        "except TooLarge as error:",
    ),
    Guard(
        53,
        _BY_HTTP,
        "async with asyncio.timeout(seconds) as deadline:",
        "async with asyncio.timeout(None) as deadline:",
    ),
    Guard(54, _BY_STATUS, 'if kind == "text/html":', "if False:"),
    Guard(55, _BY_HTTP, "self.unmatched += not answers", "pass"),
    Guard(57, "config/server_store.py", "with storage.locked(self.path):", "if True:", "config"),
    Guard(58, "storage/files.py", "    sweep(target.parent)\n", "", "config"),
    Guard(
        58,
        "storage/files.py",
        "temporary.replace(target)",
        "target.write_bytes(b''); temporary.replace(target)",
        "config",
    ),
    Guard(59, "storage/files.py", "            temporary.unlink()", "            pass", "config"),
    Guard(
        60,
        "storage/objects.py",
        "            if not self.rebuildable:\n                raise\n",
        "",
        "settings",
    ),
    Guard(60, "storage/files.py", "target.replace(backup)", "target.unlink()", "registry"),
    Guard(61, "storage/objects.py", "if version > self.schema_version:", "if False:", "settings"),
    Guard(
        62,
        "config/server_store.py",
        "new = copy.deepcopy(old)",
        "new = {schema.SERVERS: copy.deepcopy(old.get(schema.SERVERS, {}))}",
        "config",
    ),
    Guard(63, "storage/files.py", "path.chmod(", "str(", "config"),
    Guard(63, "storage/files.py", "place.chmod(0o700)", "pass", "config"),
    Guard(
        64,
        "storage/files.py",
        "return path.resolve() if path.is_symlink() else path",
        "return path",
        "config",
    ),
)
