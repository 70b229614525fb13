"""A debug log read from a file or a stream, and written as a document."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from gputop import __version__
from gputop.topology.diagnosis.symptoms.explain import known_signs
from gputop.topology.diagnosis.symptoms.log import ReadLog
from gputop.topology.diagnosis.symptoms.next_step import spoken_of
from gputop.topology.jobs.flight.dump import is_pickle
from gputop.topology.logs.reading.lines import LogUnreadable, Readable
from gputop.topology.logs.reading.read import read_log
from gputop.topology.logs.report.own_diagnostics import OwnDiagnostics
from gputop.topology.logs.report.report import LogReport
from gputop.topology.model.finding import Finding
from gputop.topology.model.severity import BROKEN, SLOW
from gputop.topology.recorded.kept import not_looked_through
from gputop.topology.recorded.plain_file import open_plain

SCHEMA = "gputop.log/1"
WORDS = {BROKEN: "error", SLOW: "warning"}
"""Severities whose word in the document is another one."""
NO_LINES = "no line of NCCL or RCCL in it"
FETCH = (
    "a job writes them with NCCL_DEBUG=INFO; outputs of nvidia-smi, lspci -vvv, ibstat, nccl-tests "
    "and the like are read too"
)
NO_LOG = "a pickle, not a log; `gputop log FILE` explains a dump of PyTorch's flight recorder"
MOST_QUOTED = 3


class ReadError(ValueError):
    """A log that cannot be used; one line. `unreadable`: the path could not be opened."""

    def __init__(self, text: str, *, unreadable: bool = False) -> None:
        super().__init__(text)
        self.unreadable = unreadable


def read_path(path: Path, heard: Callable[[int], None] | None = None) -> LogReport:
    """Read a file; raises ReadError."""
    try:
        with open_plain(path) as file:
            # Files of the kernel have no size; some yield their lines only once, and some block.
            if not os.fstat(file.fileno()).st_size:
                raise ReadError(f"{path}: its size is 0 bytes, so there is nothing to read")
            return read_stream(file, path.name, heard)
    except (OSError, ValueError) as error:
        if isinstance(error, ReadError):
            raise
        why = "no such file" if isinstance(error, FileNotFoundError) else None
        raise ReadError(
            f"{path}: {why or getattr(error, 'strerror', None) or error}", unreadable=True
        ) from error


def read_stream(
    stream: Readable, name: str, heard: Callable[[int], None] | None = None
) -> LogReport:
    """Read an open file or stdin; raises ReadError when nothing in it is the library's."""
    head = stream.peek(2)[:2] if isinstance(stream, io.BufferedReader) else b""
    if is_pickle(head):
        raise ReadError(f"{name}: {NO_LOG}")
    try:
        log = read_log(stream, name=name, heard=heard, signs=known_signs(), outputs=True)
    except (LogUnreadable, gzip.BadGzipFile) as error:
        raise ReadError(f"{name}: {error}") from error
    if log.empty and not log.suspects:
        raise ReadError(f"{name}: {_nothing(log)}")
    return log


def _nothing(log: LogReport) -> str:
    """Say that nothing was understood: where the reading ended, some lines, what to fetch."""
    unread = [what for what in log.more if what.startswith("rest of the log")]
    if unread:
        return f"no line of NCCL or RCCL in its first {log.bytes >> 20} MiB; not read: {unread[0]}"
    if log.pasted is not None and log.pasted.broken:
        where, why = log.pasted.broken[0]
        return f"{where}: {why}"
    lines = (log.suspects or log.openings)[:MOST_QUOTED]
    quoted = "; ".join(f"line {note.line}: {note.text[:80]}" for note in lines)
    far = "" if log.outputs_until is None else f"; {not_looked_through(log.outputs_until)}"
    about = spoken_of(log.openings)
    more = "; ".join(f"about {subject.name}: {subject.fetch}" for subject in about)
    return f"{NO_LINES}{f' ({quoted})' if quoted else ''}{far}; {more or FETCH}"


def told(found: OwnDiagnostics) -> dict[str, Any]:
    """A report of NCCL's own diagnostics as JSON, with what it comes to."""
    return {**msgspec.to_builtins(found), "passed": found.passed, "sentence": found.sentence}


def document(read: ReadLog) -> dict[str, Any]:
    """The answer as one JSON object."""
    log = read.log
    agreement, until = read.overlay.agreement, log.outputs_until
    return {
        "schema": SCHEMA,
        "gputop": __version__,
        "source": [log.name],
        "assumptions": list(read.overlay.assumptions),
        "log": {
            "lines": log.lines,
            "bytes": log.bytes,
            "library_lines": log.library_lines,
            "kinds": log.kinds,
            "cut": log.cut,
            "more": log.more,
            "outputs_until": log.outputs_until,
            "outputs_note": until and not_looked_through(until),
            "unread": [msgspec.to_builtins(note) for note in log.unread],
            "unknown": [msgspec.to_builtins(note) for note in log.unknown],
        },
        "library": msgspec.to_builtins(log.versions),
        "hosts": list(log.hosts),
        "bootstrap": list(log.bootstrap),
        "environment": [msgspec.to_builtins(variable) for variable in log.environment],
        "communicators": [msgspec.to_builtins(communicator) for communicator in log.communicators],
        "diagnostics": [told(each) for each in log.diagnostics],
        "notes": [msgspec.to_builtins(note) for note in log.notes],
        "outputs": [
            {"tool": section.tool, "line": section.first, "lines": len(section.lines)}
            for section in (log.pasted.sections if log.pasted is not None else ())
        ],
        "measured": [msgspec.to_builtins(figure) for figure in read.measured],
        "findings": [_finding(finding) for finding in read.findings],
        "next": read.next or None,
        "unexplained": [msgspec.to_builtins(note) for note in read.unexplained],
        "node": read.overlay.node or None,
        "agreement": {
            "sentence": agreement.sentence,
            "agree": agreement.agree,
            "differ": len(agreement.differing),
            **msgspec.to_builtins(agreement),
        },
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "severity": WORDS.get(finding.severity, finding.severity),
        "title": finding.title,
        "cause": finding.cause,
        "sureness": finding.sureness,
        "proof": [
            {"line": proof.line, "text": proof.value}
            for proof in finding.evidence
            if proof.line is not None
        ],
        "count": finding.count,
        "look": finding.look,
        "fix": [msgspec.to_builtins(fix) for fix in finding.fix],
        "sources": finding.sources,
    }
