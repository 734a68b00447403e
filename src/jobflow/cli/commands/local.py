"""Flags and help of the commands that need no cluster. Each imports its module when called."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from jobflow.cli.flags import FileOptions, NodeOptions, Output, examples, expand_options

commands = typer.Typer()


class RunOutput(StrEnum):
    """Format of the output of `jobflow run`."""

    TREE = "tree"
    JSON = "json"


@commands.command(
    short_help="Run flows in a sandbox, without a cluster.",
    epilog=examples(
        "jobflow run flow.yaml",
        "jobflow run --speed 10 -o json templates/ flow.yaml",
        "jobflow run --runner process --max-restarts 0 flow.yaml",
        "jobflow run --param workers=4 --param 'rates=[0.1, 0.01]' flow.yaml",
        "helm template . | jobflow run -",
    ),
)
@expand_options
def run(
    files: FileOptions,
    nodes: NodeOptions,
    output: Annotated[
        RunOutput,
        typer.Option(
            "-o", "--output", help="A live tree and a table, or the finished JobFlows as a v1 List."
        ),
    ] = RunOutput.TREE,
) -> None:
    """Run flows in a sandbox on this machine, without a cluster.

    With --runner process, logs are written to .jobflow/logs, and the last lines of the log of each
    failed step are printed.

    Exit code: 0 every flow is Succeed; 1 a flow is Failed; 2 refused, unreadable, or a flow cannot
    finish because a JobTemplate is missing or it is suspended; 130 interrupted.
    """
    from jobflow.cli.local.run import run_flows

    raise typer.Exit(run_flows(files, nodes, as_json=output is RunOutput.JSON))


@commands.command(
    short_help="Check manifests without a cluster and report all faults at once.",
    epilog=examples(
        "jobflow lint flow.yaml",
        "jobflow lint --param workers=4 flow.yaml",
        "helm template . | jobflow lint -o json -",
    ),
)
@expand_options
def lint(
    files: FileOptions,
    output: Annotated[
        Output, typer.Option("-o", "--output", help="Text, or one JSON list of faults.")
    ] = Output.TEXT,
) -> None:
    """Check JobFlows and JobTemplates without a cluster. All faults are reported at once, each with
    file, line and column.

    Exit code: 0 no faults; 1 faults; 2 a file cannot be read.
    """
    from jobflow.cli.local.lint import lint_files

    raise typer.Exit(lint_files(files, as_json=output is Output.JSON))


@commands.command(
    short_help="Start a sandbox for kubectl.",
    epilog=examples(
        "jobflow sandbox",
        "jobflow sandbox --runner process",
        "KUBECONFIG=.jobflow/kubeconfig kubectl apply -f examples/diamond.yaml",
    ),
)
@expand_options
def sandbox(
    nodes: NodeOptions,
    port: Annotated[
        int, typer.Option(metavar="P", min=0, max=65535, help="Port of the API server; 0: any.")
    ] = 0,
    webhook_port: Annotated[
        int, typer.Option(metavar="P", min=0, max=65535, help="Port of the webhook; 0: any.")
    ] = 0,
    kubeconfig: Annotated[
        Path,
        typer.Option(metavar="PATH", help="The kubeconfig to write; deleted at the end."),
    ] = Path(".jobflow/kubeconfig"),
) -> None:
    """Start a sandbox for kubectl: an API server, the webhook, the controller and a stand-in for
    Volcano's job controller.

    Prints `export KUBECONFIG=…`, then `ready`, and runs until Ctrl-C. Everything is lost then but
    the logs of --runner process, in .jobflow/logs.

    Exit code: 0 ended by Ctrl-C; 1 a part of the sandbox failed; 2 it could not start.
    """
    from jobflow.cli.local.sandbox import run_sandbox

    raise typer.Exit(
        run_sandbox(port=port, webhook_port=webhook_port, kubeconfig=kubeconfig, nodes=nodes)
    )
