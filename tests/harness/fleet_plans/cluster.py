"""A made-up fleet: its fabric, its noise, its faults, and what a look at some nodes measures."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from gputop.topology.fleet.planning.culprits import (
    AT_SCALE,
    LINK,
    NODE,
    RAIL,
    SWITCH,
    UPLINKS,
    Culprit,
    Direction,
)
from gputop.topology.fleet.planning.fabric import SwitchFabric, fabric_of
from gputop.topology.fleet.planning.looks import FAILED, FINISHED, LATE, NetFlow, NetLook

RAILS = 8
RAIL_GBS, ALL_GBS, SET_GBS = 48.5, 371.0, 352.0
"""One rail of 400 Gbit/s in one direction; all-reduce over eight of them; over many nodes."""
LEVEL_LOSS = 0.01
NOISE, NODE_NOISE = 0.015, 0.01
"""Standard deviations, as shares: of each figure, and of each node for good."""
GLITCHES = 1e-3
"""Share of looks in which something else slows one rail by 15 to 60 %."""
SPURIOUS = 1e-4
"""Share of looks that fail for no lasting reason."""
SLOW = (0.3, 0.8)
"""What a fault leaves of a figure."""
FLAPPING = 0.3
ECMP_SHARE = 0.25
LEAF_SIZES = {64: 8, 1_000: 20, 10_000: 32}
POD_LEAVES = 16


@dataclass(slots=True)
class PlantedFault:
    """One planted fault."""

    name: str
    host: str = ""
    rail: int = 0
    group: frozenset[str] = frozenset()
    switch: str = ""
    factor: float = 0.5
    direction: str = ""
    size: int = 0
    hangs: bool = False

    def named_by(self, culprit: Culprit) -> bool:
        """Whether a culprit is this fault: its class and its device."""
        mine = culprit.hosts[:1] == (self.host,)
        if self.name == "node":
            return culprit.kind == NODE and mine
        if self.name in ("NIC", "cable", "flapping 30 %"):
            return culprit.kind == LINK and mine and culprit.rail == self.rail
        if self.name == "asymmetric":
            one_way = culprit.direction == self.direction
            return culprit.kind == LINK and mine and culprit.rail == self.rail and one_way
        if self.name == "rail":
            return culprit.kind == RAIL and culprit.rail == self.rail
        if self.name == "leaf switch":
            return culprit.kind == SWITCH and culprit.switch == self.switch
        if self.name == "leaf switch, one rail":
            switch = culprit.kind == SWITCH and culprit.switch == self.switch
            return switch and culprit.rail == self.rail
        if self.name.startswith("uplink"):
            return culprit.kind == UPLINKS and culprit.switch == self.switch
        return culprit.kind == AT_SCALE and mine


@dataclass(slots=True)
class Cluster:
    """A fleet with its faults."""

    hosts: tuple[str, ...]
    fabric: SwitchFabric
    chance: random.Random
    faults: list[PlantedFault] = field(default_factory=list)
    speeds: dict[str, float] = field(default_factory=dict)
    by_host: dict[str, list[PlantedFault]] = field(default_factory=dict)
    everywhere: list[PlantedFault] = field(default_factory=list)

    def plant(self, faults: Iterable[PlantedFault]) -> None:
        """Add faults."""
        for fault in faults:
            self.faults.append(fault)
            if fault.name == "rail":
                self.everywhere.append(fault)
            for host in fault.group or (fault.host,) * bool(fault.host):
                self.by_host.setdefault(host, []).append(fault)

    def pair(self, first: str, second: str, number: int) -> NetLook:
        """Measure two nodes once."""
        chance = self.chance
        one, other = self.by_host.get(first, ()), self.by_host.get(second, ())
        faults = dict.fromkeys(map(id, (*one, *other, *self.everywhere)))
        known = {id(fault): fault for fault in (*one, *other, *self.everywhere)}
        present = [known[key] for key in faults]
        hangs = any(fault.hangs for fault in present)
        if hangs or chance.random() < SPURIOUS:
            status = LATE if hangs else FAILED
            return NetLook(hosts=(first, second), status=status, round=number)
        distance = self.fabric.distance(first, second) or 1
        base = (1 - LEVEL_LOSS * (distance - 1)) * min(self.speeds[first], self.speeds[second])
        flaps = {id(fault): chance.random() < FLAPPING for fault in present}
        glitch = chance.randrange(RAILS) if chance.random() < GLITCHES else -1
        lost = chance.uniform(0.4, 0.85)
        flows, lowest = [], 1.0
        for rail in range(RAILS):
            for source, target in ((first, second), (second, first)):
                left = lost if rail == glitch else 1.0
                for fault in present:
                    left = min(left, self._left(fault, rail, source, target, flaps[id(fault)]))
                lowest = min(lowest, left)
                gbs = RAIL_GBS * base * left * chance.gauss(1.0, NOISE)
                flows.append(
                    NetFlow(rail=rail, source=source, target=target, bytes=1 << 30, gbs=gbs)
                )
        whole = ALL_GBS * base * lowest * chance.gauss(1.0, NOISE)
        flows.append(NetFlow(what="all_reduce", bytes=1 << 30, gbs=whole))
        return NetLook(hosts=(first, second), status=FINISHED, round=number, results=tuple(flows))

    def set_of(self, hosts: tuple[str, ...], number: int) -> NetLook:
        """Run an all-reduce over a set once."""
        left = 1.0
        members = set(hosts)
        for fault in self.faults:
            if fault.name == "only at scale" and fault.host in members:
                left = min(left, fault.factor if len(hosts) >= fault.size else 1.0)
        gbs = SET_GBS * left * self.chance.gauss(1.0, NOISE) * (1 - 0.004 * len(hosts) ** 0.25)
        flow = NetFlow(what="all_reduce", bytes=1 << 30, gbs=gbs)
        return NetLook(hosts=hosts, status=FINISHED, round=number, results=(flow,))

    def _left(self, fault: PlantedFault, rail: int, source: str, target: str, flaps: bool) -> float:
        """What a fault leaves of one flow."""
        name = fault.name
        if name == "node":
            return fault.factor
        if name == "only at scale" or (name not in _ANY_RAIL and rail != fault.rail):
            return 1.0
        if name == "flapping 30 %" and not flaps:
            return 1.0
        if name == "asymmetric":
            end = source if fault.direction is Direction.SENDING else target
            return fault.factor if end == fault.host else 1.0
        if name.startswith("uplink"):
            if (source in fault.group) == (target in fault.group):
                return 1.0
            if (
                name == "uplink, 1 of 4"
                and random.Random(f"{fault.switch}{source}{target}{rail}").random() > ECMP_SHARE
            ):
                return 1.0
        return fault.factor


_ANY_RAIL = ("leaf switch", "uplink", "uplink, 1 of 4")


def cluster(size: int, seed: int) -> Cluster:
    """A fleet without faults: leaves in pods of a tree."""
    hosts = tuple(f"g{number:05}" for number in range(size))
    leaf = LEAF_SIZES.get(size, 16)
    nodes = {f"leaf{n}": hosts[n * leaf : (n + 1) * leaf] for n in range(-(-size // leaf))}
    pods: dict[str, list[str]] = {}
    for number, name in enumerate(nodes):
        pods.setdefault(f"spine{number // POD_LEAVES}", []).append(name)
    made = Cluster(hosts, fabric_of("made", nodes, pods), random.Random(seed))
    made.speeds = {host: made.chance.gauss(1.0, NODE_NOISE) for host in hosts}
    return made


NAMES = (
    "node", "NIC", "cable", "asymmetric", "leaf switch", "leaf switch, one rail", "rail",
    "uplink", "uplink, 1 of 4", "only at scale", "flapping 30 %",
)  # fmt: skip
SINGLE = ("leaf switch", "leaf switch, one rail", "rail", "uplink", "uplink, 1 of 4",
    "only at scale")  # fmt: skip


SEVERAL = "several at once"


def faults(made: Cluster, name: str) -> list[PlantedFault]:
    """Faults to plant: one of what many nodes share, else one in 500 nodes.

    SEVERAL: a node, a NIC, one direction of another, and a leaf switch that has none of them.
    """
    if name == SEVERAL:
        (leaf,) = faults(made, "leaf switch")
        apart = [one for kind in ("node", "NIC", "asymmetric") for one in faults(made, kind)]
        hosts = {one.host: one for one in apart if one.host not in leaf.group}
        return [leaf, *hosts.values()]
    chance = made.chance
    count = 1 if name in SINGLE else max(1, len(made.hosts) // 500)
    found = []
    for host in chance.sample(made.hosts, count):
        fault = PlantedFault(name, host, chance.randrange(RAILS), factor=chance.uniform(*SLOW))
        if name == "node" and chance.random() < 0.3:
            fault.hangs = True
        if name == "asymmetric":
            fault.direction = chance.choice(tuple(Direction))
        if name == "only at scale":
            fault.size = 2 ** chance.randint(4, (len(made.hosts) // 2).bit_length() - 1)
        if name.startswith(("leaf", "uplink")):
            fault.switch = made.fabric.leaf(host) or ""
            fault.group = frozenset(h for h in made.hosts if made.fabric.leaf(h) == fault.switch)
            fault.host = ""
        if name == "rail":
            fault.host = ""
        found.append(fault)
    return found
