"""Objects that exist before the first request: namespaces and CRDs, ours and Volcano's."""

from copy import deepcopy
from typing import Any

from jobflow.api.crd import crd, struct_schema
from jobflow.api.kinds import KINDS
from jobflow.api.resources import COMMANDS, JOBS, QUEUES, OwnerReference, Resource
from jobflow.sandbox.apiserver.handlers.writes import Writer
from jobflow.sandbox.apiserver.kinds import Registry
from jobflow.sandbox.apiserver.requests.targets import Target, WriteOptions
from jobflow.sandbox.apiserver.resources import builtin

NAMESPACES = ("default", "kube-system")

_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_REFERENCE = struct_schema(OwnerReference) | {"required": ["apiVersion", "kind", "name", "uid"]}
"""Schema of the `target` of Volcano's Commands."""


def _definition(
    resource: Resource, *short: str, properties: dict[str, Any], **more: Any
) -> dict[str, Any]:
    names = {"kind": resource.kind, "plural": resource.plural, "shortNames": list(short)}
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    version = {"name": resource.version, "served": True, "storage": True, "schema": schema, **more}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [version],
        },
    }


# Their objects may hold anything, because Volcano itself checks them.
_PERMISSIVE = {"spec": _ANYTHING, "status": _ANYTHING}
_STATUS: dict[str, Any] = {"status": {}}
VCJOB = _definition(
    *(JOBS, "vcjob", "vj"),
    properties=_PERMISSIVE,
    subresources=_STATUS,
    additionalPrinterColumns=[
        {"name": "STATUS", "jsonPath": ".status.state.phase", "type": "string"},
        {"name": "minAvailable", "jsonPath": ".status.minAvailable", "type": "integer"},
        {"name": "RUNNINGS", "jsonPath": ".status.running", "type": "integer"},
        {"name": "AGE", "jsonPath": ".metadata.creationTimestamp", "type": "date"},
        {"name": "QUEUE", "jsonPath": ".spec.queue", "type": "string", "priority": 1},
    ],
)
QUEUE = _definition(
    *(QUEUES, "q", "queue-v1beta1"),
    properties=_PERMISSIVE,
    subresources=_STATUS,
    additionalPrinterColumns=[{"name": "PARENT", "jsonPath": ".spec.parent", "type": "string"}],
)
_TEXT = {"type": "string"}
_FIELDS = {"action": _TEXT, "target": _REFERENCE, "reason": _TEXT, "message": _TEXT}
COMMAND = _definition(COMMANDS, properties=_FIELDS)
DEFAULT_QUEUE = {
    **QUEUES.type_meta,
    **{"metadata": {"name": "default"}, "spec": {"reclaimable": True, "weight": 1}},
}
_DEFINITIONS = (*map(crd, KINDS), VCJOB, QUEUE, COMMAND)


async def preinstall(writer: Writer, registry: Registry) -> None:
    """Create the objects as a client would."""
    write = WriteOptions()
    for name in NAMESPACES:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await writer.create(Target(builtin.NAMESPACE, name=name), namespace, write)
    # The writer takes over what it gets, and other servers need the same definitions.
    for definition in map(deepcopy, _DEFINITIONS):
        builtin.CRD.rules.complete(definition)
        await writer.create(Target(builtin.CRD), definition, write)
    queue = registry.of(QUEUES.api_version, QUEUES.kind)
    assert queue is not None
    await writer.create(Target(queue, name="default"), deepcopy(DEFAULT_QUEUE), write)
    status = Target(queue, name="default", subresource="status")
    await writer.update(status, lambda now: {**now.obj, "status": {"state": "Open"}}, write)
