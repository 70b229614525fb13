"""Where the driver of a GPU says one thing and the kernel another: one of them is wrong.

Both are answers with sense, so neither is a gap, and nothing here shows which to believe. What a
verdict rests on is then not known.
"""

from collections.abc import Iterator
from itertools import pairwise

from ..expectation.links import FIRST_RESTING, generation_of, pcie_gbs
from ..model import quantities
from ..model.machine import Gpu, PciDevice, PciKind
from ..model.snapshot import Problem, ProblemKind
from ..sources.pci.devices import AMD
from .case import Case

_COPIES = (quantities.HOST_TO_DEVICE, quantities.DEVICE_TO_HOST)
LINK, NUMA, MEMORY = "PCIe link", "NUMA node", "memory that the bus reaches"


def disputed(case: Case) -> Iterator[tuple[str, str, str]]:
    """Address of the GPU, what is not known of it, and what the two say."""
    for gpu in case.gpus:
        device = case.pci(gpu.address)
        if device is None or gpu.is_vgpu:
            continue
        for what, why in (
            *_lanes_now(case, gpu, device),
            *_most(case, gpu, device),
            *_numa(gpu, device),
            *_window(gpu, device),
        ):
            yield gpu.address, what, why
    for problem in case.snapshot.problems:
        yield from _of_sources(case, problem)


def _of_sources(case: Case, problem: Problem) -> Iterator[tuple[str, str, str]]:
    """What merging found of two sources on the same GPU; that of a library is a rule's."""
    if problem.kind is ProblemKind.MISMATCH:
        known = {gpu.address for gpu in case.gpus}
        for address in problem.devices:
            if address in known:
                yield address, "what KFD and the driver's library say differently", problem.text


def _inner(case: Case, device: PciDevice) -> bool:
    """Whether its link is inside of AMD's package, where amdgpu speaks of the switch's outer one.

    Source: drivers/gpu/drm/amd/amdgpu/amdgpu_device.c, amdgpu_device_partner_bandwidth.
    """
    above = case.pci(device.parent)
    return above is not None and above.vendor_id == AMD and above.kind is PciKind.DOWNSTREAM


def _lanes_now(case: Case, gpu: Gpu, device: PciDevice) -> Iterator[tuple[str, str]]:
    """Lanes that are trained: both read the same register, and a link without L0p keeps them."""
    now = case.reading(gpu)
    lanes = None if now is None else now.pcie_width
    gen = generation_of(device.link_speed_max_gts) or gpu.pcie_gen_max or 0
    if not lanes or not device.link_width_now or gen >= FIRST_RESTING or _inner(case, device):
        return
    if lanes != device.link_width_now and not _decided(case, gpu, gen, lanes, device):
        yield LINK, f"the driver says x{lanes}, the kernel x{device.link_width_now}"


def _decided(case: Case, gpu: Gpu, gen: int, lanes: int, device: PciDevice) -> bool:
    """Whether a copy was faster than the fewer lanes allow, so that it shows who is right."""
    carries = pcie_gbs(gen, min(lanes, device.link_width_now or 0))
    return carries is not None and any(
        figure.src == gpu.address and (figure.value or 0.0) > carries
        for quantity in _COPIES
        for figure in case.figures(quantity, "pinned")
    )


def _most(case: Case, gpu: Gpu, device: PciDevice) -> Iterator[tuple[str, str]]:
    """What the link can be: the driver counts the way up in, so the least of both ends of each.

    The kernel's highest speed may be lower than the driver's: a sleeping GPU states less.
    """
    if _inner(case, device):
        return
    lanes, own = gpu.pcie_width_max, device.link_width_max
    if lanes and own and lanes > own:
        yield LINK, f"the driver says up to x{lanes}, the kernel x{own}"
    gen, said = generation_of(device.link_speed_max_gts), gpu.pcie_gen_max_device
    if gen and said and said < gen:
        yield LINK, f"the driver says that the GPU can gen{said}, the kernel gen{gen}"
    chain = case.way_up(gpu.address)
    whole, fastest = _least_lanes(chain), _least_speed(chain)
    if lanes and whole and lanes < whole:
        yield LINK, f"the driver says up to x{lanes}, the kernel x{whole} on the whole way up"
    if gpu.pcie_gen_max and fastest and gpu.pcie_gen_max < fastest:
        yield (
            LINK,
            f"the driver says up to gen{gpu.pcie_gen_max}, the kernel gen{fastest} on the whole "
            "way up",
        )


def _links(chain: tuple[PciDevice, ...]) -> list[tuple[PciDevice, PciDevice]]:
    """Both ends of every link of the way up; () where a part is inside of a switch alone."""
    return [(low, high) for low, high in pairwise(chain) if low.kind is not PciKind.DOWNSTREAM]


def _least_lanes(chain: tuple[PciDevice, ...]) -> int | None:
    ends = [end.link_width_max for link in _links(chain) for end in link]
    known = [lanes for lanes in ends if lanes]
    return min(known) if known and len(known) == len(ends) else None


def _least_speed(chain: tuple[PciDevice, ...]) -> int | None:
    ends = [generation_of(end.link_speed_max_gts) for link in _links(chain) for end in link]
    known = [gen for gen in ends if gen]
    return min(known) if known and len(known) == len(ends) else None


def _numa(gpu: Gpu, device: PciDevice) -> Iterator[tuple[str, str]]:
    """The NUMA node; of several that the driver names as near, one has to be the kernel's."""
    kernel, near = device.numa_node, gpu.memory_affinity or ()
    if kernel is None:
        return
    if gpu.numa_node not in (None, kernel):
        yield NUMA, f"the driver says {gpu.numa_node}, the kernel {kernel}"
    elif near and kernel not in near:
        named = ", ".join(map(str, near))
        yield NUMA, f"the driver says that the memory of {named} is near, the kernel {kernel}"


def _window(gpu: Gpu, device: PciDevice) -> Iterator[tuple[str, str]]:
    """A BAR1 larger than each region that the kernel has given the GPU.

    With NVLink-C2C the CPU reaches the memory without one.
    """
    size = gpu.bar1_bytes
    if size and device.bars and size > max(device.bars) and not gpu.c2c_enabled:
        whole, most = size / 2**20, max(device.bars) / 2**20
        yield MEMORY, f"the driver says {whole:.0f} MiB, the largest region of it is {most:.0f} MiB"
