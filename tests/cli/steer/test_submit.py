"""`jobflow submit` on the sandbox's API server: what it sends, prints and refuses."""

import json
from pathlib import Path

import pytest
import yaml

from jobflow.api.resources import JOBFLOWS, JOBTEMPLATES, NAMESPACES
from jobflow.sandbox.apiserver.requests.failures import failure
from support.sandbox.command_line import Result
from support.sandbox.flow_commands import forbid, run_command, set_status
from support.sandbox.manifests import jobflow, template
from support.sandbox.running_controller import NAMESPACE, Cluster
from support.sandbox.submitted import CREATED, STEPS, stored_names, train, write_flow

PARAMS = [{"name": "workers", "value": 2}]
TEMPLATES = "`jobflow submit FILE --templates` changes its templates, "
RESUBMIT = "`jobflow resubmit train` runs its spec again as a new flow, "
REUSE = "`jobflow submit FILE --reuse train` runs only what has changed, in a new flow, "
NOTHING_SENT = "jobflow: error: nothing was sent, see above"


async def test_templates_are_applied_and_the_flow_is_created(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    file = write_flow(tmp_path, *train())
    assert await run_command(kubeconfig, "submit", file) == Result(0, CREATED, "")
    writes = [each for each in world.server.requests if each.method in ("PATCH", "POST")]
    assert [each.method for each in writes] == ["PATCH", "PATCH", "POST"]
    assert {each.query["fieldManager"] for each in writes} == {"jobflow"}
    assert await stored_names(world) == (["a", "b"], ["train"])


async def test_templates_are_applied_again_beside_a_new_flow(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    assert (await run_command(kubeconfig, "submit", write_flow(tmp_path, *train()))).code == 0
    changed = train()
    changed[0]["spec"]["queue"] = "research"
    result = await run_command(
        kubeconfig, "submit", write_flow(tmp_path, *changed), "--name", "again", "-o", "name"
    )
    assert result == Result(0, "jobflow.flow.volcano.sh/again\n", "")
    assert (await world.raw(JOBTEMPLATES))[0]["spec"]["queue"] == "research"
    assert (await stored_names(world))[1] == ["again", "train"]


@pytest.mark.parametrize("flags", [(), ("--dry-run", "server")])
async def test_each_template_is_created_configured_or_unchanged(
    world: Cluster, kubeconfig: Path, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    first, second, flow = train()
    await run_command(kubeconfig, "submit", write_flow(tmp_path, first, second))
    await world.client.patch(
        JOBTEMPLATES,
        NAMESPACE,
        "b",
        b'{"status": {"jobDependsOnList": ["x"]}}',
        subresource="status",
    )
    first["metadata"]["labels"] = {"team": "vision"}
    file = write_flow(tmp_path, first, second, template("c"), flow)
    lines = (await run_command(kubeconfig, "submit", file, *flags)).out.splitlines()
    assert [line.partition(" (")[0] for line in lines] == [
        "jobtemplate.flow.volcano.sh/a configured",
        "jobtemplate.flow.volcano.sh/b unchanged",
        "jobtemplate.flow.volcano.sh/c created",
        "jobflow.flow.volcano.sh/train created",
    ]


async def test_an_annotation_that_is_left_out_is_removed(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    faulty = template("a")
    faulty["metadata"]["annotations"] = {"sandbox.jobflow.volcano.sh/exit-code": "1", "note": "x"}
    await run_command(kubeconfig, "submit", write_flow(tmp_path, faulty))
    del faulty["metadata"]["annotations"]["sandbox.jobflow.volcano.sh/exit-code"]
    file = write_flow(tmp_path, faulty)
    result = await run_command(kubeconfig, "submit", file)
    assert result == Result(0, "jobtemplate.flow.volcano.sh/a configured\n", "")
    assert (await world.raw(JOBTEMPLATES))[0]["metadata"]["annotations"] == {"note": "x"}
    result = await run_command(kubeconfig, "submit", file)
    assert result == Result(0, "jobtemplate.flow.volcano.sh/a unchanged\n", "")


async def test_only_templates_are_sent_although_the_flow_exists(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    await run_command(kubeconfig, "submit", write_flow(tmp_path, *train()))
    first, second, flow = train(parallelism=1)
    first["spec"]["queue"] = "research"
    file = write_flow(tmp_path, first, second, flow)
    lines = "jobtemplate.flow.volcano.sh/a configured\njobtemplate.flow.volcano.sh/b unchanged\n"
    assert await run_command(kubeconfig, "submit", file, "--templates") == Result(0, lines, "")
    assert (await world.raw(JOBTEMPLATES))[0]["spec"]["queue"] == "research"
    assert "parallelism" not in (await world.raw(JOBFLOWS))[0]["spec"]


async def test_templates_are_not_sent_beside_a_faulty_flow(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    file = write_flow(tmp_path, template("a"), jobflow("train", {"a": ["x"]}))
    result = await run_command(kubeconfig, "submit", file, "--templates")
    assert (result.code, result.err.splitlines()[-1]) == (1, NOTHING_SENT)
    assert await stored_names(world) == ([], [])


async def test_files_without_a_template_have_none_to_send(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    file = write_flow(tmp_path, jobflow("train", STEPS))
    result = await run_command(kubeconfig, "submit", file, "--templates")
    assert result == Result(
        2, "", "jobflow: error: --templates: the files contain no JobTemplate\n"
    )
    await world.apply(jobflow("train", STEPS))
    assert "--templates" not in (await run_command(kubeconfig, "submit", file)).err


async def test_a_user_who_may_not_read_templates_can_apply_them(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    forbid(world, "GET", "/jobtemplates/a")
    result = await run_command(kubeconfig, "submit", write_flow(tmp_path, template("a")))
    assert result == Result(0, "jobtemplate.flow.volcano.sh/a applied\n", "")


async def test_a_generate_name_gets_a_random_suffix(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    flow = jobflow("", STEPS)
    flow["metadata"] = {"generateName": "train-"}
    result = await run_command(kubeconfig, "submit", write_flow(tmp_path, flow), "-o", "json")
    assert result.code == 0
    assert result.json["metadata"]["name"].startswith("train-")
    assert (await stored_names(world))[1] == [result.json["metadata"]["name"]]


async def test_params_are_set(world: Cluster, kubeconfig: Path, tmp_path: Path) -> None:
    file = write_flow(tmp_path, *train(params=PARAMS))
    result = await run_command(kubeconfig, "submit", file, "--param", "workers=8", "-o", "yaml")
    assert yaml.safe_load(result.out)["spec"]["params"] == [{"name": "workers", "value": 8}]
    assert (await world.raw(JOBFLOWS))[0]["spec"]["params"] == [{"name": "workers", "value": 8}]


@pytest.mark.parametrize(("where", "suffix"), [("client", "dry run"), ("server", "server dry run")])
async def test_a_dry_run_stores_nothing(
    world: Cluster, kubeconfig: Path, tmp_path: Path, where: str, suffix: str
) -> None:
    file = write_flow(tmp_path, *train())
    result = await run_command(kubeconfig, "submit", file, "--dry-run", where)
    printed = CREATED.replace("\n", f" ({suffix})\n")
    if where == "client":  # it does not read what exists
        printed = printed.replace(" created", " applied", 2)
    assert result == Result(0, printed, "")
    result = await run_command(kubeconfig, "submit", file, "--dry-run", where, "-o", "json")
    assert [item["kind"] for item in result.json["items"]] == ["JobTemplate"] * 2 + ["JobFlow"]
    assert await stored_names(world) == ([], [])


# ------------------------------------------------------------- faults and refusals


async def test_all_faults_are_reported_and_nothing_is_sent(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    flow = jobflow("train", {"a": ["b"], "c": ["x"]})
    flow["spec"]["retry"] = 3
    result = await run_command(kubeconfig, "submit", write_flow(tmp_path, template("a"), flow))
    assert (result.code, result.out) == (1, "")
    found = [line for line in result.err.splitlines() if ": error: spec." in line]
    assert len(found) >= 3
    assert result.err.splitlines()[-1] == NOTHING_SENT
    assert await stored_names(world) == ([], [])


@pytest.mark.parametrize(
    ("flags", "code", "sentence"),
    [
        (("--dry-run", "client", "--wait"), 2, "--dry-run excludes --wait, because no flow is"),
        (("--watch", "-o", "json"), 2, "-o excludes --watch: use --wait"),
        (("--log", "-o", "name"), 2, "-o excludes --log: use --wait"),
        (("--templates", "--name", "x"), 2, "--templates excludes --name, because no flow is"),
        (("--templates", "--wait"), 2, "--templates excludes --wait, because no flow is"),
        (("--templates", "--watch"), 2, "--templates excludes --watch, because no flow is"),
        (("--templates", "--log"), 2, "--templates excludes --log, because no flow is"),
        (("--log", "--watch"), 2, "--watch excludes --log: choose one"),
        (("--param", "x=1"), 2, "--param x: no JobFlow in the files has params"),
        (("-n", "team"), 2, "does not exist: create it with `kubectl create namespace team`"),
    ],
)
async def test_wrong_flags_are_errors(
    world: Cluster,
    kubeconfig: Path,
    tmp_path: Path,
    flags: tuple[str, ...],
    code: int,
    sentence: str,
) -> None:
    result = await run_command(kubeconfig, "submit", write_flow(tmp_path, *train()), *flags)
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith("jobflow: error: ") and sentence in result.err
    assert await stored_names(world) == ([], [])


async def test_a_file_that_does_not_exist_is_unreadable(world: Cluster, kubeconfig: Path) -> None:
    result = await run_command(kubeconfig, "submit", "missing.yaml")
    assert (result.code, result.err.splitlines()[0]) == (2, "missing.yaml: error: no such file")


async def test_name_needs_one_flow(world: Cluster, kubeconfig: Path, tmp_path: Path) -> None:
    file = write_flow(tmp_path, *train(), jobflow("other", STEPS))
    result = await run_command(kubeconfig, "submit", file, "--name", "x")
    sentence = "--name x: sets the name of one JobFlow, but the files contain 2 JobFlows"
    assert result == Result(2, "", f"jobflow: error: {sentence}\n")


async def test_a_template_needs_a_name(world: Cluster, kubeconfig: Path, tmp_path: Path) -> None:
    generated = template("a")
    generated["metadata"] = {"generateName": "a-"}
    result = await run_command(kubeconfig, "submit", write_flow(tmp_path, generated))
    assert result.code == 1
    assert "metadata.generateName: Invalid value: " in result.err
    assert await stored_names(world) == ([], [])


async def test_namespaces_come_from_the_object_or_the_flag(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    for name in ("team", "other"):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await world.client.create(NAMESPACES, "", json.dumps(body).encode())
    own = jobflow("own", STEPS)
    own["metadata"]["namespace"] = "other"
    file = write_flow(tmp_path, own)
    result = await run_command(kubeconfig, "submit", file, "-n", "team")
    assert result.code == 1
    assert 'metadata.namespace: Invalid value: "other": differs from -n team' in result.err
    result = await run_command(kubeconfig, "submit", file, "-o", "json")
    assert result.json["metadata"]["namespace"] == "other"
    file = write_flow(tmp_path, *train())
    result = await run_command(kubeconfig, "submit", file, "-n", "team", "-o", "json")
    assert result.json["metadata"]["namespace"] == "team"


@pytest.mark.parametrize(
    ("state", "phase", "again", "cancel"),
    [
        ({"phase": "Running"}, "Running", TEMPLATES + RESUBMIT, "--cancel "),
        ({"phase": "Succeed"}, "Succeed", TEMPLATES + REUSE + RESUBMIT, ""),
        (
            {"phase": "Failed", "reason": "StepFailed"},
            "Failed",
            f"{TEMPLATES}`jobflow retry train` runs its failed steps again, {REUSE}{RESUBMIT}",
            "",
        ),
        ({"phase": "Failed", "reason": "Invalid"}, "Failed", "", ""),
    ],
)
async def test_an_existing_flow_is_refused_before_templates_change(
    world: Cluster,
    kubeconfig: Path,
    tmp_path: Path,
    state: dict[str, str],
    phase: str,
    again: str,
    cancel: str,
) -> None:
    await world.apply(jobflow("train", STEPS))
    await set_status(world, {"state": state}, "train")
    file = write_flow(tmp_path, *train())
    result = await run_command(kubeconfig, "submit", file)
    assert (result.code, result.out) == (1, "")
    first = result.err.splitlines()[0]
    assert first.startswith(f"{file}:") and first.endswith(
        f'error: JobFlow "train" already exists in namespace "default" ({phase}): {again}'
        "--name NAME gives this one another name, "
        f"`jobflow delete {cancel}train` removes the old one"
    )
    assert await stored_names(world) == ([], ["train"])


@pytest.mark.long
async def test_a_refused_template_stops_the_flow(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    causes = [{"reason": "FieldValueInvalid", "field": "spec.queue", "message": "no such queue"}]
    refusal = failure(422, "Invalid", "JobTemplate is invalid", causes=causes)
    world.fails("PATCH", "/jobtemplates/b", refusal)
    file = write_flow(tmp_path, *train())
    result = await run_command(kubeconfig, "submit", file)
    place, _, sentence = result.err.splitlines()[0].partition(": error: ")
    assert sentence == "spec.queue: no such queue"
    first = yaml.safe_dump(template("a"), sort_keys=False).count("\n")
    assert int(place.split(":")[-2]) > first  # in the second document
    assert (result.code, result.out) == (1, "jobtemplate.flow.volcano.sh/a created\n")
    assert await stored_names(world) == (["a"], [])


async def test_a_conflict_with_another_manager_is_explained(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    conflict = 'conflict with "kubectl-client-side-apply" using flow.volcano.sh/v1alpha1'
    causes = [{"reason": "FieldManagerConflict", "field": ".spec.queue", "message": conflict}]
    refusal = failure(409, "Conflict", "Apply failed with 1 conflict", causes=causes)
    world.fails("PATCH", "/jobtemplates/a", refusal)
    result = await run_command(kubeconfig, "submit", write_flow(tmp_path, *train()))
    assert result.code == 1
    assert f"error: spec.queue: {conflict}: apply the file with that tool, or " in result.err
    assert "--force-conflicts --field-manager=jobflow" in result.err


async def test_a_missing_right_is_named_once(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    refused = []
    for name in "ab":
        what = 'resource "jobtemplates" in API group "flow.volcano.sh"'
        user = f'User "bob" cannot patch {what} in the namespace "default"'
        refused.append(f'jobtemplates.flow.volcano.sh "{name}" is forbidden: {user}')
        denied = failure(403, "Forbidden", refused[-1])
        world.fails("PATCH", f"/jobtemplates/{name}", denied)
    file = write_flow(tmp_path, template("a"), template("b"), jobflow("train", STEPS))
    needs = 'sending JobTemplates to namespace "default" needs the role edit'
    sentence = f"{needs}, which an administrator can bind: {refused[0]}"
    result = await run_command(kubeconfig, "submit", file)
    assert result == Result(1, "", f"jobflow: error: {sentence}\n")
    assert await stored_names(world) == ([], [])


async def test_faults_of_templates_are_in_the_order_of_the_file(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    world.fails("PATCH", "/jobtemplates/a", failure(403, "Forbidden", "refused second"))
    world.fails("GET", "/jobtemplates/b", failure(500, "InternalError", "refused first"))
    result = await run_command(kubeconfig, "submit", write_flow(tmp_path, *train()))
    sentences = [line.partition("error: ")[2] for line in result.err.splitlines()]
    assert [*filter(None, sentences)] == ["refused second", "refused first"]


async def test_a_refused_flow_is_an_error(world: Cluster, kubeconfig: Path, tmp_path: Path) -> None:
    forbid(world, "POST", "/jobflows")
    result = await run_command(kubeconfig, "submit", write_flow(tmp_path, *train()))
    assert (result.code, "error: alice must not" in result.err) == (1, True)


async def test_a_user_who_may_not_read_flows_can_submit(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    forbid(world, "GET", "/jobflows/train")
    file = write_flow(tmp_path, *train())
    assert await run_command(kubeconfig, "submit", file) == Result(0, CREATED, "")
    result = await run_command(kubeconfig, "submit", file)
    assert result.code == 1
    assert 'JobFlow "train" already exists in namespace "default": ' in result.err


async def test_a_server_error_is_an_error(world: Cluster, kubeconfig: Path, tmp_path: Path) -> None:
    world.fails("GET", "/jobflows/train", failure(500, "InternalError", "etcd is away"))
    result = await run_command(kubeconfig, "submit", write_flow(tmp_path, *train()))
    assert result == Result(1, "", "jobflow: error: etcd is away\n")


async def test_objects_of_other_kinds_are_named(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    queue = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "research"},
    }
    file = write_flow(tmp_path, queue, *train())
    sentence = f"{file}:4:9: Queue research is not sent: `kubectl apply` it"
    result = await run_command(kubeconfig, "submit", file)
    assert result == Result(0, CREATED, f"jobflow: warning: {sentence}\n")
