"""How a library reads a value as it is written: its effect, or why it has none.

Integers go through C's strtoll (misc/param.cc:ncclLoadParam), levels and words through the
comparisons at the place that each flag's `source` names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from ...hardware.terms import library_terms
from ...model.versions import Library, numbers
from ...nccl.settings import INTEGER, Settings, strtoll
from ...nccl.system.levels import level
from ...nccl.tuning import selection
from ...nccl.versions import version_for
from ..catalogue.catalogue import (
    LIBRARY,
    Catalogue,
    Flag,
    OnRccl,
    catalogue,
    elsewhere,
    unknown,
)

SPOKEN_SINCE = (2, 30, 7)
SPOKEN = ("NCCL_SET_THREAD_NAME", "NCCL_WARN_ENABLE_DEBUG_INFO", "NCCL_PARAM_DUMP_ALL")
"""Version from which only 1, T, TRUE, 0, F and FALSE are read (param/parser_default.h)."""

POSITIVE = ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_NVLS_NCHANNELS", "NCCL_NCHANNELS_PER_NET_PEER")
"""Variables that are ignored when they are 0 or less (init.cc:envConfigOverride)."""
NVLS_CHANNELS, NVLS_ZERO_CHOOSES, NOT_GIVEN = "NCCL_NVLS_NCHANNELS", (2, 27, 3), -2
"""Before this version only -2 was ignored, and less than the fewest channels counted as those
(transport/nvls.cc:ncclNvlsInit)."""

CAPPED = (
    "NCCL_MIN_CTAS",
    "NCCL_MAX_CTAS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_P2P_NCHANNELS",
    "NCCL_MAX_P2P_NCHANNELS",
)
"""Cut at the highest number of channels (MAXCHANNELS): 64, 32 before 2.25, 128 in RCCL."""
LEAST = {"NCCL_MAX_NCHANNELS": 1, "NCCL_MIN_NCHANNELS": 0}
"""Smallest values that count (graph/connect.cc:ncclMinNchannels, ncclMaxNchannels)."""
THREADS = {"NCCL_NTHREADS": (64, 512), "NCCL_LL128_NTHREADS": (160, 640)}
"""Fewest and most threads."""

NETDEVS_POLICY, THRESHOLDS = "NCCL_NETDEVS_POLICY", "NCCL_THREAD_THRESHOLDS"
NVIDIA_VISIBLE, SIZE = "NVIDIA_VISIBLE_DEVICES", "size"
YES = ("1", "t", "true", "y", "yes")
NO = ("0", "f", "false", "n", "no")
"""Words that PyTorch takes for a switch (torch/csrc/distributed/c10d/Utils.hpp:getCvarBool)."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How a library reads a value."""

    effective: str
    """The value that takes effect: "1", "PHB", "default"."""
    ignored: bool = False
    """Whether the value has no effect."""
    fatal: bool = False
    """Whether the library refuses to start because of it."""
    why: str = ""
    """What is unusual about the value, a clause without a full stop; "" for a plain value."""


def skipped(why: str) -> Reading:
    """Make the reading of a value without effect, for which the default holds."""
    return Reading(effective="default", ignored=True, why=why)


def refused(flag: Flag, why: str) -> Reading:
    """Make the reading of a value that is not one of the flag's: ignored, or the end of a start."""
    if not flag.strict:
        return skipped(why)
    return Reading(effective="default", fatal=True, why=f"{flag.whose} stops over it: {why}")


def read_bool(flag: Flag, text: str, library: Library) -> Reading:
    """Read a switch of PyTorch or libfabric; PyTorch refuses to start with other words."""
    word = text.lower()
    if word in YES or word in NO:
        return Reading(effective="1" if word in YES else "0")
    if flag.of_pytorch:
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
    return refused(flag, hint)


def read_policy(flag: Flag, text: str, library: Library) -> Reading:
    """Read NCCL_CTA_POLICY or NCCL_NETDEVS_POLICY (init.cc:getEnvCtaPolicyOnce, graph/topo.cc)."""
    if flag.name == NETDEVS_POLICY:
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
    if flag.name == THRESHOLDS and not text[:1].isdecimal():
        return skipped("it does not begin with a number")
    if not flag.options:
        return Reading(effective=text)
    words = [*filter(None, text.removeprefix("^").split(","))]
    if flag.strict and not words:
        return refused(flag, "the list is empty")
    known = {word: word if flag.exact else word.upper() for word in words}
    lost = [word for word in words if known[word] not in flag.options]
    if words and len(lost) == len(words) and not text.startswith("^"):
        return refused(flag, f"none of its words is known: {' '.join(flag.options)}")
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
    if flag.name == NVIDIA_VISIBLE and text in ("all", "none", "void"):
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


def read_value(flag: Flag, text: str, library: Library) -> Reading:
    """Read `text` as the value of `flag` the way `library` does."""
    closed = unread(flag, library)
    if closed:
        return skipped(closed)
    if flag.name in SPOKEN and not library.is_rccl and numbers(library.version) >= SPOKEN_SINCE:
        return read_spoken(text)
    return READERS[flag.type](flag, text, library)


def readings(
    values: Mapping[str, str | None], environment: Mapping[str, str], library: Library
) -> dict[str, Reading | None]:
    """How `library` reads some new values of an environment; None for a variable taken away."""
    void, known = overridden(environment), catalogue()
    found: dict[str, Reading | None] = {}
    for name, text in values.items():
        flag = known.flag(name)
        if text is None:
            found[name] = None
        elif flag is None:
            why, read = unknown(name)
            found[name] = Reading(effective=text, why=why) if read else skipped(why)
        elif name in void:
            found[name] = skipped(void[name])
        else:
            found[name] = read_value(flag, text, library)
    return found


def unread(flag: Flag, library: Library) -> str:
    """Say why this library does not read the flag; "" when it does, or for other flags."""
    if not flag.of_library:
        return ""
    title = library.name.upper()
    if library.name not in flag.libraries:
        only = " and ".join(name.upper() for name in flag.libraries)
        return f"{title} does not read it, {only} does"
    if flag.of_rocm:
        return ""
    version = numbers(library.version)
    if flag.since and version and version < numbers(flag.since):
        return f"{title} {library.version} does not read it: it came with {flag.since}"
    if flag.until and version > numbers(flag.until):
        return f"{title} {library.version} no longer reads it: {flag.until} was the last that did"
    return ""


def overridden(values: Mapping[str, str]) -> dict[str, str]:
    """Name the variables that another variable overrides: name -> why."""
    settings = Settings(values)
    found: dict[str, str] = {}
    if settings.integer("NCCL_P2P_DISABLE", 0) == 1 and "NCCL_P2P_LEVEL" in values:
        found["NCCL_P2P_LEVEL"] = "NCCL_P2P_DISABLE=1 beats it"
    for old, new in (
        ("NCCL_MAX_NRINGS", "NCCL_MAX_NCHANNELS"),
        ("NCCL_MIN_NRINGS", "NCCL_MIN_NCHANNELS"),
    ):
        if values.get(old) and values.get(new):
            found[old] = f"{new} is set and takes its place"
    if settings.integer("NCCL_IB_GID_INDEX", -1) >= 0:
        for name in ("NCCL_IB_ROCE_VERSION_NUM", "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE"):
            if name in values:
                found[name] = "NCCL_IB_GID_INDEX is set and leaves nothing to choose"
    return found


def ignored(
    values: Mapping[str, str], library: Library, known: Catalogue
) -> tuple[tuple[str, str, str], ...]:
    """List (name, value, why) of the set variables without effect as written, by name.

    Names that start like NCCL's count too when no program is known to read them.
    """
    void = overridden(values)
    found: list[tuple[str, str, str]] = []
    for name, value in sorted(values.items()):
        flag = known.flag(name)
        if flag is None:
            if name.startswith(LIBRARY) and not elsewhere(name):
                found.append((name, value, unknown(name).why))
            continue
        reading = read_value(flag, value, library)
        why = void.get(name) or (reading.why if reading.ignored else "")
        if why:
            found.append((name, value, why))
    return tuple(found)


def _integer(flag: Flag, text: str, library: Library) -> Reading:
    if not text:
        return skipped("empty counts as not set, the default holds")
    value, used = strtoll(text)
    if used == 0:
        return Reading(
            effective="0",
            ignored=_off(flag, 0),
            why="no number leads it: it counts as 0",
        )
    if value in (2**63 - 1, -(2**63)):
        return skipped("out of range, the default holds")
    notes = _notes(flag, text, value, used)
    if flag.name in POSITIVE and value <= 0:
        older = not library.is_rccl and numbers(library.version) < NVLS_ZERO_CHOOSES
        if flag.name == NVLS_CHANNELS and older and value != NOT_GIVEN:
            return Reading(effective="1", why="0 and less counts as 1, or as NCCL_MIN_CTAS")
        return skipped("0 and less is ignored")
    if flag.name in THREADS:
        return _threads(value, *THREADS[flag.name])
    if flag.name in CAPPED:
        most = 64 if numbers(library.version) >= (2, 25) else 32
        most = 128 if library.is_rccl else most
        least = LEAST.get(flag.name, value)
        if value > most:
            value, notes = most, f"{text} is more than there can be: {most}"
        elif value < least:
            value, notes = least, f"{text} is less than there can be: {least}"
    return Reading(effective=str(value), why=notes)


def _threads(value: int, least: int, most: int) -> Reading:
    """Read the threads of a block (graph/tuning.cc:getNthreads)."""
    if value <= 0:
        return skipped("0 and less leaves the default")
    if value % 32:
        return Reading(effective=str(most), why=f"not a multiple of 32: it counts as {most}")
    kept = max(least, min(most, value))
    return Reading(effective=str(kept), why="" if kept == value else f"it counts as {kept}")


def _notes(flag: Flag, text: str, value: int, used: int) -> str:
    if used < len(text):
        unit = " and units mean nothing" if flag.type == SIZE else ""
        return f"only the leading number is read{unit}: it counts as {value}"
    match = INTEGER.match(text)
    if match and match[2] not in ("0", str(abs(value))):
        return f"a leading 0 or 0x changes the base: it counts as {value}"
    return ""


def _off(flag: Flag, value: int) -> bool:
    """Whether a switch with this value does the same as an unset one."""
    default = flag.default.split(":")[0].split(";")[0]
    return default == str(value) or (default == "unset" and value == 0)


def _one(flag: Flag, text: str, library: Library) -> Reading:
    value = strtoll(text)[0]
    if value == 1:
        return Reading(effective="1", why="" if text == "1" else "it counts as 1")
    if flag.default.startswith("1"):
        return _integer(flag, text, library)
    if text.strip() == "0":
        return Reading(effective="0")
    return Reading(effective="0", ignored=True, why=f"only 1 counts, this reads as {value}")


def _level(flag: Flag, text: str, library: Library) -> Reading:
    version, _ = version_for(f"{library.name}-{library.version}")
    found = level(Settings({flag.name: text}), version, flag.name)
    if found.path is None:
        return skipped(found.ignored)
    name = version.name_of(found.path)
    why = "" if name == text else f"the old number {text[:20]} means {name}"
    return Reading(effective=name, why=why)


def _text(_flag: Flag, text: str, _library: Library) -> Reading:
    return Reading(effective=text)


def _path(_flag: Flag, text: str, _library: Library) -> Reading:
    if not text:
        return skipped("empty names no file")
    if text.startswith("~"):
        return Reading(effective=text, why="~ is not expanded: it is looked for as it stands")
    return Reading(effective=text)


READERS: dict[str, Callable[[Flag, str, Library], Reading]] = {
    "one": _one,
    "switch": _integer,
    "integer": _integer,
    "size": _integer,
    "level": _level,
    "string": _text,
    "path": _path,
    "enum": read_enum,
    "policy": read_policy,
    "list": read_list,
    "filter": read_filter,
    "devices": read_devices,
    "bool": read_bool,
    "functions": read_functions,
}
"""Type of flag -> the function that reads its values."""


def for_library(flag: Flag, library: Library | None) -> Flag:
    """The entry with the names that this library and its links have.

    Where RCCL reads the variable, what the entry says of RCCL takes the place of the rest.
    Without a library, or where it does not read the variable, the names are NCCL's.
    """
    if library is None or not library.is_rccl or unread(flag, library):
        return flag.said(library_terms("nccl"))
    own = flag.on_rccl or OnRccl()
    held = msgspec.structs.replace(
        flag,
        values=own.values or flag.values,
        changes=own.changes or flag.changes,
        set_when=own.set_when or flag.set_when,
        trap=own.trap or flag.trap,
    )
    return held.said(library_terms(library.name))
