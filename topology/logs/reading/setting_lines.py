"""Lines about versions, variables and networks."""

import re

import msgspec

from ...recorded.said_versions import library_version
from ..report.communicator import Proof
from ..report.text import plain
from .building import Process
from .gathering import GatheredLog

_VARIABLE = re.compile(rb"((?:N|R)CCL_\w+) set (?:by environment )?to (.*)$")
_RESET = re.compile(rb"reset to (?:-?\d+ by )?((?:N|R)CCL_\w+)=(.*)$")
_REFUSED = re.compile(rb"Invalid value (.*) for ((?:N|R)CCL_\w+), using default (-?\d+)")
_INTEGER = re.compile(rb"-?\d+\.$")


def on_version(log: GatheredLog, process: Process | None, text: bytes, line: int) -> str | None:
    """Read the library's version."""
    named = library_version(text.decode("utf-8", "replace"))
    if named is None:
        return None
    library, version, built = named.library, named.version, named.built_for
    old = log.versions
    if old.version is None or old.library is None:
        log.versions = msgspec.structs.replace(
            old, library=library, version=version, built_for=built, line=line
        )
    elif (library, version) != (old.library, old.version) and len(old.others) < 8:
        other = f"{library} {version}"
        if other not in {proof.text for proof in old.others}:
            others = (*old.others, Proof(line, other))
            log.versions = msgspec.structs.replace(old, others=others)
    elif built is not None and old.built_for is None:
        log.versions = msgspec.structs.replace(old, built_for=built)
    return "version"


def on_driver(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `cudaDriverVersion 13000`."""
    digits = text.split()[-1]
    if not digits.isdigit() or len(digits) > 9:
        return None
    if log.versions.driver != int(digits):
        log.versions = msgspec.structs.replace(log.versions, driver=int(digits))
    return "version"


def on_variable(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `NCCL_X set by environment to Y`."""
    match = _VARIABLE.match(text)
    if match is None:
        log.note("INFO", process, text, line)
        return "remark"
    value = match[2].rstrip()
    # Whole numbers are printed as "%lld." (misc/param.cc), all other values without the dot.
    value = value[:-1] if _INTEGER.match(value) else value
    log.variable(process, match[1], value, line)
    return "environment"


def on_config(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `Comm config X reset to NCCL_Y=Z`, which proves a variable; `set to` does not."""
    match = _RESET.search(text)
    if match is not None:
        log.variable(process, match[1], match[2].rstrip(), line)
        return "environment"
    return "communicator settings"


def on_invalid(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `Invalid value X for NCCL_Y, using default Z`."""
    match = _REFUSED.match(text)
    if match is not None:
        remark = f"not a valid value: the default {plain(match[3], 20)} is used"
        log.variable(process, match[2], match[1], line, remark)
        return "environment"
    log.note("INFO", process, text, line)
    return "remark"


def on_network(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `Using network Socket`."""
    if not text.startswith(b"Using network "):
        log.note("INFO", process, text, line)
        return "remark"
    process.network = plain(text[14:].strip(), 80)
    if process.comm is not None and process.rank >= 0:
        process.comm.network = process.network
    log.note("INFO", process, text, line)
    return "network"


def on_bootstrap(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `Bootstrap: Using eth0:192.0.2.2<0>` and `NET : Using interface eth0:192.0.2.2<0>`."""
    _, found, rest = text.partition(b"Using ")
    rest = rest.removeprefix(b"interface ")
    if found:
        log.speakers.began(process)
        if len(log.bootstrap) < 64:
            log.bootstrap[plain(rest.strip(), 80)] = None
        return "bootstrap"
    log.note("INFO", process, text, line)
    return "remark"
