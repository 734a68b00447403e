"""Dry runs for a flow: the pod templates that its patches produce, and their faults."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from jobflow.api.resources import StatusCause
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.patch_locations import innermost, locations_of
from jobflow.core.admission.analysis.resolved_specs import ResolvedSpec
from jobflow.core.violations import MAX_FINDINGS, Verdict, Violation
from jobflow.webhook.dry_run.template_pods import (
    DryRun,
    answered,
    first_of,
    not_tried,
    pod_templates,
    violation_of,
)


class PatchedPod(NamedTuple):
    """A pod template that patches produce."""

    template: bytes
    """JSON."""
    job: ResolvedSpec
    """The first vcjob with it."""
    task: int
    """The index of the first task with it."""


def patched_pods(facts: FlowFacts) -> list[PatchedPod]:
    """Return the pod templates that patches produce, without open references. Pod
    templates of the JobTemplate itself were tried when it was created."""
    found: dict[bytes, PatchedPod] = {}
    for job in facts.resolved_specs:
        if not job.changes or job.open:
            continue
        unpatched = {each.template for each in pod_templates(job.template.spec)}
        for each in pod_templates(job.spec):
            if each.template not in unpatched:
                found.setdefault(each.template, PatchedPod(each.template, job, each.tasks[0]))
    return list(found.values())


def add_patched_pod_faults(
    verdict: Verdict, tried: Sequence[PatchedPod], answers: Sequence[DryRun | None]
) -> Verdict:
    """Return the verdict with the faults and warnings of the first pod templates."""
    pairs = answered(tried, answers)
    faults = (fault for each, answer in pairs for fault in _faults(each, answer.faults))
    texts = (
        f"{each.job.changes[0].path}: {text}"
        for each, answer in pairs
        for text in answer.other_warnings
    )
    return replace(
        verdict,
        violations=tuple(islice(dict.fromkeys(faults), MAX_FINDINGS)),
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
        placed = innermost(layers, replace(merged, path=merged.path.removeprefix("spec")))
        yield replace(placed, detail="", words=merged.words + placed.detail)
