"""P2P, SHM or NET for each ordered pair, in the order the library tries them (transport.cc)."""

from typing import NamedTuple

from ..nodes import CPU, GPU, PathType, SystemNode
from ..prediction import DecisionStep, PairDecision
from ..system.compute import Computed
from ..system.networks import Network
from ..system.peers import Grant, NetCheck, P2pCheck
from . import steps
from .domain import Domain
from .labels import p2p_label, reads, shm_label

# Pairs of GPUs that were split into two domains of one host.
Answer = tuple[str, tuple[str, ...], tuple[DecisionStep, ...]]
"""Transport, labels and steps."""


class SplitPairs:
    """The pairs between domains; those of one rank are much alike."""

    def __init__(self, domains: list[Domain], network: Network, bus_ids: dict[int, str]) -> None:
        self._domains, self._network, self._bus_ids = domains, network, bus_ids
        self._ends = [domain.ends() for domain in domains]
        self._devs = [{gpu.dev for gpu in domain.computed.system.nodes[GPU]} for domain in domains]
        self._answers: dict[tuple[object, ...], Answer] = {}
        """By what they depend on."""

    def decide(self, domain: Domain, src: SystemNode, far: Domain, dst: SystemNode) -> PairDecision:
        """The decision for a pair; `far` is the domain of `dst`."""
        here = src.host == dst.host
        ring = (
            (domain.number + 1) % len(self._domains) == far.number
            and src.rank in self._ends[domain.number][1]
            and dst.rank in self._ends[far.number][0]
        )
        # A GPU with the number of the other one decides which NIC is used.
        twin = dst.dev if dst.dev in self._devs[domain.number] else None
        key = src.rank, here, ring, twin
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answer(domain, src, dst.dev, here=here, ring=ring)
            self._answers[key] = answer
        transport, labels, asked = answer
        return PairDecision(
            src=src.rank,
            dst=dst.rank,
            src_bus_id=self._bus_ids[src.rank],
            dst_bus_id=self._bus_ids[dst.rank],
            path=domain.computed.version.name_of(PathType.NET),
            hops=None,
            bandwidth_gbs=None,
            transport=transport,
            label=labels[0] if labels else "",
            labels=labels,
            steps=asked,
        )

    def _answer(
        self, domain: Domain, src: SystemNode, peer_dev: int, *, here: bool, ring: bool
    ) -> Answer:
        version, settings = domain.computed.version, domain.computed.settings
        off = settings.integer("NCCL_SHM_DISABLE", 0) == 1
        asked = [
            steps.same_host(not here),
            DecisionStep(
                question="can they reach each other without the network?",
                answer="no",
                because=_why_split(here, off),
                flag="NCCL_SHM_DISABLE" if off else "NCCL_NET_DISABLE_INTRA",
                source="graph/paths.cc:ncclTopoTrimSystem",
            ),
        ]
        label = shm_label(version, settings)
        if version.trimmed_transport == "SHM" and not off and here:
            return "SHM", (label,), (*asked, steps.shared_memory(settings, True, label))
        asked.append(steps.shared_memory(settings, False, label))
        kept_in = settings.integer("NCCL_NET_DISABLE_INTRA", version.net_disable_intra) == 1
        if kept_in and here and not version.net_always:
            return "none", (), (*asked, steps.network(self._network, None))
        plugin = self._network.name
        labels = domain.net_labels(src, peer_dev, plugin, ring=ring) or (f"NET/{plugin}",)
        return "NET", labels, (*asked, steps.network(self._network, labels[0]))


def _why_split(here: bool, shm_off: bool) -> str:
    if not here:
        return "they are on different hosts, and no NVLink leads from one to the other"
    if shm_off:
        return (
            "P2P is not possible between them and NCCL_SHM_DISABLE=1: each group of GPUs that "
            "still reach each other counts as a separate node"
        )
    return "each reaches a NIC faster than the other GPU, so the host is split into domains"


class PairAnswer(NamedTuple):
    """The transport of two GPUs inside a domain and its reasons; many pairs share one."""

    transport: str
    """"" where only the network is left."""
    label: str
    read: bool
    via: int | None
    steps: tuple[DecisionStep, ...]
    """Those after the distance."""


def decide_pairs(
    domains: list[Domain], network: Network, devs: dict[int, SystemNode], bus_ids: dict[int, str]
) -> tuple[PairDecision, ...]:
    """Every ordered pair of all ranks, by rank; `bus_ids` are the PCI addresses."""
    home = {gpu.rank: domain for domain in domains for gpu in domain.computed.system.nodes[GPU]}
    inside = {domain.number: _Inside(domain, network, bus_ids) for domain in domains}
    split_pairs = SplitPairs(domains, network, bus_ids)
    found = []
    ranks = sorted(devs)
    for src in ranks:
        decide = inside[home[src].number].decide
        for dst in ranks:
            if src == dst:
                continue
            if home[src] is home[dst]:
                pair = decide(devs[src], devs[dst])
            else:
                pair = split_pairs.decide(home[src], devs[src], home[dst], devs[dst])
            found.append(pair)
    return tuple(found)


class _Inside:
    """The pairs inside one domain; what many of them share is made once."""

    def __init__(self, domain: Domain, network: Network, bus_ids: dict[int, str]) -> None:
        self._domain, self._network, self._bus_ids = domain, network, bus_ids
        self._computed = domain.computed
        version = self._version = domain.computed.version
        self._distances = domain.distances
        self._first_steps = {
            False: (steps.same_host(False), steps.same_shm()),
            True: (steps.same_host(True),),
        }
        """By whether the GPUs are on different hosts."""
        self._more_hops = 2 if version.device_nodes else 0
        self._rates: dict[float, float] = {}
        self._answers: dict[tuple[object, ...], tuple[PairAnswer, Grant]] = {}
        """By what they depend on; the grants stay, so that no other gets the place of one."""

    def decide(self, one: SystemNode, other: SystemNode) -> PairDecision:
        computed, distances = self._computed, self._distances
        there = other.index
        path, direct = one.paths[GPU][there], computed.direct[one.index][there]
        mnnvl = one.host != other.host
        first, net = computed.first_p2p[one.index][there], computed.peers.net(one, other)
        check = first if path is direct else computed.peers.p2p(one, other)
        grant = computed.grant(one, other)
        # Checks that are equal are the same object.
        key = (mnnvl, direct.type, id(first), id(check), id(net), id(grant))
        known = self._answers.get(key)
        if known is None:
            known = _answer(computed, one, other, check, net), grant
            self._answers[key] = known
        answer = known[0]
        asked = (*self._first_steps[mnnvl], distances.step(one, direct), *answer.steps)
        transport, label = answer.transport, answer.label
        labels: tuple[str, ...] = (label,)
        if not transport:
            doubtful = not (net.faster or mnnvl or self._version.net_always)
            closed = net.switched_off and not self._version.net_always
            transport, label, labels = self._by_network(one, other, closed=closed)
            asked += (steps.network(self._network, label or None, doubtful=doubtful),)
        gbs = path.bandwidth_gbs
        rate = self._rates.get(gbs)
        if rate is None:
            rate = self._rates[gbs] = round(gbs, 3)
        return PairDecision(
            src=one.rank,
            dst=other.rank,
            src_bus_id=self._bus_ids[one.rank],
            dst_bus_id=self._bus_ids[other.rank],
            path=distances.ways.types[path.type],
            hops=len(path.links) + self._more_hops,
            bandwidth_gbs=rate,
            transport=transport,
            label=label,
            labels=labels,
            read=int(answer.read),
            via=answer.via,
            steps=asked,
        )

    def _by_network(
        self, one: SystemNode, other: SystemNode, *, closed: bool
    ) -> tuple[str, str, tuple[str, ...]]:
        if closed:
            return "none", "", ()
        labels = self._domain.net_labels(one, other.dev, self._network.name)
        label = labels[0] if labels else f"NET/{self._network.name}"
        return "NET", label, labels or (label,)


def _answer(
    computed: Computed, one: SystemNode, other: SystemNode, check: P2pCheck, net: NetCheck
) -> PairAnswer:
    version, settings, system = computed.version, computed.settings, computed.system
    mnnvl = one.host != other.host
    asked = _p2p_steps(computed, one, other, check, net)
    if check.allowed and computed.p2p_connects(one, other, check):
        read = reads(version, settings, check.read)
        relay = system.gpu_of(check.relay) if check.relay >= 0 else None
        label = p2p_label(version, settings, relay, read)
        if system.hosts > 1:
            label = label.replace("CUMEM", "MNNVL")
        asked.extend(steps.which_p2p(computed, check, label, system.hosts > 1))
        return PairAnswer(
            "P2P", label, read, relay.rank if relay is not None else None, tuple(asked)
        )
    shm = settings.integer("NCCL_SHM_DISABLE", 0) != 1 and not net.faster and not mnnvl
    label = shm_label(version, settings)
    if net.faster and not check.allowed:
        asked.append(steps.nic_faster(net, decides=True))
    asked.append(steps.shared_memory(settings, shm, label))
    return PairAnswer("SHM" if shm else "", label, False, None, tuple(asked))


def vendor_of_cpu(computed: Computed) -> str:
    """The vendor of the first CPU; "" where none is known."""
    cpus = computed.system.nodes[CPU]
    return cpus[0].vendor if cpus else ""


def _p2p_steps(
    computed: Computed, one: SystemNode, other: SystemNode, check: P2pCheck, net: NetCheck
) -> list[DecisionStep]:
    """The questions that decide whether a pair may use P2P, after the distance."""
    version, mnnvl = computed.version, one.host != other.host
    direct = computed.direct[one.index][other.index].type
    vendor = vendor_of_cpu(computed)
    asked = [steps.near_enough(version, check.limit, check.level, vendor, direct)]
    first = computed.first_p2p[one.index][other.index]
    if first.within:
        answer = steps.granted(version, first, computed.settings)
        if answer is not None:
            asked.append(answer)
    if not check.allowed:
        return asked
    if version.is_rccl:
        asked.extend(computed.grant(one, other).conditions)
    if check.relay < 0:
        asked.append(steps.nic_faster(net, decides=True))
        if not net.faster and not mnnvl:
            asked.append(steps.cuda_access(computed.grant(one, other), version))
    return asked
