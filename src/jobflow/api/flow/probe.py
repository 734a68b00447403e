"""`dependsOn.probe`: checks of the tasks and pods of a target's jobs."""

from typing import Annotated

from jobflow.api.flow.traits import Required
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
