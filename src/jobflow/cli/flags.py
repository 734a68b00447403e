"""Arguments and flags that several commands share, and the examples below a command's help.

A command takes a set of them as one value: its parameter is a dataclass such as ClusterOptions,
and `expand_options` makes an argument or flag of each field.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cached_property, wraps
from typing import Annotated, Any

import typer
from typer.core import TyperCommand


def examples(*lines: str) -> str:
    """Return the examples below a command's help; \b keeps click from joining the lines."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with a parameter for each field of its parameters that are dataclasses."""
    sets: dict[str, Any] = {}
    flags: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        kind: Any = parameter.annotation
        if is_dataclass(parameter.annotation):
            sets[parameter.name] = kind
            flags += inspect.signature(kind, eval_str=True).parameters.values()
        else:
            flags.append(parameter)
    flags = [flag.replace(kind=inspect.Parameter.KEYWORD_ONLY) for flag in flags]

    @wraps(command)
    def run(**values: Any) -> None:
        for name, kind in sets.items():
            values[name] = kind(**{each.name: values.pop(each.name) for each in fields(kind)})
        command(**values)

    run.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]
    run.__annotations__ = {flag.name: flag.annotation for flag in flags}
    return run


class LazyCommand(TyperCommand):
    """A command whose callback returns the function to run, whose parameters are the flags. The
    callback is called only with the command or its help, because its imports take long."""

    @cached_property
    def _command(self) -> Any:
        assert self.callback is not None
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command()(self.callback())
        return typer.main.get_command(app)

    def get_params(self, ctx: Any) -> Any:
        return self._command.get_params(ctx)

    def invoke(self, ctx: Any) -> Any:
        return self._command.invoke(ctx)


class RunnerName(StrEnum):
    """How the sandbox runs pods."""

    SIMULATE = "simulate"
    PROCESS = "process"


class Output(StrEnum):
    """Format of a command's output."""

    TEXT = "text"
    JSON = "json"


FlowName = Annotated[
    str, typer.Argument(metavar="FLOW", help="Name of the JobFlow.", show_default=False)
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait until the flow has finished; print progress.")
]
KUBECONFIG = "Default: $KUBECONFIG, ~/.kube/config, or the service account of the pod."


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Flags of all commands that read a cluster."""

    namespace: Annotated[
        str | None,
        typer.Option("-n", "--namespace", metavar="NS", help="Default: that of the kubeconfig."),
    ] = None
    kubeconfig: Annotated[str | None, typer.Option(metavar="PATH", help=KUBECONFIG)] = None
    output: Annotated[Output, typer.Option("-o", "--output", help="Text, or one JSON object.")] = (
        Output.TEXT
    )

    @property
    def as_json(self) -> bool:
        """Whether the output is JSON."""
        return self.output is Output.JSON


@dataclass(frozen=True, slots=True)
class FileOptions:
    """Arguments and flags of all commands that read manifests."""

    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="YAML or JSON files, folders with such files, or - for stdin.",
            show_default=False,
        ),
    ]
    param: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Set a param of every flow that declares it; VALUE is YAML or JSON. May be "
            "repeated.",
            show_default=False,
        ),
    ] = None
    lenient: Annotated[
        bool,
        typer.Option(
            "--lenient",
            help="Report as a warning whatever the webhook would only warn about, such as unknown "
            "fields of jobs and pods.",
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """Flags for how the sandbox runs pods. Raises BadParameter if they contradict each other."""

    runner: Annotated[
        RunnerName,
        typer.Option(
            help="simulate: no command runs; annotations of the JobTemplate set how long a pod "
            "runs and how it ends. process: run each container's command on this machine.",
        ),
    ] = RunnerName.SIMULATE
    speed: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            help="With --runner simulate: run jobs N times as fast; timeouts and delays of the "
            "flow stay as they are. Default: 1.",
        ),
    ] = None
    max_restarts: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="With --runner process: restarts of a container that its restartPolicy allows. "
            "Default: 3.",
        ),
    ] = None

    def __post_init__(self) -> None:
        speed, restarts = self.speed, self.max_restarts
        simulated = self.runner is RunnerName.SIMULATE
        for flag, fault in (
            ("--speed", speed is not None and not simulated and "needs --runner simulate"),
            (
                "--speed",
                speed is not None and not 0 < speed < float("inf") and "must be more than 0",
            ),
            ("--max-restarts", restarts is not None and simulated and "needs --runner process"),
            ("--max-restarts", (restarts or 0) < 0 and "must be 0 or more"),
        ):
            if fault:
                raise typer.BadParameter(fault, param_hint=f"'{flag}'")
