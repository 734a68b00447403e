"""Arguments and flags that several commands share.

A command takes a set of them as one value: its parameter is a dataclass such as ClusterOptions
(`commands.command`), or one of `client.options`, whose fields get their flags here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from jobflow.client.options import Connection


class GetOutput(StrEnum):
    """Format of the output of `jobflow get`."""

    TABLE = "table"
    WIDE = "wide"
    TREE = "tree"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


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

FLAGS_OF_FIELDS: Mapping[str, Any] = {
    "namespace": typer.Option(
        "-n", "--namespace", metavar="NS", help="Default: that of the kubeconfig."
    ),
    "kubeconfig": typer.Option(metavar="PATH", help=KUBECONFIG),
    "context": typer.Option(metavar="NAME", help="Context of the kubeconfig."),
    "impersonate": typer.Option("--as", metavar="USER", help="User to act as, if you may."),
    "selector": typer.Option(
        "-l",
        "--selector",
        metavar="SEL",
        help="Labels of flows, such as team=vision,stage!=test; also a, !a, 'a in (b,c)'.",
    ),
    "all_namespaces": typer.Option("-A", "--all-namespaces", help="Flows of all namespaces."),
    "files": typer.Argument(
        metavar="FILE",
        help="YAML or JSON files, folders with such files, or - for stdin.",
        show_default=False,
    ),
    "param": typer.Option(
        metavar="NAME=VALUE",
        help="Set a param of every flow that declares it; VALUE is JSON or else text. May be "
        "repeated.",
        show_default=False,
    ),
    "lenient": typer.Option(
        "--lenient",
        help="Report as a warning whatever the webhook would only warn about, such as unknown "
        "fields of jobs and pods.",
    ),
    "runner": typer.Option(
        help="simulate: no command runs; annotations of the JobTemplate set how long a pod "
        "runs and how it ends. process: run each container's command on this machine.",
    ),
    "speed": typer.Option(
        metavar="N",
        help="With --runner simulate: run jobs N times as fast; timeouts and delays of the "
        "flow stay as they are. Default: 1.",
    ),
    "max_restarts": typer.Option(
        metavar="N",
        min=0,
        help="With --runner process: restarts of a container that its restartPolicy allows. "
        "Default: 3.",
    ),
}
"""The flags of the fields of `client.options`, which knows no command line."""


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
