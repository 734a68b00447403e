"""What a review is answered with: verdicts, their wording and their codes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jobflow.webhook.review import judges
from jobflow.webhook.review.review import Answer, ReviewOutcome, reviewers
from support.admission.admissions import UID, FakeCluster, review, stored
from support.sandbox.manifests import DIAMOND, jobflow, template

DELETED = {"deletionTimestamp": "2026-08-01T11:00:00Z", "finalizers": ["example.com/wait"]}


async def answered(
    body: bytes, cluster: FakeCluster | None = None, kind: str = "JobFlow"
) -> Answer:
    paths = reviewers(cluster or FakeCluster())
    return await paths[f"/{kind.lower()}s/validate"].review(body)


async def respond(
    body: bytes, cluster: FakeCluster | None = None, kind: str = "JobFlow"
) -> dict[str, Any]:
    """The `response` of an answer that is a review."""
    answer = await answered(body, cluster, kind)
    assert answer.code == 200
    said = json.loads(answer.body)
    assert (said["apiVersion"], said["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: dict[str, Any] = said["response"]
    assert response["uid"] == UID
    return response


def diamond() -> dict[str, Any]:
    return stored(jobflow("diamond", DIAMOND))


def all_templates() -> dict[str, Any]:
    return {name: stored(template(name)) for name in DIAMOND}


class TestFlows:
    async def test_a_good_flow_is_allowed_and_nothing_else_is_said(self) -> None:
        response = await respond(review("CREATE", diamond()), FakeCluster(all_templates()))
        assert response == {"uid": UID, "allowed": True}

    async def test_nothing_is_judged_while_that_may_not_be(self) -> None:
        answer = await answered(review("CREATE", diamond()), FakeCluster(why_unfit="a newer CRD"))
        status = json.loads(answer.body)["response"]["status"]
        assert (answer.outcome, status["code"]) == (ReviewOutcome.FAILED, 503)
        assert status["message"] == "a newer CRD; try again"

    async def test_a_dry_run_gets_the_same_verdict(self) -> None:
        bad = jobflow("diamond", {"a": ["x"]})
        real = await respond(review("CREATE", bad))
        assert real["allowed"] is False
        assert await respond(review("CREATE", bad, dryRun=True)) == real

    async def test_one_fault_is_one_sentence(self) -> None:
        response = await respond(review("CREATE", jobflow("diamond", {"a": [], "b": ["aa"]})))
        status = response["status"]
        assert response["allowed"] is False
        assert (status["code"], status["reason"], status["status"]) == (422, "Invalid", "Failure")
        assert status["message"].startswith(
            'JobFlow.flow.volcano.sh "diamond" is invalid: spec.flows[1].dependsOn.targets[0]: '
        )
        assert "\n" not in status["message"]
        assert status["details"]["name"] == "diamond"
        assert status["details"]["group"] == "flow.volcano.sh"
        assert status["details"]["kind"] == "JobFlow"
        (cause,) = status["details"]["causes"]
        assert cause["field"] == "spec.flows[1].dependsOn.targets[0]"
        assert status["message"].endswith(f"{cause['field']}: {cause['message']}")

    async def test_several_faults_come_in_one_answer_each_on_its_line(self) -> None:
        flow = jobflow("diamond", {"a": ["x"], "b": ["b"]}, jobRetainPolicy="sometimes")
        status = (await respond(review("CREATE", flow)))["status"]
        fields = [cause["field"] for cause in status["details"]["causes"]]
        assert len(fields) >= 3
        lines = status["message"].splitlines()
        assert lines[0] == 'JobFlow.flow.volcano.sh "diamond" is invalid:'
        assert [line.partition(": ")[0] for line in lines[1:]] == [f"* {path}" for path in fields]

    async def test_a_hundred_faults_are_listed_and_the_rest_counted(self) -> None:
        flow = jobflow("diamond", {f"s{i}": ["nowhere"] for i in range(150)})
        status = (await respond(review("CREATE", flow)))["status"]
        causes = status["details"]["causes"]
        assert len(causes) == 101
        assert causes[-1]["message"] == "and 50 more"
        assert status["message"].splitlines()[-1] == "* and 50 more"

    async def test_a_missing_template_is_a_warning_that_fits_a_header(self) -> None:
        flow = stored(jobflow("many", {f"{'long-' * 10}{i}": [] for i in range(100)}))
        response = await respond(review("CREATE", flow))
        assert response["allowed"] is True
        (warning,) = response["warnings"]
        assert "long-long" in warning
        assert len(warning) <= 256 and warning.isprintable()

    async def test_before_the_cluster_was_read_nothing_is_said_to_be_missing(self) -> None:
        response = await respond(review("CREATE", diamond()), FakeCluster(synced=False))
        assert response == {"uid": UID, "allowed": True}

    async def test_a_generated_name_is_named_by_its_prefix(self) -> None:
        flow = jobflow("x", {"a": ["x"]})
        flow["metadata"] = {"generateName": "nightly-", "namespace": "default"}
        status = (await respond(review("CREATE", flow)))["status"]
        assert status["details"]["name"] == "nightly-"

    @pytest.mark.parametrize(
        "metadata", [{"labels": {"team": "a"}}, {"finalizers": []}, DELETED], ids=str
    )
    async def test_metadata_may_change(self, metadata: dict[str, Any]) -> None:
        old = diamond()
        new = stored(jobflow("diamond", DIAMOND), **metadata)
        assert (await respond(review("UPDATE", new, old)))["allowed"] is True

    async def test_an_invalid_flow_may_still_be_labelled(self) -> None:
        bad = jobflow("diamond", {"a": ["nowhere"]})
        new = stored(bad, labels={"seen": "yes"})
        assert (await respond(review("UPDATE", new, stored(bad))))["allowed"] is True

    async def test_a_change_of_spec_is_refused_with_the_way_out(self) -> None:
        new = stored(jobflow("diamond", DIAMOND, jobRetainPolicy="delete"))
        status = (await respond(review("UPDATE", new, diamond())))["status"]
        assert (status["code"], status["reason"]) == (422, "Invalid")
        assert "kubectl delete" in status["message"]

    async def test_what_is_being_deleted_may_change_in_any_way(self) -> None:
        new = stored(jobflow("diamond", {"a": []}), **DELETED)
        assert (await respond(review("UPDATE", new, diamond())))["allowed"] is True

    async def test_a_write_to_a_subresource_passes(self) -> None:
        new = stored(jobflow("diamond", {"a": ["x"]}))
        body = review("UPDATE", new, diamond(), subResource="status")
        assert (await respond(body))["allowed"] is True


class TestDeletes:
    async def test_a_running_flow_is_kept_and_the_way_out_said(self) -> None:
        flow = diamond() | {"status": {"state": {"phase": "Running"}}}
        response = await respond(review("DELETE", None, flow))
        status = response["status"]
        assert (status["code"], status["reason"]) == (403, "Forbidden")
        assert "Running" in status["message"] and "force-delete=true" in status["message"]
        assert status["details"]["causes"]

    @pytest.mark.parametrize("phase", ["Succeed", "Failed"])
    async def test_a_final_flow_goes_and_its_namespace_is_not_read(self, phase: str) -> None:
        cluster = FakeCluster()
        flow = diamond() | {"status": {"state": {"phase": phase}}}
        assert (await respond(review("DELETE", None, flow), cluster))["allowed"] is True
        assert cluster.asked == []

    async def test_a_namespace_that_is_being_deleted_takes_its_flows_along(self) -> None:
        cluster = FakeCluster(terminating=True)
        assert (await respond(review("DELETE", None, diamond()), cluster))["allowed"] is True
        assert cluster.asked == ["default"]

    async def test_a_template_in_use_is_kept(self) -> None:
        body = review("DELETE", None, stored(template("a")), kind="JobTemplate")
        response = await respond(body, FakeCluster(flows=[diamond()]), "JobTemplate")
        assert response["status"]["code"] == 403
        assert "diamond" in response["status"]["message"]

    async def test_a_template_that_no_flow_uses_goes(self) -> None:
        body = review("DELETE", None, stored(template("z")), kind="JobTemplate")
        response = await respond(body, FakeCluster(flows=[diamond()]), "JobTemplate")
        assert response["allowed"] is True

    async def test_a_template_in_use_goes_with_its_namespace(self) -> None:
        body = review("DELETE", None, stored(template("a")), kind="JobTemplate")
        cluster = FakeCluster(flows=[diamond()], terminating=True)
        assert (await respond(body, cluster, "JobTemplate"))["allowed"] is True

    async def test_while_flows_are_unknown_no_template_goes(self) -> None:
        body = review("DELETE", None, stored(template("a")), kind="JobTemplate")
        answer = await answered(body, FakeCluster(synced=False), "JobTemplate")
        status = json.loads(answer.body)["response"]["status"]
        assert (answer.outcome, status["code"]) == (ReviewOutcome.FAILED, 503)
        assert "try again" in status["message"]

    async def test_in_a_namespace_that_others_look_after_a_template_goes(self) -> None:
        body = review("DELETE", None, stored(template("a")), kind="JobTemplate")
        cluster = FakeCluster(flows=[diamond()], followed=False)
        assert (await respond(body, cluster, "JobTemplate"))["allowed"] is True


class TestTemplates:
    async def test_a_good_template_is_allowed(self) -> None:
        body = review("CREATE", stored(template("a")), kind="JobTemplate")
        assert (await respond(body, None, "JobTemplate"))["allowed"] is True

    async def test_an_invalid_one_is_refused_on_create_and_on_a_changed_spec(self) -> None:
        good, bad = stored(template("a")), stored(template("a"))
        bad["spec"] = good["spec"] | {"minAvailable": 7}
        for body in (
            review("CREATE", bad, kind="JobTemplate"),
            review("UPDATE", bad, good, kind="JobTemplate"),
        ):
            status = (await respond(body, None, "JobTemplate"))["status"]
            assert status["code"] == 422
            assert status["details"]["causes"][0]["field"] == "spec.minAvailable"

    async def test_an_invalid_one_may_still_be_labelled_or_finalised(self) -> None:
        bad = template("a")
        bad["spec"]["minAvailable"] = 7
        old = stored(bad)
        labelled = stored(bad, labels={"team": "a"})
        body = review("UPDATE", labelled, old, kind="JobTemplate")
        assert (await respond(body, None, "JobTemplate"))["allowed"] is True
        changed = stored(bad, **DELETED)
        changed["spec"] = {"tasks": []}
        body = review("UPDATE", changed, old, kind="JobTemplate")
        assert (await respond(body, None, "JobTemplate"))["allowed"] is True


async def test_a_fault_of_our_own_lets_nothing_in_and_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("a rule is broken")

    monkeypatch.setattr(judges, "validate_facts", broken)
    answer = await answered(review("CREATE", diamond()))
    response = json.loads(answer.body)["response"]
    assert (answer.code, answer.outcome) == (200, ReviewOutcome.FAILED)
    assert response["allowed"] is False
    assert (response["status"]["code"], response["status"]["reason"]) == (500, "InternalError")
    assert "Traceback" not in response["status"]["message"]


async def test_a_rule_that_nests_too_deeply_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*_: Any) -> None:
        raise RecursionError

    monkeypatch.setattr(judges, "validate_facts", endless)
    status = (await respond(review("CREATE", diamond())))["status"]
    assert (status["code"], status["details"]["causes"][0]["field"]) == (422, "spec")
