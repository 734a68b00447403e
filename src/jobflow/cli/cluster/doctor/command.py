"""`jobflow doctor`: runs all checks, prints what they found and what to do about it."""

import textwrap
from collections.abc import Mapping
from dataclasses import asdict

from rich.text import Text

from jobflow.cli.cluster.doctor import leader, namespace, volcano, webhook
from jobflow.cli.cluster.doctor.reading import Check, Cluster, NotReadable, Result, Status, warning
from jobflow.cli.flags import ClusterOptions
from jobflow.client.errors import FAILED, SUCCESS
from jobflow.client.flows.find_flow import connect
from jobflow.core.text import format_count, printable
from jobflow.display.console import MAX_WIDTH, make_console
from jobflow.display.formats import print_json

CHECKS: Mapping[str, Check] = {
    "definitions": volcano.check_definitions,
    "volcano": volcano.check_volcano,
    "volcano-controllers": volcano.check_controllers,
    "volcano-admission": volcano.check_admission,
    "webhook": webhook.check_webhook,
    "certificate": webhook.check_certificates,
    "leader": leader.check_leader,
    "clocks": leader.check_clocks,
    "rights": namespace.check_rights,
    "queues": namespace.check_queues,
    "flows": namespace.check_flows,
    "templates": namespace.check_templates,
}
_COLOURS = {Status.OK: "green", Status.WARNING: "yellow", Status.FAULT: "red"}
_STATUS_WIDTH = 8


async def diagnose(options: ClusterOptions) -> int:
    """Run all checks and print what they found. An object that cannot be read is a warning."""
    findings: list[tuple[str, Result]] = []
    async with await connect(options) as client:
        cluster = Cluster(client)
        # one after another, in the order in which faults cause each other: without definitions,
        # nothing else works
        for name, check in CHECKS.items():
            try:
                async for result in check(cluster):
                    findings.append((name, result))  # noqa: PERF401 - keeps those before an error
            except NotReadable as error:
                findings.append((name, warning(str(error), error.remedy)))
    # one missing right is found by many checks
    checks: dict[Result, list[str]] = {}
    for name, result in findings:
        checks.setdefault(result, []).append(name)
    faults = sum(result.status is Status.FAULT for result in checks)
    if options.as_json:
        print_json([{"check": name, **asdict(result)} for name, result in findings])
        return FAILED if faults else SUCCESS
    console = make_console()
    for result, names in checks.items():
        head = f"{result.status:<{_STATUS_WIDTH}}{', '.join(names)}"
        text = printable(f"{head}: {result.message} {result.remedy}".rstrip())
        if console.is_terminal:
            width = min(console.width, MAX_WIDTH)
            indent = " " * _STATUS_WIDTH
            text = textwrap.fill(text, width, subsequent_indent=indent, break_on_hyphens=False)
        line = Text(text)
        line.stylize(_COLOURS[result.status], 0, len(result.status))
        console.print(line, soft_wrap=True)
    warnings = sum(result.status is Status.WARNING for result in checks)
    end = format_count(faults, "fault") if faults else "No faults"
    console.print(f"{end}, {format_count(warnings, 'warning')}.", soft_wrap=True)
    return FAILED if faults else SUCCESS
