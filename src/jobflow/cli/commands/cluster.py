"""The commands for a cluster: names, flags, help. What one does is in a module of its own, imported
only when it is called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from jobflow.cli.flags import KUBECONFIG, examples
from jobflow.cli.lazy_command import LateCommand

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
    from jobflow.cli.cluster.serve import command

    return command()


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
    from jobflow.cli.cluster import crds as definitions

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
    from jobflow.cli.cluster.certs import certs as write_certs

    raise typer.Exit(write_certs(directory, host or []))
