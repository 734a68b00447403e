"""Process runner: the containers of pods are local processes, which end with their pod, and with
the sandbox, even if that is killed (supervisor)."""

from __future__ import annotations

import itertools
import os
import random
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path

from jobflow.api.volcano.pod import Pod, PodPhase
from jobflow.sandbox.jobs.objects import ADDRESS, Vcjob
from jobflow.sandbox.nodes import runner
from jobflow.sandbox.nodes.environment import host_names
from jobflow.sandbox.nodes.logs import ContainerLog, Logs, new_folder
from jobflow.sandbox.nodes.pod import UNKNOWN, PodContext, PodLife
from jobflow.sandbox.nodes.pod_spec import RunnablePodSpec, faults, pod_spec
from jobflow.sandbox.nodes.simulate import utc_now

_LABEL = "[a-z0-9][a-z0-9-]*"
_NAMESPACE = rf"(?:\.(?P<namespace>{_LABEL})(?:\.svc(?:\.cluster\.local)?)?)?"
_END = r"(?![\w-]|\.\w)"
_HOST_NAME = re.compile(rf"(?P<before>)(?<![\w.-])(?P<name>{_LABEL}\.{_LABEL}){_NAMESPACE}{_END}")
_SERVICE = re.compile(
    rf"(?:(?P<before>://(?:[^\s/@]*@)?)|(?<![\w./:@-]))(?P<name>{_LABEL}){_NAMESPACE}"
    rf"(?(before){_END}|(?=:[0-9]{{1,5}}{_END}))"
)
"""The host of a URL, or a name before a port."""


class ProcessRunner:
    """Runs pods as local processes, in a context with a folder for their logs under `logs`, which
    is removed if it is empty. Entering raises OSError."""

    graceful = True

    def __init__(
        self, logs: Path, *, max_restarts: int | None = None, first_pause: float = 1.0
    ) -> None:
        self.failures: list[runner.FailedRun] = []
        self._parent = logs
        self._max_restarts = 3 if max_restarts is None else max_restarts
        self._first_pause = first_pause
        self._addresses = Addresses()
        self._lives: dict[str, PodLife] = {}
        self._names: dict[tuple[str, str], PodLife] = {}
        self._base = dict(os.environ)
        self._numbers = itertools.count()

    def __enter__(self) -> ProcessRunner:
        self.folder, self._mark = new_folder(self._parent, utc_now())
        self._logs = Logs(self.folder)
        self._scratch = Path(tempfile.mkdtemp(prefix="jobflow-"))
        return self

    def __exit__(self, *_: object) -> None:
        # A run without pods leaves nothing behind.
        if not self.used:
            shutil.rmtree(self.folder)
        os.close(self._mark)
        shutil.rmtree(self._scratch, ignore_errors=True)

    @property
    def used(self) -> bool:
        return any(path.is_dir() for path in self.folder.iterdir())

    @property
    def blocked(self) -> dict[tuple[str, str], str]:
        """Why no pod of a vcjob starts, by its namespace and name: Secrets that do not exist."""
        found: dict[tuple[str, str], str] = {}
        running: set[tuple[str, str]] = set()
        for life in self._lives.values():
            if life.blocked:
                found[life.job] = life.blocked
            else:
                running.add(life.job)
        return {job: why for job, why in found.items() if job not in running}

    @property
    def has_own_addresses(self) -> bool:
        """Whether each pod has a loopback address of its own."""
        return self._addresses.many

    def faults(self, job: Vcjob) -> Sequence[str]:
        return tuple(faults(job))

    async def run(self, assignment: runner.Assignment, report: runner.Report) -> None:
        """Run a pod's containers, after the end of an earlier pod of the same name. A pod that
        another process started is lost, because its processes ended with that process."""
        pod = assignment.pod
        name = (pod.metadata.namespace, pod.metadata.name)
        if pod.phase == PodPhase.RUNNING:
            # Its processes ended with the sandbox that ran them.
            started, now = assignment.started, utc_now()
            why = "The container could not be located when the pod was terminated"
            lost = runner.ContainerProgress(started, now, 137, UNKNOWN, why)
            main = [lost] * len(pod.spec.containers or ())
            done = runner.ContainerProgress(started, started)
            init = [done] * len(pod.spec.init_containers or ())
            address = self._addresses.of(*name)
            await report(runner.PodProgress(PodPhase.FAILED, started, now, main, init, address))
            return
        context = self._context(assignment)
        life, before = PodLife(context, report), self._names.get(name)
        self._addresses.publish(assignment.job)
        self._names[name] = life
        try:
            # Both pods have the same address, and would use the same ports.
            if before is not None:
                await before.over.wait()
            self._lives[pod.metadata.uid] = life
            await life.live()
        finally:
            life.over.set()
            self._lives.pop(pod.metadata.uid, None)
            if self._names[name] is life:
                del self._names[name]
            shutil.rmtree(context.folder, ignore_errors=True)

    async def end(self, pod: Pod) -> None:
        if (life := self._lives.get(pod.metadata.uid)) is not None:
            await life.delete()

    def log(self, pod_uid: str, container: str, run: int) -> ContainerLog | None:
        return self._logs.find(pod_uid, container, run)

    def _context(self, assignment: runner.Assignment) -> PodContext:
        pod, job = assignment.pod, assignment.job
        namespace = pod.metadata.namespace
        tasks = {task.name: task for task in job.spec.tasks or ()}
        return PodContext(
            pod=pod,
            spec=pod_spec(tasks[pod.task]) if pod.task in tasks else RunnablePodSpec(),
            job=job,
            addresses=lambda name: self._addresses.of(namespace, name),
            base=self._base,
            directories=self._scratch.joinpath("volumes", namespace).joinpath,
            folder=self._scratch / "pods" / pod.metadata.uid,
            with_addresses=partial(self._addresses.replace_names, namespace),
            read=partial(assignment.read, namespace),
            logs=self._logs,
            scratch=lambda: self._scratch / f"message-{next(self._numbers)}",
            max_restarts=self._max_restarts,
            first_pause=self._first_pause,
            failed=self.failures.append,
        )


class Addresses:
    """One loopback address for each pod, so that all pods can use the same ports, unless the system
    has only 127.0.0.1 (macOS). The first is random, as other sandboxes may be running."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._pods: dict[tuple[str, str], str] = {}
        """The pods that have a name in DNS, and a pod of each job that is a Service, by namespace
        and name."""
        self._published: set[str] = set()
        first, last = int(IPv4Address("127.1.0.1")), int(IPv4Address("127.254.0.1"))
        self._next = random.randrange(first, last)
        self.many = False
        if sys.platform == "linux":
            with suppress(OSError), socket.create_server((str(IPv4Address(self._next)), 0)):
                self.many = True

    def of(self, namespace: str, pod: str) -> str:
        """Return the address of the pod of this name; it is stable and exists before the pod."""
        # Systems other than Linux have one loopback address.
        if not self.many:
            return ADDRESS
        if (namespace, pod) not in self._given:
            self._given[namespace, pod] = str(IPv4Address(self._next))
            self._next += 1
        return self._given[namespace, pod]

    def publish(self, job: Vcjob) -> None:
        """Give a vcjob with the plugin svc, and its pods, their names in DNS."""
        meta = job.metadata
        if meta.uid not in self._published:  # once, and not for each of many pods
            self._published.add(meta.uid)
            names = host_names(job)
            self._pods |= {(meta.namespace, name): pod for name, pod in names.items()}
            for pod in [*names.values()][:1]:
                self._pods[meta.namespace, meta.name] = pod

    def replace_names(self, own_namespace: str, text: str) -> str:
        """Replace the names of pods in DNS by their addresses, and that of a Service, if it is the
        host of a URL or before a port, by the address of its first pod; other names stay."""

        def address(found: re.Match[str]) -> str:
            namespace = found["namespace"] or own_namespace
            pod = self._pods.get((namespace, found["name"]))
            return found[0] if pod is None else (found["before"] or "") + self.of(namespace, pod)

        return _SERVICE.sub(address, _HOST_NAME.sub(address, text)) if self._pods else text
