"""Rules of volumeClaims: the API server must accept each claim when the first job needs it.

Source: k8s.io/kubernetes/pkg/apis/core/validation (ValidatePersistentVolumeClaimSpec).
"""

from collections.abc import Iterator
from typing import Any

from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.object_names import DNS_LABEL, MAX_OBJECT_NAME, word_violations
from jobflow.core.admission.rule import RuleGroup, Rules
from jobflow.core.admission.rules.expressions import faults_before_start
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.names import format_job_name
from jobflow.core.violations import Reason, Violation

MAX_CLAIMS = 32
ACCESS_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")


def claims_are_few(facts: FlowFacts) -> Iterator[Violation]:
    count = len(facts.flow.spec.volume_claims or ())
    if count > MAX_CLAIMS:
        detail = f"at most {MAX_CLAIMS} are allowed; use directories of one claim (subPath)"
        yield Violation("spec.volumeClaims", Reason.TOO_MANY, count, detail)


def claims_have_names(facts: FlowFacts) -> Iterator[Violation]:
    # a volume of a pod has the name of the claim, and the claim that of the flow before it
    for claim in facts.claims:
        if not DNS_LABEL.fullmatch(claim.name):
            detail = (
                "the name of a claim is also that of a volume: at most 63 lower-case letters, "
                'digits and "-", which begin and end with a letter or digit'
            )
            yield Violation(claim.path, Reason.INVALID, claim.name, detail)
            continue
        name = format_job_name(facts.flow_name, claim.name)
        if len(name) > MAX_OBJECT_NAME:
            detail = (
                f"the claim would have a name of {len(name)} characters, but a name has at most "
                f"{MAX_OBJECT_NAME}; shorten it"
            )
            yield Violation(claim.path, Reason.TOO_LONG, claim.name, detail)


def references_in_claims_exist(facts: FlowFacts) -> Iterator[Violation]:
    # a claim is created once for the whole flow
    detail = "a claim is created once for the flow: only params and flow have a value"
    for claim in facts.claims:
        faults = [*faults_before_start(facts, claim.written, claim.path, detail)]
        yield from faults
        if not faults and isinstance(claim.spec, EvaluationFailure):
            yield Violation(claim.path, Reason.INVALID, claim.written, claim.spec.message)


def claims_have_their_types(facts: FlowFacts) -> Iterator[Violation]:
    for claim in facts.claims:
        yield from claim.misfits.violations


def claims_are_complete(facts: FlowFacts) -> Iterator[Violation]:
    for claim in facts.claims:
        if not isinstance(claim.spec, dict):
            continue  # a reference has no value, or the type is wrong
        if not claim.spec:
            detail = (
                "write the spec of the claim: accessModes: [ReadWriteOnce], resources: "
                "{requests: {storage: 10Gi}}"
            )
            yield Violation(claim.path, Reason.REQUIRED, None, detail)
            continue
        path, modes = f"{claim.path}.accessModes", claim.spec.get("accessModes")
        if not modes:
            detail = f"at least one access mode: {', '.join(ACCESS_MODES)}"
            yield Violation(path, Reason.REQUIRED, None, detail)
        elif isinstance(modes, list):
            for i, mode in enumerate(modes):
                if isinstance(mode, str):
                    yield from word_violations(f"{path}[{i}]", mode, ACCESS_MODES)
            if len(modes) > 1 and "ReadWriteOncePod" in modes:
                detail = "ReadWriteOncePod cannot be combined with other access modes"
                yield Violation(path, Reason.FORBIDDEN, None, detail)
        yield from _storage_faults(claim.spec, claim.path)


def _storage_faults(spec: dict[str, Any], path: str) -> Iterator[Violation]:
    found: Any = spec
    for key in ("resources", "requests", "storage"):
        if not isinstance(found, dict):
            return  # of a wrong type
        path, found = f"{path}.{key}", found.get(key)
        if found is None:
            detail = "the size of the volume, such as resources: {requests: {storage: 10Gi}}"
            yield Violation(path, Reason.REQUIRED, None, detail)
            return
    text = str(found).strip()
    # the API server refuses what is no quantity at all
    if text.startswith("-") or not any(digit in text for digit in "123456789"):
        yield Violation(path, Reason.INVALID, found, "the size of a volume is more than 0")


RULES: Rules = (
    RuleGroup(
        lambda facts: facts.flow.spec.volume_claims,
        (
            claims_are_few,
            claims_have_names,
            references_in_claims_exist,
            claims_have_their_types,
            claims_are_complete,
        ),
    ),
)
