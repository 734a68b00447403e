"""Dependencies of tasks: `dependencies`, `depends` and groups of steps as `dependsOn`.

A failure does not fail Argo's workflow if the tasks at the end of all branches run in spite of it.
A task that does not run has the phase of what it depends on.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush
from typing import Any

from jobflow.migrate.expressions.values import UnsupportedExpression, quote
from jobflow.migrate.fields import Budget
from jobflow.migrate.scopes import StepInfo

_TOKEN = re.compile(r"&&|\|\||[!()]|[\w-]+(?:\.\w+)?|\S")
# Brackets and negations inside of each other, so that no text reaches Python's limit of recursion.
_MAX_DEPTH = 50
_FAILED = frozenset({"Failed", "Errored"})
_PASSED = frozenset({"Succeeded"})
_DEFAULT = frozenset({"Succeeded", "Skipped", "Daemoned"})
_OF_ITEMS = frozenset({"AnySucceeded", "AllFailed"})
# An end that the task cannot have, such as Skipped without a condition.
_NEVER = "never"
_TESTS = {
    "Succeeded": '{0}.phase == "Completed"',
    "Failed": '{0}.phase == "Failed"',
    "Errored": '{0}.phase == "Failed"',
    "Skipped": '{0}.reason == "NotTaken"',
    "Omitted": '{0}.phase == "Skipped"',
    "Daemoned": '{0}.phase == "Running"',
    "AnySucceeded": '{0}.items.exists(i, i.phase == "Completed")',
    "AllFailed": 'size({0}.items) > 0 && {0}.items.all(i, i.phase == "Failed")',
}


@dataclass(frozen=True, slots=True)
class Term:
    """A task, and the ends that are asked of it; empty: those by default."""

    task: str
    ends: frozenset[str] = frozenset()

    @property
    def accepted(self) -> frozenset[str]:
        return self.ends or _DEFAULT

    @property
    def condition(self) -> str | None:
        """The condition of `dependsOn` that means these ends, or None."""
        ends = self.accepted
        if ends == {"Daemoned"}:
            return "Running"
        if ends <= _FAILED:
            return "Failed"
        if "Succeeded" in ends and "Omitted" not in ends:
            return "Finished" if ends & _FAILED else "Completed"
        return None


@dataclass(frozen=True, slots=True)
class Junction:
    sign: str
    parts: tuple[Junction | Term, ...]


@dataclass(slots=True)
class Dependencies:
    terms: list[Term] = field(default_factory=list)
    is_any: bool = False
    test: Junction | Term | None = None
    """The condition after all tasks have ended, if `dependsOn` cannot say it."""
    tests: list[Term] = field(default_factory=list)
    may_follow_none: bool = False
    """Whether all tasks may be skipped although nothing fails."""

    @property
    def tasks(self) -> list[str]:
        return [*dict.fromkeys(term.task for term in self.terms)]

    def holds(self, ends: Mapping[str, str]) -> bool:
        """Whether a task runs, given how others have ended: Succeeded, Failed or Omitted."""
        if self.test is not None:
            return _holds(self.test, ends)
        found = [_holds(term, ends) for term in self.terms]
        return any(found) if self.is_any and found else all(found)

    def required(self) -> set[str]:
        """Return the tasks without whose success the task does not run, however others end."""
        terms = (
            self.terms if self.test is None and (not self.is_any or len(self.terms) == 1) else []
        )
        if isinstance(self.test, Junction) and self.test.sign == "&&":
            terms = [part for part in self.test.parts if isinstance(part, Term)]
        ends = ("Failed", "Omitted")
        return {t.task for t in terms if not any(_holds(t, {t.task: end}) for end in ends)}

    def require_success(self, term: Term) -> None:
        """Let the task run only if another one, whose failure is forgiven, has not failed."""
        if not self.is_any:
            self.tests.append(Term(term.task, term.accepted - {"Daemoned"}))
        self.wait_for_all()

    def wait_for_all(self) -> None:
        """Let a task that one of several lets run wait for all of them, as in Argo: a step that is
        skipped, or whose failure is forgiven, would let it run too."""
        if self.is_any and self.test is None:
            self.test = Junction("||", tuple(self.terms))

    @property
    def has_ends(self) -> bool:
        return self.test is not None or any(term.ends for term in self.terms)

    def manifest(self, infos: Mapping[str, StepInfo]) -> dict[str, Any]:
        """Return `dependsOn`."""
        found: dict[str, Any] = {"targets": [infos[task].name for task in self.tasks]}
        if self.is_any and self.test is None:
            found["strategy"] = "any"
        conditions = {}
        for term in self.terms:
            condition = "Finished" if self.test is not None else term.condition
            # A target that was not taken meets only these conditions.
            info = infos[term.task]
            may_be_skipped = self.test is not None or (
                "Skipped" in term.accepted and not (info.is_taken or info.is_daemon)
            )
            if "Omitted" in term.ends or (self.may_follow_none and may_be_skipped):
                condition = "NotFailed" if condition == "Completed" else "Always"
            if condition not in (None, "Completed"):
                conditions[info.name] = condition
        if len({*conditions.values()}) == 1 and len(conditions) == len(found["targets"]):
            found["condition"] = next(iter(conditions.values()))
        elif conditions:
            found["conditions"] = conditions
        return found

    def when(self, infos: Mapping[str, StepInfo]) -> str:
        """Return CEL of what `dependsOn` cannot say, or an empty text."""
        tests = [] if self.test is None else [self.test]
        return " && ".join(_cel(each, infos) for each in (*tests, *self.tests))


def after(tasks: Sequence[str]) -> Dependencies:
    return Dependencies([Term(task) for task in tasks])


def parse_depends(text: str, *, loops: Container[str], conditional: Container[str]) -> Dependencies:
    """Return the dependencies that a `depends` describes. Raises UnsupportedExpression."""
    reader = _DependsParser(_TOKEN.findall(text), loops, conditional)
    tree = _simplified(reader.either())
    if token := reader.next:
        raise UnsupportedExpression(f'"{token}" is not expected there')
    parts = (tree,) if isinstance(tree, Term) else tree.parts
    terms = [part for part in parts if isinstance(part, Term)]
    is_negation = isinstance(tree, Junction) and tree.sign == "!"
    # dependsOn joins terms in one way only, with one condition for each task.
    simple = len(terms) == len(parts) and len({term.task for term in terms}) == len(terms)
    if simple and not is_negation and all(term.condition is not None for term in terms):
        return Dependencies(terms, is_any=isinstance(tree, Junction) and tree.sign == "||")
    return Dependencies(list(_terms(tree)), test=tree)


@dataclass(slots=True)
class _DependsParser:
    tokens: list[str]
    loops: Container[str]
    conditional: Container[str]
    """Tasks with a `when` of their own."""
    at: int = 0
    depth: int = 0

    @property
    def next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def either(self) -> Junction | Term:
        return self.joined("||", lambda: self.joined("&&", self.one))

    def joined(self, sign: str, part: Any) -> Junction | Term:
        parts = [part()]
        while self.next == sign:
            self.at += 1
            parts.append(part())
        return parts[0] if len(parts) == 1 else Junction(sign, tuple(parts))

    def one(self) -> Junction | Term:
        token, self.at = self.next, self.at + 1
        if token in ("(", "!"):
            self.depth += 1
            if self.depth > _MAX_DEPTH:
                raise UnsupportedExpression("it is nested too deep")
            found = self.either() if token == "(" else Junction("!", (self.one(),))
            self.depth -= 1
            if token == "(" and self.next != ")":
                raise UnsupportedExpression('a ")" is missing')
            if token == "(":
                self.at += 1
            return found
        task, _, end = token.partition(".")
        if not re.fullmatch(r"[\w-]+", task) or (end and end not in _TESTS):
            raise UnsupportedExpression(f'"{token or "the end"}" is not expected there')
        if task not in self.loops and (
            end in _OF_ITEMS or (end == "Skipped" and task not in self.conditional)
        ):
            end = _NEVER
        return Term(task, frozenset({end} if end else ()))


def _simplified(tree: Junction | Term) -> Junction | Term:
    """Join alternatives about one task into one term, and conjunctions inside each other."""
    if isinstance(tree, Term):
        return tree
    parts: list[Junction | Term] = []
    for part in map(_simplified, tree.parts):
        nested = isinstance(part, Junction) and part.sign == tree.sign != "!"
        parts += part.parts if isinstance(part, Junction) and nested else (part,)
    if tree.sign == "||":
        ends: dict[str, frozenset[str]] = {}
        for part in parts:
            if isinstance(part, Term) and not part.ends & _OF_ITEMS:
                ends[part.task] = ends.get(part.task, frozenset()) | (part.ends or _DEFAULT)
        merged = {task: Term(task, frozenset() if e == _DEFAULT else e) for task, e in ends.items()}
        # AnySucceeded and AllFailed are about items, and stay terms of their own.
        joined = (
            merged[part.task] if isinstance(part, Term) and not part.ends & _OF_ITEMS else part
            for part in parts
        )
        parts = [*dict.fromkeys(joined)]
    return parts[0] if len(parts) == 1 and tree.sign != "!" else Junction(tree.sign, tuple(parts))


def _terms(tree: Junction | Term) -> Iterator[Term]:
    if isinstance(tree, Term):
        yield Term(tree.task, tree.ends or _PASSED)
        return
    for part in tree.parts:
        yield from _terms(part)


def _holds(tree: Junction | Term, ends: Mapping[str, str]) -> bool:
    if isinstance(tree, Term):
        end = ends.get(tree.task, "Succeeded")
        if end == "Failed":
            return bool(tree.ends & (_FAILED | {"AllFailed"}))
        return end in tree.accepted or (end == "Succeeded" and "AnySucceeded" in tree.ends)
    parts = [_holds(part, ends) for part in tree.parts]
    if tree.sign == "!":
        return not parts[0]
    return any(parts) if tree.sign == "||" else all(parts)


def _cel(tree: Junction | Term, infos: Mapping[str, StepInfo]) -> str:
    if isinstance(tree, Term):
        info = infos[tree.task]
        usual = _PASSED | {"Skipped"} | ({"Failed"} if info.is_tolerated else set())
        ends, is_conditional = tree.ends or usual, not info.is_taken
        tests: dict[str, None] = {}
        for end in sorted(ends - {_NEVER}):
            if end == "Omitted" and is_conditional:
                tests['({0}.phase == "Skipped" && {0}.reason != "NotTaken")'] = None
            elif end != "Skipped" or is_conditional:
                tests[_TESTS[end]] = None
        # Argo skips a loop without items.
        if "Skipped" in ends and "Succeeded" not in ends and info.is_loop:
            tests["size({0}.items) == 0"] = None
        texts = [test.format(f"steps[{quote(info.name)}]") for test in tests]
        return texts[0] if len(texts) == 1 else f"({' || '.join(texts)})" if texts else "false"
    parts = [_cel(part, infos) for part in tree.parts]
    return f"!({parts[0]})" if tree.sign == "!" else f"({f' {tree.sign} '.join(parts)})"


# Terms of dependencies that are tried for all tasks of a template.
_MOST_TERMS = 300_000


def forgiven(tasks: Mapping[str, Dependencies]) -> set[str]:
    """Return the tasks whose failure alone does not fail the workflow, given the dependencies of
    all tasks by name. Raises TooLargeError."""
    outcomes = _Outcomes(tasks)
    followed = [name for name in tasks if name in outcomes.followers]
    return {name for name in followed if outcomes.end_well_without(name)}


class _Outcomes:
    """The ends of all tasks if none fails, and how they change if one does."""

    def __init__(self, tasks: Mapping[str, Dependencies]) -> None:
        self.followers: dict[str, list[str]] = {}
        for name, depends in tasks.items():
            for before in depends.tasks:
                self.followers.setdefault(before, []).append(name)
        self._tasks = tasks
        self._names = in_order(tasks)
        self._order = {name: place for place, name in enumerate(self._names)}
        self._budget = Budget(_MOST_TERMS + sum(len(each.terms) for each in tasks.values()))
        self._fatal = set[str]()
        """Tasks without whose success no task of some branch behind them runs."""
        required = {name: depends.required() for name, depends in tasks.items()}
        for name in reversed(self._names):
            after = self.followers.get(name, ())
            if not after or any(each in self._fatal and name in required[each] for each in after):
                self._fatal.add(name)
        self._usual: dict[str, str] = {}
        for name in self._names:
            self._usual[name] = "Succeeded" if self._runs(name, self._usual) else "Omitted"

    def end_well_without(self, failed: str) -> bool:
        """Whether Argo's workflow succeeds if only this task fails, and those that have to fail
        before it runs. Only tasks behind a changed one are looked at."""
        depends, failing = self._tasks[failed], {failed}
        if not depends.holds({}):
            failing |= {term.task for term in depends.terms if not _holds(term, {})}
        if failing & self._fatal:
            return False
        given, ends = frozenset(failing), ChainMap(dict.fromkeys(failing, "Failed"), self._usual)
        pending = [self._order[each] for name in failing for each in self.followers.get(name, ())]
        # In the order of the tasks, so that each is decided once, after those before it.
        heapify(pending)
        while pending:
            place = heappop(pending)
            name = self._names[place]
            if (pending and pending[0] == place) or name in given:
                continue
            runs = self._runs(name, ends)
            ends[name] = "Succeeded" if runs else "Omitted"
            if not runs and not failing.isdisjoint(self._tasks[name].tasks):
                failing.add(name)
                if name in self._fatal:
                    return False
            if name in failing or ends[name] != self._usual[name]:
                for follower in self.followers.get(name, ()):
                    heappush(pending, self._order[follower])
        return True

    def _runs(self, name: str, ends: Mapping[str, str]) -> bool:
        depends = self._tasks[name]
        self._budget.spend(len(depends.terms))
        return depends.holds(ends)


def in_order(tasks: Mapping[str, Dependencies]) -> list[str]:
    """Return the names, each after those that it depends on; as written if tasks form a cycle,
    which lint reports."""
    try:
        return [*TopologicalSorter({n: each.tasks for n, each in tasks.items()}).static_order()]
    except CycleError:
        return [*tasks]
