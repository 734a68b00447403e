"""Objects that exist before the first request: namespaces and CRDs, ours and Volcano's."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

from jobflow.api.kinds import KINDS
from jobflow.api.schema.crd import crd
from jobflow.sandbox.apiserver.kinds import Registry
from jobflow.sandbox.apiserver.requests.operations import Target, WriteOptions
from jobflow.sandbox.apiserver.resources import builtin
from jobflow.sandbox.apiserver.writes.writer import Writer

NAMESPACES = ("default", "kube-system")


_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_REFERENCE = {
    "type": "object",
    "required": ["apiVersion", "kind", "name", "uid"],
    "properties": {
        **{name: {"type": "string"} for name in ("apiVersion", "kind", "name", "uid")},
        **{name: {"type": "boolean"} for name in ("controller", "blockOwnerDeletion")},
    },
}
"""Schema of metav1.OwnerReference, which is the `target` of Volcano's Commands."""


def _definition(group: str, version: str, kind: str, properties: dict[str, Any]) -> dict[str, Any]:
    plural = kind.lower() + "s"
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


def _permissive(group: str, version: str, kind: str, *short: str, **columns: Any) -> dict[str, Any]:
    """Return a CRD whose objects may hold anything, because Volcano itself checks them."""
    definition = _definition(group, version, kind, {"spec": _ANYTHING, "status": _ANYTHING})
    spec = definition["spec"]
    spec["names"]["shortNames"] = list(short)
    spec["versions"][0] |= {
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": name, "type": "string", **found} for name, found in columns.items()
        ],
    }
    return definition


_AGE = {"jsonPath": ".metadata.creationTimestamp", "type": "date"}
_RUNNINGS = {"jsonPath": ".status.running", "type": "integer"}
_QUEUE = {"jsonPath": ".spec.queue", "priority": 1}

VCJOB = _permissive(
    *("batch.volcano.sh", "v1alpha1", "Job", "vcjob", "vj"),
    STATUS={"jsonPath": ".status.state.phase"},
    minAvailable={"jsonPath": ".status.minAvailable", "type": "integer"},
    RUNNINGS=_RUNNINGS,
    AGE=_AGE,
    QUEUE=_QUEUE,
)
POD_GROUP = _permissive(
    *("scheduling.volcano.sh", "v1beta1", "PodGroup", "pg", "podgroup-v1beta1"),
    STATUS={"jsonPath": ".status.phase"},
    minMember={"jsonPath": ".spec.minMember", "type": "integer"},
    RUNNINGS=_RUNNINGS,
    AGE=_AGE,
    QUEUE=_QUEUE,
)
QUEUE = _permissive(
    "scheduling.volcano.sh",
    "v1beta1",
    "Queue",
    "q",
    "queue-v1beta1",
    PARENT={"jsonPath": ".spec.parent"},
)
QUEUE["spec"]["scope"] = "Cluster"
_TEXT = {"type": "string"}
_FIELDS = {"action": _TEXT, "target": _REFERENCE, "reason": _TEXT, "message": _TEXT}
COMMAND = _definition("bus.volcano.sh", "v1alpha1", "Command", _FIELDS)
DEFAULT_QUEUE: dict[str, Any] = {
    **{"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"},
    **{"metadata": {"name": "default"}, "spec": {"reclaimable": True, "weight": 1}},
}


@cache
def _definitions() -> tuple[dict[str, Any], ...]:
    return (*map(crd, KINDS), VCJOB, QUEUE, POD_GROUP, COMMAND)


async def preinstall(writer: Writer, registry: Registry) -> None:
    """Create the objects as a client would."""
    write = WriteOptions()
    for name in NAMESPACES:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await writer.create(Target(builtin.NAMESPACE, name=name), namespace, write)
    for definition in map(deepcopy, _definitions()):
        builtin.CRD.rules.complete(definition)
        await writer.create(Target(builtin.CRD), definition, write)
    queue = registry.of(DEFAULT_QUEUE["apiVersion"], DEFAULT_QUEUE["kind"])
    assert queue is not None
    await writer.create(Target(queue, name="default"), deepcopy(DEFAULT_QUEUE), write)
    status = Target(queue, name="default", subresource="status")
    await writer.update(status, lambda now: {**now.obj, "status": {"state": "Open"}}, write)
