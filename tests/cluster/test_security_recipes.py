"""The policies in docs/security.md, applied unchanged to a real API server."""

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import yaml

from jobflow.api.resources import JOBS, JOBTEMPLATES
from support.cluster.real_cluster import RealCluster
from support.paths import ROOT
from support.sandbox.manifests import template

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

PAGE = ROOT / "docs" / "security.md"
RECIPE = re.compile(r"<!-- applied by [^\n]*-->\n```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
POLICIES = "/apis/admissionregistration.k8s.io/v1"
MERGE = {"Content-Type": "application/merge-patch+json"}
WITHIN_SECONDS = 30


def recipes() -> dict[str, list[dict[str, Any]]]:
    found = [list(yaml.safe_load_all(text)) for text in RECIPE.findall(PAGE.read_text())]
    return {objects[0]["metadata"]["name"]: objects for objects in found}


@contextmanager
def applied(real: RealCluster, name: str) -> Iterator[None]:
    objects = recipes()[name]
    paths = [
        f"{POLICIES}/validatingadmissionpolicies",
        f"{POLICIES}/validatingadmissionpolicybindings",
    ]
    for path, manifest in zip(paths, objects, strict=True):
        real.admin.post(path, json=manifest).raise_for_status()
    try:
        yield
    finally:
        for path in reversed(paths):
            real.admin.delete(f"{path}/{name}").raise_for_status()


async def until_answer(send: Callable[[], httpx.Response], *, success: bool) -> httpx.Response:
    """Return the first answer with the expected success. A policy takes effect some time after
    it is stored."""
    async with asyncio.timeout(WITHIN_SECONDS):
        while True:
            answer = await asyncio.to_thread(send)
            if answer.is_success is success:
                return answer
            await asyncio.sleep(0.2)


async def until_refused(send: Callable[[], httpx.Response]) -> str:
    return str((await until_answer(send, success=False)).json()["message"])


async def test_flows_need_the_right_to_create_vcjobs(real: RealCluster) -> None:
    namespace = real.new_namespace("recipe")
    with real.plane.connect("alice") as alice:

        def send() -> httpx.Response:
            query = {"dryRun": "All"}
            return alice.post(JOBTEMPLATES.path(namespace), json=template("t"), params=query)

        assert send().status_code == 201
        with applied(real, "jobflow-needs-vcjob-rights"):
            message = await until_refused(send)
            assert "alice may not create vcjobs (jobs.batch.volcano.sh) in namespace" in message
            admin = real.admin.post(JOBTEMPLATES.path(namespace), json=template("t"))
            assert admin.status_code == 201
            path = JOBTEMPLATES.path(namespace, "t")

            def change(patch: dict[str, Any]) -> int:
                return alice.patch(path, json=patch, headers=MERGE).status_code

            assert change({"metadata": {"labels": {"team": "a"}}}) == 200
            assert change({"spec": {"minAvailable": 2}}) == 403


async def test_jobs_stay_in_the_queues_of_their_namespace(real: RealCluster) -> None:
    namespace = real.new_namespace("queues")

    def send(queue: str) -> httpx.Response:
        job = {
            "apiVersion": JOBS.api_version,
            "kind": JOBS.kind,
            "metadata": {"name": "j"},
            "spec": {**template("t")["spec"], "queue": queue},
        }
        return real.admin.post(JOBS.path(namespace), json=job, params={"dryRun": "All"})

    with applied(real, "vcjob-queues"):
        message = await until_refused(lambda: send("research"))
        assert "queue research is not one of default" in message
        assert send("default").status_code == 201
        annotations = {"metadata": {"annotations": {"example.com/queues": "default,research"}}}
        path = f"/api/v1/namespaces/{namespace}"
        real.admin.patch(path, json=annotations, headers=MERGE).raise_for_status()
        await until_answer(lambda: send("research"), success=True)
