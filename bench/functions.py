"""The functions of `core/planning` that a plan of a diamond in mid-flight walks through.

A reader who follows such a plan reads all of them, so their number says how far it is from the
question to the answer.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType

from bench import core, samples
from bench.core import NOW
from jobflow.core import planning
from jobflow.core.planning.plan import plan

MOST = 90
"""Functions that such a plan may walk through at most (`tests/performance/test_counts.py`)."""
ROUNDS = 3
"""Rounds of the diamond's vcjobs: those of the last one, two of five, have just changed."""
_FOLDER = Path(planning.__file__).parent


def walked() -> Iterator[tuple[str, list[str]]]:
    """Yield, for two moments, the functions by `file:name`, in the order in which they are
    called first."""
    for phase in ("Running", "Completed"):
        flow, view = core.carried(samples.flow(samples.diamond()), ROUNDS, phase)
        plan(flow, view, now=NOW)  # what follows from the spec alone is computed once
        codes: dict[CodeType, None] = {}

        def note(
            frame: FrameType, event: str, _: object, codes: dict[CodeType, None] = codes
        ) -> None:
            if event == "call":
                codes.setdefault(frame.f_code)

        sys.setprofile(note)
        try:
            plan(flow, view, now=NOW)
        finally:
            sys.setprofile(None)
        own = [code for code in codes if _is_counted(code)]
        yield phase, [f"{Path(c.co_filename).relative_to(_FOLDER)}:{c.co_name}" for c in own]


def _is_counted(code: CodeType) -> bool:
    """Whether it is a function with a name, in a file of `core/planning`."""
    return _FOLDER in Path(code.co_filename).parents and not code.co_name.startswith("<")


def show() -> None:
    """Print the functions, and how many there are."""
    for phase, functions in walked():
        print(*functions, sep="\n")
        print(f"{len(functions)} functions, two jobs are {phase}")
