"""Packages of NCCL that lie over each other."""

from __future__ import annotations

from ....hardware.vendors import NVIDIA
from ....model.severity import NOTICE
from ...case import Case
from ...rule import Found, Rule


def _check(case: Case) -> Found:
    software = case.machine.software
    if software is None:
        return None
    packages = software.nccl_packages
    if len({package.rpartition(" ")[2] for package in packages}) < 2:
        return []
    return NCCL_PACKAGES.finding(
        NOTICE,
        f"{len(packages)} packages of NCCL put their library at one place: a job loads "
        f"{software.nccl or 'one of them'}",
        evidence=[
            ("packages (nvidia-nccl-cuNN)", ", ".join(packages), "folders .dist-info beside torch"),
            (
                "version that the library itself names",
                software.nccl or "unknown",
                software.nccl_path or "the library",
            ),
        ],
        impact="The one that was installed last wrote over the other; pip names both, "
        "and a torch built for the other one may fail on a symbol.",
        fix=[
            "Keep the package for the CUDA of your torch: remove all, then install that "
            "one again. $ pip list | grep -i nvidia-nccl"
        ],
    )


NCCL_PACKAGES = Rule(
    id="nccl-packages-overlap",
    title="packages of NCCL that lie over each other",
    evidence="the packages of NCCL beside torch, and the version that the library itself names",
    disproof="one package of NCCL in `pip list | grep -i nvidia-nccl`",
    sources=("the contents of NVIDIA's packages nvidia-nccl-cu12 and nvidia-nccl-cu13",),
    vendor=NVIDIA.id,
    check=_check,
)

RULES = (NCCL_PACKAGES,)
