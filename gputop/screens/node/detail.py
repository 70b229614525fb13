"""Everything about one GPU, for the pane beside the matrix and for the clipboard."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from gputop.terminal.clean import clean
from gputop.topology.hardware.vendors import AMD, NVIDIA, vendor_of
from gputop.topology.model.machine import CacheKind
from gputop.topology.model.units import UNKNOWN, figure, gbs, size, text, whole
from gputop.topology.sources.amd.words import held
from gputop.topology.wiring.gpu_names import gpu_label
from gputop.topology.wiring.wires import nvlink_wire
from gputop.widgets.gpu_cells import NO_LINKS, active_links, without_links
from gputop.widgets.spans import Line, Span, left, width_of, wrapped

if TYPE_CHECKING:
    from gputop.topology.model.machine import Gpu, GpuCache, MemoryBank
    from gputop.topology.model.readings import GpuReading
    from gputop.widgets.gpu_cells import Row

_LABEL = 16
_MIG = {True: "on", False: "off"}
_END = {"gpu": "GPUs", "nvswitch": "NVSwitches", "ibmnpu": "the CPU"}
"""What the far end of an NVLink is called here."""

_LAST_LEVEL = 3
_OF_XCDS = ("gfx940", "gfx941", "gfx942", "gfx950")
"""Targets whose packages hold several XCDs, each with an L2 of its own."""
_REACH = {"public": "all of it in the CPU's reach", "private": "not all in the CPU's reach"}


def detail_lines(row: Row, width: int) -> tuple[Line, ...]:
    """Name and value, one fact a line; values that are too long go on below."""
    lines: list[Line] = []
    for name, value in _facts(row):
        ink = "muted" if value == UNKNOWN else ""
        lines += wrapped(
            ((f" {left(name, _LABEL)}", "muted"), (clean(value), ink)), width, _LABEL + 1
        )
    return tuple(lines)


def _facts(row: Row) -> Iterator[tuple[str, str]]:
    gpu, now, vendor = row.gpu, row.reading, vendor_of(row.gpu)
    yield from _place(row)
    yield "PCI address", gpu.address
    yield "UUID", text(gpu.uuid)
    yield "Architecture", _words(gpu.architecture, gpu.compute_capability)
    if gpu.compute_partition or gpu.memory_partition:
        part = f"part {gpu.partition} of {gpu.parent}" if gpu.partition and gpu.parent else None
        yield "Partition", _words(gpu.compute_partition, gpu.memory_partition, part)
    yield "VBIOS", text(gpu.vbios)
    window = f", {vendor.window} "
    used = None if now is None else now.memory_used_bytes
    inside = "" if used is None else f"{size(used)} used of "
    yield "Memory", _known((inside, size(gpu.memory_bytes)), (window, size(gpu.bar1_bytes)))
    if vendor is AMD:
        yield from chip_facts(gpu)
    yield "Power", _power(gpu)
    if now is not None:
        yield from _pace(row, now)
        yield "PCIe", _pcie(row)
    yield AMD.link if gpu.xgmi else vendor.link if vendor.known else "Links", _links(row)
    if gpu.fabric is not None and gpu.fabric.state not in {None, "not supported"}:
        yield "Fabric", _fabric(row)
    yield "ECC", _ecc(row)
    if now is not None and now.recovery_action is not None:
        action = now.recovery_action
        yield "Recovery", "no action needed" if action == "none" else action
    yield from _modes(row)
    yield from _processes(row)


def _power(gpu: Gpu) -> str:
    """Its limits: what is set, the default, and the span that may be set."""
    least, most = whole(gpu.power_limit_min_watts), whole(gpu.power_limit_max_watts, "W")
    return _known(
        ("limit ", whole(gpu.power_limit_watts, "W")),
        (", default ", whole(gpu.power_limit_default_watts, "W")),
        (", ", f"{least} to {most}" if UNKNOWN not in (least, most) else UNKNOWN),
    )


def _pace(row: Row, now: GpuReading) -> Iterator[tuple[str, str]]:
    """How warm it is, how fast it runs, and what holds it back."""
    gpu, reasons = row.gpu, now.throttle_reasons
    warm = _known(
        ("", whole(now.temperature_c, "°C")),
        (", memory ", whole(now.temperature_memory_c, "°C")),
        ("; slows at ", whole(gpu.temperature_slowdown_c, "°C")),
    )
    yield "Temperature", warm
    memory = f"{whole(now.clock_memory_mhz)}/{whole(gpu.clock_memory_max_mhz, 'MHz')}"
    state = "" if now.performance_state is None else f", P{now.performance_state}"
    yield "Clocks", f"{_engine(row)}, memory {memory}{state}"
    causes = ", ".join(held(reason, gpu.vendor) for reason in reasons or ())
    yield "Slowed by", UNKNOWN if reasons is None else causes or "nothing"


def _place(row: Row) -> Iterator[tuple[str, str]]:
    """The GPU's NIC, its switch and its CPUs."""
    gpu, nic = row.gpu, row.nic
    if nic is not None:
        place = f" ({nic.place})" if nic.place else ""
        yield "NIC", f"{nic.text}{place}{f'; {nic.because}' if nic.because else ''}"
    if row.nic_now:
        yield "NIC now", row.nic_now
    if row.switch:
        yield "PCIe switch", row.switch
    yield (
        "CPUs",
        _known(
            ("", text(gpu.cpu_affinity or None)),
            (", NUMA node ", whole(gpu.numa_node)),
            ("; its own memory is node ", whole(gpu.gpu_numa_id)),
        ),
    )


def brief_line(row: Row, width: int) -> Line:
    """The same of a narrow terminal, in one line."""
    gpu, nic = row.gpu, row.nic
    spans: list[Span] = [(f" {gpu_label(gpu)} ", "strong")]
    if nic is not None:
        spans.append((clean(nic.text, 100), "" if nic.taken else "muted"))
    cpus = _known(("CPUs ", text(gpu.cpu_affinity or None)), (", NUMA ", whole(gpu.numa_node)))
    for part in (cpus, f"switch {row.switch}" if row.switch else ""):
        more = ((" · ", "muted"), (clean(part, 60), "muted"))
        if part not in ("", UNKNOWN) and width_of((*spans, *more)) < width:
            spans += more
    return tuple(spans)


def _engine(row: Row) -> str:
    """The clock of the compute units: NVIDIA's SMs, AMD's graphics engine."""
    gpu, now = row.gpu, row.reading
    assert now is not None
    vendor = vendor_of(gpu)
    current = getattr(now, f"clock_{vendor.clock_field}_mhz")
    most = getattr(gpu, f"clock_{vendor.clock_field}_max_mhz")
    return f"{vendor.clock or 'graphics'} {whole(current)}/{whole(most, 'MHz')}"


def _modes(row: Row) -> Iterator[tuple[str, str]]:
    """MIG, persistence and compute mode are NVIDIA's alone."""
    gpu = row.gpu
    modes = (
        []
        if vendor_of(gpu) is not NVIDIA
        else [
            f"MIG {_mig(gpu)}",
            f"persistence {text(gpu.persistence)}",
            f"compute {text(gpu.compute_mode)}",
        ]
    )
    if gpu.virtualization not in {None, "none"}:
        modes.append(f"virtualization {gpu.virtualization}")
    if modes:
        yield "Modes", ", ".join(modes)


def _mig(gpu: Gpu) -> str:
    if gpu.mig_enabled is None:
        return "not offered" if gpu.why("mig_enabled") in NO_LINKS else "not known"
    return _MIG[gpu.mig_enabled]


def _known(*facts: tuple[str, str]) -> str:
    """Facts in a row, each behind its lead-in; the unknown ones are left out."""
    row = "".join(lead + value for lead, value in facts if value != UNKNOWN)
    return row.lstrip(",; ") or UNKNOWN


def _words(*values: str | None) -> str:
    return " ".join(value for value in values if value) or UNKNOWN


def _pcie(row: Row) -> str:
    gpu, now = row.gpu, row.reading
    if now is None:
        return UNKNOWN
    asleep = (
        now.pcie_gen is not None
        and gpu.pcie_gen_max is not None
        and now.pcie_gen < gpu.pcie_gen_max
    )
    note = " (low while idle is normal)" if asleep else ""
    return (
        f"gen {whole(now.pcie_gen)} of {whole(gpu.pcie_gen_max)}{note},"
        f" x{whole(now.pcie_width)} of x{whole(gpu.pcie_width_max)},"
        f" link replays {whole(now.pcie_replays)}"
    )


def _links(row: Row) -> str:
    gpu = row.gpu
    if gpu.xgmi:
        return _xgmi(row)
    if not gpu.nvlinks:
        why = gpu.why("nvlinks")
        if without_links(gpu):
            return "none on this GPU"
        return f"not read: {why}" if why else "none" if gpu.uuid is not None else UNKNOWN
    kinds = []
    key = [
        (link.version or "", link.raw_gbs, _END.get(link.remote_kind or "", "an end not told"))
        for link in gpu.nvlinks
        if link.active
    ]
    for (version, raw, remote), group in groupby(sorted(key, key=str)):
        kinds.append(f"{len(list(group))} × v{version} {figure(raw)} GB/s raw to {remote}")
    payload = nvlink_wire(gpu.nvlinks_up, None).payload_gbs if kinds else None
    if payload is not None:
        kinds[-1] += f", {gbs(payload)} payload one way"
    down = [str(link.link) for link in gpu.nvlinks if link.active is False]
    if down:
        kinds.append(f"down: link{'s' * (len(down) > 1)} {', '.join(down)}")
    return "; ".join(kinds) or UNKNOWN


def _xgmi(row: Row) -> str:
    """How many neighbours are joined, the rate to one of them and to all together."""
    links = row.gpu.xgmi
    rates = [link.raw_gbs for link in links if link.active is not False]
    up = active_links(row.gpu)
    # KFD lists the neighbours but not whether a wire is up.
    unread = f"{len(links)} neighbours, whether they are up was not read"
    most = up + row.links_missing if up is not None and row.links_missing else len(links)
    words = unread if up is None else f"{up} of {most} neighbours up"
    if not rates or None in rates:
        return words
    known = [rate for rate in rates if rate is not None]
    low, high = figure(min(known)), figure(max(known))
    each = low if low == high else f"{low} to {high}"
    return f"{words}, {each} GB/s to one, {figure(sum(known))} to all together"


def _fabric(row: Row) -> str:
    fabric = row.gpu.fabric
    assert fabric is not None
    bad = [f"{what} {value}" for what, value in fabric.health if value == "true"]
    if (fabric.state, fabric.status or "Success", bad) == ("completed", "Success", []):
        return "ready"
    parts = [text(fabric.state), *([fabric.status] if fabric.status else []), *bad]
    return ", ".join(parts)


def _ecc(row: Row) -> str:
    ecc = None if row.reading is None else row.reading.ecc
    blocks = () if row.reading is None else row.reading.ecc_blocks
    state = {True: "on", False: "off", None: UNKNOWN}[row.gpu.ecc_enabled]
    if blocks:
        bad = [f"{block.block} {block.uncorrected}" for block in blocks if block.uncorrected]
        return f"{state}, uncorrected {', '.join(bad) or 0} in {len(blocks)} blocks"
    if ecc is None:
        return state
    since, ever = ecc.uncorrected_volatile, ecc.uncorrected_aggregate
    counts = f", uncorrected {whole(since)} since load, {whole(ever)} in all"
    return (
        state
        + ("" if since is None and ever is None else counts)
        + (", remap pending" if ecc.remap_pending else "")
        + (", remap FAILED" if ecc.remap_failed else "")
    )


def _processes(row: Row) -> Iterator[tuple[str, str]]:
    found = None if row.reading is None else row.reading.processes
    if found is None:
        yield "Processes", UNKNOWN
    for process in found or ():
        known = row.processes.get(process.pid)
        command = known.command if known is not None and known.command else "name not readable"
        user = f", {known.user}" if known is not None and known.user else ""
        yield f"pid {process.pid}", f"{command}{user}, {size(process.memory_bytes)}, {process.kind}"


# Compute units, caches and memory banks of an AMD GPU, for its details.
def chip_facts(gpu: Gpu) -> Iterator[tuple[str, str]]:
    """Name and value of what KFD and amdsmi report; nothing for what neither reports."""
    if gpu.core_count is not None:
        dies = gpu.xcd_count
        across = f" in {dies} XCD{'s' * (dies != 1)}" if dies else ""
        yield "Compute", f"{gpu.core_count} compute units{across}"
    if gpu.caches:
        yield "Caches", ", ".join(_cache(cache, gpu) for cache in gpu.caches)
    if gpu.memory_banks:
        yield "Memory banks", "; ".join(_bank(bank) for bank in gpu.memory_banks)
    elif gpu.memory_bus_bits is not None:
        yield "Memory bus", whole(gpu.memory_bus_bits, "bit")


def _cache(cache: GpuCache, gpu: Gpu) -> str:
    count = f"{cache.count} x " if cache.count is not None and cache.count > 1 else ""
    kind = "" if cache.kind in (CacheKind.DATA, CacheKind.NOT_TOLD) else f" ({cache.kind})"
    amount = f"{count}{size(cache.size_bytes)}{kind}"
    if cache.level == _LAST_LEVEL:
        return f"Infinity Cache (L3) {amount}"
    if cache.level == 2 and _has_xcds(gpu):
        # Newer kernels give the L2 of one XCD, older ones the sum (kfd_topology.c).
        return f"L2 {amount} (of one XCD; older kernels add up all)"
    return f"L{cache.level} {amount}"


def _has_xcds(gpu: Gpu) -> bool:
    if gpu.xcd_count is not None:
        return gpu.xcd_count > 1
    return gpu.compute_capability in _OF_XCDS and gpu.compute_partition != "CPX"


def _bank(bank: MemoryBank) -> str:
    facts = [
        size(bank.size_bytes),
        whole(bank.width_bits, "bit"),
        whole(bank.clock_mhz, "MHz"),
        _REACH.get(bank.kind, bank.kind),
    ]
    return ", ".join(fact for fact in facts if fact != UNKNOWN)
