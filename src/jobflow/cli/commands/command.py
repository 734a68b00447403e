"""Commands from functions that return the exit code, or a coroutine that does. A parameter is an
argument or a flag; one that is a dataclass is a set of them, one for each field."""

import copy
import inspect
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cached_property, partial, wraps
from types import SimpleNamespace
from typing import Annotated, Any, TypeVar, get_args, get_origin

import typer
from typer.core import TyperCommand

from jobflow.cli.flags import FLAGS_OF_FIELDS, completers
from jobflow.client.errors import SUCCESS, UNUSABLE, CommandError, print_error, unreachable

F = TypeVar("F", bound=Callable[..., Any])
Work = Coroutine[Any, Any, int]


def run_command(work: Work, *, is_brief: bool = True) -> int:
    """Run a command to its exit code; print the error that ends it. `is_brief`: it is no server."""
    # help and completion need none of these
    from jobflow.kube.answers import NetworkError
    from jobflow.kube.credentials import ConfigError
    from jobflow.runtime.event_loop import run

    # libraries log what the error of the command says already
    logging.getLogger().setLevel(logging.CRITICAL)
    try:
        return run(work, is_brief=is_brief)
    except CommandError as error:
        print_error(*str(error).splitlines())
        return error.code
    except ConfigError as error:
        print_error(error)
    except (NetworkError, TimeoutError) as error:  # another OSError is of stdout: see cli.program
        print_error(unreachable(error))
    return UNUSABLE


def expand_options(command: Callable[..., int | Work | None]) -> Callable[..., None]:
    """Return the function that typer calls: it has a parameter for each field of a set."""
    sets: dict[str, Any] = {}
    flags: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        kind: Any = parameter.annotation
        own = [parameter]
        if is_dataclass(parameter.annotation):
            sets[parameter.name] = kind
            own = [*inspect.signature(kind, eval_str=True).parameters.values()]
        for flag in own:
            annotation = flag.annotation
            if get_origin(annotation) is not Annotated:  # a field of `client.options`
                annotation = Annotated[annotation, FLAGS_OF_FIELDS[flag.name]]
            option, only_by_name = _with_parser(annotation), inspect.Parameter.KEYWORD_ONLY
            flags.append(flag.replace(kind=only_by_name, annotation=option))

    @wraps(command)
    def run(**values: Any) -> None:
        for name, kind in sets.items():
            chosen = {each.name: values.pop(each.name) for each in fields(kind)}
            try:
                values[name] = kind(**chosen)
            except ValueError as error:  # a set checks itself, also for other callers
                raise typer.BadParameter(str(error)) from None
        done = command(**values)
        raise typer.Exit(run_command(done) if isinstance(done, Coroutine) else done or SUCCESS)

    run.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]
    run.__annotations__ = {flag.name: flag.annotation for flag in flags}
    return run


def _with_parser(annotation: Any) -> Any:
    """Return the annotation of a flag with a parser whose errors are sentences, if it needs one."""
    kind, option = annotation.__origin__, copy.copy(annotation.__metadata__[0])
    kind = next((each for each in get_args(kind) if each is not type(None)), kind)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        # typer takes the names of members, and says nothing of the nearest word
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
    # only a wrong call needs a guess
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


def read_without_pydantic(param: Any) -> Any:
    """Let texts stay as they are, or be read by the parser of their flag, and return the parameter.
    Typer would do this by pydantic, whose import takes as long as a command."""
    kind, parser = param.type_descriptor.annotation, param.type_descriptor.parameter_info.parser
    if parser is not None or kind in (bool, str, list[str]):
        read, is_list = parser or str, kind == list[str]

        def coerce(value: Any, param: Any, ctx: Any) -> Any:
            if value is None:
                return () if is_list else None
            return [*map(read, value)] if is_list else read(value)

        # all that Typer calls of its RuntimeParam
        param.get_runtime_param = lambda: SimpleNamespace(coerce=coerce)
    return param


class Command(TyperCommand):
    """A command whose callback returns the function to run. The callback is called only with the
    command or its help, because it takes long."""

    @cached_property
    def _command(self) -> Any:
        assert self.callback is not None
        # typer builds one command of its own, with all that it knows about parameters
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command()(self.callback())
        return typer.main.get_command(app)

    def get_params(self, ctx: Any) -> Any:
        params = [*map(read_without_pydantic, self._command.get_params(ctx))]
        for param in params if completers else ():
            param._custom_shell_complete = completers.get(param.metavar)
        return params

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # a shell completes the value of the last option, without which no other one could be read
        if ctx.resilient_parsing and args:
            named = (each for each in self.get_params(ctx) if args[-1] in each.opts)
            if any(each.param_type_name == "option" and not each.is_flag for each in named):
                args = args[:-1]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        return self._command.invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Show the name of an argument without the type in Python."""
        records: dict[str, list[tuple[Any, str]]] = {"argument": [], "option": []}
        for param in self.get_params(ctx):
            if getattr(param, "hidden", False):
                continue
            name, text = param.get_help_record(ctx) or ("", "")
            is_argument = param.param_type_name == "argument"
            records[param.param_type_name].append((param.metavar if is_argument else name, text))
        for kind, rows in records.items():
            if rows:
                with formatter.section(f"{kind.title()}s"):
                    formatter.write_dl(rows)


class Commands(typer.Typer):
    def add(self, summary: str, *examples: str, deferred: bool = False) -> Callable[[F], F]:
        """Register a function as a command; `expand_options` makes its flags. With `deferred`, the
        function imports and returns the function to run."""
        # \b keeps click from joining the lines
        epilog = "\n".join(("\b", "Examples:", *(f"  {line}" for line in examples)))

        def register(function: F) -> F:
            def function_to_run() -> Callable[..., None]:
                if deferred:
                    return function()  # type: ignore[no-any-return]
                return expand_options(function)

            name, text = function.__name__, function.__doc__
            command = self.command(name, cls=Command, help=text, short_help=summary, epilog=epilog)
            command(function_to_run)
            return function

        return register
