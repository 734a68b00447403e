"""What several commands take: arguments and flags as typer reads them, and how help ends."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


def examples(*lines: str) -> str:
    """The foot of a command's help; \b keeps click from flowing the lines together."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


class RunnerName(StrEnum):
    """Who plays the nodes in the sandbox."""

    SIMULATE = "simulate"


class Output(StrEnum):
    """How a command answers."""

    TEXT = "text"
    JSON = "json"


Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="YAML or JSON, a folder of them, or - for stdin.",
        show_default=False,
    ),
]
Speed = Annotated[
    float,
    typer.Option("--speed", metavar="N", help="Jobs run N times as fast; nothing else does."),
]
Runner = Annotated[
    RunnerName,
    typer.Option("--runner", help="simulate: pods do what annotations of their template say."),
]

FlowName = Annotated[str, typer.Argument(metavar="FLOW", help="The JobFlow.", show_default=False)]
Namespace = Annotated[
    str | None,
    typer.Option("-n", "--namespace", metavar="NS", help="Default: the kubeconfig's."),
]
KUBECONFIG = "Default: $KUBECONFIG, ~/.kube/config, or in a pod its account."
Kubeconfig = Annotated[str | None, typer.Option(metavar="PATH", help=KUBECONFIG)]


def positive(speed: float) -> float:
    """The speed, if it is one. Raises BadParameter."""
    if not 0 < speed < float("inf"):
        raise typer.BadParameter("it has to be more than 0", param_hint="'--speed'")
    return speed
