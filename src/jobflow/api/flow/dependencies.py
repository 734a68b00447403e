"""`dependsOn`: the steps that a step waits for, and probes of their tasks and pods."""

from enum import StrEnum
from typing import Annotated

from jobflow.api.flow.traits import Plain, Required
from jobflow.api.meta import Struct
from jobflow.api.volcano.job import Int32


class HTTPHeader(Struct, frozen=True, kw_only=True):
    """HTTP header of a probe."""

    name: str | None = None
    """Name of the header."""
    value: str | None = None
    """Value of the header."""


class HTTPGetProbe(Struct, frozen=True, kw_only=True):
    """HTTP request to each pod of a task."""

    task_name: Annotated[str | None, Required("name the task of the targets' jobs")] = None
    """Name of the task whose pods are probed."""
    path: Annotated[str | None, Required('set the path to request, such as "/healthz"')] = None
    """Path, which begins with a slash."""
    port: Annotated[int | None, Required("set the port of the pods")] = None
    """Port, 1 to 65535."""
    http_header: HTTPHeader | None = None
    """Header to send."""

    @property
    def header(self) -> tuple[str, str] | None:
        """The header's name and value. None if both are empty, as Go clients write an unset one."""
        header = self.http_header
        if header is None or not (header.name or header.value):
            return None
        return header.name or "", header.value or ""


class TCPSocketProbe(Struct, frozen=True, kw_only=True):
    """TCP connection to each pod of a task."""

    task_name: Annotated[str | None, Required("name the task of the targets' jobs")] = None
    """Name of the task whose pods are probed."""
    port: Annotated[int | None, Required("set the port of the pods")] = None
    """Port, 1 to 65535."""


class TaskStatusProbe(Struct, frozen=True, kw_only=True):
    """Phase of a task's pods."""

    task_name: Annotated[str | None, Required("name the task of the targets' jobs")] = None
    """Name of the task whose pods are counted."""
    phase: Annotated[
        str | None,
        Required('set the phase to wait for: "Pending", "Running", "Succeeded", "Failed"'),
    ] = None
    """Pod phase to reach: Pending, Running, Succeeded or Failed. A pod in a later phase has reached
    Pending and Running too."""
    count: Int32 | None = None
    """Number of pods that must reach the phase. Default: all."""


class Probe(Struct, frozen=True, kw_only=True):
    """Checks of the tasks and pods of the targets' jobs. A target is met once all checks pass for
    it; the condition is ignored."""

    http_get_list: list[HTTPGetProbe] | None = None
    """HTTP requests that must succeed."""
    tcp_socket_list: list[TCPSocketProbe] | None = None
    """TCP connections that must succeed."""
    task_status_list: list[TaskStatusProbe] | None = None
    """Pod phases that must be reached."""

    @property
    def empty(self) -> bool:
        """Whether the probe has no checks; then the condition decides."""
        return not (self.http_get_list or self.tcp_socket_list or self.task_status_list)


class Strategy(StrEnum):
    """Number of targets that must reach the condition."""

    ALL = "all"
    ANY = "any"


class Condition(StrEnum):
    """The state that a target must reach."""

    COMPLETED = "Completed"
    FAILED = "Failed"
    FINISHED = "Finished"
    RUNNING = "Running"


class ItemDependency(StrEnum):
    """How the items of a step depend on the items of its targets."""

    MATCHING = "Matching"


class DependsOn(Struct, frozen=True, kw_only=True):
    """Steps that a step waits for, and when it starts."""

    targets: Annotated[list[str] | None, Plain()] = None
    """Names of the steps to wait for."""
    strategy: str | None = None
    """all (default): start when every target has reached the condition. any: start when the first
    one has."""
    condition: str | None = None
    """State that a target must reach: Completed (default), Failed (the step runs only if the target
    fails), Finished (either of them) or Running (the target has started)."""
    conditions: dict[str, str] | None = None
    """Conditions of single targets, by the name of the step, where they differ from condition."""
    probe: Probe | None = None
    """Checks of the tasks and pods of the targets' jobs, which decide instead of condition whether
    a target is met."""

    items: str | None = None
    """Matching: item i of the step's forEach waits only for item i of each target with forEach.
    Without forEach, the step has the items of its targets. Default: the step waits for all items of
    its targets."""

    @property
    def all_conditions(self) -> list[str | None]:
        """The condition of the step, then those of single targets."""
        return [self.condition, *(self.conditions or {}).values()]
