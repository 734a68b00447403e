"""The name and the manifest of a vcjob (docs/reference.md, JobFlow)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobflow.api.control import Patch
from jobflow.api.jobflow import JobFlow, Step
from model.books import State
from model.words import filled_in

if TYPE_CHECKING:
    from model.reference import Reference


def expected_name(flow: JobFlow, step: Step, index: int | None, number: int) -> str:
    """`number` counts attempts from 1."""
    name = f"{flow.metadata.name}-{step.name}"
    if index is not None:
        name += f"-{index}"
    return name if number == 1 else f"{name}-r{number - 1}"


def expected_spec(reference: Reference, state: State, index: int | None) -> dict[str, Any]:
    """Return the top-level fields of a vcjob: jobDefaults < template < patch < patch of the
    case."""
    defaults, step = reference.flow.spec.job_defaults, state.step
    said: dict[str, Any] = {}
    if defaults is not None and defaults.queue is not None:
        said["queue"] = defaults.queue
    if defaults is not None and defaults.priority_class_name is not None:
        said["priorityClassName"] = defaults.priority_class_name
    template = reference.templates[reference.deciding.template(state)]
    said |= {key: value for key, value in template.items() if key != "tasks"}
    case = step.switch[state.case] if step.switch and state.case is not None else None
    context = reference.deciding.context(state) | reference.deciding.of_item(state, index)
    for patch in (step.patch, case.patch if case else None):
        said |= filled_in(_said(patch), context)
    return said


def _said(patch: Patch | None) -> dict[str, Any]:
    return (patch.job_spec or patch.spec or {}) if patch is not None else {}
