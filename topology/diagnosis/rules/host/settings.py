"""Settings of the host: caches of kernels, packages of NCCL, CPU governors."""

from ....hardware.vendors import NVIDIA
from ....model.page import Fix
from ....model.severity import NOTICE, SLOW
from ...case import Case
from ...rule import Found, Rule, faulty, needed

EPHEMERAL = ("overlay", "tmpfs", "aufs", "fuse.fuse-overlayfs", "ramfs")
"""File systems of a container that end with it."""
VARIABLES = {
    "CUDA": "CUDA_CACHE_PATH",
    "Triton": "TRITON_CACHE_DIR",
    "Inductor": "TORCHINDUCTOR_CACHE_DIR",
}


def _check(case: Case) -> Found:
    known = needed([cache for cache in case.host.compile_caches if cache.filesystem is not None])
    if not case.in_container:
        return None if case.in_container is None else []
    lost = faulty([cache for cache in known if cache.filesystem in EPHEMERAL])
    names = " and ".join(cache.name for cache in lost)
    variables = [VARIABLES[cache.name] for cache in lost if cache.name in VARIABLES]
    return EPHEMERAL_CACHE.finding(
        NOTICE,
        f"what {names} compile{'s' * (len(lost) == 1)} is lost with this container",
        evidence=[
            (
                f"cache of {cache.name}",
                f"{cache.path}, on {cache.filesystem}",
                "/proc/self/mountinfo" + (f", {cache.variable}" if cache.variable else ""),
            )
            for cache in lost
        ],
        impact="The first calls in every new container compile again, seconds to "
        "minutes in which the GPUs wait. A first call is no bandwidth.",
        fix=[
            Fix(
                text="Put the caches on a volume that stays.",
                command="; ".join(
                    f"export {variable}=/VOLUME/{variable.lower()}" for variable in variables
                ),
            )
        ],
    )


def _check_nccl_packages(case: Case) -> Found:
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


_FAST = "performance"
LOWEST = "powersave"
ADAPTING = ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")
"""Drivers that choose the clock themselves, under whatever governor; with the others powersave is
the lowest clock that there is (Linux Documentation/admin-guide/pm/cpufreq.rst)."""


def _check_governor(case: Case) -> Found:
    governors = case.host.cpu_governors
    if governors is None:
        return None
    others = faulty([(name, count) for name, count in governors if name != _FAST])
    total = sum(count for _, count in governors)
    names = " and ".join(name for name, _ in others)
    driver = case.host.cpu_frequency_driver
    lowest = driver is not None and driver not in ADAPTING and LOWEST in dict(others)
    return GOVERNOR.finding(
        SLOW if lowest else NOTICE,
        f"CPU governor {names} instead of {_FAST}",
        evidence=[
            (
                f"CPUs with the governor {name}",
                f"{count} of {total}",
                "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
            )
            for name, count in others
        ]
        + [
            (
                "frequency driver",
                driver or "not read",
                "/sys/devices/system/cpu/cpufreq/policy0/scaling_driver",
            )
        ],
        impact="These CPUs stay at their lowest clock: kernel launches, small messages "
        "and data loaders take longer."
        if lowest
        else "Cores clock up only once they are busy: kernel launches and small messages may "
        "take longer. How much depends on the frequency driver; intel_pstate's powersave is "
        "close to performance.",
        fix=[f"Set the governor until the next boot. # cpupower frequency-set -g {_FAST}"],
    )


EPHEMERAL_CACHE = Rule(
    id="compile-cache-ephemeral",
    family="D37",
    title="caches of compiled kernels on a file system that ends with the container",
    evidence="places of the caches and the file systems under them, in a container",
    disproof="a cache that is still there in the next container",
    sources=("PyTorch documents, torch.compile caching", "CUDA programming guide, CUDA_CACHE_PATH"),
    check=_check,
)
NCCL_PACKAGES = Rule(
    id="nccl-packages-overlap",
    title="packages of NCCL that lie over each other",
    evidence="the packages of NCCL beside torch, and the version that the library itself names",
    disproof="one package of NCCL in `pip list | grep -i nvidia-nccl`",
    sources=("the contents of NVIDIA's packages nvidia-nccl-cu12 and nvidia-nccl-cu13",),
    vendor=NVIDIA.id,
    check=_check_nccl_packages,
)
GOVERNOR = Rule(
    id="cpu-governor",
    title="CPU governors other than performance",
    evidence="the governor of each cpufreq policy",
    disproof="performance in every scaling_governor, or the same latency with it",
    sources=("Linux Documentation/admin-guide/pm/cpufreq.rst",),
    check=_check_governor,
)
RULES = (EPHEMERAL_CACHE, NCCL_PACKAGES, GOVERNOR)
