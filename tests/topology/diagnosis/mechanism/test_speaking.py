"""Which words of a failing line may name what failed."""

import pytest

from gputop.topology.diagnosis.mechanism.decode import decode
from gputop.topology.diagnosis.mechanism.speaking import speaking

NO_SUBJECT = (
    "cannot open '/home/me/vllm/out.bin'",
    "pull of rocm/vllm:latest failed",
    "pull of registry.example.com:5000/team/jax@sha256:00ff failed",
    "unrecognized option --vllm-mode=fast",
    "Nov 29 00:10:12 vllm-7 app[7]: it failed",
    "[vllm-0:12345] it failed",
    "me@vllm-1:~$ it failed",
    "error: cannot fetch https://example.com/vllm/index",
    "error: hostname: vllm-h100-3 failed",
)
SUBJECT = (
    "vllm: error: it broke",
    "error in /usr/lib/python3/dist-packages/vllm/worker.py:12",
    "error in vllm/engine/core.py:12",
    "error: /home/me/bin/vllm: it broke",
)


@pytest.mark.parametrize("text", NO_SUBJECT)
def test_folders_images_hosts_and_options_name_nothing_that_failed(text: str) -> None:
    assert "vllm" not in speaking(text)
    assert "jax" not in speaking(text)
    assert len(speaking(text)) == len(text)
    found = decode(text)
    assert found is None or not found.by_name


@pytest.mark.parametrize("text", SUBJECT)
def test_who_prints_a_line_is_kept(text: str) -> None:
    assert "vllm" in speaking(text)


def test_device_files_and_sources_are_kept() -> None:
    for text in (
        "lstat /dev/nvidia-uvm: gone",
        "transport/net_ib.cc:123 failed",
        "x: /sys/class/y",
    ):
        assert speaking(text) == text
