"""What PyTorch's collect_env prints of the node."""

from __future__ import annotations

from pathlib import Path

from gputop.topology.recorded.load import load

TEXT = """\
Collecting environment information...
PyTorch version: 2.6.0+cu124
CUDA used to build PyTorch: 12.4
ROCM used to build PyTorch: N/A

OS: Ubuntu 22.04.5 LTS (x86_64)
CUDA runtime version: 12.4.131
GPU models and configuration: {head}
GPU 1: NVIDIA H100 80GB HBM3

Nvidia driver version: 550.54.15

CPU:
Architecture:                    x86_64
CPU(s):                          192
NUMA node(s):                    2

Versions of relevant libraries:
[pip3] nvidia-nccl-cu12==2.21.5
[pip3] torch==2.6.0
"""


def test_gpus_and_versions_are_read_and_lscpu_beside_them(tmp_path: Path) -> None:
    path = tmp_path / "env.txt"
    for head in ("\nGPU 0: NVIDIA H100 80GB HBM3", "GPU 0: NVIDIA H100 80GB HBM3"):
        path.write_text(TEXT.format(head=head))
        machine = load([str(path)]).snapshot.machine
        assert [(gpu.index, gpu.name) for gpu in machine.gpus] == [
            (0, "NVIDIA H100 80GB HBM3"),
            (1, "NVIDIA H100 80GB HBM3"),
        ]
        software = machine.software
        assert software is not None
        assert (software.nvidia_driver, software.torch) == ("550.54.15", "2.6.0")
        assert (software.nccl, software.cuda_toolkit) == ("2.21.5", "12.4")
        assert machine.host is not None


def test_gpus_of_amd_are_not_taken_for_nvidias(tmp_path: Path) -> None:
    path = tmp_path / "env.txt"
    path.write_text("PyTorch version: 2.6.0\nGPU models and configuration: AMD Instinct MI300X\n")
    snapshot = load([str(path)]).snapshot
    assert snapshot.machine.gpus == ()
