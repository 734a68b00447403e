"""Pod templates of JobTemplates and flows that the API server tries by dry runs, and their faults
(docs/decisions/pod-template-dry-run.md).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import msgspec

from jobflow.api.resources import StatusCause
from jobflow.core.admission.analysis.child_flows import Child
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.jobs.layer_locations import innermost, locations_of
from jobflow.core.admission.analysis.jobs.resolved_specs import ResolvedSpec
from jobflow.core.manifests.volume_claims import unprovided_volumes
from jobflow.core.text import join_names
from jobflow.core.violations import MAX_FINDINGS, Reason, Verdict, Violation

MOST_TRIED = 64
"""Different pod templates of one object that are tried."""
MOST_WARNINGS = 3
"""Warnings of the API server that one review passes on."""
SECONDS = 3.0
"""Time for all dry runs of one review; a review has 10 s."""
T = TypeVar("T")

TEMPLATE = re.compile(r"template(?=[.\[]|$)")
"""The beginning of a path in a pod template."""
_IN_METADATA = re.compile(r"template\.(?=(?:labels|annotations)\b)")
"""Paths in which the API server omits `metadata` (k8s.io/kubernetes, ValidatePodTemplateSpec)."""
_UNKNOWN_FIELD = re.compile(r'unknown field "(template\..+)"')
_REASONS = {reason.value: reason for reason in Reason}


class Tried(NamedTuple):
    template: bytes
    tasks: list[int]
    """The indexes of the tasks with it; at least one."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """The API server's answer to a pod template; empty if it did not check the template."""

    faults: tuple[StatusCause, ...] = ()
    """`field` begins with `template`."""
    warnings: tuple[str, ...] = ()

    @property
    def other_warnings(self) -> list[str]:
        return [text for text in self.warnings if not _UNKNOWN_FIELD.fullmatch(text)]


def pod_templates(spec: Mapping[str, Any]) -> list[Tried]:
    """Return the different pod templates of a vcjob spec that fits its type."""
    found: dict[bytes, Tried] = {}
    for i, task in enumerate(spec.get("tasks") or ()):
        template = task.get("template") or {}
        key = msgspec.json.encode(template, order="sorted")
        found.setdefault(key, Tried(key, [])).tasks.append(i)
    return list(found.values())


def answered(tried: Sequence[T], answers: Sequence[DryRun | None]) -> list[tuple[T, DryRun]]:
    """Return the pod templates that have an answer, with it. `answers` are for the first ones."""
    pairs = zip(tried, answers, strict=False)
    return [(each, answer) for each, answer in pairs if answer is not None]


def add_pod_faults(
    verdict: Verdict, tried: Sequence[Tried], answers: Sequence[DryRun | None]
) -> Verdict:
    """Return the verdict with the faults of the first pod templates that no rule has found, and
    their warnings. `answers` has None for a template that was not answered in time."""
    pairs = answered(tried, answers)
    known = {(violation.path, violation.reason) for violation in verdict.violations}
    found: list[tuple[int, StatusCause]] = []
    for each, answer in pairs:
        found += [(i, fault) for i in each.tasks for fault in answer.faults]
    found.sort(key=itemgetter(0))
    faults = (violation_of(i, fault) for i, fault in found)
    # a rule's own words are better than the API server's
    new = (fault for fault in faults if (fault.path, fault.reason) not in known)
    more = tuple(islice(new, MAX_FINDINGS - len(verdict.violations)))
    warned = {each.path for each in verdict.field_warnings}
    unknown, others = [], []
    for each, answer in pairs:
        first = each.tasks[0]  # a warning is located in the first task that it is about
        for text in answer.warnings:
            if field := _UNKNOWN_FIELD.fullmatch(text):
                if (path := _path(first, field[1])) not in warned:
                    unknown.append(path)
            elif TEMPLATE.match(text):
                others.append(_path(first, text))
            else:
                others.append(f"{_path(first, 'template')}: {text}")
    warnings = (*first_of(others), *not_tried(len(tried) - len(pairs), len(tried)))
    if unknown:
        # one for all unknown fields that no rule has warned of, before the API server's own
        word, it = ("fields", "they are") if len(unknown) > 1 else ("field", "it is")
        dropped = f"unknown {word} {join_names(unknown)}: {it} dropped when the pods are made"
        warnings = (dropped, *warnings)
    if not more and not warnings:
        return verdict
    return replace(
        verdict, violations=verdict.violations + more, warnings=verdict.warnings + warnings
    )


def not_tried(count: int, total: int) -> Iterator[str]:
    """Yield a warning if `count` of the `total` pod templates of an object were not tried."""
    if count:
        yield (
            f"{count} of {total} different pod templates were not checked by the API server, "
            f"because a review checks at most {MOST_TRIED} and waits {SECONDS:g} s; a fault in one "
            "of them shows only when its pods are created"
        )


def violation_of(task: int, fault: StatusCause) -> Violation:
    """Return a fault of the pod template of the task with this index, with its path in the spec."""
    reason = _REASONS.get(fault.reason, Reason.INVALID)
    field = _IN_METADATA.sub("template.metadata.", fault.field)
    return Violation(_path(task, field), reason, None, "", words=fault.message)


def _path(task: int, field: str) -> str:
    return f"spec.tasks[{task}].{field}"


def first_of(texts: Sequence[str]) -> Iterator[str]:
    """Yield the first of the API server's own warnings, and the number of the others."""
    yield from texts[:MOST_WARNINGS]
    if (more := len(texts) - MOST_WARNINGS) > 0:
        yield f"and {more} more warnings of the API server about pod templates"


_CLAIMS = "spec.volumeClaims"


class PatchedPod(NamedTuple):
    """A pod template that is in no JobTemplate."""

    template: bytes
    job: ResolvedSpec
    task: int
    above: tuple[Child[FlowFacts], ...] = ()
    """The child flow that has the job, and before it those above."""

    def place(self, path: str) -> str:
        """Return the path in the outermost flow of a path in the flow that has the job."""
        for child in reversed(self.above):
            path = child.path if path == _CLAIMS else child.place(path)
        return path


def patched_pods(facts: FlowFacts) -> list[PatchedPod]:
    """Return the pod templates of the jobs of a flow, then of its child flows, without open
    references. JobTemplates were tried when they were created, but without the volumes that
    their containers mount, which a flow may provide."""
    found: dict[bytes, PatchedPod] = {}
    _collect(facts, (), found, {})
    return list(found.values())


def _collect(
    facts: FlowFacts,
    above: tuple[Child[FlowFacts], ...],
    found: dict[bytes, PatchedPod],
    incomplete_tasks: dict[int, frozenset[int]],
) -> None:
    for job in facts.resolved_specs:
        own = job.template.spec if job.template is not None else {}
        if id(own) not in incomplete_tasks:
            incomplete_tasks[id(own)] = frozenset(i for i, _ in unprovided_volumes(own))
        incomplete = incomplete_tasks[id(own)]
        # with open references nobody knows the pods yet
        if job.open or not (job.layers or incomplete):
            continue
        templates = pod_templates(own)
        tried = {each.template for each in templates if incomplete.isdisjoint(each.tasks)}
        for each in pod_templates(job.spec):
            if each.template not in tried:
                pod = PatchedPod(each.template, job, each.tasks[0], above)
                found.setdefault(each.template, pod)
    for child in facts.children:
        if child.facts is not None:
            _collect(child.facts, (*above, child), found, incomplete_tasks)


def add_patched_pod_faults(
    verdict: Verdict, tried: Sequence[PatchedPod], answers: Sequence[DryRun | None]
) -> Verdict:
    pairs = answered(tried, answers)
    faults: dict[Violation, None] = {}
    texts = []
    for each, answer in pairs:
        faults |= dict.fromkeys(_faults(each, answer.faults))
        layer = next(iter(each.job.layers), None)
        place = each.place(_CLAIMS if layer is None else layer.written_path(layer.path))
        texts += [f"{place}: {text}" for text in answer.other_warnings]
    return replace(
        verdict,
        violations=tuple(islice(faults, MAX_FINDINGS)),
        warnings=(
            *verdict.warnings,
            *first_of(list(dict.fromkeys(texts))),
            *not_tried(len(tried) - len(pairs), len(tried)),
        ),
    )


def _faults(tried: PatchedPod, causes: Sequence[StatusCause]) -> Iterator[Violation]:
    layers = locations_of(tried.job)
    for cause in causes:
        merged = violation_of(tried.task, cause)
        # only the flow's volume claims have changed the pod
        if not layers:
            words = f"{merged.words} (in {tried.job.title}, {merged.path})"
            yield replace(merged, path=tried.place(_CLAIMS), words=words)
            continue
        placed = innermost(layers, replace(merged, path=merged.path.removeprefix("spec")))
        path, words = tried.place(placed.path), merged.words + placed.detail
        yield replace(placed, path=path, detail="", words=words)
