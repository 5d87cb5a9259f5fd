"""What is sent is checked against the schema that openapi.json shows."""

from typing import Any

import pytest

from proxy.admin.schema import fit, read_query
from proxy.errors import BadRequest

FAQ = {
    "type": "object", "required": ["question"], "additionalProperties": False,
    "properties": {
        "question": {"type": "string", "minLength": 1, "maxLength": 10, "description": "words"},
        "tags": {"type": "array", "maxItems": 2, "items": {"type": "string", "pattern": "^[a-z]+$"}},
        "due_s": {"anyOf": [{"type": "number", "minimum": 0}, {"type": "null"}]},
        "kind": {"enum": ["faq", "label"]}, "depth": {"type": "integer", "maximum": 3, "exclusiveMinimum": 0},
        "more": {"type": "object", "additionalProperties": {"type": "string"}}, "yes": {"const": True},
    },
}  # fmt: skip


def test_what_fits_passes() -> None:
    assert fit({"question": "Why?", "tags": ["a"], "due_s": None, "kind": "faq", "depth": 3, "yes": True}, FAQ) is None
    assert fit({"question": "Why?", "due_s": 1.5, "more": {"a": "b"}, "tags": []}, FAQ) is None


@pytest.mark.parametrize(
    ("value", "place", "words"),
    [
        ([], "", "The body must be of the type object."),
        ({}, "question", "`question` is missing. Needed: question."),
        ({"question": ""}, "question", "`question` must have 1 characters or more."),
        ({"question": "x" * 11}, "question", "`question` must have at most 10 characters."),
        ({"question": 5}, "question", "`question` must be of the type string."),
        ({"question": "x", "tags": ["a", "B"]}, "tags[1]", "`tags[1]` must look like ^[a-z]+$."),
        ({"question": "x", "tags": ["a", "b", "c"]}, "tags", "`tags` must have at most 2 items."),
        ({"question": "x", "due_s": "soon"}, "due_s", "`due_s` must be of the type null."),
        ({"question": "x", "kind": "fact"}, "kind", "`kind` must be one of faq, label."),
        ({"question": "x", "depth": True}, "depth", "`depth` must be of the type integer."),
        ({"question": "x", "depth": 4}, "depth", "`depth` must be at most 3."),
        ({"question": "x", "depth": 0}, "depth", "`depth` must be more than 0."),
        ({"question": "x", "yes": False}, "yes", "`yes` must be True."),
        ({"question": "x", "more": {"a": 1}}, "more.a", "`more.a` must be of the type string."),
        ({"question": "x", "mine": 1}, "mine",
         "`mine` is not known here. Known: question, tags, due_s, kind, depth, more, yes."),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_with_its_place(value: Any, place: str, words: str) -> None:
    wrong = fit(value, FAQ)
    assert wrong is not None and (wrong.place, wrong.message) == (place, words)


QUERY = {
    "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}, "force": {"type": "boolean"},
    "share": {"type": "number"}, "q": {"type": "string", "minLength": 1},
}  # fmt: skip


def test_a_query_is_read_as_its_types_with_its_defaults() -> None:
    told = read_query("/x?limit=7&force=yes&share=0.5&q=a%20b", QUERY)
    assert told == {"limit": 7, "force": True, "share": 0.5, "q": "a b"}
    assert read_query("/x", QUERY) == {"limit": 20, "force": None, "share": None, "q": None}


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=x", "limit=٣", "limit=" + "9" * 400, "force=maybe", "share=nan", "share=inf", "q=", "other=1",
     "limit=1&limit=2", "q=%ff", "&".join("q=1" for _ in range(99))],
)  # fmt: skip
def test_a_query_that_does_not_fit_is_refused(query: str) -> None:
    with pytest.raises(BadRequest):
        read_query(f"/x?{query}", QUERY)
