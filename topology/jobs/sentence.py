"""One sentence about a job: how many ranks wait, in what, and for whom."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.units import seconds
from .evidence import need_not_wait
from .flight.comparing import RecordedGroup
from .ras.answer import ABORT, FINALIZE, INIT
from .ras.comparing import RasStanding, moving
from .standing import (
    FAULTY,
    HANGS,
    LONG_SECONDS,
    PROC,
    RAS,
    RECORDER,
    RUNS,
    UNTOLD,
    WAITS,
    RankStanding,
)
from .words import counted, joined, last_of, spoken

Waiting = tuple[int, str, str]
"""How many ranks wait, in what, and what says so."""
MOST_NAMED = 3
DEFAULT = "default group"


def sentence(
    program: str,
    count: str,
    ranks: Sequence[RankStanding],
    ras: Sequence[RasStanding],
    groups: Sequence[RecordedGroup],
    silence: str,
    world: int | None = None,
    costs: Sequence[str] = (),
    ago: str | None = None,
) -> tuple[str, str]:
    """The sentence and its verdict; `count`: "4 ranks", `silence`: why RAS says nothing.

    `world`: ranks of the job on all nodes, where that is known; `costs`: what is wrong in what the
    ranks were given, in a few words each; `ago`: when the newest dump was written, where that is
    too long ago to speak of this moment.
    """
    head = f"{program}: {count}"
    guilty = _guilty(ranks)
    waiting = waiting_of(ras, groups, guilty, world, ranks)
    differences = [(group, text) for group in groups for text in group.differences]
    named = _named(guilty)
    if waiting is not None and waiting[2] == RECORDER and ago is not None:
        number, what, _ = waiting
        who = f"{named}; " if guilty else ""
        still = "it still does" if number == 1 else "they still do"
        return (
            f"{head}, {number} waited in {what} when a dump was written, {ago} ago, "
            f"{who}whether {still} is not known",
            FAULTY,
        )
    crossed = next((each.crossed for each in ras if each.crossed), ())
    if crossed and all(rank.weak for rank in guilty):
        where = joined([f"{spoken(name)} {count} by rank {rank}" for rank, name, count in crossed])
        return f"{head}, ranks launched different collectives: {where}", FAULTY
    if guilty and waiting is not None:
        number, what, _ = waiting
        verb = "waits" if number == 1 else "wait"
        verdict, since = hangs(guilty, ras, waiting[2])
        return f"{head}, {number} {verb} in {what}{since}, {named}", verdict
    if differences and all(rank.weak for rank in guilty):
        group, text = differences[0]
        return f"{head}, {text} ({group.name})", HANGS if group.waiting else FAULTY
    if guilty:
        alone = all(rank.trouble is not None for rank in ranks)
        rest = "" if ras or alone else f"; what the others are in is not known: {silence}"
        free = (need_not_wait(each, ranks) for each in ras if each.still)
        rest = next((f"; {text}" for text in free if text), rest)
        return f"{head}, {named}{rest}", FAULTY
    if waiting is not None and waiting[2] == RAS and unnamed(ras):
        number, what, _ = waiting
        verdict, since = hangs((), ras, RAS)
        return (
            f"{head}, {number} wait{'s' * (number == 1)} in {what}{since}, {unnamed(ras)}",
            verdict,
        )
    if waiting is not None and waiting[2] == RECORDER:
        number, what, _ = waiting
        return f"{head}, {number} waited in {what} when the dump was written", HANGS
    said, verdict = _left(head, ranks, ras) or _quiet(head, ras, silence)
    if costs and verdict == RUNS:
        return f"{said}; but {costs[0]}", verdict
    if costs:
        return f"{head}, {costs[0]}{said.removeprefix(head).replace(', ', '; ', 1)}", FAULTY
    return said, verdict


def _guilty(ranks: Sequence[RankStanding]) -> list[RankStanding]:
    """Ranks with a trouble; one that only left, where all others say that another one failed."""
    troubled = [rank for rank in ranks if rank.trouble is not None]
    guilty = [rank for rank in troubled if not rank.left]
    return troubled if guilty and all(rank.follows for rank in guilty) else guilty


def hangs(
    guilty: Sequence[RankStanding], ras: Sequence[RasStanding], origin: str
) -> tuple[str, str]:
    """The verdict on ranks that wait, and since when as part of the sentence.

    A hang is proven by a rank that is stopped, ended or cut off, by one that sleeps
    uninterruptibly for ASLEEP_SECONDS, by any for LONG_SECONDS, and by a dump, which names no rank
    before WAITS_SECONDS.
    """
    quiet = quiet_seconds(ras)
    since = "" if quiet is None else f" (no progress for {seconds(quiet)})"
    if any(not (rank.weak or rank.short) for rank in guilty) or origin != RAS:
        return HANGS, ""
    return HANGS if quiet is not None and quiet >= LONG_SECONDS else WAITS, since


def quiet_seconds(ras: Sequence[RasStanding]) -> float | None:
    """For how long nothing was launched in any communicator of a job; None where not known."""
    known = [each.quiet_seconds for each in ras if each.still]
    told = [each for each in known if each is not None]
    return min(told) if told and all(each.still for each in ras if each.counts) else None


def apart(each: RasStanding) -> str:
    """How far apart ranks are: "rank 7 launched all-reduce 60, 7 others 64"."""
    function = each.function or ""
    what = spoken(function)
    unnamed = [(number, at) for name, number, at in each.communicator.agreed if name == function]
    behind = [(f"rank {rank.rank}", dict(rank.counts)[function]) for rank in each.behind]
    if len(behind) > MOST_NAMED:
        least = min(at for _, at in behind)
        behind = [(f"{len(behind)} ranks", least)]
    behind += [(counted(number, "rank"), at) for number, at in unnamed if at < (each.blocked or 0)]
    slow = joined([f"{who} launched {what} {at}" for who, at in behind[:MOST_NAMED]])
    others = "other" if each.ahead_count == 1 else "others"
    return f"{slow}, {each.ahead_count} {others} {each.reach}"


def unnamed(ras: Sequence[RasStanding]) -> str:
    """Ranks that are behind and that a text counts without naming them; "" where there are none.

    Nor where another communicator moves on, of which they may be ranks.
    """
    if any(each.still is False for each in ras):
        return ""
    number = next((n for each in ras if each.still and (n := each.behind_count)), 0)
    named = any(each.behind for each in ras)
    return (
        ""
        if named or not number
        else (
            f"{number} {'has' if number == 1 else 'have'} not launched it; which, RAS does not name"
        )
    )


def _left(
    head: str, ranks: Sequence[RankStanding], ras: Sequence[RasStanding]
) -> tuple[str, str] | None:
    """Ranks that gave up a communicator which others still have; None without such ranks.

    Programs give one up when they need it no more, each rank by itself: that accuses nobody before
    nothing was launched for LONG_SECONDS.
    """
    left = [rank for rank in ranks if rank.left]
    who = {rank.who for rank in left}
    parted = [each for each in ras if each.left]
    own = next((each for each in parted if who & each.left), parted[0] if parted else None)
    if not left or own is None or all(rank.who in who for rank in own.communicator.ranks):
        return None
    last = f", where {last_of(own.launched)} was launched last" if own.launched else ""
    quiet = quiet_seconds(ras)
    since = "" if quiet is None else f" (no progress for {seconds(quiet)})"
    said = f"{head}, {_named(left)}{last}{since}"
    if free := need_not_wait(own, ranks):
        return f"{said}; {free}", UNTOLD
    long = quiet is not None and quiet >= LONG_SECONDS
    return f"{said}; whether the others wait is not known", FAULTY if long else UNTOLD


def _quiet(head: str, ras: Sequence[RasStanding], silence: str) -> tuple[str, str]:
    """No rank stands out: what RAS says of progress, else that it is not known."""
    grows = next((each for each in ras if each.still is False), None)
    if grows is not None:
        grown = ""
        if grows.function is not None and grows.before not in (None, grows.top):
            grown = f": {spoken(grows.function)} {grows.before} to {grows.top}"
        return f"{head}, runs: collectives are launched{grown}", RUNS
    if ras:
        each = ras[0]
        state = each.communicator.state
        if state == ABORT:
            return f"{head}, their communicator is aborted", FAULTY
        if state in (INIT, FINALIZE):
            doing = "still being initialised" if state == INIT else "being taken down"
            return f"{head}, their communicator is {doing}", UNTOLD
        if not each.counts:
            return f"{head}, {_uncounted(each)}; whether they compute or wait is not known", UNTOLD
        if each.still is None:
            equal = f"all have launched as many collectives ({last_of(each.launched)}); "
            less = f"{apart(each)}; " if each.behind_count else equal * bool(each.launched)
            said = "only one answer of RAS has their counts, so whether they wait is not known"
            return f"{head}, {less}{said}", UNTOLD
        what = f" ({last_of(each.launched)})" if each.launched else ""
        return (
            f"{head}, all have launched as many collectives{what}; none was launched between two "
            "answers of RAS, so whether they compute or wait is not known",
            UNTOLD,
        )
    return f"{head}, none is known to be stopped; whether they wait is not known: {silence}", UNTOLD


def _uncounted(each: RasStanding) -> str:
    """What a text says of ranks that stand equal: that they do, and not how far they are."""
    if each.answer is None or each.answer.form != "text":
        return "RAS answers, without counts of collectives"
    who = "all that answer RAS" if each.communicator.missing else "all answer RAS and"
    answer = each.answer
    known = answer is not None and answer.version is not None
    teller = f"the text of {answer.library} {answer.version}" if answer and known else "its text"
    return f"{who} have launched equally many collectives, how many {teller} does not say"


def waiting_of(
    ras: Sequence[RasStanding],
    groups: Sequence[RecordedGroup],
    guilty: Sequence[RankStanding],
    world: int | None = None,
    ranks: Sequence[RankStanding] = (),
) -> Waiting | None:
    """Who waits in what; None where nothing proves that anybody does.

    By RAS ranks wait where none launched anything between two answers, and one of the communicator
    is behind or does not answer; by a dump, where a collective that they entered has not ended.
    A rank that launches in another communicator does not wait. A communicator of all `world` ranks
    needs no name. Where ranks are gone, the last collective of the others may have ended before:
    then none of their GPUs is busy all the time, as one is that waits in a kernel.
    """
    goes_on = moving(ras)
    # Who only is behind is so in one communicator, and stands in others as all do.
    causes = {rank.pid for rank in guilty if not rank.weak or rank.follows} - {None}
    for each in sorted(ras, key=lambda each: not _lacks(each)):
        if not each.still or not (
            each.behind_count
            or ((_lacks(each) or each.pids & causes) and not need_not_wait(each, ranks))
        ):
            continue
        # Who reports that another rank failed waits too, where that one is known.
        known = [rank for rank in guilty if not rank.follows]
        number = each.waiting({rank.who for rank in known or guilty} | goes_on)
        kinds = each.launched if each.function is None else [(each.function, each.blocked or 0)]
        if number > 0 and kinds:
            size = each.communicator.size
            named = any(group.name == DEFAULT and group.size == size for group in groups)
            whose = f" of the communicator of {counted(size, 'rank')}"
            if named or size == world:
                whose = f" of the {DEFAULT}" if named else ""
            return number, f"{last_of(kinds)}{whose}", RAS
    for group in groups:
        if group.waiting and group.furthest is not None:
            what = f"{spoken(group.furthest.name)} {group.furthest.number}"
            whose = f"{'the ' * (group.name == DEFAULT)}{group.name}"
            return len(group.waiting), f"{what} of {whose}", RECORDER
    return None


def _lacks(each: RasStanding) -> bool:
    """Whether ranks of a communicator are behind in it, or do not answer."""
    return each.behind_count > 0 or any(not lost.left for lost in each.communicator.missing)


def _named(guilty: Sequence[RankStanding]) -> str:
    """The ranks with a trouble, those that only are behind last; equal troubles together."""
    ordered = sorted(guilty, key=lambda rank: (rank.weak, rank.origin != PROC))
    strong = [rank for rank in ordered if not rank.weak] or ordered
    return joined([f"{rank.label} {rank.trouble}" for rank in strong], MOST_NAMED)
