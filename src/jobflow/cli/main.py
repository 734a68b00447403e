"""The command line: names, flags, help. What a command does is in its own module, imported only
when it is called, so that `jobflow --help` answers at once."""

from __future__ import annotations

import errno
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from jobflow import __version__
from jobflow.cli.outcome import INTERRUPTED, UNUSABLE

_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of standard output: a full disk for the most part."""


def _examples(*lines: str) -> str:
    """The foot of a command's help; \b keeps click from flowing the lines together."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


def _time(help: str) -> Any:
    """A flag that takes a duration."""
    return typer.Option(metavar="T", help=help)


app = typer.Typer(
    name="jobflow",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="YAML or JSON, a folder of them, or - for stdin.",
        show_default=False,
    ),
]
Speed = Annotated[
    float,
    typer.Option("--speed", metavar="N", help="Jobs run N times as fast; nothing else does."),
]


class RunnerName(StrEnum):
    """Who plays the nodes in the sandbox."""

    SIMULATE = "simulate"


Runner = Annotated[
    RunnerName,
    typer.Option("--runner", help="simulate: pods do what annotations of their template say."),
]


class LintOutput(StrEnum):
    """How `jobflow lint` answers."""

    TEXT = "text"
    JSON = "json"


class CancelOutput(StrEnum):
    """How `jobflow cancel` answers."""

    TEXT = "text"
    JSON = "json"


class RunOutput(StrEnum):
    """How `jobflow run` answers."""

    TREE = "tree"
    JSON = "json"


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


@app.command(
    short_help="Carry flows through in a sandbox, without a cluster.",
    epilog=_examples(
        "jobflow run flow.yaml",
        "jobflow run --speed 10 -o json templates/ flow.yaml",
        "helm template . | jobflow run -",
    ),
)
def run(
    files: Files,
    runner: Runner = RunnerName.SIMULATE,
    speed: Speed = 1.0,
    output: Annotated[
        RunOutput,
        typer.Option(
            "-o", "--output", help="A live tree and a table, or the final JobFlows as a v1 List."
        ),
    ] = RunOutput.TREE,
) -> None:
    """Carry flows through in a sandbox on this machine, no cluster needed.

    Exit code: 0 every flow is Succeed; 1 a flow Failed; 2 refused, unreadable, or waiting for
    templates that FILEs lack; 130 interrupted.
    """
    from jobflow.cli.run import run as run_flows

    raise typer.Exit(run_flows(files, speed=_positive(speed), as_json=output is RunOutput.JSON))


@app.command(
    short_help="Check manifests without a cluster: all faults at once.",
    epilog=_examples("jobflow lint flow.yaml", "helm template . | jobflow lint -o json -"),
)
def lint(
    files: Files,
    output: Annotated[
        LintOutput, typer.Option("-o", "--output", help="Text, or one JSON list of faults.")
    ] = LintOutput.TEXT,
) -> None:
    """Check JobFlows and JobTemplates without a cluster: all faults at once, each with its place.

    Exit code: 0 nothing is wrong; 1 something is; 2 a file cannot be read.
    """
    from jobflow.cli.lint import lint as lint_files

    raise typer.Exit(lint_files(files, as_json=output is LintOutput.JSON))


@app.command(
    short_help="Keep a sandbox up for kubectl.",
    epilog=_examples(
        "jobflow sandbox",
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
        Path, typer.Option(metavar="PATH", help="Where to write the kubeconfig.")
    ] = Path(".jobflow/kubeconfig"),
    runner: Runner = RunnerName.SIMULATE,
    speed: Speed = 1.0,
) -> None:
    """Keep a sandbox up for kubectl: API server, webhook, controller and a stand-in for Volcano.

    Prints the line that points kubectl at it, then `ready`. Ctrl-C ends it; nothing is kept.
    """
    from jobflow.cli.sandbox import sandbox as keep_sandbox

    raise typer.Exit(
        keep_sandbox(
            port=port, webhook_port=webhook_port, kubeconfig=kubeconfig, speed=_positive(speed)
        )
    )


@app.command(
    short_help="Serve the webhook and run the controller for a cluster.",
    epilog=_examples(
        "jobflow serve --tls-cert certs/tls.crt --tls-key certs/tls.key",
        "jobflow serve --kubeconfig ~/.kube/config --no-webhook",
    ),
)
def serve(
    kubeconfig: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="Default: $KUBECONFIG, ~/.kube/config, or in a pod its account."
        ),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(metavar="NS", help="Only this namespace. Default: all.")
    ] = None,
    system_namespace: Annotated[
        str | None,
        typer.Option(
            metavar="NS",
            help="Of the lease and the certificates' Secret. Default: the pod's or the context's.",
        ),
    ] = None,
    lease_name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Lease whose holder carries out flows. Default: jobflow, with --namespace "
            "jobflow-NS.",
        ),
    ] = None,
    lease_duration: Annotated[
        str | None, _time("Without renewal others lead after. Default: 15s.")
    ] = None,
    renew_deadline: Annotated[
        str | None, _time("Without it a leader stops after. Default: 10s.")
    ] = None,
    retry_period: Annotated[str | None, _time("Between renewals. Default: 2s.")] = None,
    webhook_port: Annotated[
        int | None, typer.Option(metavar="P", help="HTTPS port of the webhook. Default: 8443.")
    ] = None,
    http_port: Annotated[
        int | None,
        typer.Option(metavar="P", help="Port of /healthz, /readyz and /metrics. Default: 8080."),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(
            metavar="F",
            help="PEM: the webhook's certificate, its chain. Default: one is made and shared "
            "through a Secret.",
        ),
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="F", help="PEM: its key.")] = None,
    certificate_secret: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Secret of a certificate made here. Default: jobflow-webhook-certificate.",
        ),
    ] = None,
    webhook_configuration: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…",
            help="ValidatingWebhookConfigurations that are to trust it; empty: none. Default: "
            "jobflow.",
        ),
    ] = None,
    webhook_host: Annotated[
        str | None,
        typer.Option(
            metavar="HOST,…",
            help="Whom it is for. Default: jobflow-webhook.<system namespace>.svc.",
        ),
    ] = None,
    certificate_lifetime: Annotated[
        str | None, _time("How long it is valid. Default: 2160h.")
    ] = None,
    ca_lifetime: Annotated[str | None, _time("How long its CA is. Default: 43800h.")] = None,
    shutdown_delay: Annotated[
        str | None, _time("Answer for so long after SIGTERM, being not ready. Default: 0s.")
    ] = None,
    no_webhook: Annotated[
        bool | None, typer.Option("--no-webhook", help="Serve no webhook.", show_default=False)
    ] = None,
    no_controller: Annotated[
        bool | None,
        typer.Option("--no-controller", help="Carry out no flows.", show_default=False),
    ] = None,
    no_leader_election: Annotated[
        bool | None,
        typer.Option(
            "--no-leader-election",
            help="Carry out flows without holding the lease: only where no other process does.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serve the webhook and run the controller for a cluster. SIGTERM ends it cleanly.

    Every flag is also in the environment: --webhook-port is JOBFLOW_WEBHOOK_PORT.
    """
    given = dict(locals())
    from jobflow.cli.serve import serve as serve_cluster

    raise typer.Exit(serve_cluster({k: v for k, v in given.items() if v is not None}))


@app.command(
    short_help="End a flow: abort what runs, skip the rest.",
    epilog=_examples(
        "jobflow cancel train",
        "jobflow cancel train -n team --wait",
        "jobflow cancel train -o json",
    ),
)
def cancel(
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="The JobFlow.", show_default=False)],
    namespace: Annotated[
        str | None,
        typer.Option("-n", "--namespace", metavar="NS", help="Default: the kubeconfig's."),
    ] = None,
    kubeconfig: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="Default: $KUBECONFIG, ~/.kube/config, or in a pod its account."
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until every job has ended, telling how it goes.")
    ] = False,
    output: Annotated[
        CancelOutput, typer.Option("-o", "--output", help="Text, or one JSON object at the end.")
    ] = CancelOutput.TEXT,
) -> None:
    """End a flow: jobs that run are aborted, steps that have not begun are skipped, and the flow is
    Failed (Cancelled) once every job has ended.

    Exit code: 0 asked for, with --wait: done; 1 refused, or the flow is over already; 2 no such
    flow, or no cluster; 130 interrupted.
    """
    from jobflow.cli.cancel import Order
    from jobflow.cli.cancel import cancel as cancel_flow

    as_json = output is CancelOutput.JSON
    raise typer.Exit(cancel_flow(Order(flow, namespace, kubeconfig, wait=wait, as_json=as_json)))


@app.command(
    short_help="Print or apply the CustomResourceDefinitions.",
    epilog=_examples("jobflow crds | kubectl apply --server-side -f -", "jobflow crds --apply"),
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
        str | None,
        typer.Option(
            metavar="PATH",
            help="With --apply. Default: $KUBECONFIG, ~/.kube/config, or in a pod its account.",
        ),
    ] = None,
) -> None:
    """Print the CustomResourceDefinitions as YAML, or apply them.

    Exit code of --apply: 0 served; 1 the cluster does not take them; 2 no cluster to ask.
    """
    from jobflow.cli import crds as definitions

    if kubeconfig is not None and not apply:
        raise typer.BadParameter("it needs --apply", param_hint="'--kubeconfig'")
    raise typer.Exit(definitions.apply(kubeconfig) if apply else definitions.crds())


@app.command(
    short_help="Write a development CA and a serving certificate.",
    epilog=_examples("jobflow certs certs", "jobflow certs certs --host webhook.example.com"),
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


def _positive(speed: float) -> float:
    if not 0 < speed < float("inf"):
        raise typer.BadParameter("it has to be more than 0", param_hint="'--speed'")
    return speed


if __name__ == "__main__":
    main()
