"""Columns of `kubectl get` for built-in kinds, as kube-apiserver prints them.

Source: k8s.io/kubernetes pkg/printers/internalversion.
"""

from collections.abc import Callable
from typing import Any

from jobflow.sandbox.apiserver.kinds import Column, Object, value_at
from jobflow.sandbox.apiserver.resources.table import AGE, NAME, age

_NONE = "<none>"
_UNSET = "<unset>"


def _text(name: str, value: Callable[[Object], Any], priority: int = 0) -> Column:
    return Column(name, "string", value, priority)


def _field(name: str, path: str, default: str = "", priority: int = 0) -> Column:
    """Return a column of the value at a path."""
    return _text(name, lambda obj: str(value_at(obj, path) or default), priority)


def _containers(pod: Object) -> list[dict[str, Any]]:
    return value_at(pod, "status.containerStatuses") or []


def _ready(pod: Object) -> str:
    all_of_them = value_at(pod, "spec.containers") or []
    return f"{sum(bool(c.get('ready')) for c in _containers(pod))}/{len(all_of_them)}"


def _status(pod: Object) -> str:
    reason = value_at(pod, "status.reason") or value_at(pod, "status.phase") or "Unknown"
    for container in reversed(_containers(pod)):
        state = container.get("state") or {}
        waiting, ended = state.get("waiting"), state.get("terminated")
        if waiting and waiting.get("reason"):
            reason = waiting["reason"]
        elif ended:
            reason = ended.get("reason") or f"ExitCode:{ended.get('exitCode')}"
    return "Terminating" if pod["metadata"].get("deletionTimestamp") else str(reason)


def _restarts(pod: Object) -> str:
    count, last = 0, ""
    for container in _containers(pod):
        count += container.get("restartCount", 0)
        last = max(last, value_at(container, "lastState.terminated.finishedAt") or "")
    return f"{count} ({age(last)} ago)" if count and last else str(count)


def _gates(pod: Object) -> str:
    gates = value_at(pod, "spec.readinessGates")
    return f"0/{len(gates)}" if gates else _NONE


POD = (
    NAME,
    _text("Ready", _ready),
    _text("Status", _status),
    _text("Restarts", _restarts),
    AGE,
    _field("IP", "status.podIP", _NONE, 1),
    _field("Node", "spec.nodeName", _NONE, 1),
    _field("Nominated Node", "status.nominatedNodeName", _NONE, 1),
    _text("Readiness Gates", _gates, 1),
)
NAMESPACE = (NAME, _field("Status", "status.phase"), AGE)


def _object(event: Object) -> str:
    involved = event.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


def _source(event: Object) -> str:
    component = value_at(event, "source.component") or event.get("reportingComponent") or ""
    host = value_at(event, "source.host") or event.get("reportingInstance")
    return f"{component}, {host}" if host else component


def _age_of(*paths: str) -> Callable[[Object], str]:
    """Return a function that computes the age of the first of these times that is set."""
    return lambda obj: age(next((text for path in paths if (text := value_at(obj, path))), None))


EVENT = (
    _text("Last Seen", _age_of("series.lastObservedTime", "lastTimestamp", "eventTime")),
    _field("Type", "type"),
    _field("Reason", "reason"),
    _text("Object", _object),
    _field("Subobject", "involvedObject.fieldPath", priority=1),
    _text("Source", _source, 1),
    _text("Message", lambda event: str(event.get("message", "")).strip()),
    _text("First Seen", _age_of("firstTimestamp", "eventTime"), 1),
    Column("Count", "integer", lambda e: value_at(e, "series.count") or e.get("count") or 1, 1),
    Column("Name", "string", NAME.value, 1, format="name"),
)


def _size(*names: str) -> Callable[[Object], int]:
    return lambda obj: sum(len(obj.get(name) or ()) for name in names)


SECRET = (NAME, _field("Type", "type"), Column("Data", "integer", _size("data")), AGE)
CONFIG_MAP = (NAME, Column("Data", "integer", _size("data", "binaryData")), AGE)
LEASE = (NAME, _field("Holder", "spec.holderIdentity"), AGE)
_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(claim: Object) -> str:
    modes = value_at(claim, "status.accessModes") or ()
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


VOLUME_CLAIM = (
    NAME,
    _field("Status", "status.phase"),
    _field("Volume", "spec.volumeName"),
    _field("Capacity", "status.capacity.storage"),
    _text("Access Modes", _modes),
    _field("StorageClass", "spec.storageClassName"),
    _field("VolumeAttributesClass", "spec.volumeAttributesClassName", _UNSET),
    AGE,
    _field("VolumeMode", "spec.volumeMode", _UNSET, 1),
)
WEBHOOKS = (NAME, Column("Webhooks", "integer", _size("webhooks")), AGE)
