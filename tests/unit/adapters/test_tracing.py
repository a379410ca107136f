"""Spans by OpenTelemetry: of requests, tasks, commits and the attempts of steps; nothing where it is not asked for."""

import gzip
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from werkzeug.wrappers import Request as CollectorRequest
from werkzeug.wrappers import Response

from signalbox import Function, Problem, Request, documents, flow, flows
from signalbox.adapters import otel, tracing
from signalbox.adapters import settings as adapters_settings
from signalbox.adapters.logs import current_trace
from signalbox.adapters.settings import settings
from signalbox.testing import Harness
from tests.serving import serving

app = Function("mill")
jams: list[str] = []
propagated: list[str] = []
GIVEN = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"


class Jammed(Problem):
    status = 422
    title = "The mill is jammed"


@app.http("POST", "/sacks")
def fill(request: Request) -> dict[str, Any]:
    propagated.append(current_trace())  # which the queue sends with each task
    documents.put("sack", {})
    return {}


@app.task
def grind(grain: str) -> str:
    if jams:
        raise Jammed(jams.pop())
    return f"{grain} flour"


@app.flow
async def sieve(grain: str) -> str:
    return await grind.call(grain=grain)


@app.flow
async def milling(grain: str) -> str:
    await flow.sleep(10)
    await flow.step(grind.call(grain=grain), attempts_max=3, pause_seconds=5)
    return await sieve.call(grain=grain)


@pytest.fixture
def harness() -> Iterator[Harness]:
    jams.clear()
    with Harness() as harness:
        harness.add(app)
        yield harness


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    tracing.bind(otel.OpenTelemetry(SimpleSpanProcessor(exporter)))
    yield exporter
    tracing.bind(None)


def ids_of(span: ReadableSpan) -> tuple[str, str]:
    return f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"


def parent_of(span: ReadableSpan) -> str:
    return f"{span.parent.span_id:016x}" if span.parent else ""


def attribute(span: ReadableSpan, name: str) -> Any:
    return (span.attributes or {}).get(f"signalbox.{name}")


def seconds(span: ReadableSpan) -> float:
    return ((span.end_time or 0) - (span.start_time or 0)) / 1e9


def spans(exported: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exported.get_finished_spans() if span.name == name]


def test_a_request_its_commit_and_the_task_that_it_enqueues_are_one_trace(
    harness: Harness, exported: InMemorySpanExporter
) -> None:
    harness.post("mill/sacks", json={}, headers={"traceparent": GIVEN})
    commit, request = exported.get_finished_spans()
    assert [span.name for span in (commit, request)] == ["commit", "mill POST"]
    assert ids_of(request) == (GIVEN.split("-")[1], propagated[-1].split("-")[2])
    assert parent_of(request) == GIVEN.split("-")[2]
    assert (parent_of(commit), attribute(commit, "writes")) == (ids_of(request)[1], 1)
    assert (request.kind.name, attribute(request, "status")) == ("SERVER", 200)
    harness.post("tasks", json={"function": "mill", "task": "grind", "payload": {"grain": "rye"}})
    harness.run()
    [task] = spans(exported, "mill /tasks/grind")
    assert (task.kind.name, attribute(task, "status")) == ("CONSUMER", 204)


def test_a_request_without_a_trace_begins_one_and_one_that_is_not_sampled_exports_nothing(
    harness: Harness, exported: InMemorySpanExporter
) -> None:
    harness.get("semaphores")
    [request] = exported.get_finished_spans()
    assert request.parent is None
    exported.clear()
    harness.get("semaphores", headers={"traceparent": f"{GIVEN[:-2]}00"})
    assert exported.get_finished_spans() == ()


def test_a_request_that_fails_is_an_error(harness: Harness, exported: InMemorySpanExporter) -> None:
    harness.get("semaphores/none")
    assert exported.get_finished_spans()[0].status.status_code is StatusCode.UNSET

    @app.task
    def burn() -> None:
        raise RuntimeError("fire")

    harness.post("tasks", json={"function": "mill", "task": "burn", "payload": {}})
    harness.run(raise_errors=False, due_only=True)
    assert spans(exported, "mill /tasks/burn")[0].status.status_code is StatusCode.ERROR


def test_each_attempt_of_a_step_is_a_span_of_the_run_and_a_failed_one_an_error(
    harness: Harness, exported: InMemorySpanExporter
) -> None:
    jams.append("A stone.")
    flows("milling", "7").start(grain="rye")
    harness.travel(60)
    assert harness.get("mill/flows/milling/7").json["state"] == "completed"
    [run], [sleep] = spans(exported, "flow milling"), spans(exported, "sleep")
    failed, done, of_sieve = spans(exported, "step mill.grind")
    assert {span.context.trace_id for span in (run, sleep, failed, done)} == {run.context.trace_id}
    assert {parent_of(span) for span in (sleep, failed, done)} == {ids_of(run)[1]}
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, "The mill is jammed: A stone.")
    assert (done.status.status_code, attribute(done, "attempt")) == (StatusCode.UNSET, 2)
    assert 9 <= seconds(sleep) <= 12
    [child] = [span for span in spans(exported, "flow sieve") if span.parent is None]
    assert of_sieve.context.trace_id == child.context.trace_id != run.context.trace_id
    waits = [span for span in spans(exported, "flow sieve") if span.parent]
    assert [link.context.span_id for link in child.links if link.context.trace_id == run.context.trace_id] == [
        span.context.span_id for span in waits
    ]


def test_a_run_that_is_replayed_and_delivered_again_has_the_same_spans_and_no_more(
    exported: InMemorySpanExporter,
) -> None:
    def ids(*, repeats: int) -> list[tuple[str, int]]:
        exported.clear()
        with Harness() as harness:
            harness.add(app)
            flows("milling", "7").start(grain="rye")
            for _ in range(60):
                for _ in range(repeats):
                    harness.post("mill/flows/milling/7/resume")
                harness.travel(1)
        of_run = [span for span in exported.get_finished_spans() if attribute(span, "path")]
        return [(span.name, span.context.span_id) for span in of_run]

    once = ids(repeats=0)
    assert len(once) == len(set(once)) == 4
    assert [name for name, _ in ids(repeats=3)] == [name for name, _ in once]


def test_the_id_of_a_span_follows_from_its_key(exported: InMemorySpanExporter) -> None:
    with Harness() as harness:
        harness.add(app)
        flows("milling", "7").start(grain="rye")
        harness.travel(60)
        recorded = harness.log.spans
    assert len({span.key for span in recorded}) == len(recorded) == 6
    exported.clear()
    for span in (*recorded, *recorded):
        tracing.record(span)
    found = [span.context.span_id for span in exported.get_finished_spans()]
    assert found[:6] == found[6:]
    assert len(set(found)) == 6


def test_the_environment_asks_for_the_export_and_without_the_packages_there_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    chosen = adapters_settings.from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"})
    assert chosen.spans_endpoint == "http://127.0.0.1:4318"
    assert settings().spans_endpoint == ""
    assert tracing.exporter() is None
    tracing.bind(None)
    monkeypatch.setitem(sys.modules, "signalbox.adapters.otel", None)
    monkeypatch.delattr("signalbox.adapters.otel")
    monkeypatch.setattr(tracing, "settings", lambda: replace(settings(), spans_endpoint="http://127.0.0.1:4318"))
    assert [tracing.exporter() for _ in range(2)] == [None, None]
    assert caplog.messages == [tracing.MISSING], "once a process"
    tracing.bind(None)


def test_spans_reach_a_collector_by_otlp(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[bytes] = []

    def collector(environ: dict[str, Any], start_response: Any) -> Any:
        request = CollectorRequest(environ)
        assert request.path == "/v1/traces"
        received.append(gzip.decompress(request.data) if request.content_encoding == "gzip" else request.data)
        return Response(b"", content_type="application/x-protobuf")(environ, start_response)

    with serving(collector) as base:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", base)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "the-mill")
        monkeypatch.setattr(otel, "set_tracer_provider", lambda _: None)  # which can be set only once a process
        exporting = otel.connect(base)
        tracing.bind(exporting)
        harness.get("semaphores")
        tracing.bind(None)
        exporting.provider.shutdown()
    [sent] = [ExportTraceServiceRequest.FromString(body) for body in received]
    [of_service] = sent.resource_spans
    assert of_service.resource.attributes[0].value.string_value
    assert "the-mill" in str(of_service.resource)
    assert [span.name for scope in of_service.scope_spans for span in scope.spans] == ["semaphores GET"]


def test_only_cloud_traces_endpoint_gets_a_token() -> None:
    assert otel.is_google("https://telemetry.googleapis.com")
    assert not otel.is_google("https://telemetry.googleapis.com.example.org")


@pytest.mark.parametrize("imported", ["signalbox.adapters.http.task_deliveries", "signalbox"])
def test_nothing_of_the_sdk_is_imported_where_it_is_not_asked_for(imported: str) -> None:
    loaded = "[name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter'))]"
    code = f"import sys, {imported}; import signalbox.adapters.runtime as r; r.load(); print({loaded})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
