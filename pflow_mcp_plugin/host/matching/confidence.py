"""The confidence in what is found for a task: the share of such nodes, or workflows, that are right.

What makes a node likely to be needed is how well it fits a part of the task, unless another fits that part as
well. Among few nodes a middling fit is often the best of what is there and still not the right one, so the
shares differ with their number. They were measured with `python -m benchmarks.discover`, on tasks for which
the right tools are known; of the nodes found with 0.95 or more, at least 95 % were right. A saved workflow is
to do the whole task, however many others nearly do, so that only its own fit counts.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter

from pflow_mcp_plugin.host.matching.task_fit import Described, Fit, TaskFit

RIVALS = 10
"""How many of the best candidates a node is compared with."""
_LEAD = 0.1
"""The lead over the best rival from which that rival is no reason for doubt."""
_DOUBT = 3.0
"""How much of the fit a lead that is shorter by 1 would take away."""
_MOST_DOUBT = 0.9
"""How much of the fit a rival takes away at most."""
_FEW, _MANY = 50, 500
"""How many nodes there were where the shares were measured; in between they are interpolated."""
_MEASURED = (
    (0.000, 0.002, 0.01),
    (0.035, 0.006, 0.03),
    (0.100, 0.010, 0.19),
    (0.200, 0.030, 0.22),
    (0.300, 0.060, 0.27),
    (0.400, 0.100, 0.46),
    (0.500, 0.220, 0.65),
    (0.600, 0.370, 0.75),
    (0.700, 0.580, 0.92),
    (0.800, 0.850, 0.96),
    (0.900, 0.960, 0.97),
    (1.000, 0.970, 0.98),
)
"""Evidence, and the share of the nodes with it that were right: among few nodes, and among many."""
_MEASURED_WORKFLOWS = (
    (0.00, 0.00),
    (0.40, 0.04),
    (0.55, 0.20),
    (0.65, 0.30),
    (0.75, 0.65),
    (0.85, 0.80),
    (0.93, 0.88),
    (0.95, 0.95),
    (1.00, 1.00),
)
"""The degree to which a workflow fits a task, and the share of such workflows that were right."""


class NodeConfidence:
    """Judges nodes by how well they fit a task beside their rivals.

    Args:
        fit: How well anything fits the task.
        rivals: The best candidates for the task; what is judged may be among them.
    """

    def __init__(self, fit: TaskFit, rivals: Iterable[Described]) -> None:
        self._fit = fit
        self._rivals = [(rival.gist, [part.degree for part in fit.parts(rival)]) for rival in rivals]

    def judge(self, described: Described) -> tuple[float, str]:
        """Return the confidence in a node, from 0 to 1, and the reason in words."""
        # What is described in the same words is an equal of the node, such as one of a second such server.
        rivals = [degrees for gist, degrees in self._rivals if gist != described.gist]
        best = [max(degrees, default=0.0) for degrees in zip(*rivals, strict=True)]
        parts = self._fit.parts(described)
        beside = zip(parts, best or [0.0] * len(parts), strict=True)
        part, rival = max(beside, key=lambda pair: (_evidence(*pair), pair[0].degree))
        if not part.reason:
            return 0.0, ""
        return _share(_evidence(part, rival), self._fit.size), _reason(part, rival)


def _evidence(part: Fit, rival: float) -> float:
    """Return the degree of a fit, less what the best rival makes doubtful."""
    doubt = _DOUBT * (_LEAD - (part.degree - rival))
    return part.degree * (1 - min(_MOST_DOUBT, max(0.0, doubt)))


def workflow_confidence(degree: float) -> float:
    """Return the confidence in a saved workflow that fits the whole task to this degree."""
    (share,) = _interpolated(_MEASURED_WORKFLOWS, degree)
    return round(share, 3)


def _share(evidence: float, size: int) -> float:
    """Return the confidence for evidence among a number of nodes."""
    among_few, among_many = _interpolated(_MEASURED, evidence)
    crowd = math.log(max(_FEW, min(_MANY, size)) / _FEW) / math.log(_MANY / _FEW)
    return round(among_few + crowd * (among_many - among_few), 3)


def _interpolated(table: Sequence[tuple[float, ...]], value: float) -> list[float]:
    """Return the other columns of a table for a value in its first, which is from 0 to 1."""
    above = min(bisect_right(table, value, key=itemgetter(0)), len(table) - 1)
    (low, *least), (high, *most) = table[above - 1], table[above]
    way = (value - low) / (high - low)
    return [start + way * (end - start) for start, end in zip(least, most, strict=True)]


def _reason(part: Fit, rival: float) -> str:
    if part.degree < rival:
        return f"{part.reason}; another fits this better"
    return f"{part.reason}; another fits this as well" if part.degree == rival else part.reason
