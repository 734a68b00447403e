"""The work of a call, counted instead of timed, so that other load does not change it."""

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_run(work: Callable[[], object]) -> int:
    """Return the number of lines of Python that run."""
    return _count(work, "line")


def opcodes_run(work: Callable[[], object]) -> int:
    """Return the number of instructions of Python that run. It depends on the version of Python."""
    return _count(work, "opcode")


def _count(work: Callable[[], object], kind: str) -> int:
    count = 0
    by_opcode = kind == "opcode"

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = by_opcode, not by_opcode
        count += event == kind
        return trace

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()  # callbacks of the collector, which others register, are Python too
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    return count
