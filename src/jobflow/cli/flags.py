"""Arguments and flags that several commands share.

A command takes a set of them as one value: its parameter is a dataclass such as ClusterOptions
(`commands.command`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer


class RunnerName(StrEnum):
    """How the sandbox runs pods."""

    SIMULATE = "simulate"
    PROCESS = "process"


class GetOutput(StrEnum):
    """Format of the output of `jobflow get`."""

    TABLE = "table"
    WIDE = "wide"
    TREE = "tree"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class ObjectOutput(StrEnum):
    """Format in which a command prints objects that it sent or made."""

    NAME = "name"
    JSON = "json"
    YAML = "yaml"


class DryRun(StrEnum):
    """Whether a request is only printed, or sent but not stored."""

    CLIENT = "client"
    SERVER = "server"


class GraphOutput(StrEnum):
    """Format of the output of `jobflow graph`."""

    TEXT = "text"
    JSON = "json"
    MERMAID = "mermaid"
    DOT = "dot"
    SVG = "svg"


class DrawingOutput(StrEnum):
    """Format of the output of `jobflow timeline`."""

    TEXT = "text"
    JSON = "json"
    SVG = "svg"


class Shell(StrEnum):
    """Shells that can complete commands, flags and names of flows."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


class PlanOutput(StrEnum):
    """Format of the output of `jobflow plan`."""

    TABLE = "table"
    GANTT = "gantt"
    JSON = "json"
    SVG = "svg"


class Output(StrEnum):
    """Format of a command's output."""

    TEXT = "text"
    JSON = "json"


COMPLETE_VARIABLE = "_JOBFLOW_COMPLETE"
"""Environment variable by which the script of `jobflow completion` asks for words."""
Completer = Callable[[Mapping[str, Any], str], list[str]]
"""Returns words for the shell to complete, from the parameters so far and the start of the word."""
completers: dict[str, Completer] = {}
"""Completers of FLOW, STEP and CJF; filled by `cli.program` if a shell asks."""


def complete_flow(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of flows that start like this."""
    completer = completers.get("FLOW")
    return completer(context.params, incomplete) if completer else []


def complete_step(context: typer.Context, incomplete: str) -> list[str]:
    """Return the steps of the FLOW before it that start like this."""
    completer = completers.get("STEP")
    return completer(context.params, incomplete) if completer else []


def complete_cron(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of CronJobFlows that start like this."""
    completer = completers.get("CJF")
    return completer(context.params, incomplete) if completer else []


_FLOW: Any = typer.Argument(
    metavar="FLOW",
    help="Name of the JobFlow, such as train or jf/train.",
    show_default=False,
    autocompletion=complete_flow,
)
FlowName = Annotated[str, _FLOW]
OptionalFlowName = Annotated[str | None, _FLOW]
FlowNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FLOW",
        help="Names of JobFlows, such as train or jf/train.",
        show_default=False,
        autocompletion=complete_flow,
    ),
]
CronName = Annotated[
    str,
    typer.Argument(
        metavar="CJF",
        help="Name of the CronJobFlow, such as nightly or cjf/nightly.",
        show_default=False,
        autocompletion=complete_cron,
    ),
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait until the flow has finished; print progress.")
]
KUBECONFIG = "Default: $KUBECONFIG, ~/.kube/config, or the service account of the pod."


@dataclass(frozen=True, slots=True)
class Connection:
    """Flags that choose a cluster, a namespace and a user, as kubectl has them."""

    namespace: Annotated[
        str | None,
        typer.Option("-n", "--namespace", metavar="NS", help="Default: that of the kubeconfig."),
    ] = None
    kubeconfig: Annotated[str | None, typer.Option(metavar="PATH", help=KUBECONFIG)] = None
    context: Annotated[
        str | None, typer.Option(metavar="NAME", help="Context of the kubeconfig.")
    ] = None
    impersonate: Annotated[
        str | None, typer.Option("--as", metavar="USER", help="User to act as, if you may.")
    ] = None


@dataclass(frozen=True, slots=True)
class Selection:
    """Flags that choose several flows. Raises BadParameter for a wrong selector."""

    selector: Annotated[
        str | None,
        typer.Option(
            "-l",
            "--selector",
            metavar="SEL",
            help="Labels of flows, such as team=vision,stage!=test; also a, !a, 'a in (b,c)'.",
        ),
    ] = None
    all_namespaces: Annotated[
        bool, typer.Option("-A", "--all-namespaces", help="Flows of all namespaces.")
    ] = False

    def __post_init__(self) -> None:
        from jobflow.api.label_selector import parse_label_selector

        try:
            parse_label_selector(self.selector or "")
        except ValueError:
            advice = "write it like team=vision,stage!=test"
            fault = f'--selector "{self.selector}" is not a label selector: {advice}'
            raise typer.BadParameter(fault) from None


@dataclass(frozen=True, slots=True)
class ClusterOptions(Connection):
    """Flags of all commands that read a cluster and print text or JSON."""

    output: Annotated[Output, typer.Option("-o", "--output", help="Text, or one JSON object.")] = (
        Output.TEXT
    )

    @property
    def as_json(self) -> bool:
        """Whether the output is JSON."""
        return self.output is Output.JSON


@dataclass(frozen=True, slots=True)
class RetryOptions:
    """Flags of `jobflow retry`. Raises BadParameter for a dry run on the server."""

    tolerated: Annotated[
        bool,
        typer.Option(
            "--tolerated",
            help="Run failures again too that continueOnFailure tolerates, also of a flow that is "
            "Succeed, and in its child flows.",
        ),
    ] = False
    dry_run: Annotated[
        DryRun | None,
        typer.Option(
            "--dry-run",
            metavar="client",
            help="client: send nothing, print what would run again, and how long the jobs ran of "
            "what has completed.",
            show_default=False,
        ),
    ] = None
    yes: Annotated[
        bool, typer.Option("-y", "--yes", help="Do not ask before long work is repeated.")
    ] = False
    wait: Wait = False

    def __post_init__(self) -> None:
        if self.dry_run is DryRun.SERVER:
            fault = "a Command has no dry run on the server: use --dry-run client"
            raise typer.BadParameter(fault)


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
            help="Set a param of every flow that declares it; VALUE is JSON or else text. May be "
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
            min=0,
            help="With --runner process: restarts of a container that its restartPolicy allows. "
            "Default: 3.",
        ),
    ] = None

    def __post_init__(self) -> None:
        simulated = self.runner is RunnerName.SIMULATE
        if self.speed is not None:
            if not simulated:
                raise typer.BadParameter("--speed needs --runner simulate")
            if not 0 < self.speed < float("inf"):
                raise typer.BadParameter(f'--speed "{self.speed:g}" is not a number above 0')
        if self.max_restarts is not None and simulated:
            raise typer.BadParameter("--max-restarts needs --runner process")
