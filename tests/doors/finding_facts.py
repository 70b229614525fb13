"""What the doors state of the node's verdict and of its findings."""

from __future__ import annotations

from gputop.topology.model.severity import Severity, Verdict

from . import documents as json
from .opening import Door
from .readings import Fact, Reading, Statement, document, flow, text

SIGNS = {mark.sign: str(mark.value) for mark in (*Severity, Verdict.HEALTHY)}
EXITS = {"0": "healthy", "1": "slow", "2": "broken", "3": "cannot-tell"}
TITLE = r"^[✗▼•○?] [a-z ]{11} (?P<key>.+) \[[a-z0-9-]+\]$"
"""A finding of `check --verbose`, above what is said about it."""
PANEL = r"^(?P<key>.+)\n[✗▼•○?] [a-z ]+ · [a-z0-9-]+$"
"""A finding of the screen Findings, above what is said about it."""
PARAGRAPH = r"(?P<value>[^\n]+(?:\n {8}[^\n]+)*)"
WIDE = r"(?P<value>[^\n]+(?:\n {4}[^\n]+)*)"
PROOF = r"• (?P<key>[^:\n]+): (?P<value>[^\n]+(?:\n {6}[^\n]+)*)$"
WIDE_PROOF = PROOF.replace("{6}", "{2}")
HEALTHY = r"{}healthy (?P<value>[\d.]+) → here"
HERE = r"{}(?:healthy (?:[\d.]+|not known) → here )?(?P<value>[\d.]+)(?: to [\d.]+)? GB/s"
ALL_REDUCE = "[Aa]ll-reduce 1 GiB: "
COPY = r"[Cc]opy GPU(?P<key>\d+) to GPU(?P<to>\d+): "
HOST = r"[Hh]ost copy GPU(?P<key>\d+): "


def word(value: str) -> str:
    """A verdict or severity as JSON writes it."""
    return SIGNS.get(value, value.strip().lower().replace(" ", "-"))


def spaced(value: str) -> str:
    """Words, however they were broken into lines."""
    return " ".join(value.split())


def figure(value: str) -> str:
    """Three digits of a figure."""
    return f"{float(value.rstrip('.')):.3g}"


def _proof(value: str) -> str:
    """The value of a proof without what stands behind it in brackets: its source, in a text."""
    words = spaced(value)
    while words.endswith(")"):
        depth, place = 1, len(words) - 1
        while depth and place:
            place -= 1
            depth += {")": 1, "(": -1}.get(words[place], 0)
        words = words[:place].rstrip()
    return words


def _exit(door: Door, _at: Statement, value: str) -> Door:
    return Door("0" if value in ("✓", "healthy") else "2")


EXIT = Reading(
    lambda door: (
        [Statement("", EXITS[door.text], (0, len(door.text)))] if door.text in EXITS else ()
    ),
    _exit,
)

FINDING_FACTS = (
    Fact(
        "verdict",
        {
            "check": text(r"\A(?P<value>\S) "),
            "check --json": document(json.at("verdict")),
            "check exit": EXIT,
            "node screen": text(r"^ (?P<value>[✗▼✓?]) [a-z ]+(?::|  )"),
            "findings screen": text(
                r"^ (?:\S job: [^·]*· )?(?P<value>[✗▼✓?]) [a-z ]+[:;·]?.* checks done"
            ),
            "fleet": text(r"\A(?P<value>[✗▼✓?]) "),
            "fleet --json": document(json.at("verdict")),
            "fleet exit": EXIT,
            "fleet screen": text(r"^ (?P<value>[✗▼✓?]) (?=\d+ of \d+ |\d+ node|all )"),
        },
        ("✓", "✗", "healthy", "broken"),
        word,
    ),
    Fact(
        "severity of a finding",
        {
            "check": text(r"^(?P<value>[✗▼•○?]) [a-z ]{11} (?P<key>.+) \[[a-z0-9-]+\]$"),
            "check -v": text(r"^(?P<value>[✗▼•○?]) [a-z ]{11} (?P<key>.+) \[[a-z0-9-]+\]$"),
            "check --json": document(json.findings("severity")),
            "findings screen": text(
                r"^[› ](?P<value>[✗▼•○?]) [a-z ]{11} (?P<key>\S.*?)(?:\s{3,}.*)?$"
            ),
            "finding panel": text(r"^(?P<key>.+)\n(?P<value>[✗▼•○?]) [a-z ]+ · [a-z0-9-]+$"),
            "why panel": text(r"^[▸•] (?P<value>broken|slow|notice|cannot tell): (?P<key>.+)$"),
            "pair steps": text(r"^(?P<value>[✗▼?]) (?P<key>.+)$"),
            "fleet": text(r"^(?P<value>[✗▼?]) [\w.-]+: (?P<key>.+) \[[a-z0-9-]+\]$"),
            "fleet --json": document(json.findings("severity")),
        },
        ("✗", "?", "broken", "notice"),
        word,
    ),
    Fact(
        "rule of a finding",
        {
            "check": text(r"^[✗▼•○?] [a-z ]{11} (?P<key>.+) \[(?P<value>[a-z0-9-]+)\]$"),
            "check -v": text(r"^[✗▼•○?] [a-z ]{11} (?P<key>.+) \[(?P<value>[a-z0-9-]+)\]$"),
            "check --json": document(json.findings("id")),
            "finding panel": text(r"^(?P<key>.+)\n[✗▼•○?] [a-z ]+ · (?P<value>[a-z0-9-]+)$"),
            "fleet": text(r"^[✗▼?] [\w.-]+: (?P<key>.+) \[(?P<value>[a-z0-9-]+)\]$"),
            "fleet --json": document(json.findings("id")),
        },
        ("no-such-rule", "another-rule"),
    ),
    Fact(
        "impact of a finding",
        {
            "check -v": text(f"^    Impact: {PARAGRAPH}", within=TITLE),
            "check --json": document(json.findings("consequence")),
            "finding panel": text(f"^Impact: {WIDE}", within=PANEL),
        },
        ("None.", "All is lost."),
        spaced,
    ),
    Fact(
        "what would rule a finding out",
        {
            "check -v": text(f"^    Ruled out if: {PARAGRAPH}", within=TITLE),
            "check --json": document(json.findings("disproof")),
            "finding panel": text(f"^Ruled out if: {WIDE}", within=PANEL),
        },
        ("nothing", "anything"),
        spaced,
    ),
    Fact(
        "proof of a finding",
        {
            "check -v": text(f"^    {PROOF}", within=TITLE),
            "check --json": document(json.evidence),
            "finding panel": text(f"^{WIDE_PROOF}", within=PANEL),
        },
        ("1", "2"),
        _proof,
    ),
    Fact(
        "findings of a severity",
        {
            "findings screen": text(r"(?<=[:,] )(?P<value>\d+) (?P<key>broken|slow|notice)\b"),
            "check --json": document(json.severities),
        },
        ("3", "4"),
    ),
    Fact(
        "checks done",
        {
            "check": text(r"(?P<value>\d+) checks done"),
            "check --json": Reading(
                lambda door: [
                    Statement("", str(len(names)), ("counts", "examined"))
                    for names in [door.document["examined"]]
                    if names
                ],
                lambda door, _at, value: Door("", {**door.document, "examined": [""] * int(value)}),
            ),
            "check --json: counts": document(json.at("counts", "examined")),
            "node screen": text(r"(?P<value>\d+) checks done"),
            "findings screen": text(r"(?P<value>\d+) checks done"),
        },
        ("3", "4"),
    ),
    Fact(
        "checks without data",
        {
            "check": text(r"(?P<value>\d+) skipped \(data unavailable\)"),
            "node screen": text(r"checks done, (?P<value>\d+) skipped"),
            "findings screen": text(r"checks done, (?P<value>\d+) skipped"),
            "findings screen: list": text(
                r"^[› ]–\s+(?P<value>\d+) checks? skipped \(data unavailable\)"
            ),
        },
        ("3", "4"),
    ),
    *(
        Fact(
            f"{what}, {side}",
            {
                door: flow(pattern.format(start))
                for door in ("check -v", "finding panel", "why panel", *doors)
            },
            ("1", "2"),
            figure,
        )
        for what, start, doors in (
            ("all-reduce of 1 GiB", ALL_REDUCE, ("explain", "node screen")),
            ("copy of a pair", COPY, ()),
            ("copy between host and GPU", HOST, ()),
        )
        for side, pattern in (("healthy", HEALTHY), ("here", HERE))
    ),
)
