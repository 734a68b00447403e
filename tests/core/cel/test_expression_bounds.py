"""Bounds: time, memory and budget of expensive expressions."""

import sys
import tracemalloc
from functools import partial
from random import Random

import pytest

from jobflow.core.cel import expression as expressions
from jobflow.core.cel.budget import Budget
from jobflow.core.cel.expression import (
    MAX_LENGTH,
    EvaluationFailure,
    Expression,
    ExpressionFault,
    parse_expression,
)
from support.admission.reviewed import faults, flow_of
from support.laws.cel_grammar import HUGE, hostile
from support.laws.cpu_time import least_cpu
from support.laws.effort_of_laws import STRIDE
from support.plan.plan_world import flow
from support.plan.steps import step

CPU = 0.5 if sys.gettrace() else 0.2
"""Seconds to parse an expression, and to evaluate it. The law is 0.1 s; other tests on the
same cores up to double the CPU time, and coverage slows it down further."""
MEMORY = 10_000_000

TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 0]"
EVIL = r'"a".matches("\x5cpL\x7b330\x7d")'
for name in "lkji":
    EVIL = f"{TEN}.exists({name}, {EVIL})"


@pytest.mark.long
@pytest.mark.law
def test_a_hostile_expression_takes_at_most_a_tenth_of_a_second() -> None:
    random = Random(23)
    for _ in range(12_000 // STRIDE):
        text = hostile(random)
        assert len(text) <= MAX_LENGTH
        found = expressions.parse_cached.__wrapped__(text)
        assert least_cpu(partial(expressions.parse_cached.__wrapped__, text), CPU)[1] < CPU, text
        if isinstance(found, Expression):
            assert least_cpu(partial(found.evaluate, HUGE), CPU)[1] < CPU, text


@pytest.mark.law
def test_a_hostile_expression_takes_at_most_ten_megabytes() -> None:
    random = Random(42)
    tracemalloc.start()
    try:
        for _ in range(1_000 // STRIDE):
            found = parse_expression(text := hostile(random))
            if isinstance(found, Expression):
                before, _ = tracemalloc.get_traced_memory()
                tracemalloc.reset_peak()
                found.evaluate(HUGE)
                assert tracemalloc.get_traced_memory()[1] - before < MEMORY, text
    finally:
        tracemalloc.stop()


@pytest.mark.long
def test_an_expression_uses_the_same_budget_each_time() -> None:
    random = Random(5)
    for _ in range(50):
        text = hostile(random)
        budgets = [Budget(), Budget()]
        results = []
        for budget in budgets:
            found = expressions.parse_cached.__wrapped__(text)
            results.append(
                found if isinstance(found, ExpressionFault) else repr(found.evaluate(HUGE, budget))
            )
        assert results[0] == results[1]
        assert (budgets[0].steps, budgets[0].bytes) == (budgets[1].steps, budgets[1].bytes)


@pytest.mark.parametrize(
    "text",
    [
        "+".join(["1"] * 512),
        "-".join(["x"] * 512),
        "&&".join(["t"] * 341),
        "==".join(["t"] * 341),
        "!" * 1023 + "t",
        "-" * 1023 + "x",
        "t?1:" * 255 + "2",
        "f?1:" * 255 + "2",
        "x" + ".a" * 511,
        "x[0]" + "[0]" * 340,
        "f()" + ".f()" * 255,
        "l" + ".map(v,v)" * 113,
        "l" + ".map(v,[v])" * 92,
        "(" * 16 + "t?!t:t||t&&1==1+1*-1" + ")" * 16,
        "[" * 16 + "1" + "]" * 16,
    ],
)
def test_chains_do_not_reach_the_recursion_limit(text: str) -> None:
    context = {"x": 1, "t": True, "f": False, "l": [1]}
    found = parse_expression(text)
    assert isinstance(found, Expression), found
    value = found.evaluate(context)
    assert not isinstance(value, EvaluationFailure) or "recursion" not in value.message


def test_an_expensive_pattern_is_refused_in_new_and_stored_flows() -> None:
    """A stored flow may have bypassed the webhook."""
    assert parse_expression(EVIL) == ExpressionFault(
        "the pattern of matches is too large; use fewer repetitions", EVIL.index("matches")
    )
    (fault,) = faults(flow_of({"name": "a", "when": EVIL}))
    assert fault.endswith("the pattern of matches is too large; use fewer repetitions")
    state = flow(a=step(when=EVIL)).plan().status.state
    assert (state.phase, state.reason) == ("Failed", "Invalid")


TENFOLD = "".join(f".map({name}, [{', '.join(name * 10)}])" for name in "abcdefgh")
DOUBLED = "[params.p]" + ".map(a, a + a)" * 6


@pytest.mark.parametrize(
    "text",
    [
        f"[1][[1]{TENFOLD}] == 1",
        f"{{'a': 1}}[[1]{TENFOLD}] == 1",
        f"1[[1]{TENFOLD}] == 1",
        f"{DOUBLED}.exists(t, {TEN}.exists(i, {TEN}.exists(j, {TEN}.exists(k, "
        "{t: 1, t: 2} == {}))))",
        f"{DOUBLED}.exists(t, {DOUBLED}.exists(u, {TEN}.exists(i, {TEN}.exists(j, "
        f"{TEN}.exists(k, {{t: 1}} != {{u: 1}})))))",
        f"{DOUBLED}.exists(t, {DOUBLED}.exists(u, {TEN}.exists(i, {TEN}.exists(j, "
        f"{TEN}.exists(k, {{t: 0}}[u] == 1)))))",
        f"{DOUBLED}.exists(t, {TEN}.exists(i, {TEN}.exists(j, {TEN}.exists(k, "
        "[{'k': t}, {'k': t + ''}].maxBy('k').k == ''))))",
        "params.l.exists(i, params.l.exists(j, params.l[params.l] == 1))",
    ],
)
def test_messages_and_keys_are_bounded(text: str) -> None:
    """Values that share their entries are small in memory, but huge as text."""
    found = parse_expression(text)
    assert isinstance(found, Expression), found
    context = {"params": {"p": "\x01" * 10_000, "l": list(range(12_000))}}
    assert least_cpu(partial(found.evaluate, context), CPU)[1] < CPU
    tracemalloc.start()
    try:
        value = found.evaluate(context)
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()
    assert not isinstance(value, EvaluationFailure) or len(value.message) < 500


def test_numbers_of_any_size_can_be_compared() -> None:
    found = parse_expression("params.x > 1")
    assert isinstance(found, Expression)
    assert found.evaluate({"params": {"x": 10**400}}) is True
    assert found.evaluate({"params": {"x": -(10**400)}}) is False


def test_invalid_patterns_are_not_written_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    assert isinstance(parse_expression("params.x.matches('(?<=a)[')"), ExpressionFault)
    assert capfd.readouterr() == ("", "")


@pytest.mark.law
def test_a_thousand_different_conditions_are_admitted_quickly() -> None:
    """Measure the least CPU time of several attempts, because other processes add to it."""
    first = {"name": "s-0"}
    steps = [
        {
            "name": f"s-{number}",
            "dependsOn": {"targets": [f"s-{number - 1}"]},
            "when": f'steps["s-{number - 1}"].phase == "Completed" && params.n > {number % 9}',
        }
        for number in range(1, 1000)
    ]
    jobflow = flow_of(first, *steps, params=[{"name": "n", "value": 20}])

    def admit() -> None:
        expressions.parse_cached.cache_clear()
        assert faults(jobflow) == []

    bound = 0.9 if sys.gettrace() else 0.3
    assert least_cpu(admit, bound)[1] < bound


def test_an_ordinary_pattern_is_cheap() -> None:
    """One plan evaluates a thousand conditions with a pattern."""
    found, budget = parse_expression('params.x.matches("^v[0-9]+$")'), Budget()
    assert isinstance(found, Expression)
    assert found.evaluate({"params": {"x": "v12"}}, budget) is True
    assert 1000 * (Budget().steps - budget.steps) < Budget().steps
