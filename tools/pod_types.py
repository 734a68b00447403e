"""Writes src/jobflow/api/pod_types.txt, the fields of a pod template.

The models of kubernetes-asyncio take 36 MB and 0.2 s to import, so the product reads this table
instead. `make manifests` runs this script; a test compares the file with its output.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill

from kubernetes_asyncio.client import models

ROOTS = ("V1PodTemplateSpec", "V1PersistentVolumeClaimSpec")
QUANTITIES = {
    "ResourceRequirements.limits", "ResourceRequirements.requests",
    "VolumeResourceRequirements.limits", "VolumeResourceRequirements.requests",
    "PodSpec.overhead", "EmptyDirVolumeSource.sizeLimit", "ResourceFieldSelector.divisor",
}  # fmt: skip
"""Fields that hold quantities, or maps of them, which the models call texts."""
METADATA = {"annotations", "labels", "finalizers", "name", "namespace"}
"""Metadata of a pod template that Volcano keeps; it drops other fields, whatever they hold."""
_RESTARTS = "Always OnFailure Never"
_OPERATORS = "In NotIn Exists DoesNotExist"
WORDS = {
    "Container.imagePullPolicy": "Always Never IfNotPresent",
    "Container.restartPolicy": _RESTARTS,
    "Container.terminationMessagePolicy": "File FallbackToLogsOnError",
    "ContainerPort.protocol": "TCP UDP SCTP",
    "HTTPGetAction.scheme": "HTTP HTTPS",
    "LabelSelectorRequirement.operator": _OPERATORS,
    "NodeSelectorRequirement.operator": f"{_OPERATORS} Gt Lt",
    "PersistentVolumeClaimSpec.volumeMode": "Filesystem Block",
    "PodSpec.dnsPolicy": "ClusterFirst ClusterFirstWithHostNet Default None",
    "PodSpec.preemptionPolicy": "Never PreemptLowerPriority",
    "PodSpec.restartPolicy": _RESTARTS,
    "SeccompProfile.type": "Localhost RuntimeDefault Unconfined",
    "Toleration.effect": "NoSchedule PreferNoSchedule NoExecute",
    "Toleration.operator": "Exists Equal Lt Gt",
    "TopologySpreadConstraint.whenUnsatisfiable": "DoNotSchedule ScheduleAnyway",
    "VolumeMount.mountPropagation": "None HostToContainer Bidirectional",
}
"""Words that a field takes (k8s.io/api/core/v1), which the models do not have: only lists that
have been the same for years, because a word that is newer than the table must not be refused."""
SCALARS = {"str": "text", "int": "integer", "bool": "boolean", "object": "integer-or-text"}
"""`object` is what the models call an IntOrString, the only free type below the roots."""


def table() -> str:
    """Return the types that are reachable from the roots, sorted by name."""
    found: dict[str, str] = {}
    pending = list(ROOTS)
    while pending:
        model = pending.pop()
        if (name := _name(model)) in found:
            continue
        found[name] = ", ".join(f"{field} {kind}" for field, kind in _fields(model))
        for _, declared in _declared(model):
            pending += re.findall(r"\b(?:Core)?V1\w+", declared) if name != "ObjectMeta" else []
    paragraphs = (f"{name}: {found[name]}" for name in sorted(found))
    return "".join(fill(each, 100, subsequent_indent="  ") + "\n" for each in paragraphs)


def _fields(model: str) -> Iterator[tuple[str, str]]:
    owner = _name(model)
    for field, declared in _declared(model):
        key = f"{owner}.{field}"
        if owner == "ObjectMeta" and field not in METADATA:
            kind = "any"
        elif key in WORDS:
            kind = WORDS[key]
        else:
            kind = _type(declared)
        yield field, kind.replace("text", "quantity") if key in QUANTITIES else kind


def _declared(model: str) -> list[tuple[str, str]]:
    """Return the JSON names of the fields and their types in the model."""
    described = getattr(models, model)
    names = described.attribute_map
    return sorted((names[own], kind) for own, kind in described.openapi_types.items())


def _type(declared: str) -> str:
    if inner := re.fullmatch(r"list\[(.+)\]", declared):
        return f"[{_type(inner[1])}]"
    if inner := re.fullmatch(r"dict\(str, (.+)\)", declared):
        return f"{{{_type(inner[1])}}}"
    return SCALARS.get(declared) or _name(declared)


def _name(model: str) -> str:
    return re.sub(r"^(?:Core)?V1", "", model)


def main(path: Path) -> None:
    """Write the table."""
    path.write_text(table(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
