"""What RCCL needs for P2P besides a short path: memory, BARs and the IOMMU.

RCCL tries an allocation of fine-grained or uncached memory (init.cc:fillInfo) and asks HIP whether
the peer can be reached (transport/p2p.cc:p2pCanConnect); the driver grants that over PCIe when the
BAR shows the whole memory. Of the IOMMU RCCL only warns (init.cc:ncclInit).
"""

from __future__ import annotations

from ...model.machine import Gpu, Machine
from ...model.units import size
from ..prediction import DecisionStep
from ..settings import Settings
from ..system.peers import Grant

WHOLE_BAR = 0.9
"""Share of the memory that a BAR shows: the driver sets some aside."""
FINE_GRAIN = "HSA_FORCE_FINE_GRAIN_PCIE"
CAN_CONNECT = "transport/p2p.cc:p2pCanConnect"


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
    """What is known of one ordered pair of AMD GPUs; `joined` by a link of their own (joined_to).

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
        basis="assumed",
    )


def _bars(src: Gpu, dst: Gpu) -> tuple[DecisionStep, bool]:
    """Ask about the BARs, and tell whether one is known to be too small."""
    known = [gpu for gpu in (src, dst) if gpu.bar1_bytes is not None and gpu.memory_bytes]
    small = [gpu for gpu in known if (gpu.bar1_bytes or 0) < WHOLE_BAR * (gpu.memory_bytes or 0)]
    answer, basis = "yes", "read"
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
        because, basis = "the size was not read; the whole memory is assumed", "assumed"
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
    answer, basis = "yes", "read"
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
        because, basis = "its groups were not read; passing through is assumed", "assumed"
    return DecisionStep(
        question="does the IOMMU pass through?",
        answer=answer,
        because=because,
        source="init.cc:ncclInit",
        basis=basis,
    )
