"""How many channels collectives may use (graph/connect.cc:ncclTopoPostset, transport/nvls.cc)."""

from .inputs import TuningInput
from .selection import Remark
from .version import NvlsRaises, generation

FAST_RING_GBS = 45.0
UNSET = -(2**31)
"""NCCL_CONFIG_UNDEF_INT of a 32-bit configuration."""


def coll_channels(comm: TuningInput) -> int:
    """The "coll channels" of the log: the searched ones doubled, then within the user's limits."""
    count = own_channels(comm)
    if comm.version.nvls_raises is NvlsRaises.NO or not (comm.uses_nvls or asked_in_vain(comm)):
        return count
    return max(count, nvls_wanted(comm))


def own_channels(comm: TuningInput) -> int:
    """Channels of ring and tree, before those of NVLS are looked at."""
    return max(kept_channels(comm), channel_minimum(comm), cta_limits(comm)[0])


def kept_channels(comm: TuningInput) -> int:
    """Channels before the user's minimum, up to which they are copied again from the first on."""
    version = comm.version
    most = version.max_channels
    count = min(most, 2 * comm.searched)
    modern = comm.low_sm == 90 if version.quad_sm == "90" else comm.low_sm >= 90
    fast = comm.graph("RING").bw_intra > FAST_RING_GBS
    if modern and comm.nodes > 1 and fast and count < version.quad_below:
        count *= 2
    return min(count, channel_maximum(comm), cta_limits(comm)[1])


def channel_maximum(comm: TuningInput) -> int:
    """NCCL_MAX_NCHANNELS, or its older name NCCL_MAX_NRINGS."""
    most = comm.version.max_channels
    wanted = renamed(comm, "NCCL_MAX_NCHANNELS", "NCCL_MAX_NRINGS", most)
    return max(1, min(most, wanted))


def channel_minimum(comm: TuningInput) -> int:
    """NCCL_MIN_NCHANNELS, or its older name NCCL_MIN_NRINGS."""
    wanted = renamed(comm, "NCCL_MIN_NCHANNELS", "NCCL_MIN_NRINGS", 0)
    return max(0, min(comm.version.max_channels, wanted))


def renamed(comm: TuningInput, name: str, older: str, default: int) -> int:
    """A setting that has an older name; -2 is "not set"."""
    found = comm.settings.integer(name, -2)
    if found == -2:
        found = comm.settings.integer(older, -2)
    return default if found == -2 else found


def cta_limits(comm: TuningInput) -> tuple[int, int]:
    """NCCL_MIN_CTAS and NCCL_MAX_CTAS (init.cc:envConfigOverride); the maximum wins."""
    most = comm.version.max_channels
    least = comm.settings.integer("NCCL_MIN_CTAS", UNSET)
    ceiling = comm.settings.integer("NCCL_MAX_CTAS", UNSET)
    ceiling = min(most, ceiling) if ceiling > 0 else most
    return min(least if least > 0 else 1, most, ceiling), ceiling


def nvls_channels(comm: TuningInput) -> int:
    """The "nvls channels" of the log; 0 without NVLS."""
    return nvls_wanted(comm) if comm.uses_nvls else 0


def nvls_wanted(comm: TuningInput) -> int:
    """NVLS channels by GPU and settings (transport/nvls.cc:ncclNvlsInit)."""
    least, ceiling = cta_limits(comm)
    default = nvls_default(comm)
    # Since 2.27.3 0 and less leaves the choice to NCCL (init.cc:envConfigOverride).
    newer = comm.version.nvls_zero_chooses
    wanted = comm.settings.integer("NCCL_NVLS_NCHANNELS", UNSET if newer else -2)
    chosen = wanted in (UNSET, -2) or (newer and wanted <= 0)
    return max(least, min(ceiling, default if chosen else wanted))


def asked_in_vain(comm: TuningInput) -> bool:
    """Whether NVLS raises the channels although no graph was found for it, as up to 2.20."""
    wanted = comm.settings.integer("NCCL_NVLS_ENABLE", 2)
    granted = wanted == 1 or (wanted != 0 and comm.nvls)
    return comm.version.nvls_kept and granted and comm.most_local > 2


def nvls_default(comm: TuningInput) -> int:
    """NVLS channels by GPU generation and number of nodes."""
    kind = "blackwell" if generation(comm.low_sm) == "blackwell" else "hopper"
    count = comm.version.nvls_channels[
        f"{kind}_node" if comm.nodes == 1 and kind != "hopper" else kind
    ]
    speed = comm.net_gbs
    if not comm.version.nvls_by_net or kind == "hopper" or comm.nodes == 1 or speed is None:
        return count
    # transport/nvls.cc:ncclNvlsTreeSm100Tuning
    if comm.nodes == 2 and speed >= 48:
        return 32
    if speed >= 96:
        return 24 if comm.per_node <= 8 else 32
    return 24 if speed >= 48 else count


def remarks(comm: TuningInput) -> list[Remark]:
    """Channel limits that have no effect as written."""
    found: list[Remark] = []
    settings, most = comm.settings, comm.version.max_channels
    for name in ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS"):
        text, wanted = settings.text(name), settings.integer(name, UNSET)
        if text and wanted <= 0:
            found.append((name, text, "not a positive number: NCCL leaves its default"))
        elif text and wanted > most:
            found.append((name, text, f"above the limit: NCCL takes {most}"))
    for kind, kept in (("MIN", 0), ("MAX", 1)):
        name, older = f"NCCL_{kind}_NCHANNELS", f"NCCL_{kind}_NRINGS"
        text, wanted = settings.text(name), settings.integer(name, -2)
        old = settings.text(older)
        if text and wanted not in (-2, max(kept, min(most, wanted))):
            limit = most if wanted > most else kept
            found.append((name, text, f"not within {kept} to {most}: NCCL takes {limit}"))
        if old and wanted != -2:
            found.append((older, old, f"{name} is set too and wins"))
    least, ceiling = cta_limits(comm)
    text, wanted = settings.text("NCCL_MIN_CTAS"), settings.integer("NCCL_MIN_CTAS", UNSET)
    if text and least == ceiling < min(wanted, most):
        found.append(("NCCL_MIN_CTAS", text, f"above NCCL_MAX_CTAS: NCCL takes {ceiling}"))
    return found
