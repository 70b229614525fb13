"""From a snapshot and an environment to all decisions; nothing here asks the machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...model.snapshot import NodeSnapshot
from ..nodes import System
from ..prediction import DomainView, Graphs, Library, PairDecision, Prediction
from ..search.graphs import search_graphs
from ..settings import Settings
from ..system.compute import Computed
from ..system.domains import views
from ..system.networks import Network, nets_of, network_of, with_socket_nic, without_other_nics
from ..system.peers import Grants
from ..versions import Version, preferred, version_for
from ..xml.bus import NO_TREE
from .alike import gdr_of, reach_of
from .distances import Distances
from .domain import Domain
from .grants import grants_of, mig_remark
from .ground import Ground, NotedSettings, keep_ground, known_ground
from .left_out import remarks
from .netviews import local_nets, net_decisions
from .standing import Lent, Standing, footing_of
from .steps import CAN_REACH
from .timing import hardware_of, timing_of
from .transports import decide_pairs
from .unserved import unserved_gpus, without
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

NOT_FOLLOWED = (
    ("NCCL_GRAPH_FILE", "a graph given by file is not read; the search is predicted instead"),
    ("NCCL_RINGS", "rings given by hand are not followed"),
    ("NCCL_TUNER_PLUGIN", "a tuner plugin may choose other algorithms than predicted"),
)


class NoGpusError(ValueError):
    """There is nothing to predict: no GPU takes part."""


def predict(
    snapshot: NodeSnapshot,
    settings: Settings | None = None,
    *,
    library: str | None = None,
    gpus: Sequence[str] | None = None,
    nodes: int = 1,
    standing: Standing | None = None,
) -> Prediction:
    """What the library decides on this node.

    `library`: "nccl-2.28.9"; without it, what the node has. `gpus`: PCI addresses of the
    communicator; without it, all that are visible. `nodes`: number of identical hosts. `standing`:
    what is kept between predictions that differ in nothing but settings.
    Raises NoGpusError, UnknownVersionError.
    """
    settings = Settings.of(snapshot) if settings is None else settings
    key = library, None if gpus is None else tuple(gpus), nodes
    ground = known_ground(snapshot, key, settings)
    if ground is None and standing is not None:
        ground = standing.ground(key, settings)
    if ground is None:
        noted = NotedSettings(settings.values)
        ground = _Groundwork(snapshot, noted, library, gpus, nodes, standing).make()
        keep_ground(snapshot, key, noted.asked, ground)
        if standing is not None:
            standing.keep(key, noted.asked, ground)
    return _predicted(ground, settings, nodes)


def _predicted(ground: Ground, settings: Settings, nodes: int) -> Prediction:
    timing = timing_of(
        ground.hardware,
        ground.all_graphs,
        ground.version,
        settings,
        asked=ground.library,
        ranks=ground.ranks * nodes,
        nodes=len(ground.views) * nodes,
    )
    assumptions = dict.fromkeys(ground.assumptions)
    for text in (*timing.assumptions, *_standing_assumptions(ground.pairs, settings)):
        assumptions.setdefault(text.removesuffix("."))
    assumptions.pop("", None)
    return Prediction(
        library=Library(name=ground.version.library, version=ground.library.rpartition("-")[2]),
        environment=dict(sorted(settings.values.items())),
        pairs=ground.pairs,
        views=ground.views,
        graphs=ground.graphs,
        choices=timing.choices,
        tuning=timing.tuning,
        coll_channels=timing.coll_channels,
        nodes=len(ground.views) * nodes,
        ignored=timing.ignored,
        failure=ground.failure or timing.failure,
        assumptions=tuple(assumptions),
    )


def _standing_assumptions(pairs: tuple[PairDecision, ...], settings: Settings) -> Iterator[str]:
    if any(
        step.basis == "assumed" and step.question == CAN_REACH
        for pair in pairs
        for step in pair.steps
    ):
        yield "the driver is assumed to grant peer access: it was not asked"
    yield "one process per GPU, all in one container with one /dev/shm"
    for name, text in NOT_FOLLOWED:
        if settings.text(name):
            yield f"{name}: {text}"


class _Groundwork:
    def __init__(
        self,
        snapshot: NodeSnapshot,
        settings: NotedSettings,
        library: str | None,
        gpus: Sequence[str] | None,
        nodes: int,
        standing: Standing | None = None,
    ) -> None:
        unserved, remark = unserved_gpus(snapshot.machine)
        if unserved:
            snapshot = without(snapshot, unserved)
        self.snapshot, self.settings, self.nodes = snapshot, settings, nodes
        self.assumptions: list[str] = list(snapshot.assumptions)
        name, guess = (library, None) if library else preferred(snapshot.machine)
        self.version: Version
        self.version, near = version_for(name)
        self.asked = name
        self.assume(guess, near, remark)
        self.standing = standing
        make = footing_of if standing is None else standing.footing
        footing = make(snapshot, settings.values, gpus)
        settings.asked.update(footing.asked)
        self.assume(*footing.assumptions)
        self.root, self.group = footing.root, footing.group
        left_out = remarks(snapshot.machine.gpus)
        self.assume(*self.group.assumptions, mig_remark(snapshot), *left_out)
        if not self.group.ranks:
            raise NoGpusError("; ".join(("no GPU takes part", *left_out)))
        self.grants: Grants = grants_of(snapshot, self.group.addresses, settings)
        self.network: Network = network_of(self.root, settings)
        self.root = without_other_nics(self.root, self.network)
        self.nic_assumed = False
        self.lent: Lent | None = None

    def assume(self, *texts: str | None) -> None:
        for text in texts:
            plain = (text or "").removesuffix(".")
            if plain and plain not in self.assumptions:
                self.assumptions.append(plain)

    def computed(self) -> list[Computed]:
        more = self.nodes > 1
        ranks = self.group.ranks
        version, settings = self.version, self.settings
        if self.standing is not None:
            self.lent = self.standing.lend(
                self.root, version, settings, ranks, placed=self.placed()
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
            self.assume(
                "the source names no NIC: a socket interface eth0 of 10 Gbit/s is assumed, "
                f"because {self.version.library.upper()} always finds one"
            )
            self.root = with_socket_nic(self.root)
            found = views(self.root, version, settings, self.grants, ranks=ranks, more_nodes=more)
        return found

    def placed(self) -> bool:
        """Whether the source tells where the GPUs hang, by a tree or by their relations."""
        pairs = self.snapshot.machine.pairs
        stated = any(pair.ancestor is not None for pair in pairs)
        return stated or NO_TREE.removesuffix(".") not in self.assumptions

    def distances(self, system: System) -> Distances:
        """The words for the ways of a system, kept from one prediction to the next."""
        if self.lent is not None and self.lent.prepared.is_made(system):
            return self.lent.distances
        return Distances(self.version, placed=self.placed())

    def make(self) -> Ground:
        found = self.computed()
        remember = self.standing is not None or len(found) > 1
        all_graphs = [self.search(view, remember=remember) for view in found]
        domains = [
            Domain(view, graphs.ring, number, self.distances(view.system))
            for number, (view, graphs) in enumerate(zip(found, all_graphs, strict=True))
        ]
        devs = {gpu.rank: gpu for view in found for gpu in view.system.nodes["GPU"]}
        if not devs:
            raise NoGpusError("no GPU takes part; the topology has none below a CPU")
        bus_ids = {rank: self.group.addresses[gpu.bus_id] for rank, gpu in devs.items()}
        pairs = decide_pairs(domains, self.network, devs, bus_ids)
        shown = [
            self.view(domain, graphs, len(domains))
            for domain, graphs in zip(domains, all_graphs, strict=True)
        ]
        for graphs in all_graphs:
            self.assume(graphs.ring.estimate if graphs.ring is not None else None)
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
            failure=self.failure(found, pairs),
            reach=None if self.nic_assumed else reach_of(found, pairs),
            gdr=None if self.nic_assumed else gdr_of(found),
        )
        for view in found:
            view.system.let_go()
        if self.standing is not None and self.lent is not None:
            self.standing.take_back(self.lent)
        return made

    def search(self, computed: Computed, *, remember: bool) -> Graphs:
        wanted = self.settings.integer("NCCL_NVLS_ENABLE", 2) != 0
        refused = fabric_refuses(self.snapshot.machine, computed.system)
        here = self.version.library == "nccl" and len(computed.system.nodes["GPU"]) > 1
        return search_graphs(
            computed.system,
            self.version,
            self.settings,
            nvls=wanted and here and refused is None,
            remember=remember,
        )

    def view(self, domain: Domain, graphs: Graphs, domains: int) -> DomainView:
        system = domain.computed.system
        steps = {DOMAIN: domain_steps(domains, self.settings)}
        if self.version.library == "rccl":
            steps[MODEL] = model_steps(system, self.version, self.settings, graphs)
        else:
            steps[NVLS] = nvls_steps(system, self.settings, self.snapshot.machine, graphs)
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

    def failure(self, found: list[Computed], pairs: tuple[PairDecision, ...]) -> str | None:
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
