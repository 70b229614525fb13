"""What the doors state of the node's parts: GPUs, their links and memory, CPUs, NICs, software."""

from __future__ import annotations

import re

from . import documents as json
from .finding_facts import figure, spaced
from .readings import Fact, Reading, document, flow, matrix, text

PAGES = r"^PAGE (?:GPU)?(?P<key>\S+)$"
"""The heading of a GPU's page."""
MAP = r"^  GPU(?P<key>\d+) · .*$"
ROW = r"^[› ].[ ]*(?P<key>\d+)\s+[0-9a-f]{2,4}:[0-9a-f]{2}\S*.*?"
"""A GPU in the table of Node, up to a column."""
BARS = r"^[› ].[ ]*(?P<key>\d+)\s+[0-9a-f]{2,4}:[0-9a-f]{2}\S*\s+[━╸─]+\s+"
MEMORY = BARS + r"\d+\s+[━╸─]+\s*"
POWER = MEMORY + r"[\d.]+/[\d.]+\s+[━╸─]+\s*\d+\s+"
LABEL = r"(?:GPU|NIC)\d+|[0-9a-f:]*[0-9a-f]{2}:[0-9a-f]{2}\.\d"
"""A device at the head of a row or column."""
WIRING = ("fleet", "facts", "wiring")
DRIVER = ("fleet", "facts", "driver")
SETTINGS = ("fleet", "facts", "settings")
GIB = {"B": 2**-30, "KiB": 2**-20, "MiB": 2**-10, "GiB": 1, "TiB": 2**10}


def _page(pattern: str) -> Reading:
    return flow(pattern, within=PAGES)


def _gibibytes(value: str) -> str:
    """Whole GiB, of a figure that may have another unit."""
    number, _, unit = value.partition(" ")
    return f"{float(number) * GIB[unit or 'GiB']:.0f}"


def _lanes(value: str) -> str:
    return value.removeprefix("x")


def _model(value: str) -> str:
    """The model without its maker, which the screens leave out where it is plain."""
    name = spaced(value).replace("GPU of unknown name", "AMD GPU, model unknown")
    around = (
        r"^(?:part \d+ of )?(?:NVIDIA |AMD )?(?:Instinct |GeForce )?(?=\w)",
        r" [0-9a-f:]+\.\d$",
    )
    return re.sub(rf"{around[0]}|{around[1]}| \((?:not in|only) .*$|, by its PCI id$", "", name)


DEVICE_FACTS = (
    Fact(
        "GPUs of the node",
        {
            "node screen": text(r"^ \S+ · (?P<value>\d+) × \S[^×\n]* · driver"),
            "map screen": text(r"^   (?P<value>\d+) GPUs(?: on|:)"),
            "fleet": text(r"^  \S+: (?P<value>\d+) × \S[^×\n]*?, driver"),
            "fleet screen": text(r"^ +\d+  \S+ +(?P<value>\d+) × [^×\n]* · driver"),
        },
        ("3", "4"),
    ),
    Fact(
        "model of a GPU",
        {
            "why panel": _page(r"What is it\? (?P<value>[^,\n]+?)(?:, |\n)"),
            "node panel": text(r"^GPU \d+ · (?P<value>(?!name not read)[^…\n]+)$", within=PAGES),
            "map panel": text(
                r"^  GPU(?P<key>\d+) · \S+ · (?P<value>(?!NUMA|its memory)[^·\n]+?) · "
            ),
        },
        ("A", "B"),
        _model,
    ),
    Fact(
        "model of the GPUs",
        {
            "check --json": document(json.at("fleet", "product")),
            "node screen": text(r"^ \S+ · (?P<value>\d+ × \S[^×\n]*?) · driver"),
            "fleet": text(r"^  \S+: (?P<value>\d+ × \S[^×\n]*?), driver"),
            "fleet screen": text(r"^ +\d+  \S+ +(?P<value>\d+ × [^×\n]*?) · driver"),
            "fleet --json": document(json.at("groups", 0, "product")),
        },
        ("1 × A", "1 × B"),
        lambda value: " × ".join(map(_model, value.split(" × "))),
    ),
    Fact(
        "UUID of a GPU",
        {
            "why panel": _page(r"UUID (?P<value>\S+?), "),
            "node panel": _page(r"^ UUID +(?P<value>\S+)"),
        },
        ("A", "B"),
    ),
    Fact(
        "memory of a GPU",
        {
            "why panel": _page(r"What is it\? [^,]+?, (?P<value>[\d.]+ [KMGT]iB)"),
            "node panel": _page(
                r"^ Memory +(?:[\d.]+ [KMGT]iB used of )?(?P<value>[\d.]+ [KMGT]iB)"
            ),
            "node screen": text(MEMORY + r"[\d.]+/(?P<value>[\d.]+)\s"),
            "map panel": text(r"memory .* of (?P<value>[\d.]+ [KMGT]iB)", within=MAP),
        },
        ("1 GiB", "2 GiB", "1", "2"),
        _gibibytes,
    ),
    Fact(
        "memory of the GPUs",
        {
            "check --json": document(json.one("fleet", "facts", "hardware", "GPU memory")),
            "node panel": text(
                r"\A[^\0]*?^ Memory +(?:[\d.]+ [KMGT]iB used of )?(?P<value>[\d.]+ [KMGT]iB)"
            ),
        },
        ("1 GiB", "2 GiB"),
        _gibibytes,
    ),
    Fact(
        "memory of a GPU in use",
        {
            "node screen": text(MEMORY + r"(?P<value>[\d.]+)/[\d.]+\s"),
            "map panel": text(r"memory (?P<value>[\d.]+(?: [KMGT]?i?B)?) of", within=MAP),
            "node panel": _page(r"^ Memory +(?P<value>[\d.]+ [KMGT]iB) used of"),
        },
        ("70", "50", "70 GiB", "50 GiB"),
        _gibibytes,
    ),
    Fact(
        "utilisation of a GPU",
        {
            "node screen": text(BARS + r"(?P<value>\d+)\s"),
            "map panel": text(r"utilisation (?P<value>\d+) %", within=MAP),
        },
        ("3", "4"),
    ),
    Fact(
        "temperature of a GPU",
        {
            "node screen": text(POWER + r"(?P<value>\d+)\s"),
            "node panel": _page(r"^ Temperature +(?P<value>\d+) °C"),
        },
        ("3", "4"),
    ),
    Fact(
        "clock of a GPU",
        {
            "node screen": text(POWER + r"\d+\s+(?P<value>\d+)\s"),
            "node panel": _page(r"^ Clocks +[A-Z]+ (?P<value>\d+)/"),
        },
        ("3", "4"),
    ),
    Fact(
        "power limit of a GPU",
        {
            "why panel": _page(r"power limit (?P<value>[\d.]+) W"),
            "node panel": _page(r"^ Power +limit (?P<value>[\d.]+) W"),
        },
        ("3", "4"),
    ),
    Fact(
        "links of a GPU that are up",
        {
            "node screen": text(ROW + r"\s(?P<value>\d+)/\d+!? [↑–]"),
            "node screen: head": text(
                r"GPU(?P<key>\d+): (?P<value>\d+) of \d+ (?:NV|xGMI )[Ll]inks"
            ),
            "why panel": _page(r"[Ll]inks are up\? (?P<value>\d+) of \d+"),
            "why panel: claim": _page(r"(?P<value>\d+) of \d+ NVLinks are up: "),
            "check -v": text(r"[Ll]inks of GPU(?P<key>\d+) that are up: (?P<value>\d+) of \d+"),
            "check --json": document(json.words(*WIRING, "NVLinks up")),
            "map screen": text(r"GPU(?P<key>\d+): (?:[^;\n]*, )?(?P<value>\d+) of \d+ NVLinks"),
            "map panel": text(r"NVLink (?P<value>\d+) of \d+ ·", within=MAP),
            "topo --json": document(json.edges("count", "nvlink")),
        },
        ("3", "4"),
    ),
    Fact(
        "links of a GPU that should be up",
        {
            "node screen": text(ROW + r"\s\d+/(?P<value>\d+)!? [↑–]"),
            "node screen: head": text(
                r"GPU(?P<key>\d+): \d+ of (?P<value>\d+) (?:NV|xGMI )[Ll]inks"
            ),
            "why panel": _page(r"[Ll]inks are up\? \d+ of (?P<value>\d+)"),
            "why panel: claim": _page(r"\d+ of (?P<value>\d+) NVLinks are up: "),
            "check -v": text(r"[Ll]inks of GPU(?P<key>\d+) that are up: \d+ of (?P<value>\d+)"),
            "map screen": text(r"GPU(?P<key>\d+): (?:[^;\n]*, )?\d+ of (?P<value>\d+) NVLinks"),
            "map panel": text(r"NVLink \d+ of (?P<value>\d+) ·", within=MAP),
        },
        ("3", "4"),
    ),
    Fact(
        "rate of a GPU's NVLinks",
        {
            "why panel": _page(r"NVLinks are up\? [^•]*?(?P<value>[\d.]+) GB/s payload one way"),
            "node panel": _page(r"^ NVLink +[^\0]*?(?P<value>[\d.]+) GB/s payload one way"),
            "topo --json": document(json.edges("payload_gbs", "nvlink")),
            "map screen": text(
                r"GPU(?P<key>\d+): [^\n]*NVLinks \((?P<value>[\d.]+) of [\d.]+ GB/s\)"
            ),
        },
        ("3", "4"),
        figure,
    ),
    Fact(
        "lanes of a GPU",
        {
            "node screen": text(ROW + r"\s(?:gen\d )?x(?P<value>\d+)(?: of \d+ !)?\s"),
            "node screen: head": text(
                r"GPU(?P<key>\d+): (?:[^·\n]*, )?PCIe x(?P<value>\d+) of x\d+"
            ),
            "node panel": _page(r"^ PCIe +gen \d of \d, x(?P<value>\d+) of"),
            "why panel": _page(r"attached\? gen\d x(?P<value>\d+) at this moment"),
            "why panel: claim": _page(r"Its PCIe link came up with (?P<value>\d+) of \d+ lanes"),
            "check -v": text(r"lanes of the link of GPU(?P<key>\d+): x(?P<value>\d+) of x\d+"),
            "check --json": document(json.words(*WIRING, "PCIe lanes of the GPUs")),
            "map screen": text(r"GPU(?P<key>\d+): PCIe x(?P<value>\d+) of x\d+"),
            "map panel": text(r"PCIe gen\d x(?P<value>\d+) now", within=MAP),
            "topo --json": document(json.edges("count", "pcie")),
        },
        ("3", "4"),
    ),
    Fact(
        "PCIe generation of a GPU",
        {
            "node screen": text(ROW + r"\sgen(?P<value>\d) x\d+\s"),
            "node panel": _page(r"^ PCIe +gen (?P<value>\d) of"),
            "why panel": _page(r"attached\? gen(?P<value>\d) x\d+ at this moment"),
        },
        ("7", "8"),
    ),
    Fact(
        "most lanes of a GPU",
        {
            "node screen: head": text(
                r"GPU(?P<key>\d+): (?:[^·\n]*, )?PCIe x\d+ of x(?P<value>\d+)"
            ),
            "why panel": _page(r"attached\? [^;]*; gen\d x(?P<value>\d+) possible"),
            "why panel: claim": _page(r"Its PCIe link came up with \d+ of (?P<value>\d+) lanes"),
            "check -v": text(r"lanes of the link of GPU(?P<key>\d+): x\d+ of x(?P<value>\d+)"),
            "map screen": text(r"GPU(?P<key>\d+): PCIe x\d+ of x(?P<value>\d+)"),
        },
        ("3", "4"),
    ),
    Fact(
        "rate of a GPU's PCIe link",
        {
            "map panel": text(r"PCIe gen\d x\d+ now, (?P<value>[\d.]+) GB/s", within=MAP),
            "map screen": text(r"GPU(?P<key>\d+): PCIe x\d+ of x\d+ \((?P<value>[\d.]+) of"),
            "topo --json": document(json.edges("payload_gbs", "pcie")),
        },
        ("3", "4"),
        figure,
    ),
    Fact(
        "NUMA node of a GPU",
        {
            "node screen": text(ROW + r"\s(?P<value>\d+)  [a-z]\w+ (?:near|same|far) "),
            "node screen: matrix": text(
                r"^[› ]GPU(?P<key>\d+)\S? .* (?:  )(?P<value>\d+)(?: +[\d,-]+)?$"
            ),
            "node panel": _page(r"^ CPUs +[^\n]*NUMA node (?P<value>\d+)"),
            "why panel": _page(r"CPUs are near\? NUMA node (?P<value>\d+)"),
            "map panel": text(r"^  GPU(?P<key>\d+) · .* · NUMA (?P<value>\d+)"),
            "topo": text(r"^GPU(?P<key>\d+)\t.*\t(?P<value>\d+)\t\tN/A$"),
            "topo --json": document(json.devices("numa_affinity")),
            "check --json": document(json.words(*WIRING, "NUMA nodes of the GPUs")),
        },
        ("7", "8"),
    ),
    Fact(
        "CPUs near a GPU",
        {
            "node screen: matrix": text(r"^[› ]GPU(?P<key>\d+)\S? .*  (?P<value>[\d,]+-[\d,-]+)$"),
            "why panel": _page(r"CPUs are near\? [^(]*CPUs (?P<value>\d[\d,-]*\d)"),
            "node panel": _page(r"^ CPUs +(?P<value>\d[\d,-]*\d)"),
            "topo": text(r"^GPU(?P<key>\d+)\t.*\t(?P<value>[\d,-]+)\t[^\t]*\t\t[^\t]*$"),
            "topo --json": document(json.devices("cpu_affinity")),
        },
        ("0-1", "0-2"),
    ),
    Fact(
        "version of the driver",
        {
            "node screen": text(r"^ \S+ · .* · driver (?P<value>\S+)"),
            "check --json": document(json.at(*DRIVER, "driver")),
            "fleet": text(r"^  \S+: .*, driver (?P<value>[^\s,]+)"),
            "fleet screen": text(r"^ +\d+  \S+ +.* · driver (?P<value>[^\s,]+)"),
        },
        ("1.2.3", "1.2.4"),
    ),
    Fact(
        "version of CUDA or ROCm",
        {
            "node screen": text(r"^ \S+ · .* · (?P<key>CUDA|ROCm) (?P<value>\S+)"),
            "check --json": document(
                lambda d: (
                    (key, value, (*DRIVER, key))
                    for key, value in d["fleet"]["facts"]["driver"].items()
                    if key in ("CUDA", "ROCm")
                )
            ),
            "fleet": text(r"^  \S+: .*, (?P<key>CUDA|ROCm) (?P<value>[^\s,]+)"),
            "fleet screen": text(r"^ +\d+  \S+ +.*, (?P<key>CUDA|ROCm) (?P<value>[^\s,]+)"),
        },
        ("1.2.3", "1.2.4"),
    ),
    Fact(
        "installed version of the library",
        {
            "node screen": text(r"^ \S+ · .* × .* · (?P<key>[NR]CCL) (?P<value>[\d.]+\d)"),
            "check --json": document(
                lambda d: (
                    (key, value, (*DRIVER, key))
                    for key, value in d["fleet"]["facts"]["driver"].items()
                    if key in ("NCCL", "RCCL")
                )
            ),
        },
        ("1.2.3", "1.2.4"),
    ),
    Fact(
        "relation of two devices",
        {
            "topo": matrix(
                r"^\tGPU0\t.*$",
                rf"(?P<key>{LABEL})\t",
                r"[ ]*(?:N/A|\?|(?P<value>[A-Z]+\d*))[ ]*(?=\t|$)",
                label=LABEL,
            ),
            "topo --json": document(json.relations),
            "node screen": matrix(
                r"^ +GPU0[ ▼✗].*$",
                rf"[› ](?P<key>{LABEL}).",
                r" *(?:\?|(?P<value>\S+))",
                label=LABEL,
            ),
            "pair steps": text(
                r"How are they connected\? (?P<value>[A-Z]+\d*)",
                within=r"^PAIR (?P<key>\S+) → (?P<to>\S+)",
            ),
        },
        ("NV3", "SYS"),
    ),
)
