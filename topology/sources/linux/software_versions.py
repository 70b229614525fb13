"""The raw answer of the source software becomes a Software record."""

from __future__ import annotations

import re

from ...model.part import PartialNode, Raw
from ...model.surroundings import Software
from ..files.answers import FileAnswers, absent_text, items_of, part, under, words
from ..files.tree import clean

NVIDIA = "proc/driver/nvidia/version"
AMD = "sys/module/amdgpu/version"
CUDA_JSON = "usr/local/cuda/version.json"
CUDA_TEXT = "usr/local/cuda/version.txt"
ROCM = "opt/rocm/.info/version"
RCCL = "opt/rocm/include/rccl/rccl.h"
FILES = (NVIDIA, AMD, CUDA_JSON, CUDA_TEXT, ROCM, RCCL)

DIST_INFO = re.compile(
    r"(?P<name>torch|nvidia_nccl_cu\d{1,2})-(?P<version>[\w.+!]{1,60})\.dist-info"
)
_DRIVER = re.compile(r"Kernel Module\b.*?\s(\d{2,4}\.\d{1,4}(?:\.\d{1,4})?)\s")
_CUDA_JSON = re.compile(r'"cuda"\s*:\s*\{[^{}]{0,200}"version"\s*:\s*"([\d.]{1,20})"')
_CUDA_TEXT = re.compile(r"CUDA Version ([\d.]{1,20})")
_VERSION = re.compile(r"(\d{1,4}(?:\.\d{1,4}){1,3})")
_LIBRARY = re.compile(r"libnccl\.so\.(\d{1,4}(?:\.\d{1,4}){1,3})")
_DEFINES = re.compile(r"^#define NCCL_(MAJOR|MINOR|PATCH) (\d{1,4})$", re.MULTILINE)


def parse(raw: Raw) -> PartialNode:
    """Turn the answer of the source software into versions; an empty answer gives an empty part."""
    fields = FileAnswers(part(raw, "files"), absent_text(raw))
    torch, torch_path, nccl, nccl_path, packages = _python(raw)
    if nccl is None:
        nccl, nccl_path = _library(raw)
    live = isinstance(raw, dict) and "packages" in raw
    if nccl is None:
        nowhere = "no libnccl.so.2 and no nvidia-nccl package where they usually are"
        fields.gap("nccl", nowhere if live else fields.absent)
    if torch is None:
        beside = "not in the active environment, of PATH's Python nor beside gputop"
        fields.gap("torch", beside if live else fields.absent)
    found = Software(
        nvidia_driver=_first(_DRIVER, fields, NVIDIA, "nvidia_driver"),
        amd_driver=fields.text(AMD, "amd_driver"),
        rocm=_first(_VERSION, fields, ROCM, "rocm"),
        cuda_toolkit=_first(_CUDA_JSON, fields, CUDA_JSON)
        or _first(_CUDA_TEXT, fields, CUDA_TEXT, "cuda_toolkit"),
        nccl=nccl,
        nccl_path=nccl_path,
        nccl_packages=packages,
        rccl=_rccl(fields),
        torch=torch,
        torch_path=torch_path,
        nccl_plugins=_plugins(raw, fields),
        gaps=fields.gaps,
    )
    known = any(
        getattr(found, name) not in (None, ()) for name in found.__struct_fields__ if name != "gaps"
    )
    return PartialNode(software=found) if known or live else PartialNode()


def module_version(text: str | None) -> str | None:
    """The release of NVIDIA's module in the text of /proc/driver/nvidia/version."""
    match = _DRIVER.search(f"{text} ") if text is not None else None
    return match.group(1) if match else None


def _first(
    pattern: re.Pattern[str], fields: FileAnswers, path: str, field: str | None = None
) -> str | None:
    text = fields.text(path, field)
    match = pattern.search(f"{text} ") if text is not None else None
    if text is not None and match is None and field is not None:
        fields.gap(field, f"no version in {text[:60]!r}")
    return match.group(1) if match else None


def _python(
    raw: Raw,
) -> tuple[str | None, str | None, str | None, str | None, tuple[str, ...]]:
    """Torch, and the NCCL package beside it, which this torch loads; all packages of that file.

    What the library says of itself is its version; else what its package says.
    """
    folders = [FileAnswers(entry, "") for entry in items_of(under(raw, "packages"))]
    for with_torch in (True, False):
        for fields in folders:
            folder, torch, nccl = map(fields.text, ("folder", "torch", "nccl"))
            if (torch if with_torch else nccl) is None:
                continue
            packages = fields.raw.get("nccl_packages")
            named = packages.items() if isinstance(packages, dict) else ()
            return (
                torch,
                f"{folder}/torch" if torch else None,
                (fields.text("nccl_inside") or nccl) if nccl else None,
                f"{folder}/nvidia/nccl/lib/libnccl.so.2" if nccl else None,
                tuple(f"{cuda} {clean(str(version))[:60]}" for cuda, version in sorted(named)),
            )
    return None, None, None, None, ()


def _library(raw: Raw) -> tuple[str | None, str | None]:
    for entry in items_of(under(raw, "libraries")):
        if not (isinstance(entry, list) and len(entry) == 2):
            continue
        path, name = entry
        match = _LIBRARY.fullmatch(name) if isinstance(name, str) else None
        if match is not None and isinstance(path, str) and match.group(1).count(".") > 0:
            return match.group(1), clean(path[:400])
    return None, None


def _plugins(raw: Raw, fields: FileAnswers) -> tuple[str, ...] | None:
    found = under(raw, "plugins")
    if not isinstance(found, list):
        fields.gap("nccl_plugins", fields.absent)
        return None
    return tuple(path[:400] for path in words(found))


def _rccl(fields: FileAnswers) -> str | None:
    numbers = dict(_DEFINES.findall(fields.text(RCCL, "rccl") or ""))
    words = [numbers.get(name) for name in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(word for word in words if word) if None not in words else None
