"""The code that is shipped is that of the source, and a real assembler takes it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gputop.probes.engine.kernels import PTX, SOURCE
from tests.device_kernels.make_ptx import PTX_VERSION, digest, shipped

NAMES = set(re.findall(r"__global__[^{;]*?\b(gputop_\w+)\(", SOURCE.read_text()))


def test_the_ptx_is_made_of_the_source() -> None:
    text = PTX.read_text()
    assert text.startswith(f"// kernels.cu {digest()}\n"), "run tests.device_kernels.make_ptx"
    assert set(re.findall(r"\.visible \.entry (\w+)\(", text)) == NAMES
    assert len(NAMES) == 16
    assert f"\n.version {PTX_VERSION}\n.target sm_52\n" in text, "CUDA 11.4 reads it"
    assert shipped(text) == text


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_a_real_assembler_takes_the_ptx(tmp_path: Path, architecture: str) -> None:
    assembler = shutil.which("ptxas")
    if assembler is None:
        pytest.skip("no ptxas, which comes with the CUDA toolkit")
    code = tmp_path / "kernels.cubin"
    subprocess.run(
        [assembler, f"-arch={architecture}", "-O0", str(PTX), "-o", str(code)], check=True
    )
    image = code.read_bytes()
    for name in NAMES:
        assert name.encode() in image
