"""What `ncclras` printed, as text or JSON: about the ranks of a job, nothing about the node.

NCCL's src/ras/client_support.cc writes both, and RCCL the same; jobs/saved.py reads them.
"""

from __future__ import annotations

import re

from ...model.format import FormatError, text_format
from ...model.part import PartialNode

TOOL = "ncclras"
SIGN = re.compile(
    r"(?m)^[ \t]*(?:(?:NCCL|RCCL) version \S{1,40} compiled with |Job summary[ \t]*\r?$"
    r"|Communicators\.\.\. \(\d|Group +Comms +Nodes +Ranks|No communicator data collected!"
    r"|\d{1,6} job process(?:es are| is) considered dead|#\d{1,6}-\d{1,6} \([0-9a-f]{16}\) [A-Z]"
    r'|\{\s{0,64}"nccl_version"(?=[^\0]{0,2000}"communicators))'
)
"""The first line of an answer, or of the part of one that somebody quotes."""
_GOES_ON = (
    r"CUDA runtime version|HIP runtime version|Job summary|=+[ \t]*$|Nodes +Processes|\(total\)",
    r"per node|Processes +GPUs|per process|\d[\d \t]*$|The outlier nodes?:|Node \S{1,80} running",
    r"Communicators\.\.\.|Group +Comms|# +in group|\d[\d \t-]{8,80} [A-Z]{3,8} +[A-Z,]{2,26}$",
    r"No communicator data|(?:Errors|Warnings|INCOMPLETE|DEAD|TIMEOUT)[ \t]*$|Connection timed out",
    r"Missing communicator data|\d{1,8} job process|Process \d{1,10} on node|\[could not find inf",
    r"#\d{1,6}-\d{1,6} \(|The (?:missing|unknown) ranks?:|Rank \d{1,8} |\d{1,8} ranks ",
    r"Initialization errors? on|Asynchronous errors? on|Communicator ranks have|Encountered \d",
    r"[\]\[{}]{1,8},?[ \t]*$|\"[A-Za-z_]{1,40}\":",
)
"""Lines below it: of a text, then of JSON."""


def _parse(lines: list[str]) -> PartialNode:
    raise FormatError(ELSEWHERE)


ELSEWHERE = (
    "an answer of NCCL's RAS service, which says nothing of the node; `gputop log FILE` or "
    "`gputop jobs --from FILE` explains it"
)
FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    starts=SIGN,
    needs=(
        "compiled with",
        "Job summary",
        "Communicators...",
        "in group",
        "communicator data",
        "considered dead",
        "Communicator ranks have",
        "nccl_version",
        "nvml_dev",
    ),
    goes_on=re.compile(rf"[ \t]*(?:{'|'.join(_GOES_ON)})"),
    repeats=True,
    elsewhere=ELSEWHERE,
)
