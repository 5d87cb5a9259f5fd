"""Traces: one request is one trace, from the client through us to the worker, in the words of OpenTelemetry."""

import asyncio
from typing import Any

import pytest
from house import OpenHouse, open_house
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import proxy.tracing

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    real = proxy.tracing.Tracing
    monkeypatch.setattr(
        proxy.tracing, "Tracing", lambda endpoint, version: real(endpoint, version=version, exporter=exporter)
    )
    return exporter


@pytest.fixture
def house(tmp_path: Any) -> OpenHouse:
    return lambda **wishes: open_house(tmp_path, otel_endpoint="http://127.0.0.1:4318", **wishes)


def by_kind(spans: InMemorySpanExporter, kind: SpanKind) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.kind is kind]


async def test_a_miss_is_a_trace_from_the_caller_to_the_worker(house: OpenHouse, spans: InMemorySpanExporter) -> None:
    async with house() as h:
        await h.ask("Why is the sky blue?", headers={"traceparent": PARENT}, stream=True)
        sent = h.asked[0].headers.getall("traceparent")
    (server,), (client,) = by_kind(spans, SpanKind.SERVER), by_kind(spans, SpanKind.CLIENT)
    assert server.name == client.name == "chat demo"
    assert f"{server.context.trace_id:032x}" == f"{client.context.trace_id:032x}" == PARENT.split("-")[1]
    assert client.parent is not None and client.parent.span_id == server.context.span_id
    assert sent == [f"00-{PARENT.split('-')[1]}-{client.context.span_id:016x}-01"]  # vLLM goes on from here
    told = dict(client.attributes or {})
    assert told["gen_ai.operation.name"] == "chat" and told["gen_ai.request.model"] == "demo"
    assert told["gen_ai.usage.input_tokens"] > 0 and told["gen_ai.usage.output_tokens"] > 0
    assert told["server.address"] == "127.0.0.1" and told["http.response.status_code"] == 200


async def test_a_hit_asks_nobody_and_says_from_where_it_came(house: OpenHouse, spans: InMemorySpanExporter) -> None:
    async with house() as h:
        await h.ask("Why is the sky blue?")
        spans.clear()
        await h.ask("Why is the sky blue?")
    assert not by_kind(spans, SpanKind.CLIENT)
    (server,) = by_kind(spans, SpanKind.SERVER)
    told = dict(server.attributes or {})
    assert told["rejoinder.source"] == "recent" and str(told["rejoinder.cache_status"]).startswith("rejoinder; hit")


async def test_the_stages_of_a_lookup_stand_inside_their_request(house: OpenHouse, spans: InMemorySpanExporter) -> None:
    async with house() as h:
        await h.ask("Why is the sky blue?")
        spans.clear()
        await h.ask("How many moons has Mars?")
    (server,) = by_kind(spans, SpanKind.SERVER)
    stages = by_kind(spans, SpanKind.INTERNAL)
    assert [stage.name for stage in stages] == ["cache embed", "cache index", "cache guards"]
    for stage in stages:
        assert stage.parent is not None and stage.parent.span_id == server.context.span_id
        assert (server.start_time or 0) <= (stage.start_time or 0) <= (stage.end_time or 0) <= (server.end_time or 0)


async def test_no_span_holds_a_word_of_question_or_answer(house: OpenHouse, spans: InMemorySpanExporter) -> None:
    async with house() as h:
        await h.ask("My code word is Xylophone")
        await h.ask("My code word is Xylophone 7")
    assert spans.get_finished_spans()
    assert "ylophone" not in "".join(span.to_json() for span in spans.get_finished_spans())


async def test_an_error_is_marked_as_one(house: OpenHouse, spans: InMemorySpanExporter) -> None:
    async with house() as h:
        h.workers[0].fault("reset")
        assert (await h.ask()).status >= 500
    for span in (*by_kind(spans, SpanKind.SERVER), *by_kind(spans, SpanKind.CLIENT)):
        assert span.status.status_code is StatusCode.ERROR and dict(span.attributes or {})["error.type"]


async def test_requests_at_once_keep_their_traces_apart(house: OpenHouse, spans: InMemorySpanExporter) -> None:
    async with house() as h:
        await asyncio.gather(*(h.ask(f"Explain code A{n}") for n in range(8)))
    servers = {span.context.span_id: span for span in by_kind(spans, SpanKind.SERVER)}
    clients = by_kind(spans, SpanKind.CLIENT)
    assert len(servers) == len(clients) == 8
    assert {client.parent.span_id for client in clients if client.parent is not None} == set(servers)


async def test_a_collector_that_is_not_there_costs_no_request(tmp_path: Any) -> None:
    async with open_house(tmp_path, otel_endpoint="http://127.0.0.1:1") as h:
        assert (await h.ask()).status == 200
