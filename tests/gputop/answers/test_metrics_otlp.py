"""`gputop metrics --otlp`: a collector that the test plays, and an SDK where there is none."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import pytest

from gputop.__main__ import run
from gputop.answers.metrics_otlp import INSTALL, OtlpSender, keep_sending
from gputop.exits import CANNOT_TELL, Exit
from gputop.topology.metrics.family import MetricFamily, MetricSample, SeriesKind

URL = "http://127.0.0.1:4318/v1/metrics"
FAMILIES = (
    MetricFamily("a", SeriesKind.GAUGE, "how many", (MetricSample((("gpu", "0"),), 2.5),)),
    MetricFamily("b_total", SeriesKind.COUNTER, "errors", (MetricSample((), 3.0),)),
    MetricFamily("c", SeriesKind.GAUGE, "nobody read it", ()),
)
RECORDS = {
    "MetricsData": "resource_metrics",
    "ResourceMetrics": "resource scope_metrics schema_url",
    "ScopeMetrics": "scope metrics schema_url",
    "Metric": "name description unit data",
    "Gauge": "data_points",
    "Sum": "data_points aggregation_temporality is_monotonic",
    "NumberDataPoint": "attributes start_time_unix_nano time_unix_nano value",
}
"""The records of opentelemetry.sdk.metrics.export that we fill, with their fields in order."""


class Collector:
    """What was sent, and whether it is taken."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.away = False


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Collector:
    """An SDK of records alone, whose exporter keeps what it is given."""
    told = Collector()
    results = SimpleNamespace(SUCCESS="success", FAILURE="failure")

    class Exporter:
        def __init__(self, **settings: Any) -> None:
            assert settings["endpoint"] == URL

        def export(self, data: Any) -> str:
            told.sent.append(data)
            return "failure" if told.away else "success"

    def module(name: str, **known: Any) -> None:
        made = ModuleType(name)
        made.__dict__.update(known)
        monkeypatch.setitem(sys.modules, name, made)

    records = {name: msgspec.defstruct(name, fields.split()) for name, fields in RECORDS.items()}
    temporality = SimpleNamespace(CUMULATIVE="cumulative")
    export = {**records, "MetricExportResult": results, "AggregationTemporality": temporality}
    otlp = "opentelemetry.exporter.otlp.proto.http.metric_exporter"
    parts = otlp.split(".")
    for at in range(1, len(parts)):
        module(".".join(parts[:at]))
    module(otlp, OTLPMetricExporter=Exporter)
    for name in ("opentelemetry.sdk", "opentelemetry.sdk.util"):
        module(name)
    made = SimpleNamespace(**export)
    module("opentelemetry.sdk.metrics", export=made)
    module("opentelemetry.sdk.resources", Resource=SimpleNamespace(create=dict))
    module("opentelemetry.sdk.util.instrumentation", InstrumentationScope=lambda *told: told)
    return told


def test_the_same_records_are_sent(collector: Collector) -> None:
    assert OtlpSender(URL, "n7").send(FAMILIES, 12.5)
    (resource,) = collector.sent[0].resource_metrics
    assert resource.resource["host.name"] == "n7"
    gauge, counter = resource.scope_metrics[0].metrics
    (point,) = gauge.data.data_points
    assert (gauge.name, gauge.description, point.attributes) == ("a", "how many", {"gpu": "0"})
    assert (point.value, point.time_unix_nano) == (2.5, 12_500_000_000)
    assert (counter.data.is_monotonic, counter.data.aggregation_temporality) == (True, "cumulative")


def test_once_says_whether_it_was_taken(
    collector: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["metrics", "--demo", "sick-h100-8", "--otlp", URL, "--once"]) == 0
    names = {one.name for one in collector.sent[0].resource_metrics[0].scope_metrics[0].metrics}
    assert {"gputop_verdict", "DCGM_FI_DEV_GPU_UTIL"} <= names
    collector.away = True
    assert keep_sending(OtlpSender(URL), lambda: FAMILIES, 1.0, once=True) == CANNOT_TELL
    assert "did not take" in capsys.readouterr().err


def test_what_is_no_address_and_no_sdk_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Exit, match="takes a URL"):
        OtlpSender("127.0.0.1:4318")
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(Exit, match="gputop\\[otlp\\]") as refused:
        OtlpSender(URL)
    assert str(refused.value).endswith(INSTALL)


def test_the_records_are_those_of_the_sdk() -> None:
    """Where it is installed: the names and the order of the fields that we fill."""
    export = pytest.importorskip("opentelemetry.sdk.metrics.export")
    for name, fields in RECORDS.items():
        known = list(getattr(export, name).__dataclass_fields__)
        assert known[: len(fields.split())] == fields.split(), name
