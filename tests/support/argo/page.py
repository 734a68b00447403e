"""docs/argo.md: the shares of Argo's examples that convert and run. As a program it writes them:
PYTHONPATH=tests python -m support.argo.page
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from support.argo.examples import MODULE, VERSION, examples
from support.argo.outcome import FAIL, Outcome, try_example
from support.paths import ROOT

PAGE = ROOT / "docs" / "argo.md"
_BEGIN = "<!-- written by tests/support/argo/page.py -->"
_END = "<!-- end -->"
FEATURES = {
    "`dag`": r"\bdag:",
    "`steps`": r"\bsteps:",
    "`withItems`, `withParam`, `withSequence`": r"\bwith(?:Items|Param|Sequence):",
    "`when`": r"\bwhen:",
    "`depends` with ends, `continueOn`": r"\bcontinueOn:|depends:.*(?:\.[A-Z]|\|\|)",
    "`script`": r"\bscript:",
    "`outputs.result`": r"outputs\.result",
    "output parameters": r"valueFrom:",
    "expressions `{{=…}}`": r"\{\{=|\bexpression:",
    "`retryStrategy`": r"\bretryStrategy:",
    "limits of time": r"\bactiveDeadlineSeconds:|^ *timeout:",
    "`onExit` and hooks": r"\bonExit:|\bhooks:",
    "`daemon`": r"\bdaemon:",
    "`suspend`": r"\bsuspend:",
    "`parallelism`": r"\bparallelism:",
    "`synchronization`": r"\bsynchronization:",
    "volumes and claims": r"\bvolumes:|\bvolumeClaimTemplates:",
    "sidecars, init containers, `containerSet`": r"\bsidecars:|\binitContainers:|\bcontainerSet:",
    "`templateRef`, `workflowTemplateRef`": r"\btemplateRef:|\bworkflowTemplateRef:",
    "CronWorkflow": r"kind: CronWorkflow",
    "artifacts": r"\bartifacts:",
    "`resource`": r"\bresource:",
    "`http`, `plugin`, `data`": r"^ *(?:- )?(?:http|plugin|data):",
}
"""Patterns that a file with the feature has."""
CAUSES = {
    "artifacts": "artifact ",
    "`resource` templates": "a step cannot create or watch objects",
    "`http`, `plugin` and `data` templates": "send a request|executor plugins|data template",
    "the limit of a semaphore": "the limit of ",
    "variables without an equal": "has no equal here|step has no id|time of a step|the node of",
    "functions of expressions": "the function |CEL has no comparison",
    "hooks while a step runs": "cannot start while another one runs|only one exit hook",
    "recursion in the middle of a template": "calls itself",
    "`backoff.maxDuration`": "all attempts together",
    "conditions of schedules": "a schedule has no condition",
    "PodDisruptionBudgets": "PodDisruptionBudget",
}
"""What has no equal, with a pattern of its message."""


def run_all() -> list[Outcome]:
    """Convert, check and run all examples."""
    return [try_example(each) for each in examples()]


def shares(outcomes: Sequence[Outcome]) -> str:
    """Return the generated part of the page."""
    return "\n".join(_lines(outcomes)) + "\n"


def _lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    total = len(outcomes)
    whole, clean, ran = _counts(outcomes)
    yield f"{total} files of `{MODULE}@{VERSION}/examples` have an object that is converted:\n"
    yield "| | files | share |"
    yield "| --- | --- | --- |"
    yield f"| converted, nothing without an equal | {whole} | {whole / total:.0%} |"
    yield f"| … and without a fault of `jobflow lint` | {clean} | {clean / total:.0%} |"
    yield f"| … and run to the same end | {ran} | {ran / total:.0%} |"
    part = total - whole
    yield f"| converted in part, with each gap named | {part} | {part / total:.0%} |\n"
    yield "By feature; a file can have several:\n"
    yield "| feature | files | converted | run to the same end |"
    yield "| --- | --- | --- | --- |"
    for name, pattern in FEATURES.items():
        found = [each for each in outcomes if _has(each, pattern)]
        whole, _, ran = _counts(found)
        yield f"| {name} | {len(found)} | {whole} | {ran} |"
    yield "\nFeatures without an equal, and the number of files that use them:\n"
    yield "| cause | files |"
    yield "| --- | --- |"
    for name, number in sorted(_causes(outcomes).items(), key=lambda each: (-each[1], each[0])):
        yield f"| {name} | {number} |"
    left = [each for each in outcomes if each.is_whole and not each.runs]
    if left:
        yield "\nFiles that are converted, but do not run to the same end:\n"
    for each in left:
        yield f"- `{each.example.name}`: {_reason(each)}"


def _counts(outcomes: Sequence[Outcome]) -> tuple[int, int, int]:
    whole = [each for each in outcomes if each.is_whole]
    return len(whole), sum(each.is_clean for each in whole), sum(each.runs for each in whole)


def _has(outcome: Outcome, pattern: str) -> bool:
    text = re.sub(r"^\s*#.*$", "", outcome.example.path.read_text(), flags=re.MULTILINE)
    return re.search(pattern, text, re.MULTILINE) is not None


def _causes(outcomes: Sequence[Outcome]) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for each in outcomes:
        names = {cause_of(message) for _, _, message in each.gaps}
        for name in names:
            found[name] += 1
    return found


def cause_of(message: str) -> str:
    """Return the cause of a gap."""
    known = (name for name, pattern in CAUSES.items() if re.search(pattern, message))
    return next(known, "other")


def _reason(outcome: Outcome) -> str:
    if outcome.faults:
        return outcome.faults[0].partition(";")[0]
    expected = "Failed" if outcome.example.name in FAIL else "Succeed"
    return f"it ends {', '.join(sorted({*outcome.ends.values()}))} and not {expected}"


def page(outcomes: Sequence[Outcome]) -> str:
    """Return the page with this generated part."""
    before, rest = PAGE.read_text().split(_BEGIN)
    after = rest.split(_END)[1]
    return f"{before}{_BEGIN}\n{shares(outcomes)}{_END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(run_all()))
