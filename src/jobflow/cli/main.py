"""The command line: one program out of its commands, and how it ends."""

from __future__ import annotations

import errno
import os
import sys
from typing import Annotated

import typer

from jobflow import __version__
from jobflow.cli.commands import cluster as cluster_commands
from jobflow.cli.commands import flows as flow_commands
from jobflow.cli.commands import local as sandbox_commands
from jobflow.cli.exit_codes import INTERRUPTED, UNUSABLE

_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of standard output: a full disk for the most part."""

app = typer.Typer(
    name="jobflow",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.add_typer(sandbox_commands.commands)
app.add_typer(flow_commands.commands)
app.add_typer(cluster_commands.commands)


def main() -> None:
    """Run the command line. The process ends with an exit code of `outcome`."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:
        if error.errno not in _CANNOT_WRITE:
            raise
        print(f"jobflow: cannot write the answer: {error.strerror}", file=sys.stderr)
        os._exit(UNUSABLE)  # or Python would try to write it once more, and say so


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"jobflow {__version__}")
        raise typer.Exit


@app.callback(epilog="Try it:  jobflow run examples/diamond.yaml")
def jobflow(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Run many Volcano jobs on Kubernetes as one flow."""


if __name__ == "__main__":
    main()
