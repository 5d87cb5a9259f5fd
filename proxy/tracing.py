"""Traces for OpenTelemetry (extra: otel). The only door to that library; imported where `otel_endpoint` is set.

A request is a SERVER span, what a worker is asked a CLIENT span inside it, which vLLM continues (its
`--otlp-traces-endpoint`) because `traceparent` goes with it; the stages of a lookup by meaning are spans, too. Names
and attributes are those of the semantic conventions for generative AI (gen_ai.*, semconv 1.37); our own begin with
`rejoinder.`. No span holds a word of a question or an answer. Sampling and resource come from the OTEL_… variables.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, MutableMapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from opentelemetry import propagate, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from cache import Stage
from proxy import openai
from proxy.call import Call, Journey, Reply
from proxy.dispatch import Asks, Errand
from proxy.errors import ProxyError
from proxy.routing.rides import Ride
from proxy.upstream import UpstreamReply

OPERATIONS: Final = {
    "/v1/chat/completions": "chat", "/v1/completions": "text_completion", "/v1/embeddings": "embeddings",
    "/v1/responses": "chat", "/v1/messages": "chat",
}  # fmt: skip
_PROVIDER: Final = "vllm"
_PATIENCE_S: Final = 2.0  # how long a collector may take, and so how long leaving may


class Tracing:
    """An async context manager: leaving tells what is left. endpoint: of a collector.
    exporter: used instead, and told every span at once (tests)."""

    def __init__(self, endpoint: str, *, version: str, exporter: SpanExporter | None = None) -> None:
        self._provider = TracerProvider(resource=Resource.create({SERVICE_NAME: "rejoinder"}), shutdown_on_exit=False)
        self._processor = (
            SimpleSpanProcessor(exporter) if exporter is not None
            else BatchSpanProcessor(OTLPSpanExporter(f"{endpoint}/v1/traces", timeout=_PATIENCE_S))
        )  # fmt: skip
        self._provider.add_span_processor(self._processor)
        self._tracer = self._provider.get_tracer("rejoinder", version)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._provider.shutdown)

    def took(self, stage: Stage, seconds: float) -> None:
        """A stage of a lookup by meaning has ended just now."""
        now_ns = time.time_ns()
        span = self._tracer.start_span(f"cache {stage.value}", start_time=now_ns - int(seconds * 1e9))
        span.end(now_ns)

    def around(self, journey: Journey) -> Journey:
        """The same journey, as a span."""

        @contextlib.asynccontextmanager
        async def traced(call: Call) -> AsyncIterator[Reply]:
            body = openai.peek(call.headers.get("Content-Type", ""), call.body)
            model = body.get("model")
            with self._tracer.start_as_current_span(
                _name(call.path, model), propagate.extract(call.headers), SpanKind.SERVER, record_exception=False,
                set_status_on_exception=False, attributes=_asked(call.path, model),
            ) as span:  # fmt: skip
                span.set_attributes({
                    "http.request.method": call.method, "url.path": call.path, "rejoinder.tenant": call.tenant.name,
                    "rejoinder.request_id": call.request_id,
                })  # fmt: skip
                try:
                    async with journey(call) as reply:
                        _replied(span, reply)
                        yield reply
                except ProxyError as error:
                    _failed(span, error)
                    raise

        return traced

    def asking(self, asks: Asks) -> Asks:
        """The same dispatch, as spans."""
        return _TracedAsks(self._tracer, asks)


class _TracedAsks:
    def __init__(self, tracer: trace.Tracer, asks: Asks) -> None:
        self._tracer = tracer
        self._asks = asks

    def ask(self, errand: Errand) -> AbstractAsyncContextManager[tuple[Ride, UpstreamReply]]:
        return self._traced(errand)

    @contextlib.asynccontextmanager
    async def _traced(self, errand: Errand) -> AsyncIterator[tuple[Ride, UpstreamReply]]:
        path = errand.target.partition("?")[0]
        with self._tracer.start_as_current_span(
            _name(path, errand.prompt.model), kind=SpanKind.CLIENT, record_exception=False,
            set_status_on_exception=False, attributes=_asked(path, errand.prompt.model),
        ) as span:  # fmt: skip
            carrier: MutableMapping[str, str] = {}
            propagate.inject(carrier)
            kept = [pair for pair in errand.headers if pair[0].lower() not in {*carrier, "traceparent", "tracestate"}]
            errand = replace(errand, headers=[*kept, *carrier.items()])
            try:
                async with self._asks.ask(errand) as (ride, reply):
                    where = urlsplit(ride.choice.worker.url)
                    span.set_attributes({
                        "server.address": where.hostname or "", "server.port": where.port or 0,
                        "http.response.status_code": reply.status, "rejoinder.routing": ride.choice.kind.value,
                    })  # fmt: skip
                    if reply.status >= 500:
                        span.set_status(Status(StatusCode.ERROR))
                    yield ride, reply
                    if ride.usage is not None:
                        prompt, cached, written = ride.usage
                        span.set_attributes({
                            "gen_ai.usage.input_tokens": prompt, "gen_ai.usage.output_tokens": written,
                            "gen_ai.usage.cache_read.input_tokens": cached or 0,
                        })  # fmt: skip
            except ProxyError as error:
                _failed(span, error)
                raise


def _name(path: str, model: object) -> str:
    operation = OPERATIONS.get(path)
    return f"{operation} {model}" if operation and isinstance(model, str) else operation or path


def _asked(path: str, model: object) -> dict[str, str]:
    told = {"gen_ai.provider.name": _PROVIDER}
    if path in OPERATIONS:
        told["gen_ai.operation.name"] = OPERATIONS[path]
    if isinstance(model, str):
        told["gen_ai.request.model"] = model
    return told


def _replied(span: Span, reply: Reply) -> None:
    status = next((value for name, value in reply.headers if name == "Cache-Status"), "")
    span.set_attributes({
        "http.response.status_code": reply.status, "rejoinder.source": reply.source,
        "rejoinder.cache_status": status.partition("; detail=")[0],
    })  # fmt: skip
    if reply.status >= 500:
        span.set_status(Status(StatusCode.ERROR))


def _failed(span: Span, error: ProxyError) -> None:
    span.set_attributes({"http.response.status_code": error.status, "error.type": str(error.code)})
    span.set_status(Status(StatusCode.ERROR))
