"""Unknown fields and wrong types of jobs and their pods, and the right place of a field."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.core.admission.analysis.jobs.resolved_specs import is_open
from jobflow.core.manifests.job_fields import MAX_GUESSES, meant, misfits
from jobflow.core.violations import MAX_FINDINGS

POD = "spec.tasks[0].template.spec"


def pod(container: Any = None, **spec: Any) -> dict[str, Any]:
    pod_spec = {"containers": [{"name": "main", "image": "x", **(container or {})}], **spec}
    return {"tasks": [{"name": "main", "replicas": 1, "template": {"spec": pod_spec}}]}


def type_faults(spec: Any) -> list[str]:
    return [str(violation) for violation in misfits(spec, "spec").violations]


def unknown(spec: Any) -> list[str]:
    return [str(warning) for warning in misfits(spec, "spec").field_warnings]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        pod(),
        pod({"command": ["sh"], "env": [{"name": "A", "value": ""}]}),
        pod({"resources": {"limits": {"cpu": 1, "memory": "2Gi", "nvidia.com/gpu": "1"}}}),
        pod({"resources": {"requests": {"cpu": 0.5, "memory": "1.5e9", "x": "-1", "y": "100m"}}}),
        pod({"livenessProbe": {"httpGet": {"port": "web"}, "periodSeconds": 3}}),
        pod({"livenessProbe": {"httpGet": {"port": 80, "scheme": "HTTP"}}}),
        pod({"ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81.0}]}),
        pod({"imagePullPolicy": "", "env": None, "resources": None}, restartPolicy="Never"),
        pod(tolerations=[{"key": "a", "operator": "Gt", "effect": ""}]),
        pod(volumes=[{"name": "v", "emptyDir": {"sizeLimit": "1Gi", "medium": "Memory"}}]),
        pod(volumes=[{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}]),
        pod(securityContext={"runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}),
        {"tasks": [{"template": {"metadata": {"labels": {"a": "b"}, "creationTimestamp": None}}}]},
        {"tasks": [{"template": {"metadata": {"uid": 7, "managedFields": "dropped by Volcano"}}}]},
        {"volumes": [{"mountPath": "/x", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]},
        {"tasks": None, "queue": None, "plugins": {"anything": []}},
    ],
)
def test_valid_specs_are_accepted(spec: dict[str, Any]) -> None:
    found = misfits(spec, "spec")
    assert (found.violations, found.field_warnings) == ((), ())


@pytest.mark.parametrize(
    ("spec", "at", "words"),
    [
        (pod({"command": "echo hi"}), f"{POD}.containers[0].command",
         'must be of type array: "string"; write a list: ["sh", "-c", "echo hi"]'),
        (pod({"env": [{"name": "A", "value": 5}]}), f"{POD}.containers[0].env[0].value",
         'must be of type string: "integer"; write "5", in quotes'),
        (pod({"env": {"A": "5"}}), f"{POD}.containers[0].env",
         'must be of type array: "object"; write a list: [{name: …, value: "…"}]'),
        (pod({"ports": [{"containerPort": "80"}]}), f"{POD}.containers[0].ports[0].containerPort",
         'must be of type integer: "string"; write 80, without quotes'),
        (pod({"args": ["a", None]}), f"{POD}.containers[0].args[1]",
         'must be of type string: "null"; remove the empty item'),
        (pod({"livenessProbe": {"httpGet": {"port": True}}}),
         f"{POD}.containers[0].livenessProbe.httpGet.port",
         'must be of type integer,string: "boolean"'),
        (pod({"tty": "yes"}), f"{POD}.containers[0].tty",
         'must be of type boolean: "string"; write true, without quotes'),
        (pod(nodeSelector={"gpu": True}), f"{POD}.nodeSelector.gpu",
         'must be of type string: "boolean"; write "true", in quotes'),
        (pod({"resources": {"requests": {"memory": "2 GB"}}}),
         f"{POD}.containers[0].resources.requests.memory",
         'must be a quantity, such as 2, "500m" or "2Gi"; did you mean "2G"?'),
        (pod(restartPolicy="Sometimes"), f"{POD}.restartPolicy",
         'supported values: "Always", "OnFailure", "Never"'),
        (pod({"image": True}), f"{POD}.containers[0].image",
         'must be of type string: "boolean"; put it in quotes: YAML reads y, yes and on as true'),
        ({"tasks": [{"template": {"spec": [1]}}]}, POD, 'must be of type object: "array"'),
        ({"volumes": [{"volumeClaim": {"volumeMode": 1}}]},
         "spec.volumes[0].volumeClaim.volumeMode",
         'must be of type string: "integer"; write "1", in quotes'),
    ],
)  # fmt: skip
def test_a_wrong_type_of_a_pod_is_a_fault(spec: dict[str, Any], at: str, words: str) -> None:
    (fault,) = misfits(spec, "spec").violations
    assert (fault.path, fault.detail) == (at, words)


def test_wrong_types_of_the_job_itself_are_left_to_its_schema() -> None:
    assert type_faults({"tasks": {"a": 1}, "queue": 7, "volumes": [3], "policies": "x"}) == []


@pytest.mark.parametrize(
    ("place", "name", "words"),
    [
        ("", "env", "; it belongs in tasks[].template.spec.containers[].env"),
        ("", "containers", "; it belongs in tasks[].template.spec.containers"),
        ("", "replicas", "; it belongs in tasks[].replicas"),
        ("", "minAvailabel", '; did you mean "minAvailable"?'),
        ("", "Queue", '; did you mean "queue"?'),
        ("", "backoffLimit", "; it belongs in maxRetry"),
        ("", "fromANewerVolcano", ""),
        ("", "x" * 1000, ""),
        ("tasks[]", "containers", "; it belongs in template.spec.containers"),
        ("tasks[]", "restartPolicy", "; it belongs in template.spec.restartPolicy"),
        ("tasks[]", "resources", "; it belongs in template.spec.containers[].resources"),
        ("tasks[]", "timeout", "; it is a field of a JobFlow's step: spec.flows[].timeout"),
        ("tasks[]", "queue", "; it belongs in spec.queue of the job"),
        ("tasks[].template", "containers", "; it belongs in spec.containers"),
        ("tasks[].template", "labels", "; it belongs in metadata.labels"),
        ("tasks[].template.spec", "image", "; it belongs in containers[].image"),
        ("tasks[].template.spec", "replicas", "; it belongs in spec.tasks[].replicas of the job"),
        ("tasks[].template.spec.containers[]", "argz", '; did you mean "args"?'),
        ("tasks[].template.spec.initContainers[]", "nodeSelector",
         "; it belongs in spec.tasks[].template.spec.nodeSelector of the job"),
        ("tasks[].template.spec.containers[]", "memory",
         "; it belongs in resources.requests.memory"),
        ("tasks[].template.spec.containers[].resources", "cpu", "; it belongs in requests.cpu"),
        ("volumes[].volumeClaim", "storageClas", '; did you mean "storageClassName"?'),
    ],
)  # fmt: skip
def test_an_unknown_field_has_a_hint_for_its_place(place: str, name: str, words: str) -> None:
    assert meant(place, name) == words


def test_unknown_fields_are_reported_with_their_places() -> None:
    spec = pod({"argz": ["x"]}, hostNetwrk=True) | {"env": []}
    spec["tasks"][0] |= {"containers": [], "dependsOn": {"names": ["a"]}}
    assert unknown(spec) == [
        "spec.env: unknown field; it belongs in tasks[].template.spec.containers[].env",
        "spec.tasks[0].containers: unknown field; it belongs in template.spec.containers",
        'spec.tasks[0].dependsOn.names: unknown field; did you mean "name"?',
        f'{POD}.hostNetwrk: unknown field; did you mean "hostNetwork"?',
        f'{POD}.containers[0].argz: unknown field; did you mean "args"?',
    ]


def test_a_directive_is_a_field_in_a_patch_only() -> None:
    spec = {"$patch": "replace", "tasks": [{"$patch": "delete", "name": "a"}]}
    assert misfits(spec, "spec", is_open=is_open, has_directives=True).field_warnings == ()
    assert len(misfits(spec, "spec").field_warnings) == 2


def test_a_reference_without_a_value_fits_any_type() -> None:
    spec = pod({"args": "$(item)", "tty": "$(item.tty)", "stdin": "$(date)"})
    (fault,) = misfits(spec, "spec", is_open=is_open).violations
    assert fault.path == f"{POD}.containers[0].stdin"


@pytest.mark.long
def test_the_number_of_misfits_is_limited() -> None:
    many = {f"comman{i}": 1 for i in range(MAX_FINDINGS)} | {"command": "x"}
    found = misfits(pod(many) | {"tasks2": 1}, "spec")
    assert len(found.field_warnings) == MAX_FINDINGS
    assert len(found.violations) == 1
    assert sum("did you mean" in warning.detail for warning in found.field_warnings) == MAX_GUESSES
    assert len(misfits(pod({"args": [1] * (2 * MAX_FINDINGS)}), "spec").violations) == MAX_FINDINGS


LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text()
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            "tasks template spec containers env resources limits volumes metadata labels name "
            "$patch command x".split()
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(JSON, st.booleans())
def test_no_spec_makes_the_check_raise(spec: Any, patch: bool) -> None:
    found = misfits(spec, "spec", is_open=is_open if patch else None)
    assert all(str(each) for each in (*found.violations, *found.field_warnings))


@pytest.mark.parametrize(
    ("written", "suggestion"),
    [
        ("4gb", "4G"),
        ("4g", "4G"),
        ("4 GiB", "4Gi"),
        ("4gi", "4Gi"),
        ("1.5 Tb", "1.5T"),
        ("64KB", "64k"),
        ("64kib", "64Ki"),
        ("512mb", "512M"),
        ("500 m", "500m"),
        ("5B", "5"),
    ],
)
def test_malformed_quantities_have_a_suggestion(written: str, suggestion: str) -> None:
    (fault,) = misfits(pod({"resources": {"requests": {"memory": written}}}), "spec").violations
    assert fault.detail.endswith(f'; did you mean "{suggestion}"?')


@pytest.mark.parametrize("written", ["1 core", "lots", "4i", "4 nb", "1.2.3 GB", ""])
def test_unclear_quantities_have_no_suggestion(written: str) -> None:
    (fault,) = misfits(pod({"resources": {"requests": {"memory": written}}}), "spec").violations
    assert "did you mean" not in fault.detail
