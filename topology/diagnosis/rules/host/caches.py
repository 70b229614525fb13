"""Caches of compiled kernels that are lost with the container."""

from __future__ import annotations

from ....model.page import Fix
from ....model.severity import NOTICE
from ...case import Case
from ...rule import Found, Rule

EPHEMERAL = ("overlay", "tmpfs", "aufs", "fuse.fuse-overlayfs", "ramfs")
"""File systems of a container that end with it."""
VARIABLES = {
    "CUDA": "CUDA_CACHE_PATH",
    "Triton": "TRITON_CACHE_DIR",
    "Inductor": "TORCHINDUCTOR_CACHE_DIR",
}


def _check(case: Case) -> Found:
    known = [
        compile_cache
        for compile_cache in case.host.compile_caches
        if compile_cache.filesystem is not None
    ]
    if not known or case.in_container is None:
        return None
    lost = [cache for cache in known if cache.filesystem in EPHEMERAL]
    if not case.in_container or not lost:
        return []
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


EPHEMERAL_CACHE = Rule(
    id="compile-cache-ephemeral",
    family="D37",
    title="caches of compiled kernels on a file system that ends with the container",
    evidence="places of the caches and the file systems under them, in a container",
    disproof="a cache that is still there in the next container",
    sources=("PyTorch documents, torch.compile caching", "CUDA programming guide, CUDA_CACHE_PATH"),
    check=_check,
)

RULES = (EPHEMERAL_CACHE,)
