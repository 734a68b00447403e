"""Settings of `jobflow serve`: each has a flag and a JOBFLOW_… environment variable."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from jobflow.api.duration import parse_duration

PREFIX = "JOBFLOW_"
MIN_LIFETIME = 10.0
"""Shortest lifetime of a certificate in seconds: the API server must learn of the next in time."""

MIN_COPY_AGE = 5.0
"""Shortest age of a copy in seconds: three requests in that time are enough work for nothing."""


@dataclass(frozen=True, slots=True)
class HelpHint:
    """How help shows a setting. Part of the setting's type."""

    metavar: str
    default: str = ""
    """In words, if the value itself does not say it."""


def split_names(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _parsed(parse: Callable[[str], object]) -> BeforeValidator:
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


Port = Annotated[int, Field(ge=0, le=65535), HelpHint("PORT")]
Duration = Annotated[float, _parsed(parse_duration), HelpHint("TIME")]
"""Seconds, written as a Go duration: `90s`, `1h30m`."""
LogLevel = Literal["debug", "info", "warning", "error"]
CopyAge = Annotated[Duration, Field(ge=MIN_COPY_AGE)]
Lifetime = Annotated[Duration, Field(ge=MIN_LIFETIME)]


def _time(default: str, description: str, **limits: float) -> Any:
    return Field(default, description=description, **limits)  # type: ignore[call-overload]


class Settings(BaseSettings):
    """The settings. A flag takes precedence over the environment. Raises pydantic.ValidationError,
    which `describe_errors` turns into sentences."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True)

    kubeconfig: Annotated[
        str | None, HelpHint("PATH", "$KUBECONFIG, ~/.kube/config, or the pod's service account")
    ] = Field(None, description="The kubeconfig file")
    namespace: Annotated[str, HelpHint("NS", "all")] = Field(
        "", description="The only namespace to follow; no rights outside it are needed"
    )
    system_namespace: Annotated[
        str, HelpHint("NS", "the pod's own, or that of the kubeconfig's context")
    ] = Field("", description="Namespace of the Lease and of the Secret with certificates")
    lease_name: Annotated[str, HelpHint("NAME", "jobflow, with --namespace jobflow-NS")] = Field(
        "", description="The Lease whose holder runs flows"
    )
    lease_duration: Duration = _time(
        "15s",
        "How long other replicas wait for a leader that does not renew the Lease; whole seconds",
    )
    renew_deadline: Duration = _time(
        "10s", "How long a leader runs flows without renewing the Lease"
    )
    retry_period: Duration = _time(
        "2s", "Pause between two renewals of the Lease, and after a failed one", gt=0
    )
    max_copy_age: CopyAge = _time(
        "30s",
        "How old the copies of flows, templates and jobs may be; with older ones, the replica is "
        "not ready and refuses reviews that need them",
    )
    webhook_port: Port = Field(8443, description="HTTPS port of the webhook; 0: any free port")
    http_port: Port = Field(
        8080, description="HTTP port of /healthz, /readyz and /metrics; 0: any free port"
    )
    tls_cert: Annotated[
        Path | None, HelpHint("FILE", "one is generated and shared through a Secret")
    ] = Field(
        None,
        description="PEM file of the webhook's certificate and chain; read again when it changes",
    )
    tls_key: Annotated[Path | None, HelpHint("FILE")] = Field(
        None, description="PEM file of the certificate's key"
    )
    certificate_secret: Annotated[str, HelpHint("NAME")] = Field(
        "jobflow-webhook-certificate",
        min_length=1,
        description="The Secret that holds the generated certificates",
    )
    webhook_configuration: Annotated[str, HelpHint("NAME,…")] = Field(
        "jobflow",
        description="The ValidatingWebhookConfigurations whose caBundle is kept up to date; may "
        "be empty",
    )
    webhook_host: Annotated[str, HelpHint("HOST,…", "jobflow-webhook.<system namespace>.svc")] = (
        Field("", description="Host names and addresses in the generated certificates")
    )
    certificate_lifetime: Lifetime = _time("2160h", "Lifetime of a generated serving certificate")
    ca_lifetime: Lifetime = _time("43800h", "Lifetime of a generated CA")
    client_ca: Annotated[Path | None, HelpHint("FILE", "anyone may connect to the webhook")] = (
        Field(
            None,
            description="PEM file of client CAs: the webhook accepts only clients with a "
            "certificate that one of them signed; read again when it changes",
        )
    )
    subject_access_review: bool = Field(
        False,
        description="Refuse JobFlows and JobTemplates of users who may not create Volcano jobs in "
        "that namespace",
    )
    controller_user: Annotated[
        tuple[str, ...], NoDecode, _parsed(split_names), HelpHint("NAME", "the replica's own")
    ] = Field(
        (), description="Another user of the controller, who may make child flows; may be repeated"
    )
    shutdown_delay: Duration = _time(
        "0s",
        "How long to answer requests after SIGTERM while not ready, so that clients go elsewhere",
        le=600,
    )
    log_level: Annotated[LogLevel, HelpHint("LEVEL")] = Field(
        "info", description="Lowest level to log: debug, info, warning or error"
    )
    no_webhook: bool = Field(False, description="Do not serve the webhook")
    no_controller: bool = Field(False, description="Do not run flows")
    no_leader_election: bool = Field(
        False, description="Run flows without holding the Lease; only for a single replica"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.no_webhook and self.no_controller:
            raise ValueError("--no-webhook and --no-controller together leave nothing to do")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError(
                "--tls-cert and --tls-key go together: set both, or neither to have a certificate "
                "generated"
            )
        # Timing checks it too, but names no flags
        if not self.retry_period < self.renew_deadline < self.lease_duration:
            raise ValueError(
                "--retry-period has to be shorter than --renew-deadline, and that shorter than "
                "--lease-duration: the difference of the last two limits how long a write takes"
            )
        # a Lease has whole seconds
        if self.lease_duration % 1:
            raise ValueError("--lease-duration has to be whole seconds")
        # a certificate ends with its CA, so a shorter CA would shorten the last ones
        if self.ca_lifetime < 2 * self.certificate_lifetime:
            raise ValueError("--ca-lifetime has to be at least twice --certificate-lifetime")
        return self


@dataclass(frozen=True, slots=True)
class SettingHelp:
    name: str
    flag: str
    """As in `--webhook-port`."""
    variable: str
    """As in `JOBFLOW_WEBHOOK_PORT`."""
    description: str
    metavar: str | None
    """None: the flag takes no value."""
    default: str
    """In words; "" without a default."""
    repeatable: bool


def settings_help() -> Iterator[SettingHelp]:
    for name, field in Settings.model_fields.items():
        hint = next((item for item in field.metadata if isinstance(item, HelpHint)), None)
        default = "" if hint is None or field.default is None else str(field.default)
        yield SettingHelp(
            name=name,
            flag=_flag(name),
            variable=_variable(name),
            description=field.description or "",
            metavar=hint.metavar if hint else None,
            default=hint.default if hint and hint.default else default,
            repeatable=isinstance(field.default, tuple),
        )


_FAULTS = {
    "value_error": "{error}",
    "int_parsing": "is not a whole number",
    "bool_parsing": "is neither true nor false",
    "literal_error": "is not one of {expected}",
    "string_too_short": "is empty",
    "greater_than": "is not more than {gt}",
    "greater_than_equal": "is less than {ge}",
    "less_than_equal": "is more than {le}",
}
"""Words for pydantic's types of errors, with the context of the error."""


def describe_errors(error: ValidationError) -> list[str]:
    """Return a sentence for each invalid setting, with its flag and environment variable."""
    sentences = []
    for fault in error.errors():
        values = {"error": fault["msg"], "input": fault["input"], **fault.get("ctx", {})}
        values |= {name: f"{v:g}s" for name, v in values.items() if isinstance(v, float)}
        text = _FAULTS.get(fault["type"], "{error}").format_map(values)
        if fault["loc"]:
            name = str(fault["loc"][0])
            text = f'{_flag(name)} ({_variable(name)}): "{values["input"]}" {text}'
        sentences.append(text)
    return sentences


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _variable(name: str) -> str:
    return f"{PREFIX}{name.upper()}"
