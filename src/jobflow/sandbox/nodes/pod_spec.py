"""Pod templates as the process runner reads them: what it cannot run, and the environment, command
and arguments of a container.

The local machine replaces the images: its files, its environment, its working directory. A volume
claim is a directory. Other fields are ignored; docs/reference.md lists them.

Sources: Kubernetes' expansion of `$(NAME)` (third_party/forked/golang/expansion), the kubelet's
order of variables, Volcano's plugins env and svc (pkg/controllers/job/plugins).
"""

import errno
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from jobflow.api.resources import Struct
from jobflow.api.volcano.job import Task
from jobflow.api.volcano.pod import Pod
from jobflow.core.admission.object_names import name_violations
from jobflow.sandbox.jobs.objects import ADDRESS, NODE, Vcjob, pod_name

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

References = dict[str, dict[str, Any] | None]
"""References to a field, Secret or ConfigMap, by kind: `fieldRef`, `secretKeyRef` and so on."""


class EnvVar(Struct):
    name: str = ""
    value: str | None = None
    value_from: References | None = None


class VolumeMount(Struct):
    name: str = ""
    mount_path: str = ""
    sub_path: str | None = None
    sub_path_expr: str | None = None


class ClaimSource(Struct):
    claim_name: str = ""


class Volume(Struct):
    name: str = ""
    persistent_volume_claim: ClaimSource | None = None


class RunnableContainer(Struct):
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


class RunnablePodSpec(Struct):
    init_containers: list[RunnableContainer] | None = None
    containers: list[RunnableContainer] | None = None
    volumes: list[Volume] | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    hostname: str | None = None

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


TERMINATION_VARIABLE = "TERMINATION_LOG"

Addresses = Callable[[str], str]
"""Returns the address of a pod of the vcjob, by the pod's name."""
Directories = Callable[[str], Path]
"""Returns the directory of a volume claim, by its name."""

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
_BEFORE_PATH = r"(?<![\w./$)}-])"
_NO_INJECTION = re.compile(r"--?inject-hosts-env=(0|f|F|false|FALSE|False)")


@dataclass(frozen=True, slots=True)
class ContainerContext:
    """The pod that a container belongs to, and its surroundings."""

    pod: Pod
    spec: RunnablePodSpec
    job: Vcjob
    addresses: Addresses
    base: Mapping[str, str]
    directories: Directories

    def invocation(
        self, container: RunnableContainer, message_file: str
    ) -> tuple[list[str], dict[str, str], str]:
        """Return the arguments, environment and directory of a container ("": that of the sandbox).
        `message_file` replaces terminationMessagePath as a whole path, and the directory of a claim
        its mountPath at the start of a path. Raises OSError for a subPathExpr out of its volume."""
        own: dict[str, str] = {}
        for variable in container.env or ():
            if variable.value_from is None or variable.value:
                own[variable.name] = expand(variable.value or "", own)
            elif field := variable.value_from.get("fieldRef"):  # else an optional source
                own[variable.name] = _field(field["fieldPath"], self.pod, self.addresses)
        # Volcano appends its variables, so they win over those of the container.
        own |= plugin_variables(self.job, self.pod, self.addresses)

        mounts: dict[str, str] = {}
        for mount in container.volume_mounts or ():
            path = mount.mount_path.rstrip("/")
            if mount.name in self.spec.claims and path:
                below, expression = mount.sub_path or "", mount.sub_path_expr
                if expression is not None:
                    below, names = expand(expression, own), _REFERENCE.findall(expression)
                    missing = [name for name in names if name and name not in own]
                    if missing:
                        why = f"subPathExpr has no value for {missing[0]}"
                        raise OSError(errno.EINVAL, why, expression)
                    if not is_inside(below):
                        why = f"subPathExpr is {below}, outside of the volume"
                        raise OSError(errno.EINVAL, why, expression)
                place = self.directories(self.spec.claims[mount.name]) / below
                # A claim is empty until the first pod writes to it.
                place.mkdir(parents=True, exist_ok=True)
                mounts[path] = str(place)
        # The longest first, because the first path that matches is taken.
        any_path = "|".join(map(re.escape, sorted(mounts, key=len, reverse=True)))
        mounted = re.compile(rf"{_BEFORE_PATH}(?:{any_path})(?![\w.-])")
        path = re.escape(container.termination_message_path or TERMINATION_LOG)
        message_path = re.compile(rf"{_BEFORE_PATH}{path}(?![\w./-])")

        def in_volumes(text: str) -> str:
            return mounted.sub(lambda found: mounts[found.group()], text) if mounts else text

        # The message file first: its path may be below the mountPath of a volume.
        def placed(text: str) -> str:
            return in_volumes(message_path.sub(lambda _: message_file, text))

        words = [*(container.command or ()), *(container.args or ())]
        # The container wins over the sandbox's own environment, which is in place of the image's.
        env = {
            **self.base,
            "HOSTNAME": self.spec.hostname or self.pod.metadata.name,
            TERMINATION_VARIABLE: message_file,
            **{name: placed(value) for name, value in own.items()},
        }
        argv = [placed(expand(word, own)) for word in words]
        return argv, env, in_volumes(container.working_dir or "")


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by its value, and `$$` by `$`; an unknown name stays as it is."""

    def value(found: re.Match[str]) -> str:
        return "$" if found[1] is None else values.get(found[1], found[0])

    return _REFERENCE.sub(value, text)


def _field(path: str, pod: Pod, addresses: Addresses) -> str:
    meta = pod.metadata
    if keyed := KEYED.fullmatch(path):
        entries = meta.labels if keyed.group(1) == "labels" else meta.annotations
        return (entries or {}).get(keyed.group(2), "")
    fields = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "spec.nodeName": NODE,
        "spec.serviceAccountName": "default",
        **dict.fromkeys(("status.hostIP", "status.hostIPs"), ADDRESS),
        **dict.fromkeys(("status.podIP", "status.podIPs"), addresses(meta.name)),
    }
    return fields[path]


def plugin_variables(job: Vcjob, pod: Pod, addresses: Addresses) -> dict[str, str]:
    """Return the variables of Volcano's plugins env and svc, if the vcjob names them."""
    plugins = job.spec.plugins or {}
    found: dict[str, str] = {}
    if "env" in plugins:
        index = pod.metadata.name.rpartition("-")[2]
        found |= dict.fromkeys(("VK_TASK_INDEX", "VC_TASK_INDEX"), index)
    if "svc" in plugins and not any(map(_NO_INJECTION.fullmatch, plugins["svc"] or ())):
        for task in job.spec.tasks or ():
            # Each pod has its own host name, but all share a `hostname`.
            count = min(task.replicas or 0, 1) if pod_spec(task).hostname else task.replicas or 0
            names = [pod_name(job.metadata.name, task.name or "", i) for i in range(count)]
            key = f"VC_{(task.name or '').replace('-', '_').upper()}"
            hosts = ",".join(map(addresses, names))
            found |= {f"{key}_HOSTS": hosts, f"{key}_NUM": str(count)}
    return found
