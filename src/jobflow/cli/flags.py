"""What several commands take: arguments and flags as typer reads them, and how help ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer


def examples(*lines: str) -> str:
    """The foot of a command's help; \b keeps click from flowing the lines together."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


class RunnerName(StrEnum):
    """Who plays the nodes in the sandbox."""

    SIMULATE = "simulate"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class Nodes:
    """Who plays the nodes, and how."""

    runner: RunnerName
    speed: float = 1.0
    """Of simulate."""
    max_restarts: int = 3
    """Of process: of a container."""


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
Params = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        metavar="NAME=VALUE",
        help="A value of a param, in YAML or JSON, for every flow in FILEs that has it; may be "
        "given again for others.",
        show_default=False,
    ),
]
Lenient = Annotated[
    bool,
    typer.Option(
        "--lenient",
        help="Only warn about fields of jobs and pods that this version does not know, and "
        "about everything else that admission only warns about.",
    ),
]
Speed = Annotated[
    float | None,
    typer.Option(
        "--speed",
        metavar="N",
        help="With simulate: jobs run N times as fast; nothing else does. Default: 1.",
    ),
]
Runner = Annotated[
    RunnerName,
    typer.Option(
        "--runner",
        help="simulate: pods do what annotations of their template say. process: their commands "
        "run on this machine.",
    ),
]
MaxRestarts = Annotated[
    int | None,
    typer.Option(
        "--max-restarts",
        metavar="N",
        help="With process: how often a container is started again, where its restartPolicy says "
        "so. Default: 3.",
    ),
]

FlowName = Annotated[str, typer.Argument(metavar="FLOW", help="The JobFlow.", show_default=False)]
Namespace = Annotated[
    str | None,
    typer.Option("-n", "--namespace", metavar="NS", help="Default: the kubeconfig's."),
]
KUBECONFIG = "Default: $KUBECONFIG, ~/.kube/config, or in a pod its account."
Kubeconfig = Annotated[str | None, typer.Option(metavar="PATH", help=KUBECONFIG)]


def nodes(runner: RunnerName, speed: float | None, max_restarts: int | None) -> Nodes:
    """What the flags say together. Raises BadParameter."""
    if speed is not None and runner is not RunnerName.SIMULATE:
        raise typer.BadParameter(
            f"it goes with --runner simulate; with {runner.value} commands take as long as they "
            "take",
            param_hint="'--speed'",
        )
    if speed is not None and not 0 < speed < float("inf"):
        raise typer.BadParameter("it has to be more than 0", param_hint="'--speed'")
    if max_restarts is not None and runner is not RunnerName.PROCESS:
        raise typer.BadParameter("it goes with --runner process", param_hint="'--max-restarts'")
    if max_restarts is not None and max_restarts < 0:
        raise typer.BadParameter("it has to be 0 or more", param_hint="'--max-restarts'")
    return Nodes(
        runner,
        speed=1.0 if speed is None else speed,
        max_restarts=3 if max_restarts is None else max_restarts,
    )
