"""The code of the kernels for a device: PTX, which CUDA's driver compiles, or hiprtc's for HIP."""

from pathlib import Path

from . import hiprtc
from .library import EngineError
from .runtime import Runtime

SOURCE = Path(__file__).with_name("kernels.cu")
PTX = Path(__file__).with_name("kernels.ptx")
"""SOURCE, compiled by tests/device_kernels/make_ptx.py."""
_images: "dict[str, bytes]" = {}


def image_for(runtime: Runtime, index: int) -> bytes:
    """Code for a device, made once in this process; EngineError where there is none."""
    if not runtime.is_hip:
        return PTX.read_bytes() + b"\0"
    architecture = runtime.architecture(index)
    if architecture not in _images:
        try:
            _images[architecture] = hiprtc.compiled(SOURCE, architecture)
        except hiprtc.CompileError as error:
            raise EngineError(f"no kernels for {architecture}: {error}") from error
    return _images[architecture]
