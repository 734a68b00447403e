"""A violation as a story: the moves, one a line, with the changes that follow."""

from __future__ import annotations

from collections.abc import Iterator

from model.explorer.states import State
from model.explorer.statuses import Status


def told(moves: list[tuple[str, State]], start: State) -> str:
    """The moves in their order, each with what it changed."""
    lines = []
    before = start
    for what, after in moves:
        news = "; ".join(_news(before, after))
        lines.append(f"  {after.now:>4} s  {what}{': ' if news else ''}{news}")
        before = after
    return "\n".join(lines)


def _news(before: State, after: State) -> Iterator[str]:
    known = {job.uid: job for job in before.jobs}
    for job in after.jobs:
        was = known.get(job.uid)
        if was is None:
            yield f"{job.name} is made"
        elif job.gone and not was.gone:
            yield f"{job.name} is gone"
        elif job.asked and not was.asked:
            yield f"{job.name} is to abort"
    for name in sorted(after.not_found - before.not_found):
        yield f"{name} is not there"
    if after.flow.status is not before.flow.status:
        yield from _changes(before.flow.status, after.flow.status)
    if after.known is not before.known and after.known != after.flow:
        yield "the controller does not know it yet"


def _changes(before: Status, after: Status) -> Iterator[str]:
    was, now = before.value, after.value
    if (was.state.phase, was.state.reason) != (now.state.phase, now.state.reason):
        yield f"stored: flow {_words(now.state.phase, now.state.reason)}"
    old = was.conditions or {}
    for key, condition in (now.conditions or {}).items():
        earlier = old.get(key)
        words = _words(condition.phase, condition.reason)
        if earlier is None or _words(earlier.phase, earlier.reason) != words:
            yield f"stored: {key} {words}"


def _words(phase: str, reason: str) -> str:
    return f"{phase} ({reason})" if reason else phase
