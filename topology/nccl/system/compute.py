"""Paths as the library leaves them: diverted where P2P, GDR or PXN say so.

graph/paths.cc:ncclTopoComputePaths, with the order of its steps, which matters: each check
looks at paths that the steps before may have changed.
"""

from __future__ import annotations

from functools import cached_property

from ..nodes import CPU, GPU, NET, PathType, System, SystemNode, SystemPath
from ..settings import Settings
from ..versions import C2cRelay, Version
from .gdr import NO_GDR, GdrRules, relay_of
from .nets import LocalNets, nearest
from .paths import divert, merged, set_all_paths, widest_of
from .peers import Grant, Grants, P2pCheck, Peers, not_asked


class Computed:
    """A system with its paths, and who could not be reached while they were made."""

    def __init__(
        self,
        system: System,
        version: Version,
        settings: Settings,
        grants: Grants = not_asked,
        *,
        paths_set: bool = False,
        first_p2p: list[list[P2pCheck]] | None = None,
    ) -> None:
        """Compute the paths, or take them as they are.

        `paths_set`: they are as `set_all_paths` leaves them; `first_p2p`: the checks over them,
        where they were made already.
        """
        self.system, self.version, self.settings = system, version, settings
        self.peers = Peers(system, version, settings, grants)
        self._grants = grants
        if not paths_set:
            set_all_paths(system, version, settings)
        if version.device_nodes and system.widest is None:
            system.widest = widest_of(system)
        gpus = system.nodes[GPU]
        self.direct = [list(gpu.paths[GPU]) for gpu in gpus]
        """Paths between GPUs before any diversion, by index."""
        self.first_p2p = first_p2p or [[self.peers.p2p(src, dst) for dst in gpus] for src in gpus]
        """The P2P check over those paths, by index."""
        self.gdr = GdrRules(system, version, settings)
        self._between_gpus()
        if version.p2c is not C2cRelay.NONE:
            self._through_c2c()
        self._to_nics()

    def without_nets(self) -> Computed:
        """The same without NICs, through which no path between others leads."""
        system = self.system
        system.remove_nets()
        for gpu, ways in zip(system.nodes[GPU], self.direct, strict=True):
            gpu.paths[GPU] = ways
        made = Computed(
            system,
            self.version,
            self.settings,
            self._grants,
            paths_set=True,
            first_p2p=self.first_p2p,
        )
        made.peers.asked |= self.peers.asked
        made.gdr.by_distance.answers.update(self.gdr.by_distance.answers)
        return made

    def _between_gpus(self) -> None:
        gpus = self.system.nodes[GPU]
        shm_off = self.settings.integer("NCCL_SHM_DISABLE", 0) == 1
        for dst in gpus:
            cpu = self.system.nodes[CPU][dst.cpu] if dst.cpu is not None else None
            for src in gpus:
                if cpu is not None and not self.first_p2p[src.index][dst.index].allowed:
                    divert(cpu, src, dst, self.version)
            for src in gpus:
                if src is dst:
                    continue
                first = self.first_p2p[src.index][dst.index]
                # Only a refused pair has another path by now.
                if self.p2p_connects(src, dst, first if first.allowed else None):
                    continue
                if shm_off or src.host != dst.host or self.peers.net(src, dst).faster:
                    ways = src.paths[GPU]
                    way = ways[dst.index]
                    ways[dst.index] = SystemPath(PathType.NET, way.bandwidth_gbs, way.links)

    def p2p_connects(self, src: SystemNode, dst: SystemNode, check: P2pCheck | None = None) -> bool:
        """transport/p2p.cc:p2pCanConnect, with access granted where nobody was asked.

        `check`: the P2P check over the present path, where it was made already.
        """
        check = check or self.peers.p2p(src, dst)
        if not check.allowed:
            return False
        if check.relay >= 0:
            return not self.settings.integer("NCCL_P2P_USE_CUDA_MEMCPY", 0)
        if self.peers.net(src, dst).faster:
            return False
        return self._grants(src.bus_id, dst.bus_id).cuda is not False

    def grant(self, src: SystemNode, dst: SystemNode) -> Grant:
        """The driver's answer about a pair."""
        return self._grants(src.bus_id, dst.bus_id)

    def _through_c2c(self) -> None:
        """A NIC on the host bridge of a CPU that the GPU reaches by C2C is P2C away."""
        for gpu in self.system.nodes[GPU]:
            cpu = gpu.cpu
            if cpu is None:
                continue
            nets = self.system.nodes[NET]
            if self.version.p2c is C2cRelay.NEAREST:
                nets = [nets[near] for near in nearest(gpu, NET)[0]]
            for net in nets:
                way = self._way(gpu, net, cpu)
                if way is PathType.P2C:
                    for paths, index in (
                        (gpu.paths[NET], net.index),
                        (net.paths[GPU], gpu.index),
                    ):
                        there = paths[index]
                        nearer = min(PathType.P2C, there.type)
                        paths[index] = SystemPath(nearer, there.bandwidth_gbs, there.links)

    def _way(self, gpu: SystemNode, net: SystemNode, cpu: int) -> PathType:
        there = gpu.paths[CPU][cpu].type
        if self.version.merges_paths:
            return merged(there, net.paths[CPU][cpu].type)
        # 2.27.3 asks for the whole path, and for that of the GPU to its CPU.
        phb = gpu.paths[NET][net.index].type is PathType.PHB
        return PathType.P2C if phb and there is PathType.C2C else PathType.DIS

    def _to_nics(self) -> None:
        relays_off = self.settings.integer("NCCL_PXN_DISABLE", self.version.pxn_disable) == 1
        local = LocalNets(self.system, self.version, self.settings)
        for net in self.system.nodes[NET]:
            for gpu in self.system.nodes[GPU]:
                if not relays_off:
                    self._relay(gpu, net, local)
                far = gpu.paths[NET][net.index].type >= PathType.PHB
                if self.version.diverts_far_nics or not far:
                    self._without_gdr(gpu, net, local)
        for net in self.system.nodes[NET]:
            net.local_gpu = local.gpu(net.index)
        self.peers.forget_nics()

    @cached_property
    def farthest_relay(self) -> PathType:
        """How far a relay of PXN may be from the NIC."""
        wide = self.settings.integer("NCCL_PXN_C2C", self.version.pxn_c2c)
        return PathType[self.version.pxn_type_c2c if wide else self.version.pxn_type]

    def may_relay(self, gpu: SystemNode, net: SystemNode, *, send: bool) -> bool:
        """Whether GPUDirect RDMA lets a GPU relay to a NIC; `send`: NCCL asks as the NIC reads."""
        if not self.version.pxn_needs_gdr:
            return True
        return self.gdr.check(gpu, net, send=send).mode is not NO_GDR

    @cached_property
    def _beyond(self) -> PathType:
        return PathType[self.version.pxn_beyond]

    def _relay(self, gpu: SystemNode, net: SystemNode, local: LocalNets) -> None:
        """PXN: send to the NIC through the NVLink peer that sits next to it."""
        index = local.gpu(net.index)
        if index in (-1, gpu.index):
            return
        peer = self.system.nodes[GPU][index]
        near, own = peer.paths[NET][net.index], gpu.paths[NET][net.index]
        if near.type > self.farthest_relay or peer.paths[GPU][gpu.index].type > PathType.NVL:
            return
        if peer.host != gpu.host:
            return
        if not self.may_relay(peer, net, send=True):
            return
        if near.bandwidth_gbs > own.bandwidth_gbs or own.type > self._beyond:
            local.changed(gpu, divert(peer, gpu, net, self.version), net.index)

    def _without_gdr(self, gpu: SystemNode, net: SystemNode, local: LocalNets) -> None:
        relayed = gpu.paths[NET][net.index].type is PathType.PXN
        if relayed and net.gdr and gpu.gdr and relay_of(gpu, net) is gpu:
            self.system.refuse(
                f"the path from rank {gpu.rank} to NIC {net.dev} runs through another GPU (PXN), "
                "which NVLink reaches by way of a CPU only (NCCL_PXN_DISABLE=1 avoids it)"
            )
        gdr = self.gdr.check(gpu, net, send=False)
        if gdr.mode is NO_GDR and gpu.cpu is not None:
            cpu = self.system.nodes[CPU][gpu.cpu]
            local.changed(net, divert(cpu, net, gpu, self.version), gpu.index)
            local.changed(gpu, divert(cpu, gpu, net, self.version), net.index)
