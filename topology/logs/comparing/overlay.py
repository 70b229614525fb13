"""Predicts for the environment that a log shows, and compares the two."""

import re
from collections.abc import Iterable, Iterator

import msgspec

from ...model.element import Element
from ...model.snapshot import NodeSnapshot
from ...model.versions import LibraryName
from ...nccl.decide.predict import NoGpusError, predict
from ...nccl.prediction import Prediction
from ...nccl.settings import Settings
from ...nccl.versions import UnknownVersionError
from ...nccl.xml.machine import part_of_topology
from ...sources.collect import merge
from ..report.communicator import (
    C2C,
    LOC,
    XGMI,
    Communicator,
    LoggedGraph,
    LoggedLink,
    LoggedNode,
    LoggedSystem,
)
from ..report.places import address_of, first_host, gpu_ranks, gpus_from, normal
from ..report.report import LogReport
from ..report.settings import settings_from
from .agreement import Agreement
from .by_rules import by_rules
from .compare import compare
from .placing import completed, hosts_of

OWN_BLOCK = "the log's own System block"
_RCCL_WITH_DEVICES = "rccl-2.30.4"

# The topology XML behind a System block, so that a log without a node can be compared.
#
# The block holds the figures of NCCL's own tables and not those of the hardware, so the way back is
# exact for bandwidths: a PCI link of 24 GB/s becomes a speed and width that NCCL takes for 24. What
# the block does not hold (compute capability, GPUDirect, network names) is taken from other lines
# or assumed, and said so.
ARCHITECTURES = {"1": "x86_64", "2": "ppc64", "3": "arm64"}
VENDORS = {"1": "GenuineIntel", "2": "AuthenticAMD", "3": "  Shanghai  "}
INTEL_MODELS = {"1": "79", "2": "85", "3": "143", "4": "207"}
"""A model number for each class of CPU (graph/topo.cc:ncclTopoAddCpu)."""
AMD_FAMILIES = {"1": "23", "2": "25", "3": "26"}
"""A family for each class of AMD's CPUs, which NCCL 2.31 and later tell apart."""
SWITCH_TARGET = "fffffff:ff:ff.0"
LOCAL_GBS = 5000.0
_NIC_NAME = re.compile(r"Filled (\S+) in topo|for HCA (\d+) '([^']+)'")
_MINUS_ONE = re.compile(r"f{14,16}$")

_LANE_UNITS = (
    ("2.5 GT/s PCIe", 15),
    ("5.0 GT/s PCIe", 30),
    ("8.0 GT/s PCIe", 60),
    ("16.0 GT/s PCIe", 120),
    ("32.0 GT/s PCIe", 240),
    ("64.0 GT/s PCIe", 480),
)
"""Speed and NCCL's figure for a lane; GB/s is width x figure / 80 (graph/topo.cc:kvDictPciGen)."""

PER_LINK = ((90, 20.6), (80, 20.0), (100, 40.1), (86, 12.0), (60, 18.0))
"""Compute capability x10 and GB/s of one NVLink, likeliest first (graph/topo.h)."""
MOST_LINKS = {60: 4, 80: 12, 86: 4, 90: 18, 100: 18}
GEN4_GBS = 24.0
"""Sixteen lanes of generation 4; GPUs with generation 5 are Hopper, later GPUs or recent boards."""
XGMI_GBS = (("gfx942", 48.0), ("gfx90a", 36.0), ("gfx908", 24.0))
"""Targets and GB/s of one xGMI link, newest first (RCCL, graph/topo.h)."""

LADDER_90 = {60.0, 50.0, 24.0, 11.0}
LADDER_80 = {18.0, 10.0, 9.0, 7.0, 5.0, 4.0}
"""Channel speeds that only one of the two searches tries (graph/search.cc:sm90SpeedArrayIntra)."""


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    """A topology made from a log."""

    element: Element
    assumptions: tuple[str, ...] = ()


def rebuild(log: LogReport) -> Rebuilt | str:
    """Rebuild the topology of the first host; a sentence where the log does not hold enough."""
    comm = log.main
    if comm is None or not comm.systems:
        return "the log has no System block (NCCL_DEBUG_SUBSYS lacks GRAPH)"
    host = first_host(comm)
    blocks = [block for block in comm.systems if _host(comm, block) == host] or [comm.systems[0]]
    nodes = _merged(blocks)
    ranks = {name: rank for block in blocks for name, rank in gpu_ranks(comm, block).items()}
    if not ranks:
        return "the System block names no rank"
    if not all(block.complete for block in blocks):
        return "the System block is cut"
    whole = hosts_of(comm, settings_from(log)) * len(ranks)
    if (comm.nodes or 1) > 1 and len(comm.hosts) <= 1 and whole < comm.nranks:
        return (
            f"the log shows {len(ranks)} of {comm.nranks} GPUs: its System block holds only the "
            "GPUs of one domain, and the other ranks' blocks are not in this log"
        )
    if any(node.name.startswith(("CXB/", "GIN/", "RMA/")) for node in nodes.values()):
        return "the System block has nodes that cannot be turned back into a topology"
    return _Builder(log, comm, nodes, ranks).make()


def _host(comm: Communicator, system: LoggedSystem) -> str | None:
    return next((rank.host for rank in comm.ranks if rank.rank in system.ranks), None)


def _merged(blocks: list[LoggedSystem]) -> dict[str, LoggedNode]:
    """Merge the nodes of all blocks; where a host is split, each block shows its own GPUs."""
    nodes: dict[str, LoggedNode] = {}
    for block in blocks:
        for node in block.nodes:
            known = nodes.get(node.name)
            if known is None:
                nodes[node.name] = node
            else:
                links = dict.fromkeys((*known.links, *node.links))
                nodes[node.name] = msgspec.structs.replace(known, links=tuple(links))
    return nodes


class _Builder:
    def __init__(
        self,
        log: LogReport,
        comm: Communicator,
        nodes: dict[str, LoggedNode],
        ranks: dict[str, int],
    ) -> None:
        self.log, self.comm, self.nodes, self.ranks = log, comm, nodes, ranks
        self.assumptions = ["the machine is rebuilt from the log's own System block"]
        links = [link for node in nodes.values() for link in node.links]
        self.nvlinks = [link.gbs for link in links if link.nvlink]
        labels = {transport.label for transport in comm.transports}
        buses = [link.gbs for link in links if link.pci and link.to[:4] in ("GPU/", "DEV/")]
        self.xgmi = any(link.kind == XGMI for link in links)
        self.rccl = log.versions.library == LibraryName.RCCL or self.xgmi
        self.gcn = ""
        if self.rccl:
            self.sm = 0  # RCCL's number of compute units
            self.gcn, self.each, why = architecture(self.nvlinks)
        else:
            self.sm, why = capability(self.nvlinks, buses, labels, comm.graphs)
            self.each = dict(PER_LINK).get(self.sm, 20.0)
        self.assumptions.append(why)
        self.names, self.gdr = self._network()

    def make(self) -> Rebuilt:
        cpus = [node for node in self.nodes.values() if node.name.startswith("CPU/")]
        root = Element(
            tag="system",
            attributes=(("version", "2" if self.rccl else "1"),),
            children=tuple(self._cpu(node) for node in cpus),
        )
        return Rebuilt(element=root, assumptions=tuple(self.assumptions))

    def _network(self) -> tuple[dict[int, str], dict[int, bool]]:
        """Name the NICs by device number, with whether each reaches GPU memory."""
        names: dict[int, str] = {}
        gdr: dict[int, bool] = {}
        for note in self.log.notes:
            found = _NIC_NAME.search(note.text)
            if found is None:
                continue
            if found[1] is not None:
                names.setdefault(len(names), found[1])
            elif len(found[2]) < 6:
                names[int(found[2])] = found[3]
                gdr[int(found[2])] = "RDMA Enabled" in note.text
        return names, gdr

    def _cpu(self, node: LoggedNode) -> Element:
        arch, vendor, model = (*node.detail.split("/"), "", "", "")[:3]
        numa = node.name.rpartition("/")[2].rpartition("-")[2]
        number = -1 if _MINUS_ONE.match(numa) else int(numa, 16)
        attributes = [
            ("host_hash", "0x1"),
            ("numaid", str(number)),
            ("affinity", ""),
            ("arch", ARCHITECTURES.get(arch, "")),
            ("vendor", VENDORS.get(vendor, "")),
        ]
        if vendor == "1" and arch == "1":
            attributes += [("familyid", "6"), ("modelid", INTEL_MODELS.get(model, "0"))]
        elif vendor == "2" and arch == "1":
            attributes += [("familyid", AMD_FAMILIES.get(model, "0")), ("modelid", "0")]
        elif vendor == "3":
            attributes += [("familyid", "7"), ("modelid", "91" if model == "1" else "0")]
        else:
            attributes += [("familyid", "0"), ("modelid", "0")]
        children = tuple(self._below(node))
        return Element(tag="cpu", attributes=tuple(attributes), children=children)

    def _below(self, node: LoggedNode) -> Iterator[Element]:
        for link in node.links:
            child = self.nodes.get(link.to)
            if not link.pci or child is None or child.parent != node.name:
                continue
            if child.name.startswith("NIC/") and link.gbs >= LOCAL_GBS:
                yield self._nic(child)
            else:
                yield self._pci(child, link)

    def _pci(self, node: LoggedNode, link: LoggedLink) -> Element:
        speed, width = lanes(link.gbs)
        kind = node.name[:3]
        classes = {"PCI": "0x060400", "NIC": "0x020000"}
        device = node.detail if kind == "PCI" else ""
        ids = [device[place : place + 4] for place in (0, 4, 8, 12)] if len(device) == 16 else []
        attributes = [
            ("busid", address_of(node.name) or ""),
            ("class", classes.get(kind, "0x030200")),
            *((name, f"0x{value}") for name, value in zip(_IDS, ids, strict=False)),
            ("link_speed", speed),
            ("link_width", str(width)),
        ]
        if kind == "PCI":
            children = tuple(self._below(node))
        elif kind == "NIC":
            children = (self._nic(node),)
        else:
            children = (self._gpu(node),)
        return Element(tag="pci", attributes=tuple(attributes), children=children)

    def _gpu(self, node: LoggedNode) -> Element:
        links = node.links
        name = node.name
        if name.startswith("DEV/"):
            # Since 2.30 the device has the links and the rank hangs on the device.
            name = next((link.to for link in links if link.kind == LOC), name)
        rank = self.ranks.get(name)
        seen = None if rank is None else self.comm.rank(rank)
        dev = rank if seen is None or seen.nvml_dev is None else seen.nvml_dev
        attributes = [("dev", str(dev if dev is not None else 0)), ("sm", str(self.sm))]
        attributes += [("gcn", self.gcn)] if self.gcn else []
        if rank is not None:
            attributes.append(("rank", str(rank)))
        attributes.append(("gdr", "1"))
        children = tuple(self._gpu_links(links))
        return Element(tag="gpu", attributes=tuple(attributes), children=children)

    def _gpu_links(self, links: tuple[LoggedLink, ...]) -> Iterator[Element]:
        for link in links:
            if link.nvlink:
                switch, cpu = link.to.startswith("NVS/"), link.to.startswith("CPU/")
                target = SWITCH_TARGET if switch else address_of(link.to) or ""
                kind = "0x068000" if switch else "0x068001" if cpu else "0x030200"
                count = count_of(link.gbs, self.each)
                yield Element(
                    tag="xgmi" if self.xgmi else "nvlink",
                    attributes=(("target", target), ("count", str(count)), ("tclass", kind)),
                )
            elif link.kind == C2C:
                bandwidth = str(round(link.gbs * 1000))
                yield Element(tag="c2c", attributes=(("bw", bandwidth), ("count", "1")))

    def _nic(self, node: LoggedNode) -> Element:
        nets = [self.nodes[link.to] for link in node.links if link.to in self.nodes]
        return Element(tag="nic", children=tuple(self._net(net) for net in nets))

    def _net(self, node: LoggedNode) -> Element:
        parts = node.detail.split("/")
        coll, guid, port, speed = ("0", *parts)[-4:] if len(parts) >= 3 else ("0", "0", "0", "1.25")
        number = int(node.name.rpartition("/")[2].rpartition("-")[2], 16)
        gdr = self.gdr.get(number, False)
        attributes = (
            ("name", self.names.get(number, f"net{number}")),
            ("dev", str(number)),
            ("speed", str(round(_number(speed) * 8000))),
            ("port", port),
            ("latency", "0.000000"),
            ("guid", f"0x{guid}"),
            ("maxconn", "65536"),
            ("gdr", "1" if gdr else "0"),
            ("coll", coll),
        )
        return Element(tag="net", attributes=attributes)


_IDS = ("vendor", "device", "subsystem_vendor", "subsystem_device")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.25


# Turn bandwidths of the System block back into links (constants: NCCL graph/topo.h).
def lanes(gbs: float) -> tuple[str, int]:
    """A speed and width that NCCL takes for this bandwidth; full width where that is possible."""
    best = min(
        (
            (abs(width * unit / 80 - gbs), -width, speed, width)
            for speed, unit in _LANE_UNITS
            for width in (16, 8, 4, 2, 1)
        ),
    )
    return best[2], best[3]


def capability(
    nvlinks: Iterable[float],
    buses: Iterable[float],
    labels: Iterable[str],
    graphs: Iterable[LoggedGraph],
) -> tuple[int, str]:
    """Compute capability x10 of the GPUs, and how it was concluded.

    The log does not print it. The bandwidth of NVLinks and of PCIe links, the read label and the
    speeds of channels tell most generations apart.
    """
    peers = [label for label in labels if label.startswith("P2P/") and "indirect" not in label]
    if any("/read" in label for label in peers):
        return 80, "compute capability 8.0, because P2P reads are for that alone"
    links = [gbs for gbs in nvlinks if gbs > 0]
    if links:
        for sm, each in PER_LINK:
            if not all(_whole(gbs, each, MOST_LINKS[sm]) for gbs in links):
                continue
            if sm == 80 and peers:
                return 70, "compute capability 7.0: NVLinks count 20.0 GB/s, and nothing is read"
            return sm, f"compute capability {sm / 10:.1f}, because NVLinks count {each} GB/s"
    speeds = {graph.bw_intra for graph in graphs if graph.pattern == 4}
    if speeds & LADDER_90:
        return 90, "compute capability 9.0, because of the channels' bandwidth"
    if speeds & LADDER_80:
        return 80, "compute capability 8.0, because of the channels' bandwidth"
    if all(gbs <= GEN4_GBS for gbs in buses):
        return 89, "compute capability 8.9 is assumed, for the PCIe links are generation 4 or less"
    return 90, "compute capability 9.0 is assumed: the log does not tell it"


def architecture(links: Iterable[float]) -> tuple[str, float, str]:
    """Target of the AMD GPUs, GB/s of one of their links, and how both were concluded."""
    positive = [gbs for gbs in links if gbs > 0]
    for name, each in XGMI_GBS:
        if positive and all(_whole(gbs, each, 16) for gbs in positive):
            return name, each, f"{name} is assumed, because xGMI counts {each} GB/s a link"
    name, each = XGMI_GBS[0]
    return name, each, f"the log does not tell the architecture of the GPUs: {name} is assumed"


def _whole(gbs: float, each: float, most: int) -> bool:
    count = round(gbs / each)
    return 1 <= count <= most and abs(count * each - gbs) <= 0.051


def count_of(gbs: float, each: float) -> int:
    """How many links make this bandwidth."""
    return max(1, round(gbs / each))


class Overlay(msgspec.Struct, frozen=True, kw_only=True):
    """A prediction for what the log shows, and how far the two agree."""

    agreement: Agreement
    prediction: Prediction | None = None
    node: str = ""
    """What the prediction was made for: names of files, "live", or the log's own block."""
    assumptions: tuple[str, ...] = ()


def lay(log: LogReport, snapshot: NodeSnapshot | None, *, library: str | None = None) -> Overlay:
    """Predict for the environment, version and GPUs that the log shows, and compare.

    `snapshot` is the node; None rebuilds it from the log's own System block. `library`
    ("nccl-2.28.9") overrides the version in the log. Never raises for what a log holds.
    """
    comm = log.main
    if comm is None:
        return _none("the log shows no communicator")
    assumptions: tuple[str, ...] = ()
    if snapshot is None:
        found = rebuild(log)
        if isinstance(found, str):
            rules = library or library_of(log)
            return Overlay(agreement=by_rules(comm, settings_from(log), rules, found))
        snapshot, assumptions = snapshot_of(found), found.assumptions
    else:
        log, assumptions = completed(log, snapshot.machine)
    known = {normal(gpu.address): gpu.address for gpu in snapshot.machine.gpus}
    wanted = [known[address] for address in gpus_from(log) if address in known]
    if not wanted:
        return _none("the GPUs of the log are not those of this node")
    settings = settings_from(log)
    hosts = hosts_of(log.main or comm, settings)
    try:
        prediction = predict(
            snapshot,
            Settings(settings),
            library=library or library_of(log),
            gpus=wanted,
            nodes=hosts,
        )
    except (NoGpusError, UnknownVersionError) as error:
        return _none(str(error))
    return Overlay(
        agreement=compare(log, prediction, hosts=hosts),
        prediction=prediction,
        node=", ".join(snapshot.source),
        assumptions=(*assumptions, *prediction.assumptions),
    )


def _none(why: str) -> Overlay:
    return Overlay(agreement=Agreement(comparable=False, why_not=why))


def snapshot_of(rebuilt: Rebuilt) -> NodeSnapshot:
    """Make a snapshot of a rebuilt topology."""
    part = part_of_topology(rebuilt.element)
    return merge([part], taken_at=0.0, source=(OWN_BLOCK,), gputop="")


def library_of(log: LogReport) -> str | None:
    """Name the rules for the library of a log: "nccl-2.28.9"; None when the log does not say."""
    versions = log.versions
    if versions.library is None:
        return None
    if versions.version is None:
        return (
            _RCCL_WITH_DEVICES
            if versions.library == LibraryName.RCCL and _has_devices(log)
            else None
        )
    return f"{versions.library}-{versions.version}"


def _has_devices(log: LogReport) -> bool:
    """Whether ranks hang on nodes for devices in the System block, as they do since 2.30."""
    return any(
        node.name.startswith("DEV/")
        for comm in log.communicators
        for system in comm.systems
        for node in system.nodes
    )
