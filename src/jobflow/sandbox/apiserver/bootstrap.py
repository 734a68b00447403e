"""Objects that exist before the first request: namespaces and CRDs, ours and Volcano's."""

from copy import deepcopy
from typing import Any

from jobflow.api.crd import crd, definition, struct_schema
from jobflow.api.kinds import KINDS
from jobflow.api.resources import COMMANDS, JOBS, QUEUES, OwnerReference
from jobflow.sandbox.apiserver.handlers.writes import Writer
from jobflow.sandbox.apiserver.kinds import Registry
from jobflow.sandbox.apiserver.requests.targets import Target, WriteOptions
from jobflow.sandbox.apiserver.resources import builtin

NAMESPACES = ("default", "kube-system")

_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_REFERENCE = struct_schema(OwnerReference) | {"required": ["apiVersion", "kind", "name", "uid"]}
"""Schema of the `target` of Volcano's Commands."""


def _schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


# Their objects may hold anything, because Volcano itself checks them.
_PERMISSIVE = _schema(spec=_ANYTHING, status=_ANYTHING)
VCJOB = definition(
    JOBS,
    _PERMISSIVE,
    ("vcjob", "vj"),
    (
        ("STATUS", "string", ".status.state.phase", 0),
        ("minAvailable", "integer", ".status.minAvailable", 0),
        ("RUNNINGS", "integer", ".status.running", 0),
        ("AGE", "date", ".metadata.creationTimestamp", 0),
        ("QUEUE", "string", ".spec.queue", 1),
    ),
)
_PARENT = ("PARENT", "string", ".spec.parent", 0)
QUEUE = definition(QUEUES, _PERMISSIVE, ("q", "queue-v1beta1"), [_PARENT])
_TEXT = {"type": "string"}
_FIELDS = _schema(action=_TEXT, target=_REFERENCE, reason=_TEXT, message=_TEXT)
COMMAND = definition(COMMANDS, _FIELDS, has_status=False)
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
    for each in map(deepcopy, _DEFINITIONS):
        builtin.CRD.rules.complete(each)
        await writer.create(Target(builtin.CRD), each, write)
    queue = registry.of(QUEUES.api_version, QUEUES.kind)
    assert queue is not None
    await writer.create(Target(queue, name="default"), deepcopy(DEFAULT_QUEUE), write)
    status = Target(queue, name="default", subresource="status")
    await writer.update(status, lambda now: {**now.obj, "status": {"state": "Open"}}, write)
