"""Vendors of GPUs: a module each, with `VENDOR`; the first one's words are the default."""

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

from ..vendor import Vendor, unknown

if TYPE_CHECKING:
    from ...model.machine import Gpu

NAMES = (
    "nvidia",
    "amd",
)
VENDORS: tuple[Vendor, ...] = tuple(import_module(f"{__name__}.{name}").VENDOR for name in NAMES)
BY_ID = {vendor.id: vendor for vendor in VENDORS}
NVIDIA, AMD = BY_ID["nvidia"], BY_ID["amd"]
"""The vendors that code about their hardware names."""
BY_PCI_ID = {number: vendor for vendor in VENDORS for number in vendor.pci_ids}


def vendor_of(gpu: "Gpu") -> Vendor:
    """The maker of a GPU; a record that is not `known` where the vendor has none."""
    return BY_ID.get(gpu.vendor) or unknown(gpu.vendor)


def vendors_of(gpus: "Iterable[Gpu]") -> tuple[Vendor, ...]:
    """The vendors of these GPUs, each once: those in the registry in its order, then others."""
    found = {gpu.vendor: vendor_of(gpu) for gpu in gpus}
    order = list(BY_ID)
    return tuple(
        sorted(
            found.values(),
            key=lambda vendor: (order.index(vendor.id) if vendor.known else len(order), vendor.id),
        )
    )


def only(gpus: "Iterable[Gpu]") -> Vendor | None:
    """The vendor of all of these GPUs; None without GPUs, or with those of several vendors."""
    found = vendors_of(gpus)
    return found[0] if len(found) == 1 else None
