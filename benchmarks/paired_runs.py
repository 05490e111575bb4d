"""Runs two commands in turn and compares them, so that a busy machine slows both alike."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

import attrs

_RUN_SECONDS = 120


@attrs.frozen(kw_only=True)
class Comparison:
    """The times of the pairs, in seconds.

    Attributes:
        ours: Our time in each pair.
        theirs: The other time in each pair.
    """

    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The median of the pairs' ratios."""
        return median(ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True))

    @property
    def difference(self) -> float:
        """The median of the pairs' differences."""
        return median(ours - theirs for ours, theirs in zip(self.ours, self.theirs, strict=True))


@attrs.frozen(kw_only=True)
class Done:
    """The duration of a command and its processor time, with that of its programs, in seconds; its output."""

    seconds: float
    processor: float
    stdout: str
    stderr: str


def compare(
    ours: Sequence[str], theirs: Sequence[str], pairs: int, env: Mapping[str, str], folder: Path
) -> Comparison:
    """Run both commands once to warm up, then `pairs` times in turn; every other pair begins with theirs.

    Args:
        ours: Our command.
        theirs: The command it is compared with.
        pairs: Number of pairs.
        env: Additional environment variables of both.
        folder: Working folder of both.
    """

    def timed(command: Sequence[str]) -> float:
        return run(command, env, folder).seconds

    timed(ours)
    timed(theirs)
    return in_turn(lambda: timed(ours), lambda: timed(theirs), pairs)


def in_turn(ours: Callable[[], float], theirs: Callable[[], float], pairs: int) -> Comparison:
    """Measure both in turn; every other pair begins with theirs.

    Args:
        ours: Returns our seconds.
        theirs: Returns the seconds of the other side.
        pairs: Number of pairs.
    """
    times: list[tuple[float, float]] = []
    for number in range(pairs):
        if number % 2:
            their_time = theirs()
            times.append((ours(), their_time))
        else:
            times.append((ours(), theirs()))
    return Comparison(ours=tuple(pair[0] for pair in times), theirs=tuple(pair[1] for pair in times))


def run(command: Sequence[str], env: Mapping[str, str], folder: Path) -> Done:
    """Run a command and wait for it.

    Args:
        command: The command.
        env: Additional environment variables.
        folder: Working folder.

    Raises:
        SystemExit: The command failed; the message includes its output.
    """
    begin, before = time.perf_counter(), os.times()
    done = subprocess.run(
        command,
        env={**os.environ, **env},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=_RUN_SECONDS,
        check=False,
    )
    seconds, after = time.perf_counter() - begin, os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} exited {done.returncode}:\n{done.stdout}{done.stderr}")
    return Done(seconds=seconds, processor=processor, stdout=done.stdout, stderr=done.stderr)
