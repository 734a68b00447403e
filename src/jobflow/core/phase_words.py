"""Phases that an expression compares with and that there are none of. It finds them; a comparison
that never holds is no fault, for it may be meant."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobflow.api.flow_status import FlowPhase, StepPhase
from jobflow.api.job import JobPhase
from jobflow.core.suggest import Suggester

OF_STEPS = frozenset({*StepPhase, *JobPhase})
OF_FLOWS = frozenset({FlowPhase.SUCCEED, FlowPhase.FAILED})
"""What `flow.phase` may be in finally."""

_TEXT = r"""(?:"([A-Za-z]*)"|'([A-Za-z]*)')"""
_BEFORE = re.compile(rf"(?<!\w)phase\s*[!=]=\s*{_TEXT}")
_BEHIND = re.compile(rf"{_TEXT}\s*[!=]=\s*([\w.\[\]\"'-]{{0,200}}?)(?<!\w)phase\b")
_OF = re.compile(r"[\w.\[\]\"'-]*\Z")
_FAR = 200
"""So many characters before a phase say whose it is."""
_OTHERS = re.compile(r"(?:^|\.)(?:outputs|item|params)\.")
"""Whose `phase` is the user's own."""
_SAME = {
    "complete": "Completed",
    "done": "Completed",
    "error": "Failed",
    "failure": "Failed",
    "finished": "Completed",
    "succeed": "Completed",
    "succeeded": "Completed",
    "success": "Completed",
    "successful": "Completed",
    "omitted": "Skipped",
}


def strange_phases(text: str) -> Iterator[tuple[str, str]]:
    """Each phase that nothing is ever in, and the one that was probably meant, or nothing."""
    for of, word in _compared(text):
        if not _OTHERS.search(of):
            known = OF_FLOWS if of == "flow." else OF_STEPS
            if word not in known:
                meant = _SAME.get(word.lower()) or Suggester(sorted(known)).nearest(word) or ""
                yield word, "Succeed" if of == "flow." and meant == "Completed" else meant


def _compared(text: str) -> Iterator[tuple[str, str]]:
    """What phases are compared with: whose it is (`steps.a.`), and the word."""
    for found in _BEFORE.finditer(text):
        of = _OF.search(text, max(0, found.start() - _FAR), found.start())
        yield of.group() if of is not None else "", found[1] or found[2] or ""
    for found in _BEHIND.finditer(text):
        yield found[3], found[1] or found[2] or ""
