"""Text of `rocminfo`: the GPU agents with architecture, name, PCI address and memory."""

from __future__ import annotations

import re

from ....hardware.vendors import AMD
from ....model.format import FormatError, text_format
from ....model.machine import Gpu
from ....model.part import PartialNode
from ....model.record import gaps_of
from ....model.surroundings import Software
from ....sources.pci.address import pci_address

TOOL = "rocminfo"
MAX_GPUS = 128
_AGENT = re.compile(r"\s*Agent (\d{1,4})\s*\Z")
_VALUE = re.compile(
    r"( {2,6})(Name|Uuid|Marketing Name|Device Type|Chip ID|BDFID|Node|Compute Unit|Segment|Size):"
    r"\s+(\S.{0,120}?)\s*\Z"
)
_DRIVER = re.compile(r"\s*ROCk module version ([\w.]{1,20}) is loaded")
_KIB = re.compile(r"(\d{1,12})\(0x[0-9a-f]{1,12}\) KB")
_HEX = re.compile(r"\d{1,6}\(0x([0-9a-f]{4})\)")
_GFX = re.compile(r"gfx[0-9a-f]{3,5}\Z")
_UNKNOWN = ("uuid", "index", "serial", "vbios")


def _parse(lines: list[str]) -> PartialNode:
    agents, driver = _agents(lines)
    found = [agent for agent in agents if agent.get("Device Type") == "GPU"]
    if not found:
        raise FormatError("no GPU among its agents; rocminfo needs access to /dev/kfd")
    if len(found) > MAX_GPUS:
        raise FormatError(f"more than {MAX_GPUS} GPUs")
    addresses = [_address(agent.get("BDFID", "")) for agent in found]
    distinct = None not in addresses and len(set(addresses)) == len(addresses)
    return PartialNode(
        gpus=tuple(
            _gpu(agent, (own if distinct and own else f"topo:{AMD.label}{place}"))
            for place, (agent, own) in enumerate(zip(found, addresses, strict=True))
        ),
        software=None if driver is None else Software(amd_driver=driver),
    )


def _agents(lines: list[str]) -> tuple[list[dict[str, str]], str | None]:
    """What is said of each agent, and the version of the driver."""
    agents: list[dict[str, str]] = []
    driver: str | None = None
    for line in lines:
        if _AGENT.match(line):
            agents.append({})
        elif version := _DRIVER.match(line):
            driver = driver or version[1]
        elif agents and (value := _VALUE.match(line)):
            _keep(agents[-1], value[2], value[3])
    return agents, driver


def _keep(agent: dict[str, str], name: str, text: str) -> None:
    if name == "Size":
        if agent.get("Segment", "").startswith("GLOBAL"):
            agent.setdefault("Memory", text)  # the first global pool is the whole memory
    elif name == "Segment":
        agent[name] = text
    else:
        agent.setdefault(name, text)  # pools and instruction sets have names too


def _address(bdf: str) -> str | None:
    """Bus, device and function in one number, as HSA has them; without the domain."""
    if not bdf.isdecimal() or len(bdf) > 6 or not int(bdf):
        return None
    number = int(bdf)
    return pci_address(f"0000:{number >> 8:02x}:{number >> 3 & 0x1F:02x}.{number & 7}")


def _gpu(agent: dict[str, str], own: str) -> Gpu:
    chip = _HEX.match(agent.get("Chip ID", ""))
    memory = _KIB.match(agent.get("Memory", ""))
    gfx, node, units = (agent.get(name, "") for name in ("Name", "Node", "Compute Unit"))
    known: dict[str, object] = {
        "name": agent.get("Marketing Name"),
        "compute_capability": gfx if _GFX.match(gfx) else None,
        "pci_id": None if chip is None else f"1002:{chip[1]}",
        "memory_bytes": None if memory is None else int(memory[1]) << 10,
        "kfd_node": int(node) if node.isdecimal() and len(node) < 5 else None,
        "core_count": int(units) if units.isdecimal() and len(units) < 6 else None,
    }
    missing = [*_UNKNOWN, *(name for name, value in known.items() if value is None)]
    gaps = gaps_of(missing, f"not in {TOOL}")
    return Gpu(address=own, vendor=AMD.id, gaps=gaps, **known)  # type: ignore[arg-type]


_STARTS = re.compile(
    r"(?m)^[ \t]*(?:ROCk module [^\n]{0,60}loaded|HSA (?:System Attributes|Agents)[ \t]*$|"
    r"Agent \d{1,4}[ \t]*\n[* \t]+\n[ \t]+Name:)"
)
FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    starts=_STARTS,
    needs=("HSA System Attributes", "HSA Agents", "ROCk module ", "Agent "),
    goes_on=re.compile(
        r"[ \t]*(?:Agent \d{1,4}[ \t]*\Z|HSA |ROCk module|\*\*\*|===|[A-Z][\w .()/-]{1,40}:|"
        r"(?:L\d|x|y|z)(?:\(|:| )|ISA \d|Pool \d|FBarrier)"
    ),
    repeats=True,
    together=True,
)
