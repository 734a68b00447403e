"""Environment, command and arguments of a container, as a kubelet derives them from a template.

Sources: Kubernetes' expansion of `$(NAME)` (third_party/forked/golang/expansion), the kubelet's
order of variables, Volcano's plugins env and svc (pkg/controllers/job/plugins).
"""

import errno
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from jobflow.api.volcano.pod import Pod
from jobflow.sandbox.jobs.job import Vcjob
from jobflow.sandbox.jobs.pods import ADDRESS, NODE
from jobflow.sandbox.jobs.state_machine import pod_name
from jobflow.sandbox.nodes.process.pod_spec import (
    KEYED,
    TERMINATION_LOG,
    RunnableContainer,
    RunnablePodSpec,
    is_inside,
    pod_spec,
)

TERMINATION_VARIABLE = "TERMINATION_LOG"
"""Variable with the path of the termination message file."""

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
        `message_file` replaces terminationMessagePath wherever that is a whole path, and the
        directory of a volume claim its mountPath wherever a path begins with it. Raises OSError for
        a subPathExpr that is no path inside of its volume."""
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
                place = self.directories(self.spec.claims[mount.name])
                if mount.sub_path_expr is None:
                    place /= mount.sub_path or ""
                else:
                    place /= _expanded_path(mount.sub_path_expr, own)
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

        def placed(text: str) -> str:
            return in_volumes(message_path.sub(lambda _: message_file, text))

        words = [*(container.command or ()), *(container.args or ())]
        # The container wins over the sandbox's own environment, which takes the place of the
        # image's.
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


def _expanded_path(expression: str, values: Mapping[str, str]) -> str:
    """Return the path that a subPathExpr means. Raises OSError, as a kubelet refuses to create the
    container."""
    missing = [name for name in _REFERENCE.findall(expression) if name and name not in values]
    path = expand(expression, values)
    if missing or not is_inside(path):
        why = f"has no value for {missing[0]}" if missing else f"is {path}, outside of the volume"
        raise OSError(errno.EINVAL, f"subPathExpr {why}", expression)
    return path


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
    """Return the variables of Volcano's plugins env and svc, if the vcjob names them. Hosts are
    addresses, because no DNS serves the names that svc uses."""
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
            key = (task.name or "").replace("-", "_").upper()
            found |= {
                f"VC_{key}_HOSTS": ",".join(map(addresses, names)),
                f"VC_{key}_NUM": str(count),
            }
    return found
