"""Which machine printed each output of a text: two in one paste are not one node."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..model.part import PartialNode
from ..model.record import by_address

_PROMPT = re.compile(
    r"^\W{0,3}(?:\([\w.-]{1,40}\) ?)?"
    r"(?:\[?[\w.-]{1,40}@([\w.-]{1,64})[^$#>\n]{0,80}[$#>]"
    r"|([A-Za-z][\w.-]{1,63})(?::\S{0,60})? ?[$#])"
    r" +[a-z./]"
)
"""The prompt of a shell: root@node1:~# nvidia-smi, [me@node1 ~]$ .., node1$ ..."""
_KERNEL = re.compile(
    r"^(?:[A-Z][a-z]{2} +\d{1,2} [\d:]{8}|\d{4}-\d\d-\d\dT[\d:.,+-]{8,32}Z?) ([\w.-]{1,64}) kernel:"
)
"""A line of the kernel in a system's log, which names its host."""
_NOBODY = re.compile(r"[0-9a-f]{12,64}|localhost|[\d.]+")
"""What stands in a host's place and names none: the id of a container, an address."""


def by_host(output: str) -> dict[str, str]:
    """The lines of an output by the hosts that they name; other lines go with those before.

    Lines of other hosts are empty, so that each stays where it was. One entry where at most one
    host is named.
    """
    lines = output.split("\n")
    owners, owner = [], ""
    for line in lines:
        if (said := _KERNEL.match(line)) is not None:
            owner = _short(said[1])
        owners.append(owner)
    hosts = [host for host in dict.fromkeys(owners) if host]
    if len(hosts) < 2:
        return {"".join(hosts): output}
    first = [host or hosts[0] for host in owners]
    return {
        host: "\n".join(line if own == host else "" for line, own in zip(lines, first, strict=True))
        for host in hosts
    }


def host_before(lines: Iterable[str]) -> str:
    """The host that the last prompt of these lines names; "" where there is none."""
    named = ""
    for line in lines:
        if (prompt := _PROMPT.match(line)) is not None:
            named = _short(prompt[1] or prompt[2]) or named
    return named


def _short(host: str) -> str:
    return "" if _NOBODY.fullmatch(host) else host.partition(".")[0]


def contradicts(part: PartialNode, before: Sequence[PartialNode]) -> bool:
    """Whether an output shows another machine than one of the same format before.

    GPUs of which both have some that the other lacks, another way between the same two, or other
    processors beside one. What only shows fewer GPUs may be a later moment.
    """
    return any(_apart(part, one) for one in before)


def _apart(one: PartialNode, other: PartialNode) -> bool:
    ways, ours = _ways(one), _ways(other)
    if any(way != ours[ends] for ends, way in ways.items() if ends in ours):
        return True
    there = by_address(other.gpus)
    both = [(gpu, there[gpu.address]) for gpu in one.gpus if gpu.address in there]
    if any(len({*filter(None, (a.cpu_affinity, b.cpu_affinity))}) > 1 for a, b in both):
        return True
    mine, theirs = _gpus(one), _gpus(other)
    return bool(mine - theirs and theirs - mine)


def _ways(part: PartialNode) -> dict[tuple[str, str], str]:
    """The code of each pair; how many NVLinks are up may change."""
    return {(one.a, one.b): one.code.rstrip("0123456789") for one in part.relations}


def _gpus(part: PartialNode) -> frozenset[object]:
    return frozenset((gpu.address, gpu.name, gpu.uuid) for gpu in part.gpus)
