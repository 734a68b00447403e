"""Names of a tree of flows: of all vcjobs and child flows, and of the pods of vcjobs.

A name is a list of words between dashes. The words of a step may be followed by an index, which is
a number, and by the number of a retry. All names are put into one trie, whose edges are words or
ranges of numbers; two names are the same if one path of words leads to both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from jobflow.core.admission.analysis.jobs.job_counts import JobCount

if TYPE_CHECKING:
    from jobflow.core.admission.analysis.flow_facts import FlowFacts

MAX_VISITS = 300_000
"""Nodes that a search visits: about half a second."""
_ANY = 1 << 31


class TooManyNames(Exception):
    """The search for equal names was given up."""


class Owner(NamedTuple):
    """A step that makes a name."""

    flow: str
    """JSON path of its flow below the outermost, "" for that."""
    path: str
    """JSON path of the step."""
    step: str
    task: str = ""
    """The task, for the name of a pod."""


@dataclass(slots=True, eq=False)
class _Node:
    words: dict[str, _Node] = field(default_factory=dict)
    numbers: dict[int, _Node] = field(default_factory=dict)
    """By the first number that is too large."""
    retries: dict[int, _Node] = field(default_factory=dict)
    """By the last number of a retry."""
    owners: list[Owner] = field(default_factory=list)

    def below(self, text: str) -> _Node:
        node = self
        for word in text.split("-"):
            node = node.words.setdefault(word, _Node())
        return node


class TreeNames:
    """The names below an outermost flow, without its own name."""

    def __init__(self, facts: FlowFacts) -> None:
        self._jobs, self._pods = _Node(), _Node()
        self._add(facts, [self._jobs], [self._pods], "", "")

    def clashes(self) -> Iterator[tuple[str, Owner, Owner]]:
        """Yield a name and two steps of different flows that make it. Raises TooManyNames."""
        yield from _clashes(self._jobs)
        yield from _clashes(self._pods)

    def _add(
        self, facts: FlowFacts, jobs: list[_Node], pods: list[_Node], flow: str, place: str
    ) -> None:
        """`place`: the JSON path that replaces `spec`, "" for the outermost flow."""
        of_step: dict[int, list[Sequence[str]]] = {}
        for use in facts.resolved_steps:
            of_step.setdefault(use.step, []).append(use.pods.tasks)
        for i, name in enumerate(facts.names):
            path = facts.path(i)
            path = place + path.removeprefix("spec") if place else path
            count = facts.job_counts[i]
            owner = Owner(flow, path, name)
            ends = _ends(jobs, name, count)
            for node in ends:
                node.owners.append(owner)
            pod_ends = _ends(pods, name, count)
            for tasks in of_step.get(i, ()):
                for task in tasks:
                    for node in pod_ends:
                        pod = node.below(task).numbers.setdefault(_ANY, _Node())
                        pod.owners.append(owner._replace(task=task))
            for child in (c for c in facts.children if c.step == i):
                if child.facts is not None:
                    below = place + child.path.removeprefix("spec") if place else child.path
                    # one case of a switch runs, so two of them may make the same names
                    self._add(child.facts, ends, pod_ends, f"{path}.flow", below)


def _ends(starts: list[_Node], name: str, count: JobCount) -> list[_Node]:
    """Return the nodes at which the names of a step end."""
    found = []
    for start in starts:
        node = start.below(name)
        if count.runs is not None:
            node = node.numbers.setdefault(max(count.runs, 1), _Node())
        found.append(node)
        if count.retries:
            found.append(node.retries.setdefault(count.retries, _Node()))
    return found


def _clashes(root: _Node) -> Iterator[tuple[str, Owner, Owner]]:
    pending: list[tuple[str, list[_Node]]] = [("", [root])]
    visits = 0
    while pending:
        text, nodes = pending.pop()
        visits += len(nodes)
        if visits > MAX_VISITS:
            raise TooManyNames
        owners = [owner for node in nodes for owner in node.owners]
        for other in owners[1:]:
            if other.flow != owners[0].flow:
                yield text.removeprefix("-"), owners[0], other
                break
        words = {word for node in nodes for word in node.words}
        words |= {"0"} if any(node.numbers for node in nodes) else set()
        words |= {"r1"} if any(node.retries for node in nodes) else set()
        for word in words:
            reached = [below for node in nodes for below in _follow(node, word)]
            pending.append((f"{text}-{word}", reached))


def _follow(node: _Node, word: str) -> Iterator[_Node]:
    if (found := node.words.get(word)) is not None:
        yield found
    if _is_number(word):
        yield from (below for limit, below in node.numbers.items() if int(word) < limit)
    elif word[:1] == "r" and word != "r0" and _is_number(word[1:]):
        yield from (below for last, below in node.retries.items() if int(word[1:]) <= last)


def _is_number(word: str) -> bool:
    decimal = word.isascii() and word.isdigit() and len(word) < 10
    return decimal and (word == "0" or word[0] != "0")
