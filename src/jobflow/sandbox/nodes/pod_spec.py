"""Pod templates as the process runner reads them, and what it cannot run.

The local machine replaces the images: its files, its environment, its working directory. Volumes
are folders (volumes.py). Other fields are ignored; docs/reference.md lists them.
"""

import re
from collections.abc import Iterator

import msgspec

from jobflow.api.resources import CONFIG_MAPS, SECRETS, VOLUME_CLAIMS, Struct
from jobflow.api.volcano.job import Task
from jobflow.core.admission.object_names import name_violations
from jobflow.sandbox.jobs.objects import Vcjob
from jobflow.sandbox.nodes.volumes import Source, Volume, is_inside, volume_faults

DEFAULT_GRACE = 30.0
"""Defaults of `terminationGracePeriodSeconds` and `terminationMessagePath`."""
TERMINATION_LOG = "/dev/termination-log"
FIELDS = tuple(
    "metadata.name metadata.namespace metadata.uid metadata.labels['<KEY>'] "
    "metadata.annotations['<KEY>'] spec.nodeName spec.serviceAccountName "
    "status.hostIP status.hostIPs status.podIP status.podIPs".split()
)
"""Valid fieldPaths of a variable, as in Kubernetes."""
KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")

_NEED_PEERS = ("hcclrank", "mpi", "pytorch", "ray", "tensorflow")
"""Volcano's plugins that connect containers in ways that are not supported."""

NAMED = {
    **dict.fromkeys(("configMapRef", "configMapKeyRef"), CONFIG_MAPS),
    **dict.fromkeys(("secretRef", "secretKeyRef"), SECRETS),
}


class Reference(Struct):
    name: str = ""
    key: str = ""
    optional: bool | None = None
    field_path: str = ""


References = dict[str, Reference | None]
"""References to a field, Secret or ConfigMap, by kind: `fieldRef`, `secretKeyRef` and so on."""


class EnvVar(Struct):
    name: str = ""
    value: str | None = None
    value_from: References | None = None


class EnvFrom(Struct):
    prefix: str = ""
    config_map_ref: Reference | None = None
    secret_ref: Reference | None = None

    @property
    def references(self) -> References:
        return {"configMapRef": self.config_map_ref, "secretRef": self.secret_ref}


class VolumeMount(Struct):
    name: str = ""
    mount_path: str = ""
    sub_path: str | None = None
    sub_path_expr: str | None = None


class RunnableContainer(Struct):
    name: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[EnvVar] | None = None
    env_from: list[EnvFrom] | None = None
    working_dir: str | None = None
    volume_mounts: list[VolumeMount] | None = None
    restart_policy: str | None = None
    """Only sidecars among the init containers have one."""
    termination_message_path: str | None = None
    termination_message_policy: str | None = None

    @property
    def references(self) -> Iterator[tuple[str, str, Reference]]:
        """What its variables refer to: the path of each, its kind, the reference."""
        groups = [(f"envFrom[{i}]", each.references) for i, each in enumerate(self.env_from or ())]
        for index, variable in enumerate(self.env or ()):
            groups.append((f"env[{index}].valueFrom", variable.value_from or {}))
        for path, references in groups:
            for kind, reference in references.items():
                if reference is not None:
                    yield f"{path}.{kind}", kind, reference


class RunnablePodSpec(Struct):
    init_containers: list[RunnableContainer] | None = None
    containers: list[RunnableContainer] | None = None
    volumes: list[Volume] | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    hostname: str | None = None
    subdomain: str | None = None

    @property
    def grace(self) -> float:
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

    @property
    def sources(self) -> set[Source]:
        """The Secrets, ConfigMaps and volume claims of its volumes and variables."""
        found = {source for each in self.volumes or () for _, source, _ in each.parts}
        found |= {(VOLUME_CLAIMS, claim) for claim in self.claims.values()}
        for container in (*(self.init_containers or ()), *(self.containers or ())):
            for _, kind, reference in container.references:
                if kind in NAMED:
                    found.add((NAMED[kind], reference.name))
        return found


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
    for number, task in enumerate(job.spec.tasks or ()):
        path = f"spec.tasks[{number}].template.spec"
        try:
            spec = pod_spec(task)
        except msgspec.ValidationError as error:
            yield f"{path}: {error}"
            continue
        if not spec.containers:
            yield f"{path}.containers: a pod needs at least one container"
        for index, volume in enumerate(spec.volumes or ()):
            yield from volume_faults(volume, f"{path}.volumes[{index}]")
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
            yield from _container_faults(container, where)
        for index, container in enumerate(spec.containers or ()):
            yield from _container_faults(container, f"{path}.containers[{index}]")


def _container_faults(container: RunnableContainer, path: str) -> Iterator[str]:
    if not container.command:
        why = "the image's entrypoint cannot run, because images are not used here"
        hint = "write the command out, or use --runner simulate"
        yield f"{path}.command: container {container.name} has no command, and {why}; {hint}"
    if container.working_dir and not container.working_dir.startswith("/"):
        yield f"{path}.workingDir: it must be an absolute path; container runtimes need one"
    for where, kind, reference in container.references:
        yield from _reference_faults(kind, reference, f"{path}.{where}")
    for index, mount in enumerate(container.volume_mounts or ()):
        # Otherwise a container could write anywhere on this machine.
        if not is_inside(mount.sub_path or ""):
            where = f"{path}.volumeMounts[{index}].subPath"
            yield f"{where}: it must be a path inside of the volume"


_UNAVAILABLE = {
    "resourceFieldRef": "processes have no resources of their own; write a value",
    "fileKeyRef": "files of other containers are not read; write the value out",
}


def _reference_faults(kind: str, reference: Reference, path: str) -> Iterator[str]:
    if kind in _UNAVAILABLE and not reference.optional:
        yield f"{path}: {_UNAVAILABLE[kind]}"
    if kind in NAMED and not reference.name:
        yield f"{path}.name: write the name of the {NAMED[kind].kind}"
    if kind.endswith("KeyRef") and kind in NAMED and not reference.key:
        yield f"{path}.key: write the key in the {NAMED[kind].kind}"
    field = reference.field_path
    if kind == "fieldRef" and field not in FIELDS and not KEYED.fullmatch(field):
        yield f'{path}.fieldPath: "{field}" is not one of {", ".join(FIELDS)}'
