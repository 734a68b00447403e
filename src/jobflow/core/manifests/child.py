"""Manifest of the child flow that a step runs. The controller judges it again before it starts."""

from typing import Any

import msgspec

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import InChild, fields_of
from jobflow.api.resources import JOBFLOWS
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import resolve_references
from jobflow.core.json_values import copy_json
from jobflow.core.manifests.job import Attempt, attempt_labels
from jobflow.core.manifests.owner import owner_reference, root_label
from jobflow.core.names import to_label_value

INHERITED = {
    field.name: field.json
    for field in fields_of(JobFlowSpec)
    if field.get(InChild) == InChild(inherited=True)
}
"""Fields of the parent's spec that a child without them has too: Python names -> JSON names."""


def build_child(
    flow: JobFlow, step: Step, raw: dict[str, Any], attempt: Attempt
) -> dict[str, Any] | EvaluationFailure:
    """Return the manifest of a child flow, or a Failure if a reference in its params has no value.
    `raw`: the field `flow` of the step or of its case."""
    # only params have references to the parent; the rest is the child's own
    params = raw.get("params") or {}
    if attempt.seen is not None:
        params = resolve_references(params, attempt.seen)
        if isinstance(params, EvaluationFailure):
            return params
    annotations = {labels.STEP: step.name, labels.TARGET_ENDS: attempt.target_ends}
    if attempt.index is not None:
        annotations[labels.INDEX] = str(attempt.index)
    values = ((json, getattr(flow.spec, name)) for name, json in INHERITED.items())
    inherited = {json: msgspec.to_builtins(each) for json, each in values if each is not None}
    return {
        "apiVersion": JOBFLOWS.api_version,
        "kind": JOBFLOWS.kind,
        "metadata": {
            "name": attempt.name,
            "namespace": flow.metadata.namespace,
            "labels": {
                labels.PARENT: to_label_value(flow.metadata.name),
                labels.ROOT: root_label(flow),
                **attempt_labels(step, attempt),
            },
            "annotations": annotations,
            "ownerReferences": [owner_reference(flow)],
        },
        "spec": inherited | spec_with_params(raw, params),
    }


def spec_with_params(raw: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    """Return the spec of the child flow with these params, which a flow has as a list."""
    # the manifest must not change the parent's spec
    spec = copy_json({key: value for key, value in raw.items() if key != "params"})
    if params:
        spec["params"] = [{"name": name, "value": value} for name, value in params.items()]
    return spec
