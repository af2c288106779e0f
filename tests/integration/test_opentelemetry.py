"""The hooks of the page that make spans of OpenTelemetry."""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import pytest

import headgate
from headgate.testing import MockServer
from support.documents import programs_run_by
from support.loops import Run

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

API: Final = "http://api.example"


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@pytest.fixture
def hooks(exporter: InMemorySpanExporter) -> Any:
    exporter.clear()
    [program] = programs_run_by("docs/client.md", "tests/integration/test_opentelemetry.py")
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102 - a program of our own page
    return names["hooks"]


@pytest.fixture
def server() -> Iterator[MockServer]:
    with headgate.testing.mock(base_url=API, assert_all_called=False) as server:
        server.get("/ok").respond()
        server.get("/404").respond(404)
        server.get("/flaky").respond_in_turn([503, 200] * 10)
        server.get("/broken").fails("connection_closed")
        yield server


def check(server: MockServer, exporter: InMemorySpanExporter) -> None:
    """Checks the spans of one call each of /flaky, /404 and /broken."""
    spans = exporter.get_finished_spans()
    calls: dict[str, ReadableSpan] = {
        str((span.attributes or {})["url.full"]): span for span in spans if not span.parent
    }
    assert {f"{API}{path}" for path in ("/flaky", "/404", "/broken")} == {*calls}
    results = {}
    for url, span in calls.items():
        attributes = span.attributes or {}
        assert ("GET", trace.SpanKind.CLIENT, "api.example", 80) == (
            span.name,
            span.kind,
            attributes["server.address"],
            attributes["server.port"],
        )
        children = [child for child in spans if child.parent and child.parent.span_id == span.context.span_id]
        assert all((child.start_time or 0) <= (child.end_time or 0) <= (span.end_time or 0) for child in children)
        result = attributes.get("http.response.status_code"), attributes.get("error.type")
        results[url.removeprefix(API)] = (*result, [child.name for child in children])
        sent = {call.request.headers["traceparent"].split("-")[2] for call in server.calls if call.request.url == url}
        assert {f"{span.context.span_id:016x}"} == sent
    twice = ["attempt 1", "attempt 2"]
    assert {
        "/flaky": (200, None, twice),
        "/404": (404, "404", ["attempt 1"]),
        "/broken": (None, "connection_closed", twice),
    } == results


def test_each_call_of_a_client_is_a_span(server: MockServer, exporter: InMemorySpanExporter, hooks: Any) -> None:
    with headgate.Client(base_url=API, hooks=hooks, retries=1, retry_delay=0.001) as client:
        client.get("/flaky")
        with client.stream("GET", "/404") as response:
            response.read()
        [broken] = client.fetch_many(["/broken"])
    assert broken.error is not None
    check(server, exporter)


def test_each_call_in_a_loop_is_a_span(
    server: MockServer, exporter: InMemorySpanExporter, hooks: Any, run: Run
) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=API, hooks=hooks, retries=1, retry_delay=0.001) as client:
            await client.get("/flaky")
            async with client.stream("GET", "/404") as response:
                await response.aread()
            [broken] = [outcome async for outcome in client.fetch_many(["/broken"])]
        assert broken.error is not None

    run(main())
    check(server, exporter)


def test_a_cancelled_call_ends_its_span(exporter: InMemorySpanExporter, hooks: Any, server: MockServer) -> None:
    async def answer(_: object) -> int:
        await asyncio.sleep(3600)
        return 200

    server.get("/slow").gives(answer)

    async def main() -> None:
        async with headgate.AsyncClient(base_url=API, hooks=hooks) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await client.get("/slow")

    asyncio.run(main())
    [span] = exporter.get_finished_spans()
    assert {"error.type": "cancelled", "url.full": f"{API}/slow"}.items() <= dict(span.attributes or {}).items()


def test_a_call_that_a_hook_has_ended_ends_its_span(
    exporter: InMemorySpanExporter, hooks: Any, server: MockServer
) -> None:
    def fail(_: object) -> None:
        raise ValueError("a bug")

    changed: Any = {**hooks, "request": [hooks["request"], fail]}
    with headgate.Client(base_url=API, hooks=changed) as client:
        with pytest.raises(ValueError, match="a bug"):
            client.get("/ok")
        [outcome] = client.fetch_many(["/ok"])
    assert isinstance(outcome.error, headgate.InvalidRequest)
    assert 0 == server.call_count
    assert 2 == len(exporter.get_finished_spans())
