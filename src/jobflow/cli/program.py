"""All commands as one program, and its handling of wrong calls, closed pipes and full disks."""

import errno
import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from jobflow import __version__
from jobflow.cli.commands import by_hand, cluster, local, show, steer
from jobflow.cli.commands.command import read_without_pydantic
from jobflow.cli.flags import COMPLETE_VARIABLE, completers
from jobflow.client.errors import INTERRUPTED, SUCCESS, UNUSABLE, discard_output, print_error

# a disk that is full, or fails
_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class Program(TyperGroup):
    """The group of all commands."""

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **_: Any
    ) -> Any:
        """Run a command and raise SystemExit with an exit code of `client.errors`."""
        sys.exit(run(sys.argv[1:] if args is None else args, prog_name or "jobflow"))

    def get_params(self, ctx: Any) -> Any:
        return [*map(read_without_pydantic, super().get_params(ctx))]


app = typer.Typer(
    name="jobflow",
    cls=Program,
    no_args_is_help=True,
    add_completion=False,  # `jobflow completion` prints the scripts
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich takes longer to import than help to print
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for group in (local, show, steer, by_hand, cluster):
    app.add_typer(group.commands)


@cache
def commands() -> TyperGroup:
    found = typer.main.get_command(app)
    assert isinstance(found, TyperGroup)
    return found


def run(arguments: Sequence[str], name: str) -> int:
    """Run a command and return its exit code, after all output is written."""
    if COMPLETE_VARIABLE in os.environ:  # the script of `jobflow completion` asks
        from typer._click.shell_completion import add_completion_class

        from jobflow.cli import complete

        for shell, how in complete.SHELLS.items():
            add_completion_class(how, shell)
        completers.update(complete.COMPLETERS)
        return int(TyperGroup.main(commands(), [], name, standalone_mode=False) or SUCCESS)
    code = SUCCESS
    try:
        try:
            code = _invoke(arguments, name)
        except KeyboardInterrupt:
            code = INTERRUPTED
        sys.stdout.flush()  # or Python meets a closed pipe at its exit, too late for a code
    except BrokenPipeError:  # as after `| head`: the reader has what it wanted
        discard_output()
    except OSError as error:
        if error.errno not in _CANNOT_WRITE:  # a fault of ours, which needs its traceback
            raise
        discard_output()
        print_error(f"cannot write to standard output: {error.strerror}; free some space")
        return UNUSABLE
    return code


def _invoke(arguments: Sequence[str], name: str) -> int:
    try:
        with commands().make_context(name, list(arguments)) as context:
            context.command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # of rich, with an exit code of its own
            raise end.__context__ from None
        return end.code if isinstance(end.code, int) else UNUSABLE
    except TyperException as error:
        if arguments:  # without any, the help is the answer
            print_error(_sentence(error))
        else:
            print(error.format_message(), file=sys.stderr)  # the help
        return UNUSABLE
    return SUCCESS


def _sentence(error: TyperException) -> str:
    """Return an error in the command line as a sentence, with the flag if it is about a value."""
    if isinstance(error, typer.BadParameter) and error.message:
        names = error.param.opts if error.param and error.param.param_type_name == "option" else ()
        return f"{max(names, key=len, default='')} {error.message}".strip()
    # click writes sentences of its own style
    text = " ".join(error.format_message().split()).removesuffix(".")
    text = text[0].lower() + text[1:].replace(". Did you mean", "; did you mean")
    context = getattr(error, "ctx", None)
    if context is None:
        return text
    path, arguments = context.command_path, _arguments(context)
    named = getattr(error, "option_name", "").removeprefix("--")
    if named in (each.partition("[")[0].lower() for each in arguments):
        return f"no such option: --{named}; write `{' '.join((path, *arguments))}`"
    return f"{text}; see `{path} --help`"


def _arguments(context: Any) -> list[str]:
    """Return the words of a command that are not flags, as its help has them."""
    params = context.command.get_params(context)
    return [each.metavar for each in params if each.param_type_name == "argument" and each.metavar]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"jobflow {__version__}")
        raise typer.Exit


@app.callback(epilog="Try it:  jobflow run examples/diamond.yaml")
def jobflow(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Run many Volcano jobs on Kubernetes as one flow."""
