"""Families of series, as Prometheus knows them: a name, a kind, a sentence, numbers with labels."""

from __future__ import annotations

import math

import msgspec

from ..model.characters import harmless
from ..model.severity import Word

Labels = tuple[tuple[str, str], ...]


class SeriesKind(Word):
    """How the numbers of a family move: up and down, or up alone until the driver loads anew."""

    GAUGE = "gauge"
    COUNTER = "counter"


class MetricSample(msgspec.Struct, frozen=True):
    """One number."""

    labels: Labels
    value: float


class MetricFamily(msgspec.Struct, frozen=True):
    """All numbers of one name."""

    name: str
    kind: SeriesKind
    help: str
    samples: tuple[MetricSample, ...]


def exposition(families: tuple[MetricFamily, ...]) -> str:
    """The text format of Prometheus 0.0.4, which the node exporter's textfile collector reads.

    No number has a time: the collector refuses a file with one.
    """
    lines: list[str] = []
    for family in families:
        if not family.samples:
            continue
        lines += [
            f"# HELP {family.name} {_escaped(family.help, quoted=False)}",
            f"# TYPE {family.name} {family.kind}",
        ]
        lines += [
            f"{family.name}{_labels(sample.labels)} {_number(sample.value)}"
            for sample in family.samples
        ]
    return "".join(f"{line}\n" for line in lines)


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(text: str, *, quoted: bool = True) -> str:
    text = harmless(text.replace("\\", r"\\").replace("\n", r"\n"))
    return text.replace('"', r"\"") if quoted else text


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 2**63 else repr(float(value))
