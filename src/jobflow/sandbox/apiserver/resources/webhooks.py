"""Rules of admission webhook configurations."""

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from jobflow.core.cel.expression import ExpressionFault, parse_expression
from jobflow.core.violations import Reason, Violation
from jobflow.sandbox.apiserver.kinds import Object, Rules

_OPERATIONS = ("*", "CREATE", "UPDATE", "DELETE", "CONNECT")


class WebhookRules(Rules):
    """Rules of webhook configurations (k8s.io/kubernetes pkg/apis/admissionregistration)."""

    def complete(self, obj: Object, old: Object | None = None) -> list[str]:
        defaults: Object = {"failurePolicy": "Fail", "matchPolicy": "Equivalent"}
        defaults |= {"timeoutSeconds": 10, "namespaceSelector": {}, "objectSelector": {}}
        if obj["kind"].startswith("Mutating"):
            defaults["reinvocationPolicy"] = "Never"
        for webhook in obj.get("webhooks") or ():
            webhook |= deepcopy(defaults) | webhook
            for rule in webhook.get("rules") or ():
                rule.setdefault("scope", "*")
        return []

    def violations(self, obj: Object, old: Object | None) -> Iterator[Violation]:
        names: set[str] = set()
        for index, webhook in enumerate(obj.get("webhooks") or ()):
            path = f"webhooks[{index}]"
            name = webhook.get("name") or ""
            if name in names:
                yield Violation(f"{path}.name", Reason.DUPLICATE, name, "")
            names.add(name)
            yield from _webhook(webhook, path)


def _webhook(webhook: Mapping[str, Any], path: str) -> Iterator[Violation]:
    name = webhook.get("name") or ""
    if not name:
        yield Violation(f"{path}.name", Reason.REQUIRED, name, "")
    elif name.count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        yield Violation(f"{path}.name", Reason.INVALID, name, detail)
    if not webhook.get("sideEffects"):
        detail = "must specify one of None, NoneOnDryRun"
        yield Violation(f"{path}.sideEffects", Reason.REQUIRED, None, detail)
    versions, where = webhook.get("admissionReviewVersions"), f"{path}.admissionReviewVersions"
    if not versions:
        yield Violation(where, Reason.REQUIRED, None, "must specify one of v1, v1beta1")
    elif "v1" not in versions:
        yield Violation(where, Reason.INVALID, versions, "must include at least one of v1, v1beta1")
    yield from _choices(webhook, path)
    yield from _client(webhook.get("clientConfig") or {}, f"{path}.clientConfig")
    for index, rule in enumerate(webhook.get("rules") or ()):
        yield from _rule(rule, f"{path}.rules[{index}]")
    for index, condition in enumerate(webhook.get("matchConditions") or ()):
        yield from _condition(condition, f"{path}.matchConditions[{index}]")


def _choices(webhook: Mapping[str, Any], path: str) -> Iterator[Violation]:
    for field, allowed in (
        ("failurePolicy", ("Fail", "Ignore")),
        ("matchPolicy", ("Equivalent", "Exact")),
        ("sideEffects", ("None", "NoneOnDryRun")),
    ):
        value = webhook.get(field)
        if value is not None and value not in allowed:
            yield Violation(f"{path}.{field}", Reason.NOT_SUPPORTED, value, _supported(allowed))
    seconds = webhook.get("timeoutSeconds", 10)
    if not isinstance(seconds, int) or not 1 <= seconds <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        yield Violation(f"{path}.timeoutSeconds", Reason.INVALID, seconds, detail)


def _client(config: Mapping[str, Any], path: str) -> Iterator[Violation]:
    url, service = config.get("url"), config.get("service")
    if bool(url) is bool(service):
        detail = "exactly one of url or service is required"
        yield Violation(path, Reason.REQUIRED, None, detail)
    elif url and not str(url).startswith("https://"):
        detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        yield Violation(f"{path}.url", Reason.INVALID, str(url).partition(":")[0], detail)
    elif service:
        for field in ("name", "namespace"):
            if not service.get(field):
                yield Violation(f"{path}.service.{field}", Reason.REQUIRED, None, "")
    bundle = config.get("caBundle")
    if bundle and not _is_pem(bundle):
        detail = "unable to load root certificates: unable to parse bytes as PEM block"
        yield Violation(f"{path}.caBundle", Reason.INVALID, bundle, detail)


def _is_pem(bundle: str) -> bool:
    try:
        return b"-----BEGIN CERTIFICATE-----" in base64.b64decode(bundle, validate=True)
    except (binascii.Error, TypeError):
        return False


def _condition(condition: Mapping[str, Any], path: str) -> Iterator[Violation]:
    for field in ("name", "expression"):
        if not condition.get(field):
            yield Violation(f"{path}.{field}", Reason.REQUIRED, None, "")
    text = condition.get("expression") or "true"
    parsed = parse_expression(text)
    if isinstance(parsed, ExpressionFault):
        detail = f"compilation failed: {parsed.message}"
        yield Violation(f"{path}.expression", Reason.INVALID, text, detail)


def _rule(rule: Mapping[str, Any], path: str) -> Iterator[Violation]:
    for field in ("operations", "apiGroups", "apiVersions", "resources"):
        if not rule.get(field):
            yield Violation(f"{path}.{field}", Reason.REQUIRED, None, "")
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in _OPERATIONS:
            where, detail = f"{path}.operations[{index}]", _supported(sorted(_OPERATIONS))
            yield Violation(where, Reason.NOT_SUPPORTED, operation, detail)


def _supported(words: Iterable[str]) -> str:
    return "supported values: " + ", ".join(f'"{word}"' for word in words)
