"""Built-in kinds: their rules, and their columns in `kubectl get` (k8s.io/kubernetes
pkg/printers/internalversion)."""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jobflow.core.violations import Reason, Violation, join_path
from jobflow.sandbox.apiserver.kinds import ALL_VERBS, Column, Kind, Object, Rules, value_at
from jobflow.sandbox.apiserver.resources.crds import DefinitionRules
from jobflow.sandbox.apiserver.resources.table import AGE, CREATED, NAME, age
from jobflow.sandbox.apiserver.resources.webhooks import WebhookRules

_GRACE = 30
"""Default of `terminationGracePeriodSeconds`."""
IMMORTAL = frozenset({"default", "kube-system", "kube-public"})


class NamespaceRules(Rules):
    """A namespace is Active, then Terminating until it is empty."""

    def begin(self, obj: Object) -> None:
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}
        self._name_label(obj)

    def carry_over(self, obj: Object, old: Object) -> None:
        obj["spec"] = old["spec"]
        self._name_label(obj)

    def _name_label(self, obj: Object) -> None:
        metadata = obj["metadata"]
        name = {"kubernetes.io/metadata.name": metadata.get("name", "")}
        metadata["labels"] = {**(metadata.get("labels") or {}), **name}

    def finalizers(self, obj: Object) -> list[str]:
        return [*super().finalizers(obj), *(value_at(obj, "spec.finalizers") or ())]

    def mark(self, obj: Object) -> None:
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}

    def undeletable(self, name: str) -> str | None:
        return "this namespace may not be deleted" if name in IMMORTAL else None


_CONFIG_KEY = re.compile(r"(?!\.\.)[-._a-zA-Z0-9]{1,253}")


@dataclass(frozen=True)
class ConfigRules(Rules):
    """A ConfigMap or a Secret. Messages name keys, never values."""

    texts: str
    encoded: str
    """The fields with plain values, and with those in base64."""

    def violations(self, obj: Object, old: Object | None) -> Iterator[Violation]:
        for field in (self.texts, self.encoded):
            entries = obj.get(field) or {}
            if not isinstance(entries, dict):
                yield self._fault(field, "must be a mapping of keys to values")
                continue
            for key, value in entries.items():
                path = join_path(field, key)
                if key == "." or not _CONFIG_KEY.fullmatch(key):
                    why = "a key must consist of alphanumeric characters, '-', '_' or '.'"
                    yield Violation(path, Reason.INVALID, key, why)
                elif not isinstance(value, str):
                    yield self._fault(path, "must be a string; put it in quotes")
                elif field == self.encoded and not _is_base64(value):
                    yield self._fault(path, f"must be base64; plain text belongs to {self.texts}")

    @staticmethod
    def _fault(path: str, why: str) -> Violation:
        return Violation(path, Reason.TYPE_INVALID, None, "", words=f"Invalid value: {why}")


def _is_base64(text: str) -> bool:
    try:
        b64decode(text, validate=True)
    except ValueError:
        return False
    return True


class SecretRules(ConfigRules):
    def complete(self, obj: Object, old: Object | None = None) -> list[str]:
        texts = obj.pop("stringData", None) or {}
        if isinstance(texts, dict) and all(isinstance(each, str) for each in texts.values()):
            encoded = {key: b64encode(text.encode()).decode() for key, text in texts.items()}
            if encoded:
                obj["data"] = {**(obj.get("data") or {}), **encoded}
        else:
            obj["stringData"] = texts  # it is refused
        obj.setdefault("type", "Opaque")
        return []


class EventRules(Rules):
    """An event is in the namespace of its object, or in default for a cluster-scoped object."""

    def violations(self, obj: Object, old: Object | None) -> Iterator[Violation]:
        namespace = obj["metadata"]["namespace"]
        about = (obj.get("involvedObject") or {}).get("namespace") or ""
        if about != namespace and (about or namespace != "default"):
            path, detail = "involvedObject.namespace", "does not match event.namespace"
            yield Violation(path, Reason.INVALID, about, detail)


class PodRules(Rules):
    def begin(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending", "qosClass": "BestEffort"}

    def grace(self, obj: Object, asked: int | None) -> int:
        """Return 0 for a pod without a node to confirm its end, or that has ended."""
        is_ended = value_at(obj, "status.phase") in ("Succeeded", "Failed")
        if is_ended or not value_at(obj, "spec.nodeName"):
            return 0
        given = value_at(obj, "spec.terminationGracePeriodSeconds")
        wanted = given if asked is None and isinstance(given, int) else asked
        return _GRACE if wanted is None else max(wanted, 0)


class VolumeClaimRules(Rules):
    def begin(self, obj: Object) -> None:
        spec = {"volumeMode": "Filesystem", **(obj.get("spec") or {})}
        obj["spec"] = {"volumeName": f"pvc-{obj['metadata']['uid']}", **spec}
        size = value_at(spec, "resources.requests.storage")
        obj["status"] = {
            "phase": "Bound",
            "accessModes": spec.get("accessModes") or [],
            "capacity": {} if size is None else {"storage": str(size)},
        }

    def violations(self, obj: Object, old: Object | None) -> Iterator[Violation]:
        spec = obj.get("spec") or {}
        if not spec.get("accessModes"):
            detail = "at least 1 access mode is required"
            yield Violation("spec.accessModes", Reason.REQUIRED, None, detail)
        if value_at(spec, "resources.requests.storage") is None:
            yield Violation("spec.resources[storage]", Reason.REQUIRED, None, "")


_NONE = "<none>"
_UNSET = "<unset>"


def _field(name: str, path: str, default: str = "", priority: int = 0) -> Column:
    return Column(name, lambda obj: str(value_at(obj, path) or default), priority)


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


def _readiness_gates(pod: Object) -> str:
    gates = value_at(pod, "spec.readinessGates")
    return f"0/{len(gates)}" if gates else _NONE


def _object(event: Object) -> str:
    involved = event.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


def _source(event: Object) -> str:
    component = value_at(event, "source.component") or event.get("reportingComponent") or ""
    host = value_at(event, "source.host") or event.get("reportingInstance")
    return f"{component}, {host}" if host else component


def _age_of(*paths: str) -> Callable[[Object], str]:
    return lambda obj: age(next((text for path in paths if (text := value_at(obj, path))), None))


def _size(name: str, *fields: str) -> Column:
    return Column(name, lambda obj: sum(len(obj.get(f) or ()) for f in fields), type="integer")


_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(claim: Object) -> str:
    modes = value_at(claim, "status.accessModes") or ()
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def _selectable(*paths: str, **others: str) -> dict[str, str]:
    return dict(zip(paths, paths, strict=True)) | others


NAMESPACE = Kind(
    plural="namespaces",
    kind="Namespace",
    namespaced=False,
    short_names=("ns",),
    subresources=frozenset({"status"}),
    verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
    returns_deleted=True,
    label_name=True,
    rules=NamespaceRules(),
    columns=(NAME, _field("Status", "status.phase"), AGE),
    selectable=_selectable("status.phase"),
)
POD = Kind(
    plural="pods",
    kind="Pod",
    short_names=("po",),
    categories=("all",),
    subresources=frozenset({"log", "status"}),
    returns_deleted=True,
    rules=PodRules(),
    columns=(
        NAME,
        Column("Ready", _ready),
        Column("Status", _status),
        Column("Restarts", _restarts),
        AGE,
        _field("IP", "status.podIP", _NONE, 1),
        _field("Node", "spec.nodeName", _NONE, 1),
        _field("Nominated Node", "status.nominatedNodeName", _NONE, 1),
        Column("Readiness Gates", _readiness_gates, 1),
    ),
    selectable=_selectable(
        *("status.phase", "status.podIP", "spec.nodeName", "spec.restartPolicy"),
        *("spec.schedulerName", "spec.serviceAccountName"),
    ),
)
EVENT = Kind(
    plural="events",
    kind="Event",
    short_names=("ev",),
    rules=EventRules(),
    columns=(
        Column("Last Seen", _age_of("series.lastObservedTime", "lastTimestamp", "eventTime")),
        _field("Type", "type"),
        _field("Reason", "reason"),
        Column("Object", _object),
        _field("Subobject", "involvedObject.fieldPath", priority=1),
        Column("Source", _source, 1),
        Column("Message", lambda event: str(event.get("message", "")).strip()),
        Column("First Seen", _age_of("firstTimestamp", "eventTime"), 1),
        Column("Count", lambda e: value_at(e, "series.count") or e.get("count") or 1, 1, "integer"),
        replace(NAME, priority=1, description=""),
    ),
    selectable=_selectable(
        *(f"involvedObject.{name}" for name in ("kind", "namespace", "name", "uid", "apiVersion")),
        *("involvedObject.resourceVersion", "involvedObject.fieldPath"),
        *("reason", "type", "reportingComponent"),
        source="source.component",
    ),
)
_CORE_TO_EVENTS = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_EVENTS_TO_CORE = {new: old for old, new in _CORE_TO_EVENTS.items()}


def _renamed(event: Object, names: Mapping[str, str], api_version: str) -> Object:
    return {names.get(key, key): event[key] for key in event} | {"apiVersion": api_version}


EVENT_VIEW = replace(
    EVENT,
    group="events.k8s.io",
    show=lambda event: _renamed(event, _CORE_TO_EVENTS, "events.k8s.io/v1"),
    take=lambda event: _renamed(event, _EVENTS_TO_CORE, "v1"),
    stored_as=EVENT.bucket,
)
SECRET = Kind(
    plural="secrets",
    kind="Secret",
    columns=(NAME, _field("Type", "type"), _size("Data", "data"), AGE),
    rules=SecretRules("stringData", "data"),
    selectable=_selectable("type"),
)
CONFIG_MAP = Kind(
    plural="configmaps",
    kind="ConfigMap",
    short_names=("cm",),
    columns=(NAME, _size("Data", "data", "binaryData"), AGE),
    rules=ConfigRules("data", "binaryData"),
)
VOLUME_CLAIM = Kind(
    plural="persistentvolumeclaims",
    kind="PersistentVolumeClaim",
    short_names=("pvc",),
    subresources=frozenset({"status"}),
    returns_deleted=True,
    rules=VolumeClaimRules(),
    columns=(
        NAME,
        _field("Status", "status.phase"),
        _field("Volume", "spec.volumeName"),
        _field("Capacity", "status.capacity.storage"),
        Column("Access Modes", _modes),
        _field("StorageClass", "spec.storageClassName"),
        _field("VolumeAttributesClass", "spec.volumeAttributesClassName", _UNSET),
        AGE,
        _field("VolumeMode", "spec.volumeMode", _UNSET, 1),
    ),
)
LEASE = Kind(
    group="coordination.k8s.io",
    plural="leases",
    kind="Lease",
    columns=(NAME, _field("Holder", "spec.holderIdentity"), AGE),
)
CRD = Kind(
    group="apiextensions.k8s.io",
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    subresources=frozenset({"status"}),
    generation=True,
    returns_deleted=True,
    rules=DefinitionRules(),
    columns=(NAME, CREATED),
)
VALIDATING = Kind(
    group="admissionregistration.k8s.io",
    plural="validatingwebhookconfigurations",
    kind="ValidatingWebhookConfiguration",
    columns=(NAME, _size("Webhooks", "webhooks"), AGE),
    rules=WebhookRules(),
    namespaced=False,
    categories=("api-extensions",),
    generation=True,
)
MUTATING = replace(
    VALIDATING, plural="mutatingwebhookconfigurations", kind="MutatingWebhookConfiguration"
)

KINDS = (
    *(NAMESPACE, POD, EVENT, SECRET, CONFIG_MAP, VOLUME_CLAIM, EVENT_VIEW, LEASE),
    *(CRD, VALIDATING, MUTATING),
)
