"""Settings of single answers: a new one, an abandoned one, one that was cut. Part of `Settings`."""

from typing import Literal

from pydantic import Field

from proxy.admin_settings import AdminSettings


class ConversationSettings(AdminSettings):
    """What an operator may decide about answers inside a conversation."""

    regenerate: Literal["off", "window"] = Field(
        "off", description="window: a session that sends the same request again within 60 s of its answer gets a new "
        "one, which replaces the old. off: it says Cache-Control: no-cache when it wants one."
    )  # fmt: skip
    finish_abandoned: bool = Field(
        False, description="Whether a stream whose client left is generated to its end, to be stored; off: its worker "
        "stops at once."
    )  # fmt: skip
    abandoned: int = Field(
        8, ge=1, description="With finish_abandoned: most such generations of one process at a time; beyond them, "
        "and after 120 s, they end."
    )  # fmt: skip
    continuation: bool = Field(
        True, description="Whether an answer that max_tokens cut is continued when the same is asked with a larger "
        "limit, instead of generated anew; a cut answer is never served as it is."
    )  # fmt: skip
    rescue: Literal["off", "deterministic", "all"] = Field(
        "off", description="Whose streams are continued on another worker when theirs dies: deterministic = requests "
        "with temperature 0."
    )  # fmt: skip
