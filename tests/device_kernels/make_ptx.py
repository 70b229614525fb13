"""python -m tests.device_kernels.make_ptx LIBNVRTC: compile kernels.cu to the PTX that is shipped.

Any NVRTC from 11.2 to 12 will do, for example that of the package nvidia-cuda-nvrtc-cu11. The text
is for the oldest architecture that these compilers know and says a version of PTX that every
driver since CUDA 11.4 reads; the driver compiles it for the GPU at hand.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import sys

from gputop.probes.engine.kernels import PTX, SOURCE

TARGET = "compute_52"
PTX_VERSION = "7.0"
"""PTX ISA 7.0 came with CUDA 11.0; the kernels use nothing newer."""


def compiled(library: str) -> str:
    """The PTX of kernels.cu; RuntimeError with the compiler's words where it fails."""
    nvrtc = ctypes.CDLL(library)
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    source = SOURCE.read_bytes()
    options = (ctypes.c_char_p * 2)(f"--gpu-architecture={TARGET}".encode(), b"--std=c++14")
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"kernels.cu", 0, None, None)
    code = nvrtc.nvrtcCompileProgram(program, 2, options)
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    if code:
        raise RuntimeError(log.value.decode())
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, text)
    return text.value.decode()


def shipped(text: str) -> str:
    """The text with its source's digest, without comments of the compiler."""
    body = re.sub(r"^//.*\n", "", text, flags=re.MULTILINE).strip()
    body = re.sub(r"^\.version .*$", f".version {PTX_VERSION}", body, flags=re.MULTILINE)
    return f"// kernels.cu {digest()}\n{body}\n"


def digest() -> str:
    """The digest of the source, which a test compares with the text's first line."""
    return hashlib.sha256(SOURCE.read_bytes()).hexdigest()


if __name__ == "__main__":
    PTX.write_text(shipped(compiled(sys.argv[1])))
