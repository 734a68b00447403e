"""Doubts about an object, each with its place. The webhook warns of them; lint refuses those that
have a reason.

Nothing here refuses at admission, because Volcano takes each of these objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from jobflow.core.admission.analysis.flow_facts import Outline
from jobflow.core.admission.analysis.patch_locations import as_written
from jobflow.core.admission.lookalikes import MOST as MOST_LOOKALIKES
from jobflow.core.admission.lookalikes import lookalikes
from jobflow.core.admission.rule import Group
from jobflow.core.admission.volcano.job_view import JobView, job_view
from jobflow.core.cel.references import references
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.violations import Doubt, Reason, quoted

FlowDoubt = Callable[[Outline], Iterator[Doubt]]
GUESSES = 100
"""Names of tasks and containers for which there is a guess, for all patches of a flow."""


def fields_of_patches_exist(outline: Outline) -> Iterator[Doubt]:
    """Volcano drops a field that it does not know."""
    for change, found in outline.misfits:
        for doubt in found.doubts:
            yield as_written(doubt, change.path, change.written)


def patches_mean_their_template(outline: Outline) -> Iterator[Doubt]:
    """A task or container with a name that the template does not have is added to the job."""
    said: set[str] = set()
    for kind, change, stranger in outline.strangers:
        if stranger.path in said or stranger.name is None:
            continue
        said.add(stranger.path)
        near = Suggester(stranger.known).nearest(stranger.name) if len(said) <= GUESSES else None
        detail = (
            f'template "{kind.template.metadata.name}" has no {stranger.word} '
            f"{quoted(stranger.name)}, so the patch adds one{did_you_mean(near)}"
        )
        reason = Reason.NOT_FOUND if near else None
        doubt = Doubt(f"{stranger.path}.name", detail, reason, stranger.name)
        yield as_written(doubt, change.path, change.written)


def references_are_written_as_such(outline: Outline) -> Iterator[Doubt]:
    """A text that only looks like a reference stays as it is."""
    left = MOST_LOOKALIKES
    for change in outline.changes:
        for found in lookalikes(change.written, change.path):
            detail = (
                f"{quoted(found.text)} looks like a reference but is not one, so it is left as it "
                f"is ({found.advice}); if that is intended, write $$( instead of $("
            )
            yield Doubt(found.path, detail)
            left -= 1
        if left <= 0:
            return


FLOW_DOUBTS = (
    Group[FlowDoubt](
        lambda outline: outline.changes,
        (
            fields_of_patches_exist,
            patches_mean_their_template,
            references_are_written_as_such,
        ),
    ),
)


def template_doubts(spec: Any, path: str) -> Iterator[Doubt]:
    """Doubts about the spec of a JobTemplate at `path`, except unknown fields."""
    job = job_view(spec, path, None)
    yield from _tasks_without_pods(job)
    yield from _pods_that_start_again(job)
    for place, reference in islice(references(spec, path), MOST_LOOKALIKES):
        text = quoted(f"$({reference.path})")
        yield Doubt(
            place, f"{text} is left as it is, because only patches of steps have references"
        )


def _tasks_without_pods(job: JobView) -> Iterator[Doubt]:
    """Volcano takes a missing number for 0. A 0 that is written is legal beside a
    task that has pods."""
    unset = [task for task in job.tasks if task.raw.get("replicas") is None]
    for task in unset:
        detail = "without replicas this task has no pod, and a job without pods never ends"
        yield Doubt(f"{task.path}.replicas", detail, Reason.REQUIRED)
    if job.tasks and not unset and all(task.replicas == 0 for task in job.tasks):
        detail = (
            "every task has 0 replicas, and a job without pods never ends; set the replicas of at "
            "least one task"
        )
        yield Doubt(f"{job.path}.tasks", detail, Reason.REQUIRED)


def _pods_that_start_again(job: JobView) -> Iterator[Doubt]:
    """Kubernetes starts the containers of such a pod again whenever they end."""
    for task in job.tasks:
        if task.pod_spec.get("containers") and not task.pod_spec.get("restartPolicy"):
            detail = (
                "without a restartPolicy, Kubernetes restarts containers whenever they end, so "
                "these pods never finish; set it to Never or OnFailure"
            )
            yield Doubt(f"{task.path}.template.spec.restartPolicy", detail)
