"""A training pipeline: prepare -> train (two workers) -> evaluate -> publish, or report.

python examples/python/training_pipeline.py        runs it on this machine
python examples/python/training_pipeline.py yaml   prints it as YAML

It really trains: it fits a line through noisy points, in a few seconds, with only Python 3. Its
steps pass files on in a volume, and small results as outputs.
"""

import sys

from jobflow.authoring import Flow, JobSpec, LifecyclePolicy, Retry, Task

IMAGE = "python:3.12-alpine"
MOUNTS = [{"name": "data", "mountPath": "/training"}]
WORKER = """\
import json, os

worker = os.environ["VC_TASK_INDEX"]  # of Volcano's plugin env
with open(f"/training/shard-{worker}.json") as file:
    points = json.load(file)
slope = offset = 0.0
for _ in range(int(os.environ["EPOCHS"])):
    errors = [(slope * x + offset - y, x) for x, y in points]
    slope -= 0.5 * sum(error * x for error, x in errors) / len(points)
    offset -= 0.5 * sum(error for error, _ in errors) / len(points)
with open(f"/training/line-{worker}.json", "w") as file:
    json.dump([slope, offset], file)
"""

flow = Flow(
    "line-training",
    params={"points": 300, "epochs": 100, "max_error": 0.2},
    volume_claims={
        "data": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    },
    failure_policy="Continue",
    timeout="2h",
)


# A function is a step: it runs in a container, and what it returns becomes the outputs.
@flow.task(image=IMAGE, container={"volumeMounts": MOUNTS}, retry=2)
def prepare(points: int) -> dict[str, int]:
    import json
    import random

    xs = [random.uniform(-1, 1) for _ in range(points)]
    pairs = [(x, 3 * x + 2 + random.gauss(0, 0.1)) for x in xs]
    for i, name in enumerate(["shard-0", "shard-1", "held-back"]):
        with open(f"/training/{name}.json", "w") as file:
            json.dump(pairs[i::3], file)
    return {"points": len(pairs)}


@flow.task(image=IMAGE, container={"volumeMounts": MOUNTS})
def evaluate() -> dict[str, float]:
    import json

    lines = []
    for worker in (0, 1):
        with open(f"/training/line-{worker}.json") as file:
            lines.append(json.load(file))
    slope, offset = (sum(each) / 2 for each in zip(*lines, strict=True))
    with open("/training/held-back.json") as file:
        points = json.load(file)
    error = sum(abs(slope * x + offset - y) for x, y in points) / len(points)
    return {"error": round(error, 3), "slope": slope, "offset": offset}


@flow.task(image=IMAGE)
def publish(slope: float, offset: float) -> str:
    return f"y = {slope:.2f} x + {offset:.2f}"


prepared = prepare(flow.params.points)

# A step can also be any Volcano job: here, two workers that start together.
train = flow.step(
    "train",
    job_spec=JobSpec(
        min_available=2,
        plugins={"env": []},
        tasks=[
            Task(
                name="worker",
                replicas=2,
                policies=[LifecyclePolicy(event="TaskCompleted", action="CompleteJob")],
                template={
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [
                            {
                                "name": "worker",
                                "image": IMAGE,
                                "command": ["python3", "-c", WORKER],
                                "volumeMounts": MOUNTS,
                            },
                        ],
                    },
                },
            ),
        ],
    ),
    env={"EPOCHS": flow.params.epochs},
    retry=Retry(limit=1, avoid_nodes=True),
    timeout="30m",
)

evaluated = evaluate()
good = evaluated.outputs.error <= flow.params.max_error
published = publish.options(when=good)(evaluated.outputs.slope, evaluated.outputs.offset)
rejected = flow.step(
    "reject",
    image="busybox:1.36",
    command=["sh", "-c", 'echo "off by $ERROR"'],
    env={"ERROR": evaluated.outputs.error},
    when=~good,
)
prepared >> train >> evaluated >> [published, rejected]

flow.finally_(
    "report-failure",
    image="busybox:1.36",
    command=["sh", "-c", 'echo "failed: $STEPS"'],
    env={"STEPS": flow.failures.map(lambda each: each.step).join(", ")},
    when=flow.phase == "Failed",
)

if __name__ == "__main__":
    if "yaml" in sys.argv:
        print(flow.yaml())
    else:
        result = flow.run(runner="process")
        print(result["publish"].result)
        result.check()
