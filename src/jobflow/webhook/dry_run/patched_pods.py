"""The pod templates that a flow's patches make, for a dry run by the API server, and the faults of
the flow that its answers show. It sends nothing; `pod_templates` does the same for a JobTemplate.
"""

from __future__ import annotations

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
    first_of,
    not_tried,
    pod_templates,
    violation_of,
)


class Patched(NamedTuple):
    """A pod template that patches make."""

    template: bytes
    """JSON."""
    kind: ResolvedSpec
    """The first vcjob that has it."""
    task: int
    """The first task of that vcjob that has it."""


def patched_pods(facts: FlowFacts) -> list[Patched]:
    """The pod templates of steps that their patches change and whose references all have values,
    equal ones once. Those that a JobTemplate has were tried with it."""
    found: dict[bytes, Patched] = {}
    for kind in facts.resolved_specs:
        if not kind.changes or kind.open:
            continue
        theirs = {each.template for each in pod_templates(kind.template.spec)}
        for each in pod_templates(kind.spec):
            if each.template not in theirs:
                found.setdefault(each.template, Patched(each.template, kind, each.tasks[0]))
    return list(found.values())


def flow_in_depth(
    verdict: Verdict, tried: Sequence[Patched], answers: Sequence[DryRun | None]
) -> Verdict:
    """The verdict of the rules, and what the API server found in the first pod templates. None: it
    did not answer in time."""
    pairs = [
        (each, answer) for each, answer in zip(tried, answers, strict=False) if answer is not None
    ]
    faults = (fault for each, answer in pairs for fault in _faults(each, answer.faults))
    texts = (
        f"{each.kind.changes[0].path}: {text}"
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


def _faults(tried: Patched, causes: Sequence[StatusCause]) -> Iterator[Violation]:
    """The faults of a merged pod template at the places of the patch that they come from."""
    layers = locations_of(tried.kind)
    for cause in causes:
        merged = violation_of(tried.task, cause)
        words = merged.words
        placed = innermost(layers, replace(merged, path=merged.path.removeprefix("spec")))
        yield replace(placed, detail="", words=words + placed.detail)
