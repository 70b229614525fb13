"""Modes that an administrator sets: MIG, compute mode, persistence."""

from __future__ import annotations

from collections.abc import Iterable

from ....hardware.vendors import NVIDIA
from ....model.machine import Gpu
from ...case import Case
from ...finding import BROKEN, BY_DESIGN, NOTICE, Evidence, Finding, Fix
from ...rule import Rule

_MIG_SOURCE = "NVML nvmlDeviceGetMigMode"
_COMPUTE_SOURCE = "NVML nvmlDeviceGetComputeMode"
_EXCLUSIVE = ("exclusive process", "exclusive thread")
_PROHIBITED = "prohibited"


def selected(gpus: list[Gpu]) -> str:
    """The option of nvidia-smi that picks these GPUs, with a blank before it; "" for all."""
    numbers = [gpu.index for gpu in gpus]
    return " -i " + ",".join(map(str, numbers)) if None not in numbers else ""


def _mig(case: Case) -> Iterable[Finding] | None:
    known = [gpu for gpu in case.gpus if gpu.mig_enabled is not None]
    if not known:
        return None
    parted = [gpu for gpu in known if gpu.mig_enabled]
    # A container or a job sees only the instances that it was given.
    whole = case.in_container is False and not case.may_hide_devices
    bare = [gpu for gpu in parted if whole and not gpu.mig_instances]
    found = []
    if bare:
        found.append(
            MIG.finding(
                BROKEN,
                f"MIG is on and no instance exists on {case.names([g.address for g in bare])}",
                devices=[gpu.address for gpu in bare],
                evidence=_mig_evidence(case, bare),
                consequence="CUDA finds no device on these GPUs until an instance is made.",
                fix=[
                    Fix(
                        text="List the profiles and make instances of one.",
                        command=f"nvidia-smi mig -lgip{selected(bare)}",
                        needs_root=True,
                    ),
                    _mig_off(bare),
                ],
            )
        )
    rest = [gpu for gpu in parted if gpu not in bare]
    if rest:
        found.append(
            MIG.finding(
                BY_DESIGN,
                f"MIG is on: {case.names([gpu.address for gpu in rest])}",
                devices=[gpu.address for gpu in rest],
                evidence=_mig_evidence(case, rest),
                consequence=(
                    "No P2P over NVLink or PCIe and no NVLS between instances: NCCL goes through "
                    "host memory (SHM) or the network. NVLinks that show as inactive are normal."
                ),
                fix=[_mig_off(rest)],
            )
        )
    return found


def _mig_evidence(case: Case, gpus: list[Gpu]) -> list[Evidence]:
    return [
        Evidence(
            what=f"MIG of {case.name(gpu.address)}",
            value=f"on, instances: {len(gpu.mig_instances)}",
            source=_MIG_SOURCE,
        )
        for gpu in gpus
    ]


def _mig_off(gpus: list[Gpu]) -> Fix:
    return Fix(
        text="For jobs over whole GPUs, switch MIG off while nothing runs.",
        command=f"nvidia-smi{selected(gpus)} -mig 0",
        needs_root=True,
    )


def _mig_pending(case: Case) -> Iterable[Finding] | None:
    known = [gpu for gpu in case.gpus if None not in (gpu.mig_enabled, gpu.mig_pending)]
    if not known:
        return None
    gpus = [gpu for gpu in known if gpu.mig_enabled != gpu.mig_pending]
    if not gpus:
        return []
    words = {True: "on", False: "off"}
    return [
        MIG_PENDING.finding(
            NOTICE,
            f"a change of MIG waits for a reset of {case.names([gpu.address for gpu in gpus])}",
            devices=[gpu.address for gpu in gpus],
            evidence=[
                Evidence(
                    what=f"MIG of {case.name(gpu.address)}",
                    value=f"{words[bool(gpu.mig_enabled)]} now, "
                    f"{words[bool(gpu.mig_pending)]} after a reset",
                    source=_MIG_SOURCE,
                )
                for gpu in gpus
            ],
            consequence="The next reset or restart changes how many devices a job finds.",
            fix=[
                Fix(
                    text="Reset the GPU when nothing uses it, or take the change back.",
                    command=f"nvidia-smi --gpu-reset{selected(gpus)}",
                    needs_root=True,
                )
            ],
        )
    ]


def _compute(case: Case) -> Iterable[Finding] | None:
    known = [gpu for gpu in case.gpus if gpu.compute_mode is not None]
    if not known:
        return None
    found = []
    closed = [gpu for gpu in known if gpu.compute_mode == _PROHIBITED]
    if closed:
        text = "No process can compute on it: CUDA says that the device is unavailable (46)."
        found.append(_compute_finding(case, closed, BROKEN, "computing is prohibited on", text))
    single = [gpu for gpu in known if gpu.compute_mode in _EXCLUSIVE]
    if single:
        text = (
            "One process per GPU works. A second one on the same GPU, such as a notebook, a data "
            "loader that touches CUDA or a second rank, fails with error 46."
        )
        title = "only one process may compute on each of"
        found.append(_compute_finding(case, single, NOTICE, title, text))
    return found


def _compute_finding(
    case: Case, gpus: list[Gpu], severity: str, title: str, consequence: str
) -> Finding:
    addresses = [gpu.address for gpu in gpus]
    return COMPUTE.finding(
        severity,
        f"{title} {case.names(addresses)}",
        devices=addresses,
        evidence=[
            Evidence(
                what=f"compute mode of {case.name(gpu.address)}",
                value=gpu.compute_mode or "",
                source=_COMPUTE_SOURCE,
            )
            for gpu in gpus
        ],
        consequence=consequence,
        fix=[
            Fix(
                text="Set the mode back to default, unless the site wants it so.",
                command=f"nvidia-smi{selected(gpus)} -c DEFAULT",
                needs_root=True,
            )
        ],
    )


def _persistence(case: Case) -> Iterable[Finding] | None:
    known = [gpu for gpu in case.gpus if gpu.persistence is not None]
    if not known:
        return None
    gpus = [gpu for gpu in known if not gpu.persistence]
    if not gpus:
        return []
    addresses = [gpu.address for gpu in gpus]
    return [
        PERSISTENCE.finding(
            NOTICE,
            f"persistence mode is off on {case.names(addresses)}",
            devices=addresses,
            evidence=[
                Evidence(
                    what=f"persistence mode of {case.name(gpu.address)}",
                    value="off",
                    source="NVML nvmlDeviceGetPersistenceMode",
                )
                for gpu in gpus
            ],
            consequence=(
                "The driver puts a GPU down when its last process ends: the next one waits seconds "
                "for it, and limits of power and clocks that were set are lost."
            ),
            fix=[
                Fix(
                    text="Run the persistence daemon, which holds the GPUs up.",
                    command="systemctl enable --now nvidia-persistenced",
                    needs_root=True,
                ),
                Fix(
                    text="Until the next restart:",
                    command=f"nvidia-smi{selected(gpus)} -pm 1",
                    needs_root=True,
                ),
            ],
        )
    ]


MIG = Rule(
    id="mig-enabled",
    peers="D17",
    title="GPUs that are split with MIG",
    evidence="the MIG mode and the instances of each GPU",
    vendor=NVIDIA.id,
    disproof="`nvidia-smi -L` without MIG devices",
    sources=("NVIDIA/nccl#1716", "NVIDIA/k8s-device-plugin#296", "NVIDIA MIG user guide"),
    check=_mig,
)
MIG_PENDING = Rule(
    id="mig-pending",
    peers="D17",
    title="a change of MIG that waits for a reset",
    evidence="the current and the pending MIG mode",
    vendor=NVIDIA.id,
    disproof="`nvidia-smi -q` with the same MIG mode twice",
    sources=("NVIDIA MIG user guide", "NVIDIA NVML API: nvmlDeviceGetMigMode"),
    check=_mig_pending,
)
COMPUTE = Rule(
    id="compute-mode-exclusive",
    title="GPUs that one process, or none, may use",
    evidence="the compute mode of each GPU",
    vendor=NVIDIA.id,
    disproof="`nvidia-smi -q -d COMPUTE` with Compute Mode: Default",
    sources=("CUDA programming guide: compute modes", "NVML nvmlComputeMode_t"),
    check=_compute,
)
PERSISTENCE = Rule(
    id="persistence-off",
    title="GPUs whose driver is put down between jobs",
    evidence="the persistence mode of each GPU",
    vendor=NVIDIA.id,
    disproof="`nvidia-smi -q` with Persistence Mode: Enabled",
    sources=("NVIDIA Driver Persistence",),
    check=_persistence,
)
RULES = (MIG, COMPUTE, MIG_PENDING, PERSISTENCE)
