"""Sends the series to a collector by OTLP over HTTP, with OpenTelemetry's own exporter."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from gputop import __version__
from gputop.exits import ANSWERED, CANNOT_TELL, USAGE, Exit
from gputop.terminal.clean import clean
from gputop.terminal.lines import warn
from gputop.topology.metrics.family import MetricFamily, SeriesKind

INSTALL = "OTLP needs OpenTelemetry's SDK and exporter: pip install 'gputop[otlp]'"
SCHEMES = ("http://", "https://")
TIMEOUT_SECONDS = 10.0
NANOSECONDS = 1e9
SERVICE = "gputop"


class OtlpSender:
    """One collector. Raises Exit where the packages are missing or the address is none."""

    def __init__(self, endpoint: str, host: str | None = None) -> None:
        if not endpoint.startswith(SCHEMES):
            what = f"--otlp {clean(endpoint, 100)!r}"
            raise Exit(f"{what}: it takes a URL: http://127.0.0.1:4318/v1/metrics", USAGE)
        try:
            exporters = import_module("opentelemetry.exporter.otlp.proto.http.metric_exporter")
            metrics = import_module("opentelemetry.sdk.metrics")
            resources = import_module("opentelemetry.sdk.resources")
            scopes = import_module("opentelemetry.sdk.util.instrumentation")
        except ImportError as error:
            raise Exit(INSTALL, USAGE) from error
        self._export: Any = metrics.export
        known = {"service.name": SERVICE, "service.version": __version__}
        self._resource = resources.Resource.create(known | ({"host.name": host} if host else {}))
        self._scope = scopes.InstrumentationScope(SERVICE, __version__)
        self._exporter = exporters.OTLPMetricExporter(endpoint=endpoint, timeout=TIMEOUT_SECONDS)

    def send(self, families: Sequence[MetricFamily], at: float) -> bool:
        """Send what a node's series are; whether the collector took it. `at`: since the epoch."""
        result = self._exporter.export(self._data(families, round(at * NANOSECONDS)))
        return bool(result is self._export.MetricExportResult.SUCCESS)

    def _data(self, families: Sequence[MetricFamily], at: int) -> Any:
        told = self._export
        metrics = [
            told.Metric(one.name, one.help, "", self._points(one, at))
            for one in families
            if one.samples
        ]
        scopes = [told.ScopeMetrics(self._scope, metrics, "")]
        return told.MetricsData([told.ResourceMetrics(self._resource, scopes, "")])

    def _points(self, family: MetricFamily, at: int) -> Any:
        told = self._export
        points = [
            told.NumberDataPoint(dict(one.labels), 0, at, float(one.value))
            for one in family.samples
        ]
        if family.kind is SeriesKind.GAUGE:
            return told.Gauge(points)
        # Counters count since the driver was loaded: when that was, nobody says.
        return told.Sum(points, told.AggregationTemporality.CUMULATIVE, is_monotonic=True)


def keep_sending(
    sender: OtlpSender, read: Callable[[], tuple[MetricFamily, ...]], interval: float, *, once: bool
) -> int:
    """Read and send every `interval` seconds, until Ctrl+C; a collector that is away is told."""
    while True:
        taken = sender.send(read(), time.time())
        if not taken:
            warn("the collector did not take the series")
        if once:
            return ANSWERED if taken else CANNOT_TELL
        time.sleep(interval)
