"""The sentences of `jobflow why` for statuses that a plan has written."""

import msgspec
import pytest

from jobflow.api.flow_status import StepCondition, StepFailure
from jobflow.api.job import JobOutline, TaskOutline, TaskState
from jobflow.api.jobflow import DependsOn, Probe, TaskStatusProbe
from jobflow.core.explain.explain import describe_unknown_step, explain, explain_step
from jobflow.core.explain.step import REMEDIES
from jobflow.core.reasons import StepReason
from support.plan.plan_world import World, after, flow

DIAMOND = {"b": "a", "c": "b", "d": "b", "e": "c d"}


def why(world: World, step: str | None = None) -> list[str]:
    """Return the sentences."""
    if step is None:
        return list(explain(world.flow, now=world.now).sentences)
    return list(explain_step(world.flow, step, now=world.now).sentences)


def with_condition(world: World, step: str, condition: StepCondition) -> World:
    """Replace a condition in the status."""
    conditions = {**(world.flow.status.conditions or {}), world.name_of(step): condition}
    return world.with_status(msgspec.structs.replace(world.flow.status, conditions=conditions))


@pytest.fixture
def templateless() -> World:
    return flow("a", **DIAMOND).without_template("a").settled().later(75)


@pytest.fixture
def running() -> World:
    world = flow("a", **DIAMOND).settled().with_jobs(a="Completed").settled()
    return world.later(5).with_jobs(b="Running").settled().later(100)


def test_a_fresh_flow() -> None:
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
def test_a_step_whose_targets_are_done_waits_for_the_reason_in_its_message(
    message: str, sentence: str
) -> None:
    world = flow("a", b="a").with_jobs(a="Completed").settled()
    waiting = StepCondition(phase="Waiting", message=message, last_transition_time=world.now)
    assert why(with_condition(world, "b", waiting), "b")[0] == sentence


def test_a_flow_that_waits_for_a_template(templateless: World) -> None:
    assert why(templateless) == [
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


def test_the_flow_says_which_running_jobs_have_no_pods() -> None:
    world = flow(*"abcdef").settled().with_jobs(**dict.fromkeys("abcdef", "Running"))
    world = without_pods(world, *"bcde").later(60)
    assert why(world) == [
        "JobFlow f is Running, started 1m ago (at 12:00:00 UTC); 0/6 steps have finished.",
        "Steps a (for 1m) and f (for 1m) are Running.",
        "Steps b (for 1m), c (for 1m), d (for 1m) and 1 more are Running; each has no pod and "
        "never ends, because no task of the job has replicas.",
    ]


def test_a_job_without_pods_is_told() -> None:
    world = without_pods(flow("a").settled().with_jobs(a="Pending"), "a").later(60)
    assert why(world)[1] == (
        "Step a (for 1m) is Pending; it has no pod and never ends, because no task of the job has "
        "replicas."
    )
    assert why(world, "a")[0] == (
        "Step a has been Pending for 1m (since 12:00:00 UTC) as the job f-a; it has no pod and "
        "never ends, because no task of the job has replicas."
    )


def test_a_step_is_followed_down_to_where_its_waiting_begins(templateless: World) -> None:
    assert why(templateless, "e") == [
        "Step e has been waiting for 1m15s (since 12:00:00 UTC) for c (Waiting) and d (Waiting) to "
        "complete.",
        "c waits for b, which waits for a.",
        "Step a has been Waiting for 1m15s (since 12:00:00 UTC, WaitingForTemplate): it waits for "
        "the JobTemplate a.",
        "Apply the JobTemplate a; the step then starts by itself.",
    ]
    assert explain_step(templateless.flow, "e", now=templateless.now).causes == ("a",)


def test_a_flow_that_runs(running: World) -> None:
    assert why(running) == [
        "JobFlow f is Running, started 1m45s ago (at 12:00:00 UTC); 1/5 steps have finished.",
        "Step b (for 1m40s) is Running.",
        "Steps c, d and e wait for other steps.",
        "When the current jobs complete, the next jobs are f-c and f-d.",
    ]


def test_a_step_that_runs_and_one_that_is_done(running: World) -> None:
    assert why(running, "b") == [
        "Step b has been Running for 1m40s (since 12:00:05 UTC) as the job f-b."
    ]
    assert why(running, "a") == ["Step a completed 1m45s ago (12:00:00 UTC) after 0s."]


def test_tasks_say_how_far_they_are(running: World) -> None:
    counts = {
        "ps": TaskState(phase={"Running": 2}),
        "worker": TaskState(phase={"Succeeded": 3, "Running": 1}),
    }
    world = with_condition(
        running, "b", StepCondition(phase="Running", job="f-b", task_status_count=counts)
    )
    assert why(world, "b")[0].endswith("as the job f-b: worker 3/4 done and ps 2/2 running.")
    assert why(world)[1] == ("Step b (for 1m40s, worker 3/4 done and ps 2/2 running) is Running.")


def test_a_step_that_is_pending_points_at_volcano() -> None:
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
def test_what_a_step_waits_for_is_said_as_it_wants_it(depends_on: object, targets: str) -> None:
    world = flow("a", "b", c=depends_on).settled().with_jobs(a="Pending", b="Pending").settled()
    assert why(world, "c")[0] == f"Step c has been waiting for 0s (since 12:00:00 UTC) {targets}."


def test_a_target_that_has_run_is_not_waited_for() -> None:
    world = flow("a", "b", c=after("a b", condition="Running")).settled()
    world = world.with_jobs(a="Running", b="Pending").settled()
    assert "for b (Pending) to run." in why(world, "c")[0]


# ------------------------------------------------------------------------------- failures


def test_a_target_that_has_run_and_runs_again_is_not_waited_for_either() -> None:
    world = flow("a", "b", c=after("a b", condition="Running")).settled()
    world = world.with_jobs(a="Running", b="Pending").settled()
    world = world.without_jobs("a").with_missing("f-a").settled()
    assert world.plan().held_up["a"] == "JobLost"
    assert why(world, "c")[0].endswith(" for b (Pending) to run.")
    assert why(world, "c")[1].startswith("Step b has been Pending")
    forgotten = with_condition(world, "c", StepCondition(phase="Waiting"))
    assert why(forgotten, "c")[0].endswith(" for b (Pending) to run.")


@pytest.fixture
def broken(running: World) -> World:
    return running.with_jobs(b="Failed").settled().later(60)


def test_a_flow_that_failed(broken: World) -> None:
    [standing, failure, *rest] = why(broken)
    assert standing == (
        "JobFlow f is Failed, finished 1m ago (at 12:01:45 UTC) after 1m45s; of 5 steps, 1 is "
        "Completed, 1 is Failed and 3 are Skipped."
    )
    assert failure.startswith("Step b failed 1m ago (12:01:45 UTC, JobFailed): the job f-b ended")
    assert rest[1:] == [
        "Steps c, d and e were skipped (UpstreamFailed) because a dependency did not complete.",
        "`jobflow retry f -n ns` runs the failed steps again, with the current templates. To "
        "change the flow, delete it and apply it again.",
    ]


def test_a_skip_is_followed_to_the_failure(broken: World) -> None:
    sentences = why(broken, "e")
    assert sentences[0].endswith("UpstreamFailed): c and d did not complete.")
    assert sentences[1] == "c was skipped because of b."
    assert sentences[2].startswith("Step b failed 1m ago")


FAILURE = StepFailure(task="worker", pod="f-b-worker-1", container="c", exit_code=3, reason="Error")


def test_a_failure_names_pod_and_exit_code_also_where_its_message_was_dropped(
    broken: World,
) -> None:
    condition = StepCondition(phase="Failed", reason="JobFailed", job="f-b", failure=FAILURE)
    assert why(with_condition(broken, "b", condition), "b") == [
        "Step b failed 1m ago (12:01:45 UTC, JobFailed): pod f-b-worker-1 (task worker): exit code "
        "3 (Error).",
        "See its log: `kubectl logs -n ns f-b-worker-1 -c c`.",
    ]


def test_a_container_that_never_began_has_no_log(broken: World) -> None:
    failure = StepFailure(pod="f-b-t-0", container="c", reason="ImagePullBackOff")
    condition = StepCondition(phase="Failed", reason="JobFailed", job="f-b", failure=failure)
    assert why(with_condition(broken, "b", condition), "b") == [
        "Step b failed 1m ago (12:01:45 UTC, JobFailed): pod f-b-t-0: ImagePullBackOff.",
        "See `kubectl describe pod -n ns f-b-t-0`.",
    ]


def test_of_many_failures_three_are_told() -> None:
    names = "abcde"
    world = flow(*names).settled().with_jobs(**dict.fromkeys(names, "Failed")).settled()
    told = [sentence for sentence in why(world)[1:-1] if " failed" in sentence]
    assert [sentence[:14] for sentence in told[:3]] == [f"Step {n} failed "[:14] for n in "abc"]
    assert told[3:] == ["2 more steps failed."]


def test_while_the_rest_still_runs_a_failure_is_told_first() -> None:
    world = flow("a", "b", c="a").settled().with_jobs(a="Failed", b="Running").settled().later(9)
    sentences = why(world)
    assert sentences[1].startswith("A step has failed, so no step starts except those that")
    assert sentences[2].startswith("Step a failed 9s ago")
    assert "Step b (for 9s) is Running." in sentences


def test_a_step_that_stopped_names_what_stopped_it() -> None:
    world = flow("a", "b", c="b").settled().with_jobs(a="Failed", b="Running").settled().later(9)
    sentences = why(world, "c")
    assert sentences[0].endswith("Stopped): it will not start, because a has failed.")
    assert sentences[1].startswith("Step a failed 9s ago")


def test_a_branch_that_was_not_taken() -> None:
    world = flow("a", alarm=after("a", condition="Failed"), z="alarm")
    world = world.settled().with_jobs(a="Completed").settled().later(9)
    assert why(world, "z") == [
        "Step z was skipped 9s ago (12:00:00 UTC, NotTaken): no target was taken.",
        "Step alarm was skipped 9s ago (12:00:00 UTC, NotTaken): a did not fail.",
        "It runs only after a failure of a (Completed). Steps that depend on it ignore it.",
    ]
    assert why(world)[0].startswith("JobFlow f is Succeed, finished 9s ago")
    assert why(world)[1:] == [
        "Steps alarm and z were skipped (NotTaken) because the branch was not taken."
    ]


def test_a_flow_that_is_cancelled(running: World) -> None:
    world = running.cancelled().later(4)
    assert why(world)[1] == ("The flow was cancelled; it will be Failed once all jobs have ended.")
    assert why(world, "b") == [
        "Step b has been Running for 4s (since 12:01:45 UTC) as the job f-b; it is being aborted: "
        "the flow was cancelled."
    ]


def test_a_flow_that_was_cancelled_says_so(running: World) -> None:
    world = running.cancelled().ended("f-b", "Aborted").settled()
    assert why(world)[1] == "The flow was cancelled."


def test_a_job_that_was_made_again_is_told_with_its_attempt() -> None:
    world = flow("a").with_jobs(a="Running").settled().without_jobs("a").with_missing("f-a")
    world = world.settled().later(1).settled()
    assert why(world, "a")[0].startswith(
        "Step a has been Pending for 0s (since 12:00:01 UTC) as the job f-a-r1 (attempt 2)"
    )


def test_outputs_are_told_where_they_are_short(running: World) -> None:
    def told(**outputs: object) -> list[str]:
        condition = StepCondition(phase="Completed", job="f-a", attempts=1, outputs=outputs)
        return why(with_condition(running, "a", condition), "a")[1:]

    assert told(acc=0.9) == ['Its outputs: {"acc":0.9}.']
    assert told(notes="x" * 200) == []
    assert told() == []


def test_a_flow_that_is_being_deleted(running: World) -> None:
    world = running.being_deleted().settled()
    assert "It is being deleted, and no more steps start." in why(world)


def test_a_flow_that_admission_would_have_refused() -> None:
    world = flow("a", b="x").settled()
    assert why(world)[1].startswith("It was stored without validation and is invalid: spec.")
    assert why(world, "b")[0].startswith("The flow is invalid: spec.flows[1]")


# ------------------------------------------------------------------------------- reasons


def test_every_reason_has_its_remedy() -> None:
    assert set(REMEDIES) == set(StepReason)


def test_a_reason_of_a_later_version_is_told_without_one(running: World) -> None:
    condition = StepCondition(phase="Waiting", reason="Moonphase", message="waits for the moon")
    assert why(with_condition(running, "c", condition), "c") == [
        "Step c has been Waiting (Moonphase): it waits for the moon."
    ]


def test_a_refused_create_is_told_with_its_next_try() -> None:
    world = flow("a").with_refusal("a", 403, "quota exceeded", retry_in=250).settled().later(10)
    assert why(world, "a") == [
        "Step a has been Waiting for 10s (since 12:00:00 UTC, CreateRefused): quota exceeded.",
        "Remove the cause, such as an exhausted quota. JobFlow tries again by itself in 4m.",
    ]


def test_steps_that_the_namespace_refuses_are_told_together() -> None:
    world = flow(*"abcde").with_held("f-a", retry_in=50).settled().later(10)
    assert why(world)[1:] == [
        "Steps a, b, c and 2 more are Waiting (CreateRefused): exceeded quota; the flow's jobs are "
        "tried in turn.",
        "Remove the cause, such as an exhausted quota. JobFlow tries again by itself in 40s.",
    ]


PROBE = Probe(task_status_list=[TaskStatusProbe(task_name="t", phase="Succeeded")])


def test_a_probe_says_what_it_saw_last() -> None:
    world = flow("a", b=DependsOn(targets=["a"], probe=PROBE))
    world = world.settled().with_jobs(a="Running").with_pods("a", t="Running").settled().later(7)
    assert why(world, "b") == [
        "Step b has been waiting for 7s (since 12:00:00 UTC) for its probe to pass on a (Running).",
        "Last result: 0 of 1 pod of task t Succeeded.",
        "Step a has been Running for 7s (since 12:00:00 UTC) as the job f-a.",
    ]
    assert "Step b has been waiting for 7s" in " ".join(why(world))


def test_of_several_targets_a_probe_names_those_that_hold_it_up() -> None:
    world = flow("a", "c", "d", b=DependsOn(targets=["a", "c", "d"], probe=PROBE)).settled()
    world = world.with_jobs(a="Running", c="Running", d="Completed").with_pods("d", t="Succeeded")
    world = world.with_pods("a", t="Running").settled()
    assert why(world, "b")[:2] == [
        "Step b has been waiting for 0s (since 12:00:00 UTC) for its probe to pass on a (Running) "
        "and c (Running).",
        "Last result: a (0 of 1 pod of task t Succeeded) and c (0 of 1 pod of task t Succeeded).",
    ]


def test_a_probe_that_can_pass_no_more_is_where_it_begins() -> None:
    world = flow("a", b=DependsOn(targets=["a"], probe=PROBE), c="b")
    world = world.settled().with_jobs(a="Completed").with_pods("a", t="Failed").settled()
    sentences = why(world, "c")
    assert "the probe cannot pass any more on a: the job f-a ended Completed" in sentences[1]
    assert sentences[2:] == ["Correct the probe, or the job that it checks."]


# -------------------------------------------------------------------------------- bounds


@pytest.mark.no_cover
def test_a_chain_of_5000_steps_is_named_at_both_ends() -> None:
    world = flow("s0", **{f"s{i}": f"s{i - 1}" for i in range(1, 5000)}).without_template("s0")
    world = world.settled().later(30)
    sentences = why(world, "s4999")
    assert sentences[1] == (
        "s4998 waits for s4997, which waits for s4996, and so on through 4,995 more steps to s0."
    )
    assert len(" ".join(sentences)) < 600 and len(" ".join(why(world))) < 600


@pytest.mark.parametrize(
    ("steps", "way"),
    [
        (3, "s1 waits for s0."),
        (4, "s2 waits for s1, which waits for s0."),
        (5, "s3 waits for s2, which waits for s1, which waits for s0."),
        (6, "s4 waits for s3, which waits for s2, and so on through 1 more step to s0."),
        (7, "s5 waits for s4, which waits for s3, and so on through 2 more steps to s0."),
    ],
)
def test_a_long_way_is_cut_in_the_middle(steps: int, way: str) -> None:
    chain = {f"s{i}": f"s{i - 1}" for i in range(1, steps)}
    world = flow("s0", **chain).without_template("s0").settled()
    assert why(world, f"s{steps - 1}")[1] == way


def test_further_roots_are_counted() -> None:
    def told(entries: str) -> list[str]:
        world = flow(*entries.split(), join=entries).settled()
        world = world.with_jobs(**dict.fromkeys(entries.split(), "Running")).settled()
        return why(world, "join")

    named = [sentence.partition(" has been Running")[0] for sentence in told("a b c d e")[1:-1]]
    assert named == ["Step a", "Step b", "Step c"]
    assert told("a b c d e")[-1] == "2 more steps also block it."
    assert told("a b c d")[-1] == "1 more step also blocks it."
    assert told("a b c")[-1].startswith("Step c has been Running")


@pytest.mark.no_cover
def test_5000_roots_are_counted() -> None:
    entries = [f"s{i}" for i in range(4999)]
    world = flow(*entries, join=" ".join(entries)).settled()
    world = world.with_jobs(**dict.fromkeys(entries, "Running")).settled()
    assert why(world, "join")[-1] == "4,996 more steps also block it."
    assert len(" ".join(why(world, "join"))) < 1000 and len(" ".join(why(world))) < 1000


def test_a_loop_ends_and_is_shown() -> None:
    """Such a flow was stored without the webhook, and started by Volcano's controller."""
    world = flow("z", a="z c", b="a", c="b", d="c").with_jobs(z="Running").settled().later(9)
    [waits, *_, loop] = why(world, "d")
    assert "Blocked" in waits
    assert loop == "These steps wait for each other: a -> b -> c -> a."
    assert any("9s" in sentence for sentence in why(world))


def test_an_unknown_step_is_guessed_at() -> None:
    world = flow("prepare", train="prepare")
    assert describe_unknown_step(world.flow, "train") == ""
    assert describe_unknown_step(world.flow, "trian") == (
        'JobFlow f has no step "trian"; did you mean "train"?'
    )
    assert describe_unknown_step(world.flow, "x") == 'JobFlow f has no step "x"'
