"""Flags and help of the commands for cluster operators. Each imports its module when called."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from jobflow.cli.commands.command import Commands, Work
from jobflow.cli.flags import COMPLETE_VARIABLE, KUBECONFIG, ClusterOptions, Shell
from jobflow.client.errors import UNUSABLE, exit_on

commands = Commands()


@commands.add(
    "Run the webhook and the controller.",
    "jobflow serve --tls-cert certs/tls.crt --tls-key certs/tls.key",
    "jobflow serve --kubeconfig ~/.kube/config --no-webhook",
    deferred=True,
)
def serve() -> Callable[..., None]:
    """Run the webhook and the controller until SIGTERM.

    Every flag can also be set by the environment variable in brackets; the flag wins.
    """
    from jobflow.cli.cluster.serve import command

    return command()


@commands.add(
    "Print or apply the CustomResourceDefinitions.",
    "jobflow crds | kubectl apply --server-side -f -",
    "jobflow crds --apply",
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
) -> int | Work:
    """Print the CustomResourceDefinitions as YAML, or apply them to a cluster.

    Exit code with --apply: 0 served; 1 refused, or the cluster does not answer; 2 no kubeconfig.
    """
    from jobflow.cli.cluster.crds import apply_crds, print_crds

    # printing reads no cluster, so a kubeconfig would be ignored in silence
    if kubeconfig is not None and not apply:
        raise typer.BadParameter("--kubeconfig needs --apply")
    return apply_crds(kubeconfig) if apply else print_crds()


@commands.add(
    "Write a CA and a serving certificate for development.",
    "jobflow certs certs",
    "jobflow certs certs --host webhook.example.com",
)
def certs(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write to.")],
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Another name or IP address of the webhook."),
    ] = None,
) -> None:
    """Write a CA and a serving certificate for localhost, for development only. The files belong to
    the owner of DIR, and nobody else can read them.

    Exit code: 0 written; 2 not written.
    """
    from jobflow.webhook.certificates.live import write_development_pki
    from jobflow.webhook.certificates.pki import CertificateError

    with exit_on(UNUSABLE, CertificateError, OSError, file=directory):
        written = write_development_pki(directory, ["localhost", "127.0.0.1", "::1", *(host or ())])
    serving = written.serving
    for path in (written.ca_certificate, written.ca_key, serving.certificate, serving.key):
        print(path)


@commands.add(
    "Check the installation on a cluster.",
    "jobflow doctor",
    "jobflow doctor -n team -o json",
)
def doctor(options: ClusterOptions) -> Work:
    """Check the installation: definitions, Volcano and its own controllers of JobFlows, webhook,
    certificates, leader, your rights, queues, and JobTemplates of the namespace. Each fault comes
    with what to do about it. Objects that you may not read are warnings.

    Exit code: 0 no faults; 1 faults; 2 no cluster.
    """
    from jobflow.cli.cluster.doctor.command import diagnose

    return diagnose(options)


@commands.add(
    "Print a script that completes commands in your shell.",
    "jobflow completion bash",
    "echo 'source <(jobflow completion bash)' >> ~/.bashrc",
    "echo 'source <(jobflow completion zsh)' >> ~/.zshrc   # after compinit",
    "jobflow completion fish > ~/.config/fish/completions/jobflow.fish",
)
def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", show_default=False)],
) -> None:
    """Print a script that completes commands, flags, and names in the cluster: of flows on which
    the command can act, of steps, items, tasks, namespaces and CronJobFlows. Load it from the file
    that your shell reads at its start: see the examples.

    Exit code: 0 printed; 2 no such shell.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    variable = COMPLETE_VARIABLE
    print(get_completion_script(prog_name="jobflow", complete_var=variable, shell=shell))
