"""The examples whose commands run on any machine, run by `--runner process`."""

from pathlib import Path
from typing import Any

import pytest

from support.sandbox.command_line import jobflow

EXAMPLES = Path("examples").resolve()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the logs and of the files that steps share."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def run_example(name: str) -> dict[str, Any]:
    """Run the example and return the status of its flow."""
    answer = jobflow("run", "--runner", "process", "-o", "json", EXAMPLES / name)
    assert (answer.code, answer.err) == (0, ""), answer
    (flow,) = answer.json["items"]
    status: dict[str, Any] = flow["status"]
    return status


def logs(folder: Path) -> dict[str, str]:
    """Return the log of each pod by its name."""
    found = (folder / ".jobflow" / "logs").glob("*/default/*/*.log")
    return {path.parent.name: path.read_text() for path in found}


@pytest.mark.long
def test_the_success_of_workers_ends_the_parameter_servers(folder: Path) -> None:
    status = run_example("parameter-server.yaml")
    assert status["conditions"]["mnist-export"]["phase"] == "Completed"
    assert logs(folder) == {
        "mnist-train-ps-0": "serving parameters\n",
        "mnist-train-worker-0": "worker 0 trains\ndone\n",
        "mnist-train-worker-1": "worker 1 trains\ndone\n",
        "mnist-train-worker-2": "worker 2 trains\ndone\n",
        "mnist-export-main-0": "exported\n",
    }


@pytest.mark.long
def test_clients_start_when_every_pod_of_the_service_answers(folder: Path) -> None:
    status = run_example("probed-service.yaml")
    jobs = {entry["name"]: entry for entry in status["jobStatusList"]}
    ended = jobs["serving-model"]["endTimestamp"]
    assert jobs["serving-evaluate"]["startTimestamp"] < ended
    assert jobs["serving-scrape"]["startTimestamp"] < ended
    for pod in ("serving-model-web-0", "serving-model-web-1"):
        assert '"GET /readyz HTTP/1.1" 200' in logs(folder)[pod]


@pytest.mark.long
def test_jobs_use_the_service_beside_them_by_its_name(folder: Path) -> None:
    status = run_example("daemon.yaml")
    assert status["conditions"]["integration-database"]["reason"] == "DaemonEnded"
    assert logs(folder)["integration-test-main-0"] == "the database has version 2\n"


@pytest.mark.long
def test_the_pipeline_trains_and_publishes_a_model(folder: Path) -> None:
    status = run_example("training-pipeline.yaml")
    outputs = {name: each.get("outputs") for name, each in status["conditions"].items()}
    assert outputs["training-prepare"] == {"points": 300}
    assert outputs["training-evaluate"]["error"] < 0.2
    slope, offset = outputs["training-train"]["slope"], outputs["training-train"]["offset"]
    assert (round(slope), round(offset)) == (3, 2)
    assert (folder / "training" / "model.json").exists()


@pytest.mark.long
def test_the_search_retrains_until_the_result_is_good_enough(folder: Path) -> None:
    status = run_example("hyperparameter-search.yaml")
    conditions = status["conditions"]
    trials = conditions["search-search"]["runs"]
    accuracies = [trial["outputs"]["accuracy"] for trial in trials]
    assert [trial["outputs"]["rate"] for trial in trials] == [0.001, 0.003, 0.01, 0.03]
    assert accuracies[-1] == max(accuracies) < 0.95
    assert conditions["search-prepare"]["job"] == "search-prepare-r1"
    rounds = [run["outputs"]["accuracy"] for run in conditions["search-retrain"]["runs"]]
    assert len(rounds) > 1 and rounds[-1] >= 0.95 > max(rounds[:-1])
    assert conditions["search-board"]["reason"] == "DaemonEnded"
    assert conditions["search-release"]["decisions"] == {"case": 0}
    requests = logs(folder)["search-board-main-0"].splitlines()
    assert len(requests) == len(trials) + len(rounds)
    assert [path.name for path in (folder / "search").iterdir()] == ["published.json"]
