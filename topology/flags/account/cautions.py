"""What speaks for or against more P2P on this node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median

from ...model import quantities
from ...model.snapshot import NodeSnapshot
from ...nccl.prediction import Prediction
from ..what_if.in_words import pairs_in_words


def p2p_cautions(
    snapshot: NodeSnapshot, prediction: Prediction, pairs: Iterable[tuple[int, int]]
) -> tuple[str, ...]:
    """Write sentences on the driver's grant, the IOMMU and ACS for the given pairs of ranks."""
    wanted = tuple(pairs)
    if not wanted:
        return ()
    found = [_granted(snapshot, prediction, wanted), _iommu(snapshot), _acs(snapshot)]
    return tuple(text for text in found if text)


def measured(snapshot: NodeSnapshot, prediction: Prediction) -> str:
    """Say what a probe measured between GPUs, by path type; "" when it measured nothing."""
    paths = {(p.src_bus_id.lower(), p.dst_bus_id.lower()): p.path for p in prediction.pairs}
    by_path: dict[str, list[float]] = defaultdict(list)
    basis = ""
    for figure in snapshot.measurements:
        path = paths.get((str(figure.src), str(figure.dst)))
        if figure.quantity == quantities.WRITE and figure.value is not None and path:
            by_path[path].append(figure.value)
            basis = figure.basis
    if not by_path:
        return ""
    rates = ", ".join(
        f"{path} {median(values):.1f} GB/s ({len(values)} directions)"
        for path, values in sorted(by_path.items())
    )
    return f"{basis.capitalize()} here with P2P writes, one way: {rates}."


def _granted(
    snapshot: NodeSnapshot, prediction: Prediction, pairs: tuple[tuple[int, int], ...]
) -> str:
    """Say what the driver grants these pairs."""
    address = {pair.src: pair.src_bus_id for pair in prediction.pairs}
    said = {(pair.src, pair.dst): pair for pair in snapshot.machine.pairs}
    refused: dict[str, list[tuple[int, int]]] = defaultdict(list)
    unknown = 0
    for src, dst in pairs:
        pair = said.get((address.get(src, ""), address.get(dst, "")))
        words = {pair.p2p_read, pair.p2p_write} if pair is not None else {None}
        if None in words:
            unknown += 1
        for word in sorted(str(word) for word in words if word not in (None, "ok"))[:1]:
            refused[word].append((src, dst))
    if refused:
        word, some = max(refused.items(), key=lambda item: len(item[1]))
        return f"The driver refuses P2P for {pairs_in_words(some)} ({word}): no flag changes that."
    if unknown == len(pairs):
        return "Whether the driver grants P2P for these pairs was not asked."
    return "NVML calls P2P possible for these pairs; whether it is fast there it does not say."


def _iommu(snapshot: NodeSnapshot) -> str:
    gpus = {gpu.address for gpu in snapshot.machine.gpus}
    types = {d.iommu_type for d in snapshot.machine.pci if d.address in gpus and d.iommu_type}
    if not types:
        return ""
    if types == {"identity"}:
        return "The IOMMU passes the GPUs' addresses through (identity), as P2P wants it."
    words = ", ".join(sorted(types))
    return (
        f"The IOMMU translates the GPUs' addresses (type {words}): P2P over PCIe may hang, give "
        "wrong data or crawl until the host boots with iommu=pt."
    )


def _acs(snapshot: NodeSnapshot) -> str:
    bridges = [d for d in snapshot.machine.pci if d.kind in ("root port", "switch downstream")]
    on = [d for d in bridges if d.acs]
    if on:
        controls = ", ".join(sorted({name for device in on for name in device.acs or ()}))
        return (
            f"ACS is switched on at {len(on)} PCIe ports ({controls}): traffic between GPUs is "
            "sent up to the root port, which slows or breaks P2P below a switch."
        )
    if bridges and all(device.acs == () for device in bridges):
        return "ACS is off at every PCIe port, so traffic below a switch stays there."
    if bridges:
        return "Whether ACS redirects traffic at the PCIe ports is not readable without root."
    return ""
