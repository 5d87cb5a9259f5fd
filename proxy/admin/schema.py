"""Does a value fit a JSON Schema? The few words of JSON Schema 2020-12 that our routes use; the same dictionaries stand
in /admin/openapi.json. Pure.

type, enum, const, anyOf · minLength, maxLength, pattern · minimum, exclusiveMinimum, maximum · items, minItems,
maxItems · properties, required, additionalProperties. A word that is not known is an error of ours, not of the caller.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from proxy.errors import BadRequest

Schema = Mapping[str, Any]

_NOTES: Final = frozenset({"description", "default", "examples", "title", "format"})


@dataclass(frozen=True, slots=True)
class Wrong:
    """Where a value does not fit (`items[0].name`; "" = the whole), and what would be right."""

    place: str
    message: str


def fit(value: Any, schema: Schema, place: str = "") -> Wrong | None:
    """The first place that does not fit; None = all does."""
    for word, wanted in schema.items():
        if word in _NOTES:
            continue
        wrong = _RULES[word](value, wanted, schema, place)
        if wrong is not None:
            return wrong if isinstance(wrong, Wrong) else Wrong(place, f"{_named(place)} {wrong}.")
    return None


def read_query(target: str, schemas: Mapping[str, Schema]) -> dict[str, Any]:
    """Every parameter of the table: as its schema's type, its default, or None. Raises BadRequest for unknown ones, for
    those given twice, and for what does not fit."""
    told: dict[str, Any] = {name: schema.get("default") for name, schema in schemas.items()}
    seen: set[str] = set()
    try:
        pairs = parse_qsl(urlsplit(target).query, keep_blank_values=True, max_num_fields=64, errors="strict")
    except ValueError as bad:  # UnicodeDecodeError too
        raise BadRequest(f"The query cannot be read: {bad}.") from None
    for name, text in pairs:
        schema = schemas.get(name)
        if schema is None:
            known = ", ".join(schemas) or "none"
            raise BadRequest(f"`{name}` is not known here. Known: {known}.", param=name)
        if name in seen:
            raise BadRequest(f"`{name}` is given twice.", param=name)
        seen.add(name)
        value = _coerced(text, schema)
        if (wrong := fit(value, schema, name)) is not None:
            raise BadRequest(wrong.message, param=name)
        told[name] = value
    return told


def _coerced(text: str, schema: Schema) -> Any:
    kind = schema.get("type")
    try:
        if kind == "integer":
            return int(text) if text.isascii() and len(text) < 20 else text
        if kind == "number":
            return float(text)
    except ValueError:
        return text
    if kind == "boolean":
        return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}.get(text.lower(), text)
    return text


def _named(place: str) -> str:
    return f"`{place}`" if place else "The body"


_KINDS: Final[dict[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def _type(value: Any, wanted: Any, _: Schema, __: str) -> str | None:
    kinds = [wanted] if isinstance(wanted, str) else wanted
    return None if any(_KINDS[kind](value) for kind in kinds) else f"must be of the type {' or '.join(kinds)}"


def _any_of(value: Any, wanted: Any, _: Schema, place: str) -> str | Wrong | None:
    wrongs = [fit(value, each, place) for each in wanted]
    return None if None in wrongs else wrongs[-1]


def _properties(value: Any, wanted: Any, _: Schema, place: str) -> Wrong | None:
    if isinstance(value, dict):
        for name in wanted:
            inner = f"{place}.{name}" if place else name
            if name in value and (wrong := fit(value[name], wanted[name], inner)) is not None:
                return wrong
    return None


def _additional(value: Any, wanted: Any, schema: Schema, place: str) -> Wrong | None:
    known = schema.get("properties", {})
    if isinstance(value, dict):
        for name in value:
            inner = f"{place}.{name}" if place else name
            if name in known:
                continue
            if wanted is False:
                return Wrong(inner, f"`{inner}` is not known here. Known: {', '.join(known)}.")
            if isinstance(wanted, Mapping) and (wrong := fit(value[name], wanted, inner)) is not None:
                return wrong
    return None


def _required(value: Any, wanted: Any, _: Schema, place: str) -> Wrong | None:
    if isinstance(value, dict):
        for name in wanted:
            if name not in value:
                inner = f"{place}.{name}" if place else name
                return Wrong(inner, f"`{inner}` is missing. Needed: {', '.join(wanted)}.")
    return None


def _items(value: Any, wanted: Any, _: Schema, place: str) -> Wrong | None:
    if isinstance(value, list):
        for number, each in enumerate(value):
            if (wrong := fit(each, wanted, f"{place}[{number}]")) is not None:
                return wrong
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_Rule = Callable[[Any, Any, Schema, str], str | Wrong | None]

_RULES: Final[dict[str, _Rule]] = {
    "type": _type,
    "enum": lambda v, w, s, p: None if v in w else f"must be one of {', '.join(map(str, w))}",
    "const": lambda v, w, s, p: None if v == w else f"must be {w}",
    "anyOf": _any_of,
    "minLength": lambda v, w, s, p: f"must have {w} characters or more" if isinstance(v, str) and len(v) < w else None,
    "maxLength": lambda v, w, s, p: f"must have at most {w} characters" if isinstance(v, str) and len(v) > w else None,
    "pattern": lambda v, w, s, p: f"must look like {w}" if isinstance(v, str) and not re.search(w, v) else None,
    "minimum": lambda v, w, s, p: f"must be {w} or more" if _is_number(v) and v < w else None,
    "exclusiveMinimum": lambda v, w, s, p: f"must be more than {w}" if _is_number(v) and v <= w else None,
    "maximum": lambda v, w, s, p: f"must be at most {w}" if _is_number(v) and v > w else None,
    "items": _items,
    "minItems": lambda v, w, s, p: f"must have {w} items or more" if isinstance(v, list) and len(v) < w else None,
    "maxItems": lambda v, w, s, p: f"must have at most {w} items" if isinstance(v, list) and len(v) > w else None,
    "properties": _properties,
    "required": _required,
    "additionalProperties": _additional,
}
