"""The report of a check for people who were not there: a page in HTML, a ticket in Markdown.

Both hold the verdict, each finding with its proof and what helps, the map, and a digest of the
snapshot: whoever is sent the snapshot too can see that it is the one that was judged.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import msgspec

from gputop import __version__
from gputop.answers.check import CheckAnswer, CheckRequest, SilencedFinding, page
from gputop.exits import USAGE, Exit
from gputop.printing.html import html_page
from gputop.printing.ticket import report
from gputop.terminal.clean import clean
from gputop.terminal.writing import NO_FILE, STDOUT, code_of, write_whole
from gputop.topology.exports.written import exported
from gputop.topology.hardware.specs import sku_for
from gputop.topology.model.characters import json_text
from gputop.topology.model.finding import Finding
from gputop.topology.model.machine import Gpu
from gputop.topology.model.page import Block, Bullets, Fact, Facts, Findings, Heading, Text
from gputop.topology.model.redact import Redactor
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.units import moment
from gputop.topology.node import Node

LONGEST_HTML, LONGEST_MARKDOWN = 300_000, 60_000
"""Bytes: of a page that still opens at once, and of a ticket that trackers still take."""


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a report tells, with or without names."""

    answer: CheckAnswer
    snapshot: NodeSnapshot
    digest: str
    host: str
    remarks: tuple[str, ...]

    def blocks(self, most: int) -> Iterator[Block]:
        """What was judged, and `most` of the findings."""
        found = self.answer
        yield from (block for block in page(found).blocks if not isinstance(block, Findings))
        yield Facts(tuple(self._facts()))
        yield Heading("Findings")
        silenced = tuple((finding, finding.reason) for finding in found.silenced[:most])
        if found.findings or silenced:
            yield Findings(found.findings[:most], whole=True, silenced=silenced)
        else:
            yield Text("Nothing that needs anybody was found.")
        left = len(found.findings[most:]) + len(found.silenced[most:])
        if left:
            yield Text(f"{left} more of them would make this too long: `gputop check --json`")
        if self.remarks:
            yield Heading("What was not read, and what was assumed")
            yield Bullets(self.remarks)

    def _facts(self) -> Iterator[Fact]:
        models = Counter(map(_model, self.snapshot.machine.gpus))
        gpus = ", ".join(f"{count} {name}" for name, count in models.items())
        at = moment(self.answer.taken_at, "%Y-%m-%d %H:%M:%S %z")
        yield Fact(what="node", value=self.host, source=", ".join(self.snapshot.source))
        yield Fact(what="GPUs", value=gpus or "none", source="")
        yield Fact(what="read at", value=at, source="")
        yield Fact(what="snapshot, SHA-256", value=self.digest, source=f"gputop {__version__}")


def _model(gpu: Gpu) -> str:
    """A GPU in a count: "× NVIDIA H200", or "GCDs of ..." where a package shows as several."""
    sku = sku_for(gpu)
    dies = sku is not None and sku.devices > 1
    return f"{'GCDs of' if dies else '×'} {gpu.name or 'unknown model'}"


def told(found: CheckAnswer, redactor: Redactor | None = None) -> CheckReport:
    """What to tell of an answer; a redactor, which knows its names, replaces them."""
    digest = sha256(f"{json_text(found.snapshot)}\n".encode()).hexdigest()
    host, snapshot = found.node or "unknown", found.snapshot
    remarks = tuple(line.removeprefix("note: ") for line in found.remarks)
    if redactor is not None:
        host = redactor.stand_in("host", found.node) if found.node else host
        snapshot = redactor.copy(snapshot, NodeSnapshot)
        remarks = tuple(map(redactor.text, remarks))
        found = msgspec.structs.replace(
            found,
            findings=redactor.copy(found.findings, tuple[Finding, ...]),
            silenced=redactor.copy(found.silenced, tuple[SilencedFinding, ...]),
        )
    return CheckReport(answer=found, snapshot=snapshot, digest=digest, host=host, remarks=remarks)


def html(told: CheckReport, most: int, *, picture: bool) -> str:
    """The page."""
    node, verdict = Node(told.snapshot), told.answer.verdict
    return html_page(
        f"{verdict.sign} {verdict}: {told.host}",
        told.blocks(most),
        exported("svg", node).text if picture else "",
    )


def markdown(told: CheckReport, most: int, *, picture: bool) -> str:
    """The ticket. Trackers show no picture that stands in the text itself, so the map is a tree."""
    tree = exported("tree", Node(told.snapshot)).text if picture else ""
    demo = told.snapshot.is_demo
    return report(told.answer.verdict, tuple(told.blocks(most)), tree, invented=demo)


def fitting(write: Callable[..., str], told: CheckReport, longest: int) -> bytes:
    """The report, without the map and with fewer findings where it would be too long."""
    most, picture = len(told.answer.findings) + len(told.answer.silenced), True
    while len(data := write(told, most, picture=picture).encode()) > longest and most:
        most, picture = (most // 2, False) if not picture else (most, False)
    return data


def refuse_places(asked: CheckRequest) -> None:
    """Say before anything is measured where no report can be written. Raises Exit."""
    if asked.html is not None and asked.html == asked.markdown:
        raise Exit("--html and --markdown name the same file", USAGE)
    for flag, path in (
        ("--html", asked.html),
        ("--markdown", asked.markdown),
        ("--junit", asked.junit),
    ):
        if path == STDOUT:
            raise Exit(f"{flag} {STDOUT}: {NO_FILE}", USAGE)
        if path is not None and not os.path.isdir(os.path.dirname(path) or "."):
            why = os.strerror(errno.ENOENT)
            raise Exit(f"{flag} {clean(path, 200)}: {why}", USAGE)


def write_reports(found: CheckAnswer, asked: CheckRequest, redactor: Redactor | None) -> None:
    """Write the files of --html and --markdown; raises Exit when that fails."""
    of = told(found, redactor)
    for flag, path, write, longest in (
        ("--html", asked.html, html, LONGEST_HTML),
        ("--markdown", asked.markdown, markdown, LONGEST_MARKDOWN),
    ):
        if path is None:
            continue
        try:
            write_whole(Path(path), fitting(write, of, longest), shared=True)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise Exit(f"{flag} {clean(path, 200)}: {why}", code_of(error)) from error
