"""Flows of schedules as the cookbook writes them (docs/cookbook/schedules.md)."""

import json

import pytest

from support.sandbox.command_line import jobflow

AGE = 'printf "{\\"late\\": %d}" $(( $(date +%s) - $(date -d "$0" +%s) )) > /dev/termination-log'


@pytest.mark.parametrize(
    ("limit", "phase", "reason"), [(3600, "Completed", None), (-3600, "Skipped", "NotTaken")]
)
def test_a_step_is_skipped_in_a_flow_that_is_too_late(
    limit: int, phase: str, reason: str | None
) -> None:
    """With a limit in the future, each flow is too late. The flows have their turns."""
    image = "busybox:1.36"
    age = {"image": image, "command": ["sh", "-c", AGE, "$(flow.scheduledTime)"]}
    flows = [
        {"name": "forecast", "container": {"image": image, "command": ["sleep", "0.1"]}},
        {"name": "age", "dependsOn": {"targets": ["forecast"]}, "container": age},
        {
            "name": "transfer",
            "dependsOn": {"targets": ["age"]},
            "when": f'steps["age"].outputs.late < {limit}',
            "container": {"image": image, "command": ["echo", "transfer"]},
        },
    ]
    schedule = {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "CronJobFlow",
        "metadata": {"name": "fc"},
        "spec": {
            "schedule": "0 */6 * * *",
            "concurrencyPolicy": "Wait",
            "requirePreviousSuccess": True,
            "jobFlowTemplate": {"spec": {"flows": flows}},
        },
    }
    answer = jobflow("run", "--runner", "process", "-o", "json", "-", stdin=json.dumps(schedule))
    assert answer.code == 0, answer.err
    (flow,) = answer.json["items"]
    (transfer,) = (
        each for job, each in flow["status"]["conditions"].items() if job.endswith("-transfer")
    )
    assert (transfer["phase"], transfer.get("reason")) == (phase, reason)
