"""Algorithm, protocol and time by size, from the graphs of all views."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ..nodes import CPU, GPU, NET, NVLINK, CpuVendor, System
from ..prediction import AlgorithmChoice, Graphs, Tuning
from ..search.rccl_models import models
from ..search.ready_made import CHORDAL
from ..settings import Settings
from ..tuning import msccl, remarks
from ..tuning.channels import coll_channels
from ..tuning.choices import SIZES, choose
from ..tuning.choices import choices as choices_of
from ..tuning.inputs import TuningInput
from ..tuning.merging import merge
from ..tuning.model import tuning as tuning_of
from ..tuning.rccl import choose as rccl_choose
from ..tuning.rccl import coll_channels as rccl_channels
from ..tuning.rccl import rccl_tuning
from ..tuning.rccl_inputs import RcclInput, rccl_rules
from ..tuning.version import TuningVersion, assumption
from ..versions import Version

RCCL_TURNED = (
    "NCCL_ALGO", "NCCL_PROTO", "NCCL_NTHREADS", "NCCL_LL128_NTHREADS", "NCCL_THREAD_THRESHOLDS",
    "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS",
    "NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_TUNER_PLUGIN", "NCCL_NET_OVERHEAD",
    "RCCL_OVERRIDE_ALGO", "RCCL_OVERRIDE_PROTO", "RCCL_CHANNEL_TUNING_ENABLE",
    "RCCL_LL128_FORCE_ENABLE", "RCCL_MSCCL_FORCE_ENABLE", "RCCL_REDUCED_CU_ENABLE",
    "RCCL_WARP_SPEED_ENABLE", "RCCL_WARP_SPEED_AUTO", "RCCL_WARP_SPEED_CU_COUNT",
)  # fmt: skip
"""Variables that turn RCCL's choice in ways that are not followed."""
MOST_BETWEEN = 4
"""GPUs that RCCL's chain of xGMI may have between two (MAX_XGMI_INTER_GPUS)."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of the tuning model for one communicator; empty without one (older RCCL)."""

    choices: tuple[AlgorithmChoice, ...] = ()
    tuning: Tuning = {}
    coll_channels: int | None = None
    ignored: tuple[tuple[str, str, str], ...] = ()
    failure: str | None = None
    assumptions: tuple[str, ...] = ()


class Hardware(NamedTuple):
    """Facts about the systems of all views that the tuning model asks for."""

    cpu_arch: str
    cpu_vendor: str
    net_gbs: float | None
    """Of the slowest NIC."""
    min_sm: int
    max_sm: int
    local_ranks: int
    """Most GPUs of one view."""
    gfx: str = ""
    units: int = 0
    """Compute units of an AMD GPU."""
    joined: int | None = None
    """GPUs between those farthest apart over xGMI; None where it does not join all of a view."""


def hardware_of(systems: Sequence[System]) -> Hardware:
    """Collect the figures; the first CPU counts."""
    cpu = systems[0].nodes[CPU][0] if systems[0].nodes[CPU] else None
    speeds = [net.speed_gbs for system in systems for net in system.nodes[NET]]
    first = systems[0].nodes[GPU][:1]
    chains = [_joined(system) for system in systems]
    return Hardware(
        cpu_arch=cpu.arch if cpu is not None else "x86",
        cpu_vendor=cpu.vendor if cpu is not None else "",
        net_gbs=min(speeds, default=None),
        min_sm=min(system.min_sm for system in systems),
        max_sm=max(system.max_sm for system in systems),
        local_ranks=max(len(system.nodes[GPU]) for system in systems),
        gfx=first[0].arch if first else "",
        units=first[0].units if first else 0,
        joined=None if None in chains else max(filter(None, chains), default=0),
    )


def _joined(system: System) -> int | None:
    """GPUs between those farthest apart, by direct xGMI (search.cc:ncclTopoGetLinkType)."""
    gpus = system.nodes[GPU]
    beside = [
        {
            other
            for other, path in enumerate(gpu.paths[GPU])
            if len(path.links) == 1 and path.links[0].kind is NVLINK
        }
        for gpu in gpus
    ]
    most = 0
    for start in range(len(gpus)):
        seen, ring, steps = {start}, {start}, 0
        while ring and len(seen) < len(gpus):
            ring = {other for gpu in ring for other in beside[gpu]} - seen
            seen |= ring
            steps += bool(ring)
        if len(seen) < len(gpus):
            return None
        most = max(most, steps - 1)
    return most if most <= MOST_BETWEEN else None


def input_of(
    hardware: Hardware,
    graphs: Sequence[Graphs],
    settings: Settings,
    *,
    number: str,
    ranks: int,
    nodes: int,
    table: TuningVersion | None = None,
) -> TuningInput:
    """The input of NCCL `number`'s tuning model; `graphs` are those of all views."""
    merged = merge(graphs)
    return TuningInput(
        graphs=merged,
        ranks=ranks,
        nodes=nodes,
        min_sm=hardware.min_sm,
        max_sm=hardware.max_sm,
        cpu_arch=hardware.cpu_arch,
        cpu_vendor=hardware.cpu_vendor,
        net_gbs=hardware.net_gbs,
        nvls=merged.nvls is not None,
        tree_patterns=tuple(graph.tree.pattern for graph in graphs if graph.tree is not None),
        local_ranks=hardware.local_ranks,
        number=number,
        settings=settings,
        table=table,
    )


def timing_of(
    hardware: Hardware,
    graphs: Sequence[Graphs],
    version: Version,
    settings: Settings,
    *,
    asked: str,
    ranks: int,
    nodes: int,
    table: TuningVersion | None = None,
) -> Timing:
    """Run the tuning model; `asked` is the version as it was named, "nccl-2.28.9".

    `table`: what it computes with, where that is not what the version says.
    """
    number = asked.rpartition("-")[2]
    if version.is_rccl:
        rccl = rccl_input_of(hardware, graphs, version, ranks=ranks, nodes=nodes)
        unknown = _unfollowed(hardware, version, settings, number)
        if rccl is None or unknown:
            runs = () if rccl is None else msccl.remarks(rccl, settings)
            return Timing(assumptions=tuple(filter(None, (unknown, *runs))))
        return _rccl_timing(rccl, settings)
    comm = input_of(
        hardware, graphs, settings, number=number, ranks=ranks, nodes=nodes, table=table
    )
    figures = tuning_of(comm)
    count = coll_channels(comm)
    return Timing(
        choices=choices_of(comm, figures, count),
        tuning={
            collective: {
                algorithm: {
                    protocol: (round(time, 3), round(gbs, 3))
                    for protocol, (time, gbs) in cells.items()
                }
                for algorithm, cells in by_algorithm.items()
            }
            for collective, by_algorithm in figures.items()
        },
        coll_channels=count,
        ignored=remarks.ignored(comm),
        failure=remarks.failure(comm),
        assumptions=remarks.assumptions(comm),
    )


def pick(
    hardware: Hardware,
    graphs: Sequence[Graphs],
    version: Version,
    settings: Settings,
    *,
    asked: str,
    ranks: int,
    nodes: int,
    call: tuple[str, int],
) -> AlgorithmChoice | None:
    """The choice for one call, a collective and its bytes; None where it is not predicted."""
    number = asked.rpartition("-")[2]
    if version.is_rccl:
        rccl = rccl_input_of(hardware, graphs, version, ranks=ranks, nodes=nodes)
        if rccl is None or _unfollowed(hardware, version, settings, number):
            return None
        return rccl_choose(rccl, rccl_tuning(rccl), rccl_channels(rccl), *call)
    comm = input_of(hardware, graphs, settings, number=number, ranks=ranks, nodes=nodes)
    return choose(comm, tuning_of(comm), coll_channels(comm), *call)


def _unfollowed(
    hardware: Hardware, version: Version, settings: Settings, number: str
) -> str | None:
    """Why RCCL's channels and picks are not predicted; None where they are."""
    if rccl_rules(version.number) is None:
        return assumption(version.library, number)
    turned = [name for name in RCCL_TURNED if settings.text(name)]
    if turned:
        return f"the choice of algorithm of RCCL is not predicted under {' and '.join(turned)}"
    if not hardware.gfx:
        return "RCCL's choice of algorithm hangs on the GPUs' architecture, which is not known"
    return None


def rccl_input_of(
    hardware: Hardware, graphs: Sequence[Graphs], version: Version, *, ranks: int, nodes: int
) -> RcclInput | None:
    """The input of RCCL's tuning; None without graphs, or of a version that is not followed."""
    merged, rules = merge(graphs), rccl_rules(version.number)
    if merged.ring is None or merged.tree is None or rules is None:
        return None
    known = next((model for model in models() if model.name == merged.ring.model), None)
    return RcclInput(
        rules=rules,
        ring=merged.ring,
        tree=merged.tree,
        ranks=ranks,
        nodes=nodes,
        arch=hardware.gfx,
        units=hardware.units,
        joined=hardware.joined,
        amd_cpu=hardware.cpu_vendor == CpuVendor.AMD,
        known=known is not None,
        options={} if known is None else known.options_of(version),
        chordal=merged.ring.model == CHORDAL,
    )


def _rccl_timing(comm: RcclInput, settings: Settings) -> Timing:
    figures, count = rccl_tuning(comm), rccl_channels(comm)
    picked = [rccl_choose(comm, figures, count, "AllReduce", size) for size in SIZES]
    return Timing(
        choices=tuple(
            msgspec.structs.replace(choice, instead=msccl.by_files(comm, settings, choice.bytes))
            for choice in picked
            if choice is not None
        ),
        tuning=figures,
        coll_channels=count,
        assumptions=(*_unbuilt(comm), *msccl.remarks(comm, settings)),
    )


def _unbuilt(comm: RcclInput) -> tuple[str, ...]:
    """The failure where a default build has no kernels for the GPUs."""
    built = comm.rules.built_for
    if not built or comm.arch.startswith(built):
        return ()
    version = f"RCCL {comm.rules.number}"
    return (f"a default build of {version} has no kernels for {comm.arch}: it does not run there",)
