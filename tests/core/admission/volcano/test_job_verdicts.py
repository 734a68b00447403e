"""Our verdicts on vcjob specs equal Volcano's.

The verdicts of its webhook (mutating, then validating) and of its CRD's schema are recorded from
Volcano's Go code in tests/data/volcano-admission.jsonl.
"""

import json

import pytest

from jobflow.core.admission.volcano.job import job_violations
from jobflow.core.names import MAX_NAME, predict_pod_names
from support.paths import ROOT

RECORDED = [
    json.loads(line)
    for line in (ROOT / "tests" / "data" / "volcano-admission.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]


@pytest.mark.parametrize("accepted", [True, False], ids=["accepted", "refused"])
def test_verdicts_equal_those_of_volcano(accepted: bool):
    records = [record for record in RECORDED if record["accepted"] is accepted]
    assert len(records) > 100
    for record in records:
        found = [str(v) for v in job_violations(record["spec"], "spec")]
        # a rule of flows measures the names of pods
        longest = record["name"] + predict_pod_names(record["spec"]).longest
        found += [longest] if len(longest) > MAX_NAME else []
        assert (not found) is accepted, (record["spec"], found)
