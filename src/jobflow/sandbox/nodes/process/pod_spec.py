"""Pod templates as the process runner reads them, and the faults that it cannot run.

The local machine replaces the images: its files, its environment, its working directory. Other
fields (image, resources, volumes, ports, kubelet probes, security contexts, scheduling) are
ignored; docs/reference.md lists them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from jobflow.api.job import Task
from jobflow.api.meta import Struct
from jobflow.sandbox.jobs.job import Vcjob

DEFAULT_GRACE = 30.0
"""Default of `terminationGracePeriodSeconds`."""
TERMINATION_LOG = "/dev/termination-log"
"""Default of `terminationMessagePath`."""
FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.labels['<KEY>']",
    "metadata.annotations['<KEY>']",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
"""Valid fieldPaths of a variable, as in Kubernetes."""
KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")

_NEED_PEERS = ("hcclrank", "mpi", "pytorch", "ray", "tensorflow")
"""Volcano's plugins that connect containers in ways that are not supported."""


class FieldRef(Struct, frozen=True, kw_only=True):
    """Reference to a field of the pod."""

    field_path: str = ""


class KeyRef(Struct, frozen=True, kw_only=True):
    """Reference to a Secret or ConfigMap, or to one of its keys."""

    optional: bool | None = None


class EnvSource(Struct, frozen=True, kw_only=True):
    """Source of a variable's value."""

    field_ref: FieldRef | None = None
    config_map_key_ref: KeyRef | None = None
    secret_key_ref: KeyRef | None = None
    resource_field_ref: Any = None
    file_key_ref: Any = None


class EnvVar(Struct, frozen=True, kw_only=True):
    """A variable of a container."""

    name: str = ""
    value: str | None = None
    value_from: EnvSource | None = None


class EnvFrom(Struct, frozen=True, kw_only=True):
    """A Secret or ConfigMap whose keys become variables."""

    config_map_ref: KeyRef | None = None
    secret_ref: KeyRef | None = None


class RunnableContainer(Struct, frozen=True, kw_only=True):
    """A container as the process runner reads it."""

    name: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[EnvVar] | None = None
    env_from: list[EnvFrom] | None = None
    working_dir: str | None = None
    restart_policy: str | None = None
    """Only sidecars among the init containers have one."""
    termination_message_path: str | None = None
    termination_message_policy: str | None = None


class RunnablePodSpec(Struct, frozen=True, kw_only=True):
    """A pod template's spec as the process runner reads it."""

    init_containers: list[RunnableContainer] | None = None
    containers: list[RunnableContainer] | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    hostname: str | None = None

    @property
    def grace(self) -> float:
        """Seconds between SIGTERM and SIGKILL."""
        given = self.termination_grace_period_seconds
        return DEFAULT_GRACE if given is None else float(max(given, 0))


class RunnableTemplate(Struct, frozen=True, kw_only=True):
    """A pod template as the process runner reads it."""

    spec: RunnablePodSpec = msgspec.field(default_factory=RunnablePodSpec)


def pod_spec(task: Task) -> RunnablePodSpec:
    """Return the spec of a task's pods. Raises msgspec.ValidationError."""
    given = {key: value for key, value in (task.template or {}).items() if value is not None}
    return msgspec.convert(given, RunnableTemplate).spec


def faults(job: Vcjob) -> Iterator[str]:
    """Yield why a vcjob cannot be run; each fault starts with the field's path."""
    for name in job.spec.plugins or ():
        if name in _NEED_PEERS:
            yield (
                f"spec.plugins.{name}: the runner process carries out the plugins env and svc; "
                "without this one the containers would not find each other"
            )
    for index, task in enumerate(job.spec.tasks or ()):
        path = f"spec.tasks[{index}].template"
        try:
            spec = pod_spec(task)
        except msgspec.ValidationError as error:
            yield f"{path}: {error}"
            continue
        yield from _pod_faults(spec, f"{path}.spec")


def _pod_faults(spec: RunnablePodSpec, path: str) -> Iterator[str]:
    if not spec.containers:
        yield f"{path}.containers: there is none, so there is nothing to run"
    for index, container in enumerate(spec.init_containers or ()):
        if container.restart_policy is not None:
            yield (
                f"{path}.initContainers[{index}].restartPolicy: the runner process runs no "
                "sidecars; make it one of the containers"
            )
        yield from _container_faults(container, f"{path}.initContainers[{index}]")
    for index, container in enumerate(spec.containers or ()):
        yield from _container_faults(container, f"{path}.containers[{index}]")


def _container_faults(container: RunnableContainer, path: str) -> Iterator[str]:
    if not container.command:
        yield (
            f"{path}.command: container {container.name} has none, and the entrypoint of its "
            "image cannot be run, for there are no images here; write the command out, or use "
            "--runner simulate"
        )
    for index, source in enumerate(container.env_from or ()):
        for kind, ref in (("configMap", source.config_map_ref), ("secret", source.secret_ref)):
            if ref is not None and not ref.optional:
                yield f"{path}.envFrom[{index}].{kind}Ref: {_ABSENT[kind]}"
    for index, variable in enumerate(container.env or ()):
        if variable.value_from is not None:
            yield from _source_faults(variable.value_from, f"{path}.env[{index}].valueFrom")


_ABSENT = {
    "configMap": "there are no ConfigMaps here; write the value out, or mark it optional",
    "secret": "there are no Secrets here; write the value out, or mark it optional",
}


def _source_faults(source: EnvSource, path: str) -> Iterator[str]:
    keys = (("configMap", source.config_map_key_ref), ("secret", source.secret_key_ref))
    for kind, ref in keys:
        if ref is not None and not ref.optional:
            yield f"{path}.{kind}KeyRef: {_ABSENT[kind]}"
    if source.resource_field_ref is not None:
        yield f"{path}.resourceFieldRef: processes have no resources of their own; write a value"
    if source.file_key_ref is not None:
        yield f"{path}.fileKeyRef: there are no volumes here; write the value out"
    if source.field_ref is not None:
        field = source.field_ref.field_path
        if field not in FIELDS and not KEYED.fullmatch(field):
            yield f'{path}.fieldRef.fieldPath: "{field}" is none of {", ".join(FIELDS)}'
