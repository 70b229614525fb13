"""What the network between nodes carries: NCCL or RCCL over rails, one at a time and all together.

Each node runs one worker, with a rank on each GPU. The nodes meet in files or in a launcher's store
(`notices`), see in `meeting` that all are there, and measure the tasks of `plan`, one at a time.
Every node reports every figure, so that any that lives can write the result. Nothing but this probe
uses the network, and no suite holds it.
"""

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

from ...crew.accelerator import RankGroup
from ...crew.probe import run_crew
from ...crew.rank import Member
from ...crew.steps import MIB, Step
from ...protocol.messages import Failure, Note, WorkerRequest
from ...protocol.plaintext import one_line
from ...protocol.quantity import RANKS, Quantity
from ...protocol.replying import Emit
from ...protocol.sizing import spare_bytes
from ...protocol.spec import ProbeSpec, ProbeStopped
from ...protocol.status import DeviceKind, Status
from ...protocol.timing import Sampled, gigabytes_per_second
from ...runner.lifeline import die_with_parent
from .meeting import AbsentError, Met, meet
from .notices import Notices, open_notices
from .plan import EXCHANGE, OPENING, REDUCE, SEND, VERBS, Task, steps, tasks_of
from .wide import END, Wide, mean_by_sample
from .work import NUMBER_BYTES, Collective, Transfer, Work, ping_pong

# The quantities of the network between nodes.
SEND_RECEIVE = Quantity(
    "net_send_receive", "send and receive between nodes", per=RANKS,
    counted="bytes that one node sends, one way",
)  # fmt: skip
LATENCY = Quantity(
    "net_latency", "half a round trip of 8 bytes", unit="us", per=RANKS, more_is_better=False
)
ALL_REDUCE = Quantity(
    "net_all_reduce_busbw", "all-reduce over nodes", per=RANKS, headline=True,
    counted="bytes of one rank's buffer x 2(n-1)/n",
)  # fmt: skip
ALL_TO_ALL = Quantity(
    "net_all_to_all_busbw", "all-to-all over nodes", per=RANKS,
    counted="bytes of all ranks' parts together x (n-1)/n",
)  # fmt: skip
WRITES = Quantity(
    "net_ib_write_bw", "ib_write_bw between nodes", per=RANKS,
    counted="bytes written into the other host's memory, one way",
)  # fmt: skip
"""What perftest says, without a GPU and without NCCL."""
QUANTITIES = (ALL_REDUCE, SEND_RECEIVE, LATENCY, ALL_TO_ALL, WRITES)

# One rank of the probe net.
LIBRARY_BYTES = 2048 * MIB
"""Memory on each GPU for the buffers of the library, with two communicators."""
SIZES_BYTES = tuple(mib * MIB for mib in (256, 128, 64, 32, 16))
"""Sizes of our two buffers: the largest for which all GPUs have room."""
NEEDED_BYTES = LIBRARY_BYTES + 2 * SIZES_BYTES[-1]
_CPU_BYTES = MIB
_SLOW_SECONDS, _VERY_SLOW_SECONDS = 0.02, 0.2
"""If a call takes longer than this, fewer samples are taken."""
_QUANTITIES = {SEND: SEND_RECEIVE, REDUCE: ALL_REDUCE, EXCHANGE: ALL_TO_ALL}

# Watches the other nodes while this one sits in a call of the library, which may never return.
#
# A node that gives up says so, one that ends takes its texts back, and one that is killed gives no
# sign of life any more. Each ends this run long before its deadline would.
PAUSE_SECONDS = 0.5
BEAT_SECONDS = 3.0
"""How often a node gives a sign of life."""
SILENCE_SECONDS = 30.0
"""So long without one, and a node counts as dead; an NFS client may be seconds late."""

PROGRAM = "ib_write_bw"
PORT = 18515
"""perftest's own default; each rail takes the next."""
_SECONDS = 2
_LONGEST_SECONDS = 20.0
_TRIES = 20
_PAUSE_SECONDS = 0.25
"""A server takes a moment until it listens."""


class Lookout:
    """Looks at the notices of the others, and gives signs of life."""

    def __init__(
        self, notices: Notices, met: Met, node: int, hosts: Sequence[str],
        tell: Callable[[str], None],
    ) -> None:  # fmt: skip
        """`tell`: gets one sentence when another node is lost."""
        self._notices = notices
        self._run = met.run
        self._hosts = tuple(hosts)
        self._others = tuple(other for other in range(len(hosts)) if other != node)
        self._tell = tell
        self._stopped = threading.Event()
        self._beats = 0
        self._heard: dict[int, tuple[Optional[str], float]] = {}
        self._left = 0

    def start(self) -> None:
        """Look in a thread of its own, until `stop`."""
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def stop(self) -> None:
        """Look no more: the others may leave."""
        self._stopped.set()

    def _watch(self) -> None:
        beat_at = 0.0
        while not self._stopped.is_set():
            now = time.monotonic()
            if now >= beat_at:
                self._beats, beat_at = self._beats + 1, now + BEAT_SECONDS
                self._notices.put(f"{self._run}/beat", str(self._beats))
            lost = self.lost(now)
            if lost and not self._stopped.is_set():
                self._tell(lost)
                return
            self._stopped.wait(PAUSE_SECONDS)

    def lost(self, now: float) -> str:
        """Which node is lost, and why; "" while all are there. `now`: seconds of any clock."""
        for other in self._others:
            host = self._hosts[other]
            why = self._notices.read(other, f"{self._run}/failed")
            if why is not None:
                return f"{host}: {why}"
            beat = self._notices.read(other, f"{self._run}/beat")
            before, since = self._heard.get(other, (None, now))
            if beat != before or other not in self._heard:
                self._heard[other] = beat, now
            elif now - since > SILENCE_SECONDS:
                return f"{host} gave no sign of life for {SILENCE_SECONDS:.0f} s."
        gone = [other for other in self._others if self._notices.has_left(other)]
        self._left = self._left + 1 if gone else 0
        if gone and self._left * PAUSE_SECONDS > 2.0:  # a file system may be late
            return f"{self._hosts[gone[0]]} left before the end."
        return ""


class NetMember(Member):
    """One rank of this node's part."""

    _wide: Wide
    _lookout: Lookout
    """Of the first rank."""
    _rails = 0
    _most_bytes = 0
    """Size of each buffer, the same on all GPUs."""
    _whole: RankGroup
    _group: Optional[RankGroup] = None
    """The communicator of the current rail; None for a rank that is not of it."""
    _tiny: Any = None
    _send: Any = None
    _receive: Any = None

    def memory_refusal(self, free_bytes: int) -> str:
        """Meet the other nodes too, so that none waits for one that refuses."""
        refusal = super().memory_refusal(free_bytes)
        self._meet(refusal)
        return refusal

    def _meet(self, refusal: str) -> None:
        params = self.params
        node, nodes, seconds = int(params["node"]), int(params["nodes"]), float(params["wait"])
        first = node == 0 and self.rank == 0
        notices = open_notices(params["meet"], node, serves=first, seconds=seconds)
        if self.rank == 0:
            hello = {
                "host": str(params["host"]), "gpus": self.ranks, "refused": refusal,
                "most_bytes": self._room(), "left": float(params["seconds"]),
            }  # fmt: skip
            try:
                found = meet(notices, node, nodes, hello, seconds)
            except AbsentError as absent:
                raise self._absent(absent, seconds) from absent
            self.store.set("met", json.dumps([found.run, found.hellos]))
        run, hellos = json.loads(self.store.get("met"))
        met = Met(run, tuple(hellos))
        self._rails, self._most_bytes = (
            min(int(hello[key]) for hello in met.hellos) for key in ("gpus", "most_bytes")
        )
        self._wide = Wide(notices, self.store, met, node, self.rank, self._rails)
        if self.rank == 0:
            self._say_met(met)
            self._lookout = Lookout(notices, met, node, self._wide.hosts, self._lost)
            self._lookout.start()
        for number, other in enumerate(met.hellos):
            if other.get("refused") and number != node:
                text = one_line(str(other["refused"]), 300)
                raise ProbeStopped(Status.REFUSED, f"{self._wide.hosts[number]}: {text}")

    def _room(self) -> int:
        """Bytes of the largest buffer for which every GPU of this node has room twice."""
        if self.here.kind == DeviceKind.CPU:
            return _CPU_BYTES
        forced = self.params.get("force") is True
        spare = min(spare_bytes(device, forced=forced) for device in self.devices)
        fitting = (size for size in SIZES_BYTES if LIBRARY_BYTES + 2 * size <= spare)
        return next(fitting, SIZES_BYTES[-1])

    def _absent(self, absent: AbsentError, seconds: float) -> ProbeStopped:
        """The end of a run that has too few nodes."""
        named = {n: one_line(str(h.get("host")), 200) for n, h in absent.hellos.items()}
        named[int(self.params["node"])] = str(self.params["host"])
        who = ", ".join(f"node {number}" for number in absent.missing)
        text = f"{who} did not come within {seconds:.0f} s."
        details = {"missing": list(absent.missing), "hosts": {str(n): h for n, h in named.items()}}
        self.emit(Note("absent", text, details))
        return ProbeStopped(Status.REFUSED, text)

    def _lost(self, why: str) -> None:
        """Fail, also while a call of the library blocks: the crew then ends all ranks here."""
        self.emit(Failure("failed", why))

    def _say_met(self, met: Met) -> None:
        hosts, gpus = self._wide.hosts, [int(hello["gpus"]) for hello in met.hellos]
        details = {
            "run": met.run, "hosts": list(hosts), "gpus": gpus, "rails": self._rails,
            "left": [float(hello["left"]) for hello in met.hellos],
        }  # fmt: skip
        text = ""
        if len(set(gpus)) > 1:
            each = ", ".join(f"{host}: {count}" for host, count in zip(hosts, gpus))
            text = f"GPUs differ ({each}), so {self._rails} of each node are measured."
        self.emit(Note("met", text, details))

    def take(self, step: Step) -> None:
        """Do one step and report it."""
        if self.rank >= self._rails:
            return
        try:
            if not step.variant:
                self._end()
                return
            is_cpu = self.here.kind == DeviceKind.CPU
            task = tasks_of(self.ranks, self.params, is_cpu)[int(step.variant)]
            if task.rail is None or task.rail < self._rails:
                # Places differ between nodes of different counts of GPUs; what is done does not.
                self._take(task, task.what)
        except (RuntimeError, OSError, ProbeStopped) as error:
            self._wide.give_up(f"{step.what}: {one_line(str(error), 300)}")
            raise

    def _end(self) -> None:
        """Wait until all nodes are through; from then on any may leave."""
        self._wide.share("through", None)
        if self.rank == 0:
            self._lookout.stop()
        self._wide.share(END, None)

    def _take(self, task: Task, topic: str) -> None:
        if task.kind is OPENING:
            self._open(task, topic)
        elif task.kind is VERBS:
            self._verbs(task, topic)
        else:
            self._measure(task, topic)

    def _open(self, task: Task, topic: str) -> None:
        """Create a communicator, and its connections by a first all-reduce of all."""
        here, wide, rail = self.here, self._wide, task.rail
        if self._tiny is None:
            count = self._most_bytes // NUMBER_BYTES
            self._tiny, self._send, self._receive = map(here.numbers, (4, count, count))
            self._whole = self.group.across(wide, wide.place, wide.size)
            if not self.params["library"]:
                self._whole.open(eager=False)  # torch needs it for every part
        group: Optional[RankGroup] = self._whole
        if rail is not None:
            group = self._whole.part(f"rail {rail}", wide.places(rail))
        if group is not None:
            if rail is not None or self.params["library"]:
                group.open(eager=True)
            group.all_reduce(self._tiny[:1])()
            here.wait()
        elif wide.leads and self.params["library"]:
            wide.relay(f"unique id of rail {rail}")
        self._group = group
        wide.share(topic, None)

    def _work(self, task: Task) -> Optional[Work]:
        """What this rank does in a task; None if it has no part in it."""
        if self._group is None:
            return None
        wide, rail, numbers = self._wide, task.rail, self._size(task) // NUMBER_BYTES
        node = int(self.params["node"])
        places = wide.places(rail)
        if task.kind is not SEND:
            place = places.index(wide.place)
            data = self._send, self._receive, self._tiny
            summed = task.kind is REDUCE
            return Collective(self.here, self._group, *data, place, len(places), numbers, summed)
        if node not in (task.src, task.dst):
            return None
        peer = task.dst if node == task.src else task.src
        assert peer is not None
        if rail is None:
            peer = peer * self._rails + self.rank
        data = self._send[:numbers]
        return Transfer(self.here, self._group, data, peer, self.rank, sends=node == task.src)

    def _measure(self, task: Task, topic: str) -> None:
        """Check the data, agree on how often, time it and report it."""
        wide, work = self._wide, self._work(task)
        heard = self._heard(f"{topic}/tried", None if work is None else work.tried())
        wrong, checked = (sum(answer[key] for answer in heard) for key in ("wrong", "checked"))
        samples, calls = self._repeats(max(answer["once"] for answer in heard))
        taken = None if work is None else work.samples(samples, calls)
        by_rank = [answer for answer in self._heard(f"{topic}/taken", taken) if answer]
        seconds = mean_by_sample(by_rank)
        latency = None
        if task.kind is SEND and (task.rail is not None or self._rails == 1):
            latency = self._latency(task, topic, work)
        if not wide.leads:
            return
        size, factor = self._size(task), 1.0
        if task.kind is SEND:
            # All rails have moved their bytes when the slowest has.
            seconds = [max(sample) for sample in zip(*by_rank)]
            size *= len(by_rank)
        else:
            ranks = len(wide.places(task.rail))
            factor = (2 if task.kind is REDUCE else 1) * (ranks - 1) / ranks
        speeds = Sampled(tuple(factor * gigabytes_per_second(size, taken) for taken in seconds))
        found: dict[str, Any] = {
            "verdict": "wrong-data" if wrong else "verified", "checked_bytes": checked,
            "wrong_bytes": wrong, "copies_per_sample": calls,
        }  # fmt: skip
        self._report(_QUANTITIES[task.kind], task, speeds, **found)
        if latency is not None:
            self._report(LATENCY, task, latency)

    def _size(self, task: Task) -> int:
        return min(task.size_bytes, self._most_bytes)

    def _heard(self, topic: str, said: Any) -> "list[Any]":
        """What the ranks say that take part."""
        return [answer for answer in self._wide.share(topic, said) if answer is not None]

    def _latency(self, task: Task, topic: str, work: Optional[Work]) -> Optional[Sampled]:
        """Half a round trip, us, as the sender sees it."""
        said = None
        if isinstance(work, Transfer):
            taken = ping_pong(work, self._tiny[:2], 2 if self.here.kind == DeviceKind.CPU else 5)
            said = taken if work.sends else []
        found = [answer for answer in self._heard(f"{topic}/latency", said) if answer]
        return Sampled(tuple(1e6 * seconds for seconds in found[0])) if found else None

    def _repeats(self, once_seconds: float) -> "tuple[int, int]":
        """The number of samples, and of calls in each."""
        if self.here.kind == DeviceKind.CPU:
            return 2, 1
        if once_seconds > _VERY_SLOW_SECONDS:
            return 2, 1
        return (3, 3) if once_seconds > _SLOW_SECONDS else (5, 10)

    def _report(self, quantity: Quantity, task: Task, taken: Sampled, **more: Any) -> None:
        hosts = self._wide.hosts
        src, dst = (None if end is None else hosts[end] for end in (task.src, task.dst))
        details: Mapping[str, Any] = {
            "what": task.kind, "rail": task.rail, "from": src, "to": dst,
            "ranks": len(self._wide.places(task.rail)),
        }  # fmt: skip
        self.figure(
            quantity, "", "", task.what, taken, variant=task.what, details=details,
            bytes_per_copy=self._size(task), **more,
        )  # fmt: skip

    def _verbs(self, task: Task, topic: str) -> None:
        """Let ib_write_bw measure one rail, by the first ranks of both nodes."""
        wide, node = self._wide, int(self.params["node"])
        assert task.rail is not None
        nics = list(self.params.get("nics", ()))
        nic = str(nics[task.rail]) if task.rail < len(nics) else ""
        part = wide.leads and node in (task.src, task.dst)
        lacks = self._heard(f"{topic}/lacks", lack(nic) if part else None)
        server, said = None, None
        if not any(lacks) and part and node == task.dst:
            server = start(command_of(nic, task.rail))
        wide.share(f"{topic}/serves", None)
        if not any(lacks) and part and node == task.src:
            said = written(nic, task.rail, wide.address(task.dst or 0))
        heard = self._heard(f"{topic}/written", said)
        if server is not None:
            server.kill()
            ended(server)
        if wide.leads:
            found = heard[0] if heard else {"why": "; ".join(filter(None, lacks))}
            self._report_written(task, found)

    def _report_written(self, task: Task, found: "dict[str, Any]") -> None:
        if "gbs" in found:
            self._report(WRITES, task, Sampled((float(found["gbs"]),)))
        else:
            text = f"{task.what}: {found['why']}."
            self.emit(Note("ib_write_bw", text, {"rail": task.rail}))


# ib_write_bw of perftest between two nodes, where it is installed and somebody asked for it.
#
# One node serves on a port of its own, the other connects to it by the first one's name, and both
# end after one measurement of two seconds. It writes host memory without a GPU and without NCCL, so
# that it tells a cable from a library.
def command_of(nic: str, rail: int, server: str = "") -> "list[str]":
    """The command line of one side; `server`: the other's name, "" for the side that serves."""
    seconds, port = str(_SECONDS), str(PORT + rail)
    words = [PROGRAM, "-d", nic, "-p", port, "-D", seconds, "-F", "--report_gbits"]
    return [*words, server] if server else words


def average_gbs(text: str) -> Optional[float]:
    """The average in perftest's table, GB/s (10^9 bytes); None where there is no row."""
    for line in reversed(text.splitlines()):
        words = line.split()
        try:
            numbers = [float(word) for word in words]
        except ValueError:
            continue
        if len(numbers) >= 4 and numbers[3] > 0:
            return numbers[3] / 8
    return None


def start(words: "list[str]") -> "subprocess.Popen[str]":
    """Start one side, which ends with this process."""
    parent = os.getpid()
    return subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", preexec_fn=lambda: die_with_parent(parent),
    )  # fmt: skip


def lack(nic: str) -> str:
    """Why this node cannot take part; "" if it can."""
    if shutil.which(PROGRAM) is None:
        return f"{PROGRAM} is not installed"
    return "" if nic else "no RDMA device is known for this rail"


def ended(process: "subprocess.Popen[str]") -> "tuple[int, str]":
    """Exit code and output, in limited time."""
    try:
        text, _ = process.communicate(timeout=_LONGEST_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        text, _ = process.communicate()
    return process.returncode, text or ""


def written(nic: str, rail: int, server: str) -> "dict[str, Any]":
    """Connect and measure: {"gbs"} or {"why"}."""
    text = ""
    for _ in range(_TRIES):
        code, text = ended(start(command_of(nic, rail, server)))
        found = average_gbs(text) if code == 0 else None
        if found is not None:
            return {"gbs": found}
        if "connect" not in text.lower():
            break
        time.sleep(_PAUSE_SECONDS)
    lines = [line for line in text.splitlines() if line.strip()]
    return {"why": one_line(lines[-1] if lines else "it printed nothing", 200)}


SPEC = ProbeSpec(
    name="net",
    title="Network between nodes",
    measures=(
        "With one process on each GPU of every node: send and receive each way, all-reduce and "
        "all-to-all by NCCL or RCCL, rail by rail and over all rails, GB/s and latency, beside the "
        "transport that the library's log names."
    ),
    method="net/1",
    minimum_gpus=1,
    memory_bytes_per_gpu=NEEDED_BYTES,
    start_seconds=5.0,
    seconds_per_gpu=3.0,
    seconds_per_pair=0.0,
    seconds_alone=5.0,
    level_factors={"quick": 1.0, "normal": 1.0, "full": 1.0},
    by_library=True,
    quantities=QUANTITIES,
)


def run(request: WorkerRequest, emit: Emit) -> None:
    """Run this node's ranks; ProbeStopped if they do not reach the end."""
    run_crew(request, emit, SPEC, steps, NetMember, debug_log=True)
