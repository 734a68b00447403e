"""The timelines of runs, and one bar for many of them."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.flow.control import ForEach
from jobflow.api.flow.status import RunCondition, StepCondition
from jobflow.api.flow.step import Step
from jobflow.core.timelines.spans import Span, State, time_by_state
from jobflow.core.timelines.timeline import merge_spans, run_timelines
from support.plan.timelines import at, flow_of, of, record, spans


def test_each_run_has_its_attempts() -> None:
    runs = [
        RunCondition(index=0, phase="Completed", job="f-a-0-r1", attempts=2),
        RunCondition(index=1, phase="Running", job="f-a-1", attempts=1),
    ]
    step = Step(name="a", for_each=ForEach(count=3))
    flow = flow_of(
        {"a": (step, StepCondition(phase="Running", runs=runs, attempts=3))},
        [
            record("a-0", (0, 1, 5), "Failed"),
            record("a-0-r1", (8, 8, 20)),
            record("a-1", (2, 4, None), "Running"),
        ],
    )
    lines = [*run_timelines(flow, of(flow, 30), "a")]
    assert [(line.step, line.phase, line.attempts) for line in lines] == [
        ("a/0", "Completed", 2),
        ("a/1", "Running", 1),
    ]
    assert [spans(line) for line in lines] == ["q0-1 r1-5 w5-8 r8-20", "q2-4 r4-30+"]
    assert [span.outcome for span in lines[0].spans] == ["Failed", "Failed", "", "Completed"]


def test_a_step_without_runs_has_none() -> None:
    flow = flow_of({"a": StepCondition(phase="Waiting")}, [])
    assert [*run_timelines(flow, of(flow, 9), "a")] == []


SPANS = st.lists(
    st.builds(
        lambda state, start, length: Span(state, at(start), at(start + length)),
        st.sampled_from(State),
        st.integers(0, 30),
        st.integers(0, 9),
    )
)


@given(SPANS)
def test_merged_spans_take_the_same_times_and_do_not_touch(known: list[Span]) -> None:
    merged = merge_spans(known)
    start, end = at(0), at(40)
    assert time_by_state(merged, start, end) == time_by_state(known, start, end)
    for state in State:
        row = [span for span in merged if span.state is state]
        gaps = [behind.start - before.end for before, behind in zip(row, row[1:], strict=False)]
        assert all(gap > timedelta() for gap in gaps)
