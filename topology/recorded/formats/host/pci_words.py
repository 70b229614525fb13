"""What the words of lspci mean: names of classes, of makers, and of what only a guest has."""

from __future__ import annotations

import re

CLASSES = {
    "VGA compatible controller": 0x030000,
    "3D controller": 0x030200,
    "Display controller": 0x038000,
    "Processing accelerators": 0x120000,
    "PCI bridge": 0x060400,
    "Host bridge": 0x060000,
    "Bridge": 0x068000,
    "Ethernet controller": 0x020000,
    "Infiniband controller": 0x020700,
    "Network controller": 0x028000,
    "Fabric controller": 0x020800,
    "Non-Volatile memory controller": 0x010802,
    "Audio device": 0x040300,
    "System peripheral": 0x088000,
}
"""Names that pci.ids gives to the classes that matter here."""
NO_CLASS = 0xFF0000
MAKERS = (
    ("NVIDIA Corporation", 0x10DE),
    ("Advanced Micro Devices, Inc. [AMD/ATI]", 0x1002),
    ("Advanced Micro Devices, Inc. [AMD]", 0x1022),
    ("Advanced Micro Devices [AMD]", 0x1022),
    ("Mellanox Technologies", 0x15B3),
    ("Intel Corporation", 0x8086),
    ("PLX Technology, Inc.", 0x10B5),
    ("Broadcom / LSI", 0x1000),
    ("Broadcom Inc. and subsidiaries", 0x14E4),
    ("Broadcom Limited", 0x14E4),
    ("Microsemi / PMC / IDT", 0x11F8),
    ("PMC-Sierra Inc.", 0x11F8),
    ("Amazon.com, Inc.", 0x1D0F),
    ("Red Hat, Inc.", 0x1AF4),
    ("Red Hat, Inc. QEMU", 0x1B36),
    ("VMware", 0x15AD),
    ("Microsoft Corporation", 0x1414),
    ("ASPEED Technology, Inc.", 0x1A03),
)
GUEST_ONLY = re.compile(
    r"Virtio|QEMU|Red Hat|VMware|Hyper-V|Amazon\.com|Google, Inc\.|VirtualBox|InnoTek|Xen|"
    r"440FX|82G33|82801I|XIO3130|Cirrus Logic"
)
"""Devices that hypervisors make up; a host has them only where it is a guest itself."""
OF_A_CPU = re.compile(
    r"\[AMD\].{0,60}(?:GPP Bridge|Root Port|PCIe Dummy Host|Internal PCIe)|"
    r"Intel Corporation.{0,60}PCI Express Root Port|"
    r"PLX Technology|PEX\s?8\d{3}|PEX\s?890\d\d|Switchtec"
)
"""Root ports of real CPUs, and PCIe switches: no hypervisor draws them."""
EMULATED_PORT = re.compile(r"X58 I/O Hub|ICH9")
"""An old Intel port that QEMU emulates."""
_SUFFIX = re.compile(r"\s*\((?:rev [0-9a-f]{2}|prog-if [0-9a-f]{2}[^)]{0,60})\)")
_IDS = re.compile(r"\s*\[([0-9a-f]{4}):([0-9a-f]{4})\]\s*\Z")
_CHIP = re.compile(r"\b(?:G[A-Z]\d{3}[A-Z]{0,3}|AD\d{3}[A-Z]{0,3}|TU\d{3}[A-Z]{0,3})\b")
_UNLISTED = re.compile(r"Device ([0-9a-f]{4})\b")
"""What lspci prints for a device that its list of names lacks."""
_UNLISTED_GPU = re.compile(r"\[AMD/ATI\] Device (?:6[6-9a-f]|7[0-5])[0-9a-f]{2}\b")
"""The numbers of AMD's graphics chips since GCN, beside which there are bridges and sound."""
_AUDIO = re.compile(r"Audio|USB|UCSI|NVSwitch|bridge", re.IGNORECASE)
_NIC = re.compile(r"ConnectX|BlueField|Ethernet|Elastic Fabric|Infiniband|Thor", re.IGNORECASE)


def class_of(words: str) -> int:
    """The class code of a name such as "3D controller"; NO_CLASS for one that does not matter."""
    return CLASSES.get(words.strip(), NO_CLASS)


def class_by_name(name: str) -> int:
    """The class of a device whose name alone is known, as in `lspci -tv`."""
    if "NVSwitch" in name:
        return CLASSES["Bridge"]
    if _AUDIO.search(name):
        return NO_CLASS
    if name.startswith("NVIDIA Corporation") and _CHIP.search(name):
        return CLASSES["3D controller"]
    if "[AMD/ATI]" in name and "Instinct" in name:
        return CLASSES["Processing accelerators"]
    if _UNLISTED_GPU.search(name):
        return CLASSES["Display controller"]
    return CLASSES["Ethernet controller"] if _NIC.search(name) else NO_CLASS


def named(text: str) -> tuple[int | None, int | None, str]:
    """Vendor id, device id (with -nn) and the name of the device without that of its maker."""
    text = _SUFFIX.sub("", text).strip()
    ids = _IDS.search(text)
    if ids is not None:
        text = text[: ids.start()].rstrip()
    vendor = int(ids[1], 16) if ids is not None else None
    device = int(ids[2], 16) if ids is not None else None
    for maker, known in MAKERS:
        if text.startswith(maker):
            name = text[len(maker) :].strip()
            unlisted = _UNLISTED.match(name)
            return vendor or known, device or (int(unlisted[1], 16) if unlisted else None), name
    return vendor, device, text


def bare_metal(names: list[str]) -> bool | None:
    """Whether the devices are those of a machine, not of a guest; None where nothing shows it."""
    if any(GUEST_ONLY.search(name) for name in names):
        return None
    real = any(OF_A_CPU.search(name) and not EMULATED_PORT.search(name) for name in names)
    return True if real else None
