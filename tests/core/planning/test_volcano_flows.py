"""Flows that Volcano takes are taken, and mean what they meant there: the same jobs in the same
order, and the same end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
import yaml

from jobflow.api.jobflow import JobFlow
from jobflow.core.admission.validate import validate_flow
from jobflow.core.manifests.crd_schema import schema_violations, without_nulls
from support.admission.reviewed import knowing, template_of
from support.paths import ROOT
from support.plan.plan_world import World, world_of

CORPUS: list[dict[str, Any]] = yaml.safe_load(
    (ROOT / "tests" / "data" / "volcano-flows.yaml").read_text()
)
CARRIED = [case for case in CORPUS if "order" in case]
REFUSED = [case for case in CORPUS if "refused" in case]


def name_of(case: dict[str, Any]) -> str:
    return str(case["what"])


def stored(case: dict[str, Any]) -> JobFlow:
    """As an API server hands it on: without what the schema does not know, and with no status."""
    flow = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow"} | case["flow"]
    assert schema_violations("JobFlow", flow, strict=False) == []
    flow = {key: value for key, value in flow.items() if key != "status"}
    return msgspec.convert(without_nulls("JobFlow", flow), JobFlow)


def test_the_corpus_is_whole() -> None:
    assert len(CARRIED) + len(REFUSED) == len(CORPUS) >= 30
    assert len({name_of(case) for case in CORPUS}) == len(CORPUS)


@pytest.mark.parametrize("case", CARRIED, ids=name_of)
def test_what_volcano_takes_is_taken_without_a_word(case: dict[str, Any]) -> None:
    flow = stored(case)
    verdict = validate_flow(flow, knowing(*(template_of(step.name, "w") for step in flow.steps)))
    assert (verdict.violations, verdict.warnings) == ((), ())


@pytest.mark.parametrize("case", REFUSED, ids=name_of)
def test_what_volcano_never_brings_to_an_end_is_refused(case: dict[str, Any]) -> None:
    flow = stored(case)
    known = knowing(*(template_of(step.name) for step in flow.steps))
    assert [v.path for v in validate_flow(flow, known).violations] == case["refused"]


@pytest.mark.parametrize("case", CARRIED, ids=name_of)
def test_the_same_jobs_in_the_same_order_and_the_same_end(case: dict[str, Any]) -> None:
    flow, fails = stored(case), case.get("fails", {})
    name = flow.metadata.name
    world = world_of(flow.steps, name=name, retain=flow.spec.job_retain_policy)
    waves = []
    for _ in range(len(flow.steps) + 1):
        before = set(world.jobs)
        world = world.settled()
        made = [job for job in world.jobs if job not in before]
        if not made:
            break
        waves.append([job.removeprefix(f"{name}-") for job in made])
        for job in made:
            world = world.ended(job, fails.get(job.removeprefix(f"{name}-"), "Completed"))
    assert waves == case["order"]
    assert world.flow.status.state.phase == case["end"]
    assert sorted(there(world)) == sorted(case.get("left", all_jobs(case, name)))
    assert replace(world).plan().creates == []


def there(world: World) -> set[str]:
    return set(world.jobs) - world.deleted


def all_jobs(case: dict[str, Any], name: str) -> list[str]:
    return [f"{name}-{step}" for wave in case["order"] for step in wave]
