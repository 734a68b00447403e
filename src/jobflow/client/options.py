"""Choices of a caller: the cluster, the flows, the files, and how the sandbox runs pods."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class RunnerName(StrEnum):
    """How the sandbox runs pods."""

    SIMULATE = "simulate"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class Connection:
    """A cluster, a namespace and a user; None: those of the kubeconfig."""

    namespace: str | None = None
    kubeconfig: str | None = None
    """A path; None: $KUBECONFIG, ~/.kube/config, or the service account of the pod."""
    context: str | None = None
    impersonate: str | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """Flows by their labels and namespaces. Raises ValueError for a wrong selector."""

    selector: str | None = None
    all_namespaces: bool = False

    def __post_init__(self) -> None:
        from jobflow.api.labels import parse_label_selector

        try:
            # here, so that a wrong selector is a wrong call, before any request
            parse_label_selector(self.selector or "")
        except ValueError:
            advice = "write it like team=vision,stage!=test"
            fault = f'--selector "{self.selector}" is not a label selector: {advice}'
            raise ValueError(fault) from None


class ParamValues(Protocol):
    """Values of params."""

    @property
    def param(self) -> list[str] | None:
        """NAME=VALUE; these replace values of the file."""

    @property
    def param_file(self) -> str | None:
        """A YAML or JSON file with a mapping of names to values."""


@dataclass(frozen=True, slots=True)
class FileOptions:
    """Files with manifests, and how they are read."""

    files: list[str]
    """YAML or JSON files, folders, or - for stdin."""
    param: list[str] | None = None
    """NAME=VALUE, for every flow that declares the param."""
    param_file: str | None = None
    """YAML or JSON with values, which those of `param` replace."""
    lenient: bool = False
    """Whether all that the webhook would only warn about is a warning."""


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """How the sandbox runs pods. Raises ValueError if the options contradict each other."""

    runner: RunnerName = RunnerName.SIMULATE
    speed: float | None = None
    max_restarts: int | None = None

    def __post_init__(self) -> None:
        simulated = self.runner is RunnerName.SIMULATE
        if self.speed is not None:
            if not simulated:
                raise ValueError("--speed needs --runner simulate")
            if not 0 < self.speed < float("inf"):
                raise ValueError(f'--speed "{self.speed:g}" is not a number above 0')
        if self.max_restarts is not None and simulated:
            raise ValueError("--max-restarts needs --runner process")
