"""The `jobflow` program: all commands, and its handling of Ctrl-C and a full disk."""

from __future__ import annotations

import errno
import os
import sys
from typing import Annotated

import typer

from jobflow import __version__
from jobflow.cli.commands import cluster, flows, local
from jobflow.cli.errors import INTERRUPTED, UNUSABLE, print_error

_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

app = typer.Typer(
    name="jobflow",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for group in (local, flows, cluster):
    app.add_typer(group.commands)


def main() -> None:
    """Run the command line and end the process with one of the exit codes of `cli.errors`."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:
        if error.errno not in _CANNOT_WRITE:
            raise
        print_error(f"cannot write to standard output: {error.strerror}; free some space")
        os._exit(UNUSABLE)  # sys.exit would flush stdout, fail again and print a second error


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


if __name__ == "__main__":
    main()
