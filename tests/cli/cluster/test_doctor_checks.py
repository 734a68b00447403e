"""Judgements of `jobflow doctor` on single objects."""

import json
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobflow.cli.cluster.doctor.leader import describe_offset, find_offset
from jobflow.cli.cluster.doctor.namespace import (
    check_flows,
    find_added_defaults,
    find_lost_fields,
)
from jobflow.cli.cluster.doctor.reading import Cluster, Status
from jobflow.cli.cluster.doctor.volcano import describe_deployment, is_enabled, list_controllers
from jobflow.cli.cluster.doctor.webhook import describe_serving
from jobflow.kube.client import Client
from jobflow.webhook.certificates.pki import Pki, make_pki
from support.network.anonymous import anonymous

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOST = "jobflow-webhook.jobflow-system.svc"
ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


@pytest.mark.parametrize(
    ("arguments", "enabled"),
    [
        ([], True),
        (["--controllers=*,-sharding-controller"], True),
        (["--controllers", "*,-jobflow-controller"], False),
        (["--controllers=*,-jobflow-controller", "-v=4"], False),
        (["--controllers=+gc-controller,+job-controller"], False),
        (["--controllers=jobflow-controller"], True),
        (["--controllers=+jobflow-controller,-jobflow-controller"], True),
    ],
)
def test_controllers_are_enabled_as_volcano_reads_its_flag(
    arguments: list[str], enabled: bool
) -> None:
    assert is_enabled("jobflow-controller", list_controllers(arguments)) is enabled


@pytest.mark.parametrize(
    ("renewed", "offset"),
    [("2026-11-21T12:00:00.300000Z", -0.3), ("2026-11-21T11:50:00.000000Z", 600.0), (None, None)],
)
def test_the_clock_of_a_leader_is_compared_with_the_time_of_the_write(
    renewed: str | None, offset: float | None
) -> None:
    written = [
        {"manager": "jobflow", "time": f"2026-11-21T{at}Z"} for at in ("09:00:00", "12:00:00")
    ]
    spec = {"holderIdentity": "jobflow-0", "renewTime": renewed}
    found = find_offset({"metadata": {"managedFields": written}, "spec": spec})
    assert found == (None if offset is None else ("jobflow-0", offset))
    assert find_offset({"metadata": {}, "spec": spec}) is None


def test_only_a_large_offset_of_a_clock_is_reported() -> None:
    assert describe_offset(29.0, "x") == ""
    assert describe_offset(600.2, "x") == "The clock of x is 0:10:00 behind that of the API server."
    assert describe_offset(-90.0, "x").startswith("The clock of x is 0:01:30 ahead of that")


def test_a_deployment_without_available_replicas_is_a_fault() -> None:
    metadata = {"name": "volcano-scheduler", "namespace": "volcano-system", "labels": {}}
    found = describe_deployment({"metadata": metadata, "spec": {}, "status": {}})
    assert (found.status, found.message) == (
        Status.FAULT,
        "No replica of Volcano's Deployment volcano-system/volcano-scheduler is available.",
    )


def serving(pki: Pki, *, bundle: bytes | None = None, certificate: bytes | None = None) -> str:
    """Return status and message on a Secret, at the time NOW."""
    authority = b64encode(pki.ca_certificate if bundle is None else bundle).decode()
    webhook = {"name": "jobflows.flow.volcano.sh", "clientConfig": {"caBundle": authority}}
    configuration = {"metadata": {"name": "jobflow"}, "webhooks": [webhook]}
    data = {"tls.crt": b64encode(pki.certificate if certificate is None else certificate).decode()}
    found = describe_serving(configuration, {"metadata": {"name": "s"}, "data": data}, HOST, NOW)
    return f"{found.status}: {found.message}"


def test_the_serving_certificate_is_judged_by_its_end_host_and_issuer() -> None:
    fresh, foreign = make_pki([HOST], now=NOW), make_pki(["other"], now=NOW)
    place = "The certificate in Secret s"
    assert serving(fresh) == f"ok: {place} is valid for 365d."
    assert serving(make_pki([HOST], now=NOW - timedelta(days=361))) == (
        f"warning: {place} expires in 4d."
    )
    assert serving(make_pki([HOST], now=NOW - timedelta(days=366))) == (
        f"fault: {place} expired 1d ago."
    )
    assert serving(foreign) == f"fault: {place} is not for {HOST}, the name that API servers call."
    assert serving(fresh, bundle=foreign.ca_certificate) == (
        "fault: No CA in the caBundle of jobflow signed the certificate in Secret s."
    )
    both = foreign.ca_certificate + fresh.ca_certificate
    assert serving(fresh, bundle=both).startswith("ok:")
    assert serving(fresh, certificate=b"nothing") == f"fault: {place} cannot be read."


def template(applied: Any = None, owned: Any = None, **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "a"}
    if applied is not None:
        text = applied if isinstance(applied, str) else json.dumps({"spec": applied})
        metadata["annotations"] = {ANNOTATION: text}
    if owned is not None:
        metadata["managedFields"] = [{"fieldsV1": {"f:spec": dict.fromkeys(owned, {})}}]
    return {"metadata": metadata, "spec": {"tasks": [], **spec}}


@pytest.mark.parametrize(
    ("stored", "added"),
    [
        (template({"tasks": []}, queue="default", maxRetry=3), ["queue", "maxRetry"]),
        (template({"queue": "default"}, queue="default", maxRetry=3), ["maxRetry"]),
        (template({}, queue="research", maxRetry=5), []),
        (template("not JSON", queue="default"), []),
        (template(owned=["f:tasks", "f:maxRetry"], queue="default", maxRetry=3), ["queue"]),
        (template(queue="default", maxRetry=3), []),  # nobody knows who set them
    ],
)
def test_defaults_are_added_if_no_manifest_has_set_them(
    stored: dict[str, Any], added: list[str]
) -> None:
    assert find_added_defaults(stored) == added


def flow_of(manifest: dict[str, Any], *, written: dict[str, Any], applied: bool) -> dict[str, Any]:
    """Return a flow with this spec whose owners of fields, and whose record of kubectl if it was
    `applied`, are those of another one."""
    owned = {"f:spec": {".": {}, **{f"f:{name}": {} for name in written}}, "f:metadata": {}}
    metadata: dict[str, Any] = {"name": "f", "managedFields": [{"fieldsV1": owned}]}
    if applied:
        metadata["annotations"] = {ANNOTATION: json.dumps({"spec": written})}
    return {"metadata": metadata, "spec": manifest}


WRITTEN = {"params": [{"name": "x", "value": None}], "flows": [{"name": "a", "template": "t"}]}


@pytest.mark.parametrize(
    ("spec", "applied", "lost"),
    [
        (WRITTEN, True, []),
        (WRITTEN | {"flows": [{"name": "a", "template": "t", "more": 1}]}, True, []),
        ({"flows": WRITTEN["flows"]}, False, ["spec.params"]),
        ({"flows": [{"name": "a"}]}, False, ["spec.params"]),
        ({"flows": [{"name": "a"}]}, True, ["spec.params", "spec.flows[0].template"]),
    ],
)
def test_fields_that_were_written_and_are_not_stored_are_lost(
    spec: dict[str, Any], applied: bool, lost: list[str]
) -> None:
    assert find_lost_fields(flow_of(spec, written=WRITTEN, applied=applied)) == lost


async def test_another_writer_of_the_status_of_a_flow_is_a_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def owner(manager: str, field: str) -> dict[str, Any]:
        fields = {"f:status": {field: {}}}
        return {"manager": manager, "time": "2026-01-01T12:00:00Z", "fieldsV1": fields}

    managed = [owner("jobflow", "f:progress"), owner("vc-controller-manager", "f:conditions")]
    flow = {"metadata": {"name": "f", "managedFields": managed}, "spec": {}}

    async def read_all(*_: object) -> list[dict[str, Any]]:
        return [flow]

    monkeypatch.setattr(Cluster, "read_all", read_all)
    async with Client(anonymous("http://127.0.0.1:1")) as client:
        [found] = [each async for each in check_flows(Cluster(client))]
    assert found.status is Status.FAULT
    assert found.message == "vc-controller-manager wrote over the status of JobFlow's flows: f."
