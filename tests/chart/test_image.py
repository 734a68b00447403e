"""Checks of Dockerfile and docker-compose.yml that need no containers."""

import fnmatch
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from compose_spec import PyCompose

from jobflow.app.settings import Settings
from jobflow.webhook.configuration import command_configuration, webhook_configuration
from support.cluster.rendered_chart import Rendered, flags_of
from support.paths import ROOT

LOCKED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^ ;\\]+)", re.MULTILINE)
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def instructions() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, args) for word, _, args in (line.partition(" ") for line in lines)]


def locked(name: str) -> dict[str, str]:
    return dict(LOCKED.findall((ROOT / name).read_text()))


def test_the_image_and_the_chart_have_the_same_user() -> None:
    dockerfile = dict(instructions())
    security = Rendered().pod["spec"]["securityContext"]
    assert dockerfile["USER"] == f"{security['runAsUser']}:{security['runAsGroup']}"
    assert yaml.safe_load(dockerfile["ENTRYPOINT"]) == ["jobflow"]
    assert "command" not in Rendered().container


def test_packages_are_installed_by_hash_at_the_tested_versions() -> None:
    tested = locked("requirements.lock")
    for name in ("requirements-runtime.lock", "requirements-build.lock"):
        assert locked(name).items() <= tested.items()
    assert not {"pytest", "ruff", "helm-python-sdk"} & set(locked("requirements-runtime.lock"))
    installs = [args for word, args in instructions() if word == "RUN" and " install " in args]
    for install in installs:
        for part in install.split("&&"):
            assert " install " not in part or "--require-hashes" in part or "--no-index" in part


def test_nothing_but_what_a_lock_names_is_resolved() -> None:
    for name in ("Dockerfile", "Makefile"):
        text = (ROOT / name).read_text().replace("\\\n", " ")
        from_locks = [line for line in text.splitlines() if re.search(r"install .*\.lock\b", line)]
        assert len(from_locks) == 2
        assert all("--require-hashes" in line and "--no-deps" in line for line in from_locks)


def test_the_base_image_is_named_by_digest() -> None:
    bases = [args.split()[0] for word, args in instructions() if word == "FROM"]
    assert set(bases) == {"${BASE}"}
    (base,) = (args for word, args in instructions() if word == "ARG")
    assert re.fullmatch(r"BASE=python:3\.11-slim-bookworm@sha256:[0-9a-f]{64}", base)


@pytest.mark.long
def test_the_bill_of_materials_lists_what_the_image_installs(tmp_path: Path) -> None:
    out = tmp_path / "sbom.json"
    subprocess.run(["make", "-s", "sbom", f"SBOM={out}"], cwd=ROOT, check=True)
    bill = json.loads(out.read_text())
    assert bill["bomFormat"] == "CycloneDX"
    listed = {part["name"]: part["version"] for part in bill["components"]}
    assert listed == locked("requirements-runtime.lock")
    assert all(part["externalReferences"][0]["hashes"] for part in bill["components"])


def test_copied_files_exist_and_are_not_ignored() -> None:
    kept = [
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    copied = [shlex.split(args) for word, args in instructions() if word == "COPY"]
    sources = {source for words in copied if "--from" not in words[0] for source in words[:-1]}
    assert sources == set(kept)
    assert all((ROOT / source).exists() for source in sources)


def test_no_secret_file_is_copied_into_the_image() -> None:
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    assert rules[1] == "*"
    for path in ("certs/tls.key", ".jobflow/kubeconfig", ".git/config"):
        assert not any(fnmatch.fnmatch(path, rule[1:]) for rule in rules if rule[:1] == "!")


def test_the_compose_file_is_valid() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    parsed = PyCompose.from_yaml(text.replace("${CERTS_OWNER:-0:0}", "0:0"))
    assert sorted(parsed.service_names()) == sorted(COMPOSE["services"])
    with pytest.raises(ValueError, match="imag"):
        PyCompose.from_yaml("services: {a: {imag: b}}")


def test_services_refer_only_to_existing_services_and_configs() -> None:
    services = COMPOSE["services"]
    for name, service in services.items():
        for needed, dependency in service.get("depends_on", {}).items():
            assert needed in services, name
            assert dependency["condition"] in ("service_started", "service_completed_successfully")
        for config in service.get("configs", ()):
            assert config["source"] in COMPOSE["configs"]
    named = re.findall(r"https?://([a-z-]+):\d+", (ROOT / "docker-compose.yml").read_text())
    assert set(named) - {"localhost"} <= set(services)


def test_services_that_read_keys_run_as_their_owner_or_root() -> None:
    readers = [one for one in COMPOSE["services"].values() if "./certs:" in str(one.get("volumes"))]
    assert len(readers) > 8
    assert {one["user"] for one in readers} == {"${CERTS_OWNER:-0:0}"}


def test_git_ignores_what_certs_holds_but_not_its_readme() -> None:
    rules = (ROOT / ".gitignore").read_text().splitlines()
    assert [rule for rule in rules if "certs" in rule] == ["certs/*", "!certs/README.md"]


def test_volcano_does_not_run_flows() -> None:
    controllers = flags_of(COMPOSE["services"]["volcano-controllers"]["command"])["controllers"]
    assert {"*", "-jobflow-controller", "-jobtemplate-controller"} <= set(controllers.split(","))
    admission = flags_of(COMPOSE["services"]["volcano-admission"]["command"])
    assert "/jobflows/validate" not in admission["enabled-admission"].split(",")


def test_the_compose_file_uses_existing_flags() -> None:
    arguments = COMPOSE["services"]["jobflow"]["command"]
    assert arguments[0] == "serve"
    options = {name.replace("-", "_"): value for name, value in flags_of(arguments).items()}
    Settings.model_validate(options)
    assert set(options) <= set(Settings.model_fields)


def test_the_compose_file_registers_the_rules_of_the_code() -> None:
    manifests = yaml.safe_load(COMPOSE["configs"]["objects"]["content"])["items"]
    keys = "name rules failurePolicy sideEffects admissionReviewVersions matchConditions".split()
    for expected in (webhook_configuration, command_configuration):
        made = expected("https://jobflow:8443", b"")
        kind = made["kind"], made["metadata"]["name"]
        [registered] = [
            each for each in manifests if (each["kind"], each["metadata"]["name"]) == kind
        ]
        for one, other in zip(registered["webhooks"], made["webhooks"], strict=True):
            assert one["clientConfig"]["url"] == other["clientConfig"]["url"]
            assert [one.get(key) for key in keys] == [other.get(key) for key in keys]


def test_versions_are_the_same_everywhere() -> None:
    version = Rendered().container["image"]
    for service in COMPOSE["services"].values():
        image = service["image"]
        assert not image.startswith("jobflow:") or image == version
    module = (ROOT / "tests" / "cluster" / "go.mod").read_text()
    (kubernetes,) = re.findall(r"k8s\.io/kubernetes (v[\d.]+)", module)
    for name in ("kube-apiserver", "kube-controller-manager"):
        assert COMPOSE["services"][name]["image"].endswith(f":{kubernetes}")
