"""Every setting, once: name, default, unit, help. README's table, `rejoinder settings` and the flags come from here.

defaults < TOML file < environment (REJOINDER_…) < flags. An unknown key is an error. Nothing else reads os.environ.
"""

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict

from proxy.admin_settings import SHORTEST_SECRET
from proxy.context_settings import ContextSettings
from proxy.conversation_settings import ConversationSettings
from proxy.routing.roster import DNS, dns_name
from proxy.routing.worker import canonical_url
from proxy.watch_settings import WatchSettings

ENV_PREFIX = "REJOINDER_"


class SettingsError(Exception):
    """A setting is wrong; the message says which, and what would be right."""


class Settings(ContextSettings, ConversationSettings, WatchSettings):
    """What an operator may decide."""

    _came_from: dict[str, str] = PrivateAttr(default_factory=dict)

    host: str = Field("127.0.0.1", description="Address to listen on. Anything but loopback is public: set api_keys.")
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    processes: int = Field(1, ge=1, le=64, description="Processes that share the port. More than 1 needs redis_url.")
    mode: Literal["serve", "observe"] = Field(
        "serve", description="observe: every request goes to a worker and nothing is served from the cache; what would "
        "have been served is counted, compared with the fresh answers, and told at /admin/observed."
    )  # fmt: skip
    workers: tuple[str, ...] = Field(
        (), description="Base URLs of the vLLM workers, such as http://10.0.0.5:8000; dns://HOST:PORT is every address "
        "of that name."
    )  # fmt: skip
    workers_file: Path | None = Field(
        None, description="A file that names more workers (JSON, TOML, or a URL a line), read again when it changes."
    )
    workers_refresh_s: float = Field(
        5.0, gt=0, description="How often workers_file and names in workers are looked up, in seconds."
    )
    worker_drain_s: float = Field(
        30.0, ge=0, description="How long the sessions of a worker that drains may take to leave it, in seconds."
    )
    worker_api_key: SecretStr | None = Field(None, description="Key that we show to the workers, if they want one.")
    api_keys: dict[str, str] = Field(
        {},
        repr=False,
        description="API key → tenant name. Empty: anybody may call, and the digest of the caller's key is the tenant.",
    )
    trusted_tenants: tuple[str, ...] = Field(
        (), description="Tenants that may see similarity, worker and reasons. Without api_keys, loopback callers may."
    )
    curate_keys: tuple[SecretStr, ...] = Field(
        (), description="Those of api_keys whose \"bad\" takes an answer out of service at once. Without api_keys, "
        "loopback callers' does."
    )  # fmt: skip
    bad_quorum: int = Field(
        2, ge=1, description="How many different callers must call an answer wrong before nobody is served it any more."
    )
    feedback_window_s: float = Field(604_800.0, gt=0, description="How long feedback may quote a reply, in seconds.")
    promote_after: int = Field(
        1, ge=1, description="How many different callers must have asked a question before its answer is shared."
    )
    cors_origins: tuple[str, ...] = Field(
        ("*",), description="Origins that browsers may call from; * is any, as in vLLM."
    )
    body_limit_bytes: int = Field(64 << 20, ge=1024, description="Largest request body; beyond it 413.")
    state_dir: Path = Field(
        Path("~/.local/state/rejoinder"), description="Where the store, the index and the secret live."
    )
    store: Literal["sqlite", "memory"] = Field("sqlite", description="Embedded store; ignored when redis_url is set.")
    redis_url: SecretStr | None = Field(None, description="Redis or Valkey shared by processes and replicas.")
    redis_prefix: str = Field("rejoinder", min_length=1, description="First part of every key in Redis.")
    secret: SecretStr | None = Field(
        None, description="Keys every digest. Made once in state_dir when absent; must be given with redis_url."
    )
    capacity: int = Field(100_000, ge=1, description="Most entries kept; those that save least leave first.")
    capacity_bytes: int | None = Field(None, ge=1_000_000, description="Most bytes of all entries together.")
    ttl_s: float = Field(86_400.0, ge=0, description="Life of an entry in seconds; a hit does not extend it.")
    time_bound_ttl_s: float = Field(
        60.0, ge=0, description="Life of an answer about now or today, in seconds; 0 = none."
    )
    recent_window_s: float = Field(86_400.0, ge=0, description="How long the same words find an entry, in seconds.")
    session_idle_s: float = Field(
        3_600.0, gt=0, description="A session that is silent for so long is forgotten, in seconds."
    )
    sessions: int = Field(10_000, ge=1, description="Most sessions remembered by one process.")
    reach: Literal["session", "recent", "similar"] = Field(
        "similar", description="How far any answer may travel: its session, the same words, or the same meaning."
    )
    account_questions: Literal["session", "shared"] = Field(
        "session", description="Questions about the asker's own account (where is my order) stay in their session; "
        "shared: the assistant sees no accounts, so all get the same answer. Names, numbers and other data of his own "
        "never leave it."
    )  # fmt: skip
    embedder: str = Field(
        "default",
        description="default (shipped, English and Chinese), none, a folder, or a sentence-transformers model.",
    )
    embed_deadline_s: float = Field(0.05, gt=0, description="A vector that takes longer is a counted miss, in seconds.")
    similarity_threshold: float | None = Field(
        None, ge=0, le=1, description="Cosine below which nothing is served; higher is stricter. None = trust decides; "
        "what no reader has read needs the embedder's own cautious one at least."
    )  # fmt: skip
    max_false_hit_rate: float = Field(
        0.01, gt=0, le=0.5, description="Budget: the share of what is served by meaning that may be wrong."
    )
    budgets: dict[str, float] = Field(
        default_factory=dict, description='Budgets of single tenants, as {"tenant": 0.005}; above 0, at most 0.5.'
    )
    reader: str = Field(
        "default", description="Reads both questions before an answer is served by meaning: default (shipped), none, "
        "or a folder that holds model.onnx and trust.json."
    )  # fmt: skip
    reader_deadline_s: float = Field(
        0.08, gt=0, description="Longest wait for the reader, seconds; a pair it has not read in time is judged "
        "cautiously."
    )  # fmt: skip
    adapted_dir: Path | None = Field(
        None, description="Where `rejoinder train` leaves what it learned; none = `adapted` in state_dir."
    )
    shadow_share: float = Field(
        0.02, ge=0, le=1, description="Share of the hits by meaning that an idle worker answers afresh, for the "
        "measured false-hit rate; more while there are few labels. 0 = none."
    )  # fmt: skip
    warm_up: bool = Field(
        True, description="After a cached answer, an idle worker reads that turn into its KV cache, so that the chat's "
        "next turn starts as fast as if the worker had answered itself."
    )  # fmt: skip
    spare_time_share: float = Field(
        0.05, ge=0, le=1, description="Share of each worker's time that checks and warm-ups may take together, at "
        "most; 0 = none."
    )  # fmt: skip
    kv_events: bool = Field(
        True, description="Whether the KV cache of workers that publish their KV events (vLLM's --kv-events-config) is "
        "followed, so that routing knows and need not estimate what they hold."
    )  # fmt: skip
    worker_priority: bool = Field(
        False, description="The workers run with --scheduling-policy priority: these then go behind everybody, "
        "instead of to idle workers only."
    )  # fmt: skip
    judge: Literal["off", "on"] = Field(
        "off", description="Whether a worker is asked (one token) where neither guards nor trust are sure."
    )
    judge_model: str | None = Field(
        None, description="The model that judges; none = the first one that the workers serve."
    )
    judge_deadline_s: float = Field(0.15, gt=0, description="A verdict that takes longer is a miss, in seconds.")
    store_deadline_s: float = Field(0.05, gt=0, description="A store that takes longer is a counted miss, in seconds.")
    first_byte_s: float | None = Field(
        600.0, gt=0, description="How long a worker may say nothing at all, in seconds; none = for ever."
    )
    idle_s: float | None = Field(
        300.0, gt=0, description="How long a worker may pause inside an answer, in seconds; none = for ever."
    )
    probe_s: float = Field(2.0, gt=0, description="How often each worker is asked for its health, in seconds.")
    drain_s: float = Field(30.0, ge=0, description="How long running answers may take after SIGTERM, in seconds.")
    sweep_s: float = Field(60.0, gt=0, description="How often expired entries are swept, in seconds.")

    @field_validator("workers", "trusted_tenants", "cors_origins", "curate_keys", mode="before")
    @classmethod
    def _may_be_one_text(cls, value: Any) -> Any:
        """A list may also be written with spaces or commas between."""
        return value.replace(",", " ").split() if isinstance(value, str) else value

    @field_validator(
        "first_byte_s",
        "idle_s",
        "similarity_threshold",
        "judge_model",
        "adapted_dir",
        "workers_file",
        "gpu_hour_price",
        "otel_endpoint",
        mode="before",
    )
    @classmethod
    def _may_be_none(cls, value: Any) -> Any:
        """TOML and the environment have no null."""
        return None if isinstance(value, str) and value.strip().lower() == "none" else value

    @field_validator("budgets")
    @classmethod
    def _are_budgets(cls, budgets: dict[str, float]) -> dict[str, float]:
        for tenant, share in budgets.items():
            if not 0.0 < share <= 0.5:
                raise ValueError(f"{share} for {tenant!r} is no budget: a share above 0 and at most 0.5, such as 0.01")
        return budgets

    @field_validator("workers")
    @classmethod
    def _are_urls(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        for url in urls:
            if url.startswith(DNS):
                dns_name(url)  # raises when it is none
                continue
            if not url.startswith(("http://", "https://")):
                raise ValueError(f"{url!r} is not a URL such as http://127.0.0.1:8000")
            canonical_url(url)  # raises for what no worker can be
        return tuple(url.rstrip("/").removesuffix("/v1") for url in urls)

    @field_validator("redis_url")
    @classmethod
    def _is_redis(cls, url: SecretStr | None) -> SecretStr | None:
        if url is None or not url.get_secret_value().strip():
            return None
        parts = urlsplit(url.get_secret_value())
        example = "write redis://HOST:6379/0, rediss://… for TLS, or unix:///path/to/socket"
        if parts.scheme not in ("redis", "rediss", "unix"):
            raise ValueError(example)
        try:
            sound = parts.scheme == "unix" or (bool(parts.hostname) and parts.port != 0)
        except ValueError:
            sound = False
        if not sound or (parts.scheme != "unix" and parts.path.strip("/") and not parts.path.strip("/").isdecimal()):
            raise ValueError(f"the host, the port or the number of the database is not one: {example}")
        return url

    @field_validator("secret")
    @classmethod
    def _is_long(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is not None and len(secret.get_secret_value()) < SHORTEST_SECRET:
            raise ValueError(f"at least {SHORTEST_SECRET} characters, chosen at random: it keys every digest")
        return secret

    @model_validator(mode="after")
    def _fit_together(self) -> "Settings":
        if self.processes > 1 and self.redis_url is None:
            raise ValueError(
                "processes > 1 needs redis_url: processes that cannot see each other's answers would contradict "
                "each other"
            )
        if any(key.get_secret_value() not in self.api_keys for key in self.curate_keys):
            raise ValueError("every one of curate_keys must stand in api_keys too, which says whose answers it curates")
        if self.redis_url is not None and self.secret is None:
            raise ValueError(
                "redis_url needs a secret that every replica shares: set secret (32 random characters or more)"
            )
        return self

    @property
    def loopback(self) -> bool:
        """Whether only this machine can call."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")

    def origins(self) -> "list[Origin]":
        """Every setting, and where its value came from."""
        return [
            Origin(name, getattr(self, name), self._came_from.get(name, "default"), field.description or "")
            for name, field in type(self).model_fields.items()
        ]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from: `default`, `file`, `environment` or `flag`."""

    name: str
    value: Any
    origin: str
    help: str


class _Environment(BaseSettings):
    """Only reads REJOINDER_* into raw values; `Settings` judges all sources together."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="ignore")


def load(flags: dict[str, Any], file: Path | None = None) -> tuple[Settings, list[Origin]]:
    """The settings and where each came from. flags: those that were given.  Raises SettingsError."""
    sources = {
        "file": _file(file),
        "environment": _environment(),
        "flag": {k: v for k, v in flags.items() if v is not None},
    }
    merged: dict[str, Any] = {}
    came_from: dict[str, str] = {}
    for origin, values in sources.items():
        merged |= values
        came_from |= dict.fromkeys(values, origin)
    try:
        settings = Settings(**merged)
    except ValidationError as wrong:
        raise SettingsError(_explained(wrong, came_from)) from None
    settings._came_from = came_from
    return settings, settings.origins()


def _file(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"There is no settings file {path}.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as bad:
        raise SettingsError(f"The settings file {path} cannot be read: {bad}") from None


def _environment() -> dict[str, Any]:
    names = {ENV_PREFIX + name.upper(): name for name in Settings.model_fields}
    unknown = [key for key in os.environ if key.startswith(ENV_PREFIX) and key not in names and key not in _OTHERS]
    if unknown:
        raise SettingsError(
            f"Unknown in the environment: {', '.join(sorted(unknown))}. `rejoinder settings` lists all names."
        )
    reader = EnvSettingsSource(_Environment, env_prefix=ENV_PREFIX)
    values: dict[str, Any] = {}
    for key, name in names.items():
        if key not in os.environ:
            continue
        raw = os.environ[key]
        field = Settings.model_fields[name]
        if not reader.field_is_complex(field):
            values[name] = raw
            continue
        try:
            values[name] = reader.decode_complex_value(name, field, raw)
        except ValueError:  # no JSON: `Settings` says whether it may be written so
            values[name] = raw
    return values


# Read by others: tests, deploy scripts.
_OTHERS = frozenset({"REJOINDER_LIVE", "REJOINDER_KILLS", "REJOINDER_VLLM_HOME", "REJOINDER_SETTINGS"})


def _explained(wrong: ValidationError, came_from: dict[str, str]) -> str:
    lines = []
    for error in wrong.errors():
        name = str(error["loc"][0]) if error["loc"] else ""
        message = error["msg"].removeprefix("Value error, ")
        if error["type"] == "extra_forbidden":
            message = "there is no such setting; `rejoinder settings` lists all names"
        where = f" (from the {came_from[name]})" if name in came_from else ""
        lines.append(f"{name}{where}: {message}" if name else message)
    return "\n".join(lines)


def shown(value: Any) -> str:
    """A value for people; secrets never. API keys are secrets too, their tenants are not."""
    if isinstance(value, SecretStr):
        return "(set)"
    if isinstance(value, dict) and all(isinstance(each, float) for each in value.values()):
        return " ".join(f"{name}={each:g}" for name, each in value.items()) or "{}"
    if isinstance(value, dict):
        return f"{len(value)} keys for {', '.join(sorted(set(value.values())))}" if value else "{}"
    if isinstance(value, tuple) and any(isinstance(each, SecretStr) for each in value):
        return f"({len(value)} set)"
    if isinstance(value, tuple):
        return " ".join(value) or "(none)"
    return "(none)" if value is None else str(value)
