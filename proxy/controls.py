"""The caller's wishes for the cache: `Cache-Control` (RFC 9111, section 5.2.1) and the body field `cache`. Pure.

The same words in both places; the body wins where both speak, because SDK users cannot always set headers. Unknown
header directives are ignored, as the RFC asks; an unknown word in `cache` is a mistake that we can point at.
"""

from collections.abc import Mapping
from typing import Any

from cache import Controls, plain_name
from proxy.errors import BadRequest

_BODY_WORDS = (
    "no-cache", "no-store", "only-if-cached", "max-age", "min-fresh", "max-stale",
    "ttl", "threshold", "namespace", "question", "sources", "tags",
)  # fmt: skip
_NONE = Controls()
_MOST_NAMES = 32  # tags, and documents, of one answer
_LONGEST_NAME = 200  # characters of a tag, a document's id or its version
_LONGEST_S = 2**31  # what a larger number of seconds counts as (RFC 9111, section 1.2.2)


def read_controls(cache_control: str | None, pragma: str | None, field: object) -> Controls:
    """field: the body's `cache`, None when absent. Raises BadRequest."""
    if cache_control is None and pragma is None and field is None:
        return _NONE
    words: dict[str, Any] = _directives(cache_control)
    if cache_control is None and pragma is not None and "no-cache" in pragma.lower():
        words["no-cache"] = True  # RFC 9111 section 5.4
    if field is not None:
        words.update(_body_words(field))
    return Controls(
        no_cache=_flag(words, "no-cache"),
        no_store=_flag(words, "no-store"),
        only_if_cached=_flag(words, "only-if-cached"),
        max_age_s=_seconds(words, "max-age"),
        min_fresh_s=_seconds(words, "min-fresh"),
        ttl_s=_seconds(words, "ttl"),
        threshold=_threshold(words),
        namespace=_text(words, "namespace"),
        question=_text(words, "question"),
        sources=_sources(words.get("sources")),
        tags=_tags(words.get("tags")),
    )


def _directives(header: str | None) -> dict[str, Any]:
    words: dict[str, Any] = {}
    for part in (header or "").split(","):
        name, has_value, value = part.strip().partition("=")
        name = name.strip().lower()
        if name in ("no-cache", "no-store", "only-if-cached"):
            words[name] = True
        elif name in ("max-age", "min-fresh") and has_value:
            digits = value.strip().strip('"')
            # An argument that is no number makes the directive stale at once (RFC 9111, section 4.2.1).
            seconds = _delta_seconds(digits) if digits.isascii() and digits.isdigit() else 0
            strictest = min if name == "max-age" else max  # said twice: the one that serves less
            words[name] = strictest(words.get(name, seconds), seconds)
    return words


def _delta_seconds(digits: str) -> int:
    digits = digits.lstrip("0")
    return min(int(digits or "0"), _LONGEST_S) if len(digits) <= 10 else _LONGEST_S


def _body_words(field: object) -> dict[str, Any]:
    if field is False:  # the short way to say it
        return {"no-store": True}
    if not isinstance(field, Mapping):
        raise BadRequest('`cache` must be an object, for example {"cache": {"no-cache": true}}.', param="cache")
    words = {str(name).replace("_", "-"): value for name, value in field.items()}
    if len(words) < len(field):
        raise BadRequest("`cache` says the same thing twice, once with - and once with _.", param="cache")
    for name in words:
        if name not in _BODY_WORDS:
            raise BadRequest(f"`cache.{name}` is not known. Known: {', '.join(_BODY_WORDS)}.", param=f"cache.{name}")
    return {name: value for name, value in words.items() if value is not None}


def _flag(words: Mapping[str, Any], name: str) -> bool:
    value = words.get(name, False)
    if not isinstance(value, bool):
        raise BadRequest(f"`cache.{name}` must be true or false.", param=f"cache.{name}")
    return value


def _seconds(words: Mapping[str, Any], name: str) -> float | None:
    value = words.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise BadRequest(f"`cache.{name}` must be a number of seconds, 0 or more.", param=f"cache.{name}")
    return float(value)


def _threshold(words: Mapping[str, Any]) -> float | None:
    value = words.get("threshold")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise BadRequest(
            "`cache.threshold` is a cosine similarity from 0 to 1; higher is stricter, 1 accepts exact repetitions "
            "only.",
            param="cache.threshold",
        )
    return float(value)


def _text(words: Mapping[str, Any], name: str) -> str | None:
    value = words.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise BadRequest(f"`cache.{name}` must be a text that is not empty.", param=f"cache.{name}")
    return value


def _sources(value: object) -> tuple[tuple[str, str], ...]:
    if value is None:
        return ()
    wrong = BadRequest(
        '`cache.sources` must be a list such as [{"id": "refund-policy", "version": "8"}].', param="cache.sources"
    )
    if not isinstance(value, list):
        raise wrong
    pairs = set()
    for source in value:
        if not isinstance(source, Mapping) or not isinstance(source.get("id"), str):
            raise wrong
        pair = (source["id"], str(source.get("version", "")))
        if not _nameable(pair[0]) or (pair[1] and not _nameable(pair[1])):
            raise wrong
        pairs.add(pair)
    if len(pairs) > _MOST_NAMES:
        raise BadRequest(f"`cache.sources` may name at most {_MOST_NAMES} documents.", param="cache.sources")
    return tuple(sorted(pairs))  # the order in which documents were found changes nothing


def _tags(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(tag, str) and _nameable(tag) for tag in value):
        raise BadRequest(
            f'`cache.tags` must be a list of words such as ["faq", "winter-sale"], each of at most {_LONGEST_NAME} '
            "printable characters.",
            param="cache.tags",
        )
    if len(value) > _MOST_NAMES:
        raise BadRequest(f"`cache.tags` may hold at most {_MOST_NAMES} words.", param="cache.tags")
    return tuple(sorted(set(value)))


def _nameable(text: str) -> bool:
    return len(text) <= _LONGEST_NAME and plain_name(text)
