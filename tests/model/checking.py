"""Checks of what was done and stored at one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from model.reference import Reference


class Checking:
    def __init__(self, reference: Reference) -> None:
        self.reference = reference

    def check(self) -> None:
        """Check steps, aborts, creates and the flow, in this order."""
        self.check_steps()
        for work in self.reference.own_works.values():
            work.check()
        self.reference.inside.check()
        self.check_aborts()
        self.check_no_create_is_missing()
        self.check_flow()

    def check_no_create_is_missing(self) -> None:
        reference = self.reference
        missing = {
            (state.name, index)
            for state in reference.states.values()
            for index in reference.running.ready(state, strict=True)
            if reference.has_place(state)
        }
        assert not (missing and reference.room()), (
            f"at {reference.now} these ought to have been made: {missing}"
        )
        reference.waiting = missing

    def check_aborts(self) -> None:
        reference = self.reference
        for state in reference.states.values():
            for attempt in state.attempts:
                name = attempt.vcjob.name
                if not attempt.vcjob.alive:
                    continue
                actual, expected = reference.shown_intent(attempt), attempt.intent
                assert actual == expected, (
                    f"at {reference.now} {name} is to abort for {actual!r}: {expected!r}"
                )
                if expected and attempt.since == reference.now:
                    assert name in reference.seen.aborted, (
                        f"at {reference.now} {name} is not aborted"
                    )
                elif not expected:
                    assert name not in reference.seen.aborted, (
                        f"at {reference.now} {name} is aborted"
                    )

    def check_steps(self) -> None:
        reference = self.reference
        for state in reference.states.values():
            actual = reference.seen.steps[state.name]
            prefix = f"at {reference.now} {state.name} is {actual.phase} ({actual.reason})"
            if not state.ended:
                ended = actual.phase in ("Completed", "Failed", "Skipped")
                assert not ended, f"{prefix}, not over: {state.phase}"
                continue
            assert actual.phase == state.phase, f"{prefix}, not {state.phase} {state.reasons}"
            right = state.reasons is None or actual.reason in state.reasons
            assert right, f"{prefix}, not {set(state.reasons or ())}"
            state.reason, state.shown = actual.reason, actual.runs

    def check_flow(self) -> None:
        reference = self.reference
        ended = all(state.ended and not state.alive for state in reference.states.values())
        actual = reference.seen.phase
        final = actual in ("Succeed", "Failed")
        prefix = f"at {reference.now} the flow is {actual} ({reference.seen.reason})"
        if not ended:
            assert not final, f"{prefix}, but {reference.open_steps()}"
            waits = "Suspended" if reference.suspended else "Concurrency"
            assert not reference.waits or (actual, reference.seen.reason) == (
                "Pending",
                waits,
            ), prefix
            return
        reference.result = reference.end()
        reason = reference.ending or ("StepFailed" if reference.result == "Failed" else "")
        outputs, missing = reference.deciding.outputs(reference.result)
        if missing and reference.result == "Succeed":
            reference.result, reason = "Failed", "ExpressionError"
        assert actual == reference.result, f"{prefix}, not {reference.result}"
        assert (reference.seen.outputs or {}) == outputs, f"{prefix}: {outputs}"
        assert reference.seen.reason == reason, f"{prefix}, not for {reason!r}"
        assert reference.seen.progress == f"{len(reference.states)}/{len(reference.states)}"
