"""Admission webhooks: matching, calls and refusals, as in kube-apiserver. Mutating ones are called
one after another, validating ones at once."""

import asyncio
import base64
import binascii
import ssl
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import msgspec

from jobflow.core.cel.expression import EvaluationFailure, Expression, parse_expression
from jobflow.sandbox.apiserver.kinds import Kind, Object
from jobflow.sandbox.apiserver.requests import failures
from jobflow.sandbox.apiserver.requests.codec import UnreadableBody, load
from jobflow.sandbox.apiserver.requests.http import JSON, encode
from jobflow.sandbox.apiserver.requests.patches import json_patch
from jobflow.sandbox.apiserver.requests.targets import WriteOperation, matches
from jobflow.sandbox.apiserver.resources import builtin
from jobflow.sandbox.apiserver.storage import Storage

Webhook = Mapping[str, Any]


class CallFailed(Exception):
    """The call gave no usable answer. The message is kube-apiserver's."""


class Admission:
    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._clients: dict[str, httpx.AsyncClient] = {}
        """One for each CA bundle."""

    async def close(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()

    async def mutate(self, operation: WriteOperation) -> Any:
        """Return the object after all mutating webhooks; the same object if unchanged."""
        obj = operation.obj
        for webhook in self._asked(builtin.MUTATING, operation):
            if not _conditions_hold(webhook, operation, obj):
                continue
            response = await self._ask(webhook, operation, obj)
            if response is None or not response.get("patch"):
                continue
            failed, kind = f'failed calling webhook "{webhook["name"]}"', response.get("patchType")
            if kind != "JSONPatch":
                raise failures.internal(f'{failed}: unsupported patch type "{kind or ""}"')
            try:
                patch = load(base64.b64decode(response["patch"], validate=True))
            except (binascii.Error, TypeError, UnreadableBody) as error:
                raise failures.internal(f"{failed}: the patch cannot be read: {error}") from error
            obj = json_patch(obj, patch)
        return obj

    async def validate(self, operation: WriteOperation) -> None:
        webhooks = [
            webhook
            for webhook in self._asked(builtin.VALIDATING, operation)
            if _conditions_hold(webhook, operation, operation.obj)
        ]
        # At once: a validating webhook cannot change what another one sees.
        calls = (self._ask(webhook, operation, operation.obj) for webhook in webhooks)
        # The first in the order of webhooks, not of answers, as a refusal should not be random.
        for answer in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer

    def _asked(self, kind: Kind, operation: WriteOperation) -> Iterator[Webhook]:
        configurations, target = self._storage.bucket(kind.bucket), operation.target
        # Configurations themselves are not reviewed, or a bad one could not be deleted.
        if not configurations.objects or target.kind.group == kind.group:
            return
        labels: Mapping[str, str] | None = None  # other cluster-scoped objects always match
        if target.kind.bucket == builtin.NAMESPACE.bucket:
            labels = _labels(operation.obj or operation.old or {})
        elif target.namespace:
            namespace = self._storage.get(builtin.NAMESPACE.bucket, ("", target.namespace))
            labels = namespace.labels if namespace else {}
        objects = [obj for obj in (operation.obj, operation.old) if obj is not None]
        for configuration in configurations.select(""):
            for webhook in configuration.obj.get("webhooks") or ():
                near = webhook.get("namespaceSelector") or {}
                own = webhook.get("objectSelector") or {}
                if (
                    any(_rule_matches(rule, operation) for rule in webhook.get("rules") or ())
                    and (labels is None or matches(near, labels))
                    and any(matches(own, _labels(obj)) for obj in objects)
                ):
                    yield webhook

    async def _ask(
        self, webhook: Webhook, operation: WriteOperation, obj: Object | None
    ) -> dict[str, Any] | None:
        """Return the response; None if the webhook failed and may be ignored."""
        name = webhook["name"]
        try:
            response = await self._call(webhook, _review(operation, obj))
        except CallFailed as failed:
            if webhook.get("failurePolicy") == "Ignore":
                return None
            raise failures.internal(f'failed calling webhook "{name}": {failed}') from failed
        # Also of a webhook that refuses: the warning may say why.
        operation.write.warnings.extend(response.get("warnings") or ())
        if response.get("allowed"):
            return response
        # As in k8s.io/apiserver pkg/admission/plugin/webhook/errors.
        given = (response.get("status") or {}).items()
        status = {key: value for key, value in given if value is not None}
        why = status.get("message") or status.get("reason")
        end = f": {why}" if why else " without explanation"
        status["message"] = f'admission webhook "{name}" denied the request{end}'
        status["code"] = max(status.get("code") or 400, 400)
        raise failures.RequestFailure({**failures.HEAD, **status, "status": "Failure"})

    async def _call(self, webhook: Mapping[str, Any], review: dict[str, Any]) -> dict[str, Any]:
        """Return the `response` of the webhook's AdmissionReview. Raises CallFailed."""
        config, seconds = webhook["clientConfig"], webhook["timeoutSeconds"]
        uid = review["request"]["uid"]
        url, service = config.get("url"), config.get("service") or {}
        if not url:  # the address of a service in a cluster; none is served here
            host = f"{service['name']}.{service['namespace']}.svc:{service.get('port', 443)}"
            url = f"https://{host}{service.get('path', '')}"
        url = f"{url}?timeout={seconds}s"
        prefix = f'failed to call webhook: Post "{url}"'
        if service:
            raise CallFailed(f'{prefix}: service "{service["name"]}" not found')
        try:
            bundle = config.get("caBundle") or ""
            if bundle not in self._clients:
                pem = base64.b64decode(bundle).decode("ascii") if bundle else None
                context = ssl.create_default_context(cadata=pem)
                # A proxy of the environment must not see reviews.
                self._clients[bundle] = httpx.AsyncClient(verify=context, trust_env=False)
            answer = await self._clients[bundle].post(
                url, content=encode(review), headers={"content-type": JSON}, timeout=seconds
            )
        except httpx.TimeoutException as error:
            raise CallFailed(f"{prefix}: context deadline exceeded") from error
        except (httpx.HTTPError, ssl.SSLError, OSError, binascii.Error) as error:
            raise CallFailed(f"{prefix}: {str(error) or type(error).__name__}") from error
        if answer.status_code >= 400:
            code = f"the server responded with the status code {answer.status_code}"
            raise CallFailed(f"failed to call webhook: {code}: {answer.text[:200]}")
        try:
            answered = msgspec.json.decode(answer.content)
        except msgspec.DecodeError as error:
            raise CallFailed(f"the answer is not JSON: {error}") from error
        answered = answered if isinstance(answered, dict) else {}
        found = f"{answered.get('apiVersion')}, Kind={answered.get('kind')}"
        expected = "admission.k8s.io/v1, Kind=AdmissionReview"
        if found != expected:
            raise CallFailed(f"expected webhook response of {expected}, got {found}")
        response = answered.get("response")
        if not isinstance(response, dict):
            raise CallFailed("webhook response was absent")
        if response.get("uid") != uid:
            raise CallFailed(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
        return response


def _rule_matches(rule: Mapping[str, Any], operation: WriteOperation) -> bool:
    """Match a rule, with resources like `jobflows`, `jobflows/status`, `jobflows/*`, `*`, `*/*`."""
    target, kind = operation.target, operation.target.kind
    wanted = {"operations": operation.operation, "apiGroups": kind.group}
    wanted["apiVersions"] = kind.version
    resources = (each.partition("/") for each in rule.get("resources") or ())
    return (
        all({"*", word} & {*(rule.get(field) or ())} for field, word in wanted.items())
        and (rule.get("scope") or "*") in ("*", "Namespaced" if kind.namespaced else "Cluster")
        and any(
            plural in ("*", kind.plural) and subresource in (target.subresource, "*")
            for plural, _, subresource in resources
        )
    )


def _conditions_hold(webhook: Webhook, operation: WriteOperation, obj: Object | None) -> bool:
    """Evaluate matchConditions. One without a value fails the request, unless the webhook may be
    ignored (k8s.io/apiserver pkg/admission/plugin/webhook/matchconditions)."""
    conditions = webhook.get("matchConditions") or ()
    if not conditions:
        return True
    request = _review(operation, obj)["request"]
    variables = {"object": request["object"], "oldObject": request["oldObject"], "request": request}
    faults: list[str] = []
    for condition in conditions:
        parsed = parse_expression(condition["expression"])
        assert isinstance(parsed, Expression)  # the configuration was checked
        value = parsed.evaluate(variables)
        if isinstance(value, EvaluationFailure):
            faults.append(f"expression '{parsed.text}' resulted in error: {value.message}")
        elif value is not True:
            return False
    # A condition that is false wins over the faults of others.
    if faults and webhook.get("failurePolicy") != "Ignore":
        raise failures.internal("; ".join(faults))
    return not faults


def _labels(obj: Object) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def _review(operation: WriteOperation, obj: Object | None) -> dict[str, Any]:
    target, write = operation.target, operation.write
    kind = target.kind
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    gvr = {"group": kind.group, "version": kind.version, "resource": kind.plural}
    names = ("subResource", "requestSubResource") if target.subresource else ()
    request: dict[str, Any] = {
        "uid": str(uuid.uuid4()),
        **{"kind": gvk, "resource": gvr, "requestKind": gvk, "requestResource": gvr},
        **dict.fromkeys(names, target.subresource),
        "name": target.name or ((obj or {}).get("metadata") or {}).get("name", ""),
        "namespace": target.name if kind.bucket == builtin.NAMESPACE.bucket else target.namespace,
        "operation": operation.operation,
        "userInfo": write.user,
        "object": obj and kind.show(obj),
        "oldObject": operation.old and kind.show(operation.old),
        "dryRun": write.dry_run,
        "options": write.options or None,
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
