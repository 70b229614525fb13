"""What the statistics of network drivers mean that no file in /sys has, one row each.

Sources, Linux kernel drivers/net/ethernet: mellanox/mlx5/core/en_stats.c (and Documentation/
networking/device_drivers/ethernet/mellanox/mlx5/counters.rst), broadcom/bnxt/bnxt_ethtool.c,
pensando/ionic/ionic_stats.c, intel/ice/ice_ethtool.c, amazon/ena/ena_ethtool.c. The counters of
EFA itself are in hw_counters.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache

from ..model.severity import SLOW
from .counters import CountedTrouble, CounterMeaning

PRIORITIES = range(8)
_T = CountedTrouble
_IN = CounterMeaning("PFC pauses received", _T.CONGESTION, news=False)
_OUT = CounterMeaning("PFC pauses sent", _T.CONGESTION, news=False)
_DROPS = CounterMeaning("received packets dropped for want of room", _T.CONGESTION, news=False)
_STORM = CounterMeaning("times that it was paused too long", _T.CONGESTION, SLOW)
_SYMBOL = CounterMeaning("symbol errors", _T.SYMBOL)
_UPLINK = CounterMeaning("errors of the adapter's PCIe link", _T.CORRECTED)
_LIMIT = CounterMeaning("packets over the limit of the instance", _T.CONGESTION, news=False)


@lru_cache(maxsize=16)
def wanted(driver: str) -> dict[str, CounterMeaning]:
    """The statistics of a driver that mean something, by name; none of a driver not named here."""
    return dict(_ROWS[driver]()) if driver in _ROWS else {}


@cache
def every() -> dict[str, CounterMeaning]:
    """Those of all drivers: no name means two things."""
    return {name: row for driver in _ROWS for name, row in wanted(driver).items()}


_Rows = Iterator[tuple[str, CounterMeaning]]


def _mlx5() -> _Rows:
    for one in PRIORITIES:
        yield f"rx_prio{one}_pause", _IN
        yield f"tx_prio{one}_pause", _OUT
        yield f"rx_prio{one}_discards", _DROPS
    yield from (("rx_discards_phy", _DROPS), ("rx_out_of_buffer", _DROPS))
    yield "tx_pause_storm_warning_events", _STORM
    yield "tx_pause_storm_error_events", _STORM
    yield "rx_pcs_symbol_err_phy", _SYMBOL
    yield "rx_ecn_mark", CounterMeaning("packets marked by ECN", _T.CONGESTION, news=False)
    yield from (("rx_pci_signal_integrity", _UPLINK), ("tx_pci_signal_integrity", _UPLINK))


def _bnxt() -> _Rows:
    for one in PRIORITIES:
        yield f"pfc_pri{one}_rx_transitions", _IN
        yield f"pfc_pri{one}_tx_transitions", _OUT
        yield f"rx_discard_packets_cos{one}", _DROPS
    yield from (("continuous_pause_events", _STORM), ("continuous_roce_pause_events", _STORM))
    yield "rx_pcs_symbol_err", _SYMBOL


def _ionic() -> _Rows:
    yield from (("frames_rx_pripause", _IN), ("frames_tx_pripause", _OUT))
    yield "frames_rx_dropped", _DROPS
    yield "frames_rx_bad_fcs", CounterMeaning("frames received with a wrong CRC", _T.CRC)


def _ice() -> _Rows:
    for one in PRIORITIES:
        yield f"rx_priority_{one}_xoff.nic", _IN
        yield f"tx_priority_{one}_xoff.nic", _OUT
    yield "rx_dropped.nic", _DROPS
    yield from (("illegal_bytes.nic", _SYMBOL), ("mac_local_faults.nic", _SYMBOL))


def _ena() -> _Rows:
    for one in ("bw_in", "bw_out", "pps"):
        yield f"{one}_allowance_exceeded", _LIMIT


_ROWS = {"mlx5_core": _mlx5, "bnxt_en": _bnxt, "ionic": _ionic, "ice": _ice, "ena": _ena}
