"""Positions of steps in the tree: each step is below its immediate dominator."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.flow.control import ForEach
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.step import DependsOn
from jobflow.core.drawing.tree_layout import branches, guides
from support.plan.plan_world import after, flow
from support.plan.steps import step


def tree(jobflow: JobFlow, **options: int) -> list[str]:
    drawn = branches(jobflow, **options)
    prefixes = guides([branch.level for branch in drawn])
    return [
        f"{prefix}{branch.step.name}{'  ' + branch.follows if branch.follows else ''}"
        for prefix, branch in zip(prefixes, drawn, strict=True)
    ]


def test_a_join_is_below_its_dominator() -> None:
    assert tree(flow("a", b="a", c="b", d="b", e="c d").flow) == [
        "└─ a",
        "   └─ b",
        "      ├─ c",
        "      ├─ d",
        "      └─ e  after c and d",
    ]


def test_the_join_of_two_entry_steps_is_on_their_level() -> None:
    assert tree(flow("a", "b", c="a b", d="a", e="c d").flow) == [
        "├─ a",
        "│  └─ d",
        "├─ b",
        "├─ c  after a and b",
        "└─ e  after c and d",
    ]


def test_spec_order_does_not_matter() -> None:
    assert tree(flow(c="b", b="a", a=None).flow) == ["└─ a", "   └─ b", "      └─ c"]


def test_dependencies_that_the_position_does_not_show_are_printed() -> None:
    steps = {
        "b": after("a", condition="Failed"),
        "c": after("a", condition="Finished"),
        "d": after("a", condition="Running"),
        "e": after("b c", strategy="any"),
        "f": after("b c d e", condition="Failed", strategy="any"),
    }
    assert [line.split("  ")[-1] for line in tree(flow("a", **steps).flow)] == [
        "└─ a",
        "if a fails",
        "when a has finished",
        "once a runs",
        "after any of b or c",
        "if any of b, c, d or 1 more fails",
    ]


def test_targets_with_different_conditions_are_printed_by_condition() -> None:
    mixed = after("a b c", conditions={"b": "Failed", "c": "Finished"})
    either = after("a b", strategy="any", conditions={"b": "Failed"})
    assert tree(flow("a", "b", "c", d=mixed, e=either).flow)[3:] == [
        "├─ d  after a, if b fails and when c has finished",
        "└─ e  after a or if b fails",
    ]


def test_several_targets_have_a_plural_verb() -> None:
    steps: dict[str, Any] = {
        "c": after("a b", condition="Finished"),
        "d": after("a b", condition="Running", strategy="any"),
    }
    assert tree(flow("a", "b", **steps).flow)[2:] == [
        "├─ c  when a and b have finished",
        "└─ d  once any of a or b runs",
    ]


@pytest.mark.parametrize(
    ("condition", "follows"),
    [
        ({}, "after a and once d runs"),
        ({"conditions": {"d": "Completed"}}, "after a and d"),
        ({"condition": "Completed"}, "after a and d"),
        ({"conditions": {"d": "Finished"}}, "after a and when d has finished"),
    ],
)
def test_a_condition_on_a_daemon_is_shown_as_it_is_written(
    condition: dict[str, Any], follows: str
) -> None:
    last = tree(flow("a", d=step(daemon=True), b=after("a d", **condition)).flow)[-1]
    assert last == f"└─ b  {follows}"


def test_a_step_that_matches_items_says_so() -> None:
    each = step(for_each=ForEach(count=2))
    b, c = (DependsOn(targets=targets, items="Matching") for targets in (["a"], ["a", "b"]))
    assert tree(flow(a=each, b=b, c=c).flow) == [
        "└─ a",
        "   ├─ b  item by item",
        "   └─ c  after a and b, item by item",
    ]


def test_steps_of_finally_are_a_tree_of_their_own() -> None:
    world = flow("a", b="a").with_finally("z", y=step("z", condition="Finished"), x=step("z y"))
    assert tree(world.flow) == [
        "├─ a",
        "│  └─ b",
        "└─ z  finally",
        "   ├─ y  finally, when z has finished",
        "   └─ x  finally, after z and y",
    ]


def test_steps_below_the_deepest_level_are_on_that_level() -> None:
    chain = flow("s0", **{f"s{i}": f"s{i - 1}" for i in range(1, 5)})
    assert tree(chain.flow, max_level=2) == [
        "└─ s0",
        "   └─ s1",
        "      ├─ s2",
        "      ├─ s3  after s2",
        "      └─ s4  after s3",
    ]


@pytest.mark.parametrize("shape", ["chain", "ladder", "fan"])
def test_5000_steps_are_laid_out_without_recursion(shape: str) -> None:
    steps = {
        "chain": lambda i: f"s{i - 1}",
        "ladder": lambda i: f"s{i - 1} s{max(i - 2, 0)}",
        "fan": lambda i: "s0",
    }[shape]
    wide = flow("s0", **{f"s{i}": steps(i) for i in range(1, 5000)})
    assert len(branches(wide.flow)) == 5000


@given(st.lists(st.sets(st.integers(0, 30), max_size=4), max_size=30), st.integers(0, 6))
def test_every_step_has_one_line_after_all_its_dependencies(
    targets: list[set[int]], max_level: int
) -> None:
    steps = {
        f"s{i}": " ".join(f"s{t}" for t in sorted(numbers) if t < i) or None
        for i, numbers in enumerate(targets)
    }
    jobflow = flow(**steps).flow
    drawn = branches(jobflow, max_level=max_level)
    order = [branch.step.name for branch in drawn]
    assert sorted(order) == sorted(steps)
    for branch in drawn:
        assert all(order.index(t) < order.index(branch.step.name) for t in branch.step.targets)
        assert branch.level <= max_level
        if branch.level == 0 and branch.step.targets and max_level > 0:
            assert branch.follows
