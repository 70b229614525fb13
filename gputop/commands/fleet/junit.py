"""A fleet as a JUnit file: one test case for each node, and for each fault that nodes share."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as Xml

from gputop.exits import Exit
from gputop.terminal.clean import clean, clean_block
from gputop.terminal.writing import code_of, write_whole
from gputop.topology.fleet.finding import SHARED, FleetFinding
from gputop.topology.fleet.fleet import Fleet
from gputop.topology.model.severity import CANNOT_TELL, NodeState

FAILED = (NodeState.BROKEN, NodeState.MISSING, NodeState.SLOW, NodeState.ODD)
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def suite(fleet: Fleet) -> Xml.Element:
    """The document."""
    counts = fleet.counts
    # What no node is to blame for: a switch, an empty folder.
    whole = [
        item
        for item in fleet.findings
        if item.severity.counts and (item.scope is SHARED or not item.hosts)
    ]
    unsure = sum(item.severity == CANNOT_TELL for item in whole)
    failures = sum(counts[state] for state in FAILED)
    totals: dict[str, str] = {
        "tests": str(len(fleet.hosts) + len(whole)),
        "failures": str(failures + len(whole) - unsure),
        "errors": str(counts[NodeState.CANNOT_TELL] + unsure),
        "time": "0",
    }
    root = Xml.Element("testsuites", {"name": "gputop fleet", **totals})
    cases = Xml.SubElement(root, "testsuite", {"name": "gputop fleet", "skipped": "0", **totals})
    for host in fleet.hosts:
        case = Xml.SubElement(cases, "testcase", classname="gputop.fleet", name=host, time="0")
        state = fleet.states[host]
        found = [
            item
            for item in fleet.by_host.get(host, ())
            if item.severity.counts and item.scope is not SHARED
        ]
        text = _text("\n".join(map(_line, found)))
        message = _text(found[0].title if found else state)
        if state in FAILED:
            Xml.SubElement(case, "failure", type=state, message=message).text = text
        elif state is NodeState.CANNOT_TELL:
            Xml.SubElement(case, "error", type=state, message=message).text = text
    for item in whole:
        case = Xml.SubElement(cases, "testcase", classname="gputop.fleet", name=item.id, time="0")
        kind = "error" if item.severity == CANNOT_TELL else "failure"
        Xml.SubElement(case, kind, type=item.severity, message=_text(item.title)).text = _text(
            f"{_line(item)}\n{item.folded}"
        )
    Xml.SubElement(cases, "system-out").text = _text(f"verdict: {fleet.verdict}")
    return root


def write(fleet: Fleet, path: str) -> None:
    """Write the file; raises Exit when that fails."""
    root = suite(fleet)
    Xml.indent(root)
    data: bytes = Xml.tostring(root, encoding="utf-8", xml_declaration=True)
    try:
        write_whole(Path(path), data + b"\n", shared=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Exit(f"--junit {clean(path, 200)}: {why}", code_of(error)) from error


def _line(item: FleetFinding) -> str:
    return f"{item.severity}: {item.title} [{item.id}]"


def _text(value: str) -> str:
    return _NOT_XML.sub("\ufffd", clean_block(value, 20_000))
