"""Lines of the kernel that speak of a failure in unknown words are shown at every door."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.outputs.running import printed

UNKNOWN = """\
[  374.528937] kfd2kgd: Failed to map VA 0x1907700000 in vm. ret -22
[  374.529847] kfd2kgd: Failed to map bo to gpuvm
[  375.487864] kfd2kgd: update_invalid_user_pages: Failed to get user pages
"""
KNOWN = """\
[  375.487865] pcieport 0000:00:1c.5: AER: Corrected error received: id=00e5
[  375.487866] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.133.20
"""


@pytest.mark.parametrize(
    ("command", "words"),
    [(("log",), "Failed to map bo to gpuvm"), (("check", "--quick", "--from"), "EINVAL (22)")],
)
def test_a_failure_in_unknown_words_is_shown(
    command: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    (tmp_path / "dmesg.txt").write_text(UNKNOWN)
    assert words in " ".join(printed((*command, str(tmp_path / "dmesg.txt"))).split())


def test_what_a_rule_reads_is_not_shown_as_unknown(tmp_path: Path) -> None:
    (tmp_path / "dmesg.txt").write_text(KNOWN)
    assert "? line" not in printed(("log", str(tmp_path / "dmesg.txt")))
