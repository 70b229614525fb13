"""Values that are words or lists of words, as NCCL, PyTorch and CUDA read them."""

from __future__ import annotations

from ...model.versions import Library, numbers
from ...nccl.tuning import selection
from ..catalogue.catalogue import Flag
from .reading import Reading, skipped

YES = ("1", "t", "true", "y", "yes")
NO = ("0", "f", "false", "n", "no")
"""Words that PyTorch takes for a switch (torch/csrc/distributed/c10d/Utils.hpp:getCvarBool)."""


def read_bool(flag: Flag, text: str, library: Library) -> Reading:
    """Read a switch of PyTorch or libfabric; PyTorch refuses to start with other words."""
    word = text.lower()
    if word in YES or word in NO:
        return Reading(effective="1" if word in YES else "0")
    if flag.group == "pytorch":
        return Reading(
            effective="default",
            fatal=True,
            why=f"PyTorch stops over it: not one of {', '.join((*YES, *NO))}",
        )
    return skipped("neither yes nor no")


def read_spoken(text: str) -> Reading:
    """Read a switch of NCCL 2.30's own table of variables (include/param/parser_default.h)."""
    if text == "1" or text.upper() in ("T", "TRUE"):
        return Reading(effective="1")
    if text == "0" or text.upper() in ("F", "FALSE"):
        return Reading(effective="0")
    return skipped("not one of 1, T, TRUE, 0, F, FALSE")


def read_enum(flag: Flag, text: str, library: Library) -> Reading:
    """Read one of the flag's words; the case counts for `exact` flags."""
    if not flag.options:
        return Reading(effective=text)
    for option in flag.options:
        if text == option or (not flag.exact and text.upper() == option.upper()):
            return Reading(effective=option)
    near = text.strip().upper()
    hint = f"not one of {' '.join(flag.options)}"
    if near in flag.options:
        hint = f"it must be written {near}, exactly"
    if flag.fallback:
        return Reading(effective=flag.fallback, why=f"{hint}: it means {flag.fallback}")
    return skipped(hint)


def read_policy(flag: Flag, text: str, library: Library) -> Reading:
    """Read NCCL_CTA_POLICY or NCCL_NETDEVS_POLICY (init.cc:getEnvCtaPolicyOnce, graph/topo.cc)."""
    if flag.name == "NCCL_NETDEVS_POLICY":
        head, colon, tail = text.upper().partition(":")
        if head == "MAX" and colon and tail.strip().isdecimal() and int(tail) > 0:
            return Reading(effective=f"MAX:{int(tail)}")
        if text.upper() in ("AUTO", "ALL"):
            return Reading(effective=text.upper())
        return skipped("not AUTO, ALL or MAX:N: AUTO holds")
    names = flag.options[:3]
    if text[:1].isdecimal():
        if text[0] in "012":
            return Reading(effective=names[int(text[0])])
        return skipped("the old numbers are 0, 1 and 2")
    if numbers(library.version) < (2, 29):
        return skipped(f"words count since 2.29; {library.version} reads it as the number 0")
    words = [word.upper() for word in text.split("|") if word]
    known = [word for word in words if word in names]
    if not known:
        return skipped(f"not one of {' '.join(names)}")
    lost = [word for word in words if word not in names]
    return Reading(
        effective="|".join(known), why=f"{', '.join(lost)[:60]} is left out" if lost else ""
    )


def read_list(flag: Flag, text: str, library: Library) -> Reading:
    """Read words between commas; ^ in front excludes them, and unknown words are ignored."""
    if flag.name == "NCCL_THREAD_THRESHOLDS" and not text[:1].isdecimal():
        return skipped("it does not begin with a number")
    if not flag.options:
        return Reading(effective=text)
    words = [word for word in text.removeprefix("^").split(",") if word]
    lost = [word for word in words if word.upper() not in flag.options]
    if words and len(lost) == len(words):
        return skipped(f"none of its words is known: {' '.join(flag.options)}")
    why = f"not known and left out: {', '.join(lost)[:80]}" if lost else ""
    return Reading(effective=text, why=why)


def read_filter(flag: Flag, text: str, library: Library) -> Reading:
    """Read a filter of devices: [^][=]name,... (misc/utils.cc:parseStringList, matchIfList)."""
    if not text.strip("^=, "):
        return skipped("it names no device")
    if " " in text:
        return Reading(effective=text, why="blanks are part of a name and match nothing")
    body = text.removeprefix("^")
    if not body.startswith("=") and any(name[-1:].isdecimal() for name in body.split(",")):
        return Reading(
            effective=text,
            why="without = these are beginnings of names: mlx5_1 takes mlx5_10 too",
        )
    return Reading(effective=text)


def read_devices(flag: Flag, text: str, library: Library) -> Reading:
    """Read a list of GPUs by index or identifier; CUDA stops at the first that it cannot use."""
    if not text.strip():
        return Reading(effective="none", why="empty hides every GPU")
    if flag.name == "NVIDIA_VISIBLE_DEVICES" and text in ("all", "none", "void"):
        return Reading(effective=text)
    seen: list[str] = []
    for word in text.split(","):
        word = word.strip()
        if word in seen:
            return Reading(effective="none", why=f"{word[:40]} stands there twice: no GPU is left")
        if not (word.isdecimal() or word.startswith(("GPU-", "MIG-"))):
            kept = ",".join(seen) or "none"
            return Reading(effective=kept, why=f"the list ends before {word[:40]!r}")
        seen.append(word)
    return Reading(effective=",".join(seen))


def read_functions(flag: Flag, text: str, library: Library) -> Reading:
    """Read NCCL_ALGO or NCCL_PROTO (graph/tuning.cc:parseList)."""
    grammar = "functions" if numbers(library.version) >= (2, 24) else "list"
    known = {spelled: name for name, spelled in selection.WORDS.items()}
    start = {known[option]: 1 for option in flag.options}
    found = selection.read(flag.name, text, start, grammar, library.name.upper())
    if found.failure:
        return Reading(effective="default", fatal=True, why=found.failure)
    return Reading(effective=text, why="; ".join(remark[2] for remark in found.remarks))
