"""Whatever fits /admin/openapi.json, and whatever does not, is answered without an error of ours (schemathesis)."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from house import OpenHouse
from hypothesis import HealthCheck, Phase, given, settings

schemathesis = pytest.importorskip("schemathesis", reason="the extra `dev` brings schemathesis")

EXAMPLES = 4  # for each door and kind; some 200 requests in all
ANN = {"Authorization": "Bearer token-of-ann-0001"}


def knock(url: str, document: Mapping[str, Any]) -> tuple[Counter[str], list[str]]:
    """Ask every operation with what fits its schema and with what does not. Returns how often each was asked, and what
    went wrong."""
    schema = schemathesis.openapi.from_dict(document)
    asked: Counter[str] = Counter()
    troubles: list[str] = []
    for found in schema.get_all_operations():
        operation = found.ok()
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
            try:
                cases = operation.as_strategy(generation_mode=mode)
                _ask(url, cases, f"{operation.method.upper()} {operation.path}", asked, troubles)
            except Exception as impossible:  # nothing about this door can be wrong
                if "Unsatisfiable" not in type(impossible).__name__ and "negat" not in str(impossible).lower():
                    raise
    return asked, troubles


def _ask(url: str, cases: Any, door: str, asked: Counter[str], troubles: list[str]) -> None:
    @settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(cases)
    def one(case: Any) -> None:
        reply = case.call(base_url=url, headers=ANN, timeout=60)
        asked[door] += 1
        if reply.status_code >= 500:
            troubles.append(f"{door} {reply.status_code} {reply.text} for {case.body!r} {case.query!r}")
        if reply.status_code >= 400:
            assert set(orjson.loads(reply.content)["error"]) == {"message", "type", "param", "code"}

    one()


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")  # schemathesis draws with random
async def test_no_request_makes_an_error_of_ours(house: OpenHouse) -> None:
    async with house(2, admin_tokens={"token-of-ann-0001": "operate ann"}) as h:
        await h.ask("How do I reset my password?")
        document = (await h.send("GET", "/admin/openapi.json", headers=ANN)).json
        asked, troubles = await asyncio.to_thread(knock, h.url, document)
        assert troubles == []
        doors = {f"{method.upper()} {path}" for path, each in document["paths"].items() for method in each}
        assert set(asked) == doors
        assert sum(asked.values()) > 3 * len(doors)
        assert (await h.send("GET", "/health")).status == 200
