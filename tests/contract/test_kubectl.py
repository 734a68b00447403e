"""Real kubectl on both servers, without the product, command by command."""

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


async def test_apply_again_and_again(api: Server) -> None:
    both = as_list(template("a"), jobflow("f", {"a": []}))
    said = await kubectl(api, "apply", "-f", "-", stdin=both)
    assert said.out.splitlines() == [
        "jobtemplate.flow.volcano.sh/a created",
        "jobflow.flow.volcano.sh/f created",
    ]
    said = await kubectl(api, "apply", "-f", "-", stdin=both)
    assert said.out.splitlines()[1] == "jobflow.flow.volcano.sh/f unchanged"
    changed = jobflow("f", {"a": []}, jobRetainPolicy="delete")
    said = await kubectl(api, "apply", "-f", "-", stdin=json.dumps(changed))
    assert said.out == "jobflow.flow.volcano.sh/f configured\n"
    said = await kubectl(api, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=both)
    assert said.out.splitlines()[1] == "jobflow.flow.volcano.sh/f serverside-applied"
    said = await kubectl(api, "diff", "-f", "-", stdin=both)
    assert said.code in (0, 1), said.err


async def test_an_unknown_field_is_refused(api: Server) -> None:
    wrong = jobflow("f", {"a": []})
    wrong["spec"]["flows"][0]["nmae"] = "x"
    said = await kubectl(api, "apply", "-f", "-", stdin=json.dumps(wrong))
    assert said.code == 1 and 'unknown field "spec.flows[0].nmae"' in said.err


async def test_get_and_its_short_names(api: Server) -> None:
    await kubectl(api, "apply", "-f", "-", stdin=as_list(template("a"), jobflow("f", {"a": []})))
    said = await kubectl(api, "get", "jf,jt,vcjob,vj")
    assert "jobflow.flow.volcano.sh/f" in said.out and "jobtemplate.flow.volcano.sh/a" in said.out
    head = ["NAME", "STATUS", "REASON", "PROGRESS", "DURATION", "AGE"]
    assert (await kubectl(api, "get", "jf")).rows[0] == head
    wide = (await kubectl(api, "get", "jf", "-o", "wide")).rows[0]
    assert wide == [*head, "MESSAGE", "STARTED"]
    assert (await kubectl(api, "get", "jf", "-o", "name")).out == "jobflow.flow.volcano.sh/f\n"
    missing = await kubectl(api, "get", "jf", "g")
    assert (missing.code, missing.err) == (
        1,
        'Error from server (NotFound): jobflows.flow.volcano.sh "g" not found\n',
    )
    nothing = await kubectl(api, "get", "nothings")
    assert nothing.err == 'error: the server doesn\'t have a resource type "nothings"\n'


async def test_get_w_follows(api: Server) -> None:
    await api.made(api.flows, jobflow("f", {"a": []}))
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


async def test_wait_label_patch_and_delete(api: Server) -> None:
    await api.made(api.flows, jobflow("f", {"a": []}))
    waiting = asyncio.create_task(
        kubectl(
            api, *("wait", "--for=jsonpath={.status.state.phase}=Succeed", "jf/f", "--timeout=30s")
        )
    )
    await api.patch(f"{api.flows}/f/status", {"status": {"state": {"phase": "Succeed"}}})
    assert (await waiting).out == "jobflow.flow.volcano.sh/f condition met\n"
    assert (await kubectl(api, "label", "jf", "f", "team=x")).code == 0
    assert (await kubectl(api, "annotate", "jf", "f", "x/y=z")).code == 0
    said = await kubectl(
        api, "patch", "jf", "f", "--type=merge", "-p", '{"spec":{"jobRetainPolicy":"delete"}}'
    )
    assert said.out == "jobflow.flow.volcano.sh/f patched\n"
    said = await kubectl(
        api, "patch", "jf", "f", "--subresource=status", "--type=merge", "-p", '{"status":null}'
    )
    assert said.code == 0, said.err
    said = await kubectl(api, "delete", "jf", "f")
    assert said.out == 'jobflow.flow.volcano.sh "f" deleted\n' or said.out == (
        f'jobflow.flow.volcano.sh "f" deleted from {api.namespace} namespace\n'
    )
    assert (await api.get(f"{api.flows}/f")).code == 404


async def test_describe_shows_events(api: Server) -> None:
    made = await api.made(api.flows, jobflow("f", {"a": []}))
    sent = event(made, "f.1", reason="Tested", message="a sentence")
    await api.made(api.events, sent)
    said = await kubectl(api, "describe", "jf", "f")
    assert "Tested" in said.out and "a sentence" in said.out, said.err
    listed = await kubectl(api, "events", "--for", "jobflow/f")
    assert "a sentence" in listed.out, listed.err


async def test_explain(api: Server) -> None:
    said = await kubectl(api, "explain", "jf.spec.flows.dependsOn")
    assert "targets\t<[]string>" in said.out, said.err
    assert "GROUP:      flow.volcano.sh" in said.out
    said = await kubectl(api, "api-resources", "--api-group=flow.volcano.sh", "--no-headers")
    rows = [line.split() for line in said.out.splitlines()]
    assert ["jobflows", "jf", "flow.volcano.sh/v1alpha1", "true", "JobFlow"] in rows
    assert (await kubectl(api, "version", "-o", "json")).code == 0


async def test_create_namespace_and_dry_runs(api: Server) -> None:
    name = f"{api.namespace}-more"
    assert (await kubectl(api, "create", "namespace", name)).code == 0
    assert (await kubectl(api, "delete", "namespace", name, "--wait=false")).code == 0
    one = json.dumps(jobflow("f", {"a": []}))
    for how in ("server", "client"):
        said = await kubectl(api, "create", f"--dry-run={how}", "-f", "-", stdin=one)
        assert said.out.startswith("jobflow.flow.volcano.sh/f created"), said.err
    assert (await api.get(f"{api.flows}/f")).code == 404
    assert (await kubectl(api, "create", "-f", "-", stdin=one)).code == 0
    said = await kubectl(api, "create", "-f", "-", stdin=one)
    assert said.err.startswith("Error from server (AlreadyExists): ")
    said = await kubectl(api, "replace", "-f", "-", stdin=one)
    assert said.out.startswith("jobflow.flow.volcano.sh/f replaced"), said.err
