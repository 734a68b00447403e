"""Reviews of Commands about flows: the user's name, the right to send them, and their faults."""

import json
from base64 import b64decode
from typing import Any

import pytest

from jobflow.api.resources import COMMANDS, JOBFLOWS
from jobflow.webhook.review.commands import CommandReviewer
from jobflow.webhook.review.envelope import NotReady, ReviewOutcome, UserInfo
from jobflow.webhook.review.judges import UNCHECKED, Right
from support.admission.admissions import FakeCluster, Response, review

BY, OUTPUTS = "flow.volcano.sh/by", "flow.volcano.sh/outputs"
FLOW = {"apiVersion": JOBFLOWS.api_version, "kind": "JobFlow", "name": "f", "uid": "1"}
JOB = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "2"}
ADMIN = {BY: "admin"}


def command(
    action: str = "ApproveStep",
    message: str = "ok fine",
    *,
    target: dict[str, str] | None = None,
    **annotations: str,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "c"}
    if annotations:
        metadata["annotations"] = annotations
    kind = {"apiVersion": COMMANDS.api_version, "kind": "Command", "metadata": metadata}
    return kind | {"action": action, "message": message, "target": target or FLOW}


class Rights:
    """Lets users do nothing but what is allowed here, as `VERB FLOW`."""

    def __init__(self, *allowed: str, unknown: bool = False) -> None:
        self.allowed, self.unknown = allowed, unknown
        self.asked: list[tuple[str, str, str]] = []

    async def lacking(self, user: UserInfo, right: Right) -> str | None:
        asked = f"{right.verb} {right.name}"
        self.asked.append((user.username, right.namespace, asked))
        if self.unknown:
            raise NotReady("the API server did not say")
        return None if asked in self.allowed else "you may not"

    async def is_controller(self, user: UserInfo) -> bool:
        return False


async def answer(
    operation: str,
    new: Any,
    old: Any = None,
    rights: Rights | None = None,
    cluster: FakeCluster | None = None,
) -> Response:
    body = review(operation, new, old, kind="Command", group="bus.volcano.sh")
    reviewer = CommandReviewer(cluster or FakeCluster(), rights or UNCHECKED)
    return Response(await reviewer.review(body))


async def annotations(
    operation: str, new: dict[str, Any], old: dict[str, Any] | None = None, **by: Any
) -> Any:
    """Return the annotations of the Command after the review, which allows it."""
    found = await answer(operation, new, old, **by)
    assert found.allowed, found.message
    result = dict(new["metadata"].get("annotations") or {})
    for change in json.loads(b64decode(found.json["patch"])) if "patch" in found.json else ():
        key = change["path"].removeprefix("/metadata/annotations").replace("~1", "/")[1:]
        if change["op"] == "remove":
            del result[key]
        else:
            result |= {key: change["value"]} if key else change["value"]
    return result


@pytest.mark.parametrize("claimed", [{}, {BY: "somebody else"}, {"other": "x"}, ADMIN], ids=str)
async def test_the_name_of_the_user_replaces_what_the_client_wrote(claimed: dict[str, str]) -> None:
    assert await annotations("CREATE", command(**claimed)) == claimed | ADMIN


async def test_other_commands_and_deletes_stay_as_they_are() -> None:
    abort = command("AbortJob", target=JOB)
    rights = Rights()
    assert await annotations("CREATE", abort, rights=rights) == {}
    assert (await answer("DELETE", None, command(), rights)).allowed
    assert rights.asked == []


@pytest.mark.parametrize(
    ("action", "verb"),
    [
        ("ApproveStep", "approve"),
        ("RejectStep", "approve"),
        ("TerminateJob", "update"),
        ("RestartJob", "update"),
        ("CancelStep", "update"),
        ("RetryTolerated", "update"),
        ("anything", "update"),
    ],
)
async def test_each_action_needs_its_right(action: str, verb: str) -> None:
    rights = Rights(f"{verb} f")
    assert (await answer("CREATE", command(action), rights=rights)).allowed
    assert rights.asked == [("admin", "default", f"{verb} f")]
    refused = await answer("CREATE", command(action), rights=Rights())
    assert (refused.allowed, refused.code, refused.message) == (False, 403, "you may not")


async def test_an_unknown_right_is_no_right() -> None:
    refused = await answer("CREATE", command(), rights=Rights(unknown=True))
    assert (refused.allowed, refused.code) == (False, 503)
    assert refused.outcome is ReviewOutcome.FAILED


async def test_who_updates_something_else_does_not_send_the_command() -> None:
    old, rights = command(**{BY: "ann"}), Rights()
    forged = command(**{BY: "bob", "note": "x"})
    assert await annotations("UPDATE", forged, old, rights=rights) == {BY: "ann", "note": "x"}
    assert await annotations("UPDATE", command(), old, rights=rights) == {BY: "ann"}
    unnamed = command(note="x")
    assert await annotations("UPDATE", forged, unnamed, rights=rights) == {"note": "x"}
    assert rights.asked == []


@pytest.mark.parametrize(
    "old",
    [
        command("TerminateJob", **{BY: "ann"}),
        command(message="other", **{BY: "ann"}),
        command(target=JOB, **{BY: "ann"}),
        command(**{BY: "ann", OUTPUTS: "{}"}),
    ],
)
async def test_who_changes_what_is_asked_sends_the_command(old: dict[str, Any]) -> None:
    rights = Rights("approve f")
    assert await annotations("UPDATE", command(**{BY: "ann"}), old, rights=rights) == ADMIN
    assert len(rights.asked) == 1


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (command(message=""), "message"),
        (command(**{OUTPUTS: "[]"}), f"metadata.annotations[{OUTPUTS}]"),
        (command("RejectStep", **{OUTPUTS: "{}"}), f"metadata.annotations[{OUTPUTS}]"),
    ],
)
async def test_an_answer_with_a_fault_is_refused(wrong: dict[str, Any], field: str) -> None:
    refused = await answer("CREATE", wrong)
    assert list(refused.faults) == [field]
    assert refused.message.startswith('Command.bus.volcano.sh "c" is invalid: ')


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[1]", b"\xff", review("CREATE", {"kind": "JobFlow"})]
)
async def test_other_bodies_are_no_reviews_of_commands(body: bytes) -> None:
    found = await CommandReviewer(FakeCluster(), UNCHECKED).review(body)
    assert (found.code, found.outcome) == (400, ReviewOutcome.MALFORMED)


INNER = {"flows": [{"name": "ok", "approval": {}}, {"name": "x"}]}


def with_child(answer: dict[str, Any] | None) -> FakeCluster:
    """A flow f whose step a runs a flow with the approval ok, and b runs a job. Of two items of the
    step many, which runs such flows, one has begun."""
    ok = {"phase": "Waiting"} if answer is None else {"phase": "Completed", "approval": answer}
    run = {"phase": "Running", "flow": "f-a", "attempts": 1}
    flow = {
        "metadata": {"name": "f", "namespace": "default"},
        "spec": {
            "params": [{"name": "items", "value": 2}],
            "flows": [
                {"name": "a", "flow": INNER},
                {"name": "b"},
                {"name": "many", "forEach": {"count": "$(params.items)"}, "flow": INNER},
            ],
        },
        "status": {
            "conditions": {"f-a": run, "f-many": {"phase": "Running", "runs": [run | {"index": 0}]}}
        },
    }
    child = {
        "metadata": {"name": "f-a", "namespace": "default"},
        "spec": INNER,
        "status": {"conditions": {"f-a-ok": ok}},
    }
    return FakeCluster(flows=[flow, child])


@pytest.mark.parametrize(
    ("path", "given", "needs"),
    [
        ("a", None, ["update f", "approve f"]),
        ("a", {"answer": "Approve"}, ["update f"]),
        ("b", None, ["update f"]),
        ("a/x", None, ["update f"]),
        ("many", {"answer": "Approve"}, ["update f", "approve f"]),
        ("many/0", {"answer": "Approve"}, ["update f"]),
    ],
)
async def test_who_ends_a_child_flow_with_an_open_approval_needs_the_right_to_give_it(
    path: str, given: dict[str, Any] | None, needs: list[str]
) -> None:
    rights, cluster = Rights(*needs), with_child(given)
    new = command("CancelStep", path)
    assert (await answer("CREATE", new, rights=rights, cluster=cluster)).allowed
    assert [asked for _, _, asked in rights.asked] == needs
    if len(needs) > 1:
        refused = await answer("CREATE", new, rights=Rights("update f"), cluster=cluster)
        assert (refused.code, refused.message) == (403, "you may not")


async def test_a_command_on_steps_that_names_none_is_refused() -> None:
    refused = await answer("CREATE", command("CancelStep", ""))
    assert (refused.allowed, refused.code) == (False, 422)
    assert "its message names no step" in refused.message
