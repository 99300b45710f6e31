"""Metric groups, and what exporters make of a job's metrics."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest

from streamline.metrics import MetricGroup
from streamline.metrics.opentelemetry import OpenTelemetryExporter
from streamline.metrics.prometheus import PrometheusExporter
from streamline.testing import VirtualClock


def job_with_metrics():
    root = MetricGroup("job", VirtualClock(), {"job": "orders"})
    group = root.add_group("operator", "count by key").add_group("subtask", "0")
    group.counter("seen").inc(3)
    group.gauge("numRecordsIn", lambda: 7)
    group.gauge("name", lambda: "not a number")
    for n in (1, 2, 3, 4):
        group.histogram("size").update(n)
    return SimpleNamespace(metric_group=root)


def test_prometheus_text():
    registry = CollectorRegistry()
    exporter = PrometheusExporter(registry)
    job = job_with_metrics()
    exporter.add(job)
    text = generate_latest(registry).decode()
    labels = 'job="orders",operator="count by key",subtask="0"'
    assert f"streamline_seen_total{{{labels}}} 3.0" in text
    assert f"streamline_numRecordsIn_total{{{labels}}} 7.0" in text
    assert 'streamline_size{job="orders",operator="count by key",stat="mean",subtask="0"} 2.5' in text
    assert "not a number" not in text
    exporter.remove(job)
    assert b"seen" not in generate_latest(registry)
    exporter.add(job)
    exporter.close()
    assert b"seen" not in generate_latest(registry)


def test_opentelemetry_instruments():
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    OpenTelemetryExporter(provider.get_meter("test")).add(job_with_metrics())
    found = {
        metric.name: [(p.value, dict(p.attributes)) for p in metric.data.data_points]
        for resource in reader.get_metrics_data().resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    provider.shutdown()
    where = {"job": "orders", "operator": "count by key", "subtask": "0"}
    assert found["streamline_seen"] == [(3.0, where)]
    assert found["streamline_numrecordsin"] == [(7.0, where)]
    assert (4.0, {**where, "stat": "max"}) in found["streamline_size"]


def test_a_name_belongs_to_the_first_and_a_clash_is_warned_of(caplog):
    group = MetricGroup("g", VirtualClock())
    group.counter("x").inc()
    assert group.counter("x").get_count() == 1, "the same metric"
    with caplog.at_level(logging.WARNING):
        group.histogram("x").update(1)
    assert "g.x is a Counter already" in caplog.text
    assert group.counter("x").get_count() == 1


async def test_a_meter_counts_the_last_minute(virtual_clock):
    meter = MetricGroup("g", virtual_clock).meter("m")
    for _ in range(30):
        meter.mark_event(4)
        await virtual_clock.advance(1000)
    assert meter.get_rate() == pytest.approx(4.0)
    await virtual_clock.advance(61_000)
    assert meter.get_rate() == 0.0
    assert meter.get_count() == 120


def test_a_histogram_tells_its_quantiles():
    histogram = MetricGroup("g", VirtualClock()).distribution("h")
    assert histogram.get_statistics() == {}
    for n in range(1, 101):
        histogram.update(n)
    stats = histogram.get_statistics()
    assert (stats["min"], stats["max"], stats["mean"], stats["p50"], stats["p99"]) == (1, 100, 50.5, 51, 100)
