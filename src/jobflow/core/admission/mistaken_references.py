"""Texts in patches that look like references but are not, and what can be in their place."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.places import ExpressionPlace
from jobflow.core.cel.references import has_reference, parse_reference
from jobflow.core.json_values import maps, walk
from jobflow.core.suggest import Suggester
from jobflow.core.violations import FieldWarning, format_path, quote

_ROOTS = ("params", "item", "index", "attempt", "retries", "failure", "flow", "steps", "vars")
_MEANT = {
    "param": "params",
    "parameter": "params",
    "parameters": "params",
    "input": "params",
    "inputs": "params",
    "items": "item",
    "var": "vars",
    "variable": "vars",
    "variables": "vars",
    "task": "steps",
    "tasks": "steps",
    "workflow": "flow",
    "jobflow": "flow",
    "context": "flow",
}
"""Roots of other workflow languages -> ours."""
_OUTPUTS = frozenset({"outputs", "output", "results", "result"})
"""Roots that mean the outputs of a step."""
_ATTEMPTS = {"attempts": "attempt", "retry": "retries", "retryCount": "retries"}
"""Roots that mean the number of an attempt, except in `${retry}`, a variable of a shell -> ours."""
_WRITTEN = re.compile(
    r"(?<!\$)\$\(\s*(?P<round>[^()$\s]+)\s*\)|\$\{(?P<shell>[^{}$()\s]+)\}"
    r"|\{\{\s*(?P<curly>[^{}$()\s]+)\s*\}\}"
    r"|(?<!\$)\$\(\s*(?P<sum>(?:params|item|flow|steps|vars)\.[^()$]+"
    r"|(?:item|index|attempt|retries)\s*[-+*/%][^()$]+)\)"
)
"""`$( … )`, `${…}` and `{{…}}`, as in shells, Argo and Helm; and computations."""
_RESULTS = re.compile(r"^(?P<step>\.[^.]+)\.(?:results?|output)\b")
"""Outputs in other tools, such as Tekton."""
_PRINTED = re.compile(r"\.outputs\.result$")
"""Standard output of a script in Argo."""
_PARAMETERS = re.compile(r"(?<=^params)\.param(?:eter)?s(?=\.)|(?<=\.outputs)\.parameters(?=\.)")
"""Argo has `parameters` below inputs and outputs; Tekton has `params` below inputs."""
_PATH = re.compile(r"(?P<word>[A-Za-z]+)(?P<rest>(?:[.\[]\S*)?)")
IS_KEY = "a key cannot be a reference"
IS_SUM = "a reference cannot compute"
NO_EQUAL = "docs/reference.md lists the references that a step can use"
PLACEHOLDER = "NAME"
"""In place of a param, a var or a step that the text does not name."""
MAX_MISTAKEN = 100
"""Mistaken references that are reported for one patch."""
_MOST_NAMES = 20
"""Names that are tried in place of one that a text does not have."""
MAX_CANDIDATES = 1000
"""Texts in brackets that are examined: shell scripts are full of them."""


class MistakenReference(NamedTuple):
    path: str
    text: str
    """With its brackets: `$(param.x)`."""
    advice: str
    """A clause, such as the reference that was probably meant."""
    can_be_escaped: bool
    """Whether it can be written with `$$(`, which becomes `$(`, if it is meant as it is."""


def mistaken_references(
    value: Any, path: str, judge: Callable[[str], str] = str
) -> Iterator[MistakenReference]:
    """Yield the mistaken references of a JSON value at `path`: at most MAX_MISTAKEN, among the
    first MAX_CANDIDATES. `$(NAME)` of a declared environment variable is Kubernetes' own. `judge`
    returns the path to suggest in place of one that was probably meant; "" if there is none."""
    found: list[MistakenReference] = []
    for at, text, match in islice(_candidates(value, path), MAX_CANDIDATES):
        if len(found) == MAX_MISTAKEN:
            break
        advice = ""
        if match is None:
            advice = IS_KEY
        elif match["sum"]:
            advice = IS_SUM
        elif meant := _meant(match):
            accepted = judge(meant)
            advice = f"write $({accepted})" if accepted else NO_EQUAL
        if advice:
            # neither other brackets nor keys can be escaped
            can_be_escaped = match is not None and text.startswith("$(")
            found.append(MistakenReference(at, text, advice, can_be_escaped))
    # most patches have none, so the variables are searched only if one is found
    declared = _declared(value) if found else frozenset()
    return (each for each in found if each.text not in declared)


def _candidates(value: Any, path: str) -> Iterator[tuple[str, str, re.Match[str] | None]]:
    """Yield (path, text, match): keys that are references, and texts that may be meant as one."""
    for place, inner in walk(value):
        if isinstance(inner, str) and ("$(" in inner or "{" in inner):
            for found in _WRITTEN.finditer(inner):
                if not has_reference(found.group()):
                    yield format_path(place, path), found.group(), found
        elif isinstance(inner, dict):
            for key in inner:
                if "$(" in key and has_reference(key):
                    yield format_path((place, key), path), key, None


def _declared(value: Any) -> frozenset[str]:
    """Return Kubernetes' references to the environment variables that a value declares."""
    found = (inner for _, inner in walk(value) if isinstance(inner, dict))
    return frozenset(f"$({each.get('name')})" for inner in found for each in maps(inner.get("env")))


def _meant(found: re.Match[str]) -> str:
    path = _PATH.fullmatch(found[found.lastgroup or ""])
    if path is None:
        return ""
    word, rest = path["word"], path["rest"]
    if not rest:
        # `${item}` may be a variable of a shell loop; `$(steps)` can only be a reference.
        word = _ATTEMPTS.get(word, word)
        is_ours = word in _ROOTS and found.lastgroup != "shell"
        return f"{word}{_EXAMPLES.get(word, '')}" if is_ours else ""
    if word in _OUTPUTS and rest[0] == ".":
        return f"steps.{PLACEHOLDER}.outputs{rest}"[:100]
    # Argo and Tekton have other words for the same
    root = word if word in _ROOTS else _MEANT.get(word.lower()) or Suggester(_ROOTS).nearest(word)
    if root is None:
        return ""
    if root == "steps":
        rest = _RESULTS.sub(r"\g<step>.outputs", rest)
        rest = _PRINTED.sub(".outputs.text", rest)
    keys = re.sub(r"\[[\"']?([^\]\"']*)[\"']?\]", r".\1", rest)
    return _PARAMETERS.sub("", f"{root}{keys}", count=1)[:100]


_EXAMPLES = {
    "params": f".{PLACEHOLDER}",
    "vars": f".{PLACEHOLDER}",
    "failure": ".exitCode",
    "flow": ".name",
    "steps": f".{PLACEHOLDER}.outputs.KEY",
}


def references_are_spelled_right(facts: FlowFacts) -> Iterator[FieldWarning]:
    # a text that only looks like a reference stays as it is
    room = MAX_MISTAKEN
    for layer in facts.references:
        judge = partial(_nearest_reference, facts, layer.place)
        for found in mistaken_references(layer.written, layer.path, judge):
            detail = (
                f"{quote(found.text)} looks like a reference but is not one, so it is left as it "
                f"is ({found.advice})"
            )
            if found.can_be_escaped:
                detail += "; if that is intended, write $$( instead of $("
            yield FieldWarning(layer.written_path(found.path), detail)
            room -= 1
        if room <= 0:
            return


def _nearest_reference(facts: FlowFacts, place: ExpressionPlace, path: str) -> str:
    """Return the path with a name for its placeholder, or "" if no reference here can have it."""
    root, *keys = path.split(".")
    paths = [path]
    if keys[:1] == [PLACEHOLDER]:
        step = facts.steps[place.position]
        params = [param.name for param in facts.flow.spec.params or ()]
        names = {"params": params, "vars": [*(step.vars or {})]}.get(root, step.targets)
        paths = [".".join((root, name, *keys[1:])) for name in names[:_MOST_NAMES]]
    for each in paths:
        if has_reference(f"$({each})"):
            reference = parse_reference(each)
            fault = facts.expressions.scope.reference_fault(place, reference.root, reference.keys)
            if fault is None and facts.reference_trial.fault(place.position, reference) is None:
                return each
    return ""
