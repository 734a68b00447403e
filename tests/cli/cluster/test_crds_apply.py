"""`jobflow crds --apply` with a scripted server. tests/chart uses a real one."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from jobflow.cli.cluster import crds
from support.network.scripted_server import Answer, ReceivedRequest, ScriptedServer
from support.sandbox.command_line import Result, jobflow


def definition(**conditions: str) -> Answer:
    """Return a CustomResourceDefinition with these conditions."""
    items = [{"type": kind, "status": status} for kind, status in conditions.items()]
    return Answer(200, {"kind": "CustomResourceDefinition", "status": {"conditions": items}})


UNSEEN = Answer(200, {"kind": "CustomResourceDefinition", "status": {"conditions": None}})
SERVED = definition(NamesAccepted="True", Established="True")


async def apply_crds(tmp_path: Path, *answers: Answer) -> tuple[Result, list[ReceivedRequest]]:
    """Run the command with a server that has these answers. Return the result and the requests."""
    async with ScriptedServer() as server:
        server.others.extend(answers)
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server.url}}],
            "users": [{"name": "u", "user": {}}],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(config))
        result = await asyncio.to_thread(jobflow, "crds", "--apply", "--kubeconfig", path)
        return result, server.requests


async def test_each_definition_is_applied_until_it_is_served(tmp_path: Path) -> None:
    result, requests = await apply_crds(tmp_path, Answer(200, {}), UNSEEN, *[SERVED] * 5)
    assert (result.code, result.err) == (0, "")
    assert [line.split()[-1] for line in result.out.splitlines()] == ["applied"] * 3
    assert [each.method for each in requests] == ["PATCH", "GET", "GET", *["PATCH", "GET"] * 2]
    for each in requests:
        if each.method == "PATCH":
            assert each.query == {"fieldManager": "jobflow-crds", "force": "true"}
            assert each.headers["Content-Type"] == "application/apply-patch+yaml"
            assert json.loads(each.body)["metadata"]["name"] == each.path.rpartition("/")[2]


REFUSED = {"code": 403, "reason": "Forbidden", "message": "no such right"}
TAKEN: dict[str, Any] = {
    "conditions": [
        {"type": "NamesAccepted", "status": "False", "message": '"jf" is already in use'},
        {"type": "Established", "status": "False"},
    ]
}


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ((Answer(403, REFUSED),), "403 Forbidden: no such right"),
        (
            (Answer(200, {}), Answer(200, {"status": TAKEN})),
            'jobflows.flow.volcano.sh is not served: "jf" is already in use',
        ),
        ((Answer(end="cut"),), "the API server does not answer: "),
    ],
    ids=["refused", "name taken", "cut off"],
)
async def test_a_definition_that_is_not_served_is_an_error(
    tmp_path: Path, answers: tuple[Answer, ...], sentence: str
) -> None:
    result, _ = await apply_crds(tmp_path, *answers)
    assert result.code == 1
    assert result.err.startswith(f"jobflow: error: {sentence}")


async def test_an_unserved_kind_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crds, "SERVED_WITHIN_SECONDS", 0.0)
    result, _ = await apply_crds(tmp_path, Answer(200, {}), definition(Established="False"))
    assert result.code == 1
    assert "jobflows.flow.volcano.sh is not served 0 s after it was applied" in result.err


def test_a_missing_kubeconfig_is_an_error(tmp_path: Path) -> None:
    result = jobflow("crds", "--apply", "--kubeconfig", tmp_path / "none")
    assert (result.code, result.out) == (2, "")
    assert result.err == f"jobflow: error: kubeconfig {tmp_path / 'none'}: no such file\n"


def test_a_kubeconfig_needs_apply() -> None:
    result = jobflow("crds", "--kubeconfig", "k")
    assert (result.code, result.out) == (2, "")
    assert "needs --apply" in result.err
