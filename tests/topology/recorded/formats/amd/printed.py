"""What amd-smi and rocm-smi print: recordings, and reading one as `--from` does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gputop.topology.model.format import Format
from gputop.topology.model.machine import Gpu
from gputop.topology.model.part import PartialNode
from gputop.topology.recorded.formats.amd import amd_smi, amd_smi_text, rocm_smi, rocm_smi_text
from tests.support.places import RECORDINGS

HERE = RECORDINGS
MI300X, MI300X_7, MI250X = (
    HERE / name for name in ("amd-smi-mi300x", "amd-smi-mi300x-7", "rocm-smi-mi250x")
)
FORMATS = (amd_smi.FORMAT, amd_smi_text.FORMAT, rocm_smi.FORMAT, rocm_smi_text.FORMAT)
# The bus numbers of the MI300X of the change log of amdsmi.
MESH = [f"0000:{bus}:00.0" for bus in ("0c", "22", "38", "5c", "9f", "af", "bf", "df")]


def read(form: Format, document: Any) -> PartialNode:
    """Parse a document that `form` alone recognises."""
    data = document.encode() if isinstance(document, str) else json.dumps(document).encode()
    assert form.recognises(data[:65536], Path("x")), data[:80]
    assert [kind.id for kind in FORMATS if kind.recognises(data[:65536], Path("x"))] == [form.id]
    return form.parse(data, Path("x"))


def peers(gpu: Gpu) -> list[str]:
    """Where the xGMI links of a GPU end."""
    return [link.remote_address for link in gpu.xgmi]
