"""Nulls that `kubectl apply` has removed from a flow before it sent it."""

import copy
import json
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.admission.applied_nulls import LAST_APPLIED
from jobflow.core.admission.validate import Known, validate_cron, validate_flow
from support.sandbox.running_controller import cron

PATCH = {"jobSpec": {"queue": None, "tasks": [{"template": {"metadata": {"labels": {"t": None}}}}]}}
CHILD = {"params": {"p": None, "q": {"r": None}}, "flows": [{"name": "b", "env": {"C": None}}]}


def without(value: Any) -> Any:
    """Return JSON as `kubectl apply` sends it."""
    if isinstance(value, dict):
        return {key: without(each) for key, each in value.items() if each is not None}
    return [without(each) for each in value] if isinstance(value, list) else value


def applied(file: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return the object of a file after `kubectl apply`. `metadata`: that of the annotation."""
    annotated = {**file, "metadata": {**file["metadata"], **metadata}}
    sent = without(copy.deepcopy(file))
    sent["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(annotated)}
    return sent


def flow(*steps: Any, name: str = "f", **spec: Any) -> dict[str, Any]:
    spec = {"flows": [{"name": "a"} | step for step in steps], **spec}
    return {"kind": "JobFlow", "metadata": {"name": name}, "spec": spec}


def refused(manifest: dict[str, Any]) -> list[str]:
    """Return the paths of nulls for which an object is refused."""
    if manifest["kind"] == "JobFlow":
        verdict = validate_flow(msgspec.convert(manifest, JobFlow), Known())
    else:
        verdict = validate_cron(msgspec.convert(manifest, CronJobFlow), Known())
    return [each.path for each in verdict.violations if "kubectl apply" in each.detail]


@pytest.mark.parametrize(
    ("file", "paths"),
    [
        (flow({"env": {"A": "1", "B": None}}), ["flows[0].env.B"]),
        (
            flow({"patch": PATCH}),
            [
                "flows[0].patch.jobSpec.queue",
                "flows[0].patch.jobSpec.tasks[0].template.metadata.labels.t",
            ],
        ),
        (flow({"container": {"image": "x", "tty": None}}), ["flows[0].container.tty"]),
        (flow({"jobSpec": {"queue": None}}), ["flows[0].jobSpec.queue"]),
        (flow({"retry": {"limit": 1, "patch": {"jobSpec": {"queue": None}}}}),
         ["flows[0].retry.patch.jobSpec.queue"]),
        (flow({"switch": [{"patch": {"spec": {"queue": None}}}]}),
         ["flows[0].switch[0].patch.spec.queue"]),
        (flow({"forEach": {"items": [None, {"a": None, "b": 1}]}}),
         ["flows[0].forEach.items[1].a"]),
        (flow({}, params=[{"name": "p", "value": {"a": None, "b": 1}}]), ["params[0].value.a"]),
        (flow({}, **{"finally": [{"name": "z", "env": {"B": None}}]}), ["finally[0].env.B"]),
        (
            flow({"flow": CHILD}),
            [
                "flows[0].flow.params.p",
                "flows[0].flow.params.q.r",
                "flows[0].flow.flows[0].env.C",
            ],
        ),
    ],
)  # fmt: skip
def test_a_removed_null_that_has_a_meaning_is_refused(file: Any, paths: list[str]) -> None:
    assert refused(applied(file)) == [f"spec.{path}" for path in paths]


@pytest.mark.parametrize(
    "file",
    [
        flow({"env": {"A": "1"}, "retry": None}, timeout=None),
        flow({"forEach": {"items": [None, 1]}}),
        flow({"env": None, "patch": None}),
        flow({"flow": {"timeout": None, "flows": [{"name": "b", "retry": None}]}}),
    ],
)
def test_a_null_without_a_meaning_or_in_a_list_is_not_refused(file: Any) -> None:
    assert refused(applied(file)) == []


FILE = flow({"env": {"A": "1", "B": None}})


@pytest.mark.parametrize(
    "sent",
    [
        FILE,
        applied(FILE, name="other"),
        applied(FILE) | {"spec": {"flows": [{"name": "a", "env": {"A": "2"}}]}},
        applied(FILE) | {"spec": FILE["spec"]},
        {**FILE, "metadata": {"name": "f", "annotations": {LAST_APPLIED: "null"}}},
        {**FILE, "metadata": {"name": "f", "annotations": {LAST_APPLIED: "[" * 10_000 + "null"}}},
        {**FILE, "metadata": {"name": "f", "annotations": {LAST_APPLIED: '{"spec": null, "kind'}}},
        {**FILE, "metadata": {"name": "f", "annotations": {LAST_APPLIED: '{"metadata": [null]}'}}},
    ],
)
def test_an_annotation_of_another_object_says_nothing(sent: Any) -> None:
    assert refused(sent) == []


def test_the_flows_of_a_cron_keep_their_nulls_too() -> None:
    file = cron()
    file["spec"]["suspend"] = None
    file["spec"]["jobFlowTemplate"]["spec"]["flows"] = [{"name": "a", "env": {"B": None}}]
    assert refused(applied(file)) == ["spec.jobFlowTemplate.spec.flows[0].env.B"]
