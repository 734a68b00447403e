"""The checks of probes, each with its place in the flow."""

from typing import Generic, NamedTuple, TypeVar

from jobflow.api.flow.dependencies import HTTPGetProbe, TaskStatusProbe, TCPSocketProbe

A = TypeVar("A", HTTPGetProbe, TCPSocketProbe, TaskStatusProbe, covariant=True)


class ProbeEntry(NamedTuple, Generic[A]):
    """An entry in one of the lists of a step's probe."""

    step: int
    of: str
    """JSON path of the step: `spec.flows[3]`."""
    field: str
    """The list: `httpGetList`."""
    at: int
    asked: A

    @property
    def place(self) -> str:
        """Path below the probe: `httpGetList[0]`."""
        return f"{self.field}[{self.at}]"

    @property
    def path(self) -> str:
        """JSON path in the flow."""
        return f"{self.of}.dependsOn.probe.{self.place}"


AnyProbeEntry = ProbeEntry[HTTPGetProbe] | ProbeEntry[TCPSocketProbe] | ProbeEntry[TaskStatusProbe]
