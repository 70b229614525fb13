"""Why NVML cannot be loaded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gputop.topology.model.source import SourceAbsent
from gputop.topology.sources.nvidia.library import open_library
from tests.support import nvml_fake as fake


@pytest.mark.parametrize(
    ("said", "kind", "told"),
    [
        ("/lib/libnvidia-ml.so.1: file too short", "failed", "cannot be loaded: /lib/libnvidia-ml"),
        ("libc.so.7: cannot open shared object file: No such file", "failed", "libc.so.7"),
        (
            "libnvidia-ml.so.1: cannot open shared object file: No such file or directory",
            "absent",
            "no NVIDIA driver is installed",
        ),
    ],
)
def test_a_library_that_cannot_be_loaded_is_not_called_absent(
    tmp_path: Path, said: str, kind: str, told: str
) -> None:
    """The binding says "not found" of an empty file too, which images of containers keep."""

    def start() -> None:
        try:
            raise OSError(said)
        except OSError:
            raise fake.LibraryNotFound  # noqa: B904 - as the binding does

    binding = fake.Binding()
    binding.nvmlInit = start  # type: ignore[method-assign]
    with pytest.raises(SourceAbsent, match=re.escape(told)) as found:
        open_library(lambda: binding, tmp_path)
    assert found.value.kind == kind
