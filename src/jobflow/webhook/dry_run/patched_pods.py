"""Dry runs for a flow: the pod templates that it and its child flows have or change, and their
faults."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from jobflow.api.resources import StatusCause
from jobflow.core.admission.analysis.child_flows import Child
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.jobs.layer_locations import innermost, locations_of
from jobflow.core.admission.analysis.jobs.resolved_specs import ResolvedSpec
from jobflow.core.manifests.volume_claims import unprovided_volumes
from jobflow.core.violations import MAX_FINDINGS, Verdict, Violation
from jobflow.webhook.dry_run.template_pods import (
    DryRun,
    answered,
    first_of,
    not_tried,
    pod_templates,
    violation_of,
)

_CLAIMS = "spec.volumeClaims"


class PatchedPod(NamedTuple):
    """A pod template that is in no JobTemplate."""

    template: bytes
    """JSON."""
    job: ResolvedSpec
    """The first vcjob with it."""
    task: int
    """The index of the first task with it."""
    above: tuple[Child[FlowFacts], ...] = ()
    """The child flow that has the job, and before it those above."""

    def place(self, path: str) -> str:
        """Return the path in the outermost flow of a path in the flow that has the job."""
        for child in reversed(self.above):
            path = child.path if path == _CLAIMS else child.place(path)
        return path


def patched_pods(facts: FlowFacts) -> list[PatchedPod]:
    """Return the pod templates of the jobs of a flow, then of its child flows, without open
    references. Those of JobTemplates were tried when they were created, except whether all volumes
    exist that containers mount: a flow may provide them."""
    found: dict[bytes, PatchedPod] = {}
    _collect(facts, (), found, {})
    return list(found.values())


def _collect(
    facts: FlowFacts,
    above: tuple[Child[FlowFacts], ...],
    found: dict[bytes, PatchedPod],
    incomplete_tasks: dict[int, frozenset[int]],
) -> None:
    """`incomplete_tasks`: those of templates, by id of the spec, as far as they were looked at."""
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
    """Return the verdict with the faults and warnings of the first pod templates."""
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
