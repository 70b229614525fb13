"""From a snapshot to what is decided before the tuning: paths, graphs, transports and NICs."""

from __future__ import annotations

from collections.abc import Sequence

from ...model.snapshot import NodeSnapshot
from ..nodes import System
from ..prediction import DomainView, Graphs, PairDecision
from ..search.graphs import search_graphs
from ..search.version import search_version
from ..system.compute import Computed
from ..system.domains import views
from ..system.networks import Network, nets_of, network_of, with_socket_nic, without_other_nics
from ..system.peers import Grants
from ..versions import Version, asked_for, preferred, version_for
from ..xml.bus import NO_TREE
from .alike import gdr_of, reach_of
from .distances import Distances
from .domain import Domain
from .grants import grants_of, mig_remark
from .ground import Ground, NotedSettings
from .labels import SendUse, sends
from .left_out import remarks, unserved_gpus, without
from .netviews import local_nets, net_decisions
from .standing import Lent, Standing, footing_of
from .timing import hardware_of
from .transports import decide_pairs
from .viewsteps import (
    DOMAIN,
    LOCAL,
    MODEL,
    NVLS,
    domain_steps,
    fabric_refuses,
    local_net_steps,
    model_steps,
    nvls_steps,
)


class NoGpusError(ValueError):
    """There is nothing to predict: no GPU takes part."""


class Groundwork:
    """One communicator of `nodes` identical hosts; raises NoGpusError, UnknownVersionError."""

    def __init__(
        self,
        snapshot: NodeSnapshot,
        settings: NotedSettings,
        library: str | Version | None,
        gpus: Sequence[str] | None,
        nodes: int,
        standing: Standing | None = None,
    ) -> None:
        unserved, remark = unserved_gpus(snapshot.machine)
        if unserved:
            snapshot = without(snapshot, unserved)
        self.snapshot, self.settings, self.nodes = snapshot, settings, nodes
        self.assumptions: list[str] = list(snapshot.assumptions)
        guess = near = None
        self.version: Version
        if isinstance(library, Version):
            self.version, self.asked = library, f"{library.library}-{library.number}"
        else:
            machine = snapshot.machine
            named = (asked_for(library, machine), None) if library else None
            self.asked, guess = named or preferred(machine)
            self.version, near = version_for(self.asked)
        self._assume(guess, near, remark)
        self.standing = standing
        make = footing_of if standing is None else standing.footing
        footing = make(snapshot, settings.values, gpus)
        settings.asked.update(footing.asked)
        self._assume(*footing.assumptions)
        self.root, self.group = footing.root, footing.group
        left_out = remarks(snapshot.machine.gpus)
        self._assume(*self.group.assumptions, mig_remark(snapshot), *left_out)
        if not self.group.ranks:
            raise NoGpusError("; ".join(("no GPU takes part", *left_out)))
        self.grants: Grants = grants_of(snapshot, self.group.addresses, settings)
        self.network: Network = network_of(self.root, settings)
        self.root = without_other_nics(self.root, self.network)
        self.nic_assumed = False
        self.lent: Lent | None = None

    def _assume(self, *texts: str | None) -> None:
        for text in texts:
            plain = (text or "").removesuffix(".")
            if plain and plain not in self.assumptions:
                self.assumptions.append(plain)

    def computed(self) -> list[Computed]:
        """The paths of each domain of GPUs that reach each other."""
        more = self.nodes > 1
        ranks = self.group.ranks
        version, settings = self.version, self.settings
        if self.standing is not None:
            self.lent = self.standing.lend(
                self.root, version, settings, ranks, placed=self._placed()
            )
        found = views(
            self.root,
            version,
            settings,
            self.grants,
            ranks=ranks,
            more_nodes=more,
            prepared=None if self.lent is None else self.lent.prepared,
        )
        if found[0].system.inter and not nets_of(self.root):
            # A real run always has the socket interface in its topology.
            self.nic_assumed = True
            refuses = search_version(version).needs_nics
            self._assume(
                "the source names no NIC: a socket interface eth0 of 10 Gbit/s is assumed, "
                f"because {version.library.upper()} always finds one"
                + (" and does not start over several nodes without" if refuses else "")
            )
            self.root = with_socket_nic(self.root)
            found = views(self.root, version, settings, self.grants, ranks=ranks, more_nodes=more)
        return found

    def _placed(self) -> bool:
        """Whether the source tells where the GPUs hang, by a tree or by their relations."""
        pairs = self.snapshot.machine.pairs
        stated = any(pair.ancestor is not None for pair in pairs)
        return stated or NO_TREE.removesuffix(".") not in self.assumptions

    def _distances(self, system: System) -> Distances:
        """The words for the ways of a system, kept from one prediction to the next."""
        if self.lent is not None and self.lent.prepared.is_made(system):
            return self.lent.distances
        return Distances(self.version, placed=self._placed())

    def nic_views(self) -> tuple[DomainView, ...]:
        """The NICs of each GPU alone, without a search for rings; () where no NIC is known."""
        found = self.computed()
        if self.nic_assumed:
            return ()
        shown: list[DomainView] = []
        for number, view in enumerate(found):
            domain = Domain(view, None, number, self._distances(view.system))
            shown.append(
                DomainView(
                    ranks=tuple(gpu.rank for gpu in view.system.nodes["GPU"]),
                    nets=net_decisions(view),
                    local_nets=local_nets(domain),
                    steps={LOCAL: local_net_steps(domain)},
                )
            )
            view.system.let_go()
        return tuple(shown)

    def make(self) -> Ground:
        """All that the tuning starts from."""
        found = self.computed()
        remember = self.standing is not None or len(found) > 1
        all_graphs = [self._search(view, remember=remember) for view in found]
        domains = [
            Domain(view, graphs.ring, number, self._distances(view.system))
            for number, (view, graphs) in enumerate(zip(found, all_graphs, strict=True))
        ]
        devs = {gpu.rank: gpu for view in found for gpu in view.system.nodes["GPU"]}
        if not devs:
            raise NoGpusError("no GPU takes part; the topology has none below a CPU")
        bus_ids = {rank: self.group.addresses[gpu.bus_id] for rank, gpu in devs.items()}
        pairs = decide_pairs(domains, self.network, devs, bus_ids)
        shown = [
            self._view(domain, graphs, len(domains))
            for domain, graphs in zip(domains, all_graphs, strict=True)
        ]
        for graphs in all_graphs:
            self._assume(graphs.ring.estimate if graphs.ring is not None else None)
        first = next(i for i, view in enumerate(shown) if min(devs) in view.ranks)
        made = Ground(
            version=self.version,
            library=self.asked,
            assumptions=tuple(self.assumptions),
            pairs=pairs,
            views=tuple(shown),
            all_graphs=tuple(all_graphs),
            graphs=all_graphs[first],
            hardware=hardware_of([view.system for view in found]),
            ranks=len(devs),
            failure=self._failure(found, pairs),
            reach=None if self.nic_assumed else reach_of(found, pairs),
            gdr=None if self.nic_assumed else gdr_of(found),
            network=self.network,
            nic_assumed=self.nic_assumed,
            sends=self._sends(domains),
        )
        for view in found:
            view.system.let_go()
        if self.standing is not None and self.lent is not None:
            self.standing.take_back(self.lent)
        return made

    def _search(self, computed: Computed, *, remember: bool) -> Graphs:
        wanted = self.settings.integer("NCCL_NVLS_ENABLE", 2) != 0
        refused = fabric_refuses(self.snapshot.machine, computed.system)
        enough = len(computed.system.nodes["GPU"]) >= self.version.nvls_least_gpus
        here = self.version.library == "nccl" and enough
        return search_graphs(
            computed.system,
            self.version,
            self.settings,
            nvls=wanted and here and refused is None,
            remember=remember,
        )

    def _sends(self, domains: list[Domain]) -> tuple[SendUse, ...]:
        if self.nodes == 1 or self.nic_assumed:
            return ()
        return tuple(use for domain in domains for use in sends(domain.computed, domain.local))

    def _view(self, domain: Domain, graphs: Graphs, domains: int) -> DomainView:
        system = domain.computed.system
        steps = {DOMAIN: domain_steps(domains, self.settings)}
        if self.version.library == "rccl":
            steps[MODEL] = model_steps(system, self.version, self.settings, graphs)
        else:
            steps[NVLS] = nvls_steps(
                system, self.version, self.settings, self.snapshot.machine, graphs
            )
        if not self.nic_assumed:
            steps[LOCAL] = local_net_steps(domain)
        return DomainView(
            ranks=tuple(gpu.rank for gpu in system.nodes["GPU"]),
            graphs=graphs,
            nets=() if self.nic_assumed else net_decisions(domain.computed),
            local_nets={} if self.nic_assumed else local_nets(domain),
            max_bandwidth_gbs=round(system.max_bandwidth_gbs, 3) or None,
            total_bandwidth_gbs=round(system.total_bandwidth_gbs, 3) or None,
            steps=steps,
        )

    def _failure(self, found: list[Computed], pairs: tuple[PairDecision, ...]) -> str | None:
        title = self.version.library.upper()
        for view in found:
            if view.system.refusals:
                return f"{title} would not start with this topology: {view.system.refusals[0]}"
        for view in found:
            for row in view.first_p2p:
                for check in row:
                    if check.fatal:
                        return (
                            f"{title} would stop: the driver refuses P2P over NVLink "
                            f"({check.grant.nvml}); NCCL_IGNORE_DISABLED_P2P=1 goes on without it"
                        )
        lost = next((pair for pair in pairs if pair.transport == "none"), None)
        if lost is not None:
            return f"{title} would stop: no transport from rank {lost.src} to rank {lost.dst}"
        return None
