"""NVLinks and the fabric registration in NVML's raw answers."""

from __future__ import annotations

import uuid

from ...model.machine import Fabric, NvLink
from ...model.part import Raw
from ..files.library_answers import Answers, dicts, is_whole, odd
from ..pci.address import pci_address
from .answers import FIELDS, NVML, refusal
from .words import (
    FABRIC_STATES,
    FABRIC_SUMMARIES,
    NVLINK_REMOTES,
    NVLINK_VERSIONS,
    RETURNS,
    fabric_health,
    word,
)

_MAX_LINKS = 64
_SPEED = "NVML_FI_DEV_NVLINK_GET_SPEED"
_INACTIVE = "the link is not active"


def nvlinks(a: Answers, assumptions: list[str]) -> tuple[NvLink, ...]:
    """The links that exist on this GPU, active or not; where there are none, the gap says why."""
    entries = dicts(a.raw.get("links"))[:_MAX_LINKS]
    links: dict[int, NvLink] = {}
    for entry in entries:
        number = entry.get("link")
        if is_whole(number) and 0 <= number < _MAX_LINKS and "state" in entry:
            links[number] = _link(entry, number, a, assumptions)
    if not links:
        why = next((refusal(entry) for entry in entries if "error" in entry), None)
        a.miss("nvlinks", why or refusal(a.raw.get("links")) or "the driver lists no link")
    return tuple(links[number] for number in sorted(links))


def _link(raw: dict[str, Raw], number: int, device: Answers, assumptions: list[str]) -> NvLink:
    a = Answers(raw, NVML)
    active = a.flag("active", "state")
    return NvLink(
        link=number,
        active=active,
        version=_version(a),
        raw_gbs=_speed(a, active, device, assumptions),
        remote_address=_remote(a),
        remote_kind=_remote_kind(a),
        remote_link=_remote_link(a),
        p2p_capable=a.flag("p2p_capable", "cap0"),
        gaps=a.gaps,
    )


def _version(a: Answers) -> str | None:
    number = a.number("version", "version")
    if number == 0:  # NVML_NVLINK_VERSION_INVALID
        a.miss("version", "the driver says invalid")
        return None
    return None if number is None else word(NVLINK_VERSIONS, number)


def _speed(
    a: Answers, active: bool | None, device: Answers, assumptions: list[str]
) -> float | None:
    """Return 26.562 for 26562: the field counts MB/s of signalling, one way."""
    if active is False:
        a.miss("raw_gbs", _INACTIVE)
        return None
    fields = a.raw.get("fields")
    if isinstance(fields, dict):
        mbps = a.number("raw_gbs", (FIELDS, _SPEED))
    else:
        # A recording that asked without a link scope holds one value for the whole GPU.
        mbps = Answers(device.raw, NVML).number("raw_gbs", (FIELDS, _SPEED))
        if mbps is None:
            a.miss("raw_gbs", "not asked")
        else:
            assumptions.append(
                "NVLink rate: the recording holds one value a GPU; taken for each active link"
            )
    if mbps is not None and mbps <= 0:
        a.miss("raw_gbs", "the driver says 0")
        return None
    return None if mbps is None else mbps / 1000


def _remote(a: Answers) -> str | None:
    pci = a.get("remote_address", "remote_pci")
    if pci is None:
        return None
    text = pci.get("busId") if isinstance(pci, dict) else None
    found = pci_address(text)
    if found is None:
        hidden = isinstance(text, str) and text.upper().startswith("FFFFFFF")
        a.miss("remote_address", "the driver hides it" if hidden else odd(pci))
    return found


def _remote_kind(a: Answers) -> str | None:
    number = a.number("remote_kind", "remote_type")
    if number == 0xFF:  # NVML_NVLINK_DEVICE_TYPE_UNKNOWN
        a.miss("remote_kind", "the driver says unknown")
        return None
    return None if number is None else word(NVLINK_REMOTES, number)


def _remote_link(a: Answers) -> int | None:
    field = "NVML_FI_DEV_NVLINK_REMOTE_NVLINK_ID"
    number = a.number("remote_link", (FIELDS, field))
    if number is not None and _remote(Answers(a.raw, NVML)) is None:
        # A virtual machine: every link names 0 there (seen on four H200, driver 580.159).
        a.miss("remote_link", "the driver hides the other end")
        return None
    return number


def fabric(device: Answers) -> Fabric | None:
    """Decode the registration with the NVSwitch fabric; None and a gap when there is no answer."""
    raw = device.get("fabric", "fabric")
    if raw is None:
        return None
    if not isinstance(raw, dict):
        device.miss("fabric", odd(raw))
        return None
    a = Answers(raw, NVML)
    state = a.word("state", FABRIC_STATES, "state")
    if state in (None, "not supported"):
        return Fabric(state=state, gaps=a.gaps)
    mask = a.number("health_mask", "healthMask")
    if mask is not None and not 0 <= mask < 2**32:
        a.miss("health_mask", "not understood")
        mask = None
    health = () if mask is None else fabric_health(mask)
    summary = raw.get("healthSummary")
    if is_whole(summary):
        health = (("summary", word(FABRIC_SUMMARIES, summary)), *health)
    return Fabric(
        state=state,
        status=a.word("status", RETURNS, "status"),
        cluster_uuid=_cluster(a),
        clique_id=a.number("clique_id", "cliqueId"),
        health_mask=mask,
        health=health,
        gaps=a.gaps,
    )


def _cluster(a: Answers) -> str | None:
    """Sixteen bytes as a UUID; all zero is normal on a single HGX board."""
    value = a.get("cluster_uuid", "clusterUuid")
    whole = isinstance(value, list) and all(is_whole(n) and 0 <= n < 256 for n in value)
    if whole and len(value) == 16:
        return str(uuid.UUID(bytes=bytes(value)))
    if value is not None:
        a.miss("cluster_uuid", odd(value))
    return None
