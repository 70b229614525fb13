"""A job over hosts that share an NVLink domain (NVL72): NCCL joins them into one system (MNNVL).

The rings over joined hosts are not predicted. The figure is a range, from the links and from what
others measured, and it never leaves the domain out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ..hardware.specs import GOOD, LOOK, BoardLinks, PublishedFigure, Sku, sku_for
from ..model.english import first
from ..model.machine import Fabric, Gpu
from ..model.snapshot import NodeSnapshot
from ..model.units import figure as three
from ..nccl.hosts.records import MultiNode
from ..nccl.hosts.spread import bus_gbs
from ..nccl.settings import Settings
from ..nccl.versions import version_for
from ..wiring.gpu_names import gpu_label
from .collective_figures import LARGE_BYTES

FLAG = "NCCL_MNNVL_ENABLE"
QUANTITY = "allreduce_busbw"
MOST_NAMED = 4


class RackDomain(msgspec.Struct, frozen=True, kw_only=True):
    """The NVLink domain of a job over several hosts. GB/s of bus bandwidth, all-reduce of 1 GiB."""

    gpus: int
    """That one domain holds at most."""
    hosts: int
    """Hosts like this one in a whole domain."""
    spanned: int
    """Domains that the job needs at least."""
    joined: bool | None
    """Whether NCCL joins hosts; None where nothing tells whether they are of one clique, False
    where this host shows that they are not."""
    low: float
    high: float
    by_nics: float | None
    """What the NICs alone would give, if MNNVL did not come up."""
    measured: tuple[str, ...]
    """What others measured in such a domain, with the source."""
    notes: tuple[str, ...]
    """What it needs and what is not known, as sentences."""
    faults: tuple[str, ...] = ()
    """What this host shows that lets the job fail, as sentences."""
    apart: tuple[str, ...] = ()
    """What it shows that keeps NCCL from joining its GPUs with the others; the job starts."""


def domain_of(snapshot: NodeSnapshot, settings: Settings, many: MultiNode) -> RackDomain | None:
    """The domain of a job; None where no NVLink leads out of a host."""
    gpus = snapshot.machine.gpus
    sku, clique = _model(gpus), _clique(gpus)
    if sku is None or not (_leaves_the_host(sku, len(gpus), clique) and _joins(many, settings)):
        return None
    known = _known(sku)
    if not known:
        return None
    size = sku.world_size or 0
    hosts, spanned = size // len(gpus), -(-many.ranks // size)
    by_nics = bus_gbs(many.choices[-1], many.ranks) if many.choices else None
    unregistered, cliques = _unregistered(gpus), _cliques(gpus)
    apart = (*unregistered, *cliques)
    low, high = _range(sku, known)
    if by_nics is not None:
        whole = clique is not None and spanned == 1 and not apart
        low = low if whole else min(low, by_nics)
        high = by_nics if unregistered else high
    return RackDomain(
        gpus=size,
        hosts=hosts,
        spanned=spanned,
        joined=False if apart else None if clique is None else True,
        low=low,
        high=high,
        by_nics=by_nics,
        measured=tuple(map(_told, known)),
        notes=tuple(_notes(many, hosts, spanned, clique, by_nics, _missing(snapshot))),
        faults=tuple(_faults(snapshot)),
        apart=apart,
    )


def _faults(snapshot: NodeSnapshot) -> Iterator[str]:
    """Each rank exports a fabric handle, which goes by IMEX (mnnvl.cc: ncclMnnvlCheck)."""
    host = snapshot.machine.host
    if host is not None and host.imex_channels is False:
        yield (
            "No IMEX channel may be opened here (/dev/nvidia-caps-imex-channels): NCCL ends with "
            '"MNNVL is available but not working".'
        )
    if host is not None and host.imex_domain is not None:
        for one, other, sign in host.imex_domain.apart:
            yield (
                f"{one.label} and {other.label} are ready and not connected ({sign}, by "
                "nvidia-imex-ctl): a job over both ends with "
                '"MNNVL is available but not working".'
            )


def _missing(snapshot: NodeSnapshot) -> str:
    """The hosts whose daemon does not answer, as a sentence; "" where none is known."""
    host = snapshot.machine.host
    domain = None if host is None else host.imex_domain
    if domain is None or not domain.unready:
        return ""
    names = first([node.label for node in domain.unready], MOST_NAMED)
    return (
        f"{len(domain.unready)} of the {len(domain.nodes)} hosts of its IMEX domain do not answer "
        f"or are not ready: {names}; a job over one of them does not start."
    )


def _unregistered(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """One of these among all ranks, and NCCL takes MNNVL for none (mnnvl.cc: ncclMnnvlCheck)."""
    return tuple(
        f"{gpu_label(gpu)} has not registered with the fabric ({gpu.fabric.state}): no rank of "
        "the job takes MNNVL."
        for gpu in gpus
        if gpu.fabric is not None and gpu.fabric.state is not None and not gpu.fabric.joined
    )


def _cliques(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """NCCL joins the ranks of one clique."""
    told = {
        gpu_label(gpu): gpu.fabric.partition
        for gpu in gpus
        if gpu.fabric is not None and gpu.fabric.partition is not None
    }
    if len(set(told.values())) < 2:
        return ()
    each = "; ".join(f"{name} is in clique {clique}" for name, (_, clique) in told.items())
    return (f"The GPUs of this host are not of one clique: {each}. NICs join cliques.",)


def _leaves_the_host(sku: Sku, own: int, clique: str | None) -> bool:
    """Whether NVLink does: "" is a clique of which NVML says that these GPUs are in none."""
    if (sku.world_size or 0) <= own or clique == "":
        return False
    return clique is not None or "world_size" not in sku.unconfirmed


def _joins(many: MultiNode, settings: Settings) -> bool:
    """Whether the library makes one system of the hosts of a clique."""
    if many.library.name != "nccl" or settings.integer(FLAG, 2) == 0:
        return False
    version, _ = version_for(f"{many.library.name}-{many.library.version}")
    return version.mnnvl


def _range(sku: Sku, known: list[PublishedFigure]) -> tuple[float, float]:
    """Both ends in GB/s, of what others measured in such a domain."""
    most = max(max((value for _, value in one.curve), default=one.measured) for one in known)
    high = min(most / GOOD, sku.total_gbs or most / GOOD)
    return LOOK * min(_at_large(one) for one in known), high


def _model(gpus: tuple[Gpu, ...]) -> Sku | None:
    models = {sku.name: sku for gpu in gpus if (sku := sku_for(gpu)) is not None}
    if len(models) != 1:
        return None
    (sku,) = models.values()
    return sku if sku.fabric is BoardLinks.SWITCHED else None


def _clique(gpus: tuple[Gpu, ...]) -> str | None:
    """The cluster's UUID and the clique; "" for no cluster, None where nothing tells."""
    fabrics: list[Fabric] = [gpu.fabric for gpu in gpus if gpu.fabric is not None]
    told = [fabric for fabric in fabrics if fabric.cluster_uuid is not None]
    if not told:
        return None
    uuid = told[0].cluster_uuid or ""
    if not uuid.strip("0-"):
        return ""
    return f"{uuid}, clique {told[0].clique_id}"


def _known(sku: Sku) -> list[PublishedFigure]:
    return [one for one in sku.expected(QUANTITY) if one.gpus]


def _at_large(figure: PublishedFigure) -> float:
    """The figure at 1 GiB, where a run shows it."""
    return next((value for size, value in figure.curve if size >= LARGE_BYTES), figure.measured)


def _told(figure: PublishedFigure) -> str:
    at = _at_large(figure)
    largest = f", {three(figure.measured)} at most" if figure.measured > at else ""
    return f"{three(at)} GB/s at 1 GiB{largest} on {figure.gpus} GPUs ({figure.source})"


def _notes(
    many: MultiNode,
    hosts: int,
    spanned: int,
    clique: str | None,
    by_nics: float | None,
    missing: str,
) -> list[str]:
    version = f"NCCL {many.library.version}"
    found = [
        f"{version} joins the hosts of one clique into one system (MNNVL); its rings over joined "
        "hosts are not predicted here."
    ]
    if clique is None:
        found.append(
            "Whether these hosts are of one clique is not told: `nvidia-smi -q` has ClusterUUID "
            "and CliqueId under Fabric, and they must be equal on all hosts."
        )
    else:
        found.append(f"All hosts must report this cluster: {clique}.")
    if spanned > 1:
        found.append(
            f"{many.hosts} hosts need {spanned} domains of {hosts} hosts; between domains the "
            "NICs carry the bytes."
        )
    elif many.hosts < hosts:
        found.append(
            f"{hosts - many.hosts} of the {hosts} hosts of a whole domain take no part: if one is "
            "missing by mistake, `nvidia-imex-ctl -N` names it."
        )
    if missing:
        found.append(missing)
    fall = "" if by_nics is None else f" at {three(by_nics)} GB/s"
    found.append(
        "The service nvidia-imex must run on all hosts, with its channel in every container (by a "
        "ComputeDomain in Kubernetes: a mounted device alone ends in CUDA error 801); else "
        f'NCCL ends with "MNNVL is available but not working" (mnnvl.cc), and {FLAG}=0 then goes '
        f"by the NICs alone{fall}."
    )
    return found
