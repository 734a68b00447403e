"""Nulls that have a meaning in a flow, and that `kubectl apply` drops.

A null removes a variable of `env` or a field that a patch merges, and is a value in params and
items. Since kubectl 1.31, client-side apply removes the nulls of all maps from the object that it
sends, but not from the annotation with its configuration. Source: `pruneNullsFromMap` in
kubectl's `pkg/cmd/apply/apply.go`.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec, child_spec
from jobflow.api.flow.traits import JobPart, find_set
from jobflow.api.kinds import KINDS
from jobflow.core.admission.analysis.child_flows import flows_of
from jobflow.core.json_values import is_same_json, walk
from jobflow.core.manifests.crd_schema import without_nulls
from jobflow.core.spec.items import drop_null_keys
from jobflow.core.violations import MAX_FINDINGS, Reason, Violation, format_path

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation in which kubectl stores the object of the file."""
WAYS = "use kubectl apply --server-side, kubectl create or jobflow submit"
_TEMPLATE = "spec.jobFlowTemplate.spec"


def nulls_are_kept(new: JobFlow | CronJobFlow) -> Iterator[Violation]:
    """Check that a new object still has the nulls of its file, if kubectl has applied it."""
    applied = (new.metadata.annotations or {}).get(LAST_APPLIED)
    # parsing takes far longer, and hardly a file has a null
    if applied is None or "null" not in applied:
        return
    try:
        file = msgspec.json.decode(applied)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return
    metadata = file.get("metadata") if isinstance(file, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    # the annotation may have been copied from another object
    if name != new.metadata.name or file.get("kind") != type(new).__name__:
        return
    try:
        places = list(islice(null_places(_to_object(file)), MAX_FINDINGS))
        # equal specs mean that nothing else has changed since kubectl sent it
        sent = _to_object(*drop_null_keys([file])) if places else None
    except msgspec.ValidationError:
        return
    if sent is not None and is_same_json(sent.spec, new.spec):
        detail = (
            "kubectl apply has removed this null of the file, so the flow would run with what it "
            f"removes; {WAYS}, or remove a list element, such as a variable, with $patch: delete"
        )
        yield from (Violation(path, Reason.INVALID, None, detail) for path in places)


def null_places(flow: JobFlow | CronJobFlow) -> Iterator[str]:
    """Yield the JSON path of each null of a map that has a meaning."""
    if isinstance(flow, JobFlow):
        return _in_spec(flow.spec, "spec")
    return _in_spec(flow.flow_spec, _TEMPLATE)


def _in_spec(spec: JobFlowSpec, path: str) -> Iterator[str]:
    for i, param in enumerate(spec.params or ()):
        yield from _in_value(param.value, f"{path}.params[{i}].value")
    steps = [(f"{path}.flows[{i}]", step) for i, step in enumerate(spec.flows or ())]
    steps += [(f"{path}.finally[{i}]", step) for i, step in enumerate(spec.finally_ or ())]
    for at, step in steps:
        if step.for_each is not None:
            yield from _in_value(step.for_each.items, f"{at}.forEach.items")
        for part in find_set(step, JobPart):
            yield from _in_value(part.value, f"{at}.{part.path}")
        for case, raw in flows_of(step):
            place = f"{at}.flow" if case is None else f"{at}.switch[{case}].flow"
            yield from _in_value(raw.get("params"), f"{place}.params")
            child = without_nulls("JobFlow", {"spec": raw})["spec"]
            yield from _in_spec(child_spec(child), place)


def _in_value(value: Any, path: str) -> Iterator[str]:
    for place, inner in walk(value):
        nulls = [key for key in inner if inner[key] is None] if isinstance(inner, dict) else ()
        yield from (format_path((place, key), path) for key in nulls)


def _to_object(file: dict[str, Any]) -> Any:
    """Return the object as an API server would pass it on. Raises msgspec.ValidationError."""
    kind = file["kind"]
    return msgspec.convert(without_nulls(kind, file), KINDS[kind].object_type)
