"""Dry runs in reviews of JobFlows, of the pod templates that patches produce."""

from typing import Any

import pytest

from jobflow.api.resources import StatusCause
from jobflow.webhook.tried_pods import DryRun
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


async def test_the_pod_of_a_container_is_tried() -> None:
    manifest = jobflow("f", {"a": []})
    manifest["spec"]["flows"][0] |= {"container": {"image": "i"}, "env": {"A": 1}}
    cluster = refusing_cluster(VOLUME)
    answer = await created(stored(manifest), cluster)
    assert cluster.tried[0][1]["spec"]["containers"] == [
        {"name": "main", "image": "i", "env": [{"name": "A", "value": "1"}]}
    ]
    place = "tasks[0].template.spec.containers[0].volumeMounts[0].name"
    assert answer.faults == {
        "spec.flows[0].container": f'Not found: "data" (at {place} in the merged spec)'
    }


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


def nested(*inner: dict[str, Any], **step: Any) -> dict[str, Any]:
    """Return a flow whose step runs these steps as a child flow of a child flow."""
    manifest = jobflow("f", {"outer": []})
    middle = {"params": {"image": "$(params.image)"}, "flows": [*inner]}
    flow = {"params": {"image": "x"}, "flows": [{"name": "mid", "flow": middle}]}
    manifest["spec"]["flows"][0] |= {"flow": flow, **step}
    return stored(manifest)


INNER = "spec.flows[0].flow.flows[0].flow"


async def test_pods_of_child_flows_are_tried_with_the_outermost_flow() -> None:
    cluster = refusing_cluster(INVALID_PORT)
    work = {"image": "$(params.image)", "ports": [{"containerPort": 0}]}
    answer = await created(nested({"name": "a", "container": work}), cluster)
    assert images(cluster) == ["x"]
    assert answer.faults == {
        f"{INNER}.flows[0].container.ports[0].containerPort": (
            "Invalid value: 0: must be between 1 and 65535, inclusive"
        )
    }


async def test_pods_of_child_flows_whose_values_only_a_run_knows_are_not_tried() -> None:
    cluster = cluster_with()
    work = {"image": "$(params.image)"}
    manifest = nested({"name": "a", "container": work}, forEach={"items": ["y", "z"]})
    manifest["spec"]["flows"][0]["flow"]["params"]["image"] = "$(item)"
    assert (await created(manifest, cluster)).allowed
    assert images(cluster) == []


async def test_pods_of_a_flow_and_of_its_child_flows_share_one_bound() -> None:
    inner = [{"name": f"a{i}", "container": {"image": f"y{i}"}} for i in range(40)]
    manifest = nested(*inner)
    manifest["spec"]["flows"] += [
        {"name": f"b{i}", "container": {"image": f"x{i}"}} for i in range(30)
    ]
    cluster = cluster_with()
    (warning,) = (await created(manifest, cluster)).warnings
    assert warning.startswith("6 of 70 different pod templates were not checked by the API server")
    assert images(cluster)[:30] == [f"x{i}" for i in range(30)]


async def test_a_child_flow_that_lacks_the_volume_of_a_template_is_refused() -> None:
    cluster = FakeCluster(
        known_templates={"a": mounting("data")}, says=lambda pod: DryRun((VOLUME,))
    )
    answer = await created(nested({"name": "s", "template": "a"}), cluster)
    place = "spec.tasks[0].template.spec.containers[0].volumeMounts[0].name"
    assert answer.faults == {INNER: f'Not found: "data" (in template "a", {place})'}


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


CLAIMS = {"data": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}


def mounting(*names: str) -> dict[str, Any]:
    """A JobTemplate whose container mounts volumes that its pod does not have."""
    manifest = template("a")
    (task,) = manifest["spec"]["tasks"]
    container = task["template"]["spec"]["containers"][0]
    container["volumeMounts"] = [{"name": name, "mountPath": f"/{name}"} for name in names]
    return stored(manifest)


def plain_flow(**spec: Any) -> dict[str, Any]:
    manifest = jobflow("f", {"s": []}, **spec)
    manifest["spec"]["flows"][0]["template"] = "a"
    return stored(manifest)


async def test_pods_are_tried_with_the_volumes_of_the_flow() -> None:
    cluster = FakeCluster(known_templates={"a": mounting("data")})
    assert (await created(plain_flow(volumeClaims=CLAIMS), cluster)).allowed
    ((_, pod),) = cluster.tried
    claim = {"claimName": "f-data"}
    assert pod["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": claim}]


async def test_a_flow_that_lacks_the_volume_of_a_template_is_refused() -> None:
    cluster = FakeCluster(
        known_templates={"a": mounting("data")}, says=lambda pod: DryRun((VOLUME,))
    )
    answer = await created(plain_flow(), cluster)
    place = "spec.tasks[0].template.spec.containers[0].volumeMounts[0].name"
    assert answer.faults == {"spec.volumeClaims": f'Not found: "data" (in template "a", {place})'}


async def test_a_template_may_mount_a_volume_that_only_a_flow_has() -> None:
    cluster = FakeCluster()
    assert (await created(mounting("data"), cluster)).allowed
    ((_, pod),) = cluster.tried
    assert pod["spec"]["volumes"] == [{"name": "data", "emptyDir": {}}]
