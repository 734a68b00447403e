"""The chart without a cluster: rendered objects, and values that are refused."""

import importlib.util
import tomllib
from base64 import b64decode
from typing import Any

import helm_python
import pytest
import yaml

from jobflow.app.settings import Settings
from jobflow.runtime.http_listener import DRAIN_SECONDS
from jobflow.webhook.configuration import command_configuration, webhook_configuration
from support.cluster.rendered_chart import CA, CHART, NAMESPACE, VALUES, Rendered, flags_of
from support.paths import ROOT


@pytest.mark.sampled(4)
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_helm_lint_finds_no_fault(values: dict[str, Any]) -> None:
    report = helm_python.lint(CHART, values, strict=True)
    messages = [message["error"] for message in report["messages"]]
    assert (report["errors"], messages) == ([], ["icon is recommended"])


def test_the_chart_has_the_version_of_the_package() -> None:
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["appVersion"], chart["version"]) == (package, package)
    assert Rendered().container["image"] == f"jobflow:{package}"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_every_flag_is_a_setting_of_serve(values: dict[str, Any]) -> None:
    arguments = Rendered(values).container["args"]
    assert arguments[0] == "serve"
    names = {name.replace("-", "_"): value for name, value in flags_of(arguments).items()}
    assert set(names) <= set(Settings.model_fields)
    switches = {name: True for name, value in names.items() if name.startswith("no_")}
    Settings.model_validate({**names, **switches})


@pytest.mark.sampled(4)
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_pods_have_no_rights_on_their_node(values: dict[str, Any]) -> None:
    rendered = Rendered(values)
    pods = [rendered.pod, *(job["spec"]["template"] for job in rendered.all("Job").values())]
    for pod in (entry["spec"] for entry in pods):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 10_000
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
        # JOBFLOW_WEBHOOK_PORT=tcp://… of a Service would be taken for a setting
        assert pod["enableServiceLinks"] is False


def test_a_release_for_one_namespace_has_no_cluster_objects_or_rights() -> None:
    rendered = Rendered({"namespace": "batch"})
    assert {entry["kind"] for entry in rendered.objects} == {
        *("Deployment", "NetworkPolicy", "PodDisruptionBudget", "Role", "RoleBinding"),
        *("Service", "ServiceAccount"),
    }
    flows = rendered.all("Role")["jobflow-flows"]
    assert flows["metadata"]["namespace"] == "batch"
    requested = {resource for rule in flows["rules"] for resource in rule["resources"]}
    assert requested.isdisjoint(
        {"queues", "customresourcedefinitions", "validatingwebhookconfigurations"}
    )
    assert {"jobflows", "jobtemplates", "jobs", "pods", "namespaces"} <= requested
    bound = rendered.all("RoleBinding")["jobflow-flows"]
    assert (bound["metadata"]["namespace"], bound["roleRef"]["kind"]) == ("batch", "Role")
    assert bound["subjects"][0]["namespace"] == NAMESPACE
    args = rendered.container["args"]
    assert {"--namespace=batch", "--webhook-configuration="} <= set(args)


def test_roles_of_users_read_what_explains_a_waiting_job() -> None:
    roles = Rendered().all("ClusterRole")
    reads = ["get", "list", "watch"]
    rules = roles["jobflow-view"]["rules"]
    assert {"apiGroups": [""], "resources": ["pods"], "verbs": reads} in rules
    volcano = {"apiGroups": ["scheduling.volcano.sh"], "verbs": reads}
    assert {**volcano, "resources": ["podgroups"]} in rules
    viewer = roles["jobflow-queue-viewer"]
    assert viewer["rules"] == [{**volcano, "resources": ["queues"]}]
    assert not any("aggregate" in label for label in viewer["metadata"]["labels"])


def test_the_crd_hook_runs_on_the_same_nodes_without_sidecars() -> None:
    rendered = Rendered({**VALUES["placed"], "hostNetwork": True})
    hook = rendered.one("Job")["spec"]["template"]
    for key in (
        *("affinity", "dnsPolicy", "hostNetwork", "imagePullSecrets", "nodeSelector"),
        *("priorityClassName", "runtimeClassName", "tolerations"),
    ):
        assert hook["spec"][key] == rendered.pod["spec"][key], key
    metadata = hook["metadata"]
    assert metadata["labels"]["sidecar.istio.io/inject"] == "false"
    assert metadata["annotations"]["linkerd.io/inject"] == "disabled"
    assert metadata["labels"]["owner"] == rendered.pod["metadata"]["labels"]["owner"] == "platform"
    assert all(entry["metadata"]["labels"]["owner"] == "platform" for entry in rendered.objects)


def test_replicas_are_spread_and_evicted_one_at_a_time() -> None:
    rendered = Rendered()
    deployment = rendered.one("Deployment")["spec"]
    assert deployment["replicas"] == 2
    labels = deployment["selector"]["matchLabels"]
    assert labels.items() <= rendered.pod["metadata"]["labels"].items()
    spread = rendered.pod["spec"]["topologySpreadConstraints"]
    assert [entry["topologyKey"] for entry in spread] == [
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    ]
    budget = rendered.one("PodDisruptionBudget")["spec"]
    assert (budget["maxUnavailable"], budget["selector"]["matchLabels"]) == (1, labels)


def test_the_grace_period_covers_the_shutdown() -> None:
    rendered = Rendered()
    delay = flags_of(rendered.container["args"])["shutdown-delay"]
    seconds = Settings.model_validate({"shutdown_delay": delay}).shutdown_delay
    assert seconds + DRAIN_SECONDS < rendered.pod["spec"]["terminationGracePeriodSeconds"]


def test_probes_use_served_paths_and_ports() -> None:
    container = Rendered({"http": {"port": 9090}}).container
    assert {"name": "http", "containerPort": 9090} in container["ports"]
    assert "--http-port=9090" in container["args"]
    requested = {
        probe: container[f"{probe}Probe"]["httpGet"]
        for probe in ("startup", "liveness", "readiness")
    }
    assert requested == {
        "startup": {"path": "/healthz", "port": "http"},
        "liveness": {"path": "/healthz", "port": "http"},
        "readiness": {"path": "/readyz", "port": "http"},
    }


def test_services_and_policies_name_existing_ports() -> None:
    rendered = Rendered()
    ports = {port["name"] for port in rendered.container["ports"]}
    targets = {
        port["targetPort"]
        for service in rendered.all("Service").values()
        for port in service["spec"]["ports"]
    }
    allowed = {
        port["port"]
        for rule in rendered.one("NetworkPolicy")["spec"]["ingress"]
        for port in rule["ports"]
    }
    assert ports == targets == allowed == {"http", "webhook"}


def test_limited_egress_includes_pods_of_jobs_if_the_controller_runs() -> None:
    dns = {"ports": [{"port": 53, "protocol": "UDP"}]}
    jobs = {"key": "volcano.sh/job-name", "operator": "Exists"}
    for controller in (True, False):
        values = {"networkPolicy": {"egress": [dns]}, "controller": {"enabled": controller}}
        policy = Rendered(values).one("NetworkPolicy")["spec"]
        probes = {"namespaceSelector": {}, "podSelector": {"matchExpressions": [jobs]}}
        assert policy["egress"] == [dns, *([{"to": [probes]}] if controller else [])]
    assert "egress" not in Rendered().one("NetworkPolicy")["spec"]


def test_clients_of_the_webhook_can_be_limited() -> None:
    server = {"ipBlock": {"cidr": "10.0.0.1/32"}}
    rendered = Rendered(
        {"networkPolicy": {"webhookFrom": [server]}, "webhook": {"clientCA": "clients"}}
    )
    webhook, http = rendered.one("NetworkPolicy")["spec"]["ingress"]
    assert webhook == {"ports": [{"port": "webhook"}], "from": [server]}
    assert "from" not in http
    assert "--client-ca=/client-ca/ca.crt" in rendered.container["args"]
    (mount,) = (m for m in rendered.container["volumeMounts"] if m["name"] == "client-ca")
    assert (mount["mountPath"], mount["readOnly"]) == ("/client-ca", True)
    volumes = rendered.one("Deployment")["spec"]["template"]["spec"]["volumes"]
    assert {"name": "client-ca", "configMap": {"name": "clients"}} in volumes


@pytest.mark.parametrize("on", [False, True])
def test_access_reviews_need_the_setting(on: bool) -> None:
    rendered = Rendered({"webhook": {"subjectAccessReview": on}})
    assert ("--subject-access-review" in rendered.container["args"]) is on
    (role,) = (
        r for r in rendered.all("ClusterRole").values() if r["metadata"]["name"] == "jobflow"
    )
    rule = {
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["localsubjectaccessreviews"],
        "verbs": ["create"],
    }
    assert rule in role["rules"]  # also for Commands about flows


@pytest.mark.parametrize("name", ["files", "outside", "lenient"])
def test_the_chart_registers_the_rules_of_the_code(name: str) -> None:
    expected = webhook_configuration("https://x", b"")["webhooks"]
    charts = Rendered(VALUES[name]).one("ValidatingWebhookConfiguration")["webhooks"]
    assert [entry["name"] for entry in charts] == [entry["name"] for entry in expected]
    same = ("admissionReviewVersions", "sideEffects", "matchPolicy", "rules")
    for one, other in zip(charts, expected, strict=True):
        assert {key: one[key] for key in same} == {key: other[key] for key in same}
        path = other["clientConfig"]["url"].removeprefix("https://x")
        requested = one["clientConfig"]
        assert (requested.get("url") or requested["service"]["path"]).endswith(path)


def test_commands_about_flows_are_reviewed_as_the_code_says() -> None:
    expected = command_configuration("https://x", b"")["webhooks"]
    charts = Rendered().one("MutatingWebhookConfiguration")["webhooks"]
    same = ("name", "reinvocationPolicy", "failurePolicy", "timeoutSeconds", "rules")
    for one, other in zip(charts, expected, strict=True):
        assert {key: one[key] for key in same} == {key: other[key] for key in same}
        *conditions, own = one["matchConditions"]
        assert conditions == other["matchConditions"]
        account = f"system:serviceaccount:{NAMESPACE}:jobflow"
        assert own["expression"] == f"request.userInfo.username != '{account}'"
        assert one["clientConfig"]["service"]["path"] == "/commands/mutate"


def test_answers_to_approvals_fail_closed_in_every_release() -> None:
    rendered = Rendered({"webhook": {"failurePolicy": "Ignore"}})
    webhooks = rendered.one("MutatingWebhookConfiguration")["webhooks"]
    assert [each["failurePolicy"] for each in webhooks] == ["Fail", "Ignore"]


def test_only_a_role_of_its_own_may_approve() -> None:
    roles = Rendered().all("ClusterRole")
    approving = [
        name
        for name, role in roles.items()
        if any("approve" in rule["verbs"] for rule in role["rules"])
    ]
    assert approving == ["jobflow-approver"]
    assert not any(
        "aggregate" in label for label in roles["jobflow-approver"]["metadata"]["labels"]
    )


def test_failure_policy_and_timeout_default_to_those_of_the_code() -> None:
    (expected, *_) = webhook_configuration("https://x", b"")["webhooks"]
    for webhook in Rendered().one("ValidatingWebhookConfiguration")["webhooks"]:
        for key in ("failurePolicy", "timeoutSeconds"):
            assert webhook[key] == expected[key]


@pytest.mark.long
def test_an_upgrade_does_not_clear_a_bundle_that_others_write() -> None:
    for name in ("defaults", "cert-manager", "outside"):
        for webhook in Rendered(VALUES[name]).one("ValidatingWebhookConfiguration")["webhooks"]:
            assert "caBundle" not in webhook["clientConfig"]
    for webhook in Rendered(VALUES["files"]).one("ValidatingWebhookConfiguration")["webhooks"]:
        assert b64decode(webhook["clientConfig"]["caBundle"]).decode() == CA


def test_reviews_exempt_the_controllers_of_the_cluster() -> None:
    rendered = Rendered(VALUES["lenient"])
    for webhook in rendered.one("ValidatingWebhookConfiguration")["webhooks"]:
        expressions = " ".join(entry["expression"] for entry in webhook["matchConditions"])
        for user in (
            f"system:serviceaccount:{NAMESPACE}:jobflow",
            "system:serviceaccount:kube-system:generic-garbage-collector",
            "system:serviceaccount:kube-system:namespace-controller",
            "system:kube-controller-manager",
            "system:serviceaccount:velero:velero",
        ):
            assert f"'{user}'" in expressions
        assert webhook["namespaceSelector"] == {"matchLabels": {"batch": "yes"}}


@pytest.mark.long
def test_a_generated_certificate_has_the_name_of_the_service() -> None:
    rendered = Rendered()
    service = rendered.one("ValidatingWebhookConfiguration")["webhooks"][0]["clientConfig"][
        "service"
    ]
    host = f"{service['name']}.{service['namespace']}.svc"
    assert f"--webhook-host={host}" in rendered.container["args"]
    assert service["name"] in rendered.all("Service")
    outside = Rendered(VALUES["outside"])
    assert "--webhook-host=webhook.example.com" in outside.container["args"]
    assert list(outside.all("Service")) == ["jobflow-metrics"]
    issued = Rendered(VALUES["cert-manager"]).all("Certificate")
    assert issued["jobflow-webhook-certificate"]["spec"]["dnsNames"] == [host]


def test_the_pods_mount_the_secret_of_cert_manager() -> None:
    for name in ("cert-manager", "issuer"):
        rendered = Rendered(VALUES[name])
        certificate = rendered.all("Certificate")["jobflow-webhook-certificate"]
        volumes = {entry["name"]: entry for entry in rendered.pod["spec"]["volumes"]}
        assert volumes["certificate"]["secret"]["secretName"] == certificate["spec"]["secretName"]
        injected = rendered.one("ValidatingWebhookConfiguration")["metadata"]["annotations"]
        assert injected == {
            "cert-manager.io/inject-ca-from": f"{NAMESPACE}/{certificate['metadata']['name']}"
        }
    assert list(Rendered(VALUES["issuer"]).all("Issuer")) == []


def test_mode_files_needs_a_bundle() -> None:
    with pytest.raises(helm_python.HelmError, match=r"certificates\.mode files needs .*caBundle"):
        Rendered({"certificates": {"mode": "files"}})


def test_definitions_are_installed_by_hooks_and_kept() -> None:
    rendered = Rendered()
    assert rendered.all("CustomResourceDefinition") == {}
    hooks = [o for o in rendered.objects if "helm.sh/hook" in o["metadata"].get("annotations", {})]
    assert {o["kind"] for o in hooks} == {
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Job",
    }
    for hook in hooks:
        assert hook["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    with helm_python.Chart.load(CHART) as chart:
        assert chart.crds == []


def test_the_hook_may_change_only_the_definitions_of_jobflow() -> None:
    role = Rendered().all("ClusterRole")["jobflow-crds"]
    names = [path.stem for path in (CHART / "crds").glob("*.yaml")]
    for rule in role["rules"]:
        assert rule["resources"] == ["customresourcedefinitions"]
        assert sorted(rule["resourceNames"]) == sorted(
            f"{plural}.{group}" for group, _, plural in (name.partition("_") for name in names)
        )


def manifests_of_chart() -> Any:
    """Load charts/manifests.py, which belongs to no package."""
    spec = importlib.util.spec_from_file_location(
        "manifests_of_chart", CHART.parent / "manifests.py"
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_deploy_is_rendered_from_the_chart() -> None:
    """`make manifests` updates deploy/."""
    module = manifests_of_chart()
    files = {path.name: path.read_text() for path in (ROOT / "deploy").glob("*")}
    assert files == module.rendered()


def test_deploy_can_name_the_image_by_digest() -> None:
    module = manifests_of_chart()
    image = f"registry.example.com/jobflow@sha256:{'a' * 64}"
    (deployment,) = yaml.safe_load_all(module.rendered(image)["20-deployment.yaml"])
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == image
    with pytest.raises(ValueError, match="has no digest"):
        module.rendered("jobflow:0.1.0")
    with pytest.raises(helm_python.HelmError, match="digest"):
        module.rendered("jobflow@sha256:short")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_names_are_short_enough_for_kubernetes(values: dict[str, Any]) -> None:
    long = "a-release-with-a-name-as-long-as-helm-lets-it-be-jobf"
    for manifest in Rendered(values, name=long).objects:
        assert len(manifest["metadata"]["name"]) <= 63


def test_notes_describe_the_chosen_values() -> None:
    assert "changes to them are refused" in Rendered().notes
    assert "stored unchecked" in Rendered(VALUES["lenient"]).notes
    assert "The webhook is off" in Rendered(VALUES["controller only"]).notes
    assert "The controller is off" in Rendered(VALUES["webhook only"]).notes
    assert "jobflow crds |" in Rendered(VALUES["bare"]).notes
