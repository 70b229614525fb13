"""The table of facts that two doors state: what each is about, and where each door states it."""

from __future__ import annotations

from gputop.topology.model.severity import JobVerdict

from . import documents as json
from .device_facts import DEVICE_FACTS
from .finding_facts import FINDING_FACTS, figure, spaced
from .library_facts import LIBRARY_FACTS
from .readings import Fact, document, matrix, text

JOB_SIGNS = {mark.value: mark.sign for mark in JobVerdict}
LOG_SIGNS = {"error": "✗", "warning": "▼", "notice": "•"}
"""The words of a finding of a log in its document."""
RANK = r"^ +(?P<key>\d+) +\S+ +\d+ +\S+ +\S+ +[0-9a-f:.]+ +"
COMMUNICATOR = r"^Communicator (?P<key>[0-9a-f]+).*$"

FACTS = (*FINDING_FACTS, *DEVICE_FACTS, *LIBRARY_FACTS)
"""Every fact that two doors state of a node."""


JOB_FACTS = (
    Fact(
        "verdict of a job",
        {
            "jobs": text(r"^(?P<value>[✗▼?✓]) (?P<key>[\w.]+): "),
            "jobs --json": document(json.jobs("verdict")),
            "jobs screen": text(r"^ (?P<value>[✗▼?✓]) (?P<key>[\w.]+): \d+ "),
        },
        ("✗", "✓", "hangs", "runs"),
        lambda value: JOB_SIGNS.get(value, value),
    ),
    Fact(
        "what a job does",
        {
            "jobs": text(r"^[✗▼?✓] (?P<key>[\w.]+): (?P<value>[^✗▼?✓]+?)\n +rank "),
            "jobs --json": document(json.jobs("sentence")),
            "jobs screen": text(r"^ [✗▼?✓] (?P<key>[\w.]+): (?P<value>\d+ .*?)(?: · simulated)?$"),
        },
        ("6 ranks, at rest", "7 ranks, at rest"),
        lambda value: spaced(value.rpartition(": ")[2]),
    ),
    Fact(
        "rank of a process",
        {
            "jobs": text(r"^ +(?P<value>\d+) +(?P<key>\d{3,}) +GPU"),
            "jobs --json": document(json.job_ranks("rank")),
            "jobs screen": text(r"^[› ].. *(?P<value>\d+) +(?P<key>\d{3,}) +GPU"),
        },
        ("70", "80"),
    ),
    Fact(
        "last collective of a rank",
        {
            "jobs": text(r"^ +\d+ +(?P<key>\d{3,}) +GPU.*? (?P<value>[a-z-]+ \d+)(?=  |$)"),
            "jobs --json": document(json.job_ranks("last_collective")),
            "jobs screen": text(r"^[› ].. *\d+ +(?P<key>\d{3,}) +GPU\S* +(?P<value>[a-z-]+ \d+)"),
        },
        ("all-reduce 1", "all-reduce 2"),
    ),
)
"""Every fact that two doors state of a job."""

_WRITTEN = matrix(
    r"^one way, GB/s(?:.*\n)*? +GPU0 .*$",
    r"GPU(?P<key>\d+)",
    r" +(?:(?P<value>[\d.]+)|[·–])",
    label=r"(?<=GPU)\d+",
)
_TOLD = r"\A[^\0]*?^one way, GB/s[^\0]*?"
PROBE_FACTS = (
    Fact(
        "copy of a pair, by a probe",
        {"probe": _WRITTEN, "probe --json": document(json.figures("write_bandwidth", "value"))},
        ("1", "2"),
        lambda value: f"{float(value):.1f}",
    ),
    Fact(
        "verdict of a copy, by a probe",
        {
            "probe": text(_TOLD + r"^[▼✓] (?P<value>\d+) (?P<key>low|healthy)(?=[,;])"),
            "probe: also": text(_TOLD + r"^▼ \d+ low, (?P<value>\d+) (?P<key>healthy)(?=[,;])"),
            "probe --json": document(json.figure_verdicts("write_bandwidth")),
        },
        ("1", "2"),
    ),
    Fact(
        "healthy figure of a copy",
        {
            "probe": text(_TOLD + r"healthy is about (?P<value>[\d.]+) GB/s"),
            "probe --json": document(json.references("write_bandwidth")),
        },
        ("1", "2"),
        figure,
    ),
)
"""Every fact that two doors state of a probe."""

LOG_FACTS = (
    Fact(
        "severity of a finding in a log",
        {
            "log": text(r"^  (?P<value>[✗▼•]) +(?P<key>\S.*)$"),
            "log --json": document(json.findings("severity")),
            "log screen": text(r"^[› ](?P<value>[✗▼•])  (?P<key>\S.*)$"),
        },
        ("✗", "•", "error", "notice"),
        lambda value: LOG_SIGNS.get(value, value),
    ),
    Fact(
        "version of the library in a log",
        {
            "log": text(r"^  [NR]CCL (?P<value>[\d.]+\d)"),
            "log --json": document(json.at("library", "version")),
            "log screen": text(r"^ \S+  [NR]CCL (?P<value>[\d.]+\d) "),
        },
        ("1.2.3", "1.2.4"),
    ),
    Fact(
        "lines of a log",
        {
            "log": text(r" · (?P<value>\d+) lines?, "),
            "log --json": document(json.at("log", "lines")),
            "log screen": text(r" (?P<value>\d+) lines?\b"),
        },
        ("3", "4"),
    ),
    Fact(
        "value of a variable in a log",
        {
            "log": text(r"^  (?P<key>N?R?CCL_\w+)=(?P<value>\S*)  line (?:\d+)"),
            "log --json": document(json.variables),
            "log screen": text(r"^ (?P<key>N?R?CCL_\w+)=(?P<value>\S*)  line (?:\d+)"),
        },
        ("5", "6"),
    ),
    Fact(
        "ranks of a communicator",
        {
            "log": text(r"^  (?P<value>\d+) ranks? on ", within=COMMUNICATOR),
            "log --json": document(json.communicators("nranks")),
        },
        ("70", "80"),
    ),
    Fact(
        "state of a rank in a log",
        {
            "log": text(RANK + r"(?P<value>\S.*)$", within=COMMUNICATOR),
            "log --json": document(json.log_ranks("state")),
        },
        ("lost", "found"),
    ),
)
"""Every fact that two doors state of a log."""
