"""The transports of a log as a matrix, each with a mark of agreement."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gputop.pages.log.lines import MOST_ROWS, mark
from gputop.terminal.clean import clean
from gputop.widgets.spans import Line, Span, left, right, wrapped

if TYPE_CHECKING:
    from gputop.topology.diagnosis.symptoms.log import ReadLog
    from gputop.topology.logs.comparing.agreement import PairAgreement
    from gputop.topology.logs.report.communicator import Communicator

MOST_RANKS = 16
INKS = {"P2P": "link-nvlink", "SHM": "link-socket", "NET": "link-pcie", "COLLNET": "link-pcie"}
CELL = 6


def transport_lines(read: ReadLog, comm: Communicator, width: int) -> tuple[Line, ...]:
    """Rows send, columns receive; below, each label with the number of pairs."""
    pairs = {(pair.src, pair.dst): pair for pair in read.overlay.agreement.pairs}
    ranks = sorted({end for shown in comm.transports for end in (shown.src, shown.dst)})
    if not ranks:
        return ((("none in the log: they are set up at the first collective", "muted"),),)
    lines: list[Line] = []
    if len(ranks) <= MOST_RANKS and 6 + CELL * len(ranks) <= width:
        lines += _matrix(comm, ranks, pairs)
    counts: Counter[tuple[str, ...]] = Counter()
    seen = sorted({(transport.src, transport.dst) for transport in comm.transports})
    for pair in seen:
        counts[comm.labels(*pair)] += 1
    for labels, count in counts.most_common(MOST_ROWS):
        kind = labels[0].split("/")[0]
        spans: list[Span] = [
            (right(str(count), 4), "strong"),
            (f" {'pair' if count == 1 else 'pairs'}  ", "muted"),
            (clean(" and ".join(labels), 160), INKS.get(kind, "")),
        ]
        lines += wrapped(spans, width, 12)
    silent = sum(pair.agrees is None for pair in pairs.values())
    if silent:
        which = "1 pair is" if silent == 1 else f"{silent} pairs are"
        text = f"{which} not in the log: nothing was sent, or other ranks' lines are elsewhere"
        lines += wrapped(((f"   · {text}", "muted"),), width, 5)
    for different in [pair for pair in pairs.values() if pair.agrees is False][:MOST_ROWS]:
        lines += difference_lines(different, width)
    return tuple(lines)


def _matrix(
    comm: Communicator, ranks: list[int], pairs: dict[tuple[int, int], PairAgreement]
) -> list[Line]:
    lines: list[Line] = [
        (("      ", ""), *((left(f"{rank:>3}", CELL), "muted") for rank in ranks)),
    ]
    for src in ranks:
        row: list[Span] = [(right(str(src), 4) + "  ", "muted")]
        for dst in ranks:
            labels = comm.labels(src, dst)
            if src == dst:
                row.append((left("  X", CELL), "muted"))
            elif not labels:
                row.append((left("  ·", CELL), "muted"))
            else:
                kind = labels[0].split("/")[0][:3]
                known = pairs.get((src, dst))
                sign, ink = mark(known.agrees) if known is not None else (" ", "")
                row += [(kind, INKS.get(kind, "")), (left(sign, CELL - 3), ink)]
        lines.append(tuple(row))
    return lines


def difference_lines(pair: PairAgreement, width: int) -> tuple[Line, ...]:
    """One pair that is not as predicted."""
    spans: list[Span] = [
        mark(pair.agrees),
        (f" {pair.src} to {pair.dst}: ", "muted"),
        (clean(" and ".join(pair.logged), 120), "strong"),
        (f"  predicted {clean(' and '.join(pair.predicted), 120)}", "bad"),
    ]
    if pair.line:
        spans.append((f"  line {pair.line}", "muted"))
    return wrapped(spans, width, 4)
