"""The pod templates of a JobTemplate as an API server sees them: which are to be tried in a dry
run, and what its answers mean for the JobTemplate. It asks nobody.

Why it is done so: docs/decisions/pod-template-dry-run.md.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from jobflow.api.resources import StatusCause
from jobflow.core.violations import MAX_FINDINGS, Reason, Verdict, Violation, some

MOST_TRIED = 64
"""Different pod templates of one JobTemplate that are tried."""
SHOWN = 3
"""Most warnings of the API server's own that one review passes on."""
SECONDS = 3.0
"""How long all dry runs of one review may take together; a review has 10 s."""
_TEMPLATE = re.compile(r"template(?=[.\[]|$)")
_IN_METADATA = re.compile(r"template\.(?=(?:labels|annotations)\b)")
"""Where the API server leaves a level out (k8s.io/kubernetes, ValidatePodTemplateSpec)."""
_UNKNOWN_FIELD = re.compile(r'unknown field "(template\..+)"')
_REASONS = {reason.value: reason for reason in Reason}


class Tried(NamedTuple):
    """A pod template that is to be tried."""

    template: bytes
    """JSON."""
    tasks: list[int]
    """The tasks that have it, by their places in `spec.tasks`; at least one."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """What an API server said of a pod template; nothing where it did not come to judge it."""

    faults: tuple[StatusCause, ...] = ()
    """`field` begins with `template`."""
    warnings: tuple[str, ...] = ()

    @property
    def other_warnings(self) -> list[str]:
        """Those that are about no unknown field."""
        return [text for text in self.warnings if not _UNKNOWN_FIELD.fullmatch(text)]


def pod_templates(spec: Mapping[str, Any]) -> list[Tried]:
    """The pod templates of a vcjob spec that fits its type, equal ones once."""
    found: dict[bytes, Tried] = {}
    for i, task in enumerate(spec.get("tasks") or ()):
        template = task.get("template") or {}
        key = msgspec.json.encode(template, order="sorted")
        found.setdefault(key, Tried(key, [])).tasks.append(i)
    return list(found.values())


def in_depth(verdict: Verdict, tried: Sequence[Tried], answers: Sequence[DryRun | None]) -> Verdict:
    """The verdict of the rules, and what the API server found besides: at a place that a rule has
    named for the same reason it adds nothing.

    `answers` are those on the first ones; None: it did not answer in time.
    """
    pairs = [
        (each, answer) for each, answer in zip(tried, answers, strict=False) if answer is not None
    ]
    named = {(violation.path, violation.reason) for violation in verdict.violations}
    found = heapq.merge(*(_faults(each, answer) for each, answer in pairs), key=_task)
    faults = (violation_of(i, fault) for i, fault in found)
    new = (fault for fault in faults if (fault.path, fault.reason) not in named)
    more = tuple(islice(new, MAX_FINDINGS - len(verdict.violations)))
    told = {doubt.path for doubt in verdict.field_warnings}
    warnings = (*_warnings(pairs, told), *not_tried(len(tried) - len(pairs), len(tried)))
    if not more and not warnings:
        return verdict
    return replace(
        verdict, violations=verdict.violations + more, warnings=verdict.warnings + warnings
    )


def _faults(tried: Tried, answer: DryRun) -> Iterator[tuple[int, StatusCause]]:
    """The faults of a pod template, with each task that has it."""
    return ((i, fault) for i in tried.tasks for fault in answer.faults)


def _task(found: tuple[int, StatusCause]) -> int:
    return found[0]


def not_tried(count: int, total: int) -> Iterator[str]:
    """A warning if some of the different pod templates of an object were not tried."""
    if count:
        yield (
            f"{count} of {total} different pod templates were not checked by the API server, "
            f"because a review checks at most {MOST_TRIED} and waits {SECONDS:g} s; a fault in one "
            "of them shows only when its pods are created"
        )


def violation_of(task: int, fault: StatusCause) -> Violation:
    """A fault of the pod template of a task, at its place in the spec of a JobTemplate."""
    reason = _REASONS.get(fault.reason, Reason.INVALID)
    field = _IN_METADATA.sub("template.metadata.", fault.field)
    return Violation(_path(task, field), reason, None, "", words=fault.message)


def _path(task: int, field: str) -> str:
    return f"spec.tasks[{task}].{field}"


def _warnings(pairs: Sequence[tuple[Tried, DryRun]], told: Collection[str]) -> Iterator[str]:
    """For the first task that a warning is about: fields that would be dropped, except those that
    the rules told of, in one sentence; the rest in the API server's words."""
    unknown, others = [], []
    for tried, answer in pairs:
        for text in answer.warnings:
            if field := _UNKNOWN_FIELD.fullmatch(text):
                path = _path(tried.tasks[0], field[1])
                if path not in told:
                    unknown.append(path)
            elif _TEMPLATE.match(text):
                others.append(_path(tried.tasks[0], text))
            else:
                others.append(f"{_path(tried.tasks[0], 'template')}: {text}")
    if unknown:
        word, it = ("fields", "they are") if len(unknown) > 1 else ("field", "it is")
        yield f"unknown {word} {some(unknown)}: {it} dropped when the pods are made"
    yield from first_of(others)


def first_of(texts: Sequence[str]) -> Iterator[str]:
    """The first of the API server's own warnings, and how many more there are."""
    yield from texts[:SHOWN]
    if (more := len(texts) - SHOWN) > 0:
        yield f"and {more} more warnings of the API server about pod templates"
