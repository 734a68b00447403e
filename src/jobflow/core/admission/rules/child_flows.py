"""Rules of steps that run child flows (docs/decisions/child-flows.md). The child flows themselves
are judged by all rules (`validate`).

The names of a tree of flows, of all vcjobs, child flows and pods, are compared as lists of words
between dashes. The words of a step may be followed by an index, which is a number, and by the
number of a retry. The names are the paths of a graph, whose edges are words or ranges of numbers.
All names of a step lead into its child flow and into the tasks of its template, which are there
once, so the graph is as large as the manifests, however many names they make. Two names are the
same if equal words lead to two nodes: the search visits each such pair once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, product
from typing import NamedTuple

from jobflow.api.flow.control import Case
from jobflow.api.flow.jobflow import JobFlowSpec
from jobflow.api.flow.traits import InChild, WorkKind, fields_of, find_without
from jobflow.core.admission.analysis.child_flows import MAX_CHILDREN, MAX_LEVEL, count_children
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.rule import RuleGroup, Rules
from jobflow.core.violations import Reason, Violation
from jobflow.core.work import work_of

MAX_JOBS = 100_000
"""Vcjobs of an outermost flow and of all flows in it."""
_OTHERS = frozenset(field.json for field in fields_of(JobFlowSpec) if field.get(InChild) is None)
MAX_COMPARED = 20_000
"""Words of different names that a search compares: about twenty milliseconds. There are few if step
names do not repeat each other's words."""
_ANY = 1 << 31


def child_flows_have_the_right_types(facts: FlowFacts) -> Iterator[Violation]:
    for child in facts.children:
        yield from child.misfits.violations


def child_flows_have_own_fields(facts: FlowFacts) -> Iterator[Violation]:
    # a child flow is suspended and deleted with its parent
    for child in facts.children:
        for name in child.raw:
            if name in _OTHERS:
                detail = f"a child flow has no {name} of its own; remove it"
                yield Violation(f"{child.path}.{name}", Reason.FORBIDDEN, None, detail)


def steps_with_flows_have_no_job(facts: FlowFacts) -> Iterator[Violation]:
    for i in facts.steps_with_flows:
        step = facts.steps[i]
        for path, trait, _, owner, _ in find_without(step, WorkKind.FLOW, f"{facts.path(i)}."):
            is_of_case = isinstance(owner, Case)
            if is_of_case and not work_of(step, owner).has_steps:
                continue
            what = "case" if is_of_case else "step"
            advice = trait.instead.get(WorkKind.FLOW, "write it into the steps of the flow")
            detail = f"the {what} runs a flow, not a job; {advice}"
            yield Violation(path, Reason.FORBIDDEN, None, detail)


def child_flows_are_not_too_deep(facts: FlowFacts) -> Iterator[Violation]:
    # the outermost flow looks at all levels
    for path in _too_deep(facts) if facts.level == 1 else ():
        detail = (
            f"flows in flows have at most {MAX_LEVEL} levels; put its steps into the flow above"
        )
        yield Violation(path, Reason.FORBIDDEN, None, detail)


def _too_deep(facts: FlowFacts) -> Iterator[str]:
    for child in facts.children:
        if facts.level >= MAX_LEVEL:
            yield child.path
        elif child.facts is not None:
            yield from map(child.place, _too_deep(child.facts))


def child_flows_are_few(facts: FlowFacts) -> Iterator[Violation]:
    if (count := count_children(facts)) > MAX_CHILDREN:
        detail = (
            f"up to {count:,} child flows, but a flow has at most {MAX_CHILDREN:,}; let each do "
            "more (forEach.from counts as 1,000 items unless it is a param)"
        )
        yield Violation("spec.flows", Reason.TOO_MANY, count, detail)


def jobs_of_a_tree_are_few(facts: FlowFacts) -> Iterator[Violation]:
    if facts.level == 1 and (count := _jobs(facts)) > MAX_JOBS:
        detail = (
            f"up to {count:,} jobs with those of its child flows, but at most {MAX_JOBS:,} are "
            "allowed; split the flow, or reduce forEach.count and repeat.max (forEach.from counts "
            "as 1,000 items unless it is a param)"
        )
        yield Violation("spec.flows", Reason.TOO_MANY, count, detail)


def names_of_a_tree_are_unique(facts: FlowFacts) -> Iterator[Violation]:
    # step `b` of the child flow of step `a` makes the vcjob `<flow>-a-b`, and so does step `a-b`.
    # Rules of names look at the steps of one flow
    if facts.level > 1:
        return
    try:
        for name, first, second in TreeNames(facts).clashes():
            if len(second.path) < len(first.path):
                first, second = second, first
            what = "a pod" if second.task else "a job or child flow"
            detail = f"{first.path} makes {what} of this name too; rename one of the steps"
            full = f"{facts.flow_name}-{name}"
            yield Violation(f"{second.path}.name", Reason.DUPLICATE, full, detail)
    except TooManyNames:
        detail = "too many names of jobs are alike to compare them; give the steps other names"
        yield Violation("spec.flows", Reason.TOO_MANY, len(facts.names), detail)


def _jobs(facts: FlowFacts) -> int:
    inner: dict[int, int] = {}
    for child in facts.children:
        jobs = 0 if child.facts is None else _jobs(child.facts)
        inner[child.step] = max(inner.get(child.step, 0), jobs)
    runs = (1 if count.runs is None else count.runs for count in facts.job_counts)
    return sum(number * inner.get(i, 1) for i, number in enumerate(runs))


class TooManyNames(Exception):
    """The search for equal names was given up."""


class Maker(NamedTuple):
    flow: str
    """JSON path of its flow below the outermost, "" for that."""
    path: str
    step: str
    task: str = ""
    """The task, for the name of a pod."""


class _State(NamedTuple):
    """A place in a name."""

    node: _Node
    maker: Maker | None = None
    """The step of whose pods this is a name; None before the task begins."""

    @property
    def key(self) -> tuple[int, int]:
        return id(self.node), id(self.maker)


@dataclass(slots=True, eq=False)
class _Node:
    words: dict[str, _Node] = field(default_factory=dict)
    numerals: dict[str, _Node] = field(default_factory=dict)
    """The `words` that an index or a retry may equal."""
    numbers: dict[int, _Node] = field(default_factory=dict)
    """By the first number that is too large."""
    retries: dict[int, _Node] = field(default_factory=dict)
    """By the last number of a retry."""
    inner: list[_State] = field(default_factory=list)
    """The beginnings of what continues the names that end here: child flows and tasks."""
    makers: list[Maker] = field(default_factory=list)
    """Steps whose vcjobs or child flows have the name."""
    task: str = ""
    """The task whose pods have the name."""

    def below(self, text: str) -> _Node:
        node = self
        for word in text.split("-"):
            found = node.words.get(word)
            if found is None:
                found = node.words[word] = _Node()
                if word.removeprefix("r").isdecimal():
                    node.numerals[word] = found
            node = found
        return node


class TreeNames:
    """The names below an outermost flow, without its own name."""

    def __init__(self, facts: FlowFacts) -> None:
        self._tasks: dict[tuple[str, ...], _Node] = {}
        self._root = self._of_flow(facts, "", "")

    def clashes(self) -> Iterator[tuple[str, Maker, Maker]]:
        """Yield a name and two steps of different flows that make it. Raises TooManyNames."""
        root = _State(self._root)
        pending = [("", root, root)]
        seen = {(root.key, root.key)}
        compared = 0
        found: set[tuple[Maker, Maker]] = set()
        while pending:
            text, first, second = pending.pop()
            makers: Iterable[tuple[Maker, Maker]] = product(first.node.makers, second.node.makers)
            makers = (pair for pair in makers if pair[0].flow != pair[1].flow)
            if first.maker and second.maker and first.node.task and second.node.task:
                pod = first.maker._replace(task=first.node.task)
                makers = chain(makers, [(pod, second.maker._replace(task=second.node.task))])
            for pair in makers:
                # two steps clash in many names, for each item and retry
                if pair not in found:
                    found.add(pair)
                    yield text.removeprefix("-"), *pair
            for one, other in _continued(first, second):
                if one != other:  # the words of one place are compared once
                    compared += 1 + min(len(one.node.words), len(other.node.words))
                if compared > MAX_COMPARED:
                    raise TooManyNames
                for word, below, beside in _common(one.node, other.node):
                    reached = _State(below, one.maker), _State(beside, other.maker)
                    key = (reached[0].key, reached[1].key)
                    if key not in seen:
                        seen |= {key, key[::-1]}
                        pending.append((f"{text}-{word}", *reached))

    def _of_flow(self, facts: FlowFacts, flow: str, place: str) -> _Node:
        """Return the node at which names begin. `place`: the path in place of `spec`, or ""."""
        root = _Node()
        inner: dict[int, list[_State]] = {}
        paths = [facts.path(i) for i in range(len(facts.names))]
        if place:
            paths = [place + path.removeprefix("spec") for path in paths]
        makers = [Maker(flow, *each) for each in zip(paths, facts.names, strict=True)]
        for use in facts.resolved_steps:
            if (tasks := use.pods.tasks) not in self._tasks:
                beginning = self._tasks[tasks] = _Node()
                for task in tasks:
                    beginning.below(task).numbers.setdefault(_ANY, _Node()).task = task
            of_pods = _State(self._tasks[tasks], makers[use.step])
            inner.setdefault(use.step, []).append(of_pods)
        for child in facts.children:
            if child.facts is not None:
                below = place + child.path.removeprefix("spec") if place else child.path
                # one case of a switch runs, so two of them may make the same names
                of_child = self._of_flow(child.facts, f"{paths[child.step]}.flow", below)
                inner.setdefault(child.step, []).append(_State(of_child))
        for i, maker in enumerate(makers):
            node, count = root.below(maker.step), facts.job_counts[i]
            if count.runs is not None:
                node = node.numbers.setdefault(max(count.runs, 1), _Node())
            ends = [node]
            if count.retries:
                ends.append(node.retries.setdefault(count.retries, _Node()))
            for end in ends:
                end.makers.append(maker)
                end.inner += inner.get(i, ())
        return root


def _continued(first: _State, second: _State) -> Iterator[tuple[_State, _State]]:
    """Yield the places at which two names continue, except those of pods of one flow."""
    if first == second:
        # all that one name continues with are the tasks and child flows of one step
        yield from ((first, each) for each in (first, *first.node.inner))
        yield from ((each, each) for each in first.node.inner if each.maker is None)
        return
    for pair in product((first, *first.node.inner), (second, *second.node.inner)):
        flows = [each.maker.flow for each in pair if each.maker is not None]
        if len(flows) < 2 or flows[0] != flows[1]:
            yield pair


def _common(one: _Node, other: _Node) -> Iterator[tuple[str, _Node, _Node]]:
    """Yield each word, or one of a range, that continues two names, and where it leads."""
    if len(other.words) < len(one.words):
        yield from ((word, below, beside) for word, beside, below in _common(other, one))
        return
    # the smaller one is walked, so that a search is as long as what is common
    for word, below in one.words.items():
        if (beside := other.words.get(word)) is not None:
            yield word, below, beside
    for below, beside in product(one.numbers.values(), other.numbers.values()):
        yield "0", below, beside
    for below, beside in product(one.retries.values(), other.retries.values()):
        yield "r1", below, beside
    for word, below in one.numerals.items():
        yield from ((word, below, beside) for beside in _in_range(other, word))
    for word, beside in other.numerals.items():
        yield from ((word, below, beside) for below in _in_range(one, word))


def _in_range(node: _Node, word: str) -> Iterator[_Node]:
    """Yield where an index or a retry leads that is written so."""
    number = word.removeprefix("r")
    if not (number.isascii() and len(number) < 10) or (number[0] == "0" and number != "0"):
        return
    if number == word:
        yield from (below for limit, below in node.numbers.items() if int(word) < limit)
    elif number != "0":
        yield from (below for last, below in node.retries.items() if int(number) <= last)


LIMITS: Rules = (RuleGroup(lambda facts: facts.steps_with_flows, (child_flows_are_few,)),)
RULES: Rules = (
    RuleGroup(
        lambda facts: facts.steps_with_flows,
        (
            child_flows_have_the_right_types,
            child_flows_have_own_fields,
            steps_with_flows_have_no_job,
            child_flows_are_not_too_deep,
            jobs_of_a_tree_are_few,
            names_of_a_tree_are_unique,
        ),
    ),
)
