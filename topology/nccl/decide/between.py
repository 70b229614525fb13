"""Pairs of GPUs that were split into two domains of one host."""

from __future__ import annotations

from ..nodes import PathType, SystemNode
from ..prediction import DecisionStep, PairDecision
from ..system.networks import Network
from . import steps
from .domain import Domain
from .labels import shm_label

Answer = tuple[str, tuple[str, ...], tuple[DecisionStep, ...]]
"""Transport, labels and steps."""


class Between:
    """The pairs between domains; those of one rank are much alike."""

    def __init__(self, domains: list[Domain], network: Network, bus_ids: dict[int, str]) -> None:
        self._domains, self._network, self._bus_ids = domains, network, bus_ids
        self._ends = [domain.ends() for domain in domains]
        self._devs = [
            {gpu.dev for gpu in domain.computed.system.nodes["GPU"]} for domain in domains
        ]
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
        alike = src.rank, here, ring, twin
        answer = self._answers.get(alike)
        if answer is None:
            answer = self._answer(domain, src, dst.dev, here=here, ring=ring)
            self._answers[alike] = answer
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
