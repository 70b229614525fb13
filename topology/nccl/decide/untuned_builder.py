"""Decisions before the tuning, from a snapshot: paths, graphs, transports and NICs."""

from collections.abc import Sequence
from functools import cache

from ...hardware.vendors import AMD, vendor_of
from ...model import quantities
from ...model.errors import GputopError
from ...model.machine import Gpu, Machine
from ...model.page import Basis
from ...model.record import by_address
from ...model.snapshot import DataVerdict, NodeSnapshot
from ...model.units import size
from ...wiring.gpu_names import gpu_names
from ..nodes import GPU, System
from ..prediction import DecisionStep, DomainView, Graphs, PairDecision
from ..search.graphs import search_graphs
from ..search.version import search_version
from ..settings import Settings
from ..system.build import TooManyError
from ..system.compute import Computed
from ..system.domains import views
from ..system.limits import too_large
from ..system.networks import nets_of, with_socket_nic
from ..system.peers import Grant, Grants
from ..versions import Version, asked_for, preferred, taken_for, version_for
from ..xml.bus import NO_TREE
from .distances import Distances
from .domain import Domain
from .labels import SendUse, sends
from .left_out import remarks, unserved_gpus, without
from .netviews import local_nets, net_decisions
from .prediction_cache import LentSystem, PredictionCache, ranked_topology
from .reuse import gdr_of, reach_of
from .timing import hardware_of
from .transports import decide_pairs
from .untuned import TrackedSettings, UntunedDecision
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

WHOLE_BAR = 0.9
"""Share of the memory that a BAR shows: the driver sets some aside."""
FINE_GRAIN = "HSA_FORCE_FINE_GRAIN_PCIE"
CAN_CONNECT = "transport/p2p.cc:p2pCanConnect"


class NoGpusError(GputopError, ValueError):
    """There is nothing to predict: no GPU takes part, or the library refuses the topology."""


class UntunedBuilder:
    """One communicator of `nodes` identical hosts; raises NoGpusError, UnknownVersionError."""

    def __init__(
        self,
        snapshot: NodeSnapshot,
        settings: TrackedSettings,
        library: str | Version | None,
        gpus: Sequence[str] | None,
        nodes: int,
        cache: PredictionCache | None = None,
    ) -> None:
        unserved, remark = unserved_gpus(snapshot.machine)
        if unserved:
            snapshot = without(snapshot, unserved)
        self.snapshot, self.settings, self.nodes = snapshot, settings, nodes
        self.assumptions: dict[str, None] = dict.fromkeys(snapshot.assumptions)
        guess = near = None
        self.version: Version
        if isinstance(library, Version):
            self.version, self.asked = library, f"{library.library}-{library.number}"
        else:
            machine = snapshot.machine
            if library:
                self.asked = asked_for(library, machine)
                guess = taken_for(library, self.asked)
            else:
                self.asked, guess = preferred(machine)
            self.version, near = version_for(self.asked)
        self._assume(guess, near, self.version.beside, remark)
        file = snapshot.machine.nccl_topology
        if file is not None and (why := too_large(file, self.version)):
            raise self._refused(why)
        self.cache = cache
        make = ranked_topology if cache is None else cache.topology
        topology = make(snapshot, settings.values, self.version, gpus)
        settings.asked.update(topology.asked)
        self._assume(*topology.assumptions)
        self.root, self.group = topology.root, topology.group
        left_out = remarks(snapshot.machine.gpus)
        self._assume(mig_remark(snapshot), *left_out)
        if not self.group.ranks:
            raise NoGpusError("; ".join(("no GPU takes part", *left_out)))
        self.grants: Grants = grants_of(snapshot, self.group.addresses, settings)
        self.network = topology.network
        self.nic_assumed = False
        self.lent: LentSystem | None = None

    def _assume(self, *texts: str | None) -> None:
        for text in texts:
            plain = (text or "").removesuffix(".")
            if plain:
                self.assumptions.setdefault(plain)

    def _refused(self, why: str) -> NoGpusError:
        number = self.asked.partition("-")[2]
        return NoGpusError(f"{self.version.library.upper()} {number} refuses this topology: {why}")

    def computed(self) -> list[Computed]:
        """The paths of each domain of GPUs that reach each other. Raises NoGpusError."""
        try:
            return self._computed()
        except TooManyError as error:
            raise self._refused(str(error)) from error

    def _computed(self) -> list[Computed]:
        more = self.nodes > 1
        ranks = self.group.ranks
        version, settings = self.version, self.settings
        if self.cache is not None:
            self.lent = self.cache.lend(self.root, version, settings, ranks, placed=self._placed())
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
                    ranks=tuple(gpu.rank for gpu in view.system.nodes[GPU]),
                    nets=net_decisions(view),
                    local_nets=local_nets(domain),
                    steps={LOCAL: local_net_steps(domain)},
                )
            )
            view.system.let_go()
        return tuple(shown)

    def make(self) -> UntunedDecision:
        """All that the tuning starts from."""
        found = self.computed()
        remember = self.cache is not None or len(found) > 1
        all_graphs = [self._search(view, remember=remember) for view in found]
        domains = [
            Domain(view, graphs.ring, number, self._distances(view.system))
            for number, (view, graphs) in enumerate(zip(found, all_graphs, strict=True))
        ]
        devs = {gpu.rank: gpu for view in found for gpu in view.system.nodes[GPU]}
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
        made = UntunedDecision(
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
        if self.cache is not None and self.lent is not None:
            self.cache.take_back(self.lent)
        return made

    def _search(self, computed: Computed, *, remember: bool) -> Graphs:
        wanted = self.settings.integer("NCCL_NVLS_ENABLE", 2) != 0
        refused = fabric_refuses(self.snapshot.machine, computed.system)
        enough = len(computed.system.nodes[GPU]) >= self.version.nvls_least_gpus
        here = not self.version.is_rccl and enough
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
        if self.version.is_rccl:
            steps[MODEL] = model_steps(system, self.version, self.settings, graphs)
        else:
            steps[NVLS] = nvls_steps(
                system, self.version, self.settings, self.snapshot.machine, graphs
            )
        if not self.nic_assumed:
            steps[LOCAL] = local_net_steps(domain)
        return DomainView(
            ranks=tuple(gpu.rank for gpu in system.nodes[GPU]),
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


# What the driver said about pairs of GPUs, from a snapshot, in the words of the checks.
def grants_of(snapshot: NodeSnapshot, addresses: dict[str, str], settings: Settings) -> Grants:
    """Answers by bus id; `addresses` gives the PCI address of each bus id.

    The driver's word (NVML, amdsmi) comes from the pairs of the machine, that of CUDA or HIP from
    a probe that ran; what was simulated comes from the driver's word and adds nothing.
    """
    said, cuda = _driver_words(snapshot.machine), _probed_access(snapshot)
    parted = {gpu.address for gpu in snapshot.machine.gpus if gpu.mig_enabled}
    amd = by_address(gpu for gpu in snapshot.machine.gpus if vendor_of(gpu) is AMD)
    joined = {address: joined_to(gpu) for address, gpu in amd.items()}

    plain = cache(Grant)
    shared: dict[Grant, Grant] = {}

    @cache
    def linked(word: str | None, probed: bool | None) -> Grant:
        one = next(iter(amd.values()))  # any two: where a link joins them only the words count
        return amd_grant(snapshot.machine, settings, one, one, word, probed, joined=True)

    @cache
    def grant(src: str, dst: str) -> Grant:
        key = addresses.get(src, src), addresses.get(dst, dst)
        if parted and parted & {*key}:
            # The parts of a GPU get no peer access, whatever the links of the board are.
            return Grant(None, False, "MIG is on, and its instances get no peer access")
        if key[0] in amd and key[1] in amd:
            ends = amd[key[0]], amd[key[1]]
            if key[1] in joined[key[0]]:
                return linked(said.get(key), cuda.get(key))
            found = amd_grant(
                snapshot.machine, settings, *ends, said.get(key), cuda.get(key), joined=False
            )
            return shared.setdefault(found, found)
        return plain(said.get(key), cuda.get(key))

    return grant


def _driver_words(machine: Machine) -> dict[tuple[str, str], str]:
    """Pair -> the word of NVML or amdsmi: "ok", or the first that is not."""
    said: dict[tuple[str, str], str] = {}
    for pair in machine.pairs:
        words = [word for word in (pair.p2p_read, pair.p2p_write) if word is not None]
        if words:
            said[pair.src, pair.dst] = next((word for word in words if word != "ok"), "ok")
    return said


def _probed_access(snapshot: NodeSnapshot) -> dict[tuple[str | None, str | None], bool]:
    """Pair -> whether CUDA or HIP granted access in a probe that ran here."""
    return {
        (measurement.src, measurement.dst): measurement.verdict == DataVerdict.GRANTED
        for measurement in snapshot.measurements
        if measurement.quantity == quantities.CAN_ACCESS
        and measurement.verdict in (DataVerdict.GRANTED, DataVerdict.NOT_GRANTED)
        and not measurement.simulated
    }


def mig_remark(snapshot: NodeSnapshot) -> str | None:
    """The assumption of a prediction where MIG is on."""
    parted = [gpu.address for gpu in snapshot.machine.gpus if gpu.mig_enabled]
    if not parted:
        return None
    return (
        f"MIG is on for {gpu_names(parted, snapshot.machine)}: one rank on one instance of each "
        "GPU, without P2P and NVLS"
    )


# What RCCL needs for P2P besides a short path: memory, BARs and the IOMMU.
#
# RCCL tries an allocation of fine-grained or uncached memory (init.cc:fillInfo) and asks HIP
# whether the peer can be reached (transport/p2p.cc:p2pCanConnect); the driver grants that over PCIe
# when the BAR shows the whole memory. Of the IOMMU RCCL only warns (init.cc:ncclInit).
def joined_to(gpu: Gpu) -> frozenset[str]:
    """Addresses of the GPUs that an xGMI link of this one leads to."""
    return frozenset(
        link.remote_address
        for link in gpu.xgmi
        if link.active is not False and link.hops in (None, 1)
    )


def amd_grant(
    machine: Machine,
    settings: Settings,
    src: Gpu,
    dst: Gpu,
    said: str | None,
    probed: bool | None,
    *,
    joined: bool,
) -> Grant:
    """The grant of one ordered pair of AMD GPUs; `joined` by a link of their own (joined_to).

    `said`: amdsmi's word on P2P, "ok" or what is missing; `probed`: what HIP answered the p2p
    probe. Both are None where nobody was asked.
    """
    steps = [_fine_grained(settings)]
    refusal = "" if said in (None, "ok") else f"the driver says of P2P: {said}"
    if not joined:
        bars, small = _bars(src, dst)
        steps += [bars, _iommu(machine, src, dst)]
        refusal = refusal or (bars.because if small else "")
    if probed is None and refusal:
        return Grant(None, False, refusal, tuple(steps))
    return Grant(None, probed, "", tuple(steps))


def _fine_grained(settings: Settings) -> DecisionStep:
    forced = settings.text(FINE_GRAIN) == "1"
    because = (
        f"{FINE_GRAIN}=1"
        if forced
        else "a build with uncached memory, as ROCm's are, is assumed; others need "
        f"{FINE_GRAIN}=1 over PCIe"
    )
    return DecisionStep(
        question="is there fine-grained memory?",
        answer="yes",
        because=because,
        flag=FINE_GRAIN,
        source="init.cc:fillInfo",
        basis=Basis.ASSUMED,
    )


def _bars(src: Gpu, dst: Gpu) -> tuple[DecisionStep, bool]:
    """Ask about the BARs, and tell whether one is known to be too small."""
    known = [gpu for gpu in (src, dst) if gpu.bar1_bytes is not None and gpu.memory_bytes]
    small = [gpu for gpu in known if (gpu.bar1_bytes or 0) < WHOLE_BAR * (gpu.memory_bytes or 0)]
    answer, basis = "yes", Basis.READ
    if small:
        gpu = small[0]
        answer = "no"
        because = (
            f"{gpu.address} shows {size(gpu.bar1_bytes)} of {size(gpu.memory_bytes)}: over PCIe "
            "the driver grants no peer access then"
        )
    elif len(known) == 2:
        because = "resizable BAR is on for both"
    else:
        because, basis = "the size was not read; the whole memory is assumed", Basis.ASSUMED
    step = DecisionStep(
        question="does the BAR show the whole memory?",
        answer=answer,
        because=because,
        source=CAN_CONNECT,
        basis=basis,
    )
    return step, bool(small)


def _iommu(machine: Machine, src: Gpu, dst: Gpu) -> DecisionStep:
    devices = [machine.pci_device(gpu.address) for gpu in (src, dst)]
    types = [device.iommu_type for device in devices if device is not None]
    kinds = {kind for kind in types if kind is not None}
    flags = machine.host.cmdline_flags if machine.host is not None else None
    passes = flags is not None and "iommu=pt" in flags
    answer, basis = "yes", Basis.READ
    if kinds - {"identity"}:
        answer = "no"
        because = (
            f"it translates ({', '.join(sorted(kinds))}): RCCL only warns, and P2P over PCIe may "
            "hang; iommu=pt passes through"
        )
    elif kinds:
        because = "its groups are of type identity"
    elif passes:
        because = "iommu=pt on the kernel's command line"
    else:
        because, basis = "its groups were not read; passing through is assumed", Basis.ASSUMED
    return DecisionStep(
        question="does the IOMMU pass through?",
        answer=answer,
        because=because,
        source="init.cc:ncclInit",
        basis=basis,
    )
