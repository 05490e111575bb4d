"""The record of a run: what its steps sent and returned, written while the run goes on.

A record is a SQLite file that its run holds exclusively, so that nobody resumes a run that is going on. It
lies among the `open` ones until the run has ended; those of failed runs then move to the `ended` ones, and
what succeeded is removed, unless a step was left open.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from operator import attrgetter
from pathlib import Path
from shlex import quote
from typing import Any, Literal, Self, get_args

import attrs

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.host.running.result_key import exact_pieces
from pflow_mcp_plugin.storage import StoreError, make_folder, open_regular, read_regular

State = Literal["sent", "done", "failed", "unknown", "not sent", "skipped", "forgotten", "asked"]
"""How far a step has come: `sent` (no answer is known), the outcomes, and what is decided later.

It is `asked` while a person has not answered yet.
"""
UNDECIDED: frozenset[State] = frozenset({"sent", "unknown"})
"""The states of a step if nobody knows whether it happened."""
_SUFFIX = ".db"
_SUMMARY = ".summary"
_FORMAT = 1
LARGE = 64 << 10
"""A result of more bytes is a file beside the record, written by the thread that has it: the record itself is
written by one thread at a time, and what waits for that takes memory.
"""
_synced: Callable[[int], object] = getattr(os, "fdatasync", os.fsync)
_TABLES = """
CREATE TABLE run (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE step (number INTEGER PRIMARY KEY, place TEXT NOT NULL, node TEXT NOT NULL, type TEXT NOT NULL,
  identity TEXT NOT NULL, safe INTEGER NOT NULL, shown TEXT NOT NULL, state TEXT NOT NULL,
  action TEXT NOT NULL DEFAULT '', routed INTEGER NOT NULL DEFAULT 0, error TEXT NOT NULL DEFAULT '',
  key TEXT NOT NULL DEFAULT '', reruns INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0, recipe TEXT NOT NULL DEFAULT '', outputs BLOB);
CREATE TABLE entry (number INTEGER PRIMARY KEY, parent INTEGER, item INTEGER, content TEXT NOT NULL);
"""


@attrs.define(kw_only=True, eq=False, repr=False)
class RecordedStep:
    """A step in the record of a run."""

    place: str  # its node, with the nodes, items and passes around it: `outer/send[3]#2`
    node: str  # the id of the node, with those of the nodes around it
    type: str  # the node type: what is done
    identity: str  # distinguishes it from steps that do something else; empty if nothing can
    safe: bool = attrs.field(converter=bool)  # whether it may be run again without harm
    shown: str  # its params, shortened and redacted, for people
    number: int | None = None  # None while it is not in the record
    state: State = "sent"
    action: str = ""
    routed: bool = attrs.field(default=False, converter=bool)  # whether the run went on after its failure
    error: str = ""
    key: str = ""  # its idempotency key: work sent again with it is done once; empty if it takes none
    reruns: int = 0  # how often the user asked for it to be done again, with another key
    attempts: int = 0  # the number of calls that it has made
    recipe: str = ""  # the recipe that finds out whether it happened, as JSON; empty if there is none

    @property
    def undecided(self) -> bool:
        return not self.safe and not self.key and self.state in UNDECIDED

    @property
    def is_open(self) -> bool:
        return self.undecided or self.state == "asked"

    def to_dict(self) -> dict[str, object]:
        shown = {"step": self.place, "type": self.type, "state": self.state}
        error = {"error": self.error} if self.error else {}
        return {**shown, "params": json.loads(self.shown or "null"), **error}


_ITEM_AND_PASS = re.compile(r"(\[\d+\])?(#\d+)?(~\d+)?$")
"""What may follow a node's id in a part of a place: an item of its batch, a pass, and a number if another
node was there.
"""
_FIELDS = tuple(field.name for field in attrs.fields(RecordedStep))
_TEXTS = ("place", "node", "type", "identity", "shown", "state", "action", "error", "key")
_STATES = frozenset(get_args(State))
_OPEN = "NOT safe AND key = '' AND state IN ('sent', 'unknown')"
"""The steps that the user has to decide about."""
_LONGEST_LOOK = 5.0
"""Seconds that the record of a new run waits for others that look at it."""
_values = attrgetter(*_FIELDS)
_PUT_STEPS = f"INSERT OR REPLACE INTO step ({', '.join(_FIELDS)}, outputs) VALUES "  # noqa: S608 - fields
_PUT_ENTRIES = "INSERT OR REPLACE INTO entry VALUES "
_MOST_ROWS = 25
"""Rows per statement: `sqlite3` caches one for each number of rows, with the values it last wrote."""
_MOMENT = 0.05
"""Seconds in which what ends in parallel shares a commit."""
_Row = tuple[Any, ...]


class RunRecord:
    """The record of one run, through a connection that holds its file; safe to use from any thread."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._lock = threading.Lock()
        self._steps: deque[_Row] = deque()  # not yet written, as are the entries
        self._entries: deque[_Row] = deque()
        self._due: threading.Timer | None = None
        self._numbers = count(1)
        self._entry_numbers = count(1)
        self._log: int | None = None
        self._held: list[int] = []
        # What the user said that steps returned, by their numbers: not all of it may be in the file.
        self.given: dict[int | None, Mapping[str, Any] | None] = {}

    @classmethod
    def create(cls, folder: Path, run_id: str, head: JSONObject) -> Self:
        """Create the SQLite file of a run that begins to act; a `StoreError` says that it is not possible."""
        path = folder / "open" / f"{run_id}{_SUFFIX}"
        make_folder(path.parent)
        with _explained(path):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            record = None
            try:
                record = cls(path, _connected(path, is_new=True))
                # Nothing is lost with the record yet: `_sync` comes before a step that may do harm.
                record._connection.executescript(f"PRAGMA synchronous = OFF; {_TABLES}")
                record.note(head)
                # Last: a run killed before this has begun nothing, and leaves a file that is not a record.
                record._connection.execute(f"PRAGMA user_version = {_FORMAT}")
                _wait_for_disk(record._connection)
            except BaseException:
                if record is not None:
                    record.close()
                remove_record(path)
                raise
        return record

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the record of an earlier run, unless that is going on, or a newer pflow wrote it."""
        with _explained(path):
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                raise damaged(path, "it is not a regular file")
            if os.name == "posix" and status.st_uid != os.geteuid():
                raise damaged(path, "it belongs to another user", "Resume the run as that user")
            record = cls(path, _connected(path, is_new=False))
            (last,) = record._connection.execute("SELECT max(number) FROM step").fetchone()
            record._numbers = count((last or 0) + 1)
        return record

    def head(self) -> dict[str, Any]:
        with self._transaction() as execute:
            found = execute("SELECT name, value FROM run").fetchall()
        try:
            return {name: json.loads(value) for name, value in found}
        except (ValueError, RecursionError) as error:
            raise damaged(self.path, "what it says of the run is not JSON") from error

    def note(self, values: JSONObject) -> None:
        rows = [(name, json.dumps(value)) for name, value in values.items()]
        with self._transaction() as execute:
            for row in rows:
                execute("INSERT OR REPLACE INTO run VALUES (?, ?)", row)

    def steps(self, where: str = "1") -> list[RecordedStep]:
        """Return the steps in the record, in the order in which they began; `where` is a condition in SQL."""
        text = f"SELECT {', '.join(_FIELDS)} FROM step WHERE {where} ORDER BY number"  # noqa: S608 - our own
        with self._transaction() as execute:
            rows = execute(text).fetchall()
        found = [dict(zip(_FIELDS, row, strict=True)) for row in rows]
        if not all(map(_is_step, found)):
            raise damaged(self.path, "it has a step that pflow did not write")
        return [RecordedStep(**it) for it in found]

    def sent(self, steps: Iterable[RecordedStep]) -> None:
        """Write durably to the file that harmful steps are about to happen; they must not if that fails."""
        rows: list[_Row] = []
        for step in steps:
            step.state = "sent"
            step.number = step.number or next(self._numbers)
            rows.append((*_values(step), None))
        with _explained(self.path), self._lock:
            self._write(rows)
            self._sync()
        self._commit()

    def ended(
        self, step: RecordedStep, outputs: Mapping[str, Any] | None = None, *, soon: bool = False
    ) -> bool:
        """Record how a step ended and what it returned; if `soon`, a moment later, in one commit with others.

        Return whether the outputs are large, see `is_large`. If JSON cannot represent them exactly, nothing
        is recorded, and `NotKept` is raised.
        """
        pieces, size = [], 0
        source = iter(()) if outputs is None else exact_pieces(dict(outputs), "an output")
        for piece in source:
            pieces.append(piece)
            size += len(piece)
            if size > LARGE:
                break
        step.number = step.number or next(self._numbers)
        if size > LARGE:
            file = self._file(step)
            make_folder(file.parent)
            with _explained(self.path), open(file, "wb", opener=_private) as output:
                output.writelines(pieces)
                output.writelines(source)
                if not step.safe:
                    output.flush()
                    os.fsync(output.fileno())
        inline = None if outputs is None or size > LARGE else b"".join(pieces)
        self._steps.append((*_values(step), inline))
        self._commit(soon=soon)
        return size > LARGE

    def outputs(self, step: RecordedStep) -> dict[str, Any]:
        """Return from this record what a step returned; raise PflowError if that is lost."""
        if given := self.given.get(step.number):
            return {**given}
        with self._transaction() as execute:
            (data,) = execute("SELECT outputs FROM step WHERE number = ?", (step.number,)).fetchone()
        try:
            if data is None:
                with open(self._file(step), "rb", opener=open_regular) as file:
                    data = file.read()
            outputs: dict[str, Any] = {**json.loads(data)}
        except (OSError, TypeError, ValueError, RecursionError) as error:
            resume = f"pflow resume {self.path.stem}"
            raise PflowError(
                f"{step.place} was done, but the record does not have its result",
                details={"step": step.to_dict()},
                suggestions=(
                    f"If you know it: {resume} --assume-done {quote(f'{step.place}=RESULT')}",
                    f"To do it again: {resume} --rerun {quote(step.place)}",
                ),
                ran="not ran",
            ) from error
        return outputs

    def is_large(self, step: RecordedStep) -> bool:
        """Return whether a step's outputs, too large for memory, are in a file beside the run's record."""
        return self._file(step).exists()

    def change(self, steps: Sequence[RecordedStep], state: State) -> None:
        """Change the state of steps in the record, but not what they returned.

        Their failures no longer count as ones after which the run went on.
        """
        if not steps:  # the usual case: a transaction would be a waste
            return
        with self._transaction() as execute:
            for step in steps:
                step.state, step.routed = state, False
                execute("UPDATE step SET state = ?, routed = 0 WHERE number = ?", (state, step.number))

    def put_entry(
        self, content: JSONObject, number: int | None, parent: int | None, item: int | None, *, soon: bool
    ) -> int:
        """Write what the trace shows of a step in a row of the record; return the row's number.

        `parent` is the number of the step inside which it ran, `item` the index in that step's batch. Of a
        step that has not ended, the content has no `milliseconds`. For `soon` see `ended`.
        """
        number = number or next(self._entry_numbers)
        text = surrogates_replaced(json.dumps(content, ensure_ascii=False))
        self._entries.append((number, parent, item, text))
        self._commit(soon=soon)
        return number

    def entries(self) -> list[tuple[dict[str, Any], int, int | None, int | None]]:
        """Return what `put_entry` wrote in the run's record: content, number, parent and item of each row."""
        with self._transaction() as execute:
            rows = execute("SELECT content, number, parent, item FROM entry ORDER BY number").fetchall()
        return [(json.loads(content), *place) for content, *place in rows]

    def begin_again(self, head: JSONObject) -> None:
        """Record that a run is resumed: it has not failed yet, and its trace starts over."""
        self.note({**head, "error": None})
        with self._transaction() as execute:
            execute("DELETE FROM entry")

    def redact(self, value: Callable[[Any], Any], text: Callable[[str], str]) -> None:
        """Redact once more, in one transaction, what the record keeps to be shown."""
        with self._transaction() as execute:
            shown = execute("SELECT 'entry', 'content', number, content FROM entry").fetchall()
            shown += execute("SELECT 'step', 'shown', number, shown FROM step WHERE shown != ''").fetchall()
            for table, column, number, before in shown:
                after = surrogates_replaced(json.dumps(value(json.loads(before)), ensure_ascii=False))
                if after != before:
                    execute(f"UPDATE {table} SET {column} = ? WHERE number = ?", (after, number))  # noqa: S608
            for number, before in execute("SELECT number, error FROM step WHERE error != ''").fetchall():
                execute("UPDATE step SET error = ? WHERE number = ?", (text(before), number))
            for name, before in execute("SELECT name, value FROM run WHERE name = 'trace'").fetchall():
                after = json.dumps(value(json.loads(before)))
                execute("UPDATE run SET value = ? WHERE name = ?", (after, name))

    def close(self) -> None:
        """Close the record and leave its file, unlike `end`."""
        if due := self._due:
            due.cancel()
        with suppress(sqlite3.Error), self._lock:
            with suppress(sqlite3.Error):
                self._write()
            self._connection.close()
            while self._held:
                os.close(self._held.pop())

    def end(self, error: str, *, keep: bool) -> list[RecordedStep]:
        """Note in the record that its run ended, and close it; return the steps for the user to decide about.

        With such steps it stays among the open records. Otherwise it is removed, unless the run failed, or is
        to `keep` it, as failed items of a batch can be run again.
        """
        left = self.steps(_OPEN)
        keep = keep or bool(self.steps("1" if error else "state = 'unknown' AND NOT safe"))
        if keep or left:  # otherwise nothing is noted: a run killed here is resumed, and ends again
            self.note({"error": error})
            self.summary()
        # A file that is kept must be readable by any SQLite tool; one about to be removed need not reach the
        # disk.
        last = "PRAGMA journal_mode = DELETE" if keep or left else "PRAGMA synchronous = OFF"
        with _explained(self.path), self._lock:
            self._connection.execute(last)
        if keep or left:
            asks = bool(error and self.steps("state = 'asked'"))
            self.close_in("open" if left or asks else "ended")
        else:
            self.close()
            remove_record(self.path)
        return left

    def close_in(self, name: Literal["open", "ended"]) -> None:
        self.close()
        folder = self.path.parent.parent / name
        if self.path.parent == folder:
            return
        with _explained(self.path):
            make_folder(folder)
            for path in (self.path.with_suffix(""), self.path.with_suffix(_SUMMARY), self.path):
                with suppress(FileNotFoundError):
                    path.replace(folder / path.name)
            self.path = folder / self.path.name

    def summary(self) -> dict[str, Any]:
        """Return what lists show of this record, and keep it in a file beside it for them to read instead."""
        head, left = self.head(), self.steps(f"state = 'asked' OR {_OPEN}")
        with self._transaction() as execute:
            (done,) = execute("SELECT count(*) FROM step WHERE state = 'done'").fetchone()
        error = head.get("error")
        state = "killed" if error is None else "failed" if error else "ended"
        listed = [step.place for step in left]
        summary = {"workflow": head.get("name"), "state": state, "done": done, "open": listed}
        with suppress(OSError, PflowError):
            self.changes()
            with open(self.path.with_suffix(_SUMMARY), "x", opener=_private) as file:
                json.dump(summary, file)
        return summary

    def changes(self) -> None:
        """Remove the summary beside the record: it is about to become wrong."""
        with _explained(self.path):
            self.path.with_suffix(_SUMMARY).unlink(missing_ok=True)

    @contextmanager
    def _transaction(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """Write what waits; then yield the function that executes a statement in a transaction."""
        with _explained(self.path), self._lock:
            self._write()
            execute = self._connection.execute
            execute("BEGIN")
            try:
                yield execute
                execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    execute("ROLLBACK")
                raise
        self._commit()

    def _write(self, rows: Sequence[_Row] = ()) -> None:
        """Write the rows that wait, and the given ones of steps; the caller holds the record's lock.

        Usually this takes one statement, which is a transaction by itself: at each statement `sqlite3` lets
        other threads run, and must then compete with them.
        """
        self._put(_PUT_STEPS, self._steps, rows)
        self._put(_PUT_ENTRIES, self._entries)

    def _put(self, into: str, waiting: deque[_Row], rows: Sequence[_Row] = ()) -> None:
        every = [*waiting.copy(), *rows]
        left = len(every) - len(rows)
        for start in range(0, len(every), _MOST_ROWS):
            some = every[start : start + _MOST_ROWS]
            text = into + ", ".join(f"({', '.join('?' * len(row))})" for row in some)
            self._connection.execute(text, [value for row in some for value in row])
            for _ in range(min(len(some), left - start)):
                waiting.popleft()

    def _commit(self, *, soon: bool = False) -> None:
        if soon and self._due is None:
            self._due = threading.Timer(_MOMENT, self._commit_later)
            self._due.daemon = True
            self._due.start()
        # If another thread has the lock, it calls this afterwards.
        while not soon and (self._steps or self._entries) and self._lock.acquire(blocking=False):
            try:
                with _explained(self.path):
                    self._write()
            finally:
                self._lock.release()

    def _commit_later(self) -> None:
        self._due = None  # first: a row that arrives from here on may be too late for this commit
        with suppress(PflowError):  # unwritten rows keep waiting, and the next commit says why
            self._commit()

    def _sync(self) -> None:
        """Wait until what was committed to the record is on the disk.

        With `synchronous = FULL` SQLite itself would do so, but at every commit.
        """
        if self._log is None:
            # They stay open: closing any descriptor of a file gives up all locks of the process on it.
            log = self.path.with_name(f"{self.path.name}-wal")
            places = [self.path.parent, self.path, *([log] if log.exists() else [])]
            self._held += [os.open(path, os.O_RDONLY) for path in places]
            for descriptor in self._held:
                os.fsync(descriptor)
            self._log = self._held[-1]
            return
        _synced(self._log)

    def _file(self, step: RecordedStep) -> Path:
        return self.path.with_suffix("") / f"{step.number}.json"


def _is_step(row: Mapping[str, Any]) -> bool:
    """Return whether a row of a record has the types of a step: the file may be damaged."""
    try:
        json.loads(row["shown"] or "null")
    except (TypeError, ValueError, RecursionError):
        return False
    return all(isinstance(row[name], str) for name in _TEXTS) and row["state"] in _STATES


def levels(place: str) -> Iterator[tuple[str, str, str]]:
    """Yield the nodes named by a step's place in the record: those around it, outermost first, then its own.

    Each is the place around it, its id with those of the nodes around it, and its item and pass: `outer[1]/`,
    `outer/send` and `[3]#2`.
    """
    around = above = ""
    for part in place.split("/"):
        name = _ITEM_AND_PASS.sub("", part)
        yield around, f"{above}{name}", part[len(name) :]
        around, above = f"{around}{part}/", f"{above}{name}/"


def records(folder: Path) -> list[Path]:
    """Return the SQLite files of the run records in a folder, the newest first."""
    # In this order, a run that is resumed meanwhile is not missed.
    found = [path for name in ("ended", "open") for path in (folder / name).glob(f"*{_SUFFIX}")]
    return sorted(found, key=lambda path: path.name, reverse=True)


def summary_of(path: Path) -> dict[str, Any] | None:
    """Return the summary in the file beside a run record; None if there is none, or not a whole one."""
    try:
        found = json.loads(read_regular(path.with_suffix(_SUMMARY)))
    except (OSError, ValueError, RecursionError):
        return None
    kinds = {"workflow": str, "state": str, "done": int, "open": list}
    is_whole = isinstance(found, dict) and all(isinstance(found.get(it), kind) for it, kind in kinds.items())
    return found if is_whole else None


def remove_record(path: Path) -> None:
    """Remove the record of a run: its file, and the files beside it."""
    values = path.with_suffix("")
    with suppress(OSError):
        path.unlink(missing_ok=True)  # first: without it, the rest is of no use
        if values.is_dir():
            import shutil

            shutil.rmtree(values, ignore_errors=True)
        path.with_suffix(_SUMMARY).unlink(missing_ok=True)
        for suffix in ("-wal", "-journal"):
            path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)


def _connected(path: Path, *, is_new: bool) -> sqlite3.Connection:
    """Return a connection that holds a record's file exclusively until it is closed, or its process ends.

    An existing record is checked before anything is written; a new one waits for others that look at it.
    """
    # Used by many threads, one at a time: under the lock of the record.
    wait = _LONGEST_LOOK if is_new else 0.0
    uri = f"{path.absolute().as_uri()}?mode=rw"  # a record that was just removed is not created again
    connection = sqlite3.connect(uri, uri=True, timeout=wait, isolation_level=None, check_same_thread=False)
    try:
        # With exclusive locking, SQLite's log needs no shared memory, so it works on network file systems.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA synchronous = OFF")
        if not is_new:
            _require_record(path, connection)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN EXCLUSIVE").execute("COMMIT")
        _wait_for_disk(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _require_record(path: Path, connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if version < 1 or not {"run", "step", "entry"} <= found:
        step = "" if path.stat().st_size else f"If its run was killed: pflow resume {path.stem} --abandon"
        raise damaged(path, "it is not the record of a run", step)
    if version != _FORMAT:
        step = "Update pflow, or start the run again"
        raise PflowError(f"{path} is the record of a newer pflow", suggestions=(step,), kind="config")


def _wait_for_disk(connection: sqlite3.Connection) -> None:
    """Let SQLite wait for the disk at each commit of a record, if it cannot keep a log for `_sync`."""
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    connection.execute(f"PRAGMA synchronous = {'NORMAL' if mode == 'wal' else 'FULL'}")


def surrogates_replaced(text: str) -> str:
    """Return text for a run's record, with `?` for lone surrogates: UTF-8 cannot encode them."""
    return text.encode("utf-8", "replace").decode()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            message = f"Run {path.stem} is going on"
            step = "Wait until it has ended, or end its process"
            raise PflowError(message, suggestions=(step,), kind="usage") from error
        raise StoreError(path, str(error)) from error
    except sqlite3.DatabaseError as error:
        raise damaged(path, str(error)) from error
    except OSError as error:
        raise StoreError(path, error.strerror or str(error)) from error


def damaged(path: Path, why: str, step: str = "") -> PflowError:
    """Return the error of a record's file that cannot be used; `step` is what to do about it."""
    away = f"See what the run did, if it left a trace: pflow trace show {path.stem}; then move away {path}"
    return PflowError(
        f"The record of run {path.stem} cannot be read: {why}", suggestions=(step or away,), kind="config"
    )
