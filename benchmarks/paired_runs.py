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
    """What came of the pairs, in seconds.

    Attributes:
        ours: One time for each pair.
        theirs: The same for what it is compared with.
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
    """How long a command took, in seconds, and what it printed."""

    seconds: float
    stdout: str
    stderr: str


def compare(
    ours: Sequence[str], theirs: Sequence[str], pairs: int, env: Mapping[str, str], folder: Path
) -> Comparison:
    """Run both commands once to warm up, then `pairs` times in turn; every other pair begins with theirs."""

    def timed(command: Sequence[str]) -> float:
        return run(command, env, folder).seconds

    timed(ours)
    timed(theirs)
    return in_turn(lambda: timed(ours), lambda: timed(theirs), pairs)


def in_turn(ours: Callable[[], float], theirs: Callable[[], float], pairs: int) -> Comparison:
    """Take the seconds of both in turn; every other pair begins with theirs."""
    times: list[tuple[float, float]] = []
    for number in range(pairs):
        if number % 2:
            their_time = theirs()
            times.append((ours(), their_time))
        else:
            times.append((ours(), theirs()))
    return Comparison(ours=tuple(pair[0] for pair in times), theirs=tuple(pair[1] for pair in times))


def run(command: Sequence[str], env: Mapping[str, str], folder: Path) -> Done:
    """Run a command to its end.

    Raises:
        SystemExit: It failed; with its stderr.
    """
    begin = time.perf_counter()
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
    seconds = time.perf_counter() - begin
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} exited {done.returncode}:\n{done.stdout}{done.stderr}")
    return Done(seconds=seconds, stdout=done.stdout, stderr=done.stderr)
