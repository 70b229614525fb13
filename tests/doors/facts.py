"""The table of facts: what each is about, and where each door states it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from gputop.topology.model.severity import JobVerdict, Severity, Verdict

from .opening import Door
from .readings import Fact, Reading, Statement, document, flow, matrix, text

SIGNS = {mark.sign: str(mark.value) for mark in (*Severity, Verdict.HEALTHY)}
JOB_SIGNS = {mark.value: mark.sign for mark in JobVerdict}
LOG_SIGNS = {"error": "✗", "warning": "▼", "notice": "•"}
"""The words of a finding of a log in its document."""
EXITS = {"0": "healthy", "1": "slow", "2": "broken", "3": "cannot-tell"}
BYTES_256MIB = 2**28


def _findings(d: Any) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    for number, finding in enumerate(d["findings"]):
        yield finding["title"], finding["severity"], ("findings", number, "severity")


def _pairs(field: str) -> Callable[[Any], Iterator[tuple[str, Any, tuple[Any, ...]]]]:
    def found(d: Any) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
        for number, pair in enumerate(d["pairs"]):
            yield f"{pair['src']}>{pair['dst']}", pair[field], ("pairs", number, field)

    return found


def _way(d: Any) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """The transport of every pair with the flag, by `flags NAME --json`."""
    for number, group in enumerate(_effect(d).get("pairs", ())):
        for src, dst in group["pairs"]:
            way = (*_EFFECT, "pairs", number, "after", "transport")
            yield f"{src}>{dst}", group["after"]["transport"], way


_EFFECT = ("flag", "outcomes", 0, "effect")


def _effect(d: Any) -> Any:
    outcomes = d["flag"]["outcomes"]
    return (outcomes and outcomes[0]["effect"]) or {}


def _time(side: str, size: int) -> Callable[[Any], Iterator[tuple[str, Any, tuple[Any, ...]]]]:
    def found(d: Any) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
        for number, time in enumerate(_effect(d).get("times", ())):
            if time["bytes"] == size and time[side]:
                yield "", time[side], (*_EFFECT, "times", number, side)

    return found


def _chosen(size: int) -> Callable[[Any], Iterator[tuple[str, Any, tuple[Any, ...]]]]:
    def found(d: Any) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
        for number, choice in enumerate(d["choices"]):
            if (choice["collective"], choice["bytes"]) == ("AllReduce", size):
                yield "", choice["time_us"], ("choices", number, "time_us")

    return found


def _graphs(d: Any) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    for name, graph in (d["graphs"] or {}).items():
        if graph and name in ("ring", "tree"):
            yield name, graph["channels"], ("graphs", name, "channels")


def _graph_words(side: str) -> Callable[[Any], Iterator[tuple[str, Any, tuple[Any, ...]]]]:
    def found(d: Any) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
        for number, graph in enumerate(_effect(d).get("graphs", ())):
            if graph["graph"] in ("ring", "tree") and " x " in (graph[side] or ""):
                yield graph["graph"], graph[side], (*_EFFECT, "graphs", number, side)

    return found


def _relations(d: Any) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    labels = [device["label"] for device in d["matrix"]["devices"]]
    for i, row in enumerate(d["matrix"]["cells"]):
        for j, cell in enumerate(row):
            if i != j:
                yield f"{labels[i]}>{labels[j]}", cell, ("matrix", "cells", i, j)


def _links(d: Any) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """NVLinks of the GPUs behind NVSwitches: the sum over the switches."""
    labels = {device["address"]: device["label"] for device in d["matrix"]["devices"]}
    switches = {node["id"] for node in d["nodes"] if node["kind"] == "nvswitch"}
    sums: dict[str, int] = {}
    ways: dict[str, tuple[Any, ...]] = {}
    for number, edge in enumerate(d["edges"]):
        ends = {edge["a"], edge["b"]}
        for gpu in ends - switches:
            if edge["kind"] == "nvlink" and ends & switches and gpu in labels and edge["count"]:
                sums[gpu] = sums.get(gpu, 0) + edge["count"]
                ways.setdefault(gpu, ("edges", number, "count"))
    for gpu, count in sums.items():
        yield labels[gpu].removeprefix("GPU"), count, ways[gpu]


def _word(value: str) -> str:
    return SIGNS.get(value, value.strip().lower().replace(" ", "-"))


def _figure(value: str) -> str:
    return f"{float(value.rstrip('.')):.3g}"


def _microseconds(value: str) -> str:
    number, _, unit = value.partition(" ")
    factor = {"us": 1, "ms": 1e3, "s": 1e6, "": 1}[unit]
    return f"{float(number) * factor:.3g}"


def _transport(value: str) -> str:
    return "P2P" if value == "relay" else value


def _channels(value: str) -> str:
    return re.split(r"\s", value)[0]


HEALTHY = r"{}healthy (?P<value>[\d.]+) → here"
HERE = r"{}(?:healthy (?:[\d.]+|not known) → here )?(?P<value>[\d.]+)(?: to [\d.]+)? GB/s"
ALL_REDUCE = "[Aa]ll-reduce 1 GiB: "
COPY = r"copy GPU3 to GPU0: "
PAGES = r"^GPU(?P<key>\d+)$"
NODE_ROW = r"^[› ](?:.)[ ]*(?P<key>\d+)\s+[0-9a-f]{2,4}:[0-9a-f]{2}\S*.*?"
_RANKS = r"^rank(?: +\d+)+ *$"
_EXPLAINED = matrix(_RANKS, r" *(?P<key>\d+) +", r"(?P<value>\.|[A-Z0-9]+)(?: [A-Z0-9]{3,4}\b)? *")
_PATHS = matrix(_RANKS, r" *(?P<key>\d+) +", r"(?:\.|[A-Z0-9]+(?: (?P<value>[A-Z0-9]{3,4}\b))?) *")
_SHOWN = matrix(
    r"^↓ to →.*$",
    r"[› ]GPU(?P<key>\d+)\S*",
    r"\s+\[?(?P<value>·|[A-Z0-9]+|relay)\]?",
    label=r"(?<=GPU)\d+",
)

FACTS = (
    Fact(
        "verdict",
        {
            "check": text(r"\A(?P<value>\S) "),
            "check --json": document(lambda d: [("", d["verdict"], ("verdict",))]),
            "check exit": Reading(
                lambda door: [Statement("", EXITS[door.text], (0, len(door.text)))],
                lambda _door, _at, value: Door("0" if value == "healthy" else "2"),
            ),
            "node screen": text(r"^ (?P<value>[✗▼✓?]) [A-Z ]+(?::|  )"),
            "findings screen": text(r"^ (?P<value>[✗▼✓?]) [a-z ]+[:;·]?.* checks done"),
        },
        ("✓", "✗", "healthy", "broken"),
        _word,
    ),
    Fact(
        "severity of a finding",
        {
            "check": text(r"^(?P<value>[✗▼•?]) [a-z ]{11} (?P<key>.+) \[[a-z0-9-]+\]$"),
            "check -v": text(r"^(?P<value>[✗▼•?]) [a-z ]{11} (?P<key>.+) \[[a-z0-9-]+\]$"),
            "check --json": document(_findings),
            "findings screen": text(
                r"^[› ](?P<value>[✗▼•?]) [a-z ]{11} (?P<key>\S.*?)(?:\s{3,}.*)?$"
            ),
            "why screen": text(r"^[▸•] (?P<value>broken|slow|notice|cannot tell): (?P<key>.+)$"),
        },
        ("✗", "?", "broken", "notice"),
        _word,
    ),
    Fact(
        "checks done",
        {
            "check": text(r"(?P<value>\d+) checks done"),
            "check --json": document(
                lambda d: [("", len(d["examined"]), ("examined",))] if d["examined"] else []
            ),
            "node screen": text(r"(?P<value>\d+) checks done"),
            "findings screen": text(r"(?P<value>\d+) checks done"),
        },
        ("3", "4"),
    ),
    Fact(
        "links of a GPU that are up",
        {
            "node screen": text(NODE_ROW + r"\s(?P<value>\d+)/\d+!? [↑–]"),
            "why screen": text(r"[Ll]inks are up\? (?P<value>\d+) of \d+", within=PAGES),
            "check -v": text(r"[Ll]inks of GPU(?P<key>\d+) that are up: (?P<value>\d+) of \d+"),
            "topo --json": document(_links),
        },
        ("3", "4"),
    ),
    Fact(
        "links of a GPU that should be up",
        {
            "node screen": text(NODE_ROW + r"\s\d+/(?P<value>\d+)!? [↑–]"),
            "why screen": text(r"[Ll]inks are up\? \d+ of (?P<value>\d+)", within=PAGES),
            "check -v": text(r"[Ll]inks of GPU(?P<key>\d+) that are up: \d+ of (?P<value>\d+)"),
        },
        ("3", "4"),
    ),
    Fact(
        "lanes of a GPU",
        {
            "node screen": text(NODE_ROW + r"\s(?:gen\d )?x(?P<value>\d+)(?: of \d+ !)?\s"),
            "why screen": text(r"attached\? gen\d x(?P<value>\d+) at this moment", within=PAGES),
            "check -v": text(r"lanes of the link of GPU(?P<key>\d+): x(?P<value>\d+) of x\d+"),
        },
        ("3", "4"),
    ),
    Fact(
        "all-reduce of 1 GiB, healthy",
        {
            "explain": flow(HEALTHY.format(ALL_REDUCE)),
            "node screen": flow(HEALTHY.format(ALL_REDUCE)),
            "check -v": flow(HEALTHY.format(ALL_REDUCE)),
            "findings screen": flow(HEALTHY.format(ALL_REDUCE)),
            "why screen": flow(HEALTHY.format(ALL_REDUCE)),
        },
        ("1", "2"),
        _figure,
    ),
    Fact(
        "all-reduce of 1 GiB, here",
        {
            "explain": flow(HERE.format(ALL_REDUCE)),
            "node screen": flow(HERE.format(ALL_REDUCE)),
            "check -v": flow(HERE.format(ALL_REDUCE)),
            "findings screen": flow(HERE.format(ALL_REDUCE)),
            "why screen": flow(HERE.format(ALL_REDUCE)),
            "flags": text(r"^  not set  ~? ?(?P<value>[\d.]+) GB/s"),
            "flags screen": text(r"^• not set  .*?(?P<value>[\d.]+) GB/s"),
        },
        ("1", "2"),
        _figure,
    ),
    Fact(
        "all-reduce of 1 GiB with the flag",
        {
            "flags": text(r"^  1  +~? ?(?P<value>[\d.]+)(?: to [\d.]+)?(?: GB/s)?$"),
            "flags screen": text(r"^  1  .*?(?P<value>[\d.]+)(?: to [\d.]+)? GB/s"),
            "pairs what-if screen": text(HERE.format("WHAT IF.*" + ALL_REDUCE)),
        },
        ("1", "2"),
        _figure,
    ),
    Fact(
        "all-reduce of 256 MiB, time",
        {
            "explain": text(r"^ +256 MiB .* (?P<value>[\d.]+ [mu]s) "),
            "explain --json": document(_chosen(BYTES_256MIB)),
            "flags": text(r"^  not set  as above .*?(?P<value>[\d.]+ [mu]s)"),
            "flags --json": document(_time("before_us", BYTES_256MIB)),
            "flags screen": text(r"^• not set  .*?(?P<value>[\d.]+ [mu]s)"),
        },
        ("1 us", "2 us", "1", "2"),
        _microseconds,
    ),
    Fact(
        "copy from GPU3 to GPU0, healthy",
        {
            "check -v": flow(HEALTHY.format(COPY)),
            "findings screen": flow(HEALTHY.format(COPY)),
            "why screen": flow(HEALTHY.format(COPY)),
        },
        ("1", "2"),
        _figure,
    ),
    Fact(
        "copy from GPU3 to GPU0, here",
        {
            "check -v": flow(HERE.format(COPY)),
            "findings screen": flow(HERE.format(COPY)),
            "why screen": flow(HERE.format(COPY)),
        },
        ("1", "2"),
        _figure,
    ),
    Fact(
        "copy of the pair on screen, healthy",
        {
            "pairs screen": text(r"copy healthy (?P<value>[\d.]+) → here"),
            "why pair screen": text(r"should a copy reach, one way\? about (?P<value>[\d.]+) GB/s"),
        },
        ("1", "2"),
        _figure,
    ),
    Fact(
        "transport of a pair",
        {
            "explain": _EXPLAINED,
            "explain --json": document(_pairs("transport")),
            "pairs screen": _SHOWN,
        },
        ("P2P", "SHM"),
        _transport,
    ),
    Fact(
        "path of a pair",
        {"explain": _PATHS, "explain --json": document(_pairs("path"))},
        ("NVL", "SYS"),
    ),
    Fact(
        "transport of a pair with the flag",
        {
            "explain what-if": _EXPLAINED,
            "explain what-if --json": document(_pairs("transport")),
            "flags --json": document(_way),
            "pairs what-if screen": _SHOWN,
        },
        ("P2P", "SHM"),
        _transport,
    ),
    Fact(
        "channels of a graph",
        {
            "explain": text(r"^(?P<key>Ring|Tree): (?P<value>\d+) × "),
            "explain --json": document(_graphs),
            "flags": text(r"[Ss]earch gives it (?P<value>\d+) x (?=[\d.]+)", about="ring"),
            "flags --json": document(_graph_words("before")),
            "flags screen": text(
                r"^• not set  .*?\s(?P<value>\d+) x [\d.]+ [A-Z]{3}", about="ring"
            ),
        },
        ("3", "5", "3 x 1", "5 x 1"),
        _channels,
    ),
    Fact(
        "channels of a graph with the flag",
        {
            "explain what-if": text(r"^(?P<key>Ring|Tree): (?P<value>\d+) × "),
            "explain what-if --json": document(_graphs),
            "flags --json": document(_graph_words("after")),
            "flags screen": text(r"^  1  .*?\s(?P<value>\d+) x [\d.]+ [A-Z]{3}", about="ring"),
        },
        ("3", "5", "3 x 1", "5 x 1"),
        _channels,
    ),
    Fact(
        "version of the library",
        {
            "explain": text(r"\A[NR]CCL (?P<value>[\d.]+),"),
            "explain --json": document(
                lambda d: [("", d["library"]["version"], ("library", "version"))]
            ),
            "flags": text(r"rules of [NR]CCL (?P<value>[\d.]+\d)"),
            "flags --json": document(
                lambda d: [("", d["library"]["version"], ("library", "version"))]
            ),
            "node screen": text(r"all-reduce 1 GiB.*· [NR]CCL (?P<value>[\d.]+\d)$"),
            "why pair screen": text(r"^[NR]CCL (?P<value>[\d.]+\d) will use"),
        },
        ("1.2.3", "1.2.4"),
    ),
    Fact(
        "relation of two devices",
        {
            "topo --json": document(_relations),
            "node screen": matrix(
                r"^ +GPU0[ ▼✗].*$",
                r"[› ](?P<key>(?:GPU|NIC)\d+).",
                r" *(?P<value>\S+)",
                label=r"(?:GPU|NIC)\d+",
            ),
        },
        ("NV3", "SYS"),
    ),
)
"""Every fact that two doors state of a node."""


JOB_FACTS = (
    Fact(
        "verdict of a job",
        {
            "jobs": text(r"^(?P<value>[✗▼?✓]) (?P<key>[\w.]+): "),
            "jobs --json": document(
                lambda d: [
                    (job["program"], job["verdict"], ("jobs", number, "verdict"))
                    for number, job in enumerate(d["jobs"])
                ]
            ),
            "jobs screen": text(r"^ (?P<value>[✗▼?✓]) (?P<key>[\w.]+): \d+ "),
        },
        ("✗", "✓", "hangs", "runs"),
        lambda value: JOB_SIGNS.get(value, value),
    ),
    Fact(
        "what a job does",
        {
            "jobs": text(r"^[✗▼?✓] (?P<key>[\w.]+): (?P<value>[^✗▼?✓]+?)\n +rank "),
            "jobs --json": document(
                lambda d: [
                    (job["program"], job["sentence"], ("jobs", number, "sentence"))
                    for number, job in enumerate(d["jobs"])
                ]
            ),
            "jobs screen": text(r"^ [✗▼?✓] (?P<key>[\w.]+): (?P<value>\d+ .*?)(?: · simulated)?$"),
        },
        ("6 ranks, at rest", "7 ranks, at rest"),
        lambda value: " ".join(value.rpartition(": ")[2].split()),
    ),
)
"""Every fact that two doors state of a job."""

LOG_FACTS = (
    Fact(
        "severity of a finding in a log",
        {
            "log": text(r"^  (?P<value>[✗▼•]) +(?P<key>\S.*)$"),
            "log --json": document(_findings),
            "log screen": text(r"^[› ](?P<value>[✗▼•])  (?P<key>\S.*)$"),
        },
        ("✗", "•", "error", "notice"),
        lambda value: LOG_SIGNS.get(value, value),
    ),
    Fact(
        "version of the library in a log",
        {
            "log": text(r"^  [NR]CCL (?P<value>[\d.]+\d)"),
            "log --json": document(
                lambda d: [("", d["library"]["version"], ("library", "version"))]
            ),
            "log screen": text(r"^ \S+  [NR]CCL (?P<value>[\d.]+\d) "),
        },
        ("1.2.3", "1.2.4"),
    ),
    Fact(
        "value of a variable in a log",
        {
            "log": text(r"^  (?P<key>N?R?CCL_\w+)=(?P<value>\S*)  line (?:\d+)"),
            "log --json": document(
                lambda d: [
                    (variable["name"], variable["value"], ("environment", number, "value"))
                    for number, variable in enumerate(d["environment"])
                ]
            ),
            "log screen": text(r"^ (?P<key>N?R?CCL_\w+)=(?P<value>\S*)  line (?:\d+)"),
        },
        ("5", "6"),
    ),
)
"""Every fact that two doors state of a log."""
