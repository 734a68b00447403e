"""Arguments and flags that several commands share, and the examples below a command's help.

A command takes a set of them as one value: its parameter is a dataclass such as ClusterOptions,
and `expand_options` makes an argument or flag of each field once the command is called.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cached_property, partial, wraps
from typing import Annotated, Any, TypeVar, get_args

import typer
from typer.core import TyperCommand

F = TypeVar("F", bound=Callable[..., Any])


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
    flags = [
        flag.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=_with_parser(flag.annotation))
        for flag in flags
    ]

    @wraps(command)
    def run(**values: Any) -> None:
        for name, kind in sets.items():
            values[name] = kind(**{each.name: values.pop(each.name) for each in fields(kind)})
        command(**values)

    run.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]
    run.__annotations__ = {flag.name: flag.annotation for flag in flags}
    return run


def _with_parser(annotation: Any) -> Any:
    """Return the annotation of a flag with a parser whose errors are sentences, if it needs one."""
    kind, option = annotation.__origin__, copy.copy(annotation.__metadata__[0])
    kind = next((each for each in get_args(kind) if each is not type(None)), kind)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        option.parser = partial(_word, kind)
        option.metavar = option.metavar or f"<{'|'.join(kind)}>"
    elif kind in (int, float):
        option.parser = partial(_number, kind, option.min, option.max)
        option.min = option.max = None  # help would show them as a formula
    else:
        return annotation
    return Annotated[annotation.__origin__, option]


def _word(words: type[StrEnum], value: str) -> StrEnum:
    if value in list(words):
        return words(value)
    from jobflow.core.suggest import Suggester, did_you_mean

    guess = did_you_mean(Suggester(list(words)).nearest(value))
    raise typer.BadParameter(f'"{value}" is not one of {", ".join(words)}{guess}')


def _number(kind: Any, low: float | None, high: float | None, value: Any) -> Any:
    with suppress(ValueError):
        number = kind(value)
        if (low is None or number >= low) and (high is None or number <= high):
            return number
    name = "a whole number" if kind is int else "a number"
    span = f" from {low} to {high}" if high is not None else f" of {low} or more"
    raise typer.BadParameter(f'"{value}" is not {name}{span if low is not None else ""}')


class Command(TyperCommand):
    """A command whose callback returns the function to run, whose parameters are the arguments and
    flags. The callback is called only with the command or its help, because it takes long."""

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

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Show the name of an argument without the type in Python."""
        records: dict[str, list[tuple[Any, str]]] = {"argument": [], "option": []}
        for param in self.get_params(ctx):
            name, text = param.get_help_record(ctx) or ("", "")
            is_argument = param.param_type_name == "argument"
            records[param.param_type_name].append((param.metavar if is_argument else name, text))
        for kind, rows in records.items():
            if rows:
                with formatter.section(f"{kind.title()}s"):
                    formatter.write_dl(rows)


class Commands(typer.Typer):
    """A group of commands."""

    def command(
        self, name: str | None = None, *, deferred: bool = False, **settings: Any
    ) -> Callable[[F], F]:
        """Register a function as a command; `expand_options` makes its flags. With `deferred`, the
        function imports and returns the function to run."""

        def register(function: F) -> F:
            def function_to_run() -> Callable[..., None]:
                if deferred:
                    return function()  # type: ignore[no-any-return]
                return expand_options(function)

            settings.update(cls=Command, help=function.__doc__)
            typer.Typer.command(self, name or function.__name__, **settings)(function_to_run)
            return function

        return register


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
