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

from jobflow.api.flow.control import Case
from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec, child_spec
from jobflow.api.flow.step import Step
from jobflow.api.kinds import KINDS
from jobflow.core.json_values import copy_json, is_same_json
from jobflow.core.manifests.crd_schema import without_nulls
from jobflow.core.manifests.layers import free_form_values
from jobflow.core.violations import MAX_FINDINGS, Place, Reason, Violation, format_path

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation in which kubectl stores the object of the file."""
WAYS = "use kubectl apply --server-side, kubectl create or jobflow submit"
_TEMPLATE = "spec.jobFlowTemplate.spec"


def nulls_are_kept(new: JobFlow | CronJobFlow) -> Iterator[Violation]:
    """Check that a new object still has the nulls of its file, if kubectl has applied it."""
    kind = type(new).__name__
    if (applied := _applied(new, kind)) is None:
        return
    places = list(islice(null_places(_typed(applied, kind)), MAX_FINDINGS))
    if places and is_same_json(_typed(_without_nulls(applied), kind).spec, new.spec):
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
    for field, steps in (("flows", spec.flows), ("finally", spec.finally_)):
        for i, step in enumerate(steps or ()):
            yield from _in_step(step, f"{path}.{field}[{i}]")


def _in_step(step: Step, path: str) -> Iterator[str]:
    if step.for_each is not None:
        yield from _in_value(step.for_each.items, f"{path}.forEach.items")
    owners: list[tuple[str, Step | Case]] = [(path, step)]
    owners += [(f"{path}.switch[{i}]", case) for i, case in enumerate(step.switch or ())]
    for at, owner in owners:
        for field, value in free_form_values(owner):
            yield from _in_value(value, f"{at}.{field}")
        if owner.flow is not None:
            yield from _in_value(owner.flow.get("params"), f"{at}.flow.params")
            child = without_nulls("JobFlow", {"spec": owner.flow})["spec"]
            yield from _in_spec(child_spec(child), f"{at}.flow")


def _in_value(value: Any, path: str) -> Iterator[str]:
    pending: list[tuple[Place, Any]] = [(None, value)]
    while pending:
        place, inner = pending.pop()
        if isinstance(inner, dict):
            yield from (
                format_path((place, key), path) for key, each in inner.items() if each is None
            )
            pending += [((place, key), each) for key, each in reversed(inner.items())]
        elif isinstance(inner, list):
            pending += [((place, i), inner[i]) for i in reversed(range(len(inner)))]


def _applied(new: JobFlow | CronJobFlow, kind: str) -> dict[str, Any] | None:
    """Return the object of the file from which kubectl has made this one, or None if there is none
    with nulls."""
    text = (new.metadata.annotations or {}).get(LAST_APPLIED, "")
    if "null" not in text:
        return None
    try:
        found = msgspec.json.decode(text)
        named = msgspec.convert(found, _Named)
        _typed(found, kind)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    is_its_own = named.kind == kind and named.metadata.name == new.metadata.name
    return found if is_its_own else None


class _NamedMetadata(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    kind: str
    metadata: _NamedMetadata


def _typed(value: dict[str, Any], kind: str) -> Any:
    """Return the object as an API server would pass it on. Raises msgspec.ValidationError."""
    return msgspec.convert(without_nulls(kind, value), KINDS[kind].object_type)


def _without_nulls(value: dict[str, Any]) -> dict[str, Any]:
    """Return a copy without the nulls of all maps; those of lists stay."""
    copy = copy_json(value)
    pending: list[Any] = [copy]
    while pending:
        inner = pending.pop()
        if isinstance(inner, dict):
            for key in [key for key, each in inner.items() if each is None]:
                del inner[key]
            pending += inner.values()
        elif isinstance(inner, list):
            pending += inner
    return copy
