"""Faults of fields that a value of an expression does not have, as clauses."""

from collections.abc import Collection, Sequence

from jobflow.api.flow.step import Step
from jobflow.core.cel.scope import FLOW_FAILURE_FIELDS, LAST_FIELDS
from jobflow.core.pods.failure import FACTS, FACTS_OF_CHILD
from jobflow.core.suggest import Suggester, did_you_mean


def undeclared_output(step: Step, keys: Sequence[str]) -> str | None:
    """Return the fault of an output that the child flow of the step does not have."""
    named = keys[1:2] if keys[0] == "outputs" else keys[3:4] if keys[2:3] == ["outputs"] else ()
    declared = (step.flow or {}).get("outputs") or {}
    if not named or not isinstance(declared, dict) or named[0] in declared:
        return None
    guess = Suggester([*declared]).nearest(named[0])
    return f'the flow of "{step.name}" has no output "{named[0]}"' + did_you_mean(guess)


def unknown_field(owner: str, keys: Sequence[str], known: Collection[str]) -> str:
    """Return the fault of the first key, which the owner does not have, or of a missing key."""
    listed = ", ".join(known)
    if not keys:
        return f"write which field of {owner} is meant: {listed}"
    guess = Suggester([*known]).nearest(keys[0])
    return f'{owner} has no "{keys[0]}"' + (did_you_mean(guess) or f"; it has {listed}")


def unknown_fact(keys: Sequence[str], *, of_child: bool) -> str | None:
    """Return the fault of keys below `failure`, or None."""
    if keys and keys[0] in FACTS_OF_CHILD and not of_child:
        return f'only the failure of a step that runs a flow has "{keys[0]}"'
    known = [fact for fact in FACTS if of_child or fact not in FACTS_OF_CHILD]
    return unknown_field("a failure", keys, known) if keys and keys[0] not in known else None


def unknown_last(keys: Sequence[str]) -> str | None:
    """Return the fault of keys below `last`, or None."""
    if keys and keys[0] not in LAST_FIELDS:
        return unknown_field("the last run", keys, LAST_FIELDS)
    return None


def unknown_failure(keys: Sequence[str]) -> str | None:
    """Return the fault of keys below an entry of `flow.failures`, or None."""
    if keys and keys[0] not in FLOW_FAILURE_FIELDS:
        return unknown_field("a failure of a step", keys, FLOW_FAILURE_FIELDS)
    return unknown_fact(keys[1:], of_child=True) if keys and keys[0] == "failure" else None
