"""What a NIC carries now, and what its ports have counted since their drivers were loaded."""

from __future__ import annotations

from collections.abc import Sequence

from ..hardware.counters import CountedTrouble, meaning
from ..model.english import first
from ..model.machine import Machine
from ..model.readings import CounterKind, Readings
from ..model.units import figure

KINDS = (CounterKind.RDMA, CounterKind.NET)
MOST_COUNTERS = 3
IDLE_BYTES, BUSY_BYTES = 5e6, 1e9
"""Bytes a second: below the first a port rests; from the second on rails are compared."""
FEWEST_RAILS = 3
GIGA = 1e9


def ways(pace: tuple[float | None, float | None]) -> str:
    """Out of the NIC and into it, GB/s: "↑12.3 ↓11.8"; "" where nobody knows."""
    out, into = pace
    if out is None or into is None:
        return ""
    return f"↑{_rate(out)} ↓{_rate(into)}"


def _rate(bytes_per_second: float) -> str:
    return "0" if bytes_per_second < IDLE_BYTES else figure(bytes_per_second / GIGA)


def counted(readings: Readings, name: str) -> tuple[str, ...]:
    """The errors and marks of congestion of a NIC, by its name or address: "17 symbol errors"."""
    found: dict[str, int] = {}
    for one in readings.counters or ():
        if one.kind in KINDS and name in (one.device, one.address):
            for counter, count in one.counts:
                meant = meaning(one.kind, counter)
                if meant is not None and meant.trouble is not CountedTrouble.TRAFFIC:
                    found[meant.what] = found.get(meant.what, 0) + count
    return tuple(f"{count:,} {what}" for what, count in found.items())


def nic_now(machine: Machine, readings: Readings, name: str) -> str:
    """A NIC in a line: what it carries, of which rate, and what it counted; "" for nothing known.

    A counter that is not there is 0 or not known to the driver: it is not told.
    """
    device = next((one for one in machine.rdma if one.name == name), None)
    gbit = sum(port.rate_gbit or 0.0 for port in device.ports) if device is not None else 0.0
    carried = ways(readings.nic(name))
    most = f" of {figure(gbit / 8)}" if gbit and carried else ""
    errors = counted(readings, name)
    told = f"{first(errors, MOST_COUNTERS)} since the driver was loaded" if errors else ""
    return "; ".join(filter(None, (f"{carried}{most} GB/s" if carried else "", told)))


def odd_rails(paces: Sequence[tuple[str, tuple[float | None, float | None]]]) -> str:
    """Which of these NICs carries much less than the others, in words; "" where none does.

    Ranks of one job send alike over all rails. `paces`: NICs of GPUs that compute, by name.
    """
    known = {
        name: out + into for name, (out, into) in paces if out is not None and into is not None
    }
    ordered = sorted(known.values())
    if len(known) < FEWEST_RAILS or (middle := ordered[len(ordered) // 2]) < BUSY_BYTES:
        return ""
    slow = [name for name, total in known.items() if total < middle / 2]
    others = [total for total in ordered if total >= middle / 2]
    if not slow or len(slow) >= len(others):
        return ""
    low, high = figure(others[0] / GIGA), figure(others[-1] / GIGA)
    span = low if low == high else f"{low} to {high}"
    told = [f"{name} {_rate(known[name])}" for name in slow]
    return f"NICs: {first(told, MOST_COUNTERS)} GB/s, the others {span}"
