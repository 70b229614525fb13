"""Memory errors of one <gpu> of `nvidia-smi -q -x`, in the layouts of all drivers."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element

from .....model.readings import EccCounts
from .....sources.files.printed import Printed
from .....sources.nvidia.smi_values import NVIDIA_SMI


def ecc_counts(element: Element) -> EccCounts:
    """The counts of one <gpu>."""
    v = Printed(element, NVIDIA_SMI)
    values: dict[str, Any] = {}
    for ours, theirs in (("volatile", "volatile"), ("aggregate", "aggregate")):
        root = f"ecc_errors/{theirs}"
        values[f"corrected_{ours}"] = _sum(
            v,
            f"corrected_{ours}",
            (f"{root}/sram_correctable", f"{root}/dram_correctable"),
            f"{root}/single_bit/total",
        )
        parity, secded = f"{root}/sram_uncorrectable_parity", f"{root}/sram_uncorrectable_secded"
        split = element.find(parity) is not None
        sram = (parity, secded) if split else (f"{root}/sram_uncorrectable",)
        values[f"uncorrected_{ours}"] = _sum(
            v,
            f"uncorrected_{ours}",
            (*sram, f"{root}/dram_uncorrectable"),
            f"{root}/double_bit/total",
        )
    rows, pages = "remapped_rows", "retired_pages"
    values |= {
        "rows_remapped_corrected": v.whole("rows_remapped_corrected", f"{rows}/remapped_row_corr"),
        "rows_remapped_uncorrected": v.whole(
            "rows_remapped_uncorrected", f"{rows}/remapped_row_unc"
        ),
        "remap_pending": v.flag("remap_pending", f"{rows}/remapped_row_pending"),
        "remap_failed": v.flag("remap_failed", f"{rows}/remapped_row_failure"),
        "pages_retired_single": v.whole(
            "pages_retired_single", f"{pages}/multiple_single_bit_retirement/retired_count"
        ),
        "pages_retired_double": v.whole(
            "pages_retired_double", f"{pages}/double_bit_retirement/retired_count"
        ),
        "retirement_pending": v.flag("retirement_pending", f"{pages}/pending_retirement"),
        "unrepairable": v.flag("unrepairable", "ecc_errors/unrepairable_memory"),
    }
    return EccCounts(gaps=v.gaps, **values)


def _sum(v: Printed, field: str, paths: tuple[str, ...], total: str) -> int | None:
    """Sum of the places that this driver lists; an older one prints a total.

    A place whose count it does not keep (N/A) takes nothing from those of the others. Where the
    text leaves a place out, errors in another one are errors all the same.
    """
    if isinstance(v.find(total), str):
        return v.whole(field, total)
    listed = [path for path in paths if v.raw.find(path) is not None]
    known = [path for path in listed if isinstance(v.find(path), str)]
    counts = [count for path in known if (count := v.whole(field, path)) is not None]
    found = sum(counts)
    if counts and len(counts) == len(known) and (found or len(listed) == len(paths)):
        return found
    return v.whole(field, total if v.raw.find(total) is not None else paths[0])
