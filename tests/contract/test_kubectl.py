"""Real kubectl on both servers, without JobFlow, command by command."""

import asyncio
import json
import subprocess
from typing import Any

import pytest

from support.cluster.kubectl import Answer
from support.sandbox.manifests import as_list, jobflow, template
from support.sandbox.rest_client import event
from support.sandbox.servers import Server

pytestmark = pytest.mark.kubectl


async def kubectl(api: Server, *arguments: str, **more: Any) -> Answer:
    run = api.kubectl.run
    return await asyncio.to_thread(run, "-n", api.namespace, *arguments, **more)


@pytest.mark.long
async def test_apply_creates_and_updates(api: Server) -> None:
    both = as_list(template("a"), jobflow("f", {"a": []}))
    answer = await kubectl(api, "apply", "-f", "-", stdin=both)
    assert answer.out.splitlines() == [
        "jobtemplate.flow.volcano.sh/a created",
        "jobflow.flow.volcano.sh/f created",
    ]
    answer = await kubectl(api, "apply", "-f", "-", stdin=both)
    assert answer.out.splitlines()[1] == "jobflow.flow.volcano.sh/f unchanged"
    changed = jobflow("f", {"a": []}, jobRetainPolicy="delete")
    answer = await kubectl(api, "apply", "-f", "-", stdin=json.dumps(changed))
    assert answer.out == "jobflow.flow.volcano.sh/f configured\n"
    answer = await kubectl(
        api, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=both
    )
    assert answer.out.splitlines()[1] == "jobflow.flow.volcano.sh/f serverside-applied"
    answer = await kubectl(api, "diff", "-f", "-", stdin=both)
    assert answer.code in (0, 1), answer.err


@pytest.mark.long
async def test_an_unknown_field_is_refused(api: Server) -> None:
    manifest = jobflow("f", {"a": []})
    manifest["spec"]["flows"][0]["nmae"] = "x"
    answer = await kubectl(api, "apply", "-f", "-", stdin=json.dumps(manifest))
    assert answer.code == 1 and 'unknown field "spec.flows[0].nmae"' in answer.err


@pytest.mark.long
async def test_get_accepts_short_names(api: Server) -> None:
    await kubectl(api, "apply", "-f", "-", stdin=as_list(template("a"), jobflow("f", {"a": []})))
    answer = await kubectl(api, "get", "jf,jt,vcjob,vj")
    assert (
        "jobflow.flow.volcano.sh/f" in answer.out and "jobtemplate.flow.volcano.sh/a" in answer.out
    )
    head = ["NAME", "STATUS", "REASON", "PROGRESS", "DURATION", "AGE"]
    assert (await kubectl(api, "get", "jf")).rows[0] == head
    wide = (await kubectl(api, "get", "jf", "-o", "wide")).rows[0]
    assert wide == [*head, "MESSAGE", "STARTED", "PARENT"]
    assert (await kubectl(api, "get", "jf", "-o", "name")).out == "jobflow.flow.volcano.sh/f\n"
    missing = await kubectl(api, "get", "jf", "g")
    assert (missing.code, missing.err) == (
        1,
        'Error from server (NotFound): jobflows.flow.volcano.sh "g" not found\n',
    )
    unknown = await kubectl(api, "get", "nothings")
    assert unknown.err == 'error: the server doesn\'t have a resource type "nothings"\n'


async def test_get_with_watch_prints_changes(api: Server) -> None:
    await api.create(api.flows, jobflow("f", {"a": []}))
    watch = await asyncio.create_subprocess_exec(
        *("kubectl", "-n", api.namespace, "get", "jf", "-w", "--no-headers"),
        env=api.kubectl.environment,
        stdout=subprocess.PIPE,
    )
    assert watch.stdout is not None
    try:
        assert (await watch.stdout.readline()).split()[0] == b"f"
        status = {"status": {"state": {"phase": "Running"}, "progress": "0/1"}}
        await api.patch(f"{api.flows}/f/status", status)
        assert (await watch.stdout.readline()).split()[:3] == [b"f", b"Running", b"0/1"]
    finally:
        watch.terminate()
        await watch.communicate()


@pytest.mark.long
async def test_wait_label_patch_and_delete_change_a_flow(api: Server) -> None:
    await api.create(api.flows, jobflow("f", {"a": []}))
    waiting = asyncio.create_task(
        kubectl(
            api, *("wait", "--for=jsonpath={.status.state.phase}=Succeed", "jf/f", "--timeout=30s")
        )
    )
    await api.patch(f"{api.flows}/f/status", {"status": {"state": {"phase": "Succeed"}}})
    assert (await waiting).out == "jobflow.flow.volcano.sh/f condition met\n"
    assert (await kubectl(api, "label", "jf", "f", "team=x")).code == 0
    assert (await kubectl(api, "annotate", "jf", "f", "x/y=z")).code == 0
    answer = await kubectl(
        api, "patch", "jf", "f", "--type=merge", "-p", '{"spec":{"jobRetainPolicy":"delete"}}'
    )
    assert answer.out == "jobflow.flow.volcano.sh/f patched\n"
    answer = await kubectl(
        api, "patch", "jf", "f", "--subresource=status", "--type=merge", "-p", '{"status":null}'
    )
    assert answer.code == 0, answer.err
    answer = await kubectl(api, "delete", "jf", "f")
    assert answer.out == 'jobflow.flow.volcano.sh "f" deleted\n' or answer.out == (
        f'jobflow.flow.volcano.sh "f" deleted from {api.namespace} namespace\n'
    )
    assert (await api.get(f"{api.flows}/f")).code == 404


async def test_describe_shows_events(api: Server) -> None:
    created = await api.create(api.flows, jobflow("f", {"a": []}))
    manifest = event(created, "f.1", reason="Tested", message="a sentence")
    await api.create(api.events, manifest)
    answer = await kubectl(api, "describe", "jf", "f")
    assert "Tested" in answer.out and "a sentence" in answer.out, answer.err
    events = await kubectl(api, "events", "--for", "jobflow/f")
    assert "a sentence" in events.out, events.err


@pytest.mark.long
async def test_explain_and_api_resources_describe_flows(api: Server) -> None:
    answer = await kubectl(api, "explain", "jf.spec.flows.dependsOn")
    assert "targets\t<[]string>" in answer.out, answer.err
    assert "GROUP:      flow.volcano.sh" in answer.out
    answer = await kubectl(api, "api-resources", "--api-group=flow.volcano.sh", "--no-headers")
    rows = [line.split() for line in answer.out.splitlines()]
    assert ["jobflows", "jf", "flow.volcano.sh/v1alpha1", "true", "JobFlow"] in rows
    assert (await kubectl(api, "version", "-o", "json")).code == 0


@pytest.mark.long
async def test_create_supports_namespaces_and_dry_runs(api: Server) -> None:
    name = f"{api.namespace}-more"
    assert (await kubectl(api, "create", "namespace", name)).code == 0
    assert (await kubectl(api, "delete", "namespace", name, "--wait=false")).code == 0
    manifest = json.dumps(jobflow("f", {"a": []}))
    for strategy in ("server", "client"):
        answer = await kubectl(api, "create", f"--dry-run={strategy}", "-f", "-", stdin=manifest)
        assert answer.out.startswith("jobflow.flow.volcano.sh/f created"), answer.err
    assert (await api.get(f"{api.flows}/f")).code == 404
    assert (await kubectl(api, "create", "-f", "-", stdin=manifest)).code == 0
    answer = await kubectl(api, "create", "-f", "-", stdin=manifest)
    assert answer.err.startswith("Error from server (AlreadyExists): ")
    answer = await kubectl(api, "replace", "-f", "-", stdin=manifest)
    assert answer.out.startswith("jobflow.flow.volcano.sh/f replaced"), answer.err
