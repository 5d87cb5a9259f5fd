"""Who may do what at /admin, through a real server: roles, a browser's session, the audit, the table as a document."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from house import House, OpenHouse, Told

TOKENS = {"token-of-ann-0001": "operate ann", "token-of-cy-000003": "curate cy", "token-of-bob-0002": "read bob"}
ANN, CY, BOB = ({"Authorization": f"Bearer {token}"} for token in TOKENS)
ENTRY = "0" * 16


async def doors_of(h: House, headers: dict[str, str]) -> dict[str, Any]:
    told = (await h.send("GET", "/admin/openapi.json", headers=headers)).json
    return dict(told["paths"])


def path_of(door: str) -> str:
    return door.replace("{entry}", ENTRY).replace("{name}", "nobody")


async def test_who_has_no_token_learns_nothing_not_even_which_doors_there_are(house: OpenHouse) -> None:
    """Issue 6: an unauthorised caller learns nothing."""
    async with house(admin_tokens=TOKENS) as h:
        told = await h.ask()
        entry = (await h.ask()).headers.get("X-Rejoinder-Entry", ENTRY)
        assert told.status == 200
        doors = await doors_of(h, ANN)
        seen = set()
        wrong = {"Authorization": "Bearer token-of-nobody-1"}
        for door in [*doors, "/admin", "/admin/nothing", "/admin/entries/xyz", f"/admin/entries/{entry}"]:
            for method in ("GET", "POST", "DELETE", "PATCH"):
                if (method, door) == ("POST", "/admin/login"):
                    continue
                for headers in ({}, wrong, {"Cookie": "rejoinder_admin=1.2.3.4"}):
                    refused = await h.send(method, path_of(door), headers={"X-Request-Id": "r", **headers})
                    del (sent := dict(refused.headers))["Date"]
                    seen.add((refused.status, refused.body, tuple(sorted(sent.items()))))
        assert len(seen) == 1, seen
        assert seen.pop()[0] == 401
        assert await h.stored() == 1


async def test_each_role_may_what_the_table_says_and_no_more(house: OpenHouse) -> None:
    async with house(admin_tokens=TOKENS) as h:
        refused: dict[str, set[str]] = {"read": set(), "curate": set(), "operate": set()}
        for door, operations in (await doors_of(h, BOB)).items():
            for method, operation in operations.items():
                needed = ("read", "curate", "operate").index(operation["x-role"] or "read")
                for rank, headers in enumerate((BOB, CY, ANN)):
                    if door == "/admin/logout":
                        continue
                    told = await h.send(method.upper(), path_of(door), headers=headers)
                    assert (told.status == 403) == (rank < needed), (method, door, rank, told.body)
                    if told.status == 403:
                        assert operation["x-role"] in told.error["message"]
                        refused[operation["x-role"]].add(door)
        assert refused["read"] == set() and refused["curate"] and refused["operate"]


async def login(h: House, token: str, **headers: str) -> Told:
    return await h.send("POST", "/admin/login", json={"token": token}, headers=headers)


async def test_a_browser_logs_in_looks_changes_and_leaves(house: OpenHouse) -> None:
    async with house(2, admin_tokens=TOKENS) as h:
        assert (await login(h, "wrong")).status == 401
        assert (await login(h, "token-of-ann-0001", Origin="https://evil.example")).status == 403
        told = await login(h, "token-of-ann-0001", Origin=h.url)
        cookie = told.headers["Set-Cookie"]
        assert {"HttpOnly", "SameSite=Strict", "Path=/admin"} <= set(cookie.split("; ")) and "Secure" not in cookie
        assert "token-of-ann" not in cookie
        assert "Secure" in (await login(h, "token-of-bob-0002", **{"X-Forwarded-Proto": "https"})).headers["Set-Cookie"]
        mine = {"Cookie": cookie.partition(";")[0], "Origin": h.url}
        session = (await h.send("GET", "/admin/session", headers=mine)).json
        assert session == told.json == {"name": "ann", "role": "operate", "csrf": told.json["csrf"], "tokenless": False}

        name = (await h.send("GET", "/admin/workers", headers=mine)).json["workers"][0]["name"]
        drain = f"/admin/workers/{name}/drain"
        assert (await h.send("POST", drain, headers=mine)).status == 403, "no CSRF token"
        stolen = mine | {"X-CSRF-Token": session["csrf"], "Origin": "https://evil.example"}
        assert (await h.send("POST", drain, headers=stolen)).status == 403
        assert (await h.send("POST", drain, headers=mine | {"X-CSRF-Token": session["csrf"]})).status == 200
        ended = await h.send("POST", "/admin/logout", headers=mine | {"X-CSRF-Token": session["csrf"]})
        assert "Max-Age=0" in ended.headers["Set-Cookie"]


async def test_what_was_changed_and_refused_is_audited_without_a_word_of_anybody(
    house: OpenHouse, tmp_path: Path
) -> None:
    async with house(2, admin_tokens=TOKENS) as h:
        name = (await h.send("GET", "/admin/workers", headers=BOB)).json["workers"][0]["name"]
        assert (await h.send("POST", f"/admin/workers/{name}/drain", headers=CY)).status == 403
        assert (await h.send("POST", f"/admin/workers/{name}/drain", headers=ANN)).status == 200
        reason = {"reason": "Karl Meier complained"}
        assert (await h.send("POST", f"/admin/entries/{ENTRY}/quarantine", json=reason, headers=CY)).status == 200
        assert (await h.send("GET", "/admin/audit", headers=BOB)).status == 403
    async with house(2, admin_tokens=TOKENS) as h:  # after a restart
        told = (await h.send("GET", "/admin/audit?limit=10", headers=ANN)).json
        rows = [(each["who"], each["path"].rpartition("/")[2], each["outcome"][:4]) for each in told["items"]]
        assert rows == [("cy", "quarantine", "done"), ("ann", "drain", "done"), ("cy", "drain", "403 ")]
        assert all(each["at_s"] > 1e9 and each["request_id"] for each in told["items"])
        page = (await h.send("GET", "/admin/audit?limit=1", headers=ANN)).json
        rest = (await h.send("GET", f"/admin/audit?cursor={page['next']}", headers=ANN)).json
        assert page["items"] + rest["items"] == told["items"] and rest["next"] is None
    kept = (tmp_path / "audit.jsonl").read_text()
    assert kept.count("\n") == 3 and "Meier" not in kept and "token-of" not in kept


async def test_a_token_is_never_logged(house: OpenHouse, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with house(admin_tokens=TOKENS) as h:
        await h.send("POST", "/admin/workers/nobody/drain", headers=ANN)
        await login(h, "token-of-ann-0001")
        await login(h, "token-of-ann-000X")
    assert caplog.records and "token-of-ann" not in caplog.text


async def test_explain_may_ask_as_another_tenant_would(house: OpenHouse) -> None:
    async with house(api_keys={"key-a": "acme"}, admin_tokens=TOKENS) as h:
        await h.ask("How do I reset my password?", key="key-a")
        body = orjson.dumps({"model": "demo", "messages": [{"role": "user", "content": "How do I reset my password?"}]})
        for query, hit in (("", False), ("?tenant=acme", True), ("?tenant=other", False)):
            told = await h.post(f"/admin/explain{query}", body, BOB)
            assert told.json["lookup"]["hit"] is hit
        assert (await h.post("/admin/explain?path=/v1/embeddings", body, BOB)).status == 400
        assert (await h.post("/admin/explain", body, {"Authorization": "Bearer key-a"})).status == 403


async def test_the_report_says_what_was_served_saved_and_most_asked(house: OpenHouse) -> None:
    async with house(gpu_hour_price=3.0, currency="EUR") as h:
        for question in ("How do I reset my password?", "Why is the sky blue?", "How do I reset my password?"):
            await h.ask(question)
        for _ in range(2):
            assert (await h.ask("How do I reset my password?")).hit
        told = (await h.send("GET", "/admin/report")).json
        assert (told["lookups"], told["hits_total"], told["misses_total"], told["entries"]) == (5, 3, 2, 2)
        assert told["hits"]["recent"] == 3 and sum(told["misses"].values()) == 2
        assert told["latency"]["hits"]["count"] == 3 and told["latency"]["misses"]["p50_ms"] > 0
        saved = told["saved"]
        assert saved["completion_tokens"] > 0 and saved["prompt_tokens"] > 0 and saved["currency"] == "EUR"
        assert 0 < saved["money"] == pytest.approx(saved["gpu_s"] / 1200, abs=1e-6)
        (top,) = told["top_questions"]
        assert (top["question"], top["times"], top["over"]) == ("How do I reset my password?", 3, 0)
        (worker,) = told["workers"]
        assert (worker["state"], worker["in_flight"]) == ("up", 0)
        assert told["false_hit_rate"] == {"budget": 0.01, "measured": []}
        now = (await h.send("GET", "/admin/stats")).json
        assert now["lookups"] == 5 and "top_questions" not in now

        await h.send("DELETE", f"/admin/entries/{top['entry']}")
        assert (await h.send("GET", "/admin/report")).json["top_questions"] == []


async def test_settings_are_told_with_their_origin_and_no_secret(house: OpenHouse) -> None:
    async with house(admin_tokens=TOKENS, worker_api_key="key-of-the-workers", api_keys={"key-a": "acme"}) as h:
        told = await h.send("GET", "/admin/settings", headers=BOB)
        by_name = {each["name"]: each for each in told.json["items"]}
        assert by_name["admin_tokens"]["value"] == "3 keys for curate cy, operate ann, read bob"
        assert (by_name["worker_api_key"]["value"], by_name["worker_api_key"]["origin"]) == ("(set)", "flag")
        assert (by_name["ttl_s"]["value"], by_name["ttl_s"]["origin"]) == ("86400.0", "default")
        for secret in (b"token-of", b"key-of-the-workers", b"key-a"):
            assert secret not in told.body
