"""The threshold lab, through the door, with the shipped models: traps are refused for reasons that a person reads."""

from typing import Any

import pytest
from house import EMBEDDERS, House, OpenHouse


async def pair(h: House, asked: str, stored: str, **more: Any) -> Any:
    told = await h.send("POST", "/admin/lab", json={"asked": asked, "stored": stored, **more})
    assert told.status == 200, told.body
    return told.json


@pytest.mark.parametrize("embedder", EMBEDDERS[1:])
async def test_a_trap_is_refused_and_a_rewording_is_weighed(house: OpenHouse, embedder: str) -> None:
    async with house(embedder=embedder, reader_deadline_s=5.0, embed_deadline_s=5.0) as h:
        trap = await pair(h, "How do I disable two-factor login?", "How do I enable two-factor login?")
        assert trap["served"] is False and trap["similarity"] > 0.8 and trap["candidate"]["against"]
        same = await pair(h, "how do i reset my password??", "How do I reset my password?")
        assert (same["served"], same["likeness"]) == (True, "wording")
        near = await pair(h, "How can I reset my password?", "How do I reset my password?")
        assert near["similarity"] > 0.9 and near["candidate"]["reader"] is not None
        assert near["served"] is near["candidate"]["would_serve"]
        assert near["asked"]["write"] == "similar"
        assert await h.stored() == 0 and h.calls == 0


async def test_the_lab_says_what_a_pair_must_look_like(house: OpenHouse) -> None:
    async with house() as h:
        headers = {"Cache-Control": "no-cache"}  # as browsers send it on a reload
        told = await h.send("POST", "/admin/lab", json={"asked": "Why?", "stored": "Why?"}, headers=headers)
        assert told.json["served"] and told.headers["Cache-Control"] == "no-store"
        for body, words in (({"asked": "x"}, "stored"), ({"asked": "", "stored": "x"}, "asked"),
                            ({"asked": "x", "stored": "y", "k": 1}, "k")):  # fmt: skip
            told = await h.send("POST", "/admin/lab", json=body)
            assert told.status == 400 and words in told.error["message"] and told.error["param"] == words
        own = await pair(h, "Where is my order 48213?", "Where is my order 48231?", system="You help.", tenant="acme")
        assert own["served"] is False and "personal" in str(own["asked"]).lower()
