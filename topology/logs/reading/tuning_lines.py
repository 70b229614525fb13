"""Lines of the tuning table and of the choice per call."""

import re

from ..report.text import plain
from .building import MAX_CHOICES, Process
from .gathering import GatheredLog

ALGORITHMS = {
    "tree": "TREE",
    "ring": "RING",
    "collnetdirect": "COLLNET_DIRECT",
    "collnetchain": "COLLNET_CHAIN",
    "collnet": "COLLNET_DIRECT",
    "nvls": "NVLS",
    "nvlstree": "NVLS_TREE",
    "pat": "PAT",
}
PROTOCOLS = ("LL", "LL128", "SIMPLE")
_BY_NUMBER = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")

_CHOICE = re.compile(
    rb"(\w+): (\d{1,18}) Bytes -> Algo (\w+) proto (\w+)"
    rb"(?: channel\{Lo\.\.Hi\}=\{(\d{1,6})\.\.(\d{1,6})\}| time ([\d.]+))"
)
_SYMMETRIC = re.compile(
    rb"(\w+) \[Symmetric\]: (\d{1,18}) Bytes -> Kernel (\w+) nchannels (\d{1,6})"
)
_COPIED = re.compile(rb"(\w+) \[(Copy Engine|Hierarchical CE)\]: (\d{1,18}) Bytes -> (.{1,80})$")
_OLD_CHOICE = re.compile(rb"(\d{1,18}) Bytes -> Algo (\d) proto (\d) time ([\d.]+)")
_CELL = re.compile(rb"(-?[\d.]{1,16})/ *(-?[\d.]{1,16})")
"""NCCL 2.32 writes -1.0 where an algorithm lacks a collective."""


def on_collective(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read a line that starts with a collective: a choice, a row of the table, or a call."""
    if text.find(b"Bytes -> ") >= 0:
        return _choice(process, text, line)
    if text.find(b"opCount") >= 0:
        return "call"
    name, bar, cells = text.partition(b"|")
    if not bar:
        return None
    return _row(process, name.strip().decode("ascii", "replace"), cells, line)


def _choice(process: Process, text: bytes, line: int) -> str | None:
    match = _CHOICE.match(text)
    if match is not None:
        algorithm, protocol = _name(match[3], _BY_NUMBER), _name(match[4], PROTOCOLS)
        channels = None if match[5] is None else (int(match[5]), int(match[6]))
        key = (match[1].decode(), int(match[2]), algorithm, protocol, channels)
        return _keep(process, key, line)
    match = _COPIED.match(text)
    if match is not None:
        key = (match[1].decode(), int(match[3]), "CE", plain(match[4].strip(), 40), None)
        return _keep(process, key, line)
    match = _SYMMETRIC.match(text)
    if match is None:
        return None
    channels = (0, max(int(match[4]) - 1, 0))
    key = (match[1].decode(), int(match[2]), "SYMMETRIC", match[3].decode(), channels)
    return _keep(process, key, line)


def on_old_choice(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `1024 Bytes -> Algo 1 proto 0 time 12.3` of older versions, which name no collective."""
    match = _OLD_CHOICE.match(text)
    if match is None:
        return None
    algorithm, protocol = _name(match[2], _BY_NUMBER), _name(match[3], PROTOCOLS)
    return _keep(process, ("?", int(match[1]), algorithm, protocol, None), line)


def _name(token: bytes, names: tuple[str, ...]) -> str:
    """Read a name, or the name for a number."""
    if token.isdigit() and int(token[:4]) < len(names):
        return names[int(token[:4])]
    return token.decode().upper()


def _keep(
    process: Process, key: tuple[str, int, str, str, tuple[int, int] | None], line: int
) -> str:
    comm = process.comm
    if len(process.earlier) > 1:
        # Only rank 0 of a communicator prints the choice.
        comm = next((earlier for earlier, rank in process.earlier if rank == 0), comm)
    if comm is not None:
        known = comm.choices.get(key)
        if known is not None:
            known[0] += 1
        elif len(comm.choices) < MAX_CHOICES:
            comm.choices[key] = [1, line]
        else:
            comm.left_out["choices"] += 1
    return "choice"


def on_algorithms(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `Algorithm | Tree | Ring | CollNetDirect |`: three columns each."""
    names = [cell.strip().decode("ascii", "replace") for cell in text.split(b"|")[1:]]
    process.columns = [
        (ALGORITHMS.get(name.lower(), name.upper()), protocol)
        for name in names[:16]
        if name
        for protocol in PROTOCOLS
    ]
    return "tuning" if process.columns else None


def on_old_columns(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `Latency/AlgBw | Tree/ LL | Tree/ LL128 | ..` of older versions."""
    columns = []
    for cell in text.split(b"|")[1:64]:
        algorithm, slash, protocol = cell.decode("ascii", "replace").partition("/")
        if slash:
            name = ALGORITHMS.get(algorithm.strip().lower(), algorithm.strip().upper())
            columns.append((name, protocol.strip().upper()))
    process.columns = columns
    return "tuning" if columns else None


def _row(process: Process, collective: str, cells: bytes, line: int) -> str | None:
    found = _CELL.findall(cells)
    comm = process.comm
    if not found or not process.columns:
        return None
    if comm is None or comm.tuning_by not in (None, process.rank):
        return "tuning"
    comm.tuning_by = process.rank
    if comm.tuning_line is None:
        comm.tuning_line = line
    table = comm.tuning.setdefault(collective, {})
    for (algorithm, protocol), (latency, bandwidth) in zip(process.columns, found, strict=False):
        try:
            figures = max(0.0, float(latency)), max(0.0, float(bandwidth))
            table.setdefault(algorithm, {})[protocol] = figures
        except ValueError:
            return None
    return "tuning"
