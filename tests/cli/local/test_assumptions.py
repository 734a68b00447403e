"""What `jobflow run` says that it takes for granted."""

from __future__ import annotations

import io

import pytest

from jobflow.cli.flags import RunnerName
from jobflow.cli.local.node_runner import assumptions
from jobflow.cli.manifests.check import check
from jobflow.cli.manifests.objects import load
from support.paths import ROOT

EXAMPLES = ROOT / "examples"
SIMULATE, PROCESS = RunnerName.SIMULATE, RunnerName.PROCESS


def said(example: str, runner: RunnerName) -> list[str]:
    flows = check(load([str(EXAMPLES / example)], io.BytesIO())).flows
    assert flows
    return list(assumptions(flows, runner))


def test_that_simulated_pods_answer_is_said_once() -> None:
    (sentence,) = said("probed-service.yaml", SIMULATE)
    assert sentence.startswith("nothing listens in simulated pods, so HTTP and TCP probes pass")


@pytest.mark.parametrize(
    ("example", "runner"),
    [
        ("probed-service.yaml", PROCESS),
        ("parameter-server.yaml", SIMULATE),
        ("diamond.yaml", SIMULATE),
    ],
)
def test_where_nothing_is_assumed_nothing_is_said(example: str, runner: RunnerName) -> None:
    assert said(example, runner) == []
