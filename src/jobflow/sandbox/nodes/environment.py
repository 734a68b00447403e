"""Environment, command and arguments of a container as processes of this machine get them.

Sources: Kubernetes' expansion of `$(NAME)` (third_party/forked/golang/expansion), the kubelet's
order of variables, Volcano's plugins env and svc (pkg/controllers/job/plugins).
"""

import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from jobflow.api.resources import VOLUME_CLAIMS
from jobflow.api.volcano.pod import Pod
from jobflow.sandbox.jobs.objects import ADDRESS, NODE, Vcjob, pod_name
from jobflow.sandbox.nodes import volumes
from jobflow.sandbox.nodes.pod_spec import (
    KEYED,
    NAMED,
    TERMINATION_LOG,
    Reference,
    RunnableContainer,
    RunnablePodSpec,
    pod_spec,
)

TERMINATION_VARIABLE = "TERMINATION_LOG"

Addresses = Callable[[str], str]
"""Returns the address of a pod of the vcjob, by the pod's name."""
Directories = Callable[[str], Path]
"""Returns the directory of a volume claim, by its name."""

_HOSTS_FOLDER = "/etc/volcano"
"""Where Volcano's plugin svc mounts its host files into each container."""
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
    folder: Path = Path()
    """The folder of the pod, for the volumes that are its own."""
    with_addresses: Callable[[str], str] = str
    """Returns a text in which the names of pods in DNS are replaced by their addresses."""

    def mount(self, sources: volumes.Sources) -> None:
        """Fill the folders of the pod's own volumes. Raises MissingSource, OSError."""
        for volume in self.spec.volumes or ():
            if volume.is_folder:
                try:
                    volumes.fill(volume, self.folder / volume.name, sources)
                except (volumes.MissingSource, OSError) as error:
                    why = f'MountVolume.SetUp failed for volume "{volume.name}" : {error}'
                    raise volumes.MissingSource(why) from error
        for name, text in host_files(self.job, self.addresses).items():
            volumes.write_file(self.folder / _HOSTS_FOLDER.strip("/") / name, text.encode())

    def invocation(
        self, container: RunnableContainer, message_file: str, sources: volumes.Sources
    ) -> tuple[list[str], dict[str, str], str]:
        """Return the arguments, environment and directory of a container ("": that of the sandbox).
        `message_file` replaces terminationMessagePath as a whole path, the folder of a volume its
        mountPath at the start of a path, and the address of a pod its name in DNS. Raises
        MissingSource, and OSError for a subPathExpr out of its volume."""
        own = self._variables(container, sources)
        mounts = self._mounts(container, own, sources)
        # The longest first, because the first path that matches is taken.
        any_path = "|".join(map(re.escape, sorted(mounts, key=len, reverse=True)))
        mounted = re.compile(rf"{_BEFORE_PATH}(?:{any_path})(?![\w.-])")
        path = re.escape(container.termination_message_path or TERMINATION_LOG)
        message_path = re.compile(rf"{_BEFORE_PATH}{path}(?![\w./-])")

        def in_volumes(text: str) -> str:
            return mounted.sub(lambda found: mounts[found.group()], text) if mounts else text

        # The message file first: its path may be below the mountPath of a volume.
        def placed(text: str) -> str:
            text = message_path.sub(lambda _: message_file, self.with_addresses(text))
            return in_volumes(text)

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

    def _variables(self, container: RunnableContainer, sources: volumes.Sources) -> dict[str, str]:
        """Return the variables of a container. Raises MissingSource."""
        own: dict[str, str] = {}
        for variable in container.env or ():
            if variable.value_from is None or variable.value:
                # Values of envFrom are not seen here, as in a kubelet.
                own[variable.name] = expand(variable.value or "", own)
                continue
            for kind, reference in variable.value_from.items():
                if reference is None:
                    continue
                if kind == "fieldRef":
                    own[variable.name] = _field(reference.field_path, self.pod, self.addresses)
                elif kind in NAMED:
                    values = self._values(kind, reference, sources)
                    if reference.key in values:
                        own[variable.name] = values[reference.key]
                    elif not reference.optional:
                        owner = f"{self.pod.metadata.namespace}/{reference.name}"
                        what = f"{NAMED[kind].kind} {owner}"
                        raise volumes.MissingSource(f"couldn't find key {reference.key} in {what}")
        found: dict[str, str] = {}
        for each in container.env_from or ():
            for kind, reference in each.references.items():
                if reference is not None:
                    values = self._values(kind, reference, sources)
                    found |= {f"{each.prefix}{key}": value for key, value in values.items()}
        # Volcano appends its variables, so they win over those of the container.
        return found | own | plugin_variables(self.job, self.pod, self.addresses)

    @staticmethod
    def _values(kind: str, reference: Reference, sources: volumes.Sources) -> dict[str, str]:
        source = (NAMED[kind], reference.name)
        values = volumes.values_of(sources, source, optional=reference.optional)
        return {key: os.fsdecode(value) for key, value in values.items()}

    def _mounts(
        self, container: RunnableContainer, own: Mapping[str, str], sources: volumes.Sources
    ) -> dict[str, str]:
        """Return the place of each mountPath on this machine. Raises OSError."""
        places: dict[str, Path] = {}
        for name, claim in self.spec.claims.items():
            # a later claim of the name is another volume, and one that moves to a flow is not
            uids = (sources.get((VOLUME_CLAIMS, claim)) or {}).values()
            places[name] = self.directories(claim).joinpath(*map(os.fsdecode, uids))
        for volume in self.spec.volumes or ():
            if volume.is_folder:
                places[volume.name] = self.folder / volume.name
        mounts: dict[str, str] = {}
        if has_host_names(self.job):
            mounts[_HOSTS_FOLDER] = str(self.folder / _HOSTS_FOLDER.strip("/"))
        for mount in container.volume_mounts or ():
            path = mount.mount_path.rstrip("/")
            if mount.name in places and path:
                below, expression = mount.sub_path or "", mount.sub_path_expr
                if expression is not None:
                    below, names = expand(expression, own), _REFERENCE.findall(expression)
                    missing = [name for name in names if name and name not in own]
                    if missing:
                        why = f"subPathExpr has no value for {missing[0]}"
                        raise OSError(errno.EINVAL, why, expression)
                    if not volumes.is_inside(below):
                        # Without the value, which may be that of a Secret.
                        why = "subPathExpr leads out of the volume"
                        raise OSError(errno.EINVAL, why, expression)
                place = places[mount.name] / below
                # A claim is empty until the first pod writes to it; a file of a Secret exists.
                if not place.exists():
                    place.mkdir(parents=True, exist_ok=True)
                mounts[path] = str(place)
        return mounts


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
    if not any(map(_NO_INJECTION.fullmatch, plugins.get("svc") or ())):
        files = host_files(job, addresses)
        found |= {name: text for name, text in files.items() if name.startswith("VC_")}
    return found


def has_host_names(job: Vcjob) -> bool:
    return "svc" in (job.spec.plugins or {})


def host_files(job: Vcjob, addresses: Addresses) -> dict[str, str]:
    """Return the files of Volcano's plugin svc, which has addresses here in place of names."""
    found: dict[str, str] = {}
    for task, hosts in _hosts(job):
        key = f"VC_{task.replace('-', '_').upper()}"
        own = [*map(addresses, hosts.values())]
        found |= {f"{key}_HOSTS": ",".join(own), f"{key}_NUM": str(len(own))}
        found[f"{task}.host"] = "\n".join(own)
    return found


def host_names(job: Vcjob) -> dict[str, str]:
    """Return the names in DNS that the plugin svc gives to pods: `POD.JOB` -> pod."""
    return {name: pod for _, hosts in _hosts(job) for name, pod in hosts.items()}


def _hosts(job: Vcjob) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each task of a vcjob with the plugin svc, with its hosts' names in DNS and pods."""
    for task in (job.spec.tasks or ()) if has_host_names(job) else ():
        spec, name = pod_spec(task), task.name or ""
        # Each pod has its own host name, but all share a `hostname`.
        count = min(task.replicas or 0, 1) if spec.hostname else task.replicas or 0
        pods = [pod_name(job.metadata.name, name, i) for i in range(count)]
        domain = spec.subdomain or job.metadata.name
        yield name, {f"{spec.hostname or pod}.{domain}": pod for pod in pods}
