"""Objects that exist before the first request: namespaces and CRDs, ours and Volcano's."""

from copy import deepcopy
from functools import cache
from typing import Any

from jobflow.api.crd import crd, struct_schema
from jobflow.api.kinds import KINDS
from jobflow.api.resources import OwnerReference
from jobflow.sandbox.apiserver.handlers.writes import Writer
from jobflow.sandbox.apiserver.kinds import Registry
from jobflow.sandbox.apiserver.requests.targets import Target, WriteOptions
from jobflow.sandbox.apiserver.resources import builtin

NAMESPACES = ("default", "kube-system")

_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_REFERENCE = struct_schema(OwnerReference) | {"required": ["apiVersion", "kind", "name", "uid"]}
"""Schema of the `target` of Volcano's Commands."""


def _definition(
    group: str, version: str, kind: str, *short: str, properties: dict[str, Any], **more: Any
) -> dict[str, Any]:
    plural = kind.lower() + "s"
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "shortNames": list(short)},
            "scope": "Namespaced",
            "versions": [
                {"name": version, "served": True, "storage": True, "schema": schema, **more}
            ],
        },
    }


def _permissive(*names: str, columns: tuple[tuple[str | int, ...], ...]) -> dict[str, Any]:
    """Return a CRD whose objects may hold anything, because Volcano itself checks them."""
    fields = ("name", "jsonPath", "type", "priority")
    return _definition(
        *names,
        properties={"spec": _ANYTHING, "status": _ANYTHING},
        subresources={"status": {}},
        additionalPrinterColumns=[dict(zip(fields, column, strict=True)) for column in columns],
    )


VCJOB = _permissive(
    *("batch.volcano.sh", "v1alpha1", "Job", "vcjob", "vj"),
    columns=(
        ("STATUS", ".status.state.phase", "string", 0),
        ("minAvailable", ".status.minAvailable", "integer", 0),
        ("RUNNINGS", ".status.running", "integer", 0),
        ("AGE", ".metadata.creationTimestamp", "date", 0),
        ("QUEUE", ".spec.queue", "string", 1),
    ),
)
QUEUE = _permissive(
    *("scheduling.volcano.sh", "v1beta1", "Queue", "q", "queue-v1beta1"),
    columns=(("PARENT", ".spec.parent", "string", 0),),
)
QUEUE["spec"]["scope"] = "Cluster"
_TEXT = {"type": "string"}
_FIELDS = {"action": _TEXT, "target": _REFERENCE, "reason": _TEXT, "message": _TEXT}
COMMAND = _definition("bus.volcano.sh", "v1alpha1", "Command", properties=_FIELDS)
DEFAULT_QUEUE: dict[str, Any] = {
    **{"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"},
    **{"metadata": {"name": "default"}, "spec": {"reclaimable": True, "weight": 1}},
}


@cache
def _definitions() -> tuple[dict[str, Any], ...]:
    return (*map(crd, KINDS), VCJOB, QUEUE, COMMAND)


async def preinstall(writer: Writer, registry: Registry) -> None:
    """Create the objects as a client would."""
    write = WriteOptions()
    for name in NAMESPACES:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await writer.create(Target(builtin.NAMESPACE, name=name), namespace, write)
    # The writer takes over what it gets, and other servers need the same definitions.
    for definition in map(deepcopy, _definitions()):
        builtin.CRD.rules.complete(definition)
        await writer.create(Target(builtin.CRD), definition, write)
    queue = registry.of(DEFAULT_QUEUE["apiVersion"], DEFAULT_QUEUE["kind"])
    assert queue is not None
    await writer.create(Target(queue, name="default"), deepcopy(DEFAULT_QUEUE), write)
    status = Target(queue, name="default", subresource="status")
    await writer.update(status, lambda now: {**now.obj, "status": {"state": "Open"}}, write)
