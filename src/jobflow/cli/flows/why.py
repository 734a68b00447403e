"""`jobflow why`: explains why a flow or a step waits, runs or failed."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from rich.console import Console

from jobflow.cli.display.report import printable
from jobflow.cli.errors import SUCCESS, UNUSABLE, CommandError
from jobflow.cli.flags import ClusterOptions
from jobflow.cli.flows.find_flow import find_flow
from jobflow.core.explain.explain import describe_unknown_step, explain, explain_step
from jobflow.kube.client import Client

MAX_WIDTH = 100
"""Columns of the paragraph on a wider terminal, because longer lines are hard to read."""


async def print_explanation(name: str, step: str | None, options: ClusterOptions) -> int:
    """Print why a flow, or a step of it, is in its phase. Raises CommandError."""
    async with await Client.from_kubeconfig(options.kubeconfig) as client:
        flow = await find_flow(client, options.namespace or client.namespace, name)
    now = datetime.now(UTC)
    if step is None:
        explanation = explain(flow, now=now)
    elif unknown := describe_unknown_step(flow, step):
        raise CommandError(UNUSABLE, unknown)
    else:
        explanation = explain_step(flow, step, now=now)
    if not options.as_json:
        _print_paragraph(printable(" ".join(explanation.sentences)))
        return SUCCESS
    since = explanation.since
    answer = {
        "namespace": flow.metadata.namespace,
        "flow": flow.metadata.name,
        "step": step,
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
