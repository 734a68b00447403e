"""`jobflow why cjf/NAME`: explains when a CronJobFlow starts its next flow."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from jobflow.api.labels import CRON
from jobflow.cli.flags import ClusterOptions
from jobflow.cli.show.why import print_sentences
from jobflow.client.errors import SUCCESS, UNUSABLE, CommandError
from jobflow.client.flows.find_cron import find_cron
from jobflow.client.flows.find_flow import connect, find_flows
from jobflow.client.options import Selection
from jobflow.core.cron.flows import belongs_to, format_scheduled_time
from jobflow.core.explain.cron import explain_cron
from jobflow.core.names import to_label_value
from jobflow.display.console import make_console


async def print_cron_explanation(name: str, step: str | None, options: ClusterOptions) -> int:
    """Print the explanation of a CronJobFlow and return the exit code. Raises CommandError."""
    if step is not None:
        raise CommandError(UNUSABLE, "a CronJobFlow has no steps: give the name of a flow")
    async with await connect(options) as client:
        cron = (await find_cron(client, name)).cron
        meta = cron.metadata
        labelled = Selection(selector=f"{CRON}={to_label_value(meta.name)}")
        found = await find_flows(client, (), labelled)
    owned = [flow for flow in found if belongs_to(flow, meta)]
    explanation = explain_cron(cron, owned, datetime.now(UTC))
    if not options.as_json:
        print_sentences(explanation.sentences, make_console())
        return SUCCESS
    answer = {
        "namespace": meta.namespace,
        "cronjobflow": meta.name,
        "next": format_scheduled_time(explanation.next) if explanation.next else None,
        "reasons": list(explanation.reasons),
        "active": sorted(flow.metadata.name for flow in owned if not flow.final),
        "sentences": list(explanation.sentences),
    }
    print(json.dumps(answer, indent=2, ensure_ascii=False))
    return SUCCESS
