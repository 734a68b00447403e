"""Loops, retries, locks and limits of time."""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from jobflow.api.duration import parse_duration
from jobflow.core.text import shorten
from jobflow.migrate.context import Context
from jobflow.migrate.expressions import values
from jobflow.migrate.expressions.cel import test_to_cel
from jobflow.migrate.expressions.parse import split_tags
from jobflow.migrate.expressions.values import Kind, Ref, Resolve, Text, UnsupportedExpression
from jobflow.migrate.fields import Field
from jobflow.migrate.templates import is_flow

Converted = TypeVar("Converted", str, Ref)
MAX_RETRIES = 100
_MAX_ITEMS = 1000
_KNOWN = re.compile(r"-?[0-9]{1,9}")


def duration(value: Field, context: Context) -> str | None:
    """Return a time in seconds, or in Go's notation, as a duration; None if it is reported."""
    text = values.literal(context.text(value))
    if text is None:
        value.gap("the time is not known before the flow runs: write a duration")
        return None
    text = text.strip()
    # Argo reads a number without a unit as seconds.
    span = f"{text}s" if re.fullmatch(r"\d+(\.\d+)?", text) else text
    try:
        parse_duration(span)
    except ValueError as error:
        value.gap(f'"{text}" {error}')
        return None
    return span


def limits_of(template: Field, context: Context) -> dict[str, Any]:
    """Return `retry`, `timeout` and `concurrency` of a step that calls a template."""
    found: dict[str, Any] = {}
    if retry := _retry(template, context):
        found["retry"] = retry
    for timeout in template.present("timeout"):
        timeout.check("counts from the start of the job; in Argo it counts while a pod waits too")
    limit = template.first("activeDeadlineSeconds", "timeout")
    if limit is not None and (span := duration(limit, context)):
        found["timeout"] = span
    return found | concurrency_of(template, context)


@dataclass(slots=True)
class Loop:
    for_each: dict[str, Any]
    kind: Kind = Kind.ANY
    keys: Set[str] = frozenset()
    """The keys that all items are known to have."""


def has_items(task: Field) -> bool:
    return task.first("withItems", "withParam", "withSequence") is not None


def loop_of(task: Field, context: Context) -> Loop | None:
    try:
        if (items := task.get("withItems")) is not None:
            return _with_items(items, context)
        if (listed := task.get("withParam")) is not None:
            return _with_param(listed, context)
        if (sequence := task.get("withSequence")) is not None:
            return _with_sequence(sequence, context)
    except UnsupportedExpression as error:
        task.gap(str(error))
    return None


def _with_param(listed: Field, context: Context) -> Loop:
    text = context.text(listed, must_exist=True)
    plain = values.literal(text)
    if plain is None:
        return Loop({"from": values.as_json(text)})
    found = values.json_of(plain)
    if not isinstance(found, list):
        raise UnsupportedExpression(f'"{plain[:40]}" is no JSON list')
    return _literal(listed, found)


def _with_items(items: Field, context: Context) -> Loop:
    if not items.is_list:  # one text, such as a parameter with a list
        return _with_param(items, context)
    if any(len(split_tags(text)) > 1 for text in map(str, items.data)):
        if any(each.is_map for each in items.items()):
            raise UnsupportedExpression("an item that is a map has a tag: use withParam")
        parts = [values.as_ref(context.text(each)).cel for each in items.items()]
        return Loop({"from": f"[{', '.join(parts)}]"})
    found = items.data
    kinds = frozenset(type(each) for each in found)
    kind = {frozenset({str}): Kind.TEXT, frozenset({int}): Kind.NUMBER}.get(kinds, Kind.ANY)
    return _literal(items, found, Kind.JSON if kinds <= {dict, list} else kind)


def _literal(field: Field, items: list[Any], kind: Kind = Kind.ANY) -> Loop:
    if len(items) > _MAX_ITEMS:
        field.gap(f"a loop has at most {_MAX_ITEMS:,} items: the others are left out")
    kept = items[:_MAX_ITEMS]
    keys = [{*each} if isinstance(each, dict) else set() for each in kept]
    common = set.intersection(*keys) if keys else set()
    return Loop({"items": kept}, kind, common)


def _with_sequence(sequence: Field, context: Context) -> Loop:
    bounds = {
        key: context.text(value, must_exist=True)
        for key in ("count", "start", "end")
        for value in sequence.present(key)
    }
    shape = sequence.get("format")
    start, step = _number(bounds.get("start", ("0",))), "+"
    if "count" in bounds:
        size = _number(bounds["count"])
    else:
        end = _number(bounds.get("end", ("0",)))
        if _KNOWN.fullmatch(start) and _KNOWN.fullmatch(end):
            step = "+" if int(end) >= int(start) else "-"
            size = str(abs(int(end) - int(start)) + 1)
        else:
            sequence.check("the sequence counts up; if it has to count down, change the range")
            size = f"{end} - {start} + 1" if start != "0" else f"{end} + 1"
    if shape is None and start == "0" and step == "+" and size.isdigit():
        return Loop({"count": int(size)}, Kind.NUMBER)
    numbers = f"range({size})"
    number = "i" if start == "0" and step == "+" else f"{start} {step} i"
    if shape is not None:
        return Loop({"from": _formatted(numbers, number, shape.text)}, Kind.TEXT)
    text = numbers if number == "i" else f"{numbers}.map(i, {number})"
    return Loop({"from": text}, Kind.NUMBER)


def _number(text: Text) -> str:
    plain = values.literal(text)
    if plain is not None:
        if not _KNOWN.fullmatch(plain.strip()):
            raise UnsupportedExpression(f'"{plain}" is no whole number')
        return plain.strip()
    ref = values.as_ref(text)
    return ref.cel if ref.kind is Kind.NUMBER else f"int({ref.cel})"


def _formatted(numbers: str, number: str, shape: str) -> str:
    """Return texts in a format of Go, such as `%02X`."""
    found = re.fullmatch(r"([^%]*)%(0?)([0-9]{0,9})([dxX])([^%]*)", shape)
    if found is None:
        raise UnsupportedExpression(f'the format "{shape}" has no equal')
    before, zero, width, letter, after = found.groups()
    if not width or int(width) < 2:
        return f'{numbers}.map(i, "{before}%{letter}{after}".format([{number}]))'
    if int(width) != 2:
        raise UnsupportedExpression(f'the width of the format "{shape}" has no equal')
    # Formats of CEL have no width, so a choice adds the sign that is missing.
    least = 10 if letter == "d" else 16
    shapes = f'"{before}{zero or " "}%{letter}{after}" : "{before}%{letter}{after}"'
    return f"{numbers}.map(i, ({number} < {least} ? {shapes}).format([{number}]))"


def _retry(template: Field, context: Context) -> dict[str, Any]:
    strategy = template.get("retryStrategy")
    if strategy is None:
        return {}
    retry: dict[str, Any] = {"limit": _limit(strategy, context)}
    policy = strategy.get("retryPolicy")
    # Argo calls it an error if the cluster ends a pod, and a failure if its container does.
    if policy is not None and policy.text in ("OnError", "OnTransientError"):
        retry |= {"limit": 0, "disruptions": retry["limit"]}
        policy.check("only attempts that the cluster ended are tried again (retry.disruptions)")
    for backoff in strategy.present("backoff"):
        found: dict[str, Any] = {}
        for key, ours in (("duration", "duration"), ("cap", "max")):
            for value in backoff.present(key):
                if (span := duration(value, context)) is not None:
                    found[ours] = span
        factor = backoff.get("factor")
        text = values.literal(context.text(factor)) if factor is not None else "1"
        # Without a factor, Argo waits as long each time; the default of retry.backoff is 2.
        if text is not None and (number := values.whole(text)) is not None:
            found["factor"] = max(number, 1)
        for limit in backoff.present("maxDuration"):
            limit.gap(
                "all attempts together have no limit of time: set spec.timeout or retry.limit"
            )
        if found:
            retry["backoff"] = found
    expression = strategy.get("expression")
    if expression is not None:
        # The condition is asked after a failure only, so that lastRetry always has a value.
        failed = replace(context, has_failed=True)
        try:
            retry["when"] = test_to_cel(expression.text, failed.resolver(expression))
        except UnsupportedExpression as error:
            expression.gap(str(error))
    # Nodes are avoided by the pods of one job.
    if strategy.at("affinity", "nodeAntiAffinity") is not None and not is_flow(template):
        retry["avoidNodes"] = True
    return retry


def _limit(strategy: Field, context: Context) -> int | str:
    limit = strategy.get("limit")
    if limit is None:
        strategy.check(f"no limit means {MAX_RETRIES} attempts after the first one")
        return MAX_RETRIES
    text = context.text(limit)
    plain, ref = values.literal(text), values.single(text)
    if ref is not None and ref.path.startswith("params."):
        limit.check("the param must be a number, not a text")
        return f"$({ref.path})"
    number = values.whole(plain) if plain is not None else None
    if number is None:
        limit.gap("the limit is not known before the flow runs: write a number")
        return 0
    if number > MAX_RETRIES:
        limit.check(f"retry.limit is at most {MAX_RETRIES}")
    return min(number, MAX_RETRIES)


def concurrency_of(owner: Field, context: Context) -> dict[str, Any]:
    """Return `concurrency` for the lock of a workflow or a template; empty without one."""
    if (lock := owner.get("synchronization")) is None:
        return {}
    mutexes = [*lock.listed("mutexes"), *lock.present("mutex")]
    locks = [*mutexes, *lock.listed("semaphores"), *lock.present("semaphore")]
    for further in locks[1:]:
        further.gap("a flow or a step belongs to one group only: choose one lock")
    if not locks:
        return {}
    for scope in locks[0].present("database", "namespace"):
        if not scope.is_map:
            scope.check("flows wait for each other in their own namespace of one cluster")
    if mutexes:
        mutex = locks[0].get("name")
        return {"concurrency": {"group": context.string(mutex) if mutex is not None else "mutex"}}
    reference = locks[0].first("configMapKeyRef", "database")
    name, key = "semaphore", ""
    if reference is not None:
        found = reference.first("name", "key")
        name = context.string(found) if found is not None else name
        key = reference.text_of("key")
    data = context.scope.workflow.config_maps.get(name, {})
    limit = values.whole(str(data.get(key, "")))
    if limit is None:
        locks[0].gap(f'the limit of "{name}" is in none of the files: set concurrency.limit')
    group = f"{name}-{key}" if key and key != name else name
    return {"concurrency": {"group": group, "limit": 1 if limit is None else limit}}


def converted(
    field: Field, context: Context, convert: Callable[[str, Resolve], Converted]
) -> Converted | None:
    """Return a condition or an expression in CEL; None if it is reported."""
    try:
        return convert(field.text, context.resolver(field))
    except UnsupportedExpression as error:
        field.gap(f'"{shorten(field.text)}" is not converted: {error}')
        return None
