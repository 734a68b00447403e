"""The budget of a review: the work that is left for a flow and all flows in it.

The controller judges each child flow again when it is created, so what the budget leaves unjudged
is judged then. The verdict warns of it.
"""

import math
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from jobflow.api.flow.control import Param
from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.cel import references
from jobflow.core.cel.budget import MAX_STEPS
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import EvaluationScope, resolve_references
from jobflow.core.json_values import count_values
from jobflow.core.text import join_names

MAX_PARSED = 131_072
"""Characters of the expressions that are parsed."""
TRIAL_STEPS = MAX_STEPS
"""Steps of the expressions that are tried."""
MAX_TRIED_ITEMS = 100_000
"""Items that trials of references look at."""
MAX_JUDGED_CHILDREN = 2_000
"""Child flows, as they are written, that are judged."""
MAX_CHILD_REFERENCES = 2 << 20
"""Bytes of JSON that the references in child flows may expand to."""
MAX_REFERENCED = 8 << 20
"""Bytes of JSON that all references of an outermost flow may expand to."""
MAX_MERGED = 8 << 20
"""Bytes of JSON of the specs that layers are merged onto: 2,500 steps of 3 KiB, about a second."""
MAX_CHILD_TASKS = 100_000
"""Tasks of the templates that child flows run, counted in each flow."""
_CONSTANT_ROOTS = frozenset({"params", "flow"})
"""Roots of references whose values are known before anything runs."""

# The effort of each part, in about microseconds of the machine of docs/performance.md: the largest
# that was measured. What is counted is the same on every machine, so all agree on what is too much.
VALUE = 20
"""A JSON value in a step with options or in the rest of the spec."""
CHARACTER = 8
"""A character of an expression; each expression counts as ten more."""
REFERENCE, INSERTED_BYTE = 12, 0.01
"""A reference, and a byte of its value."""
FLOW = 150
"""A child flow, besides its values."""
TASK = 2
"""A task of a template that stays as it is."""
SPEC_VALUE = 5
"""A JSON value in the spec of a JobTemplate that is judged itself."""
MERGED_VALUE = 2.5
"""A JSON value of a template onto which layers are merged."""


class TooMuchEffort(Exception):
    """The object takes more effort than its judge may spend."""


def encode_roughly(value: Any) -> bytes:
    """Return a value as JSON, roughly if it has half characters, as YAML may. Raises TooMuchEffort
    if it is nested too deep for that."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return ascii(value).encode()
    except RecursionError:
        raise TooMuchEffort from None


class TreeBudget:
    """The work that is left. A part that is spent stays so; flows are judged in order."""

    characters = MAX_PARSED
    trial_steps = TRIAL_STEPS
    children = MAX_JUDGED_CHILDREN
    merged = MAX_MERGED
    tasks = MAX_CHILD_TASKS

    def __init__(self, effort: float = math.inf) -> None:
        self.effort = effort
        self.tried_items = MAX_TRIED_ITEMS
        self.references = references.ReferenceRoom(MAX_CHILD_REFERENCES)
        self.plain: dict[tuple[str, int, bool], Any] = {}
        """The specs of templates without layers, which flows with equal jobDefaults share."""
        self._unjudged: dict[str, None] = {}

    def spend(self, effort: float) -> None:
        """Raise TooMuchEffort if so much is not left."""
        self.effort -= effort
        if self.effort < 0:
            raise TooMuchEffort

    def spend_on_values(self, written: Any, params: Iterable[Param]) -> None:
        """Spend the effort of JSON values, and of their references to these params."""
        if self.effort == math.inf:
            return  # to encode them is no small part of the effort
        text = encode_roughly(written)
        self.spend(VALUE * count_values(text))
        if count := text.count(b"$("):
            largest = max((references.measure_json(param.value) for param in params), default=0)
            inserted = min(count * largest, MAX_REFERENCED)
            self.spend(REFERENCE * count + INSERTED_BYTE * inserted)

    def spend_on_template(self, spec: Any) -> None:
        if self.effort < math.inf:
            self.spend(SPEC_VALUE * count_values(encode_roughly(spec)))

    def leave_out(self, what: str, level: int) -> None:
        """Note what stays unjudged in a flow of a level: a noun in the plural."""
        self._unjudged[f"{what} of child flows" if level > 1 else what] = None

    @property
    def warning(self) -> str:
        """The parts that are not judged, or ""."""
        if not self._unjudged:
            return ""
        return (
            f"this flow is too large to be judged as a whole: some {join_names([*self._unjudged])} "
            "were not checked; each child flow is checked before it starts, and each job when "
            "the API server takes it"
        )


class Constants:
    """The known values of one flow. The values of the outermost flow have one limit, and the values
    of all child flows together have another one."""

    def __init__(self, flow: JobFlow, budget: TreeBudget, level: int) -> None:
        scope = EvaluationScope(flow, lambda name: None)
        self._get = cache(lambda text: resolve_references(text, scope))
        self._budget, self._level = budget, level
        self._room = references.ReferenceRoom(MAX_REFERENCED) if level == 1 else budget.references

    def insert(
        self, written: Mapping[str, Any], most: int = MAX_REFERENCED
    ) -> tuple[Mapping[str, Any], bool, bool]:
        """Return JSON with the known values of its references, whether others are open, and whether
        these values have more than `most` bytes, or than an outermost flow has room for."""
        is_open = False
        # a value counts each time that it is inserted
        left = min(most, self._room.left)
        room = references.ReferenceRoom(left)

        def value(reference: references.Reference) -> Any:
            nonlocal is_open
            text = f"$({reference.path})"
            if reference.root in _CONSTANT_ROOTS:
                found = self._get(text)
                if not isinstance(found, EvaluationFailure):
                    # a param of a child flow may have references of its parent
                    has_more = next(references.find_references(found, ""), None) is not None
                    is_open = is_open or has_more
                    return found
            is_open = True
            return text

        try:
            return references.replace_references(written, value, room), is_open, False
        except references.ReferencesTooLargeError:
            # in a child flow, the room may be small because other flows have used it
            if self._level == 1 or left == most:
                return written, True, True
            self._budget.leave_out("references", self._level)
            return written, True, False
        finally:
            self._room.left -= left - max(room.left, 0)
