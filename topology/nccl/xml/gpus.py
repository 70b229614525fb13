"""A `gpu` element as a Gpu record, with its NVLinks or xGMI links."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import msgspec

from ...hardware.vendors import AMD, BY_PCI_ID, NVIDIA
from ...model.element import Element
from ...model.machine import Gpu, NvLink, XgmiLink
from ...model.record import Gap
from .values import address, complete, link_gaps, speed_gts, whole

NPU_CLASS = "0x068001"
MOST_LINKS = 64
"""Links of one bundle that become records; more are a mistake in the file."""
GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
GCN = {
    "906": "gfx906",
    "908": "gfx908",
    "910": "gfx90a",
    "940": "gfx940",
    "941": "gfx941",
    "942": "gfx942",
}
"""Old numbers of `gcn` (RCCL misc/archinfo.cc:convertGcnArchToGcnArchName)."""
ABSENT = "the XML leads them to a device that is not in it, where NCCL adds no link"


def gpu_of(
    pci: Element, gpu: Element, own: str, numa: int | None, version: int, addresses: frozenset[str]
) -> Gpu:
    """Make the record of the GPU at `own`; `addresses` are those of all GPUs of the file."""
    vendor = whole(pci, "vendor")
    maker = BY_PCI_ID.get(vendor or 0)
    amd = maker is AMD or (maker is not NVIDIA and (version == 2 or gpu.get("gcn") is not None))
    device = whole(pci, "device")
    gts, width = speed_gts(pci), whole(pci, "link_width", least=1)
    nvlinks = tuple(_nvlinks(gpu, addresses))
    record = Gpu(
        address=own,
        vendor=(AMD if amd else NVIDIA).id,
        index=whole(gpu, "dev"),
        compute_capability=_gfx(gpu) if amd else _capability(whole(gpu, "sm", least=10)),
        core_count=whole(gpu, "sm", least=1) if amd else None,
        pci_id=f"{vendor:04x}:{device:04x}" if vendor and device else None,
        pcie_gen_max=GENERATIONS.get(gts or 0.0),
        pcie_width_max=width,
        numa_node=numa,
        c2c_enabled=True if any(gpu.each("c2c")) else None,
        c2c_gbs=_c2c_gbs(gpu),
        nvlinks=nvlinks,
        xgmi=tuple(_xgmi(gpu, addresses)),
    )
    found = complete(record, link_gaps(pci, "pcie_gen_max", "pcie_width_max"))
    if nvlinks or not any(gpu.each("nvlink")):
        return found
    return msgspec.structs.replace(found, gaps=(*found.gaps, Gap("nvlinks", ABSENT)))


def _capability(sm: int | None) -> str | None:
    return None if sm is None else f"{sm // 10}.{sm % 10}"


def _gfx(gpu: Element) -> str | None:
    name = gpu.get("gcn") or None
    return None if name is None else GCN.get(name, name)


def _c2c_gbs(gpu: Element) -> float | None:
    """Links times MB/s of one (graph/topo.cc:ncclTopoAddC2c), over all bundles."""
    bundles = [
        (whole(bundle, "count", least=1), whole(bundle, "bw", least=1))
        for bundle in gpu.each("c2c")
    ]
    known = [count * rate / 1000 for count, rate in bundles if count and rate]
    return sum(known) if known and len(known) == len(bundles) else None


def _nvlinks(gpu: Element, addresses: frozenset[str]) -> Iterator[NvLink]:
    link = 0
    for bundle in gpu.each("nvlink"):
        far, kind = address(bundle.get("target")), _kind(bundle.get("tclass") or "")
        if kind == "gpu" and far not in addresses:
            continue
        for _ in range(min(whole(bundle, "count") or 0, MOST_LINKS)):
            yield complete(NvLink(link=link, active=True, remote_address=far, remote_kind=kind))
            link += 1


def _kind(tclass: str) -> str:
    """What is at the far end; NCCL takes every class it does not know for an NVSwitch."""
    if tclass.startswith("0x03"):
        return "gpu"
    return "ibmnpu" if tclass.startswith(NPU_CLASS) else "nvswitch"


def _xgmi(gpu: Element, addresses: frozenset[str]) -> Iterator[XgmiLink]:
    for bundle in gpu.each("xgmi"):
        far = address(bundle.get("target"))
        if far is not None and far in addresses:
            yield _xgmi_link(far, whole(bundle, "count", least=1))


@lru_cache(256)
def _xgmi_link(far: str, links: int | None) -> XgmiLink:
    # RCCL lists links of one hop alone (graph/xml.cc:ncclTopoGetXmlFromGpu).
    return complete(XgmiLink(remote_address=far, active=True, links=links, hops=1))
