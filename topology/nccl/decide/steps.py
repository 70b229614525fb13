"""The questions behind a transport, each with its answer, evidence, flag and source."""

from functools import cache

from ...model.page import Basis
from ..nodes import CpuVendor, PathType
from ..prediction import DecisionStep
from ..settings import Settings
from ..system.compute import Computed
from ..system.levels import PathLevel
from ..system.networks import Network
from ..system.peers import Grant, NetCheck, P2pCheck
from ..versions import P2pDefault, Version
from ..wording import gbs, meaning
from .labels import reads, uses_cumem

BY_DEFAULT = "'s default"
"""In the reason of a level that nobody set: the library's own rule."""
NEAR_ENOUGH, CAN_REACH = "near enough for P2P?", "can the runtime reach the peer?"
SHARED_MEMORY, NETWORK = "may it go through shared memory?", "may it go through the network?"
HASH = "misc/utils.cc:getHostHash"
CHECK_P2P = "graph/paths.cc:ncclTopoCheckP2p"
CHECK_NET = "graph/paths.cc:ncclTopoCheckNet"
P2P = "transport/p2p.cc:p2pCanConnect"
SETUP = "transport/p2p.cc:p2pSendSetup"
SHM = "transport/shm.cc:shmCanConnect"
NET = "transport/net.cc:canConnect"


@cache
def same_host(mnnvl: bool) -> DecisionStep:
    """The first question of all."""
    if mnnvl:
        return DecisionStep(
            question="same host?",
            answer="no",
            because="the topology joins several hosts by NVLink (MNNVL); IMEX was not tested",
            flag="NCCL_MNNVL_ENABLE",
            source="mnnvl.cc:ncclMnnvlCheck",
            basis=Basis.ASSUMED,
        )
    return DecisionStep(
        question="same host?",
        answer="yes",
        because="both GPUs are in one node; ranks in containers with another host name or "
        "boot id would count as two hosts",
        flag="NCCL_HOSTID",
        source=HASH,
        basis=Basis.READ,
    )


@cache
def same_shm() -> DecisionStep:
    """Containers may not share it."""
    return DecisionStep(
        question="same /dev/shm?",
        answer="yes",
        because="one process per GPU on one host; private /dev/shm in containers would answer no",
        source=CHECK_P2P,
        basis=Basis.ASSUMED,
    )


def near_enough(
    version: Version, farthest: PathType, level: PathLevel, vendor: str, direct: PathType
) -> DecisionStep:
    """Path type against the level; `vendor`: of the CPU."""
    limit = version.name_of(farthest)
    if level.path is not None:
        why = f"set by {level.name}={level.value[:40]}"
    else:
        why = f"{version.library.upper()}{BY_DEFAULT}{_default_words(version, farthest, vendor)}"
        if level.ignored:
            why += f"; {level.name}={level.value[:40]} is ignored: {level.ignored}"
    within = direct <= farthest
    return DecisionStep(
        question=NEAR_ENOUGH,
        answer="yes" if within else "no",
        because=f"{version.name_of(direct)} ({meaning(version, direct)}) is "
        f"{'within' if within else 'beyond'} {limit}, {why}",
        decides=not within,
        flag=level.name or "NCCL_P2P_LEVEL",
        source=CHECK_P2P,
    )


_MAKERS: dict[str, str] = {
    CpuVendor.INTEL: "Intel",
    CpuVendor.AMD: "AMD",
    CpuVendor.ZHAOXIN: "Zhaoxin",
}


def _default_words(version: Version, farthest: PathType, vendor: str) -> str:
    if version.p2p_default is not P2pDefault.PXB:
        return f" on this CPU ({_MAKERS.get(vendor, 'neither Intel, Zhaoxin nor ARM')})"
    if farthest is PathType.SYS:
        return " for at most two GPUs on AMD CPUs"
    return ""


def granted(version: Version, check: P2pCheck, settings: Settings) -> DecisionStep | None:
    """NVML's P2P status; RCCL does not ask for it."""
    if not version.nvml_check:
        return None
    if settings.integer("NCCL_IGNORE_DISABLED_P2P", 0) == 2:
        return DecisionStep(
            question="does the driver grant P2P (NVML)?",
            answer="not asked",
            because="NCCL_IGNORE_DISABLED_P2P=2 skips the question",
            flag="NCCL_IGNORE_DISABLED_P2P",
            source=CHECK_P2P,
        )
    status = check.grant.nvml
    if status is None:
        return DecisionStep(
            question="does the driver grant P2P (NVML)?",
            answer="yes",
            because="no driver was asked; granted is assumed",
            flag="NCCL_IGNORE_DISABLED_P2P",
            source=CHECK_P2P,
            basis=Basis.ASSUMED,
        )
    good = status == "ok"
    hops = ", hop by hop" if check.relay >= 0 else ""
    because = f"NVML says OK for read and write{hops}" if good else f"NVML says: {status}"
    if check.fatal:
        because += "; over NVLink the library stops here with an error"
    return DecisionStep(
        question="does the driver grant P2P (NVML)?",
        answer="yes" if good else "no",
        because=because,
        decides=not good,
        flag="NCCL_IGNORE_DISABLED_P2P",
        source=CHECK_P2P,
    )


def nic_faster(check: NetCheck, *, decides: bool) -> DecisionStep:
    """Whether a NIC beats the path between the GPUs."""
    if check.switched_off:
        answer, because = "not asked", "the network is kept out of a host"
    elif check.src_gbs and check.dst_gbs:
        answer = "yes" if check.faster else "no"
        because = (
            f"NICs at PXB or nearer: {gbs(check.src_gbs)} and {gbs(check.dst_gbs)} GB/s; "
            f"GPU to GPU {gbs(check.path_gbs)} GB/s"
        )
    else:
        answer, because = "no", "no NIC at PXB or nearer on both sides"
    return DecisionStep(
        question="would a NIC be faster?",
        answer=answer,
        because=because,
        decides=decides and check.faster,
        flag="NCCL_NET_DISABLE_INTRA",
        source=CHECK_NET,
    )


def cuda_access(grant: Grant, version: Version) -> DecisionStep:
    """The runtime's word on peer access."""
    call = "hipDeviceCanAccessPeer" if version.is_rccl else "cudaDeviceCanAccessPeer"
    if grant.cuda is None:
        because, basis = f"{call} was not asked; granted is assumed", Basis.ASSUMED
    elif grant.because:
        because, basis = grant.because, Basis.READ
    else:
        because, basis = f"{call} was asked by the p2p probe", Basis.MEASURED
    no = grant.cuda is False
    return DecisionStep(
        question=CAN_REACH,
        answer="no" if no else "yes",
        because=because,
        decides=no,
        source=P2P,
        basis=basis,
    )


def which_p2p(computed: Computed, check: P2pCheck, label: str, mnnvl: bool) -> list[DecisionStep]:
    """The flavour of P2P, and who moves the bytes."""
    version, settings = computed.version, computed.settings
    steps = []
    if check.relay >= 0:
        steps.append(
            DecisionStep(
                question="which P2P?",
                answer=label,
                because=f"the path crosses GPU {check.relay}, which passes the bytes on",
                decides=True,
                flag="NCCL_NVB_DISABLE",
                source=SETUP,
            )
        )
        return steps
    if uses_cumem(version, settings):
        set_to = settings.text("NCCL_CUMEM_ENABLE")
        because = f"NCCL_CUMEM_ENABLE={set_to}" if set_to else "cuMem is on by itself, given a "
        because += "" if set_to else "driver of CUDA 12.0 or later"
        if mnnvl:
            because += "; the communicator spans hosts by NVLink"
    else:
        off = bool(settings.text("NCCL_CUMEM_ENABLE")) and version.cumem_auto
        because = "NCCL_CUMEM_ENABLE switches cuMem off" if off else "cuMem is off in this version"
    steps.append(
        DecisionStep(
            question="which P2P?",
            answer=label,
            because=f"one process per GPU; {because}",
            decides=True,
            flag="NCCL_CUMEM_ENABLE",
            source=SETUP,
            basis=Basis.ASSUMED,
        )
    )
    read = reads(version, settings, check.read)
    setting = settings.integer("NCCL_P2P_READ_ENABLE", -2)
    why = (
        "NCCL_P2P_READ_ENABLE says so"
        if setting != -2
        else "reads are for NVLink between sm80 GPUs"
    )
    if version.is_rccl and setting == -2:
        why = "RCCL's receivers read only when NCCL_P2P_READ_ENABLE says so"
    if settings.integer("NCCL_P2P_USE_CUDA_MEMCPY", 0):
        why = "NCCL_P2P_USE_CUDA_MEMCPY has copy engines write"
    steps.append(
        DecisionStep(
            question="who moves the bytes?",
            answer="the receiver reads" if read else "the sender writes",
            because=why,
            flag="NCCL_P2P_READ_ENABLE",
            source="transport/p2p.cc:p2pGetInfo",
        )
    )
    return steps


def shared_memory(settings: Settings, allowed: bool, label: str) -> DecisionStep:
    """The second transport: through host memory."""
    off = settings.integer("NCCL_SHM_DISABLE", 0) == 1
    if allowed:
        because = f"{label}: GPU to pinned host memory to GPU"
    else:
        because = "NCCL_SHM_DISABLE=1" if off else "a NIC is faster, or the hosts differ"
    return DecisionStep(
        question=SHARED_MEMORY,
        answer="yes" if allowed else "no",
        because=because,
        decides=allowed,
        flag="NCCL_SHM_DISABLE",
        source=SHM,
    )


def network(chosen: Network, label: str | None, *, doubtful: bool = False) -> DecisionStep:
    """The last transport; inside one domain it is doubtful unless a NIC is faster."""
    if label is None:
        return DecisionStep(
            question=NETWORK,
            answer="no",
            because="inside one host the network is not used here, and nothing else is left: "
            "the library stops with 'No transport found'",
            decides=True,
            flag="NCCL_NET_DISABLE_INTRA",
            source=NET,
        )
    because = f"{label}; plugin {chosen.name}: {chosen.because}"
    if doubtful:
        because += (
            "; nothing else is left. The library's own test may refuse the network here, as no NIC "
            "is faster, and would then stop with 'No transport found'"
        )
    return DecisionStep(
        question=NETWORK,
        answer="yes",
        because=because,
        decides=True,
        flag="NCCL_NET",
        source=NET,
        basis=Basis.ASSUMED if doubtful else chosen.basis,
    )
