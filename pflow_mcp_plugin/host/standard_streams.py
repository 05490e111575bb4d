"""Standard input, output and error: any encoding, closed pipes, and terminal codes escaped."""

from __future__ import annotations

import errno
import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from io import UnsupportedOperation
from typing import IO, Any, Self

from pflow_mcp_plugin.host.foreign_code import end_if_interrupted
from pflow_mcp_plugin.terminal.looks import printable

_CHUNK = 1 << 20


class Streams:
    """The standard output and error that the program itself writes to.

    They are duplicates, made when the program starts: plugins and nodes may close or replace `sys.stdout` and
    its file descriptor without losing the program's output. With `reserve`, standard output is for that
    output only: what they and their child processes print inside the `with` block goes to standard error.
    """

    def __init__(self, *, reserve: bool = False) -> None:
        for stream in (sys.stdout, sys.stderr):  # they accept any string, whatever the locale
            if reconfigure := getattr(stream, "reconfigure", None):
                reconfigure(encoding="utf-8", errors="backslashreplace")
        self._reserve = reserve
        self._shared = sys.stdout
        self._end = ExitStack()
        self._out = self._duplicate(sys.stdout)
        self._err = self._duplicate(sys.stderr)
        self._lend = ExitStack()

    def __enter__(self) -> Self:
        if self._reserve:
            self._end.enter_context(redirect_stdout(self._duplicate(sys.stderr)))
            with suppress(OSError, ValueError, AttributeError):  # a stream that has no file descriptor
                if self._shared.fileno() == 1:
                    self._point_descriptor_at(self._err)
                    self._lend.callback(self._point_descriptor_at, self._out)
        return self

    def _point_descriptor_at(self, stream: Any) -> None:
        """Let what is written to file descriptor 1, perhaps by child processes, go to `stream`."""
        with suppress(ValueError):  # a plugin closed the stream
            self._shared.flush()
        os.dup2(stream.fileno(), 1)

    def __exit__(self, *_: object) -> None:
        self._lend.close()
        self._end.close()

    def answers_on_terminal(self) -> IO[str] | None:
        return self._out if is_terminal(self._out) else None

    def answer(self, text: str, *, as_it_is: bool = False) -> int:
        """Write text to the stream stdout; return 1 if that fails, 0 if the reader closed the pipe.

        On a terminal, codes that could steer it are escaped, unless the text is printable as it is.
        """
        shown = printable(text) if is_terminal(self._out) and not as_it_is else text
        try:
            _write_line(sys.stdout, self._out, shown)
        except OSError as error:
            return self.lost(error)
        except ValueError:  # a plugin closed a stream without a file descriptor
            return 1
        return 0

    def tell(self, text: str) -> None:
        """Write lines to the program's original standard error, safe for a terminal."""
        shown = printable(text)  # such lines may quote untrusted output and files
        if shown and is_terminal(self._err):
            from pflow_mcp_plugin.terminal.looks import columns_of, wrapped

            shown = wrapped(shown, columns_of(self._err))
        write(self._err, shown, after=sys.stderr)

    def lost(self, error: OSError) -> int:
        """Silence standard output after a failure; report it unless the reader left. Return the exit code."""
        for stream in (sys.stdout, self._out):
            silence(stream)
        if isinstance(error, BrokenPipeError):
            return 0
        self.tell(f"Error: the output could not be written: {error.strerror}")
        return 1

    @contextmanager
    def lent(self, *, reserve: bool) -> Iterator[None]:
        """Let a command print in the block: to standard output again, unless it stays reserved.

        `sys.stdout` and `sys.stderr` are reopened where a plugin has closed them. After an exception
        they stay as they are: what `sys.stdout` has not written tells whether the exception is about it.
        """

        def usable(stream: IO[str] | None, own: IO[str] | None) -> Any:
            is_lost = own is not None and (stream is None or _is_closed(stream))
            return _duplicate(own) if is_lost else stream

        sys.stdout, sys.stderr = usable(sys.stdout, self._err), usable(sys.stderr, self._err)
        reserved = sys.stdout
        if not reserve:
            self._lend.close()
            sys.stdout = usable(self._shared, self._out)
        yield
        sys.stdout = reserved

    def _duplicate(self, stream: IO[str] | None) -> IO[str] | None:
        own = _duplicate(stream)
        if own is not None and own is not stream:
            self._end.callback(_close, own)
        return own


def write(stream: IO[str] | None, text: str, *, after: IO[str] | None = None) -> None:
    """Write lines for people to a standard stream, with terminal codes escaped; flush `after` first."""
    try:
        _write_line(after, stream, printable(text))
    except OSError:
        silence(stream)
    except ValueError:  # closed
        return


def is_of_output(error: OSError) -> bool:
    """Return whether an error is of the stream standard output, not of a file that the command works on."""
    stream = getattr(sys.stdout, "wrapped", sys.stdout)  # click wraps the stream when the reader is gone
    # A stream that the command itself has closed; the current folder, which was deleted.
    if stream is None or error.errno in (errno.EBADF, errno.ENOENT):
        return False
    try:
        stream.flush()  # unwritten data is still in the buffer
    except OSError:
        return True
    except ValueError:  # closed
        return False
    return bool(getattr(stream, "write_through", False)) and error.filename is None


def is_terminal(stream: IO[str] | None) -> bool:
    """Return whether a standard stream is a terminal; False if it is closed or missing."""
    return stream is not None and not stream.closed and stream.isatty()


def silence(stream: IO[str] | None) -> None:
    """Redirect a standard stream to the null device, so that the interpreter's last flush does not fail."""
    if stream is None or _is_closed(stream):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)


def _write_line(shared: IO[str] | None, own: IO[str] | None, text: str) -> None:
    if not text or own is None:  # None: the process was started with the stream closed
        return
    with suppress(Exception):  # earlier output comes first; a plugin may have replaced the stream
        shared and shared.flush()
    own.write(text if text.endswith("\n") else text + "\n")
    own.flush()


def _duplicate(stream: IO[str] | None) -> IO[str] | None:
    """Return a duplicate of standard output or error; the stream itself if it has no file descriptor."""
    try:
        descriptor = os.dup(stream.fileno()) if stream else None
    except (OSError, ValueError):
        return stream
    if descriptor is None:
        return None
    return open(descriptor, "w", encoding="utf-8", errors="backslashreplace")  # noqa: PTH123


def _close(stream: IO[str]) -> None:
    with suppress(OSError):  # the rest of the buffer cannot be written
        stream.close()


def _is_closed(stream: IO[str]) -> bool:
    """Return whether a standard stream has lost its file; False if it never had one."""
    try:
        os.fstat(stream.fileno())
    except UnsupportedOperation:
        return stream.closed
    except (OSError, ValueError):
        return True
    return False


def input_text() -> str:
    """Return all of the standard input stream as text; empty if it is closed.

    After two seconds a message says that the program is waiting: one started by another program often
    inherits a pipe into which nobody writes.
    """
    from pflow_mcp_plugin.contract import PflowError
    from pflow_mcp_plugin.storage import LIMIT

    stream = sys.stdin
    if stream is None or stream.closed:
        return ""
    told = "Waiting for standard input; if there is none, end the command with < /dev/null"
    notice = threading.Timer(2.0, write, (sys.stderr, told))
    notice.daemon = True
    if not is_terminal(stream):
        notice.start()
    content = bytearray()
    try:
        # One system call at a time, so that the first bytes are seen as soon as they come.
        while len(content) <= LIMIT and (chunk := os.read(stream.fileno(), _CHUNK)):
            notice.cancel()
            content += chunk
    except OSError as error:
        raise PflowError(f"Standard input cannot be read: {error.strerror or error}", kind="usage") from error
    finally:
        notice.cancel()
    if len(content) > LIMIT:
        message = f"Standard input is larger than {LIMIT >> 20} MiB"
        step = "Give the path of a file to a node that reads it"
        raise PflowError(message, suggestions=(step,), kind="usage")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        message = f"Standard input is not UTF-8 text (byte {error.start})"
        raise PflowError(message, suggestions=("Convert it, as iconv does",), kind="usage") from error


def piped_text() -> str:
    """Return what is piped into standard input, a single line without its line end; empty on a terminal.

    `echo word | pflow ...` is then the same as the word itself; text of several lines keeps every end.
    """
    return "" if sys.stdin is None or is_terminal(sys.stdin) else whole_input()


def whole_input() -> str:
    """Read the stream of standard input to its end, even on a terminal; a single line loses its line end."""
    text = input_text()
    line = text.removesuffix("\n")
    return line.removesuffix("\r") if "\n" not in line else text


_DEEPEST = 200
"""The most levels of nesting that are printed."""


def printed(value: object) -> str:
    """Return a value as text for a standard stream: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else to_json(value)


def to_json(value: object, *, strict: bool = False) -> str:
    """Return any value as JSON text for a standard stream; what JSON cannot represent becomes a string.

    With `strict`, an exception raised by an object on reading is passed on; otherwise the object's class is
    written.
    """
    try:
        return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
    except BaseException as error:
        end_if_interrupted(error)
        if strict and not isinstance(error, TypeError | ValueError | RecursionError):
            raise
        from pflow_mcp_plugin.storage.json_and_toml import plain_json

        def failed(raised: BaseException) -> None:
            end_if_interrupted(raised)
            if strict:
                raise raised

        return json.dumps(plain_json(value, _DEEPEST, failed), ensure_ascii=False, indent=2)
