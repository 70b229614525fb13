"""What outputs of other programs say by themselves: DCGM, wrong or slow copies, RDMA, two GB10."""

import re
from statistics import median
from textwrap import shorten
from typing import Any

from ....hardware.faults.catalogue import fault_of
from ....hardware.specs import skus
from ....model import quantities
from ....model.severity import BROKEN, BY_DESIGN, CANNOT_TELL, NOTICE, SLOW
from ....model.snapshot import DataVerdict, Measurement
from ....model.units import figure as three
from ....model.units import gbs
from ...case import Case
from ...rule import Found, Rule, faulty, needed

_SHOWN, _LONGEST = 6, 160
_DCGM = "dcgm"
_OF_SETUP = re.compile(
    r"Denylist|Library|Permissions|Persistence|Environment|Page Retirement|Graphics Processes|"
    r"software",
    re.IGNORECASE,
)
"""Tests of DCGM about the driver and its settings, not about the hardware."""
_OF_LINKS = re.compile(r"NvLink link \d+ is currently down")
"""What DCGM also says of boards without a bridge (NVIDIA/DCGM#49, NVIDIA/NVSentinel#1481)."""


def _pasted(case: Case) -> list[Measurement]:
    return [figure for figure in case.snapshot.measurements if "pasted" in figure.details]


_NOT_RUN = re.compile(r"(?i)error using CUDA API|API call \w+ failed|unable to create CUDA context")
"""A test of DCGM that could not use the GPU measured nothing."""
_OTHER_BUILD = re.compile(
    r"(?i)unsupported ?toolchain|no kernel image|unsupported PTX|device kernel image is invalid"
    r"|driver version is insufficient|not supported by this (?:driver|version)"
)
"""A test of DCGM that is built for another CUDA than the driver and GPU have."""
_ADVICE = re.compile(r"[Bb]y running \"([^\"]{3,80}?) ?\"")


def _said(figure: Measurement) -> str:
    words = shorten(figure.why_none or "", _LONGEST, placeholder=" …")
    return ": ".join(filter(None, (figure.variant, words)))


def _advised(figures: list[Measurement]) -> list[str]:
    """What to do first, by DCGM's own words."""
    words = " ".join(figure.why_none or "" for figure in figures)
    commands = dict.fromkeys(_ADVICE.findall(words))
    steps = [f"Do what DCGM's own words ask for. # {command}" for command in commands]
    if _OTHER_BUILD.search(words):
        steps.append(
            "Install the DCGM whose packages are of the driver's CUDA (datacenter-gpu-manager-4-"
            "cudaNN), or another release of it; of older GPUs one that still knows them. "
            "$ dcgmi --version; nvidia-smi"
        )
    elif _NOT_RUN.search(words):
        steps.append(
            "See which program holds the GPU, and its compute mode: an exclusive one takes no "
            "second program. $ nvidia-smi -q -d COMPUTE,PIDS"
        )
    return steps


def _check_dcgm(case: Case) -> Found:
    said = needed([figure for figure in _pasted(case) if figure.probe == _DCGM])
    bad = faulty([figure for figure in said if figure.verdict != DataVerdict.FINISHED])
    failed = [figure for figure in bad if figure.verdict == DataVerdict.FAILED]
    worst = [figure for figure in failed if not _OF_SETUP.search(figure.variant or "")]
    numbers = {int(n) for figure in worst for n in re.findall(r"\d+", figure.details["gpus"])}
    shown = list(dict.fromkeys(map(_said, worst or failed or bad)))
    if worst and _all_say(_OF_LINKS, worst):
        return _links_down(case, worst)
    unfit = bool(worst) and _all_say(_OTHER_BUILD, worst)
    return DCGM.finding(
        CANNOT_TELL if unfit else BROKEN if worst else NOTICE,
        f"DCGM {'failed' if failed else 'warned'}: {'; '.join(shown[:3])}",
        devices=[gpu for gpu in case.gpus if gpu.index in numbers],
        evidence=[(_said(figure), figure.verdict or "", figure.source) for figure in bad[:_SHOWN]],
        impact=_what_follows(worst),
        fix=[
            *_advised(worst or failed or bad),
            "Repeat it on these GPUs with nothing else on the node. $ dcgmi diag -r 3 -v",
            "Look for Xid lines of the same time. # dmesg | grep -iE 'xid|sxid'",
        ],
    )


def _what_follows(worst: list[Measurement]) -> str:
    if not worst:
        return "No test of the hardware failed."
    if _all_say(_OTHER_BUILD, worst):
        return (
            "The test itself could not start: this DCGM is built for another CUDA than the driver "
            "or this GPU takes. It measured nothing, and the GPUs may be well."
        )
    if _all_say(_NOT_RUN, worst):
        return (
            "DCGM could not use the GPU, so it measured nothing: another program holds it, or it "
            "needs a reset. Jobs there fail in the same way."
        )
    return "These GPUs are beyond DCGM's own limits: jobs there fail, or run slower."


def _all_say(words: re.Pattern[str], figures: list[Measurement]) -> bool:
    """Whether all that say why they failed have these words."""
    said = [figure.why_none for figure in figures if figure.why_none]
    return bool(said) and all(words.search(why) for why in said)


def _links_down(case: Case, failed: list[Measurement]) -> Found:
    """DCGM failed for links alone, which may be links that these boards do not have."""
    wired = [gpu for gpu in case.gpus if gpu.nvlinks]
    return DCGM.finding(
        BROKEN if wired else NOTICE,
        "DCGM calls NVLinks down" + ("" if wired else ", on boards that may have none"),
        devices=wired,
        evidence=[(_said(figure), "failed", figure.source) for figure in failed[:_SHOWN]],
        impact="Traffic over these links goes another way, or fails."
        if wired
        else "A PCIe board without a bridge has no link, and DCGM calls that down all the same.",
        fix=[
            "See which links are there and up. $ nvidia-smi nvlink -s",
            "Where there is a bridge or a switch: seat the bridge, or see whether Fabric Manager "
            "runs. Where there is none: nothing is to be mended; leave DCGM's words out.",
        ],
    )


def _check_wrong(case: Case) -> Found:
    """Tests that compare what arrived, without saying which pair of GPUs it was."""
    compared = [figure for figure in _pasted(case) if figure.verdict == DataVerdict.WRONG_DATA]
    bad = needed([figure for figure in compared if not figure.src and figure.probe == "p2p"])
    refused = [
        fault
        for event in case.snapshot.kernel_events or ()
        if (fault := fault_of(event)).act == "check-partition"
    ]
    why = "; the NVSwitches refuse access across partitions of the fabric" if refused else ""
    return WRONG_COPIES.finding(
        BROKEN,
        f"copies between GPUs bring wrong data: {bad[0].quantity}{why}",
        evidence=[
            *((figure.quantity, figure.why_none or "wrong", figure.source) for figure in bad),
            *((fault.label, fault.says, "kernel log") for fault in refused[:1]),
        ],
        impact="A job computes with wrong numbers, or waits for ever for bytes that never come.",
        fix=[
            "See what the NVSwitches and GPUs report meanwhile; `invalid ACL` is a GPU that talks "
            "to one outside of its partition. # dmesg | grep -iE 'xid|sxid|iommu|AER'",
            "Where the fabric manager has partitions, activate one that holds both GPUs. # fmpm -l",
            "Measure which pairs are wrong. $ gputop probe p2p",
        ],
    )


_ALIKE, _CLEARLY = 1.1, 0.9


def _check_kernels(case: Case) -> Found:
    """Kernels read host memory more slowly than they write it: that is so on all GPUs alike."""
    reads, writes = (
        [figure.value or 0.0 for figure in _pasted(case) if figure.quantity == quantity]
        for quantity in ("host_to_device_memcpy_sm", "device_to_host_memcpy_sm")
    )
    needed(reads and writes)
    alike = all(max(values) < _ALIKE * min(values) for values in (reads, writes))
    faulty([1] if alike and median(reads) < _CLEARLY * median(writes) else [])
    read, written = gbs(median(reads)), gbs(median(writes))
    return HOST_KERNELS.finding(
        BY_DESIGN,
        f"kernels read host memory at {read} and write it at {written}, all {len(reads)} GPUs "
        "alike: no link is narrow",
        evidence=[("median of the GPUs", f"{read} read, {written} written", "nvbandwidth")],
        impact="A kernel has a limited number of reads of the host under way, which bounds them; "
        "the other way shows what the link carries. Copy engines do not have this bound.",
        fix=["Measure the link itself. $ nvbandwidth -t host_to_device_memcpy_ce"],
    )


_LARGE_BYTES = 1 << 16
_HALF = 0.5


def _check_rdma(case: Case) -> Found:
    ports = [(nic.name, port.rate_gbit) for nic in case.machine.rdma for port in nic.ports]
    rates = {name: rate / 8 for name, rate in ports if rate}
    known = [
        (figure, rates[figure.details["device"]])
        for figure in _pasted(case)
        if figure.details.get("device") in rates
        and figure.unit == "GB/s"
        and (figure.bytes_per_copy or 0) >= _LARGE_BYTES
    ]
    low = faulty([row for row in needed(known) if (row[0].value or 0.0) < _HALF * row[1]])
    figure, rate = min(low, key=lambda row: (row[0].value or 0.0) / row[1])
    mtu = figure.details.get("mtu_bytes")
    return RDMA_LOW.finding(
        NOTICE,
        f"{figure.quantity.replace('_', ' ')} of {figure.details['device']} is "
        f"{gbs(figure.value)}; its port carries {gbs(rate)}",
        evidence=[
            (f"{figure.bytes_per_copy} bytes", gbs(figure.value), figure.source),
            *([("MTU", f"{mtu} bytes", figure.source)] if mtu else ()),
        ],
        impact="One stream of large messages fills a healthy port. Between nodes every collective "
        "runs at this pace.",
        fix=[
            "See whether packets are lost or paused, and the MTU of both ends. "
            "$ ethtool -S IFNAME | grep -iE 'discard|pause|out_of'; ibv_devinfo | grep mtu",
            "Repeat it with memory and CPU next to the NIC. $ numactl -N NODE ib_write_bw -a",
        ],
    )


_CABLE_GBS = 25.0


def _check_gb10(case: Case) -> Found:
    """Two GB10 over one cable: two halves of a cage, 25 GB/s together."""
    needed([gpu for gpu in case.gpus if "GB10" in (gpu.name or "")])
    runs = needed([run for run in _pasted(case) if run.details.get("hosts") == 2 and run.value])
    best = max(runs, key=lambda run: run.value or 0.0)
    faulty([best] if (best.value or 0.0) < _HALF * _CABLE_GBS else [])
    named = [name for name in ("NCCL_IB_HCA", "NCCL_SOCKET_IFNAME") if name in case.variables]
    unnamed = "" if "NCCL_IB_HCA" in named else "NCCL_IB_HCA does not name them here. "
    return GB10_SLOW.finding(
        SLOW,
        f"two GB10 reach {gbs(best.value)}; one cable of 200 Gb/s carries {gbs(_CABLE_GBS)}, and "
        "23 to 24 were measured",
        evidence=[
            ("busbw between two hosts", gbs(best.value), best.source),
            *((name, *case.variables[name]) for name in named),
        ],
        impact="Each cage is two RDMA devices with four lanes each, which fill 200 Gb/s together. "
        f"{unnamed}Possible causes: one of the two alone, TCP by a management port, MTU 1500.",
        fix=[
            "Name both halves of the cage with the cable. "
            "$ export NCCL_IB_HCA=rocep1s0f0,roceP2p1s0f0",
            "Raise the MTU of both interfaces on both hosts. # ip link set enp1s0f0np0 mtu 9000; "
            "ip link set enP2p1s0f0np0 mtu 9000",
            "Use a release of NCCL, and see in its log which devices it takes. "
            "$ export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET",
        ],
    )


_MODEL = re.compile(r"(?<![a-z0-9])(mi(?:250x?|300x|325x|350x|355x)|[abh][12]00)(?![a-z0-9])", re.I)


def _check_named(case: Case) -> Found:
    """A run without a list of devices, on a host whose name says which GPUs it has."""
    said = _MODEL.search(case.host.hostname or "")
    runs = [run for run in _pasted(case) if run.quantity == quantities.ALL_REDUCE]
    unknown = said and not any(map(case.sku, case.gpus))
    needed([run for run in runs if unknown and "ranks" not in run.details])
    model = said[1].upper() if said else ""
    figures = (
        known.measured
        for name, sku in skus().items()
        if name.partition("-")[0] == model
        for known in sku.expected("allreduce_busbw")
        if known.gpus == 8
    )
    usual = min(figures, default=0.0)
    best = max(runs, key=lambda run: (run.bytes_per_copy or 0, run.value or 0.0))
    faulty([best] if (best.value or 0.0) < _HALF * usual else [])
    return NAMED.finding(
        NOTICE,
        f"all-reduce reaches {gbs(best.value)}; eight {model}, if the host's name is right "
        f"({case.host.hostname}), reach about {gbs(usual)}",
        evidence=[(f"all-reduce of {best.bytes_per_copy} bytes", gbs(best.value), best.source)],
        impact="Fewer links than these GPUs have are used: a wrong picture of the machine in the "
        "library, links that are down, or fewer GPUs than eight.",
        fix=[
            "See what the library takes the machine for: no `type` of its graphs is SYS between "
            "such GPUs. $ export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH",
            "With a development build of the library, try a release.",
        ],
    )


_COPIES = (quantities.WRITE, quantities.READ, quantities.TOGETHER)
_FEWEST, _SAME, _APART = 4, 0.6, 1 / 3


def _check_one(case: Case) -> Found:
    """A table of copies without a list of GPUs: nothing but its numbers is known of them."""
    copies = [figure for figure in _pasted(case) if figure.quantity in _COPIES and figure.value]
    bare = needed([x for x in copies if x.src and x.dst and case.machine.gpu(x.src) is None])
    by_quantity = ([x for x in bare if x.quantity == quantity] for quantity in _COPIES)
    gpu, own, others = faulty([found for some in by_quantity if (found := _apart(some))])[0]
    name, source = gpu.removeprefix("topo:"), own[0].source
    slowest, fastest = (three(find(x.value or 0.0 for x in own)) for find in (min, max))
    reached = fastest if slowest == fastest else f"{slowest} to {fastest}"
    return ONE_LOW.finding(
        NOTICE,
        f"all copies with {name} reach {reached} GB/s; those between the others "
        f"{gbs(median(x.value or 0.0 for x in others))}",
        evidence=[
            (f"{x.src} to {x.dst}".replace("topo:", ""), gbs(x.value), source)
            for x in (*own[:2], *others[:1])
        ],
        impact=f"What these copies share is the way of {name} alone: a link with fewer lanes or of "
        "an older generation (slot, riser, chipset), another model, or P2P that it lacks. A "
        "collective over all GPUs runs at its pace.",
        fix=[
            "Look at lanes and generation of each GPU's link while data moves, and what they can "
            "be. $ nvidia-smi --query-gpu=index,name,pcie.link.gen.current,pcie.link.gen.max,"
            "pcie.link.width.current,pcie.link.width.max --format=csv",
            f"Where those of {name} are fewer: another slot, riser or cable. Else leave it out of "
            "jobs over several GPUs: CUDA_VISIBLE_DEVICES without it.",
        ],
    )


def _apart(
    figures: list[Measurement],
) -> tuple[str, list[Measurement], list[Measurement]] | None:
    """The GPU whose copies are all far slower than those between the others, which are alike."""
    ends = dict.fromkeys(end for figure in figures for end in (figure.src, figure.dst))
    for gpu in ends if len(ends) >= _FEWEST else ():
        own = [figure for figure in figures if gpu in (figure.src, figure.dst)]
        others = [figure for figure in figures if gpu not in (figure.src, figure.dst)]
        values = [figure.value or 0.0 for figure in others]
        middle = median(values or [0.0])
        alike = values and min(values) > _SAME * middle
        if alike and max(figure.value or 0.0 for figure in own) < _APART * middle:
            return gpu or "", own, others
    return None


def _rule(**fields: Any) -> Rule:
    return Rule(without_gpus=True, **fields)


DCGM = _rule(
    id="dcgm-said",
    family="D34",
    title="tests of DCGM that failed or warned",
    evidence="the table of `dcgmi diag` or `dcgmi health -c`",
    disproof="Pass in a second `dcgmi diag -r 3` with nothing else on the node",
    sources=("NVIDIA DCGM user guide, diagnostics",),
    check=_check_dcgm,
)
WRONG_COPIES = _rule(
    id="copies-wrong",
    family="D16",
    title="tests that compare copies, and found other data",
    evidence="output of nvbandwidth, which compares every copy with its pattern",
    disproof="the same test without an assertion",
    sources=("NVIDIA/nvbandwidth memcpy.cpp memcmpPattern", "NVIDIA Fabric Manager user guide"),
    check=_check_wrong,
    implied_by=("p2p-data-wrong",),
)
HOST_KERNELS = _rule(
    id="host-kernels",
    family="D07",
    title="kernels that read host memory more slowly than they write it",
    evidence="host_to_device_memcpy_sm and device_to_host_memcpy_sm of nvbandwidth",
    disproof="a copy by the engines that is as slow: `nvbandwidth -t host_to_device_memcpy_ce`",
    sources=("NVIDIA/nvbandwidth#24",),
    check=_check_kernels,
)
RDMA_LOW = _rule(
    id="rdma-low",
    family="D11",
    title="RDMA far below what its port carries",
    evidence="rows of perftest of 64 KiB and more, and the rate of the same device's port",
    disproof="a figure near the port's rate in a second run",
    sources=("linux-rdma/perftest README",),
    check=_check_rdma,
)
GB10_SLOW = _rule(
    id="gb10-pair-slow",
    family="D11",
    title="two GB10 that reach less than half of what their cable carries",
    evidence="busbw of a run of nccl-tests over two hosts with GB10",
    disproof="20 GB/s and more in a second run",
    sources=("NVIDIA/dgx-spark-playbooks#102", "ServeTheHome on the ConnectX-7 of GB10"),
    check=_check_gb10,
)
NAMED = _rule(
    id="all-reduce-by-host-name",
    family="D01",
    title="an all-reduce far below that of the GPUs that the host is named after",
    evidence="a run without a list of devices, and the name of its host",
    disproof="the list of devices of the same run",
    sources=("ROCm/rocm-systems pull request 3272",),
    check=_check_named,
)
ONE_LOW = _rule(
    id="copies-with-one-low",
    family="D07",
    title="one GPU whose copies are all far slower than those between the others",
    evidence="a table of copies between four GPUs and more, without a list of them",
    disproof="a second run in which its copies are as fast as the others",
    sources=("tinygrad/open-gpu-kernel-modules#6",),
    check=_check_one,
    extra=True,
)
RULES = (DCGM, WRONG_COPIES, HOST_KERNELS, RDMA_LOW, GB10_SLOW, NAMED, ONE_LOW)
