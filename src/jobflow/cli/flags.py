"""Arguments and flags of commands, also as sets: dataclasses such as ClusterOptions, and those of
`client.options`, whose fields get their flags here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from jobflow.client.options import Connection
from jobflow.display.formats import GetOutput, ObjectOutput, Output, PlanOutput

COMPLETE_VARIABLE = "_JOBFLOW_COMPLETE"
"""Environment variable by which the script of `jobflow completion` asks for words."""
Completer = Callable[[typer.Context, Any, str], list[str]]
"""Returns words for the shell to complete, from the command so far, the parameter and the start of
the word."""
completers: dict[str, Completer] = {}
"""Completers by the metavar of parameters; filled by `cli.program` if a shell asks, because they
import what no other command needs."""
DryRun = StrEnum("DryRun", ["CLIENT", "SERVER"])
"""Whether a request is only printed, or sent but not stored."""
Shell = StrEnum("Shell", ["BASH", "ZSH", "FISH"])
"""Shells that can complete commands."""


def _argument(metavar: str, help_text: str) -> Any:
    return typer.Argument(metavar=metavar, help=help_text, show_default=False)


def output_flag(help_text: str) -> Any:
    return typer.Option("-o", "--output", help=help_text)


_FLOW = _argument("FLOW", "Name of the JobFlow, such as train or jf/train.")
FlowName = Annotated[str, _FLOW]
OptionalFlowName = Annotated[str | None, _FLOW]
FlowNames = Annotated[
    list[str] | None, _argument("FLOW", "Names of JobFlows, such as train or jf/train.")
]
CronName = Annotated[
    str, _argument("CJF", "Name of the CronJobFlow, such as nightly or cjf/nightly.")
]
StepOrItem = Annotated[
    str | None,
    _argument("STEP[/INDEX]", "A step of the flow, or an item of its forEach or repeat, from 0."),
]
ApprovalStep = Annotated[
    str, _argument("STEP[/INDEX]", "The step, or an item of its forEach, from 0.")
]
StepPath = Annotated[
    str | None,
    _argument(
        "STEP[/INDEX]",
        "The step, or an item of its forEach, from 0; samples/3/qc is one of a child flow.",
    ),
]
ForEachPath = Annotated[
    str | None,
    _argument(
        "STEP[/INDEX]",
        "A step with forEach; samples/3/align is one of a child flow, samples/3 that flow itself. "
        "Default: FLOW.",
    ),
]
StepOutputs = Annotated[
    list[str] | None,
    typer.Option(
        "--output",
        metavar="NAME=VALUE",
        help="Set an output of the step; VALUE is JSON or else text. May be repeated.",
    ),
]
FlowOrFile = Annotated[
    str, _argument("FLOW|FILE", "A JobFlow of the cluster, or a file with one; - for stdin.")
]
FlowsOrFiles = Annotated[
    list[str],
    _argument(
        "FLOW|FILE...",
        "JobFlows of the cluster, files with some, or - for stdin. Several share the capacity.",
    ),
]
_FILES = _argument("FILE", "YAML or JSON files, folders with such files, or - for stdin.")
Files = Annotated[list[str], _FILES]

_PARAM = "Set a param of the flow; VALUE is JSON or else text. May be repeated."
Params = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help=_PARAM)]
_PARAM_FILE = typer.Option(
    "--param-file",
    metavar="FILE",
    help="Set params to the values of a YAML or JSON file, such as `workers: 4`; --param replaces "
    "them.",
)
ParamFile = Annotated[str | None, _PARAM_FILE]
Message = Annotated[
    str,
    typer.Option(
        "-m", "--message", metavar="TEXT", help="Comment for the status.", show_default=False
    ),
]
NewName = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Name of the new flow.")
]
Rerun = Annotated[
    list[str] | None,
    typer.Option(
        "--rerun",
        metavar="STEP",
        help="With --reuse: run this step, and whatever depends on it, although nothing has "
        "changed. May be repeated.",
    ),
]
SentDryRun = Annotated[
    DryRun | None,
    typer.Option(
        "--dry-run",
        help="client: send nothing, print what would be sent, with --reuse also which steps run "
        "and why. server: send it, but let the server store nothing.",
    ),
]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Only print the link.")]
SentOutput = Annotated[
    ObjectOutput | None, output_flag("Print the new flows instead of one line each.")
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait until the flow has finished; print progress.")
]
KUBECONFIG = "Default: $KUBECONFIG, ~/.kube/config, or the service account of the pod."


def port_of(what: str) -> Any:
    return typer.Option(metavar="P", min=0, max=65535, help=f"Port of the {what}; 0: any.")


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
    "files": _FILES,
    # files may have several flows, each with params of its own
    "param": typer.Option(
        metavar="NAME=VALUE",
        help="Set a param of every flow that declares it; VALUE is JSON or else text. May be "
        "repeated.",
    ),
    "param_file": _PARAM_FILE,
    "lenient": typer.Option(
        "--lenient",
        help="Report as a warning whatever the webhook would only warn about, such as unknown "
        "fields of jobs and pods.",
    ),
    "runner": typer.Option(
        help="simulate: no command runs; annotations of the JobTemplate set how long a pod "
        "runs and how it ends. process: run each container's command on this machine."
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

    output: Annotated[Output, output_flag("Text, or one JSON object.")] = Output.TEXT

    @property
    def as_json(self) -> bool:
        return self.output is Output.JSON


@dataclass(frozen=True, slots=True)
class ParamOptions:
    """Flags for the params of one flow."""

    param: Params = None
    param_file: ParamFile = None


@dataclass(frozen=True, slots=True)
class GetOptions:
    phase: Annotated[
        str | None,
        typer.Option(
            metavar="PHASE",
            help="Only flows in this phase: Pending, Running, Succeed, Failed or Terminating.",
        ),
    ] = None
    watch: Annotated[
        bool, typer.Option("-w", "--watch", help="Show changes, until the named flows have ended.")
    ] = False
    items: Annotated[
        bool, typer.Option("--items", help="List the items of forEach and repeat.")
    ] = False
    step: Annotated[
        str | None,
        typer.Option(
            metavar="STEP[/INDEX]",
            help="Only this step, or an item of it, with the steps of its child flow.",
        ),
    ] = None
    output: Annotated[GetOutput | None, output_flag("Default: tree for one FLOW, else table.")] = (
        None
    )


@dataclass(frozen=True, slots=True)
class PlanOptions:
    durations: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="How long jobs run: YAML or JSON with a line such as `train: 1h30m` for a step, "
            "or for all steps of a JobTemplate.",
        ),
    ] = None
    learn: Annotated[
        bool,
        typer.Option(
            "--learn",
            help="Let jobs run as long as the median of those of the same JobTemplate in the "
            "finished flows of the namespace.",
        ),
    ] = False
    capacity: Annotated[
        str | None,
        typer.Option(
            metavar="R=N,...",
            help="What the flows share, such as cpu=64,memory=256Gi,nvidia.com/gpu=8. Default: for "
            "a FLOW the capability of its queues, else unlimited.",
        ),
    ] = None
    param: list[str] | None = None
    param_file: ParamFile = None
    output: Annotated[PlanOutput, output_flag("The format.")] = PlanOutput.TABLE


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """How new flows are followed and printed."""

    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the flows have ended; print progress.")
    ] = False
    watch: Annotated[
        bool, typer.Option("--watch", help="Show the flows as trees until they have ended.")
    ] = False
    log: Annotated[
        bool, typer.Option("--log", help="Follow the logs of all pods until the flows have ended.")
    ] = False
    output: SentOutput = None


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Cancel flows that have not ended, then delete them.")
    ] = False
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the flows are gone.")] = False
    output: Annotated[
        ObjectOutput | None,
        output_flag("Print the deleted flows as they were, instead of one line each."),
    ] = None


_STEPS = typer.Option(
    "--step",
    metavar="STEP[/INDEX]",
    help="Only this step or item; samples/3/qc is one of a child flow. May be repeated.",
)
Steps = Annotated[list[str] | None, _STEPS]


def _dry_run(printed: str) -> Any:
    help_text = f"client: send nothing, print {printed}"
    return typer.Option("--dry-run", metavar="client", help=help_text)


def _refuse_server(dry_run: DryRun | None) -> None:
    if dry_run is DryRun.SERVER:
        # the controller decides what a Command does, and it never sees what is not stored
        raise ValueError("a Command has no dry run on the server: use --dry-run client")


@dataclass(frozen=True, slots=True)
class StepOptions:
    """Flags of the commands on single steps. Raises ValueError for a dry run on the server."""

    dry_run: Annotated[DryRun | None, _dry_run("what would be touched.")] = None
    message: Message = ""

    def __post_init__(self) -> None:
        _refuse_server(self.dry_run)


@dataclass(frozen=True, slots=True)
class RetryOptions:
    """Flags of `jobflow retry`. Raises ValueError for a dry run on the server."""

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
        _dry_run("what would run again, and how long the jobs ran of what has completed."),
    ] = None
    yes: Annotated[
        bool, typer.Option("-y", "--yes", help="Do not ask before long work is repeated.")
    ] = False
    wait: Wait = False
    param: Annotated[list[str] | None, typer.Option(hidden=True)] = None
    """Not a flag of a retry, but asked for where `resubmit --reuse` is meant."""

    def __post_init__(self) -> None:
        if self.param:
            flags = " ".join(f"--param {each}" for each in self.param)
            raise ValueError(
                "a retry keeps the spec of its flow, also its params: `jobflow resubmit FLOW "
                f"{flags} --reuse` creates a flow that runs only what they change"
            )
        _refuse_server(self.dry_run)


@dataclass(frozen=True, slots=True)
class BackfillOptions:
    # texts, because a time without a zone is one of the schedule, which is not read yet
    begin: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="TIME",
            help="First time, such as 2026-01-01 or 2026-01-01T02:00, in the time zone of the "
            "schedule unless it has one.",
            show_default=False,
        ),
    ]
    end: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="TIME",
            help="Last time; a date includes the whole day.",
            show_default=False,
        ),
    ]
    param: Params = None
    param_file: ParamFile = None
    # a typo in a year would start years of flows at once
    limit: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=1000, help="Refuse to create more flows than this at once."
        ),
    ] = 100
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing, print what would be created.")
    ] = False
    output: SentOutput = None
