"""Lines without the library's head: versions, last words of frameworks, settings, known signs."""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice

from ...model.no_output import is_no_output
from ...model.severity import Word
from ...model.told import is_told
from ...recorded.kept import KeptText
from ...recorded.said_versions import MARKS as VERSION_MARKS
from ...recorded.said_versions import goes_on
from ...recorded.sought import Sought, Vocabulary, lines_with
from ..report.text import plain
from .foreign_lines import LAST_WORDS, Said, said
from .gathering import GatheredLog
from .milestones import Others
from .pasted_settings import NAMES
from .prefix import MARK
from .setting_lines import on_version
from .signs import ABOUT, VIA, Present, Signs
from .torch_progress import MARKS

_ABOUT = Sought((*ABOUT, *VERSION_MARKS))
_VERSION_MARKS = frozenset(VERSION_MARKS)
_OWN = Signs(
    (
        LAST_WORDS.pattern.decode(), "NCCL (?:INFO|WARN|ATTN|DIAG) |CCL version",
        "ProcessGroupNCCL.*(?:imeout|xception|abort|got stuck|timed out)",
        "INFO NET|INFO Ring|INFO Channel|INFO Trees|INFO comm|INFO Using|INFO Cuda|INFO CUDA",
        "INFO rank|INFO Bootstrap|INFO NCCL_|INFO Launch|INFO Connected|WARN |INFO .*->",
        *(re.escape(text.decode()) for text in (*VIA, *MARKS, *NAMES, *VERSION_MARKS)),
    )
)  # fmt: skip
"""Where none of these matches there are neither last words nor a version, a head, progress or a
setting."""
_SUSPECT = re.compile(
    rb"[Ee]rror|ERROR|[Ff]ail|FATAL|Exception|[Aa]bort|[Tt]imed? ?out(?!['\"] ?: ?\d)|TIMEOUT"
    rb"|[Kk]illed"
    rb"|Segmentation|[Hh]ang\b|[Ss]tuck|[Uu]nable to|[Cc]ould ?n(?:ot|'t)|[Cc]an(?:not|'t)|denied"
    rb"|[Nn]ot (?:found|detected|loaded|available|respond)|[Rr]efused|[Uu]nrecognized"
    rb"|[Uu]nknown (?:option|argument)|not currently (?:loaded|available)|pre-initializing"
    rb"|[Uu]nknown symbol|corrupt|[Rr]eject|[Mm]ismatch|No such|[Pp]anic"
    rb"|[Ii]nsufficient|\b[Ii]nvalid\b|[Cc]rash|\bmissing\b"
)
_SUSPECTS = Sought(
    (
        b"rror", b"ERROR", b"ail", b"FATAL", b"Exception", b"bort", b"imed", b"imeout", b"TIMEOUT",
        b"illed", b"Segmentation", b"ang", b"tuck", b"nable to", b"ould", b"annot", b"an't",
        b"denied", b"ot found", b"ot detected", b"efused", b"nrecognized", b"nknown symbol",
        b"corrupt", b"ot loaded", b"ot available", b"ot respond", b"eject", b"nknown option",
        b"nknown argument", b"ot currently", b"pre-init",
        b"ismatch", b"No such", b"anic", b"nsufficient", b"nvalid", b"rash", b"issing",
    )
)  # fmt: skip
"""Each suspect holds one of these: to look for them is quicker."""
_BARELY = re.compile(
    rb"[Nn]ot (?:viable|permitted|initialized|enough|added|ready|allowed|present|active)"
    rb"|\bNOT \w+|\bno [\w ]{2,30}(?:available|found|specified)|[Dd]isconnected"
    rb"|requires? (?:a )?reset|[Rr]eset [Rr]equired|Code 43|\b[Dd]own\b"
    rb"|\blost\b|\bdied\b|\bdegraded\b|\bdowngraded\b"
    rb"|No [\w ]{2,30} (?:found|specified)"
)
"""Further words of failures, for texts of which nothing else is understood."""
_WORLD = re.compile(
    rb"(?i)nvidia|\bnv (?:files|driver)|amd|gpu|cuda|rocm|\bhip|infiniband|rdma|\bib_|mlx|[nr]ccl"
    rb"|\bmpi|slurm|set the link layer|context for the device|\bpcie?\b|vfio|qemu|iommu|psm2|hfi1"
    rb"|umad|nvlsm|fabric.?manager|nvmap|nvrm|cufi|\bgds|lsmod|modinfo"
    rb"|ibwarn|ibpanic|\bcl[a-z]\w+ids\b|code 43|hostpci|\bxid\b|imex|compute-domain"
    rb"|\bg?[bh][123]00\b|driver version|dcgm|host ?engine|torch|vllm|ggml|llama|\bjax|kernel:"
)
"""Words of texts that are about GPUs, their networks and jobs."""
_HARMLESS = re.compile(
    rb"(?<!Assertion )(?:[Ee]rrors?|failures?|failed)\W{1,3}(?:0|none|None|no)\b"
    rb"|(?<![\w.:])(?:0|[Nn]o|without) (?:errors?|fail)|error containment capabilities"
    rb"|\b[Cc]orrected\b"
    rb"|^\W*(?:\[\w+\]:)?\[W[ \d]|^\W*I\d{4} \d\d:\d\d:\d\d\."
    rb"|\bWARNING\b|(?i:warning):|^\s*(?:If|See|When|Note|#) |^(?:lspci|pcilib): "
    rb"|\bavc: +denied\b.*\bpermissive=1\b"
    rb"|\b(?:iwl\w+|ath\d+k\w*|brcm\w+|mt\d+\w*|rt[lw]\w+|r\d{4}|b\d\d\w*|Bluetooth|bt\w+|snd\w*"
    rb"|sof[\w-]*|regulatory)\b.*\bDirect firmware load for "
    rb"|\b(?:i\d{3}|xe) .*(?:_(?:dmc|huc|gsc)[\w.]*\.bin|\bDMC firmware\b)"
    rb"|cfg80211: failed to load regulatory|iwl\w+ .*\bno suitable firmware found"
)
"""The words of failures in counts that are zero, in remarks, in warnings and in advice, and what
lspci lacks for itself in a container (libkmod, VPD).

And of the kernel: what SELinux only notes (permissive=1), the firmware of what no job runs over
(Wi-Fi, whose drivers ask for one release after the other, sound, a display's power)."""
CODED = (
    b"return code", b"exit code", b"exitcode", b"Exit code", b"errno", b"Errno", b"libibverbs",
    b"libfabric", b"Libfabric", b"ibv_", b"Signal ", b"signal ", b"SIGKILL", b"SIGSEGV", b"SIGABRT",
    b"SIGBUS", b"SIGTERM", b"core dumped", b"Segmentation fault", b"Bus error", b"RC: -", b"rc=-",
    b"ib_umad", b"uverbs", b"error: (-", b"ld.so", b"undefined symbol",
    b"exit status", b"synd 0x", b"retry count", b"completion with error",
    b"nixl_agent.cpp", b"nixl_listener.cpp", b"ucx_utils.cpp", b"ucx_backend.cpp",
)  # fmt: skip
"""What lines hold whose failure has a code or a mechanism, whatever they are about."""
_CODED = Sought(CODED)
_MISSING = re.compile(
    rb"libibverbs: Warning|(?:exit|return) ?(?:code|status) *[:=(]? *\(?-?[1-9]|ib_umad module"
    rb"|\bsynd 0x|[Rr]etry count(?:er)? exceeded|completion with error|output empty list"
    rb"|^\W*E\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ (?:nixl|ucx)_\w+\.cpp:"
)
"""Failures that call themselves warnings or have no word of a failure."""
_DATA = re.compile(rb"\s*[\[{]+\s*\"(?!.{0,300}\"(?:msg|message|log|level|error)\" ?:)")
"""A document of JSON that is no entry of a log."""
_FRAME = re.compile(rb"^\W*(?:\[?\w+\]?: *)?(?:File \"|frame #\d)")
"""A place in a trace: its path may hold the same words."""
_REMARK = re.compile(
    rb"\bUCX  (?:DIAG|INFO|DEBUG|TRACE|REQ|DATA) |\bNVSHMEM (?:INFO|TRACE) "
    rb"|^\W*libfabric:.{0,200}<(?:info|debug|trace)>"
)
"""What other libraries say of their own work: it may hold all words of failures."""
_ALIKE = bytes.maketrans(b"23456789", b"1" * 8)
"""None of these patterns tells digits from one another, but 0 from the others."""
_REMARKS = (b"UCX  ", b"NVSHMEM ", b"libfabric:")
"""Each remark holds one of these."""
MOST_SUSPECTS = 8
MOST_OPENINGS = 3
MOST_CONTEXT = 200
"""Lines of other programs that are kept as they are."""
MOST_REMEMBERED = 2 << 20
"""Bytes of the lines that are remembered at most, beside those of the newest text."""
MOST_NEW = 0.75
"""Share of a text's different lines that may be new where to remember lines pays off."""
PAUSE = 16
OVERHEAD = 100
"""Bytes that a line takes beside its own."""


class Awaited(Word):
    """What the line before leaves to the next one."""

    ERROR = "error"
    """It ends in "Last error:"."""
    VERSION = "version"
    """It ends where a version should stand."""


class Unmarked:
    """Reads lines that no head marks as the library's.

    Jobs say the same over and over, so lines are remembered: a text is searched for what only its
    new lines may say.
    """

    def __init__(self, log: GatheredLog, signs: Signs, kept: KeptText | None = None) -> None:
        self._log = log
        self._kept = kept
        self._signs = signs
        self._present: Present = {}
        """The signs that remembered lines may match."""
        self._dull: set[bytes] = set()
        """Lines that say nothing."""
        self.telling: dict[bytes, list[re.Pattern[str]]] = {}
        """Lines that may say something, with the signs that they may match."""
        self._versioned: set[bytes] = set()
        """Those of them that may name versions."""
        self._understood: dict[bytes, tuple[Said, bytes | None, bool]] = {}
        """What they say, of those that were read, the part that a sign matches, and whether they
        may name versions."""
        self._size = 0
        self._pause = 0
        """For how many texts no line is remembered: those before had few lines in common."""
        self.awaits: Awaited | None = None
        self._open = ""
        """The line before, where it ends where a version should stand."""

    def learn(self, lines: list[bytes], different: set[bytes], others: Others) -> None:
        """Take the next lines of a text, of which `others` have no head.

        `different` are these, each once. The lines may be longer than them.
        """
        kept = self._kept
        if kept is not None and kept.goes_on:
            self._forget()  # its lines may be of an output, which may come again
        new = self._new(different)
        words = Vocabulary(b"\n".join(new))
        self._log.milestones.read(others, words)
        if len(self._log.context) < MOST_CONTEXT:
            told = (
                (number, line[:300])
                for number, line in others.numbered()
                if line.strip() and MARK not in line
            )
            self._log.context += islice(told, MOST_CONTEXT - len(self._log.context))
        if kept is not None:
            kept.offer(lines, others.first, words)
        self._remember(new, words)

    def _forget(self) -> None:
        self._present, self._dull, self.telling, self._understood = {}, set(), {}, {}
        self._versioned = set()
        self._size = 0

    def _new(self, lines: set[bytes]) -> set[bytes]:
        """Those that are not remembered."""
        if self._pause or self._size > MOST_REMEMBERED:
            self._pause = max(self._pause - 1, 0)
            self._forget()
        if not self._size:
            return lines
        new = lines.difference(self._dull).difference(self.telling)
        if len(new) > MOST_NEW * len(lines):
            self._pause = PAUSE
        return new

    def _remember(self, lines: set[bytes], words: Vocabulary) -> None:
        """Find out which lines may say something; `words` are theirs."""
        wanted = len(self._log.suspects) < MOST_SUSPECTS
        coded = _CODED.found(words) if wanted else []
        about = [*_ABOUT.found(words), *coded]
        told: dict[bytes, None] = {}
        present: Present = {}
        plain: set[bytes] = set()
        if about or self._signs.may_be_plain(words):
            present = self._signs.present(words)
            plain = self._signs.plain(present)
            told.update(dict.fromkeys((*present, *_OWN.present(words))))
            if len(self._log.suspects) < MOST_SUSPECTS:
                told.update(dict.fromkeys((*_SUSPECTS.found(words), *coded)))
        self._size += len(words.text) + OVERHEAD * len(lines)
        for one, patterns in present.items():
            known = self._present.setdefault(one, [])
            known += [pattern for pattern in patterns if pattern not in known]
        for line, marks in lines_with(told, words.text).items():
            if _holds(line, about) or not plain.isdisjoint(marks):
                signs = (sign for one in marks for sign in present.get(one, ()))
                self.telling[line] = list(dict.fromkeys(signs))
                if not _VERSION_MARKS.isdisjoint(marks):
                    self._versioned.add(line)
        if not self._pause and self._size <= MOST_REMEMBERED:
            self._dull.update(lines.difference(self.telling))

    def knows(self, raw: bytes) -> bool:
        """Whether the line was read before, and is not the library's."""
        return raw in self._understood

    def read(self, raw: bytes, number: int) -> int:
        """Read one line; 1 when it is the library's or about it."""
        log = self._log
        said, excerpt, names_versions = self._understood.get(raw) or self._understand(raw)
        text = said.text
        awaited, self.awaits = self.awaits, None
        if awaited and not text.strip():
            self.awaits = awaited
            return 0
        if names_versions or awaited is Awaited.VERSION:
            self._versions(plain(text, 400), number, awaited)
        if said.progress:
            log.progress.read(text, number)
        if (names_versions or said.progress) and awaited is not Awaited.VERSION:
            self._settle(raw)
        if said.version is not None and on_version(log, None, said.version, number) is not None:
            log.kinds["version"] += 1
            return 1
        if said.last_words or awaited is Awaited.ERROR:
            self._last_words(said, excerpt, number)
            return 1
        for name, value in said.settings:
            log.pasted(name, value, number)
        if said.settings:
            log.kinds["setting"] += 1
        elif excerpt is not None:
            log.note("OTHER", None, excerpt, number)
            log.kinds["sign"] += 1
        else:
            self._elsewhere(text, number, opens=names_versions)
        return 0

    def _last_words(self, said: Said, excerpt: bytes | None, number: int) -> None:
        """Keep what a framework says of the library's failure."""
        log = self._log
        self.awaits = Awaited.ERROR if said.ends_open else self.awaits
        log.note("OTHER", None, said.text if excerpt is None else excerpt, number)
        log.kinds["framework"] += 1
        if said.its_version is not None and log.versions.version is None:
            log.framework_version(plain(said.its_version, 20), number)

    def _elsewhere(self, text: bytes, number: int, *, opens: bool) -> None:
        """Keep a line about other things, where it names versions or speaks of a failure."""
        log = self._log
        if opens and text.strip() and len(log.openings) < MOST_OPENINGS:
            log.openings.append((number, text[:1600]))
        if len(log.suspects) < MOST_SUSPECTS and _looks_wrong(text):
            log.suspects.append((number, text[:1600]))
        log.kinds["elsewhere"] += 1

    def _versions(self, text: str, number: int, awaited: Awaited | None) -> None:
        """Keep the versions of a line; where it ends before one, the next line is read with it."""
        whole = f"{self._open} {text.lstrip()}" if awaited is Awaited.VERSION else text
        self._log.say(whole, number)
        if goes_on(text):
            self.awaits, self._open = Awaited.VERSION, text

    def _settle(self, raw: bytes) -> None:
        """Remember that a line told its progress and its versions, which count once."""
        log, known = self._log, self._understood.get(raw)
        if known is not None and len(log.openings) >= MOST_OPENINGS and not log.progress.full:
            line, excerpt, names_versions = known
            goes = names_versions and goes_on(plain(line.text, 400))
            self._understood[raw] = line._replace(progress=False), excerpt, goes

    def diagnosis(self, raw: bytes, at: int, number: int) -> int:
        """Read a line of the library's own diagnostics, whose mark is at a place; always 1."""
        self._log.diagnostics.read(raw[:at], raw[at + len(MARK) + len("DIAG ") :], number)
        _, excerpt, _ = self._understood.get(raw) or self._understand(raw)
        if excerpt is not None:
            self._log.note("OTHER", None, excerpt, number)
        self._log.kinds["diagnostics"] += 1
        return 1

    def _understand(self, raw: bytes) -> tuple[Said, bytes | None, bool]:
        """What a line says, the part that a sign matches, and whether it may name versions."""
        line = said(raw)
        if (line.last_words or line.progress or line.version) and _only_said(line.text):
            words = line.last_words and not is_no_output(line.text.decode("latin-1"))
            line = line._replace(last_words=words, progress=False, version=None)
        signs = self.telling.get(raw)
        known = signs is not None
        if signs is None:
            here = self._present.items()
            signs = [sign for one, found in here if line.text.find(one) >= 0 for sign in found]
        remark = _holds(line.text, _REMARKS) and _REMARK.search(line.text)
        tells = bool(signs) and not remark
        excerpt = self._signs.excerpt(line.text, signs) if tells else None
        named = raw in self._versioned if known else _holds(raw, VERSION_MARKS)
        found = line, None if excerpt is None else excerpt.encode(), named
        if known:
            self._understood[raw] = found
        return found


def left_over(context: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Of the first lines those that speak of a failure, in a text about our devices or jobs."""
    if not any(_WORLD.search(text) for _, text in context):
        return []
    found = (
        (number, text)
        for number, text in context
        if _looks_wrong(text)
        or (_BARELY.search(text) and not _HARMLESS.search(text) and not _only_said(text))
    )
    return list(islice(found, MOST_SUSPECTS))


def _looks_wrong(text: bytes) -> bool:
    return _complains(text.translate(_ALIKE))


@lru_cache(256)  # a driver that fails says one thing again and again
def _complains(text: bytes) -> bool:
    said = _SUSPECT.search(text) is not None and not _HARMLESS.search(text)
    said = said or _MISSING.search(text) is not None
    dull = _FRAME.search(text) or _REMARK.search(text) or _DATA.match(text)
    return said and not dull and not _only_said(text)


def _only_said(text: bytes) -> bool:
    """Whether source holds it or a sentence names it."""
    line = text.decode("latin-1")
    return is_no_output(line) or is_told(line)


def _holds(line: bytes, marks: Iterable[bytes]) -> bool:
    for mark in marks:  # noqa: SIM110 - a generator takes three times as long
        if line.find(mark) >= 0:
            return True
    return False
