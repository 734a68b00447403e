"""Problems of users, solved in Python."""

from itertools import pairwise
from pathlib import Path

import pytest

from jobflow.authoring import Flow, Retry, Step, item, reason

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the current folder, in which logs are written."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.long
def test_forecasts_run_one_after_the_other_beside_the_products_of_earlier_ones(
    folder: Path,
) -> None:
    """cylc/cylc-flow#2452: a forecast needs the observations of its cycle and the forecast before.
    The products wait here for the next forecast, and would never end without it."""
    flow = Flow("cycles", failure_policy="Continue", parallelism=3)

    def shell(name: str, script: str) -> Step:
        return flow.step(name, image="busybox", command=["sh", "-c", f"cd {folder}; {script}"])

    previous: Step | None = None
    for cycle, following in pairwise(["t00", "t06", "t12", "end"]):
        obs = shell(f"obs-{cycle}", f"touch obs-{cycle}")
        before = obs if previous is None else previous
        ready = f"test -e obs-{cycle} && test -e {before.name}"
        fc = shell(f"fc-{cycle}", f"{ready} && touch fc-{cycle}")
        post = shell(f"post-{cycle}", f"until test -e fc-{following}; do sleep 0.05; done")
        obs >> fc >> post
        if previous is not None:
            previous >> fc
        previous = fc
    (folder / "fc-end").touch()
    result = flow.run(runner="process", show=False)
    assert result.phase == "Succeed", result


def sweep() -> Flow:
    """Return a sweep of five trials. It goes on with the best two of those that completed, if these
    are at least half."""
    flow = Flow("sweep", params={"rates": [0.0, 0.1, 0.2, 9.0, 0.4]})
    retry = Retry(limit=1, when=reason != "Timeout")

    @flow.task(for_each=flow.params.rates, continue_on_failure=True, timeout="5s", retry=retry)
    def trial(rate: float) -> dict[str, float]:
        import time

        if rate == 0.0:
            raise ValueError("rate must not be 0")
        if rate > 1:
            time.sleep(60)
        return {"rate": rate, "score": 1 - abs(rate - 0.3)}

    @flow.task()
    def pick(done: list[dict[str, float]], total: int) -> dict[str, object]:
        if len(done) * 2 < total:
            raise SystemExit(f"only {len(done)} of {total} trials completed")
        return {"best": sorted(done, key=lambda each: -each["score"])[:2]}

    @flow.task()
    def refine(rate: float) -> dict[str, float]:
        return {"rate": rate, "score": 1 - abs(rate - 0.3) / 2}

    @flow.task(is_finally=True)
    def clean(failures: list[dict[str, object]]) -> list[object]:
        return [[each["step"], each["index"], each["reason"]] for each in failures]

    trials = trial(item)
    completed = trials.items.filter(lambda each: each.phase == "Completed")
    picked = pick(completed.map(lambda each: each.outputs), 5)
    refined = refine.options(for_each=picked.outputs.best)(item.rate)
    winner = refined.items.maxBy("outputs.score").outputs
    flow.step("announce", image="busybox", command=["echo", winner.rate], depends_on=[refined])
    clean(flow.failures)
    return flow


@pytest.mark.long
def test_a_sweep_goes_on_with_the_best_of_the_trials_that_completed() -> None:
    """kubeflow/katib#2061: some trials fail, and some take too long."""
    result = sweep().run(show=False)
    assert result.phase == "Succeed", result
    assert [each.reason for each in result["trial"].items] == ["JobFailed", "", "", "Timeout", ""]
    assert [each.outputs["rate"] for each in result["refine"].items] == [0.2, 0.4]
    assert result["announce"].phase == "Completed"
    assert result["clean"].result == [["trial", 0, "JobFailed"]]
