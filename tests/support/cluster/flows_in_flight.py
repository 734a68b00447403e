"""The flows that are in flight during an upgrade and the rollback, and what holds in each part.

A change of behaviour adds a flow that it affects, or a stage.
"""

import json
from typing import Any

from jobflow.api import labels
from jobflow.api.volcano.command import Action
from jobflow.core.admission.applied_nulls import LAST_APPLIED
from jobflow.core.planning.observed.identity import pack_uid
from support.cluster.in_flight import Check, InFlight, Life, Stage
from support.cluster.steered_in_flight import STEERED
from support.sandbox.manifests import flow, jobflow, step, template

LEVEL = {"LEVEL": "info"}
"""The variables of each template."""


def applied(manifest: dict[str, Any], **nulls: None) -> dict[str, Any]:
    """Return the flow as `kubectl apply` stores it if `env` of each step has these nulls."""
    spec, metadata = manifest["spec"], manifest["metadata"]
    steps = [each | {"env": each["env"] | nulls} for each in spec["flows"]]
    file = json.dumps(manifest | {"spec": spec | {"flows": steps}})
    return manifest | {"metadata": metadata | {"annotations": {LAST_APPLIED: file}}}


def message_of(size: int) -> str:
    """Return a JSON object of this size."""
    empty = json.dumps({"k": ""})
    return json.dumps({"k": "x" * (size - len(empty))})


def knows_the_job(life: Life) -> bool:
    return life.condition("a").uid == pack_uid(life.job(f"{life.flow.name}-a").metadata.uid)


def knows_what_was_tolerated(life: Life) -> bool:
    return life.now.status.tolerated_in_children


def keeps_the_deadline(step: str) -> Check:
    def check(life: Life) -> bool:
        assert life.was is not None
        before = (life.was.status.conditions or {})[f"{life.flow.name}-{step}"].deadline
        return before is not None and life.condition(step).deadline == before

    return check


CHILD = {"flows": [{"name": "a"}, step("b", "a")]}
RETRIED = {"retry": {"limit": 1, "backoff": {"duration": "0s"}}}
TOLERANT: dict[str, Any] = {"continueOnFailure": True}
ERROR: dict[str, Any] = {"when": 'steps["a"].outputs.renamed == 1'} | TOLERANT
"""A step that fails by an error of the flow."""
FAILS = {"flows": [step("a"), step("b", "a", when=ERROR["when"])]}
FINISHED = {"condition": "Finished"}
LIMITED: dict[str, Any] = {"timeout": "1h"}
FULL = message_of(4096)
FAILED = {"state": {"phase": "Failed"}}
"""What Volcano's own controller writes over a status."""
EDITS = {"annotations": {labels.STEP: "zzz"}, "ownerReferences": None}
NESTED = {"flows": [{"name": "a", "flow": {"flows": [step("a", **TOLERANT)]}}]}
PASSWORD: dict[str, Any] = {"env": {"PASSWORD": "$(params.password)"}}


def job_template(name: str) -> dict[str, Any]:
    made = template(name)
    (container,) = made["spec"]["tasks"][0]["template"]["spec"]["containers"]
    container["env"] = [{"name": key, "value": value} for key, value in LEVEL.items()]
    return made


TEMPLATES = [job_template(name) for name in "abcdef"]
FLOWS = (
    InFlight(
        jobflow("chain", {"a": [], "b": ["a"], "c": ["b"], "d": ["c"]}),
        [Stage(ends={"chain-a": "Completed"}, steps={"a": "Completed", "b": "Pending"})],
        [Stage(ends={"chain-b": "Completed"}, steps={"b": "Completed", "c": "Pending"})],
        [Stage(ends={"chain-c": "Completed", "chain-d": "Completed"}, phase="Succeed")],
    ),
    InFlight(
        jobflow("new", {"a": [], "b": ["a"]}),
        [],
        [Stage(ends={"new-a": "Completed"}, steps={"a": "Completed", "b": "Pending"})],
        [Stage(ends={"new-b": "Completed"}, phase="Succeed")],
    ),
    InFlight(
        flow("parent", {"name": "a", "flow": CHILD}, step("b", "a")),
        [Stage(ends={"parent-a-a": "Completed"}, steps={"a": "Running"})],
        [Stage(ends={"parent-a-b": "Completed"}, steps={"a": "Completed", "b": "Pending"})],
        [Stage(ends={"parent-b": "Completed"}, phase="Succeed")],
    ),
    InFlight(
        flow("items", {"name": "a", "forEach": {"count": 3}} | RETRIED),
        [Stage(ends={"items-a-0": "Completed", "items-a-1": "Failed"}, steps={"a": "Running"})],
        [Stage(ends={"items-a-1-r1": "Completed"}, steps={"a": "Running"})],
        [Stage(ends={"items-a-2": "Completed"}, phase="Succeed")],
    ),
    InFlight(  # retried under the earlier version, again under this one, and the earlier one
        flow("retried", step("a"), step("b", "a", FINISHED)),
        [
            Stage(ends={"retried-a": "Failed", "retried-b": "Completed"}, phase="Failed"),
            Stage(action=Action.RESTART_JOB, steps={"a": "Pending", "b": "Completed"}),
        ],
        [
            Stage(
                ends={"retried-a-r1": "Failed"},
                steps={"a": "Failed JobFailed", "b": "Completed"},
                phase="Failed",
            ),
            Stage(action=Action.RESTART_JOB, steps={"a": "Pending", "b": "Waiting"}),
            Stage(ends={"retried-a-r2": "Failed", "retried-b-r1": "Completed"}, phase="Failed"),
        ],
        [
            Stage(action=Action.RESTART_JOB, steps={"a": "Pending", "b": "Completed"}),
            Stage(ends={"retried-a-r3": "Completed"}, steps={"b": "Completed"}, phase="Succeed"),
        ],
    ),
    InFlight(  # in the middle of a retry
        flow("total", step("a"), step("b", "a", FINISHED)),
        [Stage(ends={"total-a": "Failed", "total-b": "Completed"}, phase="Failed")],
        [
            Stage(action=Action.RESTART_JOB, steps={"a": "Pending", "b": "Waiting"}),
            Stage(ends={"total-a-r1": "Completed"}, steps={"a": "Completed", "b": "Pending"}),
        ],
        [Stage(ends={"total-b-r1": "Completed"}, phase="Succeed")],
    ),
    InFlight(  # after the rollback, a child flow that was not retried yet is made anew
        flow(
            "tolerated",
            step("a", **TOLERANT),
            step("b", flow={"flows": [step("a", **TOLERANT), step("b", "a")]}),
            parallelism=1,
        ),
        [
            Stage(
                ends={
                    "tolerated-a": "Failed",
                    "tolerated-b-a": "Failed",
                    "tolerated-b-b": "Completed",
                },
                phase="Succeed",
            )
        ],
        [
            Stage(
                action=Action.RETRY_TOLERATED,
                steps={"a": "Pending", "b": "Waiting Parallelism"},
            )
        ],
        [
            Stage(
                ends={
                    "tolerated-a-r1": "Completed",
                    "tolerated-b-r1-a": "Failed",
                    "tolerated-b-r1-b": "Completed",
                },
                phase="Succeed",
            ),
            Stage(action=Action.RETRY_TOLERATED, phase="Succeed"),
        ],
    ),
    InFlight(
        flow(
            "errors",
            step("a"),
            step("b", "a", **ERROR),
            step("c", "b"),
            step("d", "b c"),
            step("e"),
        ),
        [
            Stage(
                ends={"errors-a": "Completed"},
                steps={"b": "Failed ExpressionError", "c": "Pending", "d": "Waiting"},
            )
        ],
        [
            Stage(
                ends={"errors-c": "Completed"},
                steps={"c": "Completed", "d": "Skipped UpstreamFailed"},
            )
        ],
        [Stage(ends={"errors-e": "Completed"}, phase="Succeed")],
    ),
    InFlight(
        flow("ended", step("a"), step("b", "a", **ERROR)),
        [Stage(ends={"ended-a": "Completed"}, phase="Succeed")],
        [Stage(phase="Succeed")],
        [Stage(phase="Succeed")],
    ),
    InFlight(  # a has failed under the earlier version, b fails under this one
        flow(
            "child",
            step("a", flow=FAILS, **TOLERANT),
            step("b", flow=FAILS, **TOLERANT),
            step("c"),
            step("d", "c a"),
            step("e", "c b"),
            step("f"),
        ),
        [Stage(ends={"child-a-a": "Completed"}, steps={"a": "Failed FlowFailed"})],
        [
            Stage(
                ends={"child-b-a": "Completed", "child-c": "Completed"},
                steps={"d": "Skipped UpstreamFailed", "e": "Skipped UpstreamFailed"},
            )
        ],
        [Stage(ends={"child-f": "Completed"}, phase="Succeed")],
    ),
    InFlight(  # d needs the daemon, which c waits for
        flow(
            "daemon",
            step("a", daemon=True),
            step("b"),
            step("c", "a b", {"condition": "Completed"}),
            step("d", "a c"),
        ),
        [Stage(ends={"daemon-a": "Running"}, steps={"a": "Running", "b": "Pending"})],
        [
            Stage(ends={"daemon-b": "Completed"}, steps={"a": "Running DaemonEnded"}),
            Stage(
                ends={"daemon-a": "Aborted", "daemon-c": "Completed"},
                steps={"a": "Completed DaemonEnded", "d": "Pending"},
            ),
        ],
        [Stage(ends={"daemon-d": "Completed"}, phase="Succeed")],
    ),
    InFlight(  # c still waits for the end of the daemon at the rollback
        flow(
            "service",
            step("a", daemon=True),
            step("b"),
            step("c", "a b", {"condition": "Completed"}),
            step("d", "a", FINISHED),
            step("e"),
        ),
        [Stage(ends={"service-a": "Running"}, steps={"a": "Running", "c": "Waiting"})],
        [Stage(ends={"service-b": "Completed"}, steps={"b": "Completed", "c": "Waiting"})],
        [
            Stage(
                ends={"service-c": "Completed", "service-e": "Completed"}, steps={"d": "Waiting"}
            ),
            Stage(ends={"service-a": "Completed", "service-d": "Completed"}, phase="Succeed"),
        ],
    ),
    InFlight(
        flow("limited", step("a", **LIMITED), step("b", "a", **LIMITED)),
        [
            Stage(ends={"limited-a": "Running"}, steps={"a": "Running"}),
            Stage(ends={"limited-a": "Restarting"}, steps={"a": "Restarting"}),
        ],
        [
            Stage(
                ends={"limited-a": "Running"}, steps={"a": "Running"}, holds=keeps_the_deadline("a")
            ),
            Stage(ends={"limited-a": "Completed", "limited-b": "Running"}, steps={"b": "Running"}),
            Stage(ends={"limited-b": "Restarting"}, steps={"b": "Restarting"}),
        ],
        [
            Stage(
                ends={"limited-b": "Running"}, steps={"b": "Running"}, holds=keeps_the_deadline("b")
            ),
            Stage(ends={"limited-b": "Completed"}, phase="Succeed"),
        ],
    ),
    InFlight(
        applied(
            flow(
                "dollars",
                step("a", **PASSWORD),
                step("b", "a", **PASSWORD),
                step("c", "b", **PASSWORD),
                params=[{"name": "password", "value": "pa$$w0rd"}],
            ),
            LEVEL=None,
        ),
        [
            Stage(
                steps={"a": "Pending"},
                phase="Pending",
                variables={"dollars-a": LEVEL | {"PASSWORD": "pa$$w0rd"}},
            )
        ],
        [
            Stage(
                ends={"dollars-a": "Completed"},
                steps={"b": "Pending"},
                variables={
                    "dollars-a": LEVEL | {"PASSWORD": "pa$$w0rd"},
                    "dollars-b": LEVEL | {"PASSWORD": "pa$$$$w0rd"},
                },
            )
        ],
        [
            Stage(
                ends={"dollars-b": "Completed"},
                steps={"c": "Pending"},
                variables={"dollars-c": LEVEL | {"PASSWORD": "pa$$w0rd"}},
            ),
            Stage(ends={"dollars-c": "Completed"}, phase="Succeed"),
        ],
    ),
    InFlight(
        flow(
            "outputs",
            step("a", **TOLERANT),
            step("b", **TOLERANT),
            step("c", **TOLERANT),
            outputs={name: f'size(steps["{name}"].outputs)' for name in "abc"},
        ),
        [
            Stage(
                messages={"outputs-a": FULL},
                ends={"outputs-a": "Completed"},
                steps={"a": "Failed OutputsTooLarge"},
            )
        ],
        [
            Stage(
                messages={"outputs-b": FULL},
                ends={"outputs-b": "Completed"},
                steps={"a": "Failed OutputsTooLarge", "b": "Completed"},
            )
        ],
        [
            Stage(
                messages={"outputs-c": FULL},
                ends={"outputs-c": "Completed"},
                steps={"b": "Completed", "c": "Failed OutputsTooLarge"},
                phase="Succeed",
            )
        ],
    ),
    InFlight(  # a is edited under this version, b is too and is lost after the rollback
        flow("edited", step("a"), step("b", "a")),
        [Stage(ends={"edited-a": "Running"}, steps={"a": "Running"})],
        [
            Stage(steps={"a": "Running"}, holds=knows_the_job),
            Stage(
                edits={"edited-a": EDITS},
                ends={"edited-a": "Completed", "edited-b": "Running"},
                steps={"a": "Completed", "b": "Running"},
            ),
            Stage(edits={"edited-b": EDITS}, steps={"b": "Running"}),
        ],
        [Stage(ends={"edited-b-r1": "Completed"}, phase="Succeed")],
    ),
    InFlight(  # the failure is two levels below
        flow("nested", {"name": "a", "flow": NESTED}),
        [Stage(ends={"nested-a-a-a": "Failed"}, phase="Succeed")],
        [
            Stage(phase="Succeed", holds=knows_what_was_tolerated),
            Stage(action=Action.RETRY_TOLERATED, steps={"a": "Running"}),
            Stage(ends={"nested-a-a-a-r1": "Failed"}, phase="Succeed"),
        ],
        [Stage(phase="Succeed")],
    ),
    InFlight(
        jobflow("cycle", {"a": [], "b": ["c"], "c": ["b"]}),
        [Stage(ends={"cycle-a": "Completed"}, steps={"a": "Completed", "b": "Waiting Blocked"})],
        [Stage(steps={"b": "Skipped Blocked", "c": "Skipped Blocked"}, phase="Failed")],
        [Stage(phase="Failed")],
        taken_over={"state": {"phase": "Running"}},
    ),
    InFlight(
        flow("overwritten", step("a"), step("b", "a"), step("c", "b")),
        [Stage(ends={"overwritten-a": "Running"}, steps={"a": "Running"})],
        [
            Stage(steps={"a": "Running"}, holds=knows_the_job),
            Stage(
                overwrites=FAILED,
                ends={"overwritten-a": "Completed", "overwritten-b": "Running"},
                steps={"a": "Completed", "b": "Running"},
            ),
        ],
        [Stage(overwrites=FAILED, phase="Failed")],
    ),
    *STEERED,
)
