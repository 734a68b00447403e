"""Strategic merge of patches: a table of cases. test_strategic_merge_laws has the laws."""

from typing import Any

import pytest

from jobflow.core.manifests.strategic_merge import merge


def pod(**spec: Any) -> dict[str, Any]:
    return {"tasks": [{"name": "w", "template": {"spec": spec}}]}


def merged_pod(old: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    return merge(pod(**old), pod(**patch))["tasks"][0]["template"]["spec"]


def containers(**container: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", **container}]}


def env(text: str, **container: Any) -> dict[str, Any]:
    """Return a container with the variables of a text: `A=1 B=2`."""
    pairs = (variable.split("=") for variable in text.split())
    return containers(env=[{"name": name, "value": value} for name, value in pairs], **container)


def tasks(**tasks: dict[str, Any]) -> dict[str, Any]:
    """Return a spec with these tasks by name."""
    return {"tasks": [{"name": name, **fields} for name, fields in tasks.items()]}


ONE, TWO, RETRY, DELETE = {"replicas": 1}, {"replicas": 2}, {"maxRetry": 1}, {"$patch": "delete"}


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "a value": ({"queue": "a"}, {"queue": "b"}, {"queue": "b"}),
    "a new value": ({}, {"queue": "b"}, {"queue": "b"}),
    "null removes": ({"queue": "a", "maxRetry": 1}, {"queue": None}, {"maxRetry": 1}),
    "null for a missing field": ({}, {"queue": None}, {}),
    "null in a new map": ({}, {"a": {"b": None, "c": {"d": None}}}, {"a": {"c": {}}}),
    "maps by key": (
        {"plugins": {"env": [], "svc": ["--x"]}},
        {"plugins": {"svc": [], "ssh": []}},
        {"plugins": {"env": [], "svc": [], "ssh": []}},
    ),
    "tasks by name": (
        tasks(a=ONE, b=ONE), tasks(b=TWO, c={}), tasks(a=ONE, b=TWO, c={})
    ),
    "a task that Volcano names": (
        {"tasks": [ONE, {"name": "", **ONE}]},
        tasks(default1=TWO, default0=RETRY),
        tasks(default0=ONE | RETRY, default1=TWO),
    ),
    "a task without a name is the only one": (tasks(a=ONE), {"tasks": [TWO]}, tasks(a=TWO)),
    "a task without a name is added to two": (
        tasks(a={}, b={}), {"tasks": [TWO]}, {"tasks": [{"name": "a"}, {"name": "b"}, TWO]}
    ),
    "a container without a name is the only one": (
        pod(**env("A=1", image="x")),
        pod(containers=[{"env": [{"name": "B", "value": "2"}]}]),
        pod(**env("A=1 B=2", image="x")),
    ),
    "two elements without names are added": (
        tasks(a={}), {"tasks": [TWO, RETRY]}, {"tasks": [{"name": "a"}, TWO, RETRY]}
    ),
    "a variable without a name is added": (
        pod(**env("A=1")),
        pod(**containers(env=[{"value": "2"}])),
        pod(**containers(env=[{"name": "A", "value": "1"}, {"value": "2"}])),
    ),
    "volumes of the job by mountPath": (
        {"volumes": [{"mountPath": "/a", "volumeClaim": {"accessModes": ["x"], "s": 1}}]},
        {"volumes": [{"mountPath": "/a", "volumeClaim": {"s": 2}}, {"mountPath": "/b"}]},
        {
            "volumes": [
                {"mountPath": "/a", "volumeClaim": {"accessModes": ["x"], "s": 2}},
                {"mountPath": "/b"},
            ]
        },
    ),
    "another kind of claim": (
        {"volumes": [{"mountPath": "/a", "volumeClaim": {}}]},
        {"volumes": [{"mountPath": "/a", "volumeClaimName": "mine"}]},
        {"volumes": [{"mountPath": "/a", "volumeClaimName": "mine"}]},
    ),
    "policies are replaced": (
        {"policies": [{"event": "PodFailed", "action": "AbortJob"}]},
        {"policies": [{"event": "PodEvicted", "action": None}]},
        {"policies": [{"event": "PodEvicted"}]},
    ),
    "null entries of a replaced list are kept": (
        {"policies": [1]},
        {"policies": [None, [None, {"a": None}]]},
        {"policies": [None, [None, {}]]},
    ),
    "a list onto a map": ({"plugins": {"env": []}}, {"plugins": ["x"]}, {"plugins": ["x"]}),
    "a map onto a list": ({"tasks": [{}]}, {"tasks": {"a": 1}}, {"tasks": {"a": 1}}),
    "a list onto a text": ({"tasks": "x"}, {"tasks": [{"name": "a"}]}, {"tasks": [{"name": "a"}]}),
    "elements that are no maps": (
        {"tasks": ["x", {"name": "a"}]},
        {"tasks": ["x", [1], {"name": "a", "replicas": 1}]},
        {"tasks": ["x", {"name": "a", "replicas": 1}, "x", [1]]},
    ),
    "elements without a key": (
        {"tasks": [{"name": "a"}]},
        {"tasks": [{"replicas": 1}, {"name": True}]},
        {"tasks": [{"name": "a"}, {"replicas": 1}, {"name": True}]},
    ),
    "a map emptied first": (
        {"plugins": {"env": [], "svc": []}},
        {"plugins": {"$patch": "replace", "ssh": []}},
        {"plugins": {"ssh": []}},
    ),
    "a map emptied": ({"plugins": {"env": []}}, {"plugins": {"$patch": "delete"}}, {"plugins": {}}),
    "an element removed": (tasks(a={}, b={}), tasks(a=DELETE, c={}), tasks(b={}, c={})),
    "tasks keep the names Volcano gives them when another is removed": (
        {"tasks": [{"name": "a"}, ONE]}, tasks(a=DELETE, default1=TWO), tasks(default1=TWO)
    ),
    "an empty name in a patch matches no task": (
        {"tasks": [{"name": "", "replicas": 1}]},
        {"tasks": [{"name": "", "replicas": 2}]},
        {"tasks": [{"name": "", "replicas": 1}, {"name": "", "replicas": 2}]},
    ),
    "directives beside elements that are no maps": (
        {"tasks": ["x", {"name": "a"}]},
        {"tasks": ["y", {"name": "a", "$patch": "delete"}]},
        {"tasks": ["x", "y"]},
    ),
    "a delete without a name": (
        {"tasks": ["x", {"name": "a"}]},
        {"tasks": [{"$patch": "delete"}]},
        {"tasks": ["x", {"name": "a"}]},
    ),
    "a list replaced": (
        tasks(a=ONE, b={}), {"tasks": [{"$patch": "replace"}, {"name": "a"}]}, tasks(a={})
    ),
    "the directive to merge": (
        tasks(a=ONE), tasks(a={"$patch": "merge"} | RETRY), tasks(a=ONE | RETRY)
    ),
    "some keys retained": (
        {"plugins": {"env": [], "svc": ["x"], "ssh": []}},
        {"plugins": {"$retainKeys": ["env", "svc"], "svc": ["y"]}},
        {"plugins": {"env": [], "svc": ["y"]}},
    ),
    "retainKeys that is no list": (
        {"plugins": {"env": []}},
        {"plugins": {"$retainKeys": "env", "svc": []}},
        {"plugins": {"env": [], "svc": []}},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "patch", "result"), CASES.values(), ids=CASES.keys())
def test_a_patch_is_merged(spec: dict[str, Any], patch: dict[str, Any], result: dict[str, Any]):
    assert merge(spec, patch) == result


POD_CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "containers by name": (
        {"containers": [{"name": "c", "image": "1", "tty": True}, {"name": "d"}]},
        {"containers": [{"name": "d", "image": "2"}, {"name": "c", "image": "2"}]},
        {"containers": [{"name": "c", "image": "2", "tty": True}, {"name": "d", "image": "2"}]},
    ),
    "init and ephemeral containers": (
        {"initContainers": [{"name": "i"}], "ephemeralContainers": [{"name": "e"}]},
        {"initContainers": [{"name": "i", "image": "1"}], "ephemeralContainers": [{"name": "f"}]},
        {
            "initContainers": [{"name": "i", "image": "1"}],
            "ephemeralContainers": [{"name": "e"}, {"name": "f"}],
        },
    ),
    "commands are replaced": (
        containers(command=["a", "b"], args=["c"]),
        containers(command=["d"]),
        containers(command=["d"], args=["c"]),
    ),
    "env by name": (env("A=1 B=1"), env("B=2 C=2"), env("A=1 B=2 C=2")),
    "a value for a valueFrom": (
        containers(env=[{"name": "A", "valueFrom": {"fieldRef": {}}}]), env("A=1"), env("A=1")
    ),
    "the last of a repeated variable counts": (env("A=1 A=2"), env("A=3"), env("A=1 A=3")),
    "ports by number and protocol": (
        containers(ports=[{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]),
        containers(
            ports=[
                {"containerPort": 80, "protocol": "UDP", "name": "u"},
                {"containerPort": 80, "protocol": "TCP", "name": "t"},
                {"containerPort": 81},
            ]
        ),
        containers(
            ports=[
                {"containerPort": 80, "protocol": "TCP", "name": "t"},
                {"containerPort": 80, "protocol": "UDP", "name": "u"},
                {"containerPort": 81},
            ]
        ),
    ),
    "mounts by path, devices by path": (
        containers(volumeMounts=[{"mountPath": "/a", "name": "v"}], volumeDevices=[]),
        containers(
            volumeMounts=[{"mountPath": "/a", "readOnly": True}, {"mountPath": "/b", "name": "v"}],
            volumeDevices=[{"devicePath": "/d"}],
        ),
        containers(
            volumeMounts=[
                {"mountPath": "/a", "name": "v", "readOnly": True},
                {"mountPath": "/b", "name": "v"},
            ],
            volumeDevices=[{"devicePath": "/d"}],
        ),
    ),
    "resources": (
        containers(resources={"limits": {"cpu": 1, "memory": "1Gi"}, "claims": [{"name": "g"}]}),
        containers(resources={"limits": {"cpu": 2}, "claims": [{"name": "g", "request": "r"}]}),
        containers(
            resources={
                "limits": {"cpu": 2, "memory": "1Gi"},
                "claims": [{"name": "g", "request": "r"}],
            }
        ),
    ),
    "volumes of a pod by name": (
        {"volumes": [{"name": "v", "configMap": {"name": "m", "optional": True}}]},
        {"volumes": [{"name": "v", "configMap": {"name": "n"}}, {"name": "w", "emptyDir": {}}]},
        {
            "volumes": [
                {"name": "v", "configMap": {"name": "n", "optional": True}},
                {"name": "w", "emptyDir": {}},
            ]
        },
    ),
    "another source for a volume": (
        {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]},
        {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]},
        {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]},
    ),
    "a volume's source removed": (
        {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {}}]},
        {"volumes": [{"name": "v", "emptyDir": None}]},
        {"volumes": [{"name": "v", "hostPath": {}}]},
    ),
    "tolerations by key": (
        {"tolerations": [{"key": "a", "effect": "NoSchedule"}, {"operator": "Exists"}]},
        {"tolerations": [{"key": "a", "value": "x"}, {"effect": "NoExecute"}, {"key": "b"}]},
        {
            "tolerations": [
                {"key": "a", "effect": "NoSchedule", "value": "x"},
                {"operator": "Exists", "effect": "NoExecute"},
                {"key": "b"},
            ]
        },
    ),
    "tolerations of one key pair off from the end": (
        {"tolerations": [{"key": "a", "n": 1}, {"key": "a", "n": 2}, {"key": "a", "n": 3}]},
        {"tolerations": [{"key": "a", "m": 1}, {"key": "a", "m": 2}]},
        {
            "tolerations": [
                {"key": "a", "n": 1},
                {"key": "a", "n": 2, "m": 1},
                {"key": "a", "n": 3, "m": 2},
            ]
        },
    ),
    "more tolerations of one key in the patch": (
        {"tolerations": [{"key": "a", "n": 1}]},
        {"tolerations": [{"key": "a", "m": 1}, {"key": "a", "m": 2}]},
        {"tolerations": [{"key": "a", "n": 1, "m": 1}, {"key": "a", "m": 2}]},
    ),
    "lists with keys of their own": (
        {
            "imagePullSecrets": [{"name": "s"}],
            "hostAliases": [{"ip": "1", "hostnames": ["a", "b"]}],
            "topologySpreadConstraints": [{"topologyKey": "z", "whenUnsatisfiable": "X", "n": 1}],
        },
        {
            "imagePullSecrets": [{"name": "t"}, {"name": "s"}],
            "hostAliases": [{"ip": "1", "hostnames": ["c"]}],
            "topologySpreadConstraints": [
                {"topologyKey": "z", "whenUnsatisfiable": "X", "n": 2},
                {"topologyKey": "z", "whenUnsatisfiable": "Y"},
            ],
        },
        {
            "imagePullSecrets": [{"name": "s"}, {"name": "t"}],
            "hostAliases": [{"ip": "1", "hostnames": ["c"]}],
            "topologySpreadConstraints": [
                {"topologyKey": "z", "whenUnsatisfiable": "X", "n": 2},
                {"topologyKey": "z", "whenUnsatisfiable": "Y"},
            ],
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize(("old", "patch", "result"), POD_CASES.values(), ids=POD_CASES.keys())
def test_a_patch_of_a_pod_is_merged(
    old: dict[str, Any], patch: dict[str, Any], result: dict[str, Any]
):
    assert merged_pod(old, patch) == result
