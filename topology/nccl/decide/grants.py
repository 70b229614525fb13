"""What the driver said about pairs of GPUs, from a snapshot, in the words of the checks."""

from __future__ import annotations

from functools import cache

from ...hardware.vendors import AMD, vendor_of
from ...model import quantities
from ...model.snapshot import NodeSnapshot
from ...wiring.gpu_names import gpu_names
from ..settings import Settings
from ..system.peers import Grant, Grants
from .rccl_p2p import amd_grant, joined_to


def grants_of(snapshot: NodeSnapshot, addresses: dict[str, str], settings: Settings) -> Grants:
    """Answers by bus id; `addresses` gives the PCI address of each bus id.

    The driver's word (NVML, amdsmi) comes from the pairs of the machine, that of CUDA or HIP from
    a probe that ran; what was simulated comes from the driver's word and adds nothing.
    """
    said: dict[tuple[str, str], str] = {}
    for pair in snapshot.machine.pairs:
        words = [word for word in (pair.p2p_read, pair.p2p_write) if word is not None]
        if words:
            said[pair.src, pair.dst] = next((word for word in words if word != "ok"), "ok")
    cuda = {
        (measurement.src, measurement.dst): measurement.verdict == "granted"
        for measurement in snapshot.measurements
        if measurement.quantity == quantities.CAN_ACCESS
        and measurement.verdict in ("granted", "not-granted")
        and not measurement.simulated
    }

    parted = {gpu.address for gpu in snapshot.machine.gpus if gpu.mig_enabled}
    amd = {gpu.address: gpu for gpu in snapshot.machine.gpus if vendor_of(gpu) is AMD}
    joined = {address: joined_to(gpu) for address, gpu in amd.items()}

    plain = cache(Grant)
    alike: dict[Grant, Grant] = {}

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
            return alike.setdefault(found, found)
        return plain(said.get(key), cuda.get(key))

    return grant


def mig_remark(snapshot: NodeSnapshot) -> str | None:
    """What a prediction takes for granted where MIG is on."""
    parted = [gpu.address for gpu in snapshot.machine.gpus if gpu.mig_enabled]
    if not parted:
        return None
    return (
        f"MIG is on for {gpu_names(parted, snapshot.machine)}: one rank on one instance of each "
        "GPU, without P2P and NVLS"
    )
