"""A cluster for hostile reviews, with large and invalid templates that are decoded once."""

from collections.abc import Mapping
from functools import cached_property

import msgspec

from jobflow.api.flow.jobflow import JobTemplate
from jobflow.webhook.review.envelope import Answer
from jobflow.webhook.review.review import PathReviewer
from support.admission.admissions import FakeCluster
from support.sandbox.manifests import template

LARGE = Answer(b"", operation="large")


class HostileCluster(FakeCluster):
    """The templates `a`, `b`, `big` with 2,000 tasks, and `bad`."""

    @cached_property
    def _templates(self) -> Mapping[str, JobTemplate]:
        pod = {"spec": {"containers": [{"name": "main", "image": "i"}]}}
        big = [{"name": f"t{i}", "replicas": 1, "template": pod} for i in range(2_000)]
        specs = {"big": {"tasks": big}, "bad": {"tasks": [{"name": "T", "replicas": -1}] * 9}}
        manifests = {name: template(name) | {"spec": spec} for name, spec in specs.items()}
        manifests |= {name: template(name) for name in "ab"}
        return {name: msgspec.convert(each, JobTemplate) for name, each in manifests.items()}

    def templates(self, namespace: str) -> Mapping[str, JobTemplate]:
        return self._templates


def hostile_cluster() -> HostileCluster:
    """The cluster, with an open and a closed queue."""
    return HostileCluster({"a": None}, {"default": "Open", "closed": "Closed"})


class MarksReviews:
    """A replacement of the worker process that marks its reviews."""

    async def review(self, path: str, body: bytes) -> Answer:
        return LARGE


def answer_of(reviewer: PathReviewer, body: bytes) -> Answer:
    """The answer of a reviewer that waits for nothing."""
    try:
        reviewer.review(body).send(None)
    except StopIteration as done:
        answer: Answer = done.value
        return answer
    raise AssertionError("the review waits for something")
