"""`jobflow why`: explains why a flow or a step waits, runs or failed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.console import Console

from jobflow.cli.display.report import printable
from jobflow.cli.errors import SUCCESS, UNUSABLE, CommandError
from jobflow.cli.flows.find_flow import find_flow, run_command
from jobflow.core.explain.explain import describe_unknown_step, explain, explain_step
from jobflow.kube.client import Client

MAX_WIDTH = 100
"""Columns of the paragraph on a wider terminal, because longer lines are hard to read."""


@dataclass(frozen=True, slots=True)
class Question:
    """Arguments and flags of `jobflow why`."""

    flow: str
    step: str | None
    namespace: str | None
    kubeconfig: str | None
    as_json: bool


def explain_flow(question: Question) -> int:
    """Print the explanation and return the exit code."""
    return run_command(print_explanation(question))


async def print_explanation(question: Question) -> int:
    """Print the explanation. Raises CommandError."""
    async with await Client.from_kubeconfig(question.kubeconfig) as client:
        namespace = question.namespace or client.namespace
        flow = await find_flow(client, namespace, question.flow)
    now = datetime.now(UTC)
    if question.step is None:
        explanation = explain(flow, now=now)
    elif unknown := describe_unknown_step(flow, question.step):
        raise CommandError(UNUSABLE, unknown)
    else:
        explanation = explain_step(flow, question.step, now=now)
    if not question.as_json:
        _print_paragraph(printable(explanation.text))
        return SUCCESS
    since = explanation.since
    answer = {
        "namespace": flow.metadata.namespace,
        "flow": flow.metadata.name,
        "step": question.step,
        "phase": explanation.phase,
        "reason": explanation.reason,
        "since": since.strftime("%Y-%m-%dT%H:%M:%SZ") if since else None,
        "causes": list(explanation.causes),
        "sentences": list(explanation.sentences),
    }
    print(json.dumps(answer, indent=2, ensure_ascii=False))
    return SUCCESS


def _print_paragraph(text: str) -> None:
    """Print wrapped text on a terminal and one line elsewhere."""
    console = Console(highlight=False, markup=False, emoji=False)
    if console.is_terminal:
        console.print(text, width=min(console.width, MAX_WIDTH))
    else:
        print(text)
