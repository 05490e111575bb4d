"""The confidence that a node is one that a task needs: the share of such nodes that are.

A node that fits part of a task is probably needed if nothing else fits that part as well, and probably not if
something does. The shares were measured with `python -m benchmarks.discover` on tasks for which the right
tools are known; of the nodes found with 0.95 or more, at least 95 % were right.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from pflow_mcp_plugin.host.matching.task_fit import Described, Fit, TaskFit

RIVALS = 10
"""How many of the best candidates a node is compared with."""
_LEAD = 3.0
"""The weight of a lead over the best rival, relative to the degree of the fit itself."""
_LONGEST_LEAD = 0.3
"""The lead from which more of it tells nothing."""
_MEASURED = (
    (0.0, 0.01),
    (0.07, 0.04),
    (0.13, 0.15),
    (0.24, 0.22),
    (0.45, 0.27),
    (0.52, 0.40),
    (0.68, 0.47),
    (0.77, 0.62),
    (0.86, 0.83),
    (1.10, 0.91),
    (1.15, 0.95),
    (1.40, 0.98),
    (1.90, 0.99),
)
"""Evidence, and the share of the nodes with it that were right; in between, the share is interpolated."""


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
        judged = [
            (self._evidence(part, best), best, part)
            for number, part in enumerate(self._fit.parts(described))
            for best in [max((degrees[number] for degrees in rivals), default=0.0)]
        ]
        evidence, best, part = max(judged, key=lambda one: (one[0], one[2].degree))
        return (_share(evidence), _reason(part, best)) if part.reason else (0.0, "")

    @staticmethod
    def _evidence(part: Fit, best_rival: float) -> float:
        lead = max(-_LONGEST_LEAD, min(_LONGEST_LEAD, part.degree - best_rival))
        return part.degree * (1 + _LEAD * lead)


def _share(evidence: float) -> float:
    """Return the confidence for evidence."""
    above = bisect_right(_MEASURED, (evidence, 1.0))
    if above == 0:
        return _MEASURED[0][1]
    if above == len(_MEASURED):
        return _MEASURED[-1][1]
    (low, least), (high, most) = _MEASURED[above - 1 : above + 1]
    return round(least + (most - least) * (evidence - low) / (high - low), 3)


def _reason(part: Fit, best_rival: float) -> str:
    if part.degree < best_rival:
        return f"{part.reason}; another fits this better"
    return f"{part.reason}; another fits this as well" if part.degree == best_rival else part.reason
