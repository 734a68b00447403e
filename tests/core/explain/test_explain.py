"""The sentences of `jobflow why` for statuses that a plan has written."""

import msgspec
import pytest

from jobflow.api.flow.status import StepCondition, StepFailure
from jobflow.api.flow.step import DependsOn, Probe, Step, TaskStatusProbe
from jobflow.api.volcano.job import JobOutline, TaskOutline, TaskState
from jobflow.core.explain.explain import explain_step
from jobflow.core.explain.remedies import REMEDIES
from jobflow.core.reasons import StepReason
from support.plan.plan_world import World, after, flow
from support.plan.sentences import why

DIAMOND = {"b": "a", "c": "b", "d": "b", "e": "c d"}


def with_condition(world: World, step: str, condition: StepCondition) -> World:
    """Replace a condition in the status."""
    conditions = {**(world.flow.status.conditions or {}), world.name_of(step): condition}
    return world.with_status(msgspec.structs.replace(world.flow.status, conditions=conditions))


@pytest.fixture
def missing_template() -> World:
    return flow("a", **DIAMOND).without_template("a").settled().later(75)


@pytest.fixture
def running() -> World:
    world = flow("a", **DIAMOND).settled().with_jobs(a="Completed").settled()
    return world.later(5).with_jobs(b="Running").settled().later(100)


def test_a_new_flow_is_not_processed_yet() -> None:
    assert why(flow("a").later(5)) == [
        "JobFlow f was created 5s ago (at 12:00:00 UTC) and has not been processed yet; if this "
        "lasts, check that `jobflow serve` runs."
    ]
    assert why(flow("a").later(5), "a") == why(flow("a").later(5))


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (
            "waits until it is known how a ended",
            "Step b has been Waiting for 0s (since 12:00:00 UTC): it waits until it is known how a "
            "ended.",
        ),
        (
            "runs again because the flow was retried",
            "Step b has been Waiting for 0s (since 12:00:00 UTC): it runs again because the flow "
            "was retried.",
        ),
        ("", "Step b has been waiting for 0s (since 12:00:00 UTC) and starts now."),
    ],
)
def test_a_ready_step_waits_for_the_reason_in_its_message(message: str, sentence: str) -> None:
    world = flow("a", b="a").with_jobs(a="Completed").settled()
    waiting = StepCondition(phase="Waiting", message=message, last_transition_time=world.now)
    assert why(with_condition(world, "b", waiting), "b")[0] == sentence


def test_a_flow_names_its_missing_template(missing_template: World) -> None:
    assert why(missing_template) == [
        "JobFlow f is Pending, started 1m15s ago (at 12:00:00 UTC); 0/5 steps have finished.",
        "Step a has been Waiting for 1m15s (since 12:00:00 UTC, WaitingForTemplate): it waits for "
        "the JobTemplate a.",
        "Apply the JobTemplate a; the step then starts by itself.",
        "Steps b, c, d and 1 more wait for other steps.",
    ]


def without_pods(world: World, *steps: str) -> World:
    """Remove all replicas from the jobs of these steps."""
    tasks = JobOutline(tasks=[TaskOutline(name="main"), TaskOutline(name="ps", replicas=0)])
    for step in steps:
        job = world.jobs[world.name_of(step)]
        world = world.with_job(msgspec.structs.replace(job, spec=tasks))
    return world.settled()


def test_a_flow_lists_its_running_jobs_without_pods() -> None:
    world = flow(*"abcdef").settled().with_jobs(**dict.fromkeys("abcdef", "Running"))
    world = without_pods(world, *"bcde").later(60)
    assert why(world) == [
        "JobFlow f is Running, started 1m ago (at 12:00:00 UTC); 0/6 steps have finished.",
        "Steps a (for 1m) and f (for 1m) are Running.",
        "Steps b (for 1m), c (for 1m), d (for 1m) and 1 more are Running; each has no pod and "
        "never ends, because no task of the job has replicas.",
    ]


def test_a_job_without_pods_is_explained() -> None:
    world = without_pods(flow("a").settled().with_jobs(a="Pending"), "a").later(60)
    assert why(world)[1] == (
        "Step a (for 1m) is Pending; it has no pod and never ends, because no task of the job has "
        "replicas."
    )
    assert why(world, "a")[0] == (
        "Step a has been Pending for 1m (since 12:00:00 UTC) as the job f-a; it has no pod and "
        "never ends, because no task of the job has replicas."
    )


def test_the_root_cause_of_a_waiting_step_is_named(missing_template: World) -> None:
    assert why(missing_template, "e") == [
        "Step e has been waiting for 1m15s (since 12:00:00 UTC) for c (Waiting) and d (Waiting) to "
        "complete.",
        "c waits for b, which waits for a.",
        "Step a has been Waiting for 1m15s (since 12:00:00 UTC, WaitingForTemplate): it waits for "
        "the JobTemplate a.",
        "Apply the JobTemplate a; the step then starts by itself.",
    ]
    assert explain_step(missing_template.flow, "e", now=missing_template.now).causes == ("a",)


def test_a_running_flow_lists_its_current_and_next_jobs(running: World) -> None:
    assert why(running) == [
        "JobFlow f is Running, started 1m45s ago (at 12:00:00 UTC); 1/5 steps have finished.",
        "Step b (for 1m40s) is Running.",
        "Steps c, d and e wait for other steps.",
        "When the current jobs complete, the next jobs are f-c and f-d.",
    ]


def test_a_running_and_a_completed_step_have_one_sentence_each(running: World) -> None:
    assert why(running, "b") == [
        "Step b has been Running for 1m40s (since 12:00:05 UTC) as the job f-b."
    ]
    assert why(running, "a") == ["Step a completed 1m45s ago (12:00:00 UTC) after 0s."]


def test_a_running_step_shows_the_progress_of_its_tasks(running: World) -> None:
    counts = {
        "ps": TaskState(phase={"Running": 2}),
        "worker": TaskState(phase={"Succeeded": 3, "Running": 1}),
    }
    world = with_condition(
        running, "b", StepCondition(phase="Running", job="f-b", task_status_count=counts)
    )
    assert why(world, "b")[0].endswith("as the job f-b: worker 3/4 done and ps 2/2 running.")
    assert why(world)[1] == ("Step b (for 1m40s, worker 3/4 done and ps 2/2 running) is Running.")


def test_a_pending_step_refers_to_volcano() -> None:
    world = flow("a").settled().with_jobs(a="Pending").settled().later(3)
    assert why(world, "a") == [
        "Step a has been Pending for 3s (since 12:00:00 UTC) as the job f-a: Volcano has not "
        "started it yet; see `kubectl describe vcjob -n ns f-a`."
    ]


@pytest.mark.parametrize(
    ("depends_on", "targets"),
    [
        (after("a b"), "for a (Pending) and b (Pending) to complete"),
        (after("a b", strategy="any"), "for a (Pending) or b (Pending) to complete"),
        (after("a", condition="Failed"), "for a (Pending) to fail"),
        (after("a b", condition="Finished"), "for a (Pending) and b (Pending) to finish"),
        (after("a", condition="Running"), "for a (Pending) to run"),
    ],
)
def test_a_waiting_step_names_targets_and_condition(depends_on: object, targets: str) -> None:
    world = flow("a", "b", c=depends_on).settled().with_jobs(a="Pending", b="Pending").settled()
    assert why(world, "c")[0] == f"Step c has been waiting for 0s (since 12:00:00 UTC) {targets}."


def test_a_target_that_has_run_is_not_listed() -> None:
    world = flow("a", "b", c=after("a b", condition="Running")).settled()
    world = world.with_jobs(a="Running", b="Pending").settled()
    assert "for b (Pending) to run." in why(world, "c")[0]


# ------------------------------------------------------------------------------- failures


def test_a_target_that_runs_again_is_not_listed() -> None:
    world = flow("a", "b", c=after("a b", condition="Running")).settled()
    world = world.with_jobs(a="Running", b="Pending").settled()
    world = world.without_jobs("a").with_missing("f-a").settled()
    assert world.plan().held_up["a"] == "JobLost"
    assert why(world, "c")[0].endswith(" for b (Pending) to run.")
    assert why(world, "c")[1].startswith("Step b has been Pending")
    forgotten = with_condition(world, "c", StepCondition(phase="Waiting"))
    assert why(forgotten, "c")[0].endswith(" for b (Pending) to run.")


@pytest.fixture
def failed(running: World) -> World:
    return running.with_jobs(b="Failed").settled().later(60)


def test_a_failed_flow_names_the_failure_and_the_remedy(failed: World) -> None:
    [summary, failure, *details] = why(failed)
    assert summary == (
        "JobFlow f is Failed, finished 1m ago (at 12:01:45 UTC) after 1m45s; of 5 steps, 1 is "
        "Completed, 1 is Failed and 3 are Skipped."
    )
    assert failure.startswith("Step b failed 1m ago (12:01:45 UTC, JobFailed): the job f-b ended")
    assert details[1:] == [
        "Steps c, d and e were skipped (UpstreamFailed) because a dependency did not complete.",
        "`jobflow retry f -n ns` runs the failed steps and all that depends on them again, "
        "with the current templates.",
        "`jobflow resubmit f -n ns` runs all steps again, in a new flow; with a corrected file, "
        "`jobflow submit FILE --reuse f -n ns` runs only what has changed.",
    ]


def test_a_skipped_step_names_the_failure_that_caused_it(failed: World) -> None:
    sentences = why(failed, "e")
    assert sentences[0].endswith("UpstreamFailed): c and d did not complete.")
    assert sentences[1] == "c was skipped because of b."
    assert sentences[2].startswith("Step b failed 1m ago")


FAILURE = StepFailure(task="worker", pod="f-b-worker-1", container="c", exit_code=3, reason="Error")


def test_a_failure_without_a_message_names_pod_and_exit_code(
    failed: World,
) -> None:
    condition = StepCondition(phase="Failed", reason="JobFailed", job="f-b", failure=FAILURE)
    assert why(with_condition(failed, "b", condition), "b") == [
        "Step b failed 1m ago (12:01:45 UTC, JobFailed): pod f-b-worker-1 (task worker): exit code "
        "3 (Error).",
        "See its log: `jobflow logs f b -n ns`.",
    ]


def test_a_container_that_never_started_has_no_log(failed: World) -> None:
    failure = StepFailure(pod="f-b-t-0", container="c", reason="ImagePullBackOff")
    condition = StepCondition(phase="Failed", reason="JobFailed", job="f-b", failure=failure)
    assert why(with_condition(failed, "b", condition), "b") == [
        "Step b failed 1m ago (12:01:45 UTC, JobFailed): pod f-b-t-0: ImagePullBackOff.",
        "See `kubectl describe pod -n ns f-b-t-0`.",
    ]


def test_a_failure_without_a_known_pod_names_log_and_job(failed: World) -> None:
    condition = StepCondition(phase="Failed", reason="JobFailed", job="f-b")
    assert why(with_condition(failed, "b", condition), "b")[-1] == (
        "See its log, `jobflow logs f b -n ns`, or its job, `kubectl describe vcjob -n ns f-b`."
    )


def test_at_most_three_failures_are_listed() -> None:
    names = "abcde"
    world = flow(*names).settled().with_jobs(**dict.fromkeys(names, "Failed")).settled()
    failures = [sentence for sentence in why(world)[1:-2] if " failed" in sentence]
    assert [sentence[:14] for sentence in failures[:3]] == [f"Step {n} failed "[:14] for n in "abc"]
    assert failures[3:] == ["2 more steps failed."]


def test_a_failure_is_reported_before_running_steps() -> None:
    world = flow("a", "b", c="a").settled().with_jobs(a="Failed", b="Running").settled().later(9)
    sentences = why(world)
    assert sentences[1].startswith("A step has failed, so no step starts except those that")
    assert sentences[2].startswith("Step a failed 9s ago")
    assert "Step b (for 9s) is Running." in sentences


def test_a_stopped_step_names_the_failure() -> None:
    world = flow("a", "b", c="b").settled().with_jobs(a="Failed", b="Running").settled().later(9)
    sentences = why(world, "c")
    assert sentences[0].endswith("Stopped): it will not start, because a has failed.")
    assert sentences[1].startswith("Step a failed 9s ago")


def test_a_branch_that_was_not_taken_is_explained() -> None:
    world = flow("a", alarm=after("a", condition="Failed"), z="alarm")
    world = world.settled().with_jobs(a="Completed").settled().later(9)
    assert why(world, "z") == [
        "Step z was skipped 9s ago (12:00:00 UTC, NotTaken): no target was taken.",
        "Step alarm was skipped 9s ago (12:00:00 UTC, NotTaken): a did not fail.",
        "It runs only after a failure of a (Completed).",
        "Steps that depend on it ignore it.",
    ]
    assert why(world)[0].startswith("JobFlow f is Succeed, finished 9s ago")
    assert why(world)[1:] == [
        "Steps alarm and z were skipped (NotTaken) because the branch was not taken."
    ]


def test_a_flow_that_ran_nothing_names_the_conditions_that_would_have() -> None:
    advice = (
        "To run a step behind skipped ones, set its dependsOn.condition to NotFailed, or to Always "
        "to run it also after a failure."
    )
    world = flow(a=Step(when="false"), b="a").settled().settled()
    assert why(world)[1:] == [
        "Steps a and b were skipped (NotTaken) because the branch was not taken.",
        advice,
    ]
    assert advice in why(world, "b")
    alone = flow(a=Step(when="false")).settled().settled()
    assert advice not in (*why(alone), *why(alone, "a"))


def test_a_cancelled_flow_waits_for_its_jobs(running: World) -> None:
    world = running.cancelled().later(4)
    assert why(world)[1] == ("The flow was cancelled; it will be Failed once all jobs have ended.")
    assert why(world, "b") == [
        "Step b has been Running for 4s (since 12:01:45 UTC) as the job f-b; it is being aborted: "
        "the flow was cancelled."
    ]


def test_a_finished_flow_reports_its_cancellation(running: World) -> None:
    world = running.cancelled().ended("f-b", "Aborted").settled()
    assert why(world)[1] == "The flow was cancelled."


def test_a_recreated_job_is_shown_with_its_attempt() -> None:
    world = flow("a").with_jobs(a="Running").settled().without_jobs("a").with_missing("f-a")
    world = world.settled().later(1).settled()
    assert why(world, "a")[0].startswith(
        "Step a has been Pending for 0s (since 12:00:01 UTC) as the job f-a-r1 (attempt 2)"
    )


def test_only_short_outputs_are_shown(running: World) -> None:
    def output_sentences(**outputs: object) -> list[str]:
        condition = StepCondition(phase="Completed", job="f-a", attempts=1, outputs=outputs)
        return why(with_condition(running, "a", condition), "a")[1:]

    assert output_sentences(acc=0.9) == ['Its outputs: {"acc":0.9}.']
    assert output_sentences(notes="x" * 200) == []
    assert output_sentences() == []


def test_a_flow_being_deleted_starts_no_steps(running: World) -> None:
    world = running.being_deleted().settled()
    assert "It is being deleted, and no more steps start." in why(world)


def test_an_invalid_flow_is_explained() -> None:
    world = flow("a", b="x").settled()
    assert why(world)[1].startswith("It was stored without validation and is invalid: spec.")
    assert why(world, "b")[0].startswith("The flow is invalid: spec.flows[1]")


# ------------------------------------------------------------------------------- reasons


def test_remedies_are_of_reasons() -> None:
    assert set(REMEDIES) < set(StepReason)


def test_an_unknown_reason_has_no_remedy(running: World) -> None:
    condition = StepCondition(phase="Waiting", reason="Moonphase", message="waits for the moon")
    assert why(with_condition(running, "c", condition), "c") == [
        "Step c has been Waiting (Moonphase): it waits for the moon."
    ]


def test_a_refused_create_shows_the_time_of_the_next_attempt() -> None:
    world = flow("a").with_refusal("a", 403, "quota exceeded", retry_in=250).settled().later(10)
    assert why(world, "a") == [
        "Step a has been Waiting for 10s (since 12:00:00 UTC, CreateRefused): quota exceeded.",
        "Remove the cause, such as an exhausted quota.",
        "JobFlow tries again by itself in 4m.",
    ]


def test_steps_with_refused_creates_are_reported_together() -> None:
    world = flow(*"abcde").with_held("f-a", retry_in=50).settled().later(10)
    assert why(world)[1:] == [
        "Steps a, b, c and 2 more are Waiting (CreateRefused): exceeded quota; the flow's jobs are "
        "tried in turn.",
        "Remove the cause, such as an exhausted quota.",
        "JobFlow tries again by itself in 40s.",
    ]


PROBE = Probe(task_status_list=[TaskStatusProbe(task_name="t", phase="Succeeded")])


def test_a_probe_shows_its_last_result() -> None:
    world = flow("a", b=DependsOn(targets=["a"], probe=PROBE))
    world = world.settled().with_jobs(a="Running").with_pods("a", t="Running").settled().later(7)
    assert why(world, "b") == [
        "Step b has been waiting for 7s (since 12:00:00 UTC) for its probe to pass on a (Running).",
        "Last result: 0 of 1 pod of task t Succeeded.",
        "Step a has been Running for 7s (since 12:00:00 UTC) as the job f-a.",
    ]
    assert "Step b has been waiting for 7s" in " ".join(why(world))


def test_a_probe_names_the_targets_that_block_it() -> None:
    world = flow("a", "c", "d", b=DependsOn(targets=["a", "c", "d"], probe=PROBE)).settled()
    world = world.with_jobs(a="Running", c="Running", d="Completed").with_pods("d", t="Succeeded")
    world = world.with_pods("a", t="Running").settled()
    assert why(world, "b")[:2] == [
        "Step b has been waiting for 0s (since 12:00:00 UTC) for its probe to pass on a (Running) "
        "and c (Running).",
        "Last result: a (0 of 1 pod of task t Succeeded) and c (0 of 1 pod of task t Succeeded).",
    ]


def test_a_probe_that_cannot_pass_is_the_root_cause() -> None:
    world = flow("a", b=DependsOn(targets=["a"], probe=PROBE), c="b")
    world = world.settled().with_jobs(a="Completed").with_pods("a", t="Failed").settled()
    sentences = why(world, "c")
    assert "the probe cannot pass any more on a: the job f-a ended Completed" in sentences[1]
    assert sentences[2:] == ["Correct the probe, or the job that it checks."]
