"""Environment, command and faults that the process runner derives from a pod template."""

import re
from pathlib import Path
from typing import Any

import pytest

from jobflow.api.resources import CONFIG_MAPS, SECRETS
from jobflow.sandbox.nodes.environment import ContainerContext, expand
from jobflow.sandbox.nodes.pod_spec import faults, pod_spec
from jobflow.sandbox.nodes.volumes import MissingSource, Sources
from support.sandbox.processes import Json, job_of, pod_of, pod_task, sh


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)", "x1y2"),
        ("$(MISSING)", "$(MISSING)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
        ("$()", "$()"),
        ("$(A$(B))", "$(A$(B))"),
    ],
)
def test_references_are_expanded_as_in_kubernetes(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expanded


def invocation(container: Json, index: int = 0, **more: Any) -> tuple[list[str], dict[str, str]]:
    """Return the arguments and environment of the first container of a task with three pods."""
    spec, volumes = more.pop("spec", {}), more.pop("claims_in", Path())
    job = job_of(pod_task(container, replicas=3, **more), pod_task(sh(""), task="my-ps"), **spec)
    tasks = job.spec.tasks or []
    template = pod_spec(tasks[0])
    context = ContainerContext(
        pod_of(job, 0, index),
        template,
        job,
        lambda pod: f"at-{pod}",
        {"PATH": "/bin"},
        lambda claim: volumes / claim,
    )
    return context.invocation((template.containers or [])[0], "/tmp/message", {})[:2]


def env(*variables: Json, **more: Any) -> dict[str, str]:
    return invocation(sh("", env=list(variables)), **more)[1]


def test_a_variable_can_refer_to_earlier_variables() -> None:
    variables = env(
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)$(C)"},
        {"name": "C", "value": "$(B)"},
    )
    assert (variables["B"], variables["C"]) == ("1$(C)", "1$(C)")


def test_command_and_args_are_expanded_without_variables_of_the_machine() -> None:
    argv, variables = invocation({"name": "c", "command": ["$(A)"], "args": ["$(PATH)", "$(A)"],
                    "env": [{"name": "A", "value": "x"}]})  # fmt: skip
    assert argv == ["x", "$(PATH)", "x"]
    assert variables["PATH"] == "/bin"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("metadata.name", "j-t-2"),
        ("metadata.namespace", "default"),
        ("metadata.uid", "uid-j-t-2"),
        ("metadata.labels['volcano.sh/task-index']", "2"),
        ("metadata.labels['other']", ""),
        ("metadata.annotations['volcano.sh/job-name']", "j"),
        ("spec.nodeName", "sandbox"),
        ("spec.serviceAccountName", "default"),
        ("status.podIP", "at-j-t-2"),
        ("status.podIPs", "at-j-t-2"),
        ("status.hostIP", "127.0.0.1"),
    ],
)
def test_a_variable_can_refer_to_a_field_of_the_pod(field: str, value: str) -> None:
    variable = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": field}}}
    assert env(variable, index=2)["A"] == value


def test_the_plugins_of_volcano_set_the_task_index_and_all_hosts() -> None:
    variables = env(index=1, spec={"plugins": {"env": [], "svc": []}})
    assert {name: value for name, value in variables.items() if name.startswith("V")} == {
        "VC_TASK_INDEX": "1",
        "VK_TASK_INDEX": "1",
        "VC_T_HOSTS": "at-j-t-0,at-j-t-1,at-j-t-2",
        "VC_T_NUM": "3",
        "VC_MY_PS_HOSTS": "at-j-my-ps-0",
        "VC_MY_PS_NUM": "1",
    }


def test_without_the_plugins_these_variables_are_not_set() -> None:
    without_hosts = {"plugins": {"svc": ["--inject-hosts-env=false"]}}
    for spec in ({}, without_hosts):
        assert not [name for name in env(spec=spec) if name.startswith("V")]


def test_pods_with_the_same_hostname_are_one_host() -> None:
    variables = env(spec={"plugins": {"svc": []}}, hostname="only")
    assert (variables["VC_T_HOSTS"], variables["VC_T_NUM"], variables["HOSTNAME"]) == (
        "at-j-t-0",
        "1",
        "only",
    )


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("echo x > /dev/termination-log", "echo x > /tmp/message"),
        ("tee -a '/dev/termination-log';", "tee -a '/tmp/message';"),
        ("of=/dev/termination-log", "of=/tmp/message"),
        ("/dev/termination-log.old /x/dev/termination-log", None),
        ("$ROOT/dev/termination-log ${ROOT}/dev/termination-log-2", None),
    ],
)
def test_the_path_of_the_termination_message_is_replaced(text: str, replaced: str | None) -> None:
    variable = {"name": "A", "value": text}
    argv, variables = invocation(sh(text, env=[variable]))
    assert (argv[-1], variables["A"]) == (replaced or text, replaced or text)
    assert variables["TERMINATION_LOG"] == "/tmp/message"


def test_a_custom_path_of_the_termination_message_is_replaced() -> None:
    argv, found = invocation(
        sh("> /out/m; > /dev/termination-log", terminationMessagePath="/out/m")
    )
    assert argv[-1] == "> /tmp/message; > /dev/termination-log"


VOLUME = {"name": "data", "persistentVolumeClaim": {"claimName": "f-data"}}


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("cat /data/in.csv > /data", "cat {}/in.csv > {}"),
        ("--out=/data/x '/data'", "--out={}/x '{}'"),
        ("/database /data-2 /x/data /data.old $ROOT/data", None),
    ],
)
def test_the_mount_path_of_a_claim_is_replaced(
    text: str, replaced: str | None, tmp_path: Path
) -> None:
    mounts = [{"name": "data", "mountPath": "/data/"}, {"name": "other", "mountPath": "/other"}]
    container = sh(text, volumeMounts=mounts, env=[{"name": "A", "value": "/data/a /other"}])
    argv, variables = invocation(container, volumes=[VOLUME], claims_in=tmp_path)
    place = str(tmp_path / "f-data")
    assert argv[-1] == (replaced or text).replace("{}", place)
    assert variables["A"] == f"{place}/a /other"
    assert (tmp_path / "f-data").is_dir()


C = "spec.tasks[0].template.spec.containers[0]"


@pytest.mark.parametrize(
    ("container", "message"),
    [
        ({"name": "c", "image": "x"}, f"{C}.command: container c has no command, and"),
        ({"name": "c", "args": ["x"]}, f"{C}.command: container c has no command"),
        ({"command": "sh"}, "spec.tasks[0].template.spec: Expected `array | null`, got `str`"),
        (
            sh("", env=[{"name": "A", "valueFrom": {"secretKeyRef": {"key": "k"}}}]),
            f"{C}.env[0].valueFrom.secretKeyRef.name: write the name of the Secret",
        ),
        (
            sh("", env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "s"}}}]),
            f"{C}.env[0].valueFrom.configMapKeyRef.key: write the key in the ConfigMap",
        ),
        (
            sh("", env=[{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "x"}}}]),
            f"{C}.env[0].valueFrom.resourceFieldRef: processes have no resources",
        ),
        (
            sh("", env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]),
            f'{C}.env[0].valueFrom.fieldRef.fieldPath: "spec.x" is not one of metadata.name, ',
        ),
        (sh("", envFrom=[{"secretRef": {}}]), f"{C}.envFrom[0].secretRef.name: write the name"),
        (sh("", workingDir="../.."), f"{C}.workingDir: it must be an absolute path"),
    ],
)
def test_a_container_that_cannot_run_is_a_fault_with_its_path(
    container: Json, message: str
) -> None:
    [fault] = faults(job_of(pod_task(container)))
    assert fault.startswith(message)


@pytest.mark.parametrize("name", ["../../outside", "", "/etc", "Data"])
def test_a_volume_whose_claim_cannot_exist_is_a_fault(name: str) -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": name}}
    [fault] = faults(job_of(pod_task(sh(""), volumes=[volume])))
    path = "spec.tasks[0].template.spec.volumes[0].persistentVolumeClaim.claimName"
    assert fault.startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            {"secret": {"secretName": "s", "items": [{"key": "k", "path": "../out"}]}},
            "secret.items[0].path: it must be a path inside of the volume",
        ),
        ({"secret": {}}, "secret.secretName: write the name of the object"),
        ({"name": "../v", "emptyDir": {}}, 'name: "../v" is not the name of a volume'),
        ({"configMap": {}}, "configMap.name: write the name of the object"),
        (
            {"projected": {"sources": [{"configMap": {"name": "c", "items": [{"key": "k"}]}}]}},
            "projected.sources[0].configMap.items[0].path: it must be a path inside",
        ),
    ],
)
def test_a_volume_whose_files_have_no_place_is_a_fault(source: Json, message: str) -> None:
    [fault] = faults(job_of(pod_task(sh(""), volumes=[{"name": "v", **source}])))
    assert fault.startswith(f"spec.tasks[0].template.spec.volumes[0].{message}")


def test_missing_optional_references_are_ignored() -> None:
    ref = {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}
    variable = {"name": "A", "valueFrom": ref}
    container = sh("", env=[variable], envFrom=[{"configMapRef": {"name": "s", "optional": True}}])
    assert not list(faults(job_of(pod_task(container))))
    assert "A" not in invocation(container)[1]


def test_unsupported_sidecars_and_plugins_are_faults() -> None:
    sidecar = pod_task(sh(""), initContainers=[sh("", restartPolicy="Always")])
    found = list(faults(job_of(sidecar, plugins={"pytorch": [], "ssh": [], "svc": []})))
    assert [fault.split(":")[0] for fault in found] == [
        "spec.plugins.pytorch",
        "spec.tasks[0].template.spec.initContainers[0].restartPolicy",
    ]


def mounted(expression: str, folder: Path) -> str:
    """Return the directory of a mount whose subPathExpr sees the variable A=a$$x of a pod."""
    mounts = [{"name": "data", "mountPath": "/data", "subPathExpr": expression}]
    container = sh("/data", volumeMounts=mounts, env=[{"name": "A", "value": "a$$$$x"}])
    argv, _ = invocation(container, volumes=[VOLUME], claims_in=folder)
    return argv[-1]


def test_a_sub_path_can_have_variables(tmp_path: Path) -> None:
    assert mounted("$(A)/$$(A)", tmp_path) == f"{tmp_path}/f-data/a$$x/$(A)"


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("x/$(B)", "subPathExpr has no value for B"),
        ("../x", "subPathExpr leads out of the volume: '../x'"),
        ("/x", "subPathExpr leads out of the volume: '/x'"),
    ],
)
def test_a_sub_path_without_a_value_or_outside_of_the_volume_is_an_error(
    expression: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(OSError, match=why):
        mounted(expression, tmp_path)


SECRET: Sources = {(SECRETS, "s"): {"k": b"v$(A)", "b": b"\xff"}, (CONFIG_MAPS, "c"): {"k": b"1"}}


def sourced(sources: Sources = SECRET, **container: Any) -> dict[str, str]:
    job = job_of(pod_task(sh("", **container)))
    template = pod_spec((job.spec.tasks or [])[0])
    context = ContainerContext(pod_of(job), template, job, str, {}, Path)
    return context.invocation((template.containers or [])[0], "", sources)[1]


def test_values_of_secrets_and_config_maps_become_variables_in_a_kubelets_order() -> None:
    prefixed = {"prefix": "P_", "secretRef": {"name": "s"}}
    found = sourced(
        envFrom=[{"configMapRef": {"name": "c"}}, prefixed],
        env=[
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "P_b", "value": "$(A) $(P_k)"},
        ],
    )
    # A value is not expanded itself, and env does not see the values of envFrom.
    assert (found["k"], found["P_k"], found["A"]) == ("1", "v$(A)", "v$(A)")
    assert found["P_b"] == "v$(A) $(P_k)"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ({"secretKeyRef": {"name": "x", "key": "k"}}, 'secret "x" not found'),
        ({"secretKeyRef": {"name": "s", "key": "x"}}, "couldn't find key x in Secret default/s"),
        ({"configMapKeyRef": {"name": "x", "key": "k"}}, 'configmap "x" not found'),
    ],
)
def test_a_missing_source_is_named_in_a_kubelets_words_unless_it_is_optional(
    reference: Json, message: str
) -> None:
    variable = {"name": "A", "valueFrom": reference}
    with pytest.raises(MissingSource, match=f"^{re.escape(message)}$"):
        sourced(env=[variable])
    next(iter(reference.values()))["optional"] = True
    assert "A" not in sourced(env=[variable])
