"""The commands that need no cluster: names, flags, help. What one does is in a module of its own,
imported only when it is called."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from jobflow.cli.flags import (
    Files,
    Lenient,
    MaxRestarts,
    Output,
    Params,
    Runner,
    RunnerName,
    Speed,
    examples,
    nodes,
)

commands = typer.Typer()


class RunOutput(StrEnum):
    """How `jobflow run` answers."""

    TREE = "tree"
    JSON = "json"


@commands.command(
    short_help="Carry flows through in a sandbox, without a cluster.",
    epilog=examples(
        "jobflow run flow.yaml",
        "jobflow run --speed 10 -o json templates/ flow.yaml",
        "jobflow run --runner process --max-restarts 0 flow.yaml",
        "jobflow run --param workers=4 --param 'rates=[0.1, 0.01]' flow.yaml",
        "helm template . | jobflow run -",
    ),
)
def run(
    files: Files,
    param: Params = None,
    runner: Runner = RunnerName.SIMULATE,
    speed: Speed = None,
    max_restarts: MaxRestarts = None,
    lenient: Lenient = False,
    output: Annotated[
        RunOutput,
        typer.Option(
            "-o", "--output", help="A live tree and a table, or the final JobFlows as a v1 List."
        ),
    ] = RunOutput.TREE,
) -> None:
    """Carry flows through in a sandbox on this machine, no cluster needed.

    With --runner process, logs are kept in .jobflow/logs, and the end of that of a failed step is
    shown under its tree.

    Exit code: 0 every flow is Succeed; 1 a flow Failed; 2 refused, unreadable, or waiting for
    templates that FILEs lack; 130 interrupted.
    """
    from jobflow.cli.local.run import run as run_flows

    how = nodes(runner, speed, max_restarts)
    as_json = output is RunOutput.JSON
    code = run_flows(files, params=param or (), nodes=how, as_json=as_json, lenient=lenient)
    raise typer.Exit(code)


@commands.command(
    short_help="Check manifests without a cluster: all faults at once.",
    epilog=examples(
        "jobflow lint flow.yaml",
        "jobflow lint --param workers=4 flow.yaml",
        "helm template . | jobflow lint -o json -",
    ),
)
def lint(
    files: Files,
    param: Params = None,
    lenient: Lenient = False,
    output: Annotated[
        Output, typer.Option("-o", "--output", help="Text, or one JSON list of faults.")
    ] = Output.TEXT,
) -> None:
    """Check JobFlows and JobTemplates without a cluster: all faults at once, each with its place.

    Exit code: 0 nothing is wrong; 1 something is; 2 a file cannot be read.
    """
    from jobflow.cli.local.lint import lint as lint_files

    as_json = output is Output.JSON
    code = lint_files(files, params=param or (), as_json=as_json, lenient=lenient)
    raise typer.Exit(code)


@commands.command(
    short_help="Keep a sandbox up for kubectl.",
    epilog=examples(
        "jobflow sandbox",
        "jobflow sandbox --runner process",
        "KUBECONFIG=.jobflow/kubeconfig kubectl apply -f examples/diamond.yaml",
    ),
)
def sandbox(
    port: Annotated[
        int,
        typer.Option(metavar="P", min=0, max=65535, help="Of the API server; 0: any free one."),
    ] = 0,
    webhook_port: Annotated[
        int, typer.Option(metavar="P", min=0, max=65535, help="Of the webhook; 0: any free one.")
    ] = 0,
    kubeconfig: Annotated[
        Path,
        typer.Option(
            metavar="PATH", help="The kubeconfig to write; removed when the sandbox ends."
        ),
    ] = Path(".jobflow/kubeconfig"),
    runner: Runner = RunnerName.SIMULATE,
    speed: Speed = None,
    max_restarts: MaxRestarts = None,
) -> None:
    """Keep a sandbox up for kubectl: API server, webhook, controller and a stand-in for Volcano.

    Prints the line that points kubectl at it, then `ready`. Ctrl-C ends it; nothing is kept but the
    logs of --runner process, in .jobflow/logs.
    """
    from jobflow.cli.local.sandbox import sandbox as keep_sandbox

    raise typer.Exit(
        keep_sandbox(
            port=port,
            webhook_port=webhook_port,
            kubeconfig=kubeconfig,
            nodes=nodes(runner, speed, max_restarts),
        )
    )
