"""Dry runs in reviews of JobFlows, of the pod templates that patches produce."""

from typing import Any

import pytest

from jobflow.api.resources import StatusCause
from jobflow.webhook.dry_run.template_pods import DryRun
from support.admission.admissions import (
    INVALID_PORT,
    FakeCluster,
    created,
    stored,
)
from support.sandbox.manifests import jobflow, template

VOLUME = StatusCause(
    reason="FieldValueNotFound",
    field="template.spec.containers[0].volumeMounts[0].name",
    message='Not found: "data"',
)
AT = "spec.flows[0].patch.jobSpec.tasks[0].template.spec.containers[0]"


def flow(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    manifest = jobflow("f", {f"s{i}": [] for i in range(len(containers))}, **spec)
    for step, container in zip(manifest["spec"]["flows"], containers, strict=True):
        pod = {"spec": {"containers": [{"name": "main", **container}]}}
        step["template"] = "a"
        step["patch"] = {"jobSpec": {"tasks": [{"name": "main", "template": pod}]}}
    return stored(manifest)


def cluster_with(says: Any = lambda template: DryRun(), **cluster: Any) -> FakeCluster:
    return FakeCluster(known_templates={"a": stored(template("a"))}, says=says, **cluster)


def refusing_cluster(*faults: StatusCause) -> FakeCluster:
    return cluster_with(lambda template: DryRun(faults))


def images(cluster: FakeCluster) -> list[str]:
    return [template["spec"]["containers"][0]["image"] for _, template in cluster.tried]


async def test_a_fault_is_located_in_the_patch() -> None:
    cluster = refusing_cluster(INVALID_PORT)
    answer = await created(flow({"ports": [{"containerPort": 0}]}), cluster)
    assert answer.faults == {
        f"{AT}.ports[0].containerPort": "Invalid value: 0: must be between 1 and 65535, inclusive"
    }


async def test_a_fault_outside_the_patch_has_its_path_in_the_merged_spec() -> None:
    answer = await created(flow({"image": "other"}), refusing_cluster(VOLUME))
    place = "tasks[0].template.spec.containers[0].volumeMounts[0].name"
    assert answer.faults == {AT: f'Not found: "data" (at {place} in the merged spec)'}


@pytest.mark.parametrize(
    ("patches", "known", "allowed", "tried"),
    [
        ([{"image": "x"}, {"image": "y"}, {"image": "x"}, {}], cluster_with(), True, ["x", "y"]),
        ([{"image": "x", "command": "echo"}], cluster_with(), False, []),
        ([{"image": "x"}], FakeCluster(), True, []),
    ],
    ids=["once each", "refused by a rule", "an unknown template"],
)
async def test_different_patched_pods_are_tried(
    patches: list[Any], known: FakeCluster, allowed: bool, tried: list[str]
) -> None:
    assert (await created(flow(*patches), known)).allowed is allowed
    assert images(known) == tried


async def test_only_references_with_a_value_are_tried() -> None:
    cluster = cluster_with()
    manifest = flow({"image": "$(params.image)"}, {"image": "$(item)"}, params=[
        {"name": "image", "value": "x"}
    ])  # fmt: skip
    manifest["spec"]["flows"][1]["forEach"] = {"items": ["y", "z"]}
    assert (await created(manifest, cluster)).allowed
    assert images(cluster) == ["x"]


async def test_warnings_are_returned_except_for_unknown_fields() -> None:
    texts = ('unknown field "template.spec.containers[0].argz"', "would violate PodSecurity")
    cluster = cluster_with(lambda template: DryRun(warnings=texts))
    answer = await created(flow({"argz": ["x"]}), cluster)
    assert answer.warnings == [
        "spec.flows[0].patch.jobSpec: would violate PodSecurity",
        f'{AT}.argz: unknown field; did you mean "args"?',
    ]


async def test_pods_that_are_not_tried_get_a_warning() -> None:
    answer = await created(flow(*({"image": f"x{i}"} for i in range(70))), cluster_with())
    (warning,) = answer.warnings
    assert warning.startswith("6 of 70 different pod templates were not checked by the API server")
