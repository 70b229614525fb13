"""Titles that say what a text says: functions that rows of the tables name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from textwrap import shorten

from ...jobs.collectives import spoken
from ...jobs.flight.comparing import ranks_text
from ...logs.report.report import LogReport
from ...model.units import seconds
from .checks_ranks import by_ranks, of_silent

Titled = Callable[[LogReport], str]
TITLES: dict[str, Titled] = {}
"""The functions that word a title, by the names that rows of table.toml give."""
MOST_NAMED = 3
MOST_RANKS = 8
_HEAD = re.compile(r"Not all ranks joining collective(?:[,:]? sequence number:)? (\d{1,12})?")
_MISSING = re.compile(r"[Mm]issing ranks(?: are|:) \{([\d, ]{1,2000})\}")
_GROUP = re.compile(r"group info: (?:[^:\s]{1,80}:)?(\S{1,80})")
_CALLED = re.compile(r"collective: \w+:(\w{1,60})")
_STATE = re.compile(r"collective state: (\w{1,20})")
_NUMBERED = re.compile(r"ollective sequence number: (\d{1,12})")
_CULPRIT = re.compile(r"Culprit rank (\d{1,7}); Error type: (\w{1,60})")
_KINDS = {
    "COLLECTIVE_TYPE_MISMATCH": "another collective",
    "SIZE_OR_SYNTAX_MISMATCH": "other sizes",
    "COLLECTIVE_DTYPE_MISMATCH": "other types",
    "COLLECTIVE_STATE_MISMATCH": "another state",
}
"""What PyTorch's analysis compares between a rank and the first one."""
_RAN = re.compile(r"ran for (\d{1,12}) milliseconds")

LONGEST = 110
"""Characters of a message that a title quotes."""
_RAISED = re.compile(
    r"^\[rank\d+\]: (?!torch\.distributed\.|torch\.AcceleratorError|torch\.OutOf)((?:\w+\.)*)"
    r"(\w*(?:Error|Exception|Interrupt|Exit))(?:: (.*)|$)"
)
_PACKAGE = re.compile(
    r"No module named ['\"]([\w.]+)['\"]|package `?([\w-]+)`? (?:seems|is)"
    r"|PackageNotFoundError: ([\w-]+)"
)
_APART = re.compile(
    r"cannot import name ['\"](\w+)['\"] from ['\"]?([\w.]+)"
    r"|module ['\"]([\w.]+)['\"] has no attribute ['\"](\w+)"
    r"|([\w.]+)\(\) got an unexpected keyword argument ['\"](\w+)"
)
_LIBRARY = re.compile(r"\b(lib[\w+-]+\.so[.\d]*)['\"]?(?:; dlerror)?: ")
_FIRMWARE = re.compile(
    r"\b(\w{2,20}) [\da-f:.]{7,16}: .*?(?:Direct firmware load for|GuC firmware) "
    r"([\w./-]{1,100}?):? (?:failed with error -2|fetch failed)"
)
_VARIABLE = re.compile(r"KeyError: ['\"]([A-Z][A-Z0-9_]+)['\"]")


def titled(function: Titled) -> Titled:
    """Offer a function that words a title under its own name."""
    TITLES[function.__name__] = function
    return function


@titled
def collective_out_of_time(log: LogReport) -> str:
    """Which collective ran out of time beside unfinished work, after how long and on which ranks.

    Empty where no line of the watchdog names the collective.
    """
    busy = min((note.line for note in log.busy), default=0)
    late = [one for one in log.progress if one.operation is not None and one.line > busy]
    if not late:
        return ""
    first = late[0]
    same = sorted(one.rank for one in late if one.operation == first.operation)
    ran = _RAN.search(first.text)
    after = "" if ran is None else f" after {seconds(int(ran[1]) / 1000)}"
    what = f"{first.operation} ran out of time{by_ranks(tuple(same), ())}{after}"
    return f"{what}, while a rank was still at work of its own"


@titled
def collectives_late(log: LogReport) -> str:
    """Which collectives did not end in time, on which ranks, and after how long; whoever is silent.

    Empty where no line of the watchdog names one. That ranks wait in different ones need not be a
    fault: lines of older versions do not name the process group, each of which counts for itself.
    """
    late, ran = defaultdict(list), 0
    for one in log.progress:
        if one.operation is None or one.work is None:
            continue
        late[spoken(one.operation), one.work].append(one.rank)
        found = _RAN.search(one.text)
        ran = max(ran, 0 if found is None else int(found[1]))
    if not late:
        return ""
    named = sorted(late.items(), key=lambda item: (-len(item[1]), item[0]))
    parts = [
        f"{what} {number}{by_ranks(tuple(sorted(ranks)), ())}"
        for (what, number), ranks in named[:MOST_NAMED]
    ]
    more = f"; and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    after = f", given up after {seconds(ran / 1000)}" if ran else ""
    after += of_silent(log, "; {} says nothing")
    return f"A collective did not end in time: {'; '.join(parts)}{more}{after}"


@titled
def not_joined(log: LogReport) -> str:
    """Which ranks did not enter which collective, by the first block of PyTorch's analysis."""
    notes = sorted(log.notes, key=lambda note: note.line)
    begins = next((at for at, note in enumerate(notes) if _HEAD.search(note.text)), 0)
    # Of lines that are alike the first one is kept, which is of the first block.
    text = "\n".join(note.text for note in notes[begins:])
    missing, called = _MISSING.search(text), _CALLED.search(text)
    head, group = _HEAD.search(text), _GROUP.search(text)
    if missing is None or called is None:
        return ""
    number = f" {head[1]}" if head is not None and head[1] is not None else ""
    name = "" if group is None else group[1]
    whose = " of the default group" if name == "default_pg" else f" of group {name}" * bool(name)
    ranks = ranks_text([int(word) for word in missing[1].split(",") if word.strip()], MOST_RANKS)
    ranks = ranks[:1].upper() + ranks[1:]
    what = f"{spoken(called[1])}{number}{whose}"
    state = _STATE.search(text)
    if state is not None and state[1] == "completed":
        return f"{ranks} left no record of {what}, which has ended on another rank"
    return f"{ranks} did not enter {what}, by PyTorch's own analysis of dumps"


@titled
def called_differently(log: LogReport) -> str:
    """In which collective ranks differ, and by what, as PyTorch's analysis says it."""
    text = "\n".join(note.text for note in sorted(log.notes, key=lambda note: note.line))
    number, found = _NUMBERED.search(text), dict[str, list[int]]()
    for rank, kind in _CULPRIT.findall(text)[:4096]:
        found.setdefault(_KINDS.get(kind, kind), []).append(int(rank))
    if not found or number is None:
        return ""
    parts = [f"{kind} on {ranks_text(sorted(set(r)), MOST_RANKS)}" for kind, r in found.items()]
    return f"Ranks differ in collective {number[1]}: {'; '.join(parts)}, beside the first rank"


@titled
def exception_of_rank(log: LogReport) -> str:
    """With which exception a rank's program ended, by the first line that names its rank."""
    for note in sorted(log.notes, key=lambda note: note.line):
        found = _RAISED.match(note.text)
        if found is not None:
            said = shorten(
                f"{found[2]}: {found[3] or ''}".rstrip(": "), LONGEST, placeholder=" ..."
            )
            return f"A rank's own program ended with an exception: {said}"
    return ""


@titled
def package_that_is_missing(log: LogReport) -> str:
    """Which Python package is not there."""
    found = _first(_PACKAGE, log)
    name = "" if found is None else next(filter(None, found.groups()))
    return f"The Python package {name} is not in this environment" if name else ""


@titled
def packages_apart(log: LogReport) -> str:
    """Which name or argument a package does not have in the release that is installed."""
    found = _first(_APART, log)
    if found is None:
        return ""
    name, holder = found[1] or found[4] or found[6], found[2] or found[3] or found[5]
    return f"{holder} has no {name} in the release that is installed: two packages do not fit"


@titled
def library_that_is_missing(log: LogReport) -> str:
    """Which library the loader did not find."""
    found = _first(_LIBRARY, log, "cannot open|dynamic library")
    return "" if found is None else f"The loader did not find {found[1]}"


@titled
def firmware_that_is_missing(log: LogReport) -> str:
    """Which driver asks for which firmware file that the kernel did not find."""
    found = _first(_FIRMWARE, log)
    return "" if found is None else f"{found[1]} asks for firmware that is not there: {found[2]}"


@titled
def variable_that_is_missing(log: LogReport) -> str:
    """Which environment variable a program reads that is not set."""
    found = _first(_VARIABLE, log)
    return "" if found is None else f"The environment variable {found[1]} is read and is not set"


def _first(pattern: re.Pattern[str], log: LogReport, holds: str = "") -> re.Match[str] | None:
    """The first match in lines that also hold one of these words."""
    notes = sorted(log.notes, key=lambda note: note.line)
    notes = [note for note in notes if not holds or re.search(holds, note.text)]
    return next((found for note in notes if (found := pattern.search(note.text))), None)


_STATUS = re.compile(r"code=exited, status=(\d{1,3})\b")
_STATUSES = {
    **{2: "an option or file that it does not accept (INVALIDARGUMENT)", 3: "NOTIMPLEMENTED"},
    **{4: "it may not do so (NOPERMISSION)", 5: "a program is not installed (NOTINSTALLED)"},
    **{6: "it is not configured (NOTCONFIGURED)", 7: "what it needs does not run (NOTRUNNING)"},
    **{64: "a wrong command line (EX_USAGE)", 65: "wrong input (EX_DATAERR)"},
    **{66: "no input file (EX_NOINPUT)", 67: "no such user (EX_NOUSER)"},
    **{68: "no such host (EX_NOHOST)", 69: "a service is not there (EX_UNAVAILABLE)"},
    **{70: "an error of its own (EX_SOFTWARE)", 71: "an error of the system (EX_OSERR)"},
    **{72: "a file of the system (EX_OSFILE)", 73: "a file cannot be made (EX_CANTCREAT)"},
    **{74: "an error of input or output (EX_IOERR)", 75: "a failure for now (EX_TEMPFAIL)"},
    **{76: "a wrong answer of a peer (EX_PROTOCOL)", 77: "it may not do so (EX_NOPERM)"},
    **{78: "a wrong configuration (EX_CONFIG)", 126: "a file that may not be executed"},
    **{127: "a command of its script is not found"},
}
"""What statuses of programs mean: LSB's for services, sysexits(3), and a shell's."""
_SIGNALLED = 128


@titled
def status_of_service(log: LogReport) -> str:
    """With which status a service's program ended, and what that number mostly means."""
    found = _first(_STATUS, log)
    if found is None:
        return ""
    status = int(found[1])
    meant = _STATUSES.get(status, "")
    if _SIGNALLED < status <= _SIGNALLED + 64:
        meant = f"as a shell says it of signal {status - _SIGNALLED}"
    said = f": {meant}" if meant else ", which its own lines explain"
    return f"A service's program ended by itself with status {status}{said}"


_ASKED = re.compile(
    r"'GPU': (\d{1,6})(?:\.0)?\b|parallel size \((\d{1,6})\) exceeds available GPUs"
)
_PRESENT = re.compile(r"/(\d{1,6})(?:\.0)? GPU\b|exceeds available GPUs \((\d{1,6})\)")


@titled
def gpus_asked_of_ray(log: LogReport) -> str:
    """How many GPUs a job asks Ray for, and how many its cluster has, where the text says both."""
    texts = [*(note.text for note in log.notes), *(note.text for note in log.context)]
    asked = [number for text in texts for number in _numbers(_ASKED, text)]
    there = [number for text in texts for number in _numbers(_PRESENT, text)]
    if not asked or not there or max(asked) <= there[0]:
        return ""
    return f"Ray is asked for {max(asked)} GPUs and has {there[0]}: more than there are"


def _numbers(pattern: re.Pattern[str], text: str) -> list[int]:
    return [int(next(filter(None, found.groups()))) for found in pattern.finditer(text)]
