"""References that are suggested for mistaken ones: only those that admission accepts."""

from collections.abc import Iterable, Iterator
from itertools import islice

from jobflow.core.admission.analysis.flow_expressions import ReferenceTrial
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.places import ExpressionPlace
from jobflow.core.admission.mistaken_references import PLACEHOLDER
from jobflow.core.cel.references import has_reference, parse_reference

_MOST_NAMES = 20
"""Names that are tried in place of one that a text does not have."""


class SuggestedReferences:
    """Judges suggestions for the steps of one flow, by the rules of its references."""

    def __init__(self, facts: FlowFacts) -> None:
        self._facts = facts
        self._trial = ReferenceTrial(facts.flow, facts.steps, facts.budget, facts.level)

    def nearest(self, place: ExpressionPlace, path: str) -> str:
        """Return the path if a reference at the place can have it, with a name in place of its
        placeholder; "" if none can."""
        accepted = (each for each in self._filled(place, path) if self._accepts(place, each))
        return next(accepted, "")

    def _accepts(self, place: ExpressionPlace, path: str) -> bool:
        if not has_reference(f"$({path})"):
            return False
        reference = parse_reference(path)
        fault = self._facts.expressions.scope.reference_fault(place, reference.root, reference.keys)
        return (fault or self._trial.fault(place.position, reference)) is None

    def _filled(self, place: ExpressionPlace, path: str) -> Iterator[str]:
        root, *keys = path.split(".")
        if keys[:1] != [PLACEHOLDER]:
            yield path
            return
        for name in islice(self._names(place, root), _MOST_NAMES):
            yield ".".join((root, name, *keys[1:]))

    def _names(self, place: ExpressionPlace, root: str) -> Iterable[str]:
        step = self._facts.steps[place.position]
        match root:
            case "params":
                return [param.name for param in self._facts.flow.spec.params or ()]
            case "vars":
                return [*(step.vars or {})]
            case _:
                return step.targets
