"""`jobflow trigger` and `backfill`, and what other commands do with CronJobFlows."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from jobflow.api.labels import SKIP
from jobflow.api.resources import CRONJOBFLOWS, JOBFLOWS
from jobflow.sandbox.apiserver.requests.failures import failure
from support.sandbox.command_line import Result
from support.sandbox.flow_commands import run_command
from support.sandbox.running_controller import NAMESPACE, Cluster, cron, template, write_status

DAY = ("--from", "2026-03-28", "--to", "2026-03-30")
"""Berlin changes its clocks on 29 March, and 2:30 does not exist."""
LEFT_OUT = (
    "jobflow: warning: no flow for 2026-03-29T02:30: the clocks of Europe/Berlin skip this time, "
    "as at the beginning of summer time\n"
)
PREFIX = "jobflow.flow.volcano.sh"


async def apply(world: Cluster, **spec: Any) -> None:
    """Apply the CronJobFlow c, whose flows have a param."""
    made = cron(schedule="30 2 * * *", timeZone="Europe/Berlin", **spec)
    flow = made["spec"]["jobFlowTemplate"]["spec"]
    flow["params"] = [{"name": "rate", "value": 1, "enum": [1, 2]}]
    await world.apply(template("a"), made)


async def test_trigger_creates_a_flow_that_belongs_to_the_cron(
    world: Cluster, kubeconfig: Path
) -> None:
    await apply(world, suspend=True)
    result = await run_command(kubeconfig, "trigger", "cjf/c", "--param", "rate=2")
    (flow,) = await world.raw(JOBFLOWS)
    meta, name = flow["metadata"], flow["metadata"]["name"]
    assert result == Result(0, f"{PREFIX}/{name} created\n", "")
    assert name.startswith("c-manual-") and len(name) == len("c-manual-xxxxx")
    assert meta["ownerReferences"][0]["name"] == "c"
    assert meta["annotations"]["flow.volcano.sh/instantiate"] == "manual"
    assert flow["spec"]["params"][0]["value"] == 2
    again = await run_command(kubeconfig, "trigger", "c", "-o", "name")
    assert again.out.startswith(f"{PREFIX}/c-manual-")


async def test_backfill_twice_makes_one_flow_for_each_time(
    world: Cluster, kubeconfig: Path
) -> None:
    await apply(world)
    planned = await run_command(kubeconfig, "backfill", "c", *DAY, "--dry-run")
    assert planned == Result(
        0,
        f"{PREFIX}/c-29577690 created (dry run): 2026-03-28T02:30:00+01:00\n"
        f"{PREFIX}/c-29580510 created (dry run): 2026-03-30T02:30:00+02:00\n",
        LEFT_OUT,
    )
    assert await world.raw(JOBFLOWS) == []
    first = await run_command(kubeconfig, "backfill", "c", *DAY)
    assert first.out == planned.out.replace(" (dry run)", "")
    second = await run_command(kubeconfig, "backfill", "c", *DAY)
    assert second == Result(0, first.out.replace("created", "exists"), LEFT_OUT)
    listed = await run_command(kubeconfig, "backfill", "c", *DAY, "-o", "json")
    flows = await world.raw(JOBFLOWS)
    assert [each["metadata"]["uid"] for each in listed.json["items"]] == [
        flow["metadata"]["uid"] for flow in flows
    ]
    assert flows[0]["metadata"]["annotations"] == {
        "flow.volcano.sh/cronjobflow": "c",
        "flow.volcano.sh/instantiate": "backfill",
        "flow.volcano.sh/scheduled-time": "2026-03-28T02:30:00+01:00",
    }


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("backfill", "c", "--from", "2026-03-29", "--to", "2026-03-29"), 1, "has no time from"),
        (("backfill", "c", "--from", "2026-03-29", "--to", "2026-03-29"), 1, LEFT_OUT),
        (("backfill", "c", "--from", "2026-02-01", "--to", "2026-01-01"), 2, "is after --to"),
        (("backfill", "c", "--from", "2020-01-01", "--to", "2020-12-31"), 2,
         "at most 100 flows are created at once: shorten the interval, or set --limit"),
        (("backfill", "c", "--from", "2020-01-01", "--to", "2199-12-31T00:00"), 2,
         "is in the future"),
        (("backfill", "c", "--from", "1969-01-01", "--to", "1969-12-31"), 2, "is before 1970"),
        (("backfill", "c", "--from", "monday", "--to", "2020-12-31"), 2,
         '--from "monday" is not a time: write it like 2026-01-31'),
        (("backfill", "c", *DAY, "--param", "rate=3"), 1, "nothing was sent, see above"),
        (("trigger", "d"), 2, 'CronJobFlow "d" does not exist in namespace "default"'),
        (("trigger", "jf/c"), 2, '"jf/c" is not a CronJobFlow: write c or cjf/c'),
        (("get", "cjf/c", "train"), 2, "write cjf, cjf/NAME or names of flows"),
        (("get", "cjf", "--watch"), 2, "--phase, --watch, --items and --step are for flows"),
        (("suspend", "cjf/c", "train"), 2, "write names of flows or cjf/NAME, not both"),
        (("suspend", "cjf/c", "--wait"), 2, "cjf/NAME takes no flags but those of the connection"),
        (("resume", "cjf/c"), 1, "CronJobFlow c is not suspended"),
        (("skip", "cjf/c"), 1, "CronJobFlow c waits for the success of no flow"),
        (("skip", "cjf/c", "a"), 2, "cjf/NAME takes no flags but those of the connection"),
        (("skip", "c"), 2, "give the step: jobflow skip FLOW STEP[/INDEX], or skip cjf/NAME"),
        (("delete", "cjf/c", "--wait"), 2, "cjf/NAME takes no flags but those of the connection"),
    ],
)  # fmt: skip
async def test_a_call_that_makes_no_sense_is_explained(
    world: Cluster, kubeconfig: Path, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    await apply(world)
    result = await run_command(kubeconfig, *arguments)
    assert (result.code, result.out) == (code, "")
    assert sentence in result.err
    assert await world.raw(JOBFLOWS) == []


async def test_a_flow_of_somebody_else_with_the_name_is_an_error(
    world: Cluster, kubeconfig: Path
) -> None:
    await apply(world)
    flow = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "spec": {}}
    await world.apply(flow | {"metadata": {"name": "c-29577690"}})
    result = await run_command(kubeconfig, "backfill", "c", *DAY)
    assert (result.code, result.out) == (1, "")
    assert "JobFlow c-29577690 was not created: " in result.err


async def test_submit_applies_a_cron(world: Cluster, kubeconfig: Path, tmp_path: Path) -> None:
    file = tmp_path / "cron.yaml"
    file.write_text(yaml.safe_dump_all([template("a"), cron(schedule="0 2 * * *")]))
    names = "jobtemplate.flow.volcano.sh/a {0}\ncronjobflow.flow.volcano.sh/c {0}\n"
    first = await run_command(kubeconfig, "submit", str(file))
    assert first == Result(0, names.format("created"), "")
    again = await run_command(kubeconfig, "submit", str(file))
    assert again == Result(0, names.format("unchanged"), "")
    file.write_text(file.read_text().replace("0 2 * * *", "0 3 * * *"))
    changed = await run_command(kubeconfig, "submit", str(file))
    assert "cronjobflow.flow.volcano.sh/c configured" in changed.out


async def test_get_shows_schedules(world: Cluster, kubeconfig: Path) -> None:
    await apply(world)
    await write_status(world.client, CRONJOBFLOWS, "c", {"active": [{"name": "c-1"}]})
    table = (await run_command(kubeconfig, "get", "cjf")).out.splitlines()
    assert table[0].split() == ["NAME", "SCHEDULE", "SUSPEND", "ACTIVE", "LAST", "SCHEDULE", "AGE"]
    assert table[1].startswith("c      30 2 * * *   False     1        <none>          ")
    wide = await run_command(kubeconfig, "get", "cjf/c", "-o", "wide")
    assert "Europe/Berlin" in wide.out
    named = await run_command(kubeconfig, "get", "cronjobflows", "-A", "-o", "name")
    assert named == Result(0, "cronjobflow.flow.volcano.sh/c\n", "")
    assert (await run_command(kubeconfig, "get", "cjf/c", "-o", "json")).json["kind"] == (
        "CronJobFlow"
    )


async def test_a_schedule_goes_on_without_a_flow_that_is_skipped(
    world: Cluster, kubeconfig: Path
) -> None:
    await apply(world, concurrencyPolicy="Wait", requirePreviousSuccess=True)
    status = {"waitsFor": "c-1", "active": [{"name": "c-1"}]}
    await write_status(world.client, CRONJOBFLOWS, "c", status)
    refused = await run_command(kubeconfig, "skip", "cjf/c")
    assert (refused.code, refused.out) == (1, "")
    assert "flow c-1 of CronJobFlow c has not ended yet" in refused.err
    await write_status(world.client, CRONJOBFLOWS, "c", {"active": None})
    world.fails("PUT", "cronjobflows/c", failure(409, "Conflict", "x"), times=2)
    skipped = await run_command(kubeconfig, "skip", "cjf/c")
    assert skipped == Result(0, "CronJobFlow c: goes on without flow c-1\n", "")
    assert (await world.raw(CRONJOBFLOWS))[0]["metadata"]["annotations"] == {SKIP: "c-1"}
    assert world.count("PUT", CRONJOBFLOWS) == 1
    world.fails("PUT", "cronjobflows/c", failure(409, "Conflict", "x"), times=None)
    refused = await run_command(kubeconfig, "skip", "cjf/c")
    assert (refused.code, refused.err) == (1, "jobflow: error: CronJobFlow c: x\n")


async def test_a_schedule_is_suspended_resumed_and_deleted(
    world: Cluster, kubeconfig: Path
) -> None:
    await apply(world)
    for verb, done, value in (("suspend", "suspended", True), ("resume", "resumed", False)):
        result = await run_command(kubeconfig, verb, "cjf/c")
        assert result == Result(0, f"CronJobFlow c: {done}\n", "")
        assert (await world.raw(CRONJOBFLOWS))[0]["spec"]["suspend"] is value
    await write_status(world.client, CRONJOBFLOWS, "c", {"active": [{"name": "c-1"}]})
    refused = await run_command(kubeconfig, "delete", "cjf/c")
    assert (refused.code, refused.out) == (1, "")
    assert "CronJobFlow c has 1 active flow (c-1): suspend it" in refused.err
    await write_status(world.client, CRONJOBFLOWS, "c", {"active": None})
    deleted = await run_command(kubeconfig, "delete", "cjf/c")
    assert deleted == Result(0, 'cronjobflow.flow.volcano.sh "c" deleted\n', "")
    assert await world.raw(CRONJOBFLOWS) == []


async def test_a_resubmitted_flow_keeps_its_scheduled_time(
    world: Cluster, kubeconfig: Path
) -> None:
    made = cron(schedule="30 2 * * *")
    made["spec"]["jobFlowTemplate"]["spec"]["flows"][0]["when"] = 'flow.scheduledTime != ""'
    await world.apply(template("a"), made)
    name = (await run_command(kubeconfig, "trigger", "c", "-o", "name")).out.strip()
    result = await run_command(kubeconfig, "resubmit", name, "-o", "json")
    stored = await world.flow(name.rpartition("/")[2])
    time = (stored.metadata.annotations or {})["flow.volcano.sh/scheduled-time"]
    assert result.json["metadata"]["annotations"] == {"flow.volcano.sh/scheduled-time": time}
    assert NAMESPACE == result.json["metadata"]["namespace"]


async def test_why_says_when_the_next_flow_starts(world: Cluster, kubeconfig: Path) -> None:
    await apply(world)
    answer = (await run_command(kubeconfig, "why", "cjf/c", "-o", "json")).json
    assert answer["next"].endswith(("T02:30:00+01:00", "T02:30:00+02:00"))
    text = await run_command(kubeconfig, "why", "cjf/c")
    assert text.out.startswith("CronJobFlow c is next due at ")
    step = await run_command(kubeconfig, "why", "cjf/c", "a")
    assert (step.code, "has no steps" in step.err) == (2, True)
