"""Settings of the operator's day: who comes in at /admin, what is kept of it, what a GPU costs. Part of `Settings`."""

from typing import Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

from proxy.auth import read_role

SHORTEST_SECRET: Final = 16  # characters


class AdminSettings(BaseModel):
    """What an operator may decide about /admin, /dashboard and the report."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    admin_tokens: dict[str, str] = Field(
        {},
        repr=False,
        description="Token → role at /admin and perhaps a name for the audit, such as `operate ann`. read: look; "
        "curate: change answers; operate: everything. Empty: API keys of trusted tenants look (and curate, if in "
        "curate_keys); without api_keys too, callers on this machine may do everything.",
    )
    audit_days: float = Field(400.0, gt=0, description="How long the audit of changes at /admin is kept, in days.")
    dashboard: bool = Field(True, description="Whether the page /dashboard answers. What it shows comes from /admin.")
    gpus_per_worker: int = Field(1, ge=1, description="How many GPUs one worker runs on, for the GPU-seconds saved.")
    gpu_hour_price: float | None = Field(
        None, ge=0, description="What one hour of one GPU costs, for the money saved. None = no money is shown."
    )
    currency: str = Field("USD", min_length=1, max_length=8, description="The currency of gpu_hour_price.")

    @field_validator("admin_tokens")
    @classmethod
    def _are_roles(cls, tokens: dict[str, str]) -> dict[str, str]:
        for token, role in tokens.items():
            read_role(role)
            if len(token) < SHORTEST_SECRET:
                raise ValueError(f"a token of {role!r} is too short: at least {SHORTEST_SECRET} characters, at random")
        return tokens
