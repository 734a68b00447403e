"""Checks of the definitions, that Volcano runs, and that its own controllers of JobFlows are off:
two controllers would start every job twice (docs/operations.md)."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from itertools import chain, pairwise

from jobflow.api import resources
from jobflow.api.kinds import KINDS, FlowKind
from jobflow.cli.cluster.doctor import reading
from jobflow.cli.cluster.doctor.reading import Cluster, Json, Result, fault, name_of, ok, warning
from jobflow.core.manifests.installed_crds import definition_faults
from jobflow.core.text import join_names
from jobflow.webhook.configuration import APPROVALS_WEBHOOK, COMMANDS_WEBHOOK

CONTROLLER, SCHEDULER = "volcano-controller", "volcano-scheduler"
"""Label `app` of the Deployments of Volcano's chart."""
OUR_WEBHOOKS = frozenset(kind.resource.qualified for kind in KINDS.values())
"""Names of webhooks in JobFlow's validating configuration."""
COMMAND_WEBHOOKS = frozenset({APPROVALS_WEBHOOK, COMMANDS_WEBHOOK})
"""Names of webhooks in JobFlow's mutating configuration."""
_NO_DEPLOYMENT = {
    CONTROLLER: (
        "controller manager",
        "that it runs, and that its --controllers include -jobflow-controller and "
        "-jobtemplate-controller",
    ),
    SCHEDULER: ("scheduler", "that it runs, because without it no pod of a job starts"),
}
"""By app: its name, and what to check if no Deployment has the label."""
_THEIRS = ("jobflow-controller", "jobtemplate-controller")
_SWITCH_OFF = (
    "In Volcano's chart, set custom.controller_enabled_controllers: "
    '"*,-sharding-controller,-jobflow-controller,-jobtemplate-controller".'
)
_START = "See the logs of its pods."
_APPLY = "Run `jobflow crds --apply`."
_INSTALL_VOLCANO = "Install Volcano, or its definitions (docs/operations.md, Requirements)."


async def check_definitions(cluster: Cluster) -> AsyncIterator[Result]:
    """Check that JobFlow's kinds are served, by definitions that fit this version."""
    # discovery needs no rights; users of a namespace may not read definitions
    served = [kind for kind in KINDS.values() if await cluster.serves(kind.resource)]
    for kind in KINDS.values():
        if kind not in served:
            yield fault(f"The cluster does not serve {kind.resource.qualified}.", _APPLY)
    for kind in served:
        definition = await cluster.read(resources.CRDS, "", kind.resource.qualified)
        yield describe_definition(kind, definition or {})


def describe_definition(kind: FlowKind, definition: Json) -> Result:
    name = kind.resource.qualified
    conditions = (definition.get("status") or {}).get("conditions") or ()
    for each in conditions:
        if each.get("type") == "NamesAccepted" and each.get("status") == "False":
            remedy = "Remove the other definition that has these names."
            return fault(f"{name} is not served: {each.get('message', '')}.", remedy)
    faults = definition_faults(kind.name, definition)
    if not faults:
        return ok(f"{name} fits this version.")
    # only Volcano's definition has defaults for jobs
    replaced = any(each.endswith("has a default") for each in faults)
    why = "is Volcano's, not JobFlow's" if replaced else "is older than this version"
    return fault(f"{name} {why}: {join_names(faults)}.", _APPLY)


async def check_volcano(cluster: Cluster) -> AsyncIterator[Result]:
    # a job needs the first two, a Command of a user the third
    needed = (resources.JOBS, resources.QUEUES, resources.COMMANDS)
    missing = [each.qualified for each in needed if not await cluster.serves(each)]
    if missing:
        yield fault(f"The cluster does not serve {join_names(missing)}.", _INSTALL_VOLCANO)
    else:
        yield ok("Volcano's jobs, queues and commands are served.")
    # only an explanation needs them
    if not missing and not await cluster.serves(resources.POD_GROUPS):
        yield warning(
            f"The cluster does not serve {resources.POD_GROUPS.qualified}, so "
            "`jobflow why` cannot explain why a job waits for Volcano.",
            "The sandbox has none; on a cluster, install Volcano's definitions.",
        )


async def check_controllers(cluster: Cluster) -> AsyncIterator[Result]:
    """Check the Deployments of Volcano: they run, and its controllers of flows are off."""
    query = (("labelSelector", f"app in ({CONTROLLER},{SCHEDULER})"),)
    deployments = await cluster.read_all(resources.DEPLOYMENTS, query=query)
    for app in (CONTROLLER, SCHEDULER):
        found = [each for each in deployments if _label(each) == app]
        if not found:  # installed without Volcano's chart, or not at all
            part, advice = _NO_DEPLOYMENT[app]
            yield warning(
                f"No Deployment has the label app={app}, so Volcano's {part} was not checked.",
                f"If Volcano was not installed by its chart, check {advice}.",
            )
        for each in found:
            yield describe_deployment(each)


def describe_deployment(deployment: Json) -> Result:
    meta = deployment["metadata"]
    name = f"{meta.get('namespace')}/{meta.get('name')}"
    # absent if 0
    if not (deployment.get("status") or {}).get("availableReplicas"):
        return fault(f"No replica of Volcano's Deployment {name} is available.", _START)
    if _label(deployment) == CONTROLLER:
        containers = deployment["spec"]["template"]["spec"].get("containers") or ()
        # a manifest may have the flags in either
        parts = [each.get(key) or () for each in containers for key in ("command", "args")]
        flags = list_controllers([*chain(*parts)])
        on = [controller for controller in _THEIRS if is_enabled(controller, flags)]
        if on:
            start = "start" if len(on) > 1 else "starts"
            message = f"Volcano's own {' and '.join(on)} of {name} also {start} jobs of flows."
            return fault(message, _SWITCH_OFF)
    return ok(f"Volcano's Deployment {name} runs.")


def list_controllers(arguments: Sequence[str]) -> list[str]:
    """Return the value of `--controllers`; empty if it is not set."""
    for flag, following in pairwise([*arguments, ""]):
        if flag == "--controllers":
            return following.split(",")
        if flag.startswith("--controllers="):
            return flag.partition("=")[2].split(",")
    return []


def is_enabled(controller: str, flags: Sequence[str]) -> bool:
    """Return whether Volcano runs a controller (volcano cmd/controller-manager/app/server.go): the
    first of `x`, `+x` and `-x` decides, else whether `*` is given. Without flags all run."""
    for flag in flags:
        if flag in (controller, f"+{controller}"):
            return True
        if flag == f"-{controller}":
            return False
    return not flags or "*" in flags


def _label(deployment: Json) -> str:
    return str((deployment["metadata"].get("labels") or {}).get("app") or "")


async def check_admission(cluster: Cluster) -> AsyncIterator[Result]:
    """Check that only JobFlow's webhook reviews JobFlow's kinds."""
    validating = await cluster.read_all(resources.VALIDATING_WEBHOOKS)
    mutating = await cluster.read_all(resources.MUTATING_WEBHOOKS)
    found = [*_others(validating), *_others(mutating)]
    policies: list[Json] = []
    with suppress(reading.NotServed):  # before Kubernetes 1.30
        policies = await cluster.read_all(resources.VALIDATING_POLICIES)
    volcanos_policies = []
    for policy in policies:
        constraints = (policy.get("spec") or {}).get("matchConstraints") or {}
        is_volcanos = "volcano.sh/component" in (policy["metadata"].get("labels") or {})
        if is_volcanos and _reviews(constraints.get("resourceRules")):
            volcanos_policies.append(name_of(policy))
    for name, volcanos in found:
        if volcanos:
            yield fault(
                f"Volcano's webhook configuration {name} also reviews JobFlows and refuses fields "
                "that it does not know.",
                "In Volcano's chart, remove /jobflows/validate from custom.enabled_admissions.",
            )
        else:
            yield warning(
                f"The webhook configuration {name} also reviews JobFlow's kinds.",
                "Check that it knows the fields of this version.",
            )
    for name in volcanos_policies:
        yield fault(
            f"Volcano's ValidatingAdmissionPolicy {name} also reviews JobFlows.",
            "In Volcano's chart, unset custom.vap_enable, or delete the policy.",
        )
    if not found and not volcanos_policies:
        yield ok("No other webhook reviews JobFlow's kinds.")


def _others(configurations: Iterable[Json]) -> list[tuple[str, bool]]:
    """Return the configurations of others that name JobFlow's group; True: it is Volcano's."""
    found = {}
    for configuration in configurations:
        for webhook in configuration.get("webhooks") or ():
            # a policy engine that reviews all groups names `*` and is no other JobFlow
            if webhook.get("name") not in OUR_WEBHOOKS and _reviews(webhook.get("rules")):
                service = (webhook.get("clientConfig") or {}).get("service") or {}
                # the chart puts the name of its release before it
                volcanos = str(service.get("name", "")).endswith("-admission-service")
                found[name_of(configuration)] = volcanos
    return sorted(found.items())


def _reviews(rules: Iterable[Json] | None) -> bool:
    return any(resources.FLOW_GROUP in (rule.get("apiGroups") or ()) for rule in rules or ())
