"""The command line: names, flags, help. What a command does is in its own module, imported only
when it is called, so that `jobflow --help` answers at once."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from jobflow import __version__
from jobflow.cli.outcome import INTERRUPTED, UNUSABLE

app = typer.Typer(
    name="jobflow",
    help="Run many Volcano jobs on Kubernetes as one flow.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Files = Annotated[
    list[str],
    typer.Argument(metavar="FILE...", help="YAML or JSON file, a folder of them, or - for stdin."),
]


class LintOutput(StrEnum):
    """How `jobflow lint` answers."""

    TEXT = "text"
    JSON = "json"


def main() -> None:
    """Run the command line; the process's exit code is DESIGN §7's."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


@app.command(epilog="Examples:  jobflow lint flow.yaml  |  helm template . | jobflow lint -")
def lint(
    files: Files,
    output: Annotated[
        LintOutput, typer.Option("-o", "--output", help="text, or one JSON list of faults.")
    ] = LintOutput.TEXT,
) -> None:
    """Check JobFlows and JobTemplates without a cluster: all faults at once, each with its place.

    Exit code: 0 nothing is wrong, 1 something is, 2 a file cannot be read.
    """
    from jobflow.cli.lint import lint as run_lint

    raise typer.Exit(run_lint(files, as_json=output is LintOutput.JSON))
