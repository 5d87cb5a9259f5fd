"""Settings of what belongs to a question besides its words: conversation, prompt, documents. Part of `Settings`."""

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from cache import read_pattern, read_split


class ContextSettings(BaseModel):
    """What an operator may decide about the context of questions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    lineage: bool = Field(
        True, description="Whether a turn that was answered from one entry counts as the same turn, whatever words "
        "were used, so that follow-ups can be answered from the cache too."
    )  # fmt: skip
    lineage_receipts: int = Field(
        100_000, ge=0, description="Most delivered answers that one process remembers for it; the store keeps more."
    )
    lineage_reset_on_standalone: bool = Field(
        True, description="Whether a follow-up's context begins at the last turn that surely stands alone; off: at the "
        "beginning of the chat."
    )  # fmt: skip
    standalone_across_history: bool = Field(
        True, description="Whether a question that surely stands alone is looked up as in a new chat; system prompt "
        "and every other field must agree all the same."
    )  # fmt: skip
    context_ignore: tuple[str, ...] = Field(
        (), description='What of system prompts is left out of the key, as ["Today is {date}.", "Request id: {id}"]; '
        "the workers read it all the same, and it counts where an answer may depend on it."
    )  # fmt: skip
    question_patterns: dict[str, str] = Field(
        default_factory=dict, description='Where the question stands in a tenant\'s long (RAG) messages, as {"shop": '
        '"{documents}Question: {question}"}; "*" is every tenant. The rest counts by its content.'
    )  # fmt: skip

    @field_validator("context_ignore", mode="before")
    @classmethod
    def _may_be_one(cls, value: Any) -> Any:
        """A flag or the environment: a JSON list, or one pattern as it is."""
        if not isinstance(value, str):
            return value
        if value.lstrip().startswith("["):
            try:
                return json.loads(value)
            except ValueError as broken:
                raise ValueError(f'not a list of texts in JSON ({broken}): write ["Today is {{date}}."]') from None
        return (value,) if value.strip() else ()

    @field_validator("context_ignore")
    @classmethod
    def _are_patterns(cls, sources: tuple[str, ...]) -> tuple[str, ...]:
        if len(sources) > 32:
            raise ValueError(
                f"{len(sources)} patterns are too many: each is searched in every system prompt; 32 at most"
            )
        for source in sources:
            read_pattern(source)  # raises when it is none
        return sources

    @field_validator("question_patterns")
    @classmethod
    def _are_splits(cls, sources: dict[str, str]) -> dict[str, str]:
        for source in sources.values():
            read_split(source)  # raises when it is none
        return sources
