"""Plans of whole flows: which steps start, wait or are skipped, and the end of the flow."""

from datetime import timedelta

import pytest

from jobflow.api.flow.control import Patch
from jobflow.api.flow.step import DependsOn, Step
from jobflow.core.planning.actions import CreateJob
from support.plan.plan_world import World, after, flow, world_of
from support.plan.world_state import NOW


def diamond() -> World:
    return flow("a", b="a", c="b", d="b", e="c d", name="test")


def test_a_diamond_runs_step_by_step() -> None:
    world = diamond()
    planned = world.plan()
    assert planned.creates == ["test-a"]
    assert (planned.phase, planned.status.progress, planned.plan.urgent) == ("Pending", "0/5", True)

    world = world.apply(planned)
    planned = world.plan()
    assert (planned.creates, planned.phases["a"], planned.phase) == ([], "Pending", "Pending")
    assert (planned.events, planned.plan.urgent) == (["JobCreated"], False)

    world = world.apply(planned).later(1).with_jobs(a="Running")
    planned = world.plan()
    assert (planned.phase, planned.plan.urgent, planned.creates) == ("Running", True, [])

    world = world.apply(planned).later(1).with_jobs(a="Completed")
    planned = world.plan()
    assert (planned.creates, planned.status.progress) == (["test-b"], "1/5")
    assert (planned.phase, planned.events) == ("Running", ["StepCompleted"])

    world = world.settled().later(1).with_jobs(b="Completed").apply()
    assert sorted(world.jobs) == ["test-a", "test-b", "test-c", "test-d"]

    world = world.settled().later(1).with_jobs(c="Completed", d="Pending")
    assert world.plan().waiting == {"e": "waits for d (Pending)"}
    assert world.plan().creates == []

    world = world.settled().later(1).with_jobs(d="Completed")
    assert world.plan().creates == ["test-e"]

    world = world.settled().later(1).with_jobs(e="Completed")
    planned = world.plan()
    assert (planned.phase, planned.status.progress, planned.plan.urgent) == ("Succeed", "5/5", True)
    assert planned.events == ["StepCompleted", "FlowSucceeded"]
    assert planned.status.completion_time == NOW + timedelta(seconds=6)
    assert world.settled().plan().nothing


def test_a_vcjob_has_the_metadata_of_its_step_and_flow() -> None:
    action = diamond().plan().plan.actions[0]
    assert isinstance(action, CreateJob)
    metadata = action.manifest["metadata"]
    assert (action.step, metadata["name"], metadata["namespace"]) == ("a", "test-a", "ns")
    assert metadata["labels"]["flow.volcano.sh/attempt"] == "1"
    assert metadata["ownerReferences"][0]["uid"] == "uid-f"


def test_several_steps_can_use_one_template() -> None:
    steps = [
        Step(name="one", template="t"),
        Step(name="two", template="t", patch=Patch(spec={"minAvailable": 0})),
    ]
    actions = world_of(steps).plan().plan.actions
    assert [a.name for a in actions] == ["f-one", "f-two"]
    specs = [action.manifest["spec"] for action in actions if isinstance(action, CreateJob)]
    assert [spec["minAvailable"] for spec in specs] == [1, 0]


def test_a_late_template_starts_the_step_that_waits_for_it() -> None:
    world = diamond().without_template("a").settled()
    planned = world.plan()
    assert planned.held_up == {"a": "WaitingForTemplate"}
    assert (planned.phase, planned.reason) == ("Pending", "WaitingForTemplate")
    assert planned.message == "waits for the JobTemplate a"
    assert world.with_template("a").plan().creates == ["test-a"]


def test_missing_templates_are_named_once() -> None:
    steps = [Step(name=f"s{n}", template=f"t{n // 2}") for n in range(4)]
    world = world_of(steps).without_template("t0").without_template("t1")
    assert world.plan().message == "waits for the JobTemplates t0 and t1"


def test_a_step_waits_for_its_template_only_when_it_could_start() -> None:
    planned = diamond().without_template("e").plan()
    assert (planned.held_up, planned.reason) == ({"a": "Starting"}, "")


@pytest.mark.parametrize(
    ("condition", "phase", "starts"),
    [
        ("Completed", "Running", False),
        ("Completed", "Completing", False),
        ("Completed", "Completed", True),
        ("Running", "Pending", False),
        ("Running", "Running", True),
        ("Running", "Restarting", True),  # it has been Running
        ("Running", "Completing", True),
        ("Running", "Completed", True),
        ("Finished", "Running", False),
        ("Finished", "Completed", True),
        ("Finished", "Failed", True),
        ("Finished", "Aborted", True),
        ("Failed", "Running", False),
        ("Failed", "Terminated", True),
        ("Failed", "Aborting", False),
    ],
)
def test_a_step_starts_when_its_target_meets_the_condition(
    condition: str, phase: str, starts: bool
) -> None:
    world = flow("a", b=after("a", condition=condition)).with_jobs(a=phase)
    assert world.plan().creates == (["f-b"] if starts else [])


@pytest.mark.parametrize(
    ("depends_on", "targets"),
    [
        (after("s0"), "s0 (Running)"),
        (after("s0", condition="Failed"), "s0 (Running) to fail"),
        (after("s0", condition="Finished"), "s0 (Running) to finish"),
        (after("s0 s1", strategy="any"), "s0 (Running) or s1 (Running)"),
        (
            after(" ".join(f"s{n}" for n in range(900))),
            "s0 (Running), s1 (Running), s2 (Running) and 897 more",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_message_names_the_targets(depends_on: DependsOn, targets: str) -> None:
    names = depends_on.targets or []
    world = flow(*names, join=depends_on).with_jobs(**dict.fromkeys(names, "Running"))
    assert world.plan().waiting == {"join": f"waits for {targets}"}


def test_a_flow_that_is_being_deleted_starts_nothing() -> None:
    world = diamond().with_jobs(a="Completed").being_deleted()
    planned = world.plan()
    assert (planned.phase, planned.creates) == ("Terminating", [])
    assert planned.held_up == {"b": "Terminating"}
    assert world.settled().plan().nothing


def test_a_flow_that_is_being_deleted_stays_terminating_when_its_jobs_end() -> None:
    world = flow("a").with_jobs(a="Running").settled().being_deleted()
    assert world.with_jobs(a="Completed").plan().phase == "Terminating"


@pytest.mark.parametrize("end", ["Completed", "Failed"])
def test_a_finished_flow_does_not_change(end: str) -> None:
    world = flow("a", b="a").run(lambda step: end)
    assert world.flow.final
    for late in (world.with_jobs(a="Running"), world.being_deleted(), world.without_jobs("a", "b")):
        assert late.plan().nothing
        assert late.plan().status is late.flow.status


def test_an_invalid_flow_fails_with_the_messages_of_admission() -> None:
    planned = flow("a", b="x", c="c").plan()
    assert (planned.phase, planned.reason, planned.creates) == ("Failed", "Invalid", [])
    assert "spec.flows[1].dependsOn.targets[0]" in planned.message
    assert "spec.flows[2].dependsOn.targets[0]" in planned.message
    assert (planned.events, planned.plan.urgent) == (["FlowFailed"], True)
    assert diamond().with_status(planned.status).plan().nothing


def test_a_message_names_at_most_three_faults() -> None:
    world = flow(**{f"s{n}": f"x{n}" for n in range(5)})
    message = world.plan().message
    assert len(message) <= 256
    assert 0 < message.count("spec.flows[") <= 3


def test_an_invalid_flow_that_has_jobs_runs_its_valid_steps() -> None:
    world = flow("a", ok="a", b="x", loop1="loop2", loop2="loop1").with_jobs(a="Completed")
    planned = world.plan()
    assert planned.creates == ["f-ok"]
    assert planned.held_up == {
        "ok": "Starting",
        "b": "Blocked",
        "loop1": "Blocked",
        "loop2": "Blocked",
    }
    assert planned.conditions["b"].message == "waits for x, which this flow does not have"
    assert planned.conditions["loop1"].message == "waits for a step that waits for itself"
    assert world.with_jobs(loop2="Completed").plan().creates == ["f-ok"]


def test_an_invalid_flow_that_was_valid_keeps_running() -> None:
    valid = flow("a", b="a").stored()
    world = flow("a", b="x").with_status(valid.flow.status)
    assert (world.plan().creates, world.plan().held_up["b"]) == (["f-a"], "Blocked")


def test_an_invalid_flow_that_is_being_deleted_does_not_fail() -> None:
    assert flow("a", b="x").being_deleted().plan().phase == "Terminating"


def test_a_duplicate_name_means_the_first_step() -> None:
    world = world_of([Step(name="a"), Step(name="a", depends_on=after("b")), Step(name="b")])
    world = world.with_jobs(a="Completed")
    planned = world.plan()
    assert (planned.creates, planned.status.progress) == (["f-b"], "1/2")
