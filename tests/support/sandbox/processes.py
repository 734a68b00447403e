"""The process runner with single pods, and checks of running processes, for tests."""

import asyncio
import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from jobflow.api.volcano.pod import Pod
from jobflow.sandbox.jobs.objects import Vcjob, VcjobObject, build_pod, read_vcjob
from jobflow.sandbox.nodes.process_runner import ProcessRunner
from jobflow.sandbox.nodes.runner import Assignment, PodProgress, pod_status

Json = dict[str, Any]
PATIENCE = 30.0
"""Timeout for a process in seconds."""


def sh(script: str, name: str = "c", **more: Any) -> Json:
    """Return a container that runs a shell script, with `$` escaped for Kubernetes."""
    words = ["sh", "-c", script.replace("$$", "$$$$")]
    return {"name": name, "image": "busybox", "command": words, **more}


def pod_task(*containers: Json, task: str = "t", replicas: int = 1, **spec: Any) -> Json:
    """Return a task whose pods are not restarted unless `spec` says so."""
    pod = {"restartPolicy": "Never", "containers": list(containers), **spec}
    return {"name": task, "replicas": replicas, "template": {"spec": pod}}


def job_of(*tasks: Json, **spec: Any) -> Vcjob:
    """Return a vcjob `j` as the job controller reads it."""
    meta = {"name": "j", "namespace": "default", "uid": "u"}
    manifest = {"metadata": meta, "spec": {"tasks": list(tasks), **spec}}
    return read_vcjob(msgspec.json.decode(msgspec.json.encode(manifest), type=VcjobObject))


def pod_of(job: Vcjob, task: int = 0, index: int = 0, **status: Any) -> Pod:
    """Return a new pod of a vcjob."""
    manifest = build_pod(job, (job.spec.tasks or [])[task], index)
    manifest["metadata"]["uid"] = f"uid-{manifest['metadata']['name']}"
    manifest["status"] |= status
    return msgspec.convert(manifest, Pod)


@dataclass
class PodReports:
    """The reports of a runner about a pod."""

    pod: Pod
    progress: list[PodProgress] = field(default_factory=list)
    received: asyncio.Event = field(default_factory=asyncio.Event)
    """Set after the first report."""

    async def report(self, progress: PodProgress) -> None:
        self.progress.append(progress)
        self.received.set()

    @property
    def phases(self) -> list[str]:
        """The phases without repetitions."""
        return list(dict.fromkeys(str(each.phase) for each in self.progress))

    @property
    def status(self) -> Json:
        """The last status that would be written."""
        return pod_status(self.pod, self.progress[-1])

    def state(self, container: int = 0, of: str = "containerStatuses") -> Json:
        """Return the `terminated` state of a container."""
        ended: Json = self.status[of][container]["state"]["terminated"]
        return ended


@contextmanager
def process_runner(folder: Path, *, restarts: int = 3) -> Iterator[ProcessRunner]:
    """A runner that restarts containers almost immediately."""
    with ProcessRunner(folder, max_restarts=restarts, first_pause=0.001) as runner:
        yield runner


def assignment(job: Vcjob, pod: Pod) -> Assignment:
    now = datetime.now(UTC)
    return Assignment(job, pod, now, now)


def start_pod(
    runner: ProcessRunner, task: Json, *, uid: str = "u", **spec: Any
) -> tuple[PodReports, asyncio.Task[None]]:
    """Start the only pod of a job with one task."""
    job = job_of(task, **spec)
    assert not runner.faults(job)
    pod = pod_of(job)
    pod = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=uid))
    reports = PodReports(pod)
    return reports, asyncio.create_task(runner.run(assignment(job, pod), reports.report))


async def run_pod(runner: ProcessRunner, task: Json, **spec: Any) -> PodReports:
    """Run the only pod of a job with one task to its end."""
    reports, running = start_pod(runner, task, **spec)
    await running
    return reports


def read_log(runner: ProcessRunner, name: str = "c.log", pod: str = "j-t-0") -> str:
    """Return a complete log."""
    return (runner.folder / "default" / pod / name).read_text()


def wait_for_end(pid: int) -> None:
    """Wait until no process has this ID."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([fd], [], [], PATIENCE)[0], f"process {pid} is still there"
    finally:
        os.close(fd)


def living(*pids: int) -> list[int]:
    """Return the processes that exist, including zombies."""
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


class Pids:
    """A named pipe through which processes under test report their IDs."""

    def __init__(self, folder: Path) -> None:
        self.path, self.gate = folder / "pids", folder / "gate"
        os.mkfifo(self.path)
        os.mkfifo(self.gate)
        self._file = os.fdopen(os.open(self.path, os.O_RDWR), "rb", buffering=0)

    def next(self, count: int) -> list[int]:
        """Wait for the next IDs."""
        read = b""
        while read.count(b"\n") < count:
            assert select.select([self._file], [], [], PATIENCE)[0], f"only {read!r} came"
            read += self._file.read(4096)
        return [int(word) for word in read.split()]

    def release(self) -> None:
        """Release a process that reads `gate`."""
        self.gate.write_text("")

    def close(self) -> None:
        self._file.close()

    def sleeper(self) -> str:
        """Return a script that reports its ID and sleeps."""
        return f"echo $$ > {self.path}; exec sleep 600"

    def runaways(self) -> str:
        """Return a script of three processes that report their IDs: itself, a child, and one that
        leaves its process group and ignores SIGHUP and SIGTERM."""
        stubborn = f"trap '' HUP TERM; echo $$ > {self.path}; while :; do sleep 0.05; done"
        return (
            f'setsid sh -c "$STUBBORN" & sleep 600 & echo $! > {self.path}; echo $$ > {self.path}; '
            "wait"
        ).replace('"$STUBBORN"', _quoted(stubborn))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$") + '"'
