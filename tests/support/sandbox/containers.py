"""Container statuses of pods for tests: ended, restarted, waiting or running."""

from datetime import datetime

import msgspec

from jobflow.api.volcano.job import (
    ContainerOutline,
    ContainerResources,
    Job,
    JobOutline,
    PodOutline,
    PodTemplateOutline,
    TaskOutline,
)
from jobflow.api.volcano.pod import (
    ContainerState,
    ContainerStatus,
    ContainerWaiting,
    Pod,
    PodSpec,
    Terminated,
)


def ended(
    code: int,
    reason: str = "",
    *,
    name: str = "c",
    message: str = "",
    at: datetime | None = None,
    signal: int | None = None,
) -> ContainerStatus:
    """Return a container that has ended."""
    terminated = Terminated(
        exit_code=code,
        signal=signal,
        reason=reason or ("Error" if code else "Completed"),
        message=message,
        finished_at=at,
    )
    return ContainerStatus(name=name, state=ContainerState(terminated=terminated))


def restarted(status: ContainerStatus) -> ContainerStatus:
    """Return the container after a restart."""
    return msgspec.structs.replace(status, state=ContainerState(), last_state=status.state)


def waiting_container(reason: str, *, name: str = "c", message: str = "") -> ContainerStatus:
    """Return a container that waits."""
    waiting = ContainerWaiting(reason=reason, message=message)
    return ContainerStatus(name=name, state=ContainerState(waiting=waiting))


def running(name: str = "c") -> ContainerStatus:
    return ContainerStatus(name=name)


def with_containers(
    pod: Pod,
    *containers: ContainerStatus,
    init: tuple[ContainerStatus, ...] = (),
    node: str = "",
    reason: str = "",
    message: str = "",
) -> Pod:
    """Return the pod on a node with these containers. `reason` is that of the pod."""
    status = msgspec.structs.replace(
        pod.status,
        container_statuses=list(containers) or None,
        init_container_statuses=list(init) or None,
        reason=reason,
        message=message,
    )
    return msgspec.structs.replace(pod, spec=PodSpec(node_name=node), status=status)


def outlined(job: Job, *tasks: str, **requests: object) -> Job:
    """Return the vcjob with an outline of tasks like `ps=1`. Each task has the containers `c`, with
    `requests`, and `side`."""
    resources = ContainerResources(requests=requests) if requests else None
    first, second = ContainerOutline(name="c", resources=resources), ContainerOutline(name="side")
    template = PodTemplateOutline(spec=PodOutline(containers=[first, second]))
    outlines = []
    for task in tasks:
        name, _, replicas = task.partition("=")
        outlines.append(TaskOutline(name=name, replicas=int(replicas or 1), template=template))
    return msgspec.structs.replace(job, spec=JobOutline(tasks=outlines))
