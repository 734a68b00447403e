"""The settings of `jobflow serve`: a flag each, and JOBFLOW_… in the environment under the same
name. It only holds and checks them; `jobflow.serve` acts on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from jobflow.api.duration import parse_duration

PREFIX = "JOBFLOW_"
MIN_LIFETIME = 10.0
"""Seconds. Less could not be told to the API server in time; what is sensible counts in days."""


@dataclass(frozen=True, slots=True)
class Shown:
    """How help shows a setting: as part of its type."""

    metavar: str
    default: str = ""
    """What it is where it is not given, if its default does not say that."""


def _seconds(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else value


Port = Annotated[int, Field(ge=0, le=65535), Shown("PORT")]
Duration = Annotated[float, BeforeValidator(_seconds), Shown("TIME")]
"""Seconds, written as Go writes a duration: `90s`, `1h30m`."""
LogLevel = Literal["debug", "info", "warning", "error"]
Lifetime = Annotated[Duration, Field(ge=MIN_LIFETIME)]


def _time(default: str, description: str, **limits: float) -> Any:
    """A time's field. Its default is written as people write one, and read like any other value."""
    return Field(default, description=description, **limits)  # type: ignore[call-overload]


class Settings(BaseSettings):
    """What a flag says goes before the environment. `--webhook-port` is JOBFLOW_WEBHOOK_PORT.

    Raises pydantic.ValidationError, which `problems` turns into sentences.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True)

    kubeconfig: Annotated[
        str | None, Shown("PATH", "$KUBECONFIG, ~/.kube/config, or in a pod its account")
    ] = Field(None, description="The kubeconfig file")
    namespace: Annotated[str, Shown("NS", "all")] = Field(
        "", description="Only this namespace; no rights outside it are needed"
    )
    system_namespace: Annotated[
        str, Shown("NS", "the pod's own, or that of the kubeconfig's context")
    ] = Field("", description="Where the Lease and the Secret of the certificates are")
    lease_name: Annotated[str, Shown("NAME", "jobflow, with --namespace jobflow-NS")] = Field(
        "", description="The Lease whose holder carries out flows"
    )
    lease_duration: Duration = _time(
        "15s",
        "How long others wait for a leader that no longer renews the Lease, in whole seconds",
    )
    renew_deadline: Duration = _time(
        "10s", "How long a leader carries out flows without having renewed the Lease"
    )
    retry_period: Duration = _time(
        "2s", "Between two renewals of the Lease, and after one that failed", gt=0
    )
    webhook_port: Port = Field(8443, description="HTTPS port of the webhook; 0: any free one")
    http_port: Port = Field(
        8080, description="HTTP port of /healthz, /readyz and /metrics; 0: any free one"
    )
    tls_cert: Annotated[Path | None, Shown("FILE", "one is made and shared through a Secret")] = (
        Field(
            None,
            description="PEM of the webhook's certificate and chain, read again when it changes",
        )
    )
    tls_key: Annotated[Path | None, Shown("FILE")] = Field(
        None, description="PEM of the certificate's key"
    )
    certificate_secret: Annotated[str, Shown("NAME")] = Field(
        "jobflow-webhook-certificate",
        min_length=1,
        description="The Secret that holds certificates made here",
    )
    webhook_configuration: Annotated[str, Shown("NAME,…")] = Field(
        "jobflow",
        description="The ValidatingWebhookConfigurations whose caBundle is kept level with "
        "certificates made here; empty: none",
    )
    webhook_host: Annotated[str, Shown("HOST,…", "jobflow-webhook.<system namespace>.svc")] = Field(
        "", description="The names and addresses that certificates made here are for"
    )
    certificate_lifetime: Lifetime = _time("2160h", "Of a serving certificate made here")
    ca_lifetime: Lifetime = _time("43800h", "Of a CA made here")
    client_ca: Annotated[Path | None, Shown("FILE", "anyone may connect to the webhook")] = Field(
        None,
        description="PEM of client CAs: the webhook then accepts only connections with a client "
        "certificate that one of them signed; read again when it changes",
    )
    subject_access_review: bool = Field(
        False,
        description="Refuse JobFlows and JobTemplates of users who may not create Volcano jobs in "
        "that namespace",
    )
    shutdown_delay: Duration = _time(
        "0s",
        "How long to go on answering after SIGTERM, being not ready, so that nobody is sent here "
        "any more",
        le=600,
    )
    log_level: Annotated[LogLevel, Shown("LEVEL")] = Field(
        "info", description="Lowest level that is logged: debug, info, warning or error"
    )
    no_webhook: bool = Field(False, description="Serve no webhook")
    no_controller: bool = Field(False, description="Carry out no flows")
    no_leader_election: bool = Field(
        False,
        description="Carry out flows without holding the Lease: only where no second process does",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Settings:
        if self.no_webhook and self.no_controller:
            raise ValueError("--no-webhook and --no-controller together leave nothing to do")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError(
                "--tls-cert and --tls-key go together: give both, or neither and the certificate "
                "is made here"
            )
        if not self.retry_period < self.renew_deadline < self.lease_duration:
            raise ValueError(
                "--retry-period has to be shorter than --renew-deadline, and that shorter than "
                "--lease-duration: what lies between the last two is how long a write may take"
            )
        if self.lease_duration % 1:
            raise ValueError("--lease-duration has to be whole seconds")
        if self.ca_lifetime < 2 * self.certificate_lifetime:
            raise ValueError("--ca-lifetime has to be at least twice --certificate-lifetime")
        return self


@dataclass(frozen=True, slots=True)
class Entry:
    """One setting as help tells of it."""

    name: str
    flag: str
    """`--webhook-port`."""
    variable: str
    """`JOBFLOW_WEBHOOK_PORT`."""
    description: str
    metavar: str | None
    """None: it takes no value, it is there or not."""
    default: str
    """In words; empty where there is none."""


def entries() -> Iterator[Entry]:
    """Every setting, in order."""
    for name, field in Settings.model_fields.items():
        shown = next((about for about in field.metadata if isinstance(about, Shown)), None)
        default = "" if shown is None or field.default is None else str(field.default)
        yield Entry(
            name=name,
            flag=_flag(name),
            variable=_variable(name),
            description=field.description or "",
            metavar=shown.metavar if shown else None,
            default=shown.default if shown and shown.default else default,
        )


def listed(names: str) -> list[str]:
    """The names of a list by comma."""
    return [name.strip() for name in names.split(",") if name.strip()]


def problems(error: ValidationError) -> list[str]:
    """Each setting that is wrong, by flag and environment variable, in a sentence."""
    return [
        _problem(str(fault["loc"][0]) if fault["loc"] else "", fault["msg"])
        for fault in error.errors()
    ]


def _problem(name: str, text: str) -> str:
    text = text.removeprefix("Value error, ")
    if not name:
        return text
    return f"{_flag(name)} ({_variable(name)}): {text[:1].lower()}{text[1:]}"


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _variable(name: str) -> str:
    return f"{PREFIX}{name.upper()}"
