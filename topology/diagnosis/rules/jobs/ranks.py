"""Ranks of one job that cannot reach each other, or that decide differently."""

from collections.abc import Sequence

from ....jobs.grouping import GpuUser
from ....model.english import plural
from ....model.finding import Finding
from ....model.gathered import gathered
from ....model.severity import BROKEN, SLOW
from ....model.units import gbs
from ....nccl.prediction import NET
from ...case import Case
from ...rule import Found, Rule
from ...shared.job_variables import HANGS, differing
from ...shared.rank_groups import MEETING, MOST_SHOWN, gpus_of, of_users, rank_name, ranks_of

_ZEROS = "0-"


def _check_differ(case: Case) -> Found:
    return [
        _differ(case, members, names)
        for members in ranks_of(case)
        if (names := differing([user.reading for user in members]))
    ]


def _differ(
    case: Case, members: Sequence[GpuUser], names: dict[str, dict[str | None, list[int]]]
) -> Finding:
    hangs = [name for name in names if name in HANGS]
    gpus = gpus_of(members)
    shown = ", ".join(list(names)[:3]) + (" and others" if len(names) > 3 else "")
    price = (
        f"{', '.join(hangs)} must be the same on all ranks: where not, they wait for each other "
        "in different algorithms or buffers, and the job hangs or fails."
        if hangs
        else f"{case.words.library} does not compare variables between ranks: each rank decides "
        "by its own, and "
        "the slowest choice holds for all of them at best."
    )
    return DIFFER.finding(
        BROKEN if hangs else SLOW,
        f"ranks of one job on {case.names(gpus)} have different {shown}",
        devices=gpus,
        evidence=[
            (
                f"{name} at the start of the ranks",
                "; ".join(
                    f"{'not set' if value is None else value} on rank {_ranks(ranks)}"
                    for value, ranks in values.items()
                ),
                "/proc/PID/environ",
            )
            for name, values in list(names.items())[:MOST_SHOWN]
        ],
        impact=price,
        fix=[
            "Set the variables in one place for all ranks: the job script or nccl.conf.",
            ("See what a rank was started with. $ gputop flags --pid {:pid}", members[0].pid),
        ],
    )


def _ranks(ranks: Sequence[int]) -> str:
    more = f" and {len(ranks) - MOST_SHOWN} more" if len(ranks) > MOST_SHOWN else ""
    return ", ".join(map(str, ranks[:MOST_SHOWN])) + more


def _check_apart(case: Case) -> Found:
    found = []
    for members in ranks_of(case):
        for what, known, source in (
            ("device of /dev/shm", _shms(members), "root/dev/shm, st_dev"),
            ("host name", _hosts(members), "ns/uts and its /etc/hostname"),
        ):
            # Racks joined by NVLink have P2P between hosts too.
            if len({word for _, word in known}) > 1 and not _rack(case, members):
                found.append(_apart(case, known, what, source))
                break
    return found


def _shms(members: Sequence[GpuUser]) -> list[tuple[GpuUser, str]]:
    return [
        (user, str(user.reading.shm_device))
        for user in members
        if user.reading.shm_device is not None
    ]


def _hosts(members: Sequence[GpuUser]) -> list[tuple[GpuUser, str]]:
    """The source of each rank's host hash, where that is proven."""
    names: dict[str, str] = {}
    found = []
    for user in members:
        process = user.reading
        uts = dict(process.namespaces or ()).get("uts")
        if process.variables is None or uts is None:
            continue
        chosen = dict(process.variables).get("NCCL_HOSTID")
        if chosen:
            found.append((user, f"NCCL_HOSTID {chosen}"))
        elif process.hostname:
            # One UTS namespace has one name, whatever two files say.
            found.append((user, names.setdefault(uts, process.hostname)))
    return found


def _rack(case: Case, members: Sequence[GpuUser]) -> bool:
    fabrics = [gpu.fabric for gpu in case.gpus if gpu.address in gpus_of(members)]
    return any(
        fabric is not None and (fabric.cluster_uuid or "").strip(_ZEROS) for fabric in fabrics
    )


def _apart(case: Case, known: Sequence[tuple[GpuUser, str]], what: str, source: str) -> Finding:
    sides = gathered((word, user) for user, word in known)
    words = {user.pid: word for user, word in known}
    return of_users(
        APART,
        case,
        [user for user, _ in known],
        SLOW,
        f"ranks on {{gpus}} take this node for {len(sides)} hosts",
        lambda user: (
            f"{what} of {rank_name(user)} on {case.names(user.gpus)}",
            words[user.pid],
            f"/proc/{user.pid}/{source}",
        ),
        impact=_price(case, list(sides.values())),
        fix=[
            "Start all ranks of a host in one container (or pod) that has all its GPUs.",
            (
                "Or let the containers share /dev/shm and the host name. "
                "$ docker run --ipc=host --uts=host ..."
            ),
        ],
    )


def _price(case: Case, sides: Sequence[Sequence[GpuUser]]) -> str:
    """The consequence: which pairs lose their fast path."""
    side_of = {address: at for at, users in enumerate(sides) for address in gpus_of(users)}
    pairs = [
        pair
        for pair in (case.prediction.pairs if case.prediction is not None else ())
        if pair.src < pair.dst
        and side_of.get(pair.src_bus_id, -1) != side_of.get(pair.dst_bus_id, -1)
        and pair.src_bus_id in side_of
        and pair.dst_bus_id in side_of
    ]
    library = case.words.library
    text = f"{library} sends everything between the two sides through a NIC, never by P2P or SHM"
    labels = sorted({pair.label for pair in pairs if pair.transport != NET})
    if not labels:
        return f"{text}."
    best = max((pair.bandwidth_gbs or 0.0 for pair in pairs), default=0.0)
    model = f", up to {gbs(best)} one way in {case.words.library}'s model" if best else ""
    return f"{text}: {plural(len(pairs), 'pair')} that would use {' or '.join(labels)}{model}."


DIFFER = Rule(
    id="ranks-differ",
    title="ranks of one job with different variables of {library}",
    evidence=f"{MEETING}, and the listed variables that they were started with",
    disproof="equal lines `set by environment` of all ranks in a log with NCCL_DEBUG=INFO",
    sources=("NCCL misc/param.cc", "NCCL user guide, environment variables"),
    check=_check_differ,
)
APART = Rule(
    id="containers-apart",
    family="D09",
    title="ranks of one job that take one node for several hosts",
    evidence=f"{MEETING}, device of their /dev/shm, their host name",
    disproof="equal `stat -c %d /dev/shm` and equal `hostname` in both containers",
    sources=("NCCL transport/p2p.cc:p2pCanConnect", "NVIDIA/nccl#324", "NVIDIA/nccl#797"),
    check=_check_apart,
)
RULES = (DIFFER, APART)
