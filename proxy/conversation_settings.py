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
