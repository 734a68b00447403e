"""Pod templates as the process runner reads them, and the faults that it cannot run.

The local machine replaces the images: its files, its environment, its working directory. A volume
claim is a directory (`volumes`). Other fields (image, resources, other volumes, ports, kubelet
probes, security contexts, scheduling) are ignored; docs/reference.md lists them.
"""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import msgspec

from jobflow.api.meta import Struct
from jobflow.api.volcano.job import Task
from jobflow.core.admission.object_names import name_violations
from jobflow.sandbox.jobs.job import Vcjob

DEFAULT_GRACE = 30.0
"""Default of `terminationGracePeriodSeconds`."""
TERMINATION_LOG = "/dev/termination-log"
"""Default of `terminationMessagePath`."""
FIELDS = tuple(
    "metadata.name metadata.namespace metadata.uid metadata.labels['<KEY>'] "
    "metadata.annotations['<KEY>'] spec.nodeName spec.serviceAccountName "
    "status.hostIP status.hostIPs status.podIP status.podIPs".split()
)
"""Valid fieldPaths of a variable, as in Kubernetes."""
KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")

_NEED_PEERS = ("hcclrank", "mpi", "pytorch", "ray", "tensorflow")
"""Volcano's plugins that connect containers in ways that are not supported."""


References = dict[str, dict[str, Any] | None]
"""References to a field, Secret or ConfigMap, by kind: `fieldRef`, `secretKeyRef` and so on."""


class EnvVar(Struct, frozen=True, kw_only=True):
    """A variable of a container."""

    name: str = ""
    value: str | None = None
    value_from: References | None = None


class VolumeMount(Struct, frozen=True, kw_only=True):
    """A volume in a container."""

    name: str = ""
    mount_path: str = ""
    sub_path: str | None = None
    sub_path_expr: str | None = None


class ClaimSource(Struct, frozen=True, kw_only=True):
    """The PersistentVolumeClaim of a volume."""

    claim_name: str = ""


class Volume(Struct, frozen=True, kw_only=True):
    """A volume of a pod."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None


class RunnableContainer(Struct, frozen=True, kw_only=True):
    """A container as the process runner reads it."""

    name: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[EnvVar] | None = None
    env_from: list[References] | None = None
    working_dir: str | None = None
    volume_mounts: list[VolumeMount] | None = None
    restart_policy: str | None = None
    """Only sidecars among the init containers have one."""
    termination_message_path: str | None = None
    termination_message_policy: str | None = None


class RunnablePodSpec(Struct, frozen=True, kw_only=True):
    """A pod template's spec as the process runner reads it."""

    init_containers: list[RunnableContainer] | None = None
    containers: list[RunnableContainer] | None = None
    volumes: list[Volume] | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    hostname: str | None = None

    @property
    def grace(self) -> float:
        """Seconds between SIGTERM and SIGKILL."""
        given = self.termination_grace_period_seconds
        return DEFAULT_GRACE if given is None else float(max(given, 0))

    @property
    def claims(self) -> dict[str, str]:
        """The names of the PersistentVolumeClaims of its volumes, by volume."""
        return {
            volume.name: volume.persistent_volume_claim.claim_name
            for volume in self.volumes or ()
            if volume.persistent_volume_claim is not None
        }


def pod_spec(task: Task) -> RunnablePodSpec:
    """Return the spec of a task's pods. Raises msgspec.ValidationError."""
    return msgspec.convert((task.template or {}).get("spec") or {}, RunnablePodSpec)


def faults(job: Vcjob) -> Iterator[str]:
    """Yield why a vcjob cannot be run; each fault starts with the field's path."""
    # Ignoring such a plugin would start containers that wait for each other for ever.
    for name in job.spec.plugins or ():
        if name in _NEED_PEERS:
            why = "without this one the containers cannot find each other"
            yield f"spec.plugins.{name}: the process runner supports only env and svc; {why}"
    for index, task in enumerate(job.spec.tasks or ()):
        path = f"spec.tasks[{index}].template.spec"
        try:
            yield from _pod_faults(pod_spec(task), path)
        except msgspec.ValidationError as error:
            yield f"{path}: {error}"


def _pod_faults(spec: RunnablePodSpec, path: str) -> Iterator[str]:
    if not spec.containers:
        yield f"{path}.containers: a pod needs at least one container"
    for index, volume in enumerate(spec.volumes or ()):
        if (claim := volume.persistent_volume_claim) is not None:
            name = claim.claim_name
            where = f"{path}.volumes[{index}].persistentVolumeClaim.claimName"
            if not name:
                yield f"{where}: write the name of the claim"
                continue
            for found in name_violations(where, name):
                yield f'{where}: "{name}" is not the name of a claim: {found.detail}'
    for index, container in enumerate(spec.init_containers or ()):
        where = f"{path}.initContainers[{index}]"
        if container.restart_policy is not None:
            why = "the process runner does not support sidecars; use a normal container"
            yield f"{where}.restartPolicy: {why}"
        yield from _container_faults(container, spec, where)
    for index, container in enumerate(spec.containers or ()):
        yield from _container_faults(container, spec, f"{path}.containers[{index}]")


def _container_faults(
    container: RunnableContainer, spec: RunnablePodSpec, path: str
) -> Iterator[str]:
    if not container.command:
        why = "the image's entrypoint cannot run, because images are not used here"
        hint = "write the command out, or use --runner simulate"
        yield f"{path}.command: container {container.name} has no command, and {why}; {hint}"
    if container.working_dir and not container.working_dir.startswith("/"):
        yield f"{path}.workingDir: it must be an absolute path; container runtimes need one"
    for index, references in enumerate(container.env_from or ()):
        yield from _reference_faults(references, f"{path}.envFrom[{index}]")
    for index, variable in enumerate(container.env or ()):
        yield from _reference_faults(variable.value_from or {}, f"{path}.env[{index}].valueFrom")
    for index, mount in enumerate(container.volume_mounts or ()):
        # Otherwise a container could write anywhere on this machine.
        if mount.name in spec.claims and not is_inside(mount.sub_path or ""):
            where = f"{path}.volumeMounts[{index}].subPath"
            yield f"{where}: it must be a path inside of the volume"


def is_inside(path: str) -> bool:
    """Return whether a path is relative and stays below its directory."""
    found = PurePosixPath(path)
    return not found.is_absolute() and ".." not in found.parts


_NO_CONFIG_MAP = "ConfigMaps do not exist here; write the value out, or mark it optional"
_NO_SECRET = "Secrets do not exist here; write the value out, or mark it optional"
_UNAVAILABLE = {
    **dict.fromkeys(("configMapRef", "configMapKeyRef"), _NO_CONFIG_MAP),
    **dict.fromkeys(("secretRef", "secretKeyRef"), _NO_SECRET),
    "resourceFieldRef": "processes have no resources of their own; write a value",
    "fileKeyRef": "volumes do not exist here; write the value out",
}


def _reference_faults(references: References, path: str) -> Iterator[str]:
    for kind, why in _UNAVAILABLE.items():
        reference = references.get(kind)
        if reference is not None and not reference.get("optional"):
            yield f"{path}.{kind}: {why}"
    if (reference := references.get("fieldRef")) is not None:
        field = str(reference.get("fieldPath", ""))
        if field not in FIELDS and not KEYED.fullmatch(field):
            yield f'{path}.fieldRef.fieldPath: "{field}" is not one of {", ".join(FIELDS)}'
