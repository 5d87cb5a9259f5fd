"""Settings of those who watch: logs, metrics, traces. Part of `Settings`."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator


class WatchSettings(BaseModel):
    """What an operator may decide about what is told while it runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="How much is logged.")
    log_format: Literal["text", "json"] = Field(
        "text", description="json: one object a line, with the request id of whatever a request caused."
    )
    log_requests: Literal["off", "on", "prompts"] = Field(
        "off", description="on: a line for each request (who, status, from where, how fast), without a word of it; "
        "prompts: with the question's text."
    )  # fmt: skip
    metrics: bool = Field(True, description="Whether /metrics answers.")
    otel_endpoint: str | None = Field(
        None, description="Base URL of an OpenTelemetry collector (OTLP over HTTP), such as http://otel:4318; it is "
        "told traces. Needs the extra otel. None = no traces."
    )  # fmt: skip

    @field_validator("otel_endpoint")
    @classmethod
    def _is_a_url(cls, url: str | None) -> str | None:
        if url is not None and not url.startswith(("http://", "https://")):
            raise ValueError(f"{url!r} is not a URL such as http://127.0.0.1:4318")
        return url.rstrip("/") if url else None
