"""Reviews of flows and templates: verdicts, messages and codes."""

import json
from typing import Any

import pytest

from jobflow.core.admission.applied_nulls import LAST_APPLIED
from jobflow.webhook.review import judges
from jobflow.webhook.review.envelope import ReviewOutcome
from support.admission.admissions import UID, FakeCluster, respond, review, stored
from support.sandbox.manifests import DIAMOND, jobflow, template
from support.sandbox.running_controller import cron

DELETED = {"deletionTimestamp": "2026-08-01T11:00:00Z", "finalizers": ["example.com/wait"]}
UNKNOWN_TARGET = jobflow("diamond", {"a": ["x"]})
FLOW = stored(jobflow("diamond", DIAMOND))
TEMPLATE = stored(template("a"))
INVALID_TEMPLATE = TEMPLATE | {"spec": TEMPLATE["spec"] | {"minAvailable": 7}}


def with_metadata(manifest: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return manifest | {"metadata": manifest["metadata"] | (metadata or {"labels": {"team": "a"}})}


class TestFlows:
    async def test_a_valid_flow_is_allowed_without_warnings(self) -> None:
        cluster = FakeCluster({name: stored(template(name)) for name in DIAMOND})
        assert (await respond(review("CREATE", FLOW), cluster)).json == {
            "uid": UID,
            "allowed": True,
        }

    async def test_nothing_is_judged_while_the_cluster_is_unfit(self) -> None:
        response = await respond(review("CREATE", FLOW), FakeCluster(why_unfit="a newer CRD"))
        assert (response.outcome, response.code) == (ReviewOutcome.FAILED, 503)
        assert response.message == "a newer CRD; try again"

    async def test_a_dry_run_gets_the_same_verdict(self) -> None:
        real = await respond(review("CREATE", UNKNOWN_TARGET))
        assert not real.allowed
        assert (await respond(review("CREATE", UNKNOWN_TARGET, dryRun=True))).json == real.json

    async def test_one_fault_is_one_sentence(self) -> None:
        response = await respond(review("CREATE", jobflow("diamond", {"a": [], "b": ["aa"]})))
        status, ((field, message),) = response.status, response.faults.items()
        assert field == "spec.flows[1].dependsOn.targets[0]"
        assert status["message"] == (
            f'JobFlow.flow.volcano.sh "diamond" is invalid: {field}: {message}'
        )
        assert (status["reason"], status["status"]) == ("Invalid", "Failure")
        details = {"name": "diamond", "group": "flow.volcano.sh", "kind": "JobFlow"}
        assert status["details"].items() >= details.items()

    async def test_several_faults_are_in_one_answer_each_on_its_line(self) -> None:
        flow = jobflow("diamond", {"a": ["x"], "b": ["b"]}, jobRetainPolicy="sometimes")
        response = await respond(review("CREATE", flow))
        first, *lines = response.message.splitlines()
        assert first == 'JobFlow.flow.volcano.sh "diamond" is invalid:'
        assert len(lines) >= 3
        assert [line.partition(": ")[0] for line in lines] == [f"* {at}" for at in response.faults]

    async def test_a_hundred_faults_are_listed_and_the_others_counted(self) -> None:
        flow = jobflow("diamond", {f"s{i}": ["nowhere"] for i in range(150)})
        response = await respond(review("CREATE", flow))
        assert len(response.faults) == 101
        assert response.faults[""] == "and 50 more"
        assert response.message.splitlines()[-1] == "* and 50 more"

    async def test_a_missing_template_is_a_warning_that_fits_into_a_header(self) -> None:
        flow = stored(jobflow("many", {f"{'long-' * 10}{i}": [] for i in range(100)}))
        response = await respond(review("CREATE", flow))
        assert response.allowed
        (warning,) = response.warnings
        assert "long-long" in warning
        assert len(warning) <= 256 and warning.isprintable()

    async def test_templates_are_not_missing_before_the_cluster_is_read(self) -> None:
        response = await respond(review("CREATE", FLOW), FakeCluster(synced=False))
        assert response.json == {"uid": UID, "allowed": True}

    async def test_a_flow_with_a_generated_name_is_named_by_its_prefix(self) -> None:
        metadata = {"generateName": "nightly-", "namespace": "default"}
        response = await respond(review("CREATE", UNKNOWN_TARGET | {"metadata": metadata}))
        assert response.status["details"]["name"] == "nightly-"

    async def test_a_change_of_spec_is_refused_with_advice(self) -> None:
        new = stored(jobflow("diamond", DIAMOND, jobRetainPolicy="delete"))
        response = await respond(review("UPDATE", new, FLOW))
        assert (response.code, response.status["reason"]) == (422, "Invalid")
        assert "kubectl delete" in response.message

    async def test_a_write_to_a_subresource_is_allowed(self) -> None:
        body = review("UPDATE", stored(UNKNOWN_TARGET), FLOW, subResource="status")
        assert (await respond(body)).allowed


BAD_FLOW = stored(UNKNOWN_TARGET)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (with_metadata(FLOW), FLOW),
        (with_metadata(FLOW, finalizers=[]), FLOW),
        (with_metadata(FLOW, **DELETED), FLOW),
        (with_metadata(BAD_FLOW), BAD_FLOW),
        (with_metadata(BAD_FLOW, **DELETED), FLOW),
        (with_metadata(INVALID_TEMPLATE), INVALID_TEMPLATE),
        (with_metadata(TEMPLATE, **DELETED) | {"spec": {"tasks": []}}, INVALID_TEMPLATE),
    ],
    ids=(
        "labels,finalizers,deletion,labels of an invalid flow,spec of a deleted flow,"
        "labels of an invalid template,spec of a deleted template"
    ).split(","),
)
async def test_updates_of_metadata_and_deleted_objects_are_allowed(
    new: dict[str, Any], old: dict[str, Any]
) -> None:
    assert (await respond(review("UPDATE", new, old))).allowed


LONG = "x" * (16 * 2**20 // 10)
LARGE_FLOW = jobflow("diamond", {"a": []}, jobDefaults={"queue": LONG})


@pytest.mark.parametrize(
    ("small", "large"),
    [
        (FLOW, stored(LARGE_FLOW)),
        (TEMPLATE, TEMPLATE | {"spec": TEMPLATE["spec"] | {"queue": LONG}}),
        (cron(), cron(jobFlowTemplate={"spec": LARGE_FLOW["spec"]})),
    ],
    ids=["flow", "template", "cron"],
)
async def test_what_etcd_does_not_store_is_not_judged(
    small: dict[str, Any], large: dict[str, Any]
) -> None:
    for old in (None, small):
        body = review("UPDATE" if old else "CREATE", large, old)
        assert (await respond(body)).faults == {
            "spec": "Too long: 1.6 MiB as JSON, but etcd stores at most 1.5 MiB of an object, "
            "with its status; split it into several objects"
        }
    # an etcd that is configured otherwise has stored it
    assert (await respond(review("UPDATE", with_metadata(large), large))).allowed


class TestAppliedNulls:
    """The file sets `env: {A: null}`, which `kubectl apply` removes."""

    file = jobflow("f", {"a": []})
    file["spec"]["flows"][0]["env"] = {"A": None, "B": "1"}
    sent = jobflow("f", {"a": []})
    sent["spec"]["flows"][0]["env"] = {"B": "1"}
    applied = with_metadata(sent, name="f", annotations={LAST_APPLIED: json.dumps(file)})

    async def test_a_flow_without_the_nulls_of_its_file_is_not_created(self) -> None:
        assert list((await respond(review("CREATE", self.applied))).faults) == [
            "spec.flows[0].env.A"
        ]
        assert (await respond(review("CREATE", stored(self.file)))).allowed

    async def test_a_flow_that_was_stored_without_them_stays_so(self) -> None:
        old = stored(self.sent)
        assert (await respond(review("UPDATE", stored(self.applied), old))).allowed
        faults = (await respond(review("UPDATE", stored(self.file), old))).faults
        assert faults["spec.flows[0].env.A"].startswith("Forbidden: this null was added, but")

    async def test_a_cron_is_not_changed_without_them(self) -> None:
        def made(schedule: str, flow: dict[str, Any]) -> dict[str, Any]:
            return stored(cron(schedule=schedule, jobFlowTemplate={"spec": flow["spec"]}))

        old, new = (made(schedule, self.sent) for schedule in ("0 1 * * *", "0 2 * * *"))
        file = json.dumps(made("0 2 * * *", self.file))
        new["metadata"]["annotations"] = {LAST_APPLIED: file}
        assert not (await respond(review("UPDATE", new, old))).allowed
        assert (await respond(review("UPDATE", new, stored(new)))).allowed


class TestDeletes:
    async def test_a_running_flow_is_kept_with_advice(self) -> None:
        flow = FLOW | {"status": {"state": {"phase": "Running"}}}
        response = await respond(review("DELETE", None, flow))
        assert (response.code, response.status["reason"]) == (403, "Forbidden")
        assert "Running" in response.message and "force-delete=true" in response.message
        assert response.status["details"]["causes"]

    @pytest.mark.parametrize("phase", ["Succeed", "Failed"])
    async def test_a_final_flow_is_deleted_without_a_namespace_read(self, phase: str) -> None:
        cluster = FakeCluster()
        flow = FLOW | {"status": {"state": {"phase": phase}}}
        assert (await respond(review("DELETE", None, flow), cluster)).allowed
        assert cluster.asked == []

    async def test_a_flow_is_deleted_with_its_namespace(self) -> None:
        cluster = FakeCluster(terminating=True)
        assert (await respond(review("DELETE", None, FLOW), cluster)).allowed
        assert cluster.asked == ["default"]

    async def test_a_template_in_use_is_kept(self) -> None:
        response = await respond(review("DELETE", None, TEMPLATE), FakeCluster(flows=[FLOW]))
        assert response.code == 403
        assert "diamond" in response.message

    @pytest.mark.parametrize(
        ("name", "cluster"),
        [("z", {}), ("a", {"terminating": True}), ("a", {"followed": False})],
        ids=["not in use", "with its namespace", "in a namespace that others follow"],
    )
    async def test_a_template_is_deleted(self, name: str, cluster: dict[str, bool]) -> None:
        body = review("DELETE", None, stored(template(name)))
        assert (await respond(body, FakeCluster(flows=[FLOW], **cluster))).allowed  # type: ignore

    async def test_no_template_is_deleted_before_flows_are_read(self) -> None:
        response = await respond(review("DELETE", None, TEMPLATE), FakeCluster(synced=False))
        assert (response.outcome, response.code) == (ReviewOutcome.FAILED, 503)
        assert "try again" in response.message


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (review("CREATE", FLOW), 503),
        (review("DELETE", None, TEMPLATE), 503),
        (review("CREATE", TEMPLATE), None),
        (review("UPDATE", with_metadata(FLOW), FLOW), None),
        (review("DELETE", None, stored(FLOW, status={"state": {"phase": "Succeed"}})), None),
    ],
    ids=["new flow", "deleted template", "new template", "changed labels", "deleted flow"],
)
async def test_only_reviews_that_need_current_copies_wait_for_them(
    body: bytes, code: int | None
) -> None:
    response = await respond(body, FakeCluster(why_outdated="the copy of jobflows is old"))
    assert (response.allowed, response.code) == (code is None, code)
    if code:
        assert response.message == "the copy of jobflows is old; try again"


async def test_templates_are_judged_on_creates_and_changes_of_the_spec() -> None:
    assert (await respond(review("CREATE", TEMPLATE))).allowed
    for old in (None, TEMPLATE):
        body = review("UPDATE" if old else "CREATE", INVALID_TEMPLATE, old)
        assert "spec.minAvailable" in (await respond(body)).faults


@pytest.mark.parametrize(
    ("error", "code"), [(ZeroDivisionError("a rule is broken"), 500), (RecursionError(), 422)]
)
async def test_a_rule_that_raises_is_an_error(
    monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(judges, "validate_facts", fail)
    response = await respond(review("CREATE", FLOW))
    assert (response.allowed, response.code) == (False, code)
    assert "Traceback" not in response.message
    if code == 422:
        assert "spec" in response.faults
    else:
        assert (response.outcome, response.status["reason"]) == (
            ReviewOutcome.FAILED,
            "InternalError",
        )
