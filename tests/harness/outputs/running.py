"""One command line, run inside this process: quick enough for thousands of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from gputop.__main__ import run
from tests.support.command import Captured


def printed(arguments: Sequence[str]) -> str:
    """Give exit code, stdout and stderr of one command line as one text.

    Configuration, history and variables of whoever runs this are kept away.
    """
    out, err = Captured(), Captured()
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
