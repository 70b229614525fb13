"""Names on a HIP build of torch: with stand-ins, for there is no AMD GPU."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

from gputop.probes.catalog.launch.probe import caches
from gputop.probes.crew.environment import what_was_done
from gputop.probes.crew.torch_accelerator import TorchAccelerator

WRONG = re.compile(r"\b(?:CUDA|NCCL|cuBLAS(?:Lt)?|NVLink)\b(?!_)")


def rocm() -> Any:
    """A torch that was built for ROCm."""
    cuda = SimpleNamespace(set_device=lambda _index: None)
    return SimpleNamespace(
        version=SimpleNamespace(hip="6.3.42131", cuda=None),
        cuda=cuda,
        set_num_threads=lambda _count: None,
    )


def test_the_library_of_a_hip_build_is_rccl() -> None:
    torch = rocm()
    assert TorchAccelerator(torch, 0, cpu=False).library == "RCCL"
    assert TorchAccelerator(torch, 0, cpu=True).library == "gloo"
    torch.version = SimpleNamespace(hip=None, cuda="12.8")
    assert TorchAccelerator(torch, 0, cpu=False).library == "NCCL"


def test_no_cache_of_cudas_is_named() -> None:
    environment = {"HOME": "/home/x"}
    named = [cache.what for cache in caches(environment, is_hip=True, mounts="")]
    assert "MIOpen" in named
    assert not [what for what in named if WRONG.search(what)]
    assert "CUDA's PTX" in [cache.what for cache in caches(environment, is_hip=False, mounts="")]


def test_what_was_set_names_no_library() -> None:
    text, details = what_was_done(
        {"NCCL_DEBUG": "TRACE"}, {"NCCL_MIN_NCHANNELS": "32"}, loopback=True
    )
    assert "Set for this run: NCCL_MIN_NCHANNELS=32." in text
    assert "loopback interface" in text
    assert not WRONG.search(text)
    assert details["set"] == {"NCCL_MIN_NCHANNELS": "32"}
