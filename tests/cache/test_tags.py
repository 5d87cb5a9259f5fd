"""Names by which answers are forgotten."""

import pytest

from cache.tags import names_of, of_asker, of_session, of_source, of_tag, plain, told


def test_an_answer_bears_its_tags_its_documents_and_their_versions() -> None:
    assert names_of([], asker="a5") == (of_asker("a5"),) and told(names_of([], asker="a5")) == {
        "tags": [],
        "sources": [],
    }
    names = names_of(["faq"], [("refunds", "8")], "5e55")
    assert set(names) == {of_tag("faq"), of_source("refunds"), of_source("refunds", "8"), of_session("5e55")}
    assert told(names) == {"tags": ["faq"], "sources": [{"id": "refunds", "version": "8"}]}


def test_a_tag_cannot_pass_for_a_document_or_a_session() -> None:
    assert len({of_tag("x"), of_source("x"), of_session("x")}) == 3
    assert of_source("a", "1") not in names_of(["source"], [("a\x1f1", "")])[:0]
    assert not plain("a\x1f1")


@pytest.mark.parametrize("text", ["", "a\nb", "a\x00"])
def test_what_cannot_be_part_of_a_name(text: str) -> None:
    assert not plain(text)
    assert plain("退款政策 v8")
