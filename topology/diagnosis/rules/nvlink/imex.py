"""IMEX channels, without which NVLink between hosts is closed."""

from __future__ import annotations

from ....hardware.vendors import NVIDIA
from ....model.severity import BROKEN, NOTICE
from ...case import Case
from ...rule import Found, Rule
from .fabric import FABRIC_SOURCE, UP


def _imex(case: Case) -> Found:
    known = [gpu for gpu in case.gpus if gpu.fabric is not None and gpu.fabric.cluster_uuid]
    if case.host.imex_channels is None or not known:
        return None
    # A single HGX board has a cluster of zeros: NCCL's mnnvl.cc takes the same sign.
    rack = [
        gpu
        for gpu in known
        if gpu.fabric is not None
        and gpu.fabric.state == UP
        and (gpu.fabric.cluster_uuid or "").strip("0-")
    ]
    if not rack or case.host.imex_channels:
        return []
    addresses = [gpu.address for gpu in rack]
    # A container or a job is given a channel only where it asks for one.
    return IMEX.finding(
        NOTICE if case.may_hide_devices else BROKEN,
        "no IMEX channel may be opened, though NVLink here joins several hosts",
        devices=addresses,
        evidence=[
            ("channels that may be opened", "0", "/dev/nvidia-caps-imex-channels"),
            (
                f"NVLink cluster of {case.name(addresses[0])}",
                "spans hosts (its UUID is not zero)",
                FABRIC_SOURCE,
            ),
        ],
        impact=(
            "A job on this host alone is not touched. One over several hosts of this NVLink "
            "domain fails when NCCL starts, or takes the network instead of NVLink."
        ),
        fix=[
            (
                "Create a channel and start the IMEX daemon on every host of the domain. "
                "# nvidia-modprobe -c 0 && systemctl start nvidia-imex"
            ),
            "In a container, hand the channel in (NVIDIA_IMEX_CHANNELS=0).",
            ("Until then, let NCCL take the network between hosts. $ export NCCL_MNNVL_ENABLE=0"),
        ],
    )


IMEX = Rule(
    id="imex-channel",
    family="D19",
    title="no IMEX channel on a board whose NVLink spans hosts",
    evidence="the channels that may be opened, and the UUID of the NVLink cluster",
    vendor=NVIDIA.id,
    disproof="a channel in /dev/nvidia-caps-imex-channels that this user can open",
    sources=("NVIDIA/nccl#1925", "NVIDIA/nccl#2186", "NCCL src/mnnvl.cc"),
    check=_imex,
)


RULES = (IMEX,)
