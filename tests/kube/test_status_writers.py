"""Who has written the status of a flow after JobFlow, by managedFields of API servers."""

import json
from typing import Any

import pytest

from jobflow.kube.answers import StatusWriter, find_status_writer

VOLCANO = "vc-controller-manager"


def entry(manager: str, *fields: str, second: int = 0, spec: bool = False) -> dict[str, Any]:
    owned = {"f:spec": {"f:flows": {}}} if spec else {"f:status": {f"f:{f}": {} for f in fields}}
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "time": f"2026-01-01T12:00:{second:02}Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": owned,
        **({} if spec else {"subresource": "status"}),
    }


OURS = entry("jobflow", "conditions", "state", "progress", second=5)


@pytest.mark.parametrize(
    ("entries", "writer"),
    [
        ([], None),
        ([entry("kubectl-create", spec=True)], None),
        ([entry("kubectl-edit", spec=True, second=9), OURS], None),
        ([OURS], None),
        # the flow was taken over from Volcano, whose records are kept
        ([entry(VOLCANO, "jobStatusList"), OURS], None),
        ([entry(VOLCANO, "conditions", "state")], StatusWriter(VOLCANO, after_ours=False)),
        (
            [entry("jobflow", "progress", second=5), entry(VOLCANO, "conditions", second=5)],
            StatusWriter(VOLCANO, after_ours=True),
        ),
        ([OURS, entry("kubectl-edit", "state", second=6)], StatusWriter("kubectl-edit", True)),
    ],
)
def test_the_last_writer_of_a_status(
    entries: list[dict[str, Any]], writer: StatusWriter | None
) -> None:
    assert find_status_writer(json.dumps(entries).encode()) == writer
