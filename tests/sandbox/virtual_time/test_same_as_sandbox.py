"""Law: a flow does the same in virtual time as in the sandbox on a simulated clock."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from jobflow.api.flow.jobflow import JobFlow
from jobflow.sandbox.virtual_time.planned_flows import VirtualCluster
from support.laws.effort_of_laws import tries
from support.laws.random_manifests import plain_manifests, random_manifests
from support.paths import ROOT
from support.sandbox.simulated_flows import Manifests, planned, simulated, times_of
from support.time.stepping_loop import START

ELSEWHERE = {"approval.yaml", "cron.yaml", "cron-in-turn.yaml", "suspend.yaml"}
"""Examples that wait for somebody, or that make their flows by a schedule."""
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.yaml") if path.name not in ELSEWHERE)


def read(path: Path) -> Manifests:
    documents = [each for each in yaml.safe_load_all(path.read_text()) if each]
    return [each for each in documents if each["kind"] in ("JobTemplate", "JobFlow")]


def check_same(cluster: VirtualCluster, expected: JobFlow) -> None:
    """Compare the status, and the times that `jobflow plan` shows, in whole seconds. A vcjob that
    was aborted before its pods were created has no start there; the status has its creation."""
    [flow] = cluster.flows
    found = times_of(expected)
    assert times_of(flow) == found
    shown = {
        each.metadata.name: (
            seconds(each.start or each.metadata.creation_timestamp),
            seconds(each.end),
        )
        for each in cluster.jobs
        if each.flow.flow.metadata.name == flow.metadata.name  # and not a child flow
    }
    assert shown == {name: (start, end) for name, (_, start, end) in found.jobs.items()}
    assert seconds(cluster.now) == found.makespan


def seconds(moment: datetime | None) -> float:
    assert moment is not None
    return (moment - START) // timedelta(seconds=1)


@pytest.fixture(scope="module")
def in_sandbox() -> dict[Path, JobFlow]:
    """Return every example as it ended in the sandbox."""
    return dict(zip(EXAMPLES, simulated([read(path) for path in EXAMPLES]), strict=True))


@pytest.mark.long
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_as_in_the_sandbox(path: Path, in_sandbox: dict[Path, JobFlow]) -> None:
    check_same(planned(read(path)), in_sandbox[path])


@pytest.mark.law
@pytest.mark.parametrize("manifests", [random_manifests(), plain_manifests()], ids=["any", "plain"])
def test_random_flows_run_as_in_the_sandbox(manifests: st.SearchStrategy[Manifests]) -> None:
    @given(st.lists(manifests, min_size=8, max_size=12))
    @settings(tries(2), phases=[Phase.generate])  # to shrink a failure takes too long
    def law(worlds: list[Manifests]) -> None:
        clusters = [(each, planned(each)) for each in worlds]
        ending = [(each, cluster) for each, cluster in clusters if cluster.flows[0].final]
        flows = simulated([each for each, _ in ending])
        for flow, (_, cluster) in zip(flows, ending, strict=True):
            check_same(cluster, flow)

    law()
