"""Flags and help of the commands for cluster operators. Each imports its module when called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from jobflow.cli.errors import UNUSABLE, exit_on
from jobflow.cli.flags import KUBECONFIG, LazyCommand, examples

commands = typer.Typer()


@commands.command(
    cls=LazyCommand,
    short_help="Run the webhook and the controller.",
    epilog=examples(
        "jobflow serve --tls-cert certs/tls.crt --tls-key certs/tls.key",
        "jobflow serve --kubeconfig ~/.kube/config --no-webhook",
    ),
)
def serve() -> Callable[..., None]:
    """Run the webhook and the controller until SIGTERM.

    Every flag can also be set by the environment variable in brackets; the flag wins.
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
            help="Apply them to the cluster (server-side, forcing conflicts) and wait until they "
            "are served.",
        ),
    ] = False,
    kubeconfig: Annotated[
        str | None, typer.Option(metavar="PATH", help=f"With --apply. {KUBECONFIG}")
    ] = None,
) -> None:
    """Print the CustomResourceDefinitions as YAML, or apply them to a cluster.

    Exit code with --apply: 0 served; 1 refused, or the cluster does not answer; 2 no kubeconfig.
    """
    from jobflow.cli.cluster.crds import apply_crds, print_crds

    if kubeconfig is not None and not apply:
        raise typer.BadParameter("needs --apply", param_hint="'--kubeconfig'")
    raise typer.Exit(apply_crds(kubeconfig) if apply else print_crds())


@commands.command(
    short_help="Write a CA and a serving certificate for development.",
    epilog=examples("jobflow certs certs", "jobflow certs certs --host webhook.example.com"),
)
def certs(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write to.")],
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Another name or IP address of the webhook."),
    ] = None,
) -> None:
    """Write a CA and a serving certificate for localhost, for development only.

    Exit code: 0 written; 2 not written.
    """
    from jobflow.webhook.certificates.files import write_development_pki
    from jobflow.webhook.certificates.pki import CertificateError

    with exit_on(UNUSABLE, CertificateError, OSError, file=directory):
        written = write_development_pki(directory, ["localhost", "127.0.0.1", "::1", *(host or ())])
    serving = written.serving
    for path in (written.ca_certificate, written.ca_key, serving.certificate, serving.key):
        print(path)
