"""Rules of admission webhook configurations."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from typing import Any

from jobflow.core.cel.expression import ExpressionFault, parse_expression
from jobflow.core.violations import Reason, Violation
from jobflow.sandbox.apiserver.kinds import Object, Rules, require

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_CHOICES = {
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Equivalent", "Exact"),
    "sideEffects": ("None", "NoneOnDryRun"),
}


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
            path, name = f"webhooks[{index}]", webhook.get("name") or ""
            if name in names:
                yield Violation(f"{path}.name", Reason.DUPLICATE, name, "")
            names.add(name)
            yield from self._webhook(webhook, name, path)

    def _webhook(self, webhook: Mapping[str, Any], name: str, path: str) -> Iterator[Violation]:
        yield from require(webhook, path, "name")
        if name and name.count(".") < 2:
            detail = "should be a domain with at least three segments separated by dots"
            yield Violation(f"{path}.name", Reason.INVALID, name, detail)
        if not webhook.get("sideEffects"):
            detail = "must specify one of None, NoneOnDryRun"
            yield Violation(f"{path}.sideEffects", Reason.REQUIRED, None, detail)
        versions, where = webhook.get("admissionReviewVersions"), f"{path}.admissionReviewVersions"
        if not versions:
            yield Violation(where, Reason.REQUIRED, None, "must specify one of v1, v1beta1")
        elif "v1" not in versions:
            detail = "must include at least one of v1, v1beta1"
            yield Violation(where, Reason.INVALID, versions, detail)
        for field, allowed in _CHOICES.items():
            yield from _unsupported(webhook.get(field), allowed, f"{path}.{field}")
        seconds = webhook.get("timeoutSeconds", 10)
        if not isinstance(seconds, int) or not 1 <= seconds <= 30:
            detail = "the timeout value must be between 1 and 30 seconds"
            yield Violation(f"{path}.timeoutSeconds", Reason.INVALID, seconds, detail)
        yield from self._client(webhook.get("clientConfig") or {}, f"{path}.clientConfig")
        for index, rule in enumerate(webhook.get("rules") or ()):
            where = f"{path}.rules[{index}]"
            yield from require(rule, where, "operations", "apiGroups", "apiVersions", "resources")
            for number, operation in enumerate(rule.get("operations") or ()):
                yield from _unsupported(operation, _OPERATIONS, f"{where}.operations[{number}]")
        for index, condition in enumerate(webhook.get("matchConditions") or ()):
            where, text = f"{path}.matchConditions[{index}]", condition.get("expression") or "true"
            yield from require(condition, where, "name", "expression")
            parsed = parse_expression(text)
            if isinstance(parsed, ExpressionFault):
                detail = f"compilation failed: {parsed.message}"
                yield Violation(f"{where}.expression", Reason.INVALID, text, detail)

    def _client(self, config: Mapping[str, Any], path: str) -> Iterator[Violation]:
        url, service = config.get("url"), config.get("service")
        if bool(url) is bool(service):
            detail = "exactly one of url or service is required"
            yield Violation(path, Reason.REQUIRED, None, detail)
        elif url and not str(url).startswith("https://"):
            detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
            yield Violation(f"{path}.url", Reason.INVALID, str(url).partition(":")[0], detail)
        elif service:
            yield from require(service, f"{path}.service", "name", "namespace")
        if bundle := config.get("caBundle"):
            is_pem = False
            with suppress(binascii.Error, TypeError):
                decoded = base64.b64decode(bundle, validate=True)
                is_pem = b"-----BEGIN CERTIFICATE-----" in decoded
            if not is_pem:
                why = "unable to load root certificates: unable to parse bytes as PEM block"
                yield Violation(f"{path}.caBundle", Reason.INVALID, bundle, why)


def _unsupported(value: Any, allowed: tuple[str, ...], path: str) -> Iterator[Violation]:
    if value is not None and value not in allowed:
        words = ", ".join(f'"{word}"' for word in allowed)
        yield Violation(path, Reason.NOT_SUPPORTED, value, f"supported values: {words}")
