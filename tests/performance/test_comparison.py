"""What `python -m bench cluster` computes from what it has measured. Nothing is measured here."""

import json
from pathlib import Path

import msgspec
import pytest
from bench import samples
from bench.argo import ARGO_BINARIES, ArgoController, workflow
from bench.comparison import OURS, Measure, Table
from bench.controllers import OurController, folder_of
from bench.driver import Object, Seen, step_of_job, step_of_pod
from bench.loads import Load, percentiles, phase_of, waits

RATE = Measure("burst", "flows", "flows/s")
WAIT = Measure("burst", "hand-over, p50", "ms")
CREATES = Measure("burst", "create jobs", "requests/flow")


def table(*peers: str) -> Table:
    """Three runs of JobFlow and of each peer, which is half as fast."""
    made = Table(peers)
    for rate in (30.0, 10.0, 20.0):
        made.add(OURS, [(RATE, rate), (CREATES, 5.0)])
        for peer in peers:
            made.add(peer, [(RATE, rate / 2)])
    return made


def test_a_ratio_is_that_of_the_medians() -> None:
    [rate, _] = table("volcano").rows
    assert (rate.median(OURS), rate.median("volcano"), rate.ratio("volcano")) == (20, 10, 2)


def test_a_measure_that_a_peer_lacks_has_no_ratio() -> None:
    [_, creates] = table("volcano").rows
    assert creates.ratio("volcano") is None


def test_a_peer_that_measured_nothing_has_no_ratio() -> None:
    made = table()
    made.add("volcano", [(RATE, 0.0)])
    assert made.rows[0].ratio("volcano") is None


def test_the_table_has_a_column_and_a_ratio_for_each_peer() -> None:
    lines = [line.split() for line in table("volcano", "argo").text().splitlines()]
    assert lines[0] == ["load", "measure", "unit", "aim", OURS, "volcano", "ratio", "argo", "ratio"]
    assert lines[1][:3] == ["burst", "flows", "flows/s"]
    assert lines[1][-5:] == ["20.00", "10.00", "2.00", "10.00", "2.00"]
    assert lines[2][-5:] == ["5.00", "-", "-", "-", "-"]


def test_without_a_peer_there_is_no_ratio() -> None:
    assert table().text().splitlines()[0].split()[3:] == ["aim", OURS]


def test_rows_of_a_load_are_beside_each_other() -> None:
    made = table()
    made.add(OURS, [(Measure("wide", "flows", "flows/s"), 1.0), (WAIT, 12.0)])
    assert [row.measure.load for row in made.rows] == ["burst", "burst", "burst", "wide"]


def test_the_file_has_every_run(tmp_path: Path) -> None:
    table("volcano").write(tmp_path / "out.json")
    [rate, creates] = json.loads((tmp_path / "out.json").read_text())
    assert rate == {
        "load": "burst",
        "what": "flows",
        "unit": "flows/s",
        "aim": "ratio > 2.0",
        "ours": {"runs": [30, 10, 20], "median": 20},
        "peers": {"volcano": {"runs": [15, 5, 10], "median": 10, "ratio": 2}},
    }
    assert creates["peers"] == {}


def test_a_hand_over_is_measured_from_the_last_target() -> None:
    [root, left, right, join] = (f"f0-step-{number}" for number in range(4))
    events = [
        Seen(0.0, "ADDED", "a", root, ""),
        Seen(1.0, "MODIFIED", "a", root, "Running"),
        Seen(2.0, "MODIFIED", "a", root, "Completed"),
        Seen(2.5, "ADDED", "a", left, ""),
        Seen(3.0, "ADDED", "a", right, ""),
        Seen(4.0, "MODIFIED", "a", right, "Completed"),
        Seen(5.0, "MODIFIED", "a", left, "Completed"),
        Seen(6.0, "MODIFIED", "a", right, "Completed"),
        Seen(5.25, "ADDED", "a", join, ""),
    ]
    assert list(waits(events, [[], [0], [0], [1, 2]])) == [0.5, 1.0, 0.25]


def test_percentiles_are_between_the_values() -> None:
    assert percentiles([float(number) for number in range(101)]) == (50, 99)


def test_a_load_with_a_rate_lasts_some_seconds_and_others_are_scaled() -> None:
    paced = Load("steady", samples.diamond(), 60, a_second=3).scaled(0.1, 4)
    burst = Load("burst", samples.diamond(), 100).scaled(0.1, 4)
    assert (paced.flows, burst.flows, burst.hand_overs) == (12, 10, 40)
    assert burst.scaled(0.01, 4).flows == 1


def test_a_pod_of_argo_is_the_step_of_its_workflow() -> None:
    metadata = {
        "name": "f0-train-123",
        "namespace": "a",
        "resourceVersion": "7",
        "annotations": {"workflows.argoproj.io/node-name": "f0.step-3"},
    }
    pod = msgspec.convert({"metadata": metadata, "status": {"phase": "Succeeded"}}, Object)
    assert step_of_pod(pod) == ("f0-step-3", "Completed")


def test_a_vcjob_is_named_for_its_step() -> None:
    metadata = {"name": "f0-step-3", "namespace": "a", "resourceVersion": "7"}
    job = {"metadata": metadata, "status": {"state": {"phase": "Running"}}}
    assert step_of_job(msgspec.convert(job, Object)) == ("f0-step-3", "Running")
    assert step_of_job(msgspec.convert({"metadata": metadata}, Object)) == ("f0-step-3", "")


@pytest.mark.parametrize(
    ("controller", "status"),
    [(OurController, {"state": {"phase": "Running"}}), (ArgoController, {"phase": "Running"})],
)
def test_each_controller_has_its_phase(
    controller: type[OurController] | type[ArgoController], status: dict[str, object]
) -> None:
    assert phase_of({"status": status}, controller.phase) == "Running"
    assert phase_of({"status": {}}, controller.phase) == phase_of({}, controller.phase) == ""


def test_a_workflow_has_the_same_graph() -> None:
    [dag, _] = workflow(samples.diamond(), "f0")["spec"]["templates"]
    tasks = {task["name"]: task.get("dependencies", []) for task in dag["dag"]["tasks"]}
    assert tasks == {
        "step-0": [],
        "step-1": ["step-0"],
        "step-2": ["step-1"],
        "step-3": ["step-1"],
        "step-4": ["step-2", "step-3"],
    }


def test_a_folder_without_the_binary_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ARGO_ASSETS", raising=False)
    assert folder_of("ARGO_ASSETS", ARGO_BINARIES) is None
    monkeypatch.setenv("ARGO_ASSETS", str(tmp_path))
    with pytest.raises(SystemExit, match="has no workflow-controller"):
        folder_of("ARGO_ASSETS", ARGO_BINARIES)
    (tmp_path / "workflow-controller").touch()
    assert folder_of("ARGO_ASSETS", ARGO_BINARIES) == tmp_path
