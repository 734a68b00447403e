"""A hyper-parameter search with functions: try all combinations, retrain the best, compare.

python examples/python/hyperparameter_search.py

`cel.product` makes the combinations when the flow runs, so that params can change them:
flow.run(params={"rates": [0.1]}).
"""

from jobflow.authoring import (
    Backoff,
    Flow,
    ForEach,
    Repeat,
    Retry,
    attempt,
    cel,
    failure,
    index,
    item,
    outputs,
)

flow = Flow(
    "tune",
    params={"rates": [0.003, 0.03, 0.3], "epochs": [5, 50], "goal": 0.001},
    parallelism=4,
    failure_policy="Continue",
)


@flow.task(
    for_each=ForEach(from_=cel.product(flow.params.rates, flow.params.epochs), parallelism=3),
    timeout="5m",
    retry=Retry(
        limit=3,
        when=(failure.reason == "OOMKilled") | (attempt == 1),
        backoff=Backoff(duration="200ms"),
    ),
)
def trial(rate: float, epochs: int, number: int) -> dict[str, float]:
    """Fit y = 3 x, and return how far off the slope is."""
    slope, points = 0.0, [each / 10 for each in range(-10, 11)]
    for _ in range(epochs):
        slope -= rate * sum((slope - 3) * x * x for x in points) / len(points)
    return {"rate": rate, "epochs": epochs, "error": abs(slope - 3), "trial": number}


@flow.task(repeat=Repeat(until=outputs.error <= flow.params.goal, max=10))
def refine(best: dict[str, float], run: int) -> dict[str, float]:
    """Train longer in each run, until the goal is reached."""
    slope, points = 0.0, [each / 10 for each in range(-10, 11)]
    for _ in range(int(best["epochs"]) * (run + 1)):
        slope -= best["rate"] * sum((slope - 3) * x * x for x in points) / len(points)
    return {"error": abs(slope - 3), "slope": slope}


@flow.task(name="summary")
def summarize(errors: list[float], before: float, after: float) -> str:
    tried = ", ".join(f"{error:.3f}" for error in sorted(errors))
    return f"{before:.3f} -> {after:.3f} (tried {tried})"


trials = trial(item[0], item[1], number=index)
best = trials.items.minBy("outputs.error").outputs
refined = refine(best, run=index)
summary = summarize(
    errors=trials.items.map(lambda each: each.outputs.error),
    before=best.error,
    after=refined.outputs.error,
)
trials >> refined >> summary

if __name__ == "__main__":
    result = flow.run(runner="process")
    print(result.check()["summary"].result)
