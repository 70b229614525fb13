"""NVLinks that are up while P2P over them is refused."""

from __future__ import annotations

from collections.abc import Sequence

from ....hardware.vendors import NVIDIA
from ....model.finding import Finding
from ....model.severity import BROKEN, SLOW, Severity
from ...case import Case
from ...pairs import OK, Pair, devices_of, named
from ...rule import Found, Rule
from ...shared.p2p_grants import SHOWN, grant_of, whole_pairs


def _check_nvlink(case: Case) -> Found:
    pairs = [pair for pair in whole_pairs(case) if pair.words or _nvlink_words(pair)]
    if not pairs:
        return None
    asked = [pair for pair in pairs if pair.letters.startswith("NV")]
    refused = [pair for pair in asked if pair.granted is False]
    over_pcie = [
        pair for pair in asked if pair.granted and any(word != OK for word in _nvlink_words(pair))
    ]
    found = []
    if refused:
        found.append(
            _nvlink(
                case,
                refused,
                BROKEN,
                f"NVLinks are up, but the driver refuses P2P: {named(case, refused)}",
                "NCCL stops at start: it takes the refusal on an NVLink path for a hardware "
                "fault, unless NCCL_IGNORE_DISABLED_P2P=1 is set; then all goes over host memory.",
            )
        )
    if over_pcie:
        found.append(
            _nvlink(
                case,
                over_pcie,
                SLOW,
                f"NVLinks are up, but P2P does not use them: {named(case, over_pcie)}",
                "The driver grants P2P over PCIe alone. NCCL counts on NVLink here, and gets a "
                "tenth of it.",
            )
        )
    return found


def _nvlink_words(pair: Pair) -> list[str]:
    return [grant.p2p_nvlink for grant in pair.grants if grant.p2p_nvlink is not None]


def _nvlink(
    case: Case, pairs: Sequence[Pair], severity: Severity, title: str, impact: str
) -> Finding:
    return NVLINK.finding(
        severity,
        title,
        devices=devices_of(pairs),
        evidence=[
            *(grant_of(case, pair) for pair in pairs[:SHOWN]),
            (
                f"relation of {named(case, pairs, 1)}",
                f"{pairs[0].letters}: the links are trained",
                "NVML nvmlDeviceGetNvLinkState",
            ),
        ],
        impact=impact,
        fix=[
            "Compare the state of the fabric of all GPUs. $ nvidia-smi -q | grep -A4 Fabric",
            (
                "Start the fabric manager of the driver's version, or reset the GPUs. "
                "# systemctl restart nvidia-fabricmanager"
            ),
        ],
    )


NVLINK = Rule(
    id="nvlink-p2p-refused",
    family="D04",
    title="NVLinks that are up while P2P over them is refused",
    evidence="P2P status of each pair that NVLink joins",
    vendor=NVIDIA.id,
    disproof="OK in `nvidia-smi topo -p2p r` and `-p2p n` for the pair",
    sources=("NVIDIA/nccl#2329", "NVIDIA/nccl src/graph/paths.cc", "NVIDIA/NVSentinel#883"),
    check=_check_nvlink,
    implied_by=("fabric-state", "fabric-manager", "fabric-health", "gpu-lost"),
)


RULES = (NVLINK,)
