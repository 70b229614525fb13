"""Codes in a line: errno, signals, exits, CUDA, HIP, NCCL, verbs, UCX, UCC and more."""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ...model.severity import Word
from ...toml import tomllib


class Family(Word):
    """Whose codes they are."""

    ERRNO = "errno"
    SIGNAL = "signal"
    EXIT = "exit"
    NCCL = "nccl"
    VERBS = "verbs"
    LIBFABRIC = "libfabric"
    UCX = "ucx"
    UCC = "ucc"
    NIXL = "nixl"
    NVSHMEM = "nvshmem"
    NVML = "nvml"
    CUDA = "cuda"
    HIP = "hip"
    RM = "rm"
    """NVIDIA's driver in the kernel."""
    HSA = "hsa"
    AMDSMI = "amdsmi"
    RSMI = "rsmi"
    """Of rocm-smi's library."""


class Code(NamedTuple):
    """One code and what it says."""

    family: Family
    number: int
    name: str
    """"ENOMEM", "cudaErrorNotSupported", "IBV_WC_RETRY_EXC_ERR"."""
    words: str
    """The words that the library prints for it; "" where it prints none."""
    meaning: str
    """One sentence without its full stop; "" where there is nothing to add to the words."""

    @property
    def said(self) -> str:
        """The code in a sentence: "ENOMEM (12): no memory of …"."""
        what = self.name if self.family is Family.SIGNAL else f"{self.name} ({self.number})"
        if self.family is Family.EXIT:
            what = f"exit code {self.number}"
        return ": ".join(filter(None, (what, self.meaning or self.words)))


@cache
def codes() -> dict[Family, dict[int, Code]]:
    """All codes that are known, by family and number."""
    text = Path(__file__).with_name("codes.toml").read_bytes().decode()
    table: dict[str, dict[str, Any]] = tomllib.loads(text)
    found: dict[Family, dict[int, Code]] = {}
    for family in Family:
        rows = table[family]
        if family is Family.ERRNO:
            found[family] = {
                number: Code(family, number, name, os.strerror(number), rows.get(name, ""))
                for number, name in errno.errorcode.items()
            }
        elif family is Family.SIGNAL:
            found[family] = {
                one.value: Code(
                    family, one.value, one.name, signal.strsignal(one.value) or "",
                    rows.get(one.name, ""),
                )
                for one in signal.Signals
            }  # fmt: skip
        elif family is Family.EXIT:
            found[family] = {
                int(number): Code(family, int(number), f"exit {number}", "", meaning)
                for number, meaning in rows.items()
            }
        else:
            found[family] = {
                int(number): Code(
                    family, int(number), row[0], row[1] if len(row) > 2 else "", row[-1]
                )
                for number, row in rows.items()
            }
    return found


@cache
def by_name() -> dict[str, Code]:
    """Codes by the names that programs print."""
    found = {code.name: code for family in codes().values() for code in family.values()}
    cuda = codes()[Family.CUDA].values()
    aliases = {name: codes()[Family.ERRNO].get(number) for name, number in _errnos()}
    found |= {name: code for name, code in aliases.items() if code is not None}
    return found | {_driver_name(code.name): code for code in cuda}


def _errnos() -> list[tuple[str, int]]:
    """The system's names of errors; some numbers have two."""
    return [(name, getattr(errno, name)) for name in dir(errno) if name[:1] == "E"]


def _driver_name(name: str) -> str:
    """CUresult's name for most of cudaError_t: "CUDA_ERROR_NOT_SUPPORTED"."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.removeprefix("cudaError")).upper()
    return f"CUDA_ERROR_{words}"


def _errno(number: int) -> Code | None:
    number = abs(number)
    return codes()[Family.ERRNO].get(number) or codes()[Family.LIBFABRIC].get(number)


def _ended(number: int) -> Code | None:
    """An exit code: negative ones and those above 128 are signals."""
    signals = codes()[Family.SIGNAL]
    if number < 0:
        return signals.get(-number)
    if 128 < number < 193 and number - 128 in signals:
        return signals[number - 128]
    known = codes()[Family.EXIT].get(number)
    return known if known is not None or number == 0 else Code(Family.EXIT, number, "", "", "")


def _of(family: Family) -> Callable[[int], Code | None]:
    return lambda number: codes()[family].get(abs(number))


_SET = r" *[:=(]{0,2} *"
_GIVEN = rf"\b(?:err(?:or)?|status|ret|rc|result)(?: code)?{_SET}"
_FORMS: tuple[tuple[str, Callable[[int], Code | None]], ...] = (
    (
        r"(?i)\b(?:exit|return)(?: |ed with |s with )?(?:code|status)s? *[:=(]? *\(?"
        r"(-?\d{1,3})\b",
        _ended,
    ),
    (r"(?i)\bexited with (?:code |status )?(-?\d{1,3})\b", _ended),
    (r"\b[Ss]ignal[ :]+(\d{1,2})\b", _of(Family.SIGNAL)),
    (r": non-zero status: (\d{1,3}) cu[A-Z]\w+", _of(Family.CUDA)),
    (r": non-zero status: (\d)\b", _of(Family.NVSHMEM)),
    (r": non-zero status: (\d{2,3})\b", _errno),
    (r"^\W*(?:ERROR|WARNING): (\d{1,2})\s+GPU\[\d+\]", _of(Family.RSMI)),
    (r"(?i)\b(?:rsmi_\w+|ROCm SMI)\b.{0,40}\breturned (\d{1,2})\b", _of(Family.RSMI)),
    (r"(?i)\bhsa\b.*Call returned (\d{4})\b", _of(Family.HSA)),
    (
        r"(?i)\b(?:cuda|cudart|cublas)\w* (?:driver |runtime )?(?:failure|error)(?: code)?"
        r"[ :=(#]{1,3}(\d{1,3})\b",
        _of(Family.CUDA),
    ),
    (
        r"\bcu(?:da)?[A-Z]\w{2,60}(?:\([^)]{0,80}\))? (?:failed|returned)(?: with)?"
        r"(?: error| code| status)*[ :=(#]{1,3}(\d{1,3})\b",
        _of(Family.CUDA),
    ),
    (
        r"\bhip[A-Z]\w{2,60}(?:\([^)]{0,80}\))? (?:failed|returned)(?: with)?"
        r"(?: error| code| status)*[ :=(#]{1,3}(\d{1,3})\b",
        _of(Family.HIP),
    ),
    (r"(?i)\bhip\w* (?:failure|error)(?: code)?[ :=(#]{1,3}(\d{1,3})\b", _of(Family.HIP)),
    (
        r"(?i)\bstatus[ =:]+(\d{1,2})\b(?=.{0,80}(?:vendor|opcode|wc|wr_id|qp|peer|NET/IB))",
        _of(Family.VERBS),
    ),
    (r"\bNET/IB.{0,120}\b(?:error|status) ?[=:]? ?(\d{1,2})\b", _of(Family.VERBS)),
    # Of the parts of UCX and UCC that call CUDA or HIP, a positive number is what those returned.
    (rf"\b\w*cuda\w*\.c\w*:\d+ +UC[CX]\b.*?{_GIVEN}(\d{{1,3}})\b(?!\.)", _of(Family.CUDA)),
    (rf"\b\w*rocm\w*\.c\w*:\d+ +UC[CX]\b.*?{_GIVEN}(\d{{1,3}})\b(?!\.)", _of(Family.HIP)),
    (rf"\bUCX\b.*?\b(?:ucs_)?status(?: code)?{_SET}(-\d{{1,2}})\b(?!\.)", _of(Family.UCX)),
    (rf"\bUCC\b.*?{_GIVEN}(-\d{{1,3}})\b(?!\.)", _of(Family.UCC)),
    (
        r"(?i)(?<!xid )\b(?:errno|rc|ret|error|err|returned|prov_errno)\b *[:=(]{0,2} *"
        r"(-?\d{1,3})\b(?!\.)",
        _errno,
    ),
    (r"\((-\d{1,3})\)", _errno),
)
"""How lines give a number, and whose it is."""
_NAME = re.compile(
    r"\b(?:E[A-Z]{2,14}|FI_E[A-Z]+|IBV_WC_\w+|nccl[A-Z]\w+|cudaError\w+|CUDA_ERROR_\w+|hipError\w+"
    r"|NVML_ERROR_\w+|NV_ERR_\w+|HSA_STATUS_ERROR\w*|(?:AMD|R)SMI_STATUS_\w+|(?:UC[CS]|NIXL)_ERR_\w+|NVSHMEMX_ERROR_\w+|SIG[A-Z]{2,6})\b"
)
_BUILD = re.compile(
    r"\bsegfault at|\bg?make(?:\[\d+\])?: \*\*\*|\bdpkg\b|/var/crash/|post-\w+ script"
    r"|script subprocess"
)
"""Make, packages and faults of memory: the number is a step's exit or the access, no errno."""
_COMPILED = tuple((re.compile(form), of) for form, of in _FORMS)


@cache
def _worded(family: Family) -> tuple[tuple[re.Pattern[str], Code], ...]:
    """The words of a family's codes, the longest first."""
    found = [code for code in codes()[family].values() if len(code.words) > 7]
    found.sort(key=lambda code: -len(code.words))
    # Signals have everyday words: "Terminated" ends a process, "terminated" may end anything.
    how = 0 if family is Family.SIGNAL else re.IGNORECASE
    return tuple((re.compile(re.escape(code.words), how), code) for code in found)


MLX5_SYNDROMES = {
    0x01: 1, 0x02: 2, 0x04: 4, 0x05: 5, 0x06: 6, 0x10: 7, 0x11: 8, 0x12: 9, 0x13: 10, 0x14: 11,
    0x15: 12, 0x16: 13, 0x22: 16,
}  # fmt: skip
"""Syndrome of a completion by mlx5 -> status of verbs (rdma-core, providers/mlx5/mlx5dv.h)."""


def _syndrome(text: str) -> Code | None:
    found = re.search(r"\bsynd(?:rome?)? ?(0x[0-9a-f]{1,2})\b", text)
    status = MLX5_SYNDROMES.get(int(found[1], 16)) if found else None
    return None if status is None else codes()[Family.VERBS][status]


_SPEAKS = (
    (re.compile(r"\bUCC\b|\bucc_"), Family.UCC),
    (re.compile(r"\bUCX\b|\buc[pts]_|\bpml_ucx"), Family.UCX),
    (re.compile(r"\bHIP\b|\bhip[A-Z]"), Family.HIP),
    (re.compile(r"(?i)cuda|\bcu[A-Z]"), Family.CUDA),
    (re.compile(r"(?i)[nr]ccl"), Family.NCCL),
    (
        re.compile(r"(?i)\bsend\b|\brecv|completion|\bqp\b|\bwqe?\b|verbs|mlx|NET/IB|\bib_"),
        Family.VERBS,
    ),
)
"""Whose words a line may hold; errno's and those of signals may stand in any."""


HARMLESS = ("ncclInProgress", "cudaErrorNotReady", "cudaErrorPeerAccessAlreadyEnabled")
"""Codes that say that nothing is wrong."""


_DATED = re.compile(r"[-/:.]\d")
"""What goes on so is a date, a time or a version: "ERROR 10-13 09:06:25"."""


def code_in(text: str) -> Code | None:
    """The code that a line gives, by its name, its number or its words; None without one."""
    found = _code_in(text)
    return None if found is not None and found.name.replace("hip", "cuda") in HARMLESS else found


_BARE = re.compile(r"(?<![A-Za-z_])ERROR_[A-Z_]{5,40}\b")
"""NVML's names as its binding for Go prints them, without their head."""


def _code_in(text: str) -> Code | None:
    for name in (*_NAME.findall(text), *(f"NVML_{bare}" for bare in _BARE.findall(text))):
        if name in by_name():
            return by_name()[name]
        libfabric = name.removeprefix("FI_")
        if libfabric != name and libfabric in by_name():
            return by_name()[libfabric]
    worded = _in_words(text)
    if _BUILD.search(text):
        return None
    for form, of in _COMPILED:
        for match in form.finditer(text):
            number = match[1]
            found = of(int(number))
            if found is None or not found.number or _DATED.match(text, match.end(1)):
                continue
            # What a failed call returns is -1, whatever the words behind it say: that is no EPERM.
            failed = number == "-1" and (worded or found.family is Family.ERRNO)
            if not failed and not (worded is not None and _contradict(found, worded)):
                return found
    return _syndrome(text) or worded


def _contradict(numbered: Code, worded: Code) -> bool:
    """Whether a number is read as errno where the line says another errno in words."""
    return numbered.family is worded.family is Family.ERRNO and numbered.name != worded.name


def _in_words(text: str) -> Code | None:
    families = [family for speaks, family in _SPEAKS if speaks.search(text)]
    for family in (*families, Family.ERRNO, Family.SIGNAL):
        for words, code in _worded(family):
            if words.search(text):
                return code
    return None
