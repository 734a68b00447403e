"""Flags and help of the commands that need no cluster. Each imports its module when called."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobflow.cli.commands.command import Commands
from jobflow.cli.flags import Files, output_flag, port_of
from jobflow.client.options import FileOptions, NodeOptions
from jobflow.display.formats import ConvertOutput, Output, RunOutput

if TYPE_CHECKING:
    from jobflow.cli.local.run import ShowPage

commands = Commands()


@dataclass(frozen=True, slots=True)
class PageOptions:
    """Flags of commands that can show a page."""

    ui: Annotated[
        bool, typer.Option("--ui", help="Show the flows on a page in the browser, until Ctrl-C.")
    ] = False
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="With --ui: only print the link.")
    ] = False

    def __post_init__(self) -> None:
        if self.no_browser and not self.ui:
            raise ValueError("--no-browser needs --ui")


def _page(options: PageOptions) -> "ShowPage | None":
    if not options.ui:
        return None
    from functools import partial

    from jobflow.page.serve import shown_page

    return partial(shown_page, opens_browser=not options.no_browser)


@commands.add(
    "Run flows in a sandbox, without a cluster.",
    "jobflow run flow.yaml",
    "jobflow run --speed 10 -o json templates/ flow.yaml",
    "jobflow run --ui flow.yaml",
    "jobflow run --runner process --max-restarts 0 flow.yaml",
    "jobflow run --runner process flow.yaml secrets.yaml",
    "jobflow run --param workers=4 --param 'rates=[0.1, 0.01]' flow.yaml",
    "helm template . | jobflow run -",
)
def run(
    files: FileOptions,
    nodes: NodeOptions,
    page: PageOptions,
    output: Annotated[
        RunOutput, output_flag("A live tree and a table, or the finished JobFlows as a v1 List.")
    ] = RunOutput.TREE,
) -> int:
    """Run flows in a sandbox on this machine, without a cluster. A CronJobFlow runs one flow, now.
    Namespaces, Queues, Secrets and ConfigMaps of the FILEs are applied first.

    With --runner process, logs are written to .jobflow/logs, and the last lines of the log of each
    failed step are printed.

    With --ui, the sandbox and its page stay until Ctrl-C, so that steps can be approved there.

    Exit code: 0 every flow is Succeed; 1 a flow is Failed; 2 refused, unreadable, or a flow cannot
    finish because a JobTemplate, Secret or ConfigMap is missing or it is suspended; 130
    interrupted.
    """
    from jobflow.cli.local.run import run_flows

    return run_flows(files, nodes, as_json=output is RunOutput.JSON, page=_page(page))


@commands.add(
    "Check manifests without a cluster and report all faults at once.",
    "jobflow lint flow.yaml",
    "jobflow lint --param workers=4 flow.yaml",
    "helm template . | jobflow lint -o json -",
)
def lint(
    files: FileOptions,
    output: Annotated[
        Output, output_flag("Text, or a JSON list of faults and warnings.")
    ] = Output.TEXT,
) -> int:
    """Check JobFlows, JobTemplates and CronJobFlows without a cluster. All faults are reported at
    once, each with file, line and column.

    Exit code: 0 no faults; 1 faults; 2 a file cannot be read.
    """
    from jobflow.cli.local.manifests import lint_files

    return lint_files(files, as_json=output is Output.JSON)


@commands.add(
    "Turn vcjobs into JobTemplates and back, and flows into Python.",
    "jobflow convert job.yaml > template.yaml",
    "kubectl get vcjob train -o yaml | jobflow convert - | jobflow lint -",
    "jobflow convert -o python flow.yaml > flow.py",
)
def convert(
    files: Files,
    output: Annotated[
        ConvertOutput,
        output_flag("YAML of the other kind, or a Python file with jobflow.authoring."),
    ] = ConvertOutput.YAML,
) -> int:
    """Turn each Job of batch.volcano.sh/v1alpha1 into a JobTemplate and each JobTemplate into a
    Job, and print them as YAML. Status and metadata that the API server or tools wrote are dropped,
    and so are comments.

    With -o python, print a Python file that makes the same JobFlows, CronJobFlows and JobTemplates
    with jobflow.authoring.

    Exit code: 0 converted; 1 faults, or an object of another kind; 2 a file cannot be read.
    """
    from jobflow.cli.local.manifests import convert_files, convert_to_python

    as_python = output is ConvertOutput.PYTHON
    return convert_to_python(files) if as_python else convert_files(files)


@commands.add(
    "Turn workflows of Argo, and old manifests, into JobFlows.",
    "jobflow migrate workflow.yaml > flow.yaml",
    "jobflow migrate -o json workflows/",
    "jobflow migrate old.yaml > flow.yaml",
)
def migrate(
    files: Files,
    output: Annotated[
        Output, output_flag("The objects, or a JSON list of what is left to do.")
    ] = Output.TEXT,
) -> int:
    """Turn Workflows, WorkflowTemplates and CronWorkflows of Argo into JobFlows and CronJobFlows.
    Features that JobFlow does not have are listed with their lines, and in comments of their steps.

    JobFlows and JobTemplates of batch.volcano.sh/v1alpha1, the group of the former JobFlow project,
    are rewritten as flow.volcano.sh/v1alpha1: the group, names that Kubernetes refuses, and fields
    in the wrong case.

    All objects are printed as YAML, other kinds unchanged; changes and what is left to do are
    printed to stderr.

    Exit code: 0 migrated; 1 something has no equal, or faults are left; 2 a file cannot be read.
    """
    from jobflow.cli.local.manifests import migrate_files

    return migrate_files(files, as_json=output is Output.JSON)


@commands.add(
    "Start a sandbox for kubectl.",
    "jobflow sandbox",
    "jobflow sandbox --ui",
    "jobflow sandbox --runner process",
    "KUBECONFIG=.jobflow/kubeconfig kubectl apply -f examples/diamond.yaml",
)
def sandbox(
    nodes: NodeOptions,
    page: PageOptions,
    port: Annotated[int, port_of("API server")] = 0,
    webhook_port: Annotated[int, port_of("webhook")] = 0,
    kubeconfig: Annotated[
        Path, typer.Option(metavar="PATH", help="The kubeconfig to write; deleted at the end.")
    ] = Path(".jobflow/kubeconfig"),
) -> int:
    """Start a sandbox for kubectl: an API server, the webhook, the controller and a stand-in for
    Volcano's job controller.

    Prints `export KUBECONFIG=…`, then `ready`, and runs until Ctrl-C. Everything is lost then but
    the logs of --runner process, in .jobflow/logs.

    Exit code: 0 ended by Ctrl-C; 1 a part of the sandbox failed; 2 it could not start.
    """
    from jobflow.cli.local.run import run_sandbox

    return run_sandbox(
        port=port, webhook_port=webhook_port, kubeconfig=kubeconfig, nodes=nodes, page=_page(page)
    )
