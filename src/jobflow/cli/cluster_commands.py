"""The commands for a cluster: names, flags, help. What one does is in a module of its own, imported
only when it is called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from jobflow.cli.flags import KUBECONFIG, FlowName, Kubeconfig, Namespace, Output, examples
from jobflow.cli.late import LateCommand

commands = typer.Typer()


@commands.command(
    cls=LateCommand,
    short_help="Serve the webhook and run the controller for a cluster.",
    epilog=examples(
        "jobflow serve --tls-cert certs/tls.crt --tls-key certs/tls.key",
        "jobflow serve --kubeconfig ~/.kube/config --no-webhook",
    ),
)
def serve() -> Callable[..., None]:
    """Serve the webhook and run the controller for a cluster. SIGTERM ends it cleanly.

    Every flag is also in the environment, under the name in brackets; a flag goes before it.
    """
    from jobflow.cli.serve import command

    return command()


@commands.command(
    short_help="Say why a flow, or a step of it, stands where it stands.",
    epilog=examples("jobflow why train", "jobflow why train evaluate -n team -o json"),
)
def why(
    flow: FlowName,
    step: Annotated[
        str | None,
        typer.Argument(metavar="STEP", help="A step of it; else the whole.", show_default=False),
    ] = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    output: Annotated[
        Output, typer.Option("-o", "--output", help="One paragraph, or one JSON object.")
    ] = Output.TEXT,
) -> None:
    """Say in a paragraph why a flow stands where it stands: what it waits for and how long, what
    would free it, what has failed, what comes next. Of a step: the chain behind it, down to where
    that begins.

    Exit code: 0 answered; 1 it may not be read; 2 no such flow or step, or no cluster.
    """
    from jobflow.cli.why import Question
    from jobflow.cli.why import why as answer

    as_json = output is Output.JSON
    raise typer.Exit(answer(Question(flow, step, namespace, kubeconfig, as_json=as_json)))


@commands.command(
    short_help="End a flow: abort what runs, skip the rest.",
    epilog=examples(
        "jobflow cancel train",
        "jobflow cancel train -n team --wait",
        "jobflow cancel train -o json",
    ),
)
def cancel(
    flow: FlowName,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until every job has ended, telling how it goes.")
    ] = False,
    output: Annotated[
        Output, typer.Option("-o", "--output", help="Text, or one JSON object at the end.")
    ] = Output.TEXT,
) -> None:
    """End a flow: jobs that run are aborted, steps that have not begun are skipped, and the flow is
    Failed (Cancelled) once every job has ended.

    Exit code: 0 asked for, with --wait: done; 1 refused, or the flow is over already; 2 no such
    flow, or no cluster; 130 interrupted.
    """
    from jobflow.cli.cancel import Order
    from jobflow.cli.cancel import cancel as cancel_flow

    as_json = output is Output.JSON
    raise typer.Exit(cancel_flow(Order(flow, namespace, kubeconfig, wait=wait, as_json=as_json)))


@commands.command(
    short_help="Print or apply the CustomResourceDefinitions.",
    epilog=examples("jobflow crds | kubectl apply --server-side -f -", "jobflow crds --apply"),
)
def crds(
    apply: Annotated[
        bool,
        typer.Option(
            "--apply",
            help="Apply them to a cluster instead (server-side, by force) and wait until they are "
            "served.",
        ),
    ] = False,
    kubeconfig: Annotated[
        str | None, typer.Option(metavar="PATH", help=f"With --apply. {KUBECONFIG}")
    ] = None,
) -> None:
    """Print the CustomResourceDefinitions as YAML, or apply them.

    Exit code of --apply: 0 served; 1 the cluster does not take them; 2 no cluster to ask.
    """
    from jobflow.cli import crds as definitions

    if kubeconfig is not None and not apply:
        raise typer.BadParameter("it needs --apply", param_hint="'--kubeconfig'")
    raise typer.Exit(definitions.apply(kubeconfig) if apply else definitions.crds())


@commands.command(
    short_help="Write a development CA and a serving certificate.",
    epilog=examples("jobflow certs certs", "jobflow certs certs --host webhook.example.com"),
)
def certs(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write the files.")],
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A further name or IP the webhook is reached by."),
    ] = None,
) -> None:
    """Write a development CA and a serving certificate for localhost. Not for production."""
    from jobflow.cli.certs import certs as write_certs

    raise typer.Exit(write_certs(directory, host or []))
