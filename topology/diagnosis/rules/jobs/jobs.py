"""Running jobs: ranks that share a GPU, and processes that are left over."""

from collections.abc import Callable, Sequence

from ....hardware.vendors import AMD
from ....jobs.grouping import GpuUser
from ....model.finding import Finding
from ....model.readings import GpuUse, ProcessState
from ....model.severity import BROKEN, SLOW
from ....model.units import size
from ...case import Case
from ...rule import Found, Rule
from ...shared.rank_groups import MEETING, MOST_SHOWN, of_users, rank_name, ranks_of, users_of

INITS = frozenset({"systemd", "init", "tini", "dumb-init", "docker-init", "catatonit", "s6-svscan"})
"""The processes that adopt a process whose parent has ended."""


def _check_share(case: Case) -> Found:
    groups = ranks_of(case)
    whole = {(gpu.address,) for gpu in case.gpus if not gpu.mig_enabled and gpu.partition is None}
    if case.host.mps_daemon:
        return []  # MPS is there to let several processes share a GPU
    found = []
    for members in groups:
        alone: dict[str, list[GpuUser]] = {}
        for user in members:
            if user.gpus in whole and GpuUse.MPS not in user.kinds:
                alone.setdefault(user.gpus[0], []).append(user)
        shared = {address: users for address, users in alone.items() if len(users) > 1}
        if shared:
            found.append(_shared(case, members, shared))
    return found


def _shared(case: Case, members: Sequence[GpuUser], shared: dict[str, list[GpuUser]]) -> Finding:
    torch = any((user.reading.job or "").startswith("torchrun") for user in members)
    used = {address for user in members for address in user.gpus}
    free = [gpu.address for gpu in case.gpus if gpu.address not in used]
    idle = f" while {case.names(free)} do nothing for this job" if free else ""
    names = sorted(shared)
    return SHARE.finding(
        BROKEN if torch else SLOW,
        f"several ranks of one job are on {case.names(names)}",
        devices=names,
        evidence=[
            (
                f"ranks that hold {case.name(address)} and no other GPU",
                ", ".join(map(rank_name, users[:MOST_SHOWN])),
                "driver's list of processes and /proc/PID/environ",
            )
            for address, users in sorted(shared.items())
        ],
        impact=f"The ranks take turns{idle}, and {case.words.library} refuses two ranks on "
        "one GPU "
        '("Duplicate GPU detected"): a job that uses it ends at its first collective.',
        fix=[
            "Select the GPU by the local rank before the first CUDA call. "
            '$ torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))'
        ],
    )


def _check_zombie(case: Case) -> Found:
    users = users_of(case, "state")
    dead = [user for user in users if user.reading.state == ProcessState.ZOMBIE]
    left = [user for user in users if user not in dead and _orphan(user)]
    kinds = (
        (dead, "have ended", _dead_evidence),
        (left, "have lost their launcher", _left_evidence),
    )
    return [_zombie(case, those, what, describe) for those, what, describe in kinds if those]


def _orphan(user: GpuUser) -> bool:
    """Whether this is a worker of torchrun that an init process has adopted."""
    process = user.reading
    return (process.job or "").startswith("torchrun") and process.parent_command in INITS


def _dead_evidence(user: GpuUser) -> str:
    return f"zombie, parent {user.reading.parent or 'not known'}"


def _left_evidence(user: GpuUser) -> str:
    return f"{user.reading.job}, adopted by {user.reading.parent_command}"


def _zombie(
    case: Case, users: Sequence[GpuUser], what: str, describe: Callable[[GpuUser], str]
) -> Finding:
    held = [user.memory_bytes for user in users if user.memory_bytes]
    amount = f"{size(sum(held))} of GPU memory" if held else "memory and compute contexts"
    return of_users(
        ZOMBIE,
        case,
        users,
        SLOW,
        f"processes that {what} hold {{gpus}}",
        lambda user: (
            f"process {user.pid} on {case.names(user.gpus)}",
            describe(user),
            f"/proc/{user.pid}/status",
        ),
        impact=f"They keep {amount} from the next job, and no launcher waits for them.",
        fix=[
            (
                "See who they are and who should wait for them; end the parent of a zombie, or "
                "what was left over. $ ps -o pid,ppid,stat,user,etime,comm -p {:pid,}",
                [user.pid for user in users[:MOST_SHOWN]],
            )
        ],
    )


SHARE = Rule(
    id="ranks-share-gpu",
    title="ranks of one job on the same GPU",
    evidence=f"{MEETING}, and which GPUs each of them holds",
    disproof="another GPU for each rank in `nvidia-smi --query-compute-apps=pid,gpu_bus_id "
    "--format=csv`, or a job that does not use {library}",
    disproof_by=(
        (AMD.id, "another GPU for each rank in `amd-smi process`, or a job without {library}"),
    ),
    sources=("NCCL init.cc (Duplicate GPU detected)", "horovod/horovod#3929"),
    check=_check_share,
)
ZOMBIE = Rule(
    id="job-zombie",
    title="processes that have ended, or lost their launcher, and hold a GPU",
    evidence="state and parent of the processes on the GPUs",
    disproof="a launcher that still waits for them: `ps -o pid,ppid,stat,cmd -p PID`",
    sources=("proc(5), /proc/PID/status", "torch/distributed/elastic"),
    check=_check_zombie,
)

RULES = (SHARE, ZOMBIE)
