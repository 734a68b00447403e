"""Arguments and flags that several commands share, and the examples below a command's help."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer


def examples(*lines: str) -> str:
    """Return the examples below a command's help; \b keeps click from joining the lines."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


class RunnerName(StrEnum):
    """How the sandbox runs pods."""

    SIMULATE = "simulate"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class Nodes:
    """How the sandbox runs pods, with the options of each runner."""

    runner: RunnerName
    speed: float = 1.0
    """Factor by which simulated jobs run faster."""
    max_restarts: int = 3
    """Most restarts of each container that is a process."""


class Output(StrEnum):
    """Format of a command's output."""

    TEXT = "text"
    JSON = "json"


Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="YAML or JSON files, folders with such files, or - for stdin.",
        show_default=False,
    ),
]
Params = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        metavar="NAME=VALUE",
        help="Set a param of every flow that declares it; VALUE is YAML or JSON. May be repeated.",
        show_default=False,
    ),
]
Lenient = Annotated[
    bool,
    typer.Option(
        "--lenient",
        help="Report as a warning whatever the webhook would only warn about, such as unknown "
        "fields of jobs and pods.",
    ),
]
Speed = Annotated[
    float | None,
    typer.Option(
        "--speed",
        metavar="N",
        help="With --runner simulate: run jobs N times as fast; timeouts and delays of the flow "
        "stay as they are. Default: 1.",
    ),
]
Runner = Annotated[
    RunnerName,
    typer.Option(
        "--runner",
        help="simulate: no command runs; annotations of the JobTemplate set how long a pod runs "
        "and how it ends. process: run each container's command on this machine.",
    ),
]
MaxRestarts = Annotated[
    int | None,
    typer.Option(
        "--max-restarts",
        metavar="N",
        help="With --runner process: restarts of a container that its restartPolicy allows. "
        "Default: 3.",
    ),
]

FlowName = Annotated[
    str, typer.Argument(metavar="FLOW", help="Name of the JobFlow.", show_default=False)
]
Namespace = Annotated[
    str | None,
    typer.Option("-n", "--namespace", metavar="NS", help="Default: that of the kubeconfig."),
]
KUBECONFIG = "Default: $KUBECONFIG, ~/.kube/config, or the service account of the pod."
Kubeconfig = Annotated[str | None, typer.Option(metavar="PATH", help=KUBECONFIG)]


def nodes(runner: RunnerName, speed: float | None, max_restarts: int | None) -> Nodes:
    """Combine the flags that choose a runner. Raises BadParameter."""
    simulated = runner is RunnerName.SIMULATE
    for flag, fault in (
        ("--speed", speed is not None and not simulated and "needs --runner simulate"),
        ("--speed", speed is not None and not 0 < speed < float("inf") and "must be more than 0"),
        ("--max-restarts", max_restarts is not None and simulated and "needs --runner process"),
        ("--max-restarts", (max_restarts or 0) < 0 and "must be 0 or more"),
    ):
        if fault:
            raise typer.BadParameter(fault, param_hint=f"'{flag}'")
    return Nodes(
        runner,
        speed=1.0 if speed is None else speed,
        max_restarts=3 if max_restarts is None else max_restarts,
    )
