"""`jobflow why`: reads one flow and says why it, or a step of it, stands where it stands."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from jobflow.api.jobflow import JobFlow
from jobflow.cli.display.report import visible
from jobflow.cli.exit_codes import FINE, UNUSABLE
from jobflow.cli.flows.find_flow import Stopped, ended, found_flow
from jobflow.core.explain.explain import Explanation, describe_unknown_step, explain, explain_step
from jobflow.kube.client import Client

WIDEST = 100
"""Columns of a paragraph, however wide the terminal: longer lines are hard to read."""


@dataclass(frozen=True, slots=True)
class Question:
    """What the user asks."""

    flow: str
    step: str | None
    namespace: str | None
    kubeconfig: str | None
    as_json: bool


def why(question: Question) -> int:
    """Answer: 0; 1 where the flow may not be read, 2 where there is no such flow or step or no
    cluster."""
    return ended("why", _answered(question))


async def _answered(question: Question) -> int:
    async with await Client.from_kubeconfig(question.kubeconfig) as client:
        namespace = question.namespace or client.namespace
        flow = await found_flow(client, namespace, question.flow)
    now = datetime.now(UTC)
    if question.step is None:
        said = explain(flow, now=now)
    elif strange := describe_unknown_step(flow, question.step):
        raise Stopped(UNUSABLE, strange)
    else:
        said = explain_step(flow, question.step, now=now)
    if question.as_json:
        answer = _json(flow, question.step, said)
        print(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        _print(said.text)
    return FINE


def _print(text: str) -> None:
    """A paragraph on a terminal, one line elsewhere."""
    console = Console(highlight=False, markup=False, emoji=False)
    if console.is_terminal:
        console.print(visible(text), width=min(console.width, WIDEST))
    else:
        print(visible(text))


def _json(flow: JobFlow, step: str | None, said: Explanation) -> dict[str, Any]:
    meta = flow.metadata
    return {
        "namespace": meta.namespace,
        "flow": meta.name,
        "step": step,
        "phase": said.phase,
        "reason": said.reason,
        "since": said.since.strftime("%Y-%m-%dT%H:%M:%SZ") if said.since else None,
        "causes": list(said.causes),
        "sentences": list(said.sentences),
    }
