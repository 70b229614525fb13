"""What a run would load, said before it begins: how long, on which GPUs, and who else is there."""

from __future__ import annotations

import msgspec

from gputop.measuring import busy, planning
from gputop.measuring.selection import hidden_note, measurable, narrowed
from gputop.probes.protocol.status import ProbeLevel
from gputop.terminal.clean import clean
from gputop.topology.model import units
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.wiring.devices import devices_of

LEAST_IDLE = 2
"""With fewer idle GPUs than this there is no pair to measure among them."""
MOST_NAMED = 3


class Announcement(msgspec.Struct, frozen=True, kw_only=True):
    """The announcement of a run that waits for a yes."""

    title: str
    """"Measure 8 idle GPUs?"."""
    lines: tuple[str, ...]
    addresses: tuple[str, ...]
    """The GPUs to measure; () for all."""


def announce(
    snapshot: NodeSnapshot, names: tuple[str, ...], addresses: tuple[str, ...], level: ProbeLevel
) -> Announcement:
    """Announce these probes, () for all, on these GPUs; of all GPUs busy ones are left out.

    Who is busy follows from the last readings; the run itself asks the driver again.
    """
    whole = planning.plan(names, snapshot.machine, addresses or measurable(snapshot), level=level)
    note = "" if addresses else hidden_note(snapshot)
    taken = {address: why for address in whole.addresses if (why := _busy(snapshot, address))}
    idle = tuple(address for address in whole.addresses if address not in taken)
    left_out = bool(taken) and not addresses and len(idle) >= LEAST_IDLE
    plan = planning.plan(names, snapshot.machine, idle, level=level) if left_out else whole
    count = len(plan.addresses)
    what = names[0] if len(names) == 1 else f"{len(plan.runs)} probes"
    cost = (
        f"{what}: about {units.seconds(plan.estimate_seconds)} on {_gpus(plan.addresses, snapshot)}"
    )
    lines = [f"{cost}, up to {units.size(plan.memory_bytes_per_gpu)} of memory on each."]
    if note:
        lines.append(f"{note}.")
    if left_out:
        lines.append(f"Left out: {_named(tuple(taken), snapshot)} busy.")
    elif taken:
        first = clean(next(iter(taken.values())), 200)
        lines.append(f"{first}: this would be refused. P measures beside others.")
    free = "" if taken and not left_out else "idle "
    return Announcement(
        title=f"Load {count} {free}GPU{'s' * (count != 1)}?",
        lines=tuple(lines),
        addresses=idle if left_out else addresses or narrowed(snapshot),
    )


def idle_gpus(snapshot: NodeSnapshot) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The GPUs that a run on all would measure by the last readings, and those it leaves out.

    A demo has none to leave out, because a simulated run loads no GPU.
    """
    every = measurable(snapshot)
    taken = tuple(address for address in every if not snapshot.is_demo and _busy(snapshot, address))
    idle = tuple(address for address in every if address not in taken)
    return (idle, taken) if len(idle) >= LEAST_IDLE else (every, taken)


def _busy(snapshot: NodeSnapshot, address: str) -> str:
    """Why a GPU counts as busy; "" where it does not."""
    # One look only: twice the same stands for work that lasts.
    looks = (snapshot.readings.gpus,) * 2
    return next(iter(busy.judge(looks, (address,), devices_of(snapshot.machine).labels).busy), "")


def _gpus(addresses: tuple[str, ...], snapshot: NodeSnapshot) -> str:
    return _named(addresses, snapshot) if len(addresses) <= MOST_NAMED else f"{len(addresses)} GPUs"


def _named(addresses: tuple[str, ...], snapshot: NodeSnapshot) -> str:
    return units.ranged(map(clean, map(devices_of(snapshot.machine).name, addresses)))
