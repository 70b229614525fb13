"""Versions in the forms that people paste: logs, package lists, tools, answers of Python.

A form is tried where its mark stands in the line. Commands that install and sentences that advise
name versions that nobody may have; they are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

from ..model.versions import LibraryName, Product, numbers

LIBRARIES = {LibraryName.NCCL: Product.NCCL, LibraryName.RCCL: Product.RCCL}
MOST_SAID = 64
"""Most versions that one text is asked for."""
_V = r"v?(\d{1,4}(?:\.\d{1,6}){1,3})"
_LIBRARY = re.compile(
    r"(N|R)CCL version ?:? ?(\d+\.\d+(?:\.\d+)?)[^\s+]*"
    r"(?:\+((?:cuda|hip)[\d.]+))?\S*(?: HEAD:\S*)?$"
)
_PACKAGES: tuple[tuple[Product, str, str], ...] = (
    (Product.NCCL, "nccl", r"nvidia[-_]nccl(?:[-_]cu\d\d)?|nccl|libnccl2"),
    (Product.RCCL, "rccl", r"rccl"),
    (Product.PYTORCH, "torch", r"torch|pytorch"),
    (Product.VLLM, "vllm", r"vllm"),
    (Product.SGLANG, "sglang", r"sglang"),
    (Product.NVSHMEM, "nvshmem", r"(?:nvidia[-_])?nvshmem(?:[-_]cu\d\d)?"),
    (Product.NIXL, "nixl", r"nixl(?:[-_]cu\d\d)?"),
    (Product.AWS_OFI_NCCL, "ofi-nccl", r"aws-ofi-nccl"),
    (Product.LIBFABRIC, "libfabric", r"libfabric"),
    (Product.UCX, "ucx", r"ucx(?:-cuda)?"),
    (Product.CONTAINER_TOOLKIT, "container-toolkit", r"nvidia-container-toolkit"),
    (Product.FABRIC_MANAGER, "fabricmanager", r"nvidia-fabricmanager(?:-\d{3})?"),
)
"""Product, a part of the name of its package, and the names."""
_ROW = r"(?:^(?:\W*\[?(?:pip3?|conda)\]? )?\s*(?:{0})(?: {{1,60}}|:)|(?<![\w-])(?:{0})==){1}"
"""A row of a list of packages begins with the name; NAME==VERSION may stand anywhere."""
_SAID: tuple[tuple[Product, str, str], ...] = (
    (Product.NCCL, "NCCL", rf"\bNCCL(?: (?:runtime )?[Vv]ersion[ :]{{1,3}}|: ?){_V}(?!\S*hip)"),
    (Product.NCCL, "nccl", r"(?i:nccl(?:[ _.]version)?\W{1,12})\(2, (\d{1,2}, \d{1,2})\)"),
    (Product.NCCL, "(2, ", r"^\s*(?:\d\.\d{1,3}\.\d\S{0,60} )?\(2, (\d\d, \d)\)\s*$"),
    (Product.NCCL, "nccl-library=", r"nccl-library=(\d{5})\b"),
    (Product.NCCL, "libnccl", rf"libnccl\.so\.{_V}"),
    (Product.RCCL, "CCL", rf"\bRCCL version ?:? ?{_V}|\bNCCL version {_V}\S*hip"),
    (Product.NVIDIA, "river", rf"(?i:\bdriver version) ?[:=] ?{_V}"),
    (Product.NVIDIA, "NVRM version", rf"NVRM version:.{{1,80}}?Module(?: for \S+)? +{_V}"),
    (Product.CUDA_DRIVER, "CUDA Version", rf"CUDA Version: {_V}"),
    (Product.CUDA, "CUDA", rf"CUDA (?:runtime version|used to build PyTorch): {_V}"),
    (Product.CUDA, "release", rf"compilation tools, release {_V}"),
    (Product.PYTORCH, "version", rf"(?i:pytorch version) ?: {_V}"),
    (Product.PYTORCH, "torch", rf"torch\.__version__\W{{1,8}}{_V}"),
    (Product.ROCM, "ROC", rf"ROC[Mm] (?:used to build PyTorch|version) ?: {_V}"),
    (Product.ROCM, "HIP", rf"HIP runtime version: {_V}"),
    (Product.VLLM, "LLM", rf"vLLM (?:API server )?[Vv]ersion *:? ?{_V}|LLM engine \({_V}"),
    (Product.SGLANG, "sglang", rf"(?i:sglang version)\W{{1,4}}{_V}"),
    (Product.AWS_OFI_NCCL, "ofi-nccl", rf"aws-ofi-nccl(?: version)? {_V}"),
    (Product.GIB, "gib", rf"nccl-(?:plugin-)?gib\S{{0,20}}[: ]\(?{_V}"),
    (Product.LIBFABRIC, "fabric", rf"(?i:\blibfabric version):? {_V}|^libfabric: {_V}"),
    (Product.NVSHMEM, "NVSHMEM", rf"NVSHMEM (?:version:? |v){_V}"),
    (Product.UCX, "version", rf"^# Library version: {_V}"),
    (Product.UCX, "UCX", rf"\bUCX version[ :=]{{1,3}}{_V}"),
    (Product.CONTAINER_TOOLKIT, "Toolkit CLI", rf"Container Toolkit CLI version {_V}"),
    (Product.FABRIC_MANAGER, "abric", rf"(?i:fabric manager version)(?: is)? ?: ?{_V}"),
    (Product.LINUX, "Linux", rf"\bLinux(?: version |-){_V}"),
    (Product.FIRMWARE, "irmware version", rf"^\s*Firmware version: {_V}$"),
    (Product.FIRMWARE, "fw_ver", rf"fw_ver:\s+{_V}"),
)
"""Product, a text that such a line holds, and the form with the version in a group."""
_FORMS = tuple((product, mark, re.compile(form)) for product, mark, form in _SAID) + tuple(
    (product, mark, re.compile(_ROW.format(names, _V))) for product, mark, names in _PACKAGES
)
_ADVISES = ("install", " add", "grad", "fix", "require", "<=", ">=", "compatib", "support")
"""Advice holds one of these, whatever its case: to look for them is quicker."""
_ADVICE = re.compile(
    r"(?i)\b(?:pip3?|uv|conda|apt|apt-get|yum|dnf) (?:\w+ )?(?:install|add)\b"
    r"|\b(?:up|down)grad(?:e|ed|ing)\b|\bfix(?:ed)? (?:in|by)\b|\brequires?\b|[<>]=|\bcompatib"
    r"|\bsupports?\b"
)
_OPEN = re.compile(
    r"(?:[NR]CCL version|[Dd]river [Vv]ersion:|CUDA (?:runtime version|Version):|PyTorch version:"
    r"|Kernel Module(?: for \S{1,12})?|nccl\.version\(\)\)?|torch\.__version__\)?"
    r"|nvidia-nccl-cu\d\d(?:==)?|Using Libfabric version|aws-ofi-nccl)[\s|>]*$"
)
"""How a line ends of which the next one has the version."""
MARKS = (
    b"CCL version", b"NCCL runtime", b"nccl==", b"nccl-cu", b"nccl-plugin-gib", b"nccl-gib",
    b"nccl_cu", b"nccl.version", b"libnccl", b"nccl-library=", b"NCCL: 2",
    b"river Version", b"river version", b"NVRM version", b"CUDA runtime version", b"orch version",
    b"orch==", b"torch.__version__", b"to build PyTorch", b"ROCm version", b"HIP runtime version",
    b"vLLM Version", b"vllm==", b"vLLM API server", b"LLM engine (v", b"sglang==", b"ofi-nccl",
    b"ibfabric version", b"libfabric:", b"NVSHMEM v", b"nvshmem-cu", b"UCX version", b"nixl==",
    b"Toolkit CLI version", b"abric Manager version", b"nccl     ", b"torch     ", b"vllm     ",
    b"compilation tools, release", b"(2, ",
)  # fmt: skip
"""A line of a log that holds none of these is not asked."""


class SaidVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version that a text names."""

    product: Product
    version: str
    """"2.21.5"."""
    line: int = 0
    """Number of the line; 0 where there is none."""
    text: str = ""
    """The line, at most 200 characters."""


class LibraryVersion(msgspec.Struct, frozen=True):
    """What the library prints of itself at its start."""

    library: LibraryName
    version: str
    built_for: str | None
    """"cuda13.0"."""


@lru_cache(512)
def library_version(text: str) -> LibraryVersion | None:
    """The version in a line that ends in "NCCL version 2.28.9+cuda13.0"."""
    match = _LIBRARY.search(text.rstrip())
    if match is None:
        return None
    library = LibraryName.NCCL if match[1] == "N" else LibraryName.RCCL
    return LibraryVersion(library, match[2][:20], match[3][:20] if match[3] else None)


def versions_in(text: str, line: int = 0) -> Iterator[SaidVersion]:
    """Every version that a line names; of a wrapped line, the two parts with a blank between."""
    for product, version in _named(text):
        yield SaidVersion(product=product, version=version, line=line, text=text[:200])


@lru_cache(512)
def _named(text: str) -> tuple[tuple[Product, str], ...]:
    """Products and their versions; jobs of a kind say the same."""
    tried = ((product, form.search(text)) for product, mark, form in _FORMS if mark in text)
    found = [(product, match) for product, match in tried if match is not None]
    low = text.lower()
    if not found or (any(word in low for word in _ADVISES) and _ADVICE.search(text)):
        return ()
    return tuple(
        (product, _dotted(next(group for group in match.groups() if group)))
        for product, match in found
    )


def _dotted(number: str) -> str:
    """2.28.3 for the tuple of torch.cuda.nccl.version() without its 2, and for NCCL's 22803."""
    if ", " in number:
        return f"2.{number.replace(', ', '.')}"
    code = int(number) if number.isdigit() else 0
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}" if code else number


def goes_on(text: str) -> bool:
    """Whether a line ends where a version should stand, so that the next one may have it."""
    return _OPEN.search(text) is not None


def said_of(said: Iterable[SaidVersion], product: Product) -> tuple[str, ...]:
    """The different versions of a product, in the order of the text."""
    found: dict[tuple[int, ...], str] = {}
    for one in said:
        if one.product is product:
            found.setdefault(numbers(one.version), one.version)
    return tuple(found.values())
