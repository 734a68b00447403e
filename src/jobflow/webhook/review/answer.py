"""Answers to reviews, with their meaning for the metrics."""

from dataclasses import dataclass
from enum import StrEnum

from jobflow.core.violations import Violation
from jobflow.webhook.review.envelope import MalformedReview, malformed


class ReviewOutcome(StrEnum):
    """The outcome of a review, for the metrics."""

    ALLOWED = "allowed"
    REFUSED = "refused"
    MALFORMED = "malformed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP response to a review and its meaning."""

    body: bytes
    outcome: ReviewOutcome = ReviewOutcome.ALLOWED
    code: int = 200
    """HTTP status: 200 with every AdmissionReview, allowed or refused; 4xx without one."""
    operation: str = ""
    violations: tuple[Violation, ...] = ()


def not_a_review(error: MalformedReview) -> Answer:
    """Return the answer to a body that is not a review of this path."""
    return Answer(malformed(error), ReviewOutcome.MALFORMED, error.code)
