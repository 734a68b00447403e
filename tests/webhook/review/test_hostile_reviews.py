"""Hostile reviews: each gets a well-formed answer in limited CPU time.

`make test-long` runs 200,000 reviews, `make test` a share of them. The limit is ten times the goal,
so that only disproportionate effort exceeds it, and neither other load nor a slow machine.
"""

from functools import partial
from typing import Any

import msgspec
import pytest

from jobflow.core.violations import MAX_SHOWN
from jobflow.webhook.large_reviews import SECONDS
from jobflow.webhook.review.envelope import MAX_WARNING, Answer, ReviewOutcome
from jobflow.webhook.review.review import reviewers
from support.admission.hostile_cluster import LARGE, MarksReviews, answer_of, hostile_cluster
from support.laws.cpu_time import least_cpu
from support.laws.effort_of_laws import STRIDE
from support.laws.hostile_reviews import Maker

BATCHES = 40
REVIEWS = 160_000 // STRIDE
MOST_CPU = 1.0
"""Seconds of the event loop, ten times the goal."""
MOST_CPU_ASIDE = 2 * SECONDS
MOST_ANSWER = 300_000
"""Bytes of a hundred faults of a kilobyte each, in causes and in the message."""


class Response(msgspec.Struct, forbid_unknown_fields=True):
    uid: str
    allowed: bool
    status: dict[str, Any] | None = None
    warnings: list[str] = []


class Review(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    response: Response
    api_version: str
    kind: str


def check(answer: Answer) -> None:
    assert answer.outcome is not ReviewOutcome.FAILED, answer.body
    assert len(answer.body) < MOST_ANSWER
    if answer.outcome is ReviewOutcome.MALFORMED:
        assert answer.code == 400
        assert msgspec.json.decode(answer.body)["kind"] == "Status"
        return
    reported = msgspec.json.decode(answer.body, type=Review)
    assert (reported.api_version, reported.kind) == ("admission.k8s.io/v1", "AdmissionReview")
    assert all(len(warning) <= MAX_WARNING for warning in reported.response.warnings)
    assert reported.response.allowed is (answer.outcome is ReviewOutcome.ALLOWED)
    if not reported.response.allowed:
        status = reported.response.status
        assert status is not None and status["code"] in (403, 422) and status["message"]
        assert 1 <= len(status["details"]["causes"]) <= MAX_SHOWN + 1


@pytest.mark.sampled(13)
@pytest.mark.law
@pytest.mark.timeout(600)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_review_is_answered_in_bounded_time(batch: int) -> None:
    cluster = hostile_cluster()
    loop, aside = reviewers(cluster, MarksReviews()), reviewers(cluster)
    maker = Maker(batch)
    for number in range(REVIEWS // BATCHES):
        path, body = maker.review()
        description = f"review {number} of seed {batch}: {body[:300]!r} …, {len(body)} bytes"
        answer, seconds = least_cpu(partial(answer_of, loop[path], body), MOST_CPU)
        assert seconds < MOST_CPU, description
        if answer is LARGE:
            answer, seconds = least_cpu(partial(answer_of, aside[path], body), MOST_CPU_ASIDE)
            assert seconds < MOST_CPU_ASIDE, description
        check(answer)
