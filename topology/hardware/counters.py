"""What the kernel's error counters of links and ports mean, one row each.

Sources: the kernel's Documentation/ABI/stable/sysfs-class-infiniband and testing/
sysfs-bus-pci-devices-aer; NVIDIA's "Understanding mlx5 Linux Counters and Status Parameters" for
hw_counters of mlx5; drivers/infiniband/hw/efa/efa_verbs.c and hw/bnxt_re/hw_counters.c; names of
ionic as ROCm/rocm-systems reads them (nic_data of rocprofiler-systems).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import msgspec

from ..model.readings import CounterKind
from ..model.severity import BROKEN, NOTICE, SLOW, Severity, Word


class CountedTrouble(Word):
    """What a counter of a link counts."""

    DOWN = "went down"
    RECOVERY = "recoveries"
    REPLAY = "replays"
    CRC = "CRC errors"
    CORRECTED = "corrected PCIe errors"
    UNCORRECTED = "uncorrected errors"
    SYMBOL = "symbol errors"
    RETRANSMISSION = "retransmissions"
    SEQUENCE = "packets out of sequence"
    CONGESTION = "marks of congestion"
    MEMORY = "memory errors"
    TRAFFIC = "bytes"


class CounterMeaning(msgspec.Struct, frozen=True):
    """One counter."""

    what: str
    """Its plural for people: "symbol errors"."""
    trouble: CountedTrouble
    harm: Severity = NOTICE
    """Of one more of it."""
    news: bool = True
    """Whether growth is an event. Marks of congestion and bytes grow all day on a healthy port."""
    scale: int = 1
    """Bytes in one count, for TRAFFIC: IB counts words of 4."""


SENT, RECEIVED = "bytes sent", "bytes received"
_M, _T = CounterMeaning, CountedTrouble
_RDMA = {
    "symbol_error": _M("symbol errors", _T.SYMBOL),
    "link_error_recovery": _M("link recoveries", _T.RECOVERY, SLOW),
    "link_downed": _M("times that the link went down", _T.DOWN, SLOW),
    "port_rcv_errors": _M("packets received with errors", _T.CRC),
    "local_link_integrity_errors": _M("link integrity errors", _T.CRC),
    "excessive_buffer_overrun_errors": _M("buffer overruns", _T.CONGESTION, news=False),
    "port_xmit_discards": _M("packets discarded before they were sent", _T.CONGESTION, news=False),
    "port_xmit_wait": _M("waits for credits", _T.CONGESTION, news=False),
    "port_xmit_data": _M(SENT, _T.TRAFFIC, news=False, scale=4),
    "port_rcv_data": _M(RECEIVED, _T.TRAFFIC, news=False, scale=4),
    "out_of_sequence": _M("packets out of sequence", _T.SEQUENCE, news=False),
    "packet_seq_err": _M("sequence errors that the other end reported", _T.SEQUENCE, news=False),
    "local_ack_timeout_err": _M("acknowledgements that did not come", _T.RETRANSMISSION),
    "rnr_nak_retry_err": _M("sends given up as no receiver was ready", _T.RETRANSMISSION),
    "implied_nak_seq_err": _M("implied sequence errors", _T.SEQUENCE, news=False),
    "roce_adp_retrans": _M("adaptive retransmissions", _T.RETRANSMISSION),
    "roce_adp_retrans_to": _M("adaptive retransmission timeouts", _T.RETRANSMISSION),
    "rx_icrc_encapsulated": _M("packets with a wrong ICRC", _T.CRC),
    "np_cnp_sent": _M("CNPs sent", _T.CONGESTION, news=False),
    "rp_cnp_handled": _M("CNPs handled", _T.CONGESTION, news=False),
    "np_ecn_marked_roce_packets": _M("packets marked by ECN", _T.CONGESTION, news=False),
    # EFA
    "retrans_pkts": _M("packets sent again", _T.RETRANSMISSION, news=False),
    "retrans_timeout_events": _M("retransmission timeouts", _T.RETRANSMISSION),
    "unresponsive_remote_events": _M("remote ends that did not answer", _T.RETRANSMISSION),
    "impaired_remote_conn_events": _M("impaired connections", _T.RETRANSMISSION),
    "rx_drops": _M("received packets dropped", _T.CONGESTION, news=False),
    "tx_bytes": _M(SENT, _T.TRAFFIC, news=False),
    "rx_bytes": _M(RECEIVED, _T.TRAFFIC, news=False),
    # bnxt_re
    "to_retransmits": _M("timeouts with retransmission", _T.RETRANSMISSION),
    "seq_err_naks_rcvd": _M("sequence errors that the other end reported", _T.SEQUENCE, news=False),
    "max_retry_exceeded": _M("sends given up after all retries", _T.RETRANSMISSION, SLOW),
    "oos_drop_count": _M("packets dropped out of sequence", _T.SEQUENCE, news=False),
    "rx_cnp_pkts": _M("CNPs received", _T.CONGESTION, news=False),
    "rx_ecn_marked_pkts": _M("packets marked by ECN", _T.CONGESTION, news=False),
    # ionic
    "tx_rdma_ucast_bytes": _M(SENT, _T.TRAFFIC, news=False),
    "rx_rdma_ucast_bytes": _M(RECEIVED, _T.TRAFFIC, news=False),
    "tx_rdma_ack_timeout": _M("acknowledgements that did not come", _T.RETRANSMISSION),
    "req_tx_retry_excd_err": _M("sends given up after all retries", _T.RETRANSMISSION, SLOW),
    "req_rx_pkt_seq_err": _M(
        "sequence errors that the other end reported", _T.SEQUENCE, news=False
    ),
    "rx_rdma_cnp_pkts": _M("CNPs received", _T.CONGESTION, news=False),
    "rx_rdma_ecn_pkts": _M("packets marked by ECN", _T.CONGESTION, news=False),
}  # fmt: skip
_NET = {
    "carrier_down_count": _M("times that the link went down", _T.DOWN, SLOW),
    "rx_crc_errors": _M("frames received with a wrong CRC", _T.CRC),
    "rx_bytes": _M(RECEIVED, _T.TRAFFIC, news=False),
    "tx_bytes": _M(SENT, _T.TRAFFIC, news=False),
}
_AER = {
    "correctable": _M("corrected PCIe errors", _T.CORRECTED),
    "nonfatal": _M("uncorrected, non-fatal PCIe errors", _T.UNCORRECTED, SLOW),
    "fatal": _M("fatal PCIe errors", _T.UNCORRECTED, BROKEN),
}
_RAS = {
    "ue": _M("uncorrected errors", _T.MEMORY, BROKEN),
    "ce": _M("corrected errors", _T.MEMORY),
    "de": _M("deferred errors", _T.MEMORY, SLOW),
}


@cache
def known(kind: CounterKind) -> frozenset[str]:
    """The names of the counters of a port that mean something."""
    return frozenset(_RDMA if kind is CounterKind.RDMA else _NET)


def meaning(kind: CounterKind, name: str) -> CounterMeaning | None:
    """What a counter means; None for one that nobody described here."""
    first, _, last = name.partition(" ")
    if kind is CounterKind.AER:
        return _worded(_AER.get(first), last)
    if kind is CounterKind.RAS:
        return _worded(_RAS.get(last), f"in {first.upper()}")
    if kind is CounterKind.RDMA:
        return _RDMA.get(name)
    return _NET.get(name) or _of_drivers().get(name)


def of_driver(name: str) -> bool:
    """Whether a driver's statistics have it: where it is missing nobody asked, and it may be any.

    Of all other counters those that are not there are 0.
    """
    return name not in _NET and name not in _RDMA and name in _of_drivers()


@cache
def _of_drivers() -> dict[str, CounterMeaning]:
    from .driver_counters import every  # it describes its rows in the words of this file

    return every()


def traffic_files(kind: CounterKind, paths: Iterable[str]) -> tuple[str, str] | None:
    """The files of a port that count the bytes sent and received; None where either lacks.

    Of several the first counts: what a port sends stands in `counters` and in `hw_counters`.
    """
    found: dict[str, str] = {}
    for path in paths:
        meant = meaning(kind, path.rpartition("/")[2])
        if meant is not None and meant.trouble is CountedTrouble.TRAFFIC:
            found.setdefault(meant.what, path)
    return (found[SENT], found[RECEIVED]) if len(found) > 1 else None


def _worded(row: CounterMeaning | None, word: str) -> CounterMeaning | None:
    """The same, with what the counter itself is called: "corrected PCIe errors (BadTLP)"."""
    if row is None or word == "errors":
        return row
    added = f" {word}" if row.trouble is CountedTrouble.MEMORY else f" ({word})"
    return msgspec.structs.replace(row, what=f"{row.what}{added}")
