"""`dependsOn`: the steps that a step waits for, and probes of their tasks and pods."""

from enum import StrEnum
from typing import Annotated

from jobflow.api.flow.traits import Plain, Required
from jobflow.api.meta import Doc, Struct
from jobflow.api.volcano.job import Int32


class HTTPHeader(Struct, frozen=True, kw_only=True):
    """HTTP header of a probe."""

    name: Annotated[str | None, Doc("Name of the header.")] = None
    value: Annotated[str | None, Doc("Value of the header.")] = None


class HTTPGetProbe(Struct, frozen=True, kw_only=True):
    """HTTP request to each pod of a task."""

    task_name: Annotated[
        str | None,
        Doc("Name of the task whose pods are probed."),
        Required("name the task of the targets' jobs"),
    ] = None
    path: Annotated[
        str | None,
        Doc("Path, which begins with a slash."),
        Required('set the path to request, such as "/healthz"'),
    ] = None
    port: Annotated[int | None, Doc("Port, 1 to 65535."), Required("set the port of the pods")] = (
        None
    )
    http_header: Annotated[HTTPHeader | None, Doc("Header to send.")] = None

    @property
    def header(self) -> tuple[str, str] | None:
        """The header's name and value. None if both are empty, as Go clients write an unset one."""
        header = self.http_header
        if header is None or not (header.name or header.value):
            return None
        return header.name or "", header.value or ""


class TCPSocketProbe(Struct, frozen=True, kw_only=True):
    """TCP connection to each pod of a task."""

    task_name: Annotated[
        str | None,
        Doc("Name of the task whose pods are probed."),
        Required("name the task of the targets' jobs"),
    ] = None
    port: Annotated[int | None, Doc("Port, 1 to 65535."), Required("set the port of the pods")] = (
        None
    )


class TaskStatusProbe(Struct, frozen=True, kw_only=True):
    """Phase of a task's pods."""

    task_name: Annotated[
        str | None,
        Doc("Name of the task whose pods are counted."),
        Required("name the task of the targets' jobs"),
    ] = None
    phase: Annotated[
        str | None,
        Doc(
            "Pod phase to reach: Pending, Running, Succeeded or Failed. A pod in a later phase "
            "has reached Pending and Running too."
        ),
        Required('set the phase to wait for: "Pending", "Running", "Succeeded", "Failed"'),
    ] = None
    count: Annotated[
        Int32 | None, Doc("Number of pods that must reach the phase. Default: all.")
    ] = None


class Probe(Struct, frozen=True, kw_only=True):
    """Checks of the tasks and pods of the targets' jobs. A target is met once all checks pass for
    it; the condition is ignored."""

    http_get_list: Annotated[list[HTTPGetProbe] | None, Doc("HTTP requests that must succeed.")] = (
        None
    )
    tcp_socket_list: Annotated[
        list[TCPSocketProbe] | None, Doc("TCP connections that must succeed.")
    ] = None
    task_status_list: Annotated[
        list[TaskStatusProbe] | None, Doc("Pod phases that must be reached.")
    ] = None

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

    targets: Annotated[list[str] | None, Doc("Names of the steps to wait for."), Plain()] = None
    strategy: Annotated[
        str | None,
        Doc(
            "all (default): start when every target has reached the condition. any: start when "
            "the first one has."
        ),
    ] = None
    condition: Annotated[
        str | None,
        Doc(
            "State that a target must reach: Completed (default), Failed (the step runs only if "
            "the target fails), Finished (either of them) or Running (the target has started)."
        ),
    ] = None
    conditions: Annotated[
        dict[str, str] | None,
        Doc(
            "Conditions of single targets, by the name of the step, where they differ from "
            "condition."
        ),
    ] = None
    probe: Annotated[
        Probe | None,
        Doc(
            "Checks of the tasks and pods of the targets' jobs, which decide instead of condition "
            "whether a target is met."
        ),
    ] = None

    items: Annotated[
        str | None,
        Doc(
            "Matching: item i of the step's forEach waits only for item i of each target with "
            "forEach. Without forEach, the step has the items of its targets. Default: the step "
            "waits for all items of its targets."
        ),
    ] = None

    @property
    def all_conditions(self) -> list[str | None]:
        """The condition of the step, then those of single targets."""
        return [self.condition, *(self.conditions or {}).values()]
