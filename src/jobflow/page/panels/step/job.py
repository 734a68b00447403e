"""The jobs of a step as they were made, and command lines that show more."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from jobflow.core.text import format_command
from jobflow.core.work import is_asked
from jobflow.page.panels.step.selected import SelectedStep
from jobflow.page.web.fragments import Fragment


@dataclass(frozen=True, slots=True)
class JobFile:
    """The vcjob of a step, which the browser loads when it is asked for."""

    namespace: str
    flow: str
    job: str


def job_file(selected: SelectedStep) -> Fragment | None:
    """Return the job of a step or an item; None if it has none."""
    meta, job = selected.flow.metadata, selected.run.job
    if not job or selected.has_many_runs:
        return None
    return Fragment("step-job", "step-job.html", JobFile(meta.namespace, meta.name, job))


def commands(selected: SelectedStep) -> Fragment:
    """Return command lines to copy."""
    meta, run = selected.flow.metadata, selected.run
    step, namespace = f" {shlex.quote(str(selected.choice))}", shlex.quote(meta.namespace)
    lines = [format_command("jobflow why", meta, step).strip("`")]
    if not is_asked(selected.step):
        lines.append(format_command("jobflow logs", meta, f"{step} -f").strip("`"))
    if run.job and not selected.has_many_runs:
        job = shlex.quote(run.job)
        lines.append(f"kubectl describe vcjob -n {namespace} {job}")
        lines.append(f"kubectl get pods -n {namespace} -l volcano.sh/job-name={job} -o wide")
    if run.flow and not selected.has_many_runs:
        place = "" if meta.namespace in ("", "default") else f" -n {namespace}"
        lines.append(f"jobflow get {shlex.quote(run.flow)}{place}")
    return Fragment("step-commands", "step-commands.html", tuple(lines))
