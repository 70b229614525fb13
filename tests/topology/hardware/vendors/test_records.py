"""The records of the vendors: no two answer for one GPU, and what they name is there."""

from __future__ import annotations

from collections import Counter
from importlib import import_module

from gputop.topology import sources
from gputop.topology.hardware.vendors import BY_PCI_ID, NAMES, VENDORS, only, vendor_of, vendors_of
from gputop.topology.model.machine import Gpu

GPUS = [
    Gpu(address=f"0000:0{n}:00.0", vendor=name) for n, name in enumerate(("x", "amd", "nvidia"))
]


def test_a_record_has_the_name_of_its_file() -> None:
    assert tuple(vendor.id for vendor in VENDORS) == NAMES


def test_no_two_vendors_share_an_id_a_name_or_a_source() -> None:
    assert len(BY_PCI_ID) == sum(len(vendor.pci_ids) for vendor in VENDORS)
    said = Counter(
        word for vendor in VENDORS for word in (vendor.name, vendor.library, vendor.tool)
    )
    said += Counter(source for vendor in VENDORS for source in vendor.sources)
    assert {word for word, count in said.items() if count > 1} == set()


def test_every_source_of_a_vendor_is_one() -> None:
    ids = {import_module(f"gputop.topology.sources.{name}").SOURCE.id for name in sources.MODULES}
    assert {source for vendor in VENDORS for source in vendor.sources} - ids == set()


def test_a_vendor_without_a_record_comes_last_and_is_not_known() -> None:
    assert [vendor.id for vendor in vendors_of(GPUS)] == ["nvidia", "amd", "x"]
    assert [vendor.known for vendor in vendors_of(GPUS)] == [True, True, False]
    assert only(GPUS) is None
    assert only(GPUS[1:2]) == vendor_of(GPUS[1])
    assert only([]) is None
