"""`--from`: files and folders of recorded answers become one snapshot."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import msgspec

from ..model.budget import Budget
from ..model.errors import GputopError
from ..model.format import LIMIT_BYTES, Format, FormatError
from ..model.part import PartialNode, part_of
from ..model.snapshot import NodeSnapshot, SnapshotError, decode
from ..nccl.xml.read import check_topology
from ..sources.believed import believed
from ..sources.collect import merge
from ..sources.files.tree import FolderTree
from .check_file import IN_FOLDER, SIGN, CheckFileError, snapshot_in, unpacked
from .formats import NAMES
from .kept import FAR, KeptText
from .plain_file import as_utf8, packed_by, read_plain
from .plugged import formats
from .sections import BETWEEN, Sections, plain, read_sections
from .sessions.frames import RecordingError
from .sessions.session_file import ONLY_A_FILE, at_moment, is_recording, recorded_node

HEAD_BYTES = 64 * 1024
MOST_BYTES = LIMIT_BYTES
MOST_FILES = 4096
STDIN = "-"
"""Stands for what was read from stdin, in place of a path."""
MOST_GPUS = 128
"""GPUs of a node with 16 packages in 8 parts; the work for all pairs grows with their square."""

OTHERS = "of another machine, or of this one at another moment"
"""Outputs in a text that are no part of the node."""

SNAPSHOT_SIGN = re.compile(rb'"schema"\s*:\s*"gputop\.snapshot/')

HELPS = (
    "what helps: nvidia-smi topo -m, nvidia-smi -q, sudo lspci -vvv, ibstat, lscpu, or amd-smi's "
    "JSON; `gputop log` says more of a job's log"
)

# Files that are recognised but that `--from` does not read, and what reads them.
WITH_JSON = "which --from does not read; print the same with --json"

FLIGHT = (
    "a pickle or JSON as PyTorch's flight recorder dumps it, which says nothing of the node; "
    "see `gputop log FILE` or `gputop jobs --from FILE`"
)
INSPECTOR = (
    "records of NCCL's Inspector, which say nothing of the node; see `gputop jobs --from FILE`"
)
OF_JOBS = frozenset({FLIGHT, INSPECTOR})
"""What says nothing of the node, and where its jobs stand."""

UNREAD = (
    (
        re.compile(
            rb"(?m)^(?:timestamp,)?gpu,[a-z0-9_#,]{0,4000}"
            rb"(?:bdf|uuid|activity|socket_power|power_usage|market_name|fw_id|retired|num_hops|"
            rb"weight|link_type|process_info|pid|clk|vram|memory)"
        ),
        f"CSV of amd-smi, {WITH_JSON}",
    ),
    (
        re.compile(rb"(?m)^device,[A-Z(][^\n]{0,4000}\r?\n(?:card|system)"),
        f"CSV of rocm-smi, {WITH_JSON}",
    ),
    (
        re.compile(
            rb"(?m)^GPU: \d{1,4}[ \t]*\r?\n[ \t]{4}[A-Z][A-Z0-9_]*:|^\| AMD-SMI |"
            rb"^(?:LINK METRIC TABLE|XGMI LINK STATUS|GPU LINK PORT STATUS):"
        ),
        "text of amd-smi, of which --from reads `topology` alone; print the same with --json",
    ),
    (
        re.compile(rb"<graphs[^>]{0,400}\bversion="),
        "an NCCL graph XML, which --from does not read; the graphs in a job's debug log are shown "
        "by `gputop log FILE`",
    ),
    (
        re.compile(
            rb"\A\x80[\x02-\x05]|"
            rb'\A\s{0,64}\{\s{0,64}"(?:comm_lib_version|entries|nccl_version|pg_config|pg_status|version)"'
            rb'(?=[\s\S]{0,65536}"(?:pg_config|pg_status|profiling_name|comm_lib_version)")'
        ),
        FLIGHT,
    ),
    (re.compile(rb'\{"header"[^\n]{0,4096}"inspector_output_format_version"'), INSPECTOR),
    (
        re.compile(
            rb'\A\s{0,64}\[\s{0,64}\{[\s\S]{0,65536}?"(?:nvml(?:System|Device)Get|amdsmi_get_)'
        ),
        "answers of NVML or amdsmi at several moments; --from reads a file of one moment",
    ),
    (
        re.compile(rb'\A\s{0,64}\{\s{0,64}"schema"\s{0,64}:\s{0,64}"gputop\.(?!check/)'),
        "JSON that a command of gputop printed; of those --from reads the ones of `gputop "
        "snapshot` and `gputop check`",
    ),
    (
        re.compile(rb"\bNCCL (INFO|WARN|TRACE|VERSION|version)\b"),
        "an NCCL debug log, which --from does not read; see `gputop log FILE`",
    ),
)
"""A sign in the first bytes of a file, and what the file is."""


class LoadError(GputopError, ValueError):
    """Nothing usable; a text of one line. `unreadable`: the path itself could not be opened.

    `quoted`: what of the text stands word by word in the file; `of_jobs`: it tells of jobs.
    """

    def __init__(
        self, text: str, *, unreadable: bool = False, quoted: str = "", of_jobs: bool = False
    ) -> None:
        super().__init__(text)
        self.unreadable, self.quoted, self.of_jobs = unreadable, quoted, of_jobs


class LoadedSnapshot(msgspec.Struct, frozen=True):
    """A snapshot, and the files that were skipped with the reason."""

    snapshot: NodeSnapshot
    skipped: tuple[tuple[str, str], ...] = ()
    of_jobs: tuple[tuple[str, LoadError], ...] = ()
    """Paths that tell of jobs and nothing of the node, with what is said of them then."""


class _Found(msgspec.Struct):
    """One file that was read: its place in the order of precedence, name, part and time."""

    order: int
    name: str
    part: PartialNode
    taken_at: float
    snapshot: NodeSnapshot | None = None
    """The snapshot itself, when the file is one."""
    is_check: bool = False
    """Whether a check had it."""
    of_jobs: str = ""
    """What is said of the outputs in it that tell of jobs alone; "" where there are none."""


LogReader = Callable[[bytes, str, bool], "PartialNode | None"]
"""What a log in a text says, by its content and name; whether nothing else is in the text."""


def load(
    paths: Sequence[str],
    version: str = "",
    stdin: bytes = b"",
    logs: LogReader | None = None,
    stdin_name: str = "stdin",
    *,
    jobs: bool = False,
) -> LoadedSnapshot:
    """Read every path; a folder gives all files in it that are recognised, "-" is `stdin`.

    A file named by the caller must be usable; `logs` reads those that a job wrote. With `jobs`,
    files that say where jobs stand and nothing of the node are named in the answer, whose node is
    empty where there is nothing else. Raises LoadError with one line otherwise.
    """
    loaded = _load(paths, version, (Path(stdin_name), stdin), logs, jobs=jobs)
    count = len(loaded.snapshot.machine.gpus)
    if count > MOST_GPUS:
        raise LoadError(f"{', '.join(paths)}: {count} GPUs; the limit of one node is {MOST_GPUS}")
    return loaded


def _load(
    paths: Sequence[str],
    version: str,
    stdin: tuple[Path, bytes],
    logs: LogReader | None,
    *,
    jobs: bool,
) -> LoadedSnapshot:
    found: list[_Found] = []
    skipped: list[tuple[str, str]] = []
    of_jobs: list[tuple[str, LoadError]] = []
    for text in paths:
        read, unread = (
            _understood(*stdin, 0.0, logs)
            if text == STDIN
            else _read_path(Path(text), logs, of_jobs if jobs else None)
        )
        found += read
        skipped += unread
    if not found and of_jobs:
        empty = merge((), taken_at=0.0, source=_names(of_jobs), gputop=version)
        return LoadedSnapshot(empty, tuple(skipped), tuple(of_jobs))
    if not found:
        first = next((f": {name}: {why}" for name, why in skipped), "")
        raise LoadError(f"{', '.join(paths)}: nothing in it that gputop reads{first}")
    found.sort(key=lambda entry: entry.order)
    found, others = _one_snapshot(found)
    skipped += others
    found, others = _one_topology(found)
    skipped += others
    alone = found[0].snapshot if len(found) == 1 else None
    if alone is not None:
        # Its ages and the version that made it stay as they were.
        own = msgspec.structs.replace(alone, source=(found[0].name,))
        return LoadedSnapshot(own, tuple(skipped), tuple(of_jobs))
    return LoadedSnapshot(
        snapshot=merge(
            [entry.part for entry in found],
            taken_at=max(entry.taken_at for entry in found),
            source=tuple(dict.fromkeys(entry.name for entry in found)),
            gputop=version,
        ),
        skipped=tuple(skipped),
        of_jobs=tuple(of_jobs),
    )


def _names(of_jobs: Sequence[tuple[str, LoadError]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(Path(path).name for path, _ in of_jobs))


def _read_path(
    path: Path, logs: LogReader | None, of_jobs: list[tuple[str, LoadError]] | None
) -> tuple[list[_Found], list[tuple[str, str]]]:
    """What one argument says; of a folder, files that say nothing are skipped.

    `of_jobs` gets the files that tell of jobs; None where these are as any other.
    """
    found: list[_Found] = []
    skipped: list[tuple[str, str]] = []
    budget = Budget("node")
    for file, named in _files(path):
        if budget.over:
            skipped.append((file.name, budget.why))
            continue
        try:
            read, unread = _read(file, logs)
            if not named and any(entry.is_check for entry in read):
                raise LoadError(IN_FOLDER)  # every file of such a folder is another node
            found += read
            skipped += unread
            if of_jobs is not None and (said := next((e.of_jobs for e in read if e.of_jobs), "")):
                of_jobs.append((str(file), LoadError(said, of_jobs=True)))
                skipped[:] = [(name, why) for name, why in skipped if why != said]
        except LoadError as error:
            if error.of_jobs and of_jobs is not None:
                of_jobs.append((str(file), error))
                continue
            if named:
                raise
            why = str(error).removeprefix(f"{file}: ").replace(error.quoted, "")
            skipped.append((file.name, why))
    return found, skipped


def _one_snapshot(found: list[_Found]) -> tuple[list[_Found], list[tuple[str, str]]]:
    """Keep only the newest snapshot: two are of two nodes, or of one at two times."""
    whole = [entry for entry in found if entry.snapshot is not None]
    if len(whole) < 2:
        return found, []
    kept = max(whole, key=lambda entry: entry.taken_at)
    gpus = {gpu.uuid or gpu.address for gpu in kept.part.gpus}
    others = [entry for entry in whole if entry is not kept]
    same = "an earlier snapshot of this node; {} is read"
    another = "a snapshot of another node; {}, which is newer, is read"
    return [entry for entry in found if entry not in others], [
        (
            entry.name,
            (
                same if gpus & {gpu.uuid or gpu.address for gpu in entry.part.gpus} else another
            ).format(kept.name),
        )
        for entry in others
    ]


def _one_topology(found: list[_Found]) -> tuple[list[_Found], list[tuple[str, str]]]:
    """Keep only the first topology: two describe two nodes, or one node twice.

    Of a log whose System block is one of the others, what its lines say went wrong is kept.
    """
    with_topology = [entry for entry in found if entry.part.nccl_topology is not None]
    others = [entry for entry in with_topology[1:] if entry.snapshot is None]
    if not others:
        return found, []
    why = f"a second topology; {with_topology[0].name} has the one used"
    for entry in others:
        entry.part = PartialNode(symptoms=entry.part.symptoms)
    return [entry for entry in found if entry not in others or entry.part.symptoms], [
        (entry.name, why) for entry in others
    ]


def _files(path: Path) -> Iterator[tuple[Path, bool]]:
    """The files behind one argument, and whether the caller named that very file."""
    try:
        is_folder = path.is_dir()
        if not is_folder and not path.exists() and at_moment(str(path)) is None:
            raise LoadError(f"{path}: no such file or folder", unreadable=True)
        if not is_folder:
            yield path, True
            return
        # What reads a copy of /sys takes longer to import than many a file to read.
        from .formats.sysfs_tar import looks_like_sysfs

        if looks_like_sysfs(path):
            yield path, True
            return
        names = sorted(path.iterdir())
        if len(names) > MOST_FILES:
            raise LoadError(f"{path}: {len(names)} files; the limit of one node is {MOST_FILES}")
    except LoadError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise LoadError(f"{path}: {reason}", unreadable=True) from error
    for name in names:
        if not name.is_dir() or looks_like_sysfs(name):
            yield name, False


def _read(path: Path, logs: LogReader | None) -> tuple[list[_Found], list[tuple[str, str]]]:
    """What one file says, and the lines of it that are not used, with the reason."""
    if path.is_dir():
        return [_read_tree(path)], []
    if (said := _in_recording(path)) is not None:
        return [said], []
    try:
        status = path.stat()
        if status.st_size > LIMIT_BYTES:
            why = f"{path}: {status.st_size} bytes; the limit is {LIMIT_BYTES}"
            of_jobs = _unread(read_plain(path, HEAD_BYTES)) in OF_JOBS
            raise LoadError(why, of_jobs=of_jobs)
        data = read_plain(path, LIMIT_BYTES)
    except OSError as error:
        raise LoadError(f"{path}: {error.strerror}", unreadable=True) from error
    return _understood(path, data, status.st_mtime, logs)


def _in_recording(path: Path) -> _Found | None:
    """The node of a recording, at the time that is asked for; None for any other file."""
    try:
        node = recorded_node(path)
    except (OSError, RecordingError) as error:
        file, why = (at_moment(str(path)) or (path,))[0], getattr(error, "strerror", None) or error
        raise LoadError(f"{file}: {why}", unreadable=isinstance(error, OSError)) from error
    return None if node is None else _Found(0, node.source[0], part_of(node), node.taken_at, node)


def _understood(
    path: Path, data: bytes, taken_at: float, logs: LogReader | None
) -> tuple[list[_Found], list[tuple[str, str]]]:
    """What the content of a file says."""
    if len(data) > LIMIT_BYTES:
        raise LoadError(f"{path}: longer than the limit of {LIMIT_BYTES} bytes")
    try:
        data = as_utf8(unpacked(data, LIMIT_BYTES))
        inside = snapshot_in(data) if SIGN.search(data[:HEAD_BYTES]) else None
    except CheckFileError as error:
        raise LoadError(f"{path}: {error}") from error
    if inside is not None:
        return [_read_snapshot(path, inside, is_check=True)], []
    if not data.strip() or is_recording(data):
        raise LoadError(f"{path}: {ONLY_A_FILE if data.strip() else 'empty'}")
    head = data[:HEAD_BYTES]
    if SNAPSHOT_SIGN.search(head):
        return [_read_snapshot(path, data)], []
    forms = formats()
    if whole := _of_format(forms, path, data, taken_at):
        return [whole], []
    if text := _in_text(forms, path, data, taken_at, logs):
        return text
    if packed := packed_by(data, path.name, "--from -"):
        raise LoadError(f"{path}: {packed}")
    if what := _unread(head):
        raise LoadError(f"{path}: {what}", of_jobs=what in OF_JOBS)
    said = _quoted(data)
    why = f"{path}: not a format that gputop knows{said}"
    raise LoadError(f"{why}; {HELPS}" if said else why, quoted=said)


def _of_format(forms: Sequence[Format], path: Path, data: bytes, taken_at: float) -> _Found | None:
    """What a file says that is an output as a whole; None where none recognises it."""
    for order, form in enumerate(forms, 1):
        if form.starts is None and form.recognises(data[:HEAD_BYTES], path):
            try:
                part = form.parse(data, path)
            except FormatError as error:
                where = f"{path}:{error.line}" if error.line else f"{path}"
                broken = f"broken, if it is {form.id}" if form.guessed else f"broken {form.id}"
                raise LoadError(f"{where}: {broken}: {error}") from error
            said = _says(part) or not form.guessed
            return _Found(order, path.name, part, taken_at) if said else None
    return None


def _unread(head: bytes) -> str:
    """What a file is that is recognised and not read here; "" for any other."""
    return next((what for sign, what in UNREAD if sign.search(head)), "")


def _says(part: PartialNode) -> bool:
    """Whether a part says more than that there are GPUs."""
    bare = {"address", "vendor", "index", "gaps"}
    return bool(part.pairs or part.software) or any(
        getattr(record, field.name) != field.default
        for record in (*part.gpus, *part.gpu_readings)
        for field in msgspec.structs.fields(record)
        if field.name not in bare
    )


def _in_text(
    forms: tuple[Format, ...], path: Path, data: bytes, taken_at: float, logs: LogReader | None
) -> tuple[list[_Found], list[tuple[str, str]]] | None:
    """What the outputs of tools in a text say; None where none is in it."""
    kept = KeptText(form for form in forms if form.starts is not None)
    kept.offer_all(data)
    try:
        text = read_sections(kept.data, forms, kept.number)
    except FormatError as error:
        if said := _in_log(path, data, taken_at, logs, alone=True):
            return [said], [(f"{path.name}, line {error.line}", str(error))]
        raise LoadError(f"{path}:{error.line}: {error}") from error
    silent = text is None or not any(_told(part) for _, part in text.parts)
    said = _in_log(path, data, taken_at, logs, alone=silent)
    if text is None:
        return None if said is None else ([said], [])
    elsewhere = next((each.form.elsewhere for each in text.sections if each.form.elsewhere), "")
    if not (text.parts or said):
        raise LoadError(f"{path}: {text.sections[0].form.elsewhere}", of_jobs=bool(elsewhere))
    found = [_Found(forms.index(form) + 1, path.name, part, taken_at) for form, part in text.parts]
    found += [] if said is None else [said]
    found[0].of_jobs = elsewhere
    unread = [
        (f"{path.name}, {lines}", why)
        for lines, why in _passed_over(text, kept)
        if said is None or why != BETWEEN
    ]
    return found, unread


def _passed_over(text: Sections, kept: KeptText) -> Iterator[tuple[str, str]]:
    """Lines of a text that are not used, and why."""
    for one in (text, *text.others):
        yield from one.passed_over
    for section in chain.from_iterable(more.sections for more in text.others):
        yield f"lines {kept.number(section.first)}-{kept.number(section.last)}", OTHERS
    if kept.until is not None:
        yield f"from line {kept.until} on", FAR


def _told(part: PartialNode) -> bool:
    """Whether a part says anything: lines of the kernel may be about no fault."""
    return any(getattr(part, name) for name in PartialNode.__struct_fields__)


def _in_log(
    path: Path, data: bytes, taken_at: float, logs: LogReader | None, *, alone: bool
) -> _Found | None:
    part = None if logs is None else logs(data, path.name, alone)
    return None if part is None else _Found(len(NAMES) + 2, path.name, part, taken_at)


def _quoted(data: bytes) -> str:
    """The first lines of a text that nobody understood, with their numbers."""
    if b"\0" in data[:HEAD_BYTES]:
        return ""
    lines = plain(data[:HEAD_BYTES]).split("\n")
    first = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()][:2]
    said = "; ".join(f"line {number}: {line[:60]}" for number, line in first)
    return f" ({said})" if said else ""


def _read_snapshot(path: Path, data: bytes, *, is_check: bool = False) -> _Found:
    try:
        snapshot = believed(decode(data))
        if snapshot.machine.nccl_topology is not None:
            check_topology(snapshot.machine.nccl_topology)
    except (SnapshotError, FormatError) as error:
        raise LoadError(f"{path}: {error}") from error
    return _Found(0, path.name, part_of(snapshot), snapshot.taken_at, snapshot, is_check)


def _read_tree(path: Path) -> _Found:
    from .formats.sysfs_tar import part_from_tree

    try:
        return _Found(
            len(NAMES) + 1, path.name, part_from_tree(FolderTree(path)), path.stat().st_mtime
        )
    except (OSError, FormatError) as error:
        raise LoadError(f"{path}: {error}", unreadable=isinstance(error, OSError)) from error
