"""When RCCL hands a collective to MSCCL or MSCCL++, in words: neither is timed.

Sources: misc/msccl/msccl_lifecycle.cc, init.cc:ncclCommInitRankFunc, tools/msccl-algorithms and
CMakeLists.txt of ROCm/rccl; its CHANGELOG and pull requests 1614, 1639 and 1879, and pull request
4340 of ROCm/rocm-systems, for what a default build has; of that, misc/msccl/msccl_lifecycle.cc
at f70f5378 for what MSCCL++ takes after 2.21.5.
"""

from ..settings import Settings
from ..wording import message_size
from .rccl_inputs import FileRange, RcclInput

RANKS = 8
"""What the files that RCCL brings are made for."""
SELECT = "misc/msccl/msccl_lifecycle.cc:mscclInternalSchedulerSelectAlgo"
ENQUEUE = "misc/msccl/msccl_lifecycle.cc:mscclEnqueueCheck"


def remarks(comm: RcclInput, settings: Settings) -> tuple[str, ...]:
    """Sentences on what replaces RCCL's own pick, and when; () where nothing does."""
    if not _eligible(comm, settings):
        return ()
    number = comm.rules.number
    if not comm.rules.msccl_in_place:
        return (f"nothing runs by MSCCL or MSCCL++: a default build of RCCL {number} has neither",)
    return (*_files(comm), *_plus_plus(comm, settings))


def by_files(comm: RcclInput, settings: Settings, size_bytes: int) -> str:
    """The possible replacement of RCCL's own pick in an all-reduce, "MSCCL Simple"; "" for none."""
    if comm.ranks != RANKS or not _eligible(comm, settings):
        return ""
    for low, high, protocol in (*comm.rules.msccl_in_place, *comm.rules.msccl_out_of_place):
        if low <= size_bytes <= high:
            return f"MSCCL {protocol}"
    return ""


def _eligible(comm: RcclInput, settings: Settings) -> bool:
    """Whether MSCCL is on for this communicator: by the known node, or forced."""
    asked = comm.options.get("mscclEnabled", 0) != 0
    forced = settings.integer("RCCL_MSCCL_FORCE_ENABLE", 0) != 0
    return (asked or forced) and settings.integer("RCCL_MSCCL_ENABLE", 1) != 0


def _files(comm: RcclInput) -> tuple[str, ...]:
    if comm.ranks != RANKS:
        return ()
    inside, outside = comm.rules.msccl_in_place, comm.rules.msccl_out_of_place
    sizes = _sizes(outside)
    if inside != outside:
        sizes = f"out of place {sizes}; in place {_sizes(inside)}"
    return (
        f"all-reduce runs by MSCCL's files where the package of RCCL {comm.rules.number} brought "
        f"them, whatever the pick says ({sizes}), if it is a sum, product, minimum or maximum of "
        "a multiple of 512 elements (256 up to 64 KiB): RCCL_MSCCL_ENABLE=0 switches that off "
        f"({SELECT})",
    )


def _sizes(ranges: tuple[FileRange, ...]) -> str:
    """The sizes: "LL below 512 KiB, Simple from 512 KiB to 16 MiB"."""
    found = []
    for low, high, protocol in ranges:
        if high % 1024:
            found.append(f"{protocol} below {message_size(high + 1)}")
        else:
            begin = (
                f"from {message_size(low)}" if not low % 1024 else f"above {message_size(low - 1)}"
            )
            found.append(f"{protocol} {begin} to {message_size(high)}")
    return ", ".join(found)


def _plus_plus(comm: RcclInput, settings: Settings) -> tuple[str, ...]:
    rules = comm.rules
    on = settings.integer("RCCL_MSCCLPP_ENABLE", int(rules.mscclpp_built)) != 0
    if not on:
        if rules.mscclpp_built:
            return ()
        return (
            f"MSCCL++ is in no default build of RCCL {rules.number}, and off where it is built in "
            "unless RCCL_MSCCLPP_ENABLE=1 is set",
        )
    if not comm.arch.startswith(rules.mscclpp_gpus):
        return ()
    most = message_size(settings.integer("RCCL_MSCCLPP_THRESHOLD", rules.mscclpp_bytes))
    default = " (as it is by default)" if rules.mscclpp_built else ""
    return (
        f"MSCCL++ comes first where RCCL {rules.number} was built with it{default} and each "
        f"GPU has a process of its own: {rules.mscclpp_when} it runs all-reduce and all-gather of "
        f"up to {most} (RCCL_MSCCLPP_THRESHOLD) in multiples of 32 bytes, none of managed memory, "
        "the all-reduce if it is a sum of fp16, bf16, fp32, int32 or uint32: "
        "RCCL_MSCCLPP_ENABLE=0 switches that off "
        f"({ENQUEUE})",
    )
