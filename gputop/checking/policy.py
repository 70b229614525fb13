"""Reads the policy of a site: check.toml of the system and of the user, or a named file.

expect = "aws-p5.48xlarge"              # as --expect

[ignore]
persistence-off = "our image loads the driver for every job"

[thresholds.bar1-small]
minimum_share = 0.5
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
import platformdirs

from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.terminal.clean import clean
from gputop.terminal.nearest import did_you_mean, instead
from gputop.topology.diagnosis.policy import Policy
from gputop.topology.diagnosis.rule import Rule
from gputop.topology.model.english import plural
from gputop.topology.toml import user_table

NAME = "check.toml"
SYSTEM = Path("/etc/gputop") / NAME
LIMIT_BYTES = 256 * 1024
LONGEST_REASON = 300
MOST_NOTES = 20

_Limit = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]


class SiteFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One check.toml."""

    ignore: dict[str, str] = {}
    """Id of an ignored rule -> the reason."""
    thresholds: dict[str, dict[str, _Limit]] = {}
    """Id of a rule -> the limits that the site replaces."""
    expect: str = ""


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """The combined policy of all files and the command line."""

    policy: Policy
    expect: str = ""
    files: tuple[str, ...] = ()
    """Files that were read."""
    notes: tuple[str, ...] = ()
    """Notes on files that may not be read, and on entries that this version does not know, such as
    a rule of another version."""


def site(config: Path | None, ignored: Sequence[str], rules: Sequence[Rule]) -> Site:
    """Read the policy from `config`, else from the system and then from the user, who wins.

    `ignored`: --ignore, "ID" or "ID=reason". Raises Exit for a file that cannot be used and for an
    unknown id on the command line. A file may be written for several versions, so there an unknown
    id is only a note, and so is one of the usual files that is there and may not be read.
    """
    known = {rule.id: {name for name, _ in rule.thresholds} for rule in rules}
    named = [config] if config is not None else [SYSTEM, *_user()]
    notes: list[str] = []
    read: list[tuple[Path, SiteFile]] = []
    for path in named:
        try:
            found = _read(path, must_be=config is not None)
        except OSError as error:
            notes.append(f"{path}: {error.strerror}; the check goes without it")
            continue
        if found is not None:
            read.append((path, found))
    ignore: dict[str, str] = {}
    thresholds: dict[str, dict[str, float]] = {}
    expect = ""
    for path, found in read:
        notes += [f"{path}: {text}" for text in _strange(found, known)]
        ignore |= {
            rule: why[:LONGEST_REASON] for rule, why in found.ignore.items() if rule in known
        }
        for id_, limits in found.thresholds.items():
            thresholds[id_] = {**thresholds.get(id_, {}), **limits}
        expect = _beside(path, found.expect) or expect
    ignore |= _typed(ignored, known)
    return Site(
        policy=Policy(ignored=ignore, thresholds=thresholds),
        expect=expect,
        files=tuple(str(path) for path, _ in read),
        notes=tuple(notes),
    )


def _beside(path: Path, expect: str) -> str:
    """Resolve the path of a snapshot relative to the folder of the policy file."""
    beside = path.parent / expect
    with suppress(OSError):  # longer than any file name
        if expect and beside.is_file():
            return str(beside)
    return str(beside) if "/" in expect else expect


def _user() -> list[Path]:
    try:
        found = platformdirs.user_config_path("gputop") / NAME
    except RuntimeError:
        return []
    # Without a home "~" stays literal, which would be below the current folder.
    return [found] if found.is_absolute() else []


def _is_file(path: Path) -> bool:
    """Whether it is there; False where its folder may not be looked into.

    That is the home of a container's user whose HOME still is /root.
    """
    try:
        return path.is_file()
    except OSError:
        return False


def _read(path: Path, *, must_be: bool) -> SiteFile | None:
    """Read one file; None where there is none.

    Raises OSError for one that is there and cannot be read, and Exit for one that cannot be used.
    With `must_be` it is Exit for all of these.
    """
    if not must_be and not _is_file(path):
        return None
    try:
        if must_be and not path.is_file():
            why = "not a plain file" if path.exists() else "no such file"
            raise Exit(f"--config {path}: {why}", USAGE)
        return msgspec.convert(user_table(path, LIMIT_BYTES), SiteFile)
    except OSError as error:
        if not must_be:
            raise
        raise Exit(f"{path}: {error.strerror}", USAGE) from error
    except ValueError as error:
        raise Exit(f"{path}: {clean(error, 300)}", CANNOT_TELL) from error


def _strange(found: SiteFile, known: Mapping[str, set[str]]) -> list[str]:
    """Notes on entries that name no rule, or no limit of a rule; of many, the first."""
    unknown = [rule for rule in (*found.ignore, *found.thresholds) if rule not in known]
    notes = [
        f"this gputop has no rule {clean(rule, 60)}{did_you_mean(rule, known)}"
        for rule in unknown[:MOST_NOTES]
    ]
    limitless = [
        f"the rule {rule} has no limit {clean(name, 60)}"
        for rule, limits in found.thresholds.items()
        for name in limits
        if name not in known.get(rule, {name})
    ]
    notes += limitless[:MOST_NOTES]
    if left := len(unknown) + len(limitless) - len(notes):
        notes.append(f"{plural(left, 'more entry', 'more entries')} that this gputop does not know")
    return notes


def _typed(ignored: Sequence[str], known: Mapping[str, set[str]]) -> dict[str, str]:
    found = {}
    for text in ignored:
        id_, _, reason = text.partition("=")
        if id_ not in known:
            hint = instead(id_, known, "gputop check --list")
            raise Exit(f"--ignore: no rule {clean(id_, 60)!r}{hint}", USAGE)
        found[id_] = reason[:LONGEST_REASON]
    return found
