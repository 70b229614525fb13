"""One command line, run inside this process: quick enough for thousands of them."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Sequence

from gputop.__main__ import run


class _Captured(io.TextIOWrapper):
    """A stdout or stderr with a buffer of bytes beneath, as click wants it."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", errors="backslashreplace")

    def text(self) -> str:
        self.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode("utf-8", "backslashreplace")


def printed(arguments: Sequence[str]) -> str:
    """Give exit code, stdout and stderr of one command line as one text.

    Configuration, history and variables of whoever runs this are kept away.
    """
    out, err = _Captured(), _Captured()
    before = dict(os.environ)
    for name in list(os.environ):
        if name.startswith(("NCCL_", "RCCL_", "CUDA_", "HIP_", "ROCR_", "TORCH_", "GPUTOP_")):
            del os.environ[name]
    os.environ.update(HOME="/nonexistent", XDG_CONFIG_HOME="/nonexistent", COLUMNS="100")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(list(arguments))
    finally:
        os.environ.clear()
        os.environ.update(before)
    said = err.text()
    return f"exit {code}\n{out.text()}" + (f"--- stderr\n{said}" if said else "")
