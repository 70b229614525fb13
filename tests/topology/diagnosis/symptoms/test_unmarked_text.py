"""Text without the head of a debug log, as people post it, is answered by what it says."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from gputop.topology.diagnosis.defects.table import defects
from gputop.topology.diagnosis.mechanism.decode import ID as DECODED
from gputop.topology.diagnosis.symptoms.explain import known_signs, table, unexplained
from gputop.topology.diagnosis.symptoms.log import ReadLog, examine
from gputop.topology.logs.reading.read import read_log
from gputop.topology.model.no_output import is_no_output
from gputop.topology.model.severity import NOTICE
from gputop.topology.recorded.sought import Vocabulary
from gputop.topology.toml import tomllib
from tests.threads.scoring import materials, threads

INNOCENT: dict[str, dict[str, Any]] = {
    found["name"]: found
    for found in tomllib.loads(Path(__file__).with_name("innocent.toml").read_text())["innocent"]
}
"""What it is -> a text that uses the words of failures and says nothing bad."""


def read(text: str) -> ReadLog:
    return examine(
        read_log([line.encode() for line in text.splitlines()], signs=known_signs(), outputs=True),
        None,
    )


@pytest.mark.parametrize("name", INNOCENT)
def test_the_same_words_in_innocent_text_say_nothing(name: str) -> None:
    answer = read(INNOCENT[name]["text"])
    quoted = answer.unexplained or [one for one in answer.findings if one.id == DECODED]
    noticed = INNOCENT[name].get("noticed", ())
    assert all(one.id in (DECODED, *noticed) for one in answer.findings)
    assert all(one.severity == NOTICE for one in answer.findings if one.id in noticed)
    assert not quoted or INNOCENT[name].get("quoted")


def test_what_only_sounds_like_a_failure_of_a_gpu_accuses_none() -> None:
    lines = (
        "pci 0000:00:1c.0: BAR 13: no space for [io  size 0x1000]",
        "pci 0000:31:00.0: BAR 7 [io  size 0x1000]: failed to assign",
        "pci 0000:31:00.0: VF BAR 0 [mem size 0x10000000 64bit pref]: can't assign; no space",
        "pci 0000:01:00.0: BAR 6: no space for [mem size 0x00080000 pref]",
        "pci 0000:02:00.0: BAR 0: failed to assign [mem size 0x00004000 64bit]",
        "DMAR: [INTR-REMAP] Request device [c1:00.0] fault index 0x8000 [fault reason 0x22]",
        "nvidia: cudaErrorNotReady, hipErrorNotReady, CUDA_ERROR_NOT_READY: again in 1 ms",
        "nvidia: cudaErrorPeerAccessAlreadyEnabled",
        "NCCL I gloo/transport/tcp/device.cc:231] pair of lo",
    )
    assert [line for line in lines if read(line).findings] == []
    window = "pci 0000:84:00.0: BAR 1: no space for [mem size 0x800000000 64bit pref]"
    assert [finding.id for finding in read(window).findings] == ["bar-unassigned"]


REAL_FORMS = {
    "driver-not-built": (
        "FATAL: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol '__rcu_read_lock'",
        "ERROR: Unable to load the kernel module 'nvidia.ko'.  This happens most frequently when",
        "ERROR: Unable to load the 'nvidia-drm' kernel module.",
        "ERROR: Unable to find the kernel source tree for the currently running kernel.",
        "Consult /var/lib/dkms/nvidia/535.104.05/build/make.log for more information.",
        "dkms autoinstall on 6.8.0-31-generic/x86_64 failed for nvidia(10)",
        "dpkg: error processing package nvidia-dkms-535 (--configure):",
        "ERROR: Failed to run `/usr/sbin/dkms build -m nvidia -v 535.104.05 -k 6.5.0`: Error! Bad",
    ),
    "rendezvous-failed": (
        "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while "
        "trying to connect to (10.0.0.1, 29500).",
        "[E1 TCPStore.cpp:328] [c10d] TCP client failed to connect/validate to host n1:29500 - "
        "timed out (try=1, timeout=600000ms): refused",
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the "
        "C10d store has failed. See inner exception for details.",
        "torch.distributed.DistNetworkError: The client socket has failed to connect to any "
        "network address of (n1, 23456). The client socket has failed to connect to n1:23456 "
        "(errno: 113 - No route to host).",
        "RuntimeError: connect() timed out. Original timeout was 1800000 ms.",
    ),
    "machine-check": (
        "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 8: be00000000a00090",
        "mce: [Hardware Error]: CPU 0: Machine Check Exception: 4 Bank 5: b200001024080400",
        "{2}[Hardware Error]: event severity: fatal",
        "[Hardware Error]: Uncorrected, software restartable error.",
        "Kernel panic - not syncing: Fatal machine check",
        "EDAC MC1: 1 UE memory read error on CPU_SrcID#1_MC#0_Chan#0_DIMM#0 (channel:0 slot:0)",
    ),
    "cuda-runtime-missing": (
        "python3: error while loading shared libraries: libcudart.so.12: cannot open shared "
        "object file: No such file or directory",
        "OSError: libcublas.so.11: cannot open shared object file: No such file or directory",
        "FAIL : Failed to load library libonnxruntime_providers_cuda.so with error: "
        "libcublasLt.so.11: cannot open shared object file: No such file or directory",
        "Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot "
        "open shared object file: No such file or directory",
    ),
    "remote-shell-failed": (
        "Host key verification failed.",
        "n2: Host key verification failed.",
        "ssh: connect to host n2 port 22: Connection refused",
        "ssh: connect to host 10.0.0.2 port 2222: Connection timed out",
        "u@n2: Permission denied (publickey,password).",
        "Permission denied (publickey).",
    ),
    "name-unresolved": ("ssh: Could not resolve hostname n2: Name or service not known",),
}  # fmt: skip
"""Symptom -> lines as programs print them when they fail."""


@pytest.mark.parametrize("ident", REAL_FORMS)
def test_the_failing_form_of_a_message_is_known(ident: str) -> None:
    for line in REAL_FORMS[ident]:
        found = read(f"CUDA 12.6, 8 GPUs\n{line}").findings
        assert [finding.id for finding in found] == [ident], line


@pytest.mark.parametrize("ident", ["rendezvous-failed", "remote-shell-failed", "name-unresolved"])
def test_an_attempt_that_is_repeated_until_the_ranks_start_is_no_failure(ident: str) -> None:
    head = "n1:7:7 [0] NCCL INFO ncclCommInitRank comm 0xa rank 0 nranks 1 cudaDev 0 busId 7000"
    for line in REAL_FORMS[ident]:
        started = read(f"{line}\n{head} commId 0x1 - Init START\n{head} commId 0x1 - Init COMPLETE")
        assert not [one for one in started.findings if one.severity.counts], line
        assert not started.unexplained, line
        waiting = read(f"{line}\n{head} commId 0x1 - Init START")
        assert ident in [finding.id for finding in waiting.findings], line


def test_the_log_is_called_silent_only_where_nothing_else_is_said() -> None:
    bare = "Test NCCL failure common.cu:1204 'unhandled cuda error'"
    (alone,) = read(bare).findings
    assert "does not say why" in alone.title
    assert "NCCL_DEBUG=INFO" in read(bare).next
    unknown = read(
        f"{bare}\nncclSystemError: System call failed.\nLast error:\nthe frobnicator is off"
    )
    (finding,) = unknown.findings
    assert "does not say why" not in finding.title
    assert [(note.line, note.text) for note in unknown.unexplained] == [
        (4, "the frobnicator is off")
    ]
    refused = "socketPollConnect: Connect to 10.0.0.1<4> failed: Connection refused"
    named = read(f"{bare}\nLast error:\n\n{refused}")
    assert [finding.id for finding in named.findings] == ["peer-unreachable"]
    assert named.next == ""


def test_a_failure_in_unknown_words_is_quoted() -> None:
    answer = read("torch: gpu 7 exploded, aborting\nncclInternalError: Internal check failed.")
    assert [note.line for note in unexplained(answer.log)] == [1]


def test_an_address_that_ends_in_zero_counts_no_failures() -> None:
    answer = read("nvidia: GPU at 0000:83:00.0 failed to start its engine")
    counted = read("nvidia: GPU test: 12 passed, 0 failed")
    assert [note.line for note in unexplained(answer.log)] == [1] or answer.findings
    assert not unexplained(counted.log)
    assert not counted.findings


def test_patterns_match_the_same_lines_with_and_without_the_look_for_texts() -> None:
    # The texts that are looked for first are only a short cut.
    signs = known_signs()
    rows = [row for row in table() if "OTHER" in row.levels]
    patterns = [re.compile(pattern) for row in rows for pattern in row.any]
    patterns += [re.compile(pattern) for defect in defects() for pattern in defect.says]
    texts = [file.read_text() for name in threads() for file in materials(name)]
    for text in texts:
        for line in text.splitlines():
            slow = not is_no_output(line) and any(p.search(line.strip()) for p in patterns)
            raw = line.encode()
            possible = chain.from_iterable(signs.present(Vocabulary(raw)).values())
            assert (signs.excerpt(raw, possible) is not None) == slow, line


def test_a_long_line_shows_the_part_that_says_it() -> None:
    text = "x" * 3000 + " RuntimeError: CUDA error: mapping of buffer object failed " + "y" * 3000
    (finding,) = read(f"torch {text}").findings
    assert "mapping of buffer object failed" in finding.evidence[0].value


def test_a_text_of_which_only_the_failure_is_understood_is_read() -> None:
    lines = {
        "dcgmi: Error: the request was refused": "dcgm",
        "vfio 0000:01:00.0: failed to open the container: refused": "vfio",
        "hfi1_0: Link down\nPSM2 no hfi units are available": "hfi",
    }
    for text in lines:
        answer = read(text)
        assert [one.id for one in answer.findings] == ["failed-operation"], text
        assert answer.findings[0].candidates, text
    for text in ("db:5432 ERROR out of memory", "the bakery is not ready"):
        assert not read(text).findings, text


def test_the_first_failure_counts_beside_one_that_is_only_possible() -> None:
    text = (
        "mem_heap.cpp:1509: non-zero status: 2 cuMemCreate failed\n"
        "barrier.cpp:21 cuda failed with an illegal memory access was encountered\n"
    )
    found = {one.id: one for one in read(text).findings}
    assert set(found) == {"cuda-crashed", "failed-operation"}
    assert "cudaErrorMemoryAllocation" in found["failed-operation"].title


def test_links_without_a_device_are_read_with_their_lines() -> None:
    narrow = read("x\nLnkSta: Speed 16GT/s (ok), Width x4 (downgraded)\nGPU").findings
    assert [(one.id, one.evidence[0].line) for one in narrow] == [("pcie-link-narrow-unnamed", 2)]
    resting = read("LnkSta: Speed 2.5GT/s (downgraded), Width x16 (ok)").findings
    assert [one.id for one in resting] == ["pcie-link-slow-unnamed"]
    full = "GPU LnkCap: Speed 16GT/s, Width x16\nLnkSta: Speed 16GT/s (ok), Width x16 (ok)"
    assert not read(full).findings
