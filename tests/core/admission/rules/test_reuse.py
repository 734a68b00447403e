"""Rules of spec.reuse and reusePolicy."""

from typing import Any

import msgspec
import pytest

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.admission.validate import Known, Verdict, validate_cron, validate_flow
from jobflow.core.violations import Reason
from support.admission.reviewed import flow_of
from support.sandbox.manifests import jobflow
from support.sandbox.running_controller import cron

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def faults(flow: JobFlow) -> list[str]:
    return [
        f"{each.path} {each.reason.removeprefix('FieldValue')}: {each.message}"
        for each in validate_flow(flow, Known()).violations
    ]


@pytest.mark.parametrize("reuse", [{"flow": "first"}, {"flow": "first.2", "uid": UID}], ids=str)
def test_a_flow_that_is_named_is_admitted(reuse: dict[str, Any]) -> None:
    assert validate_flow(flow_of("a", reuse=reuse), Known()) == Verdict()


@pytest.mark.parametrize(
    ("reuse", "place", "detail"),
    [
        ({}, "flow Required", "write the name of the flow"),
        ({"flow": ""}, "flow Required", "write the name of the flow"),
        ({"uid": UID}, "flow Required", "write the name of the flow"),
        ({"flow": "second"}, "flow Invalid", "a flow cannot reuse itself; name an earlier flow"),
        ({"flow": "team/first"}, "flow Invalid", 'cannot hold "/"'),
        ({"flow": "$(params.x)"}, "flow Invalid", 'cannot hold "$"'),
        ({"flow": "x" * 254}, "flow TooLong", "at most 253"),
        ({"flow": "first", "uid": ""}, "uid Invalid", "a UUID in lower case"),
        ({"flow": "first", "uid": "first"}, "uid Invalid", "a UUID in lower case"),
        ({"flow": "first", "uid": UID.upper()}, "uid Invalid", "a UUID in lower case"),
    ],
    ids=str,
)
def test_other_names_and_uids_are_refused(reuse: Any, place: str, detail: str) -> None:
    (fault,) = faults(flow_of("a", name="second", reuse=reuse))
    assert fault.startswith(f"spec.reuse.{place}: ")
    assert detail in fault


def test_what_the_controller_names_in_a_child_flow_is_admitted() -> None:
    """Such a name may be that of the child itself: step `b-c` of flow `a`, and step `c` of `a-b`
    make the same one."""
    parent = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "name": "a"}
    child = jobflow("a-b-c", {"x": []}, reuse={"flow": "a-b-c", "uid": "1"})
    child["metadata"]["ownerReferences"] = [parent | {"uid": "2", "controller": True}]
    assert faults(msgspec.convert(child, JobFlow)) == []


@pytest.mark.parametrize("policy", ["IfUnchanged", "Never"])
@pytest.mark.parametrize(
    "fields",
    [{}, {"daemon": True}, {"forEach": {"count": 2}}, {"flow": {"flows": [{"name": "x"}]}}],
    ids=str,
)
def test_policies_of_jobs_daemons_and_child_flows_are_admitted(
    fields: dict[str, Any], policy: str
) -> None:
    assert faults(flow_of({"name": "a", "reusePolicy": policy, **fields}, "b")) == []


def test_another_policy_is_refused() -> None:
    (fault,) = faults(flow_of({"name": "a", "reusePolicy": "never"}))
    assert fault.startswith("spec.flows[0].reusePolicy NotSupported: ")
    assert 'supported values: "IfUnchanged", "Never"' in fault


@pytest.mark.parametrize("policy", ["IfUnchanged", "Never", "never"])
def test_a_policy_in_finally_is_refused(policy: str) -> None:
    (fault,) = faults(flow_of("a", **{"finally": [{"name": "b", "reusePolicy": policy}]}))
    assert fault == (
        "spec.finally[0].reusePolicy Forbidden: Forbidden: steps of finally run in every flow, so "
        "their results are never reused; remove it"
    )


def test_a_policy_of_an_approval_is_refused() -> None:
    (fault,) = faults(flow_of({"name": "a", "approval": {}, "reusePolicy": "Never"}))
    assert fault.startswith("spec.flows[0].reusePolicy Forbidden: ")
    assert fault.endswith("; an approval is always asked again, so remove it")


def test_a_child_flow_has_no_reuse_of_its_own() -> None:
    child = {"flows": [{"name": "x"}], "reuse": {"flow": "first"}}
    (fault,) = faults(flow_of({"name": "a", "flow": child}))
    assert fault == (
        "spec.flows[0].flow.reuse Forbidden: Forbidden: a child flow has no reuse of its own; "
        "remove it"
    )


def test_flows_of_a_schedule_reuse_nothing() -> None:
    spec = jobflow("f", {"a": []}, reuse={"flow": "first"})["spec"]
    scheduled = msgspec.convert(cron(jobFlowTemplate={"spec": spec}), CronJobFlow)
    (fault,) = validate_cron(scheduled, Known()).violations
    assert (fault.path, fault.reason) == ("spec.jobFlowTemplate.spec.reuse", Reason.FORBIDDEN)
    assert "`jobflow resubmit FLOW --reuse`" in fault.message
