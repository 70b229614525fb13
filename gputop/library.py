"""gputop as a library: a node that is read once, and the answers of the commands about it.

`import gputop` gives all of it; nothing of this module is imported before it is used. Names are
marked stable (they keep their meaning until 2.0) or provisional (they may change in a minor
version). docs/library.md shows how they are used.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from gputop.exits import USAGE, Exit
from gputop.terminal.clean import clean
from gputop.topology.model.characters import json_text
from gputop.topology.model.errors import GputopError

if TYPE_CHECKING:
    from gputop.answers.check import CheckAnswer
    from gputop.answers.cost_records import CostAnswer
    from gputop.answers.diff import DiffAnswer
    from gputop.answers.events import EventsAnswer
    from gputop.answers.explain import ExplainAnswer
    from gputop.answers.jobs import JobsAnswer
    from gputop.answers.known import Known
    from gputop.answers.log import LogAnswer
    from gputop.answers.metrics import MetricsAnswer
    from gputop.answers.places import NicAnswer, NumaAnswer, P2pAnswer
    from gputop.answers.question import Reply
    from gputop.answers.variables import EnvironmentAnswer
    from gputop.answers.which import WhichAnswer
    from gputop.reading import Recording
    from gputop.topology.model.machine import Gpu
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.node import Node

__all__ = ["GputopError", "NodeAnswers", "as_json", "demo", "diff", "load", "read", "read_text"]

Key: TypeAlias = "int | str | Gpu"
"""How a GPU is named: the driver's number, or "cuda:0", "rank:3", a UUID or a PCI address; or the
record of it, as `gpus` has it."""


class NodeAnswers:
    """A node as it was read, and the answers about it. Stable.

    `read`, `load` and `demo` make it. Nothing is read twice, and each method is the answer that
    the command of this name gives.
    """

    def __init__(
        self,
        snapshot: NodeSnapshot,
        *,
        sources: tuple[str, ...] = (),
        demo: str | None = None,
        unread: tuple[str, ...] = (),
    ) -> None:
        self.snapshot = snapshot
        self._sources, self._demo, self._unread = sources, demo, unread

    def __repr__(self) -> str:
        named = Counter(gpu.name or "unknown GPU" for gpu in self.gpus)
        listed = ", ".join(f"{count} × {name}" for name, count in named.items()) or "no GPU"
        return clean(f"<NodeAnswers of {', '.join(self.snapshot.source)}: {listed}>", 200)

    def __getstate__(self) -> dict[str, object]:
        # What follows from the snapshot is made anew: another process can have it, and a copy.
        return {name: value for name, value in vars(self).items() if name != "node"}

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs, in the driver's order. Stable.

        >>> import gputop
        >>> [gpu.name for gpu in gputop.demo("pcie-l40s-8").gpus][:2]
        ['NVIDIA L40S', 'NVIDIA L40S']
        """
        return self.snapshot.machine.gpus

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be read, with the reason. Stable."""
        from gputop.answers.question import problem_lines

        return (*problem_lines(self.snapshot), *self._unread)

    @cached_property
    def node(self) -> Node:
        """The node with its graph, its relations and what NCCL or RCCL decides. Provisional."""
        from gputop.topology.node import Node

        return Node(self.snapshot).decide()

    def gpu(self, key: Key) -> Gpu:
        """One GPU by the driver's number, "cuda:0", "rank:3", a UUID or a PCI address. Stable.

        >>> import gputop
        >>> gputop.demo("hgx-h100-8").gpu("cuda:3").address
        '0000:4c:00.0'
        """
        return self.node.devices.gpus[self._address(key)]

    def p2p(self, src: Key, dst: Key) -> P2pAnswer:
        """What one GPU uses to reach another: granted, the way, GB/s, why. Stable.

        >>> import gputop
        >>> pair = gputop.demo("hgx-h100-8").p2p(0, 1)
        >>> pair.granted, pair.uses_p2p, pair.way
        (True, True, 'P2P over 18 NVLinks through NVSwitch')
        """
        from gputop.answers.places import pair_answer

        one, other = self._address(src), self._address(dst)
        if one == other:
            raise Exit("a pair needs two different GPUs", USAGE)
        return pair_answer(self.node, one, other)

    def nic_of(self, key: Key) -> NicAnswer:
        """The NIC of a GPU in a job over several nodes. Stable.

        >>> import gputop
        >>> gputop.demo("hgx-h100-8").nic_of(0).nic
        'mlx5_0'
        """
        from gputop.answers.places import nic_answer

        return nic_answer(self.node, self.gpu(key))

    def numa_of(self, key: Key) -> NumaAnswer:
        """The NUMA node next to a GPU, and its CPUs. Stable.

        >>> import gputop
        >>> gputop.demo("hgx-h100-8").numa_of(7).numa_node
        1
        """
        from gputop.answers.places import numa_answer

        return numa_answer(self.node, self.gpu(key))

    def explain(
        self,
        collective: str | None = None,
        size_bytes: int | None = None,
        *,
        gpus: Sequence[Key] | None = None,
        nodes: int = 1,
        env: Mapping[str, str] | None = None,
        library: str | None = None,
    ) -> ExplainAnswer:
        """What NCCL or RCCL decides, as `gputop explain --json` says it. Stable.

        With a collective ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce") and
        a size, `choices` holds the one choice for that call, or nothing where it is not known.

        >>> import gputop
        >>> node = gputop.demo("hgx-h100-8")
        >>> [choice.algorithm for choice in node.explain("AllReduce", 1 << 30).choices]
        ['NVLS']
        """
        from gputop.answers.explain import ExplainRequest, answer, call_of
        from gputop.topology.nccl.hosts.equal_hosts import LIMIT

        if (collective is None) != (size_bytes is None):
            raise Exit("a call needs a collective and a size", USAGE)
        if size_bytes is not None and size_bytes < 1:
            raise Exit("a call has one byte at least", USAGE)
        if isinstance(gpus, str):
            gpus = (gpus,)  # "0,2" or "0-3", as the option takes them
        if gpus is not None and not gpus:
            raise Exit("gpus: name one at least", USAGE)
        if not 1 <= nodes <= LIMIT:
            raise Exit(f"{nodes} hosts: 1 to {LIMIT} can be predicted", USAGE)
        asked = ExplainRequest(
            given=self.snapshot,
            gpus=None if gpus is None else ",".join(self._addresses(gpus)),
            nodes=nodes,
            settings=_settings(env),
            library=library,
        )
        if collective is None or size_bytes is None:
            return answer(asked)
        return call_of(asked, answer(asked), collective, size_bytes)

    def which(self, count: int, *, busy: bool = False) -> WhichAnswer:
        """The best GPUs here and now, as `gputop which` says it. Provisional.

        >>> import gputop
        >>> gputop.demo("dgx-1v").which(4).best.names
        ('GPU4', 'GPU7', 'GPU6', 'GPU5')
        """
        from gputop.answers.which import WhichRequest, answer

        if count < 1:
            raise Exit(f"{count} GPUs: name one at least", USAGE)
        return answer(WhichRequest(given=self.snapshot, count=count, with_busy=busy))

    def cost(
        self,
        model: str,
        *,
        config: str = "",
        layout: str = "",
        sequence: int | None = None,
        micro: int | None = None,
        accumulation: int | None = None,
        dtype: str = "bf16",
        nodes: int = 1,
        serve: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> CostAnswer:
        """What a model costs here, layout by layout, as `gputop cost` says it. Provisional.

        `config`: the content of its config.json, where the model has no known name.

        >>> import gputop
        >>> best = gputop.demo("hgx-h100-8").cost("Llama 3 8B").layouts[0]
        >>> best.ways, best.fits, round(best.step_s, 1)
        ('dp=8', True, 1.3)
        """
        from gputop.answers.cost import CostRequest, answer
        from gputop.answers.question import refuse_odd

        asked = CostRequest(
            given=self.snapshot, names=(model,), config=config, layout=layout, sequence=sequence,
            micro=micro, accumulation=accumulation, dtype=dtype, nodes=nodes, serve=serve,
            settings=_settings(env),
        )  # fmt: skip
        refuse_odd(asked)
        return answer(asked)

    def check(self, *, measure: bool = False) -> CheckAnswer:
        """What is wrong, the proof, and one verdict, as `gputop check` says it. Stable.

        Nothing is measured unless `measure` says so, and then idle GPUs only.

        >>> import gputop
        >>> found = gputop.demo("sick-h100-8").check()
        >>> str(found.verdict), found.exit_code
        ('slow', 1)
        """
        from gputop.answers.check import CheckRequest, answer
        from gputop.terminal.lines import unsaid

        if measure and not (self.snapshot.is_live or self._demo):
            raise Exit("a recording cannot be measured", USAGE)
        with unsaid():
            return answer(CheckRequest(given=self.snapshot, demo=self._demo, quick=not measure))

    def metrics(self) -> MetricsAnswer:
        """The node as series, as `gputop metrics` gives them to Prometheus. Provisional.

        >>> import gputop
        >>> families = gputop.demo("hgx-h100-8").metrics().families
        >>> [len(one.samples) for one in families if one.name == "DCGM_FI_DEV_GPU_TEMP"]
        [8]
        """
        from gputop.answers.metrics import MetricsRequest, answer
        from gputop.terminal.lines import unsaid

        with unsaid():
            return answer(MetricsRequest(given=self.snapshot, demo=self._demo))

    def events(self, *, seconds: float | None = None) -> EventsAnswer:
        """What happened on the node, as `gputop events` says it. Provisional.

        `seconds`: only events of so long a time.

        >>> import gputop
        >>> gputop.demo("hgx-h100-8").events().events
        ()
        """
        from gputop.answers.events import answer_of

        return answer_of(self.snapshot, seconds)

    def jobs(self) -> JobsAnswer:
        """What runs on the GPUs and who waits for whom, as `gputop jobs` says it. Provisional.

        Of this machine it looks twice, some seconds apart. Of a path its files are read again,
        for dumps and answers of RAS. A text holds no jobs.

        >>> import gputop
        >>> [str(job["verdict"]) for job in gputop.demo("slow-job-h100-8").jobs().jobs]
        ['slow']
        """
        from gputop.answers.jobs import JobsRequest, answer, of_node
        from gputop.terminal.lines import unsaid

        if not (self.snapshot.is_live or self._demo or self._sources):
            return of_node(self.snapshot)
        given = None if self._sources else self.snapshot
        with unsaid():
            return answer(JobsRequest(given=given, sources=self._sources, demo=self._demo))

    def env_for(self, library: str) -> EnvironmentAnswer:
        """Variables of "nccl", "ucx", "nvshmem" or "gloo" that fit this node. Provisional.

        What is open is not set: `why` names the possibilities.

        >>> import gputop
        >>> node = gputop.demo("hgx-h100-8")
        >>> node.env_for("ucx").of_gpu[node.gpu(0).address]
        {'UCX_NET_DEVICES': 'mlx5_0:1'}
        """
        from gputop.answers.variables import EnvironmentFor, environment_answer

        known = [word.value for word in EnvironmentFor]
        if library not in known:
            raise Exit(f"no library {library!r} here; there are: {', '.join(known)}", USAGE)
        return environment_answer(self.node, EnvironmentFor(library))

    @property
    def figures(self) -> tuple[Known, ...]:
        """What is published of the GPU models here, as `gputop about` prints it. Provisional.

        >>> import gputop
        >>> [known.name for known in gputop.demo("hgx-h100-8").figures]
        ['H100-SXM']
        """
        from gputop.answers.known import healthy

        return healthy(self.snapshot.machine)

    def _address(self, key: Key) -> str:
        found = self._addresses((key,))
        if len(found) > 1:
            raise Exit(f"{clean(str(key), 60)!r} names {len(found)} GPUs: name one", USAGE)
        return found[0]

    def _addresses(self, keys: Sequence[Key]) -> tuple[str, ...]:
        from gputop.measuring.selection import SelectionError, select  # a reading does without

        try:
            return tuple(
                address
                for key in keys
                for address in select(str(getattr(key, "address", key)), self.snapshot.machine)
            )
        except SelectionError as error:
            raise Exit(str(error), USAGE) from error


def _settings(env: Mapping[str, str] | None) -> tuple[str, ...]:
    """Variables as --set takes them."""
    if odd := next((name for name in env or {} if not name or "=" in name), None):
        raise Exit(f"{clean(odd, 60)!r} is no name of a variable", USAGE)
    if unset := next((name for name, value in (env or {}).items() if value is None), None):
        raise Exit(f"{clean(unset, 60)} is None: leave out what is not set", USAGE)
    return tuple(f"{name}={value}" for name, value in (env or {}).items())


def read() -> NodeAnswers:
    """Read this machine, as it is now. Stable.

    A driver that does not answer is waited for 10 s at most; what is missing is in `problems`.
    """
    from gputop.reading import read_snapshot

    return NodeAnswers(read_snapshot((), None))


def demo(name: str) -> NodeAnswers:
    """A built-in demo node; `gputop --demo` lists them. Stable.

    >>> import gputop
    >>> len(gputop.demo("mi300x-8").gpus)
    8
    """
    from gputop.reading import read_snapshot

    if not name:  # without a name it would be this machine
        raise Exit("demo needs a name; `gputop --demo` lists them", USAGE)
    return NodeAnswers(read_snapshot((), name), demo=name)


def load(source: str | bytes | Path) -> NodeAnswers:
    r"""A recorded node: a path, or the text of what `--from` reads. Stable.

    A str of one line that begins with no brace or bracket is a path.

    >>> import gputop
    >>> node = gputop.load("\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n")
    >>> node.p2p(0, 1).granted is None
    True
    """
    from gputop.reading import load_files

    _path_or_text("load", source)
    if source in ("", b"", "-", b"-"):
        # A path of "" is the current folder, and "-" is stdin: of a command alone.
        raise Exit("load needs a path or a text", USAGE)
    text = source.encode(errors="replace") if isinstance(source, str) else source
    if isinstance(text, Path) or not (b"\n" in text or text.lstrip()[:1] in (b"{", b"<", b"[")):
        path = str(source) if not isinstance(source, bytes) else source.decode(errors="replace")
        loaded = load_files((path,))
        # Its jobs are read later, perhaps from another folder.
        return _recorded(loaded, (os.path.abspath(path),))
    loaded = load_files(("-",), text, stdin_name="text")
    return _recorded(loaded)


def _recorded(loaded: Recording, sources: tuple[str, ...] = ()) -> NodeAnswers:
    passed = (f"{name}: passed over: {why}" for name, why in loaded.skipped)
    partly = (f"{name}: {why}" for name, why in loaded.remarks)
    return NodeAnswers(loaded.snapshot, sources=sources, unread=(*passed, *partly))


def diff(before: NodeAnswers, now: NodeAnswers) -> DiffAnswer:
    """What is other in the second of two nodes, as `gputop diff` says it. Provisional.

    >>> import gputop
    >>> found = gputop.diff(gputop.demo("hgx-h100-8"), gputop.demo("sick-h100-8"))
    >>> str(found.verdict), [finding.id for finding in found.came]
    ('worse', ['nvlink-down', 'pcie-width'])
    """
    from gputop.answers.diff import answer_of, shown_names
    from gputop.topology.diff.diff import diff as compared
    from gputop.topology.diff.side import side_of_node

    nodes = (before, now)
    if odd := [one for one in nodes if not isinstance(one, NodeAnswers)]:
        raise TypeError(f"diff takes two nodes, not {type(odd[0]).__name__}")
    names = shown_names(before.snapshot, now.snapshot)
    return answer_of(compared(*map(side_of_node, names, (one.node for one in nodes))))


def read_text(
    text: str | bytes | Path, node: NodeAnswers | None = None, *, library: str | None = None
) -> LogAnswer | JobsAnswer:
    """A log or pasted output, explained as `gputop log` does; a Path is read. Stable.

    `node`: the node that it is of; else the text says what it can.

    >>> import gputop
    >>> line = "host:1:1 [0] NCCL WARN Cuda failure 'out of memory'"
    >>> [finding["id"] for finding in gputop.read_text(line).findings]
    ['cuda-out-of-memory']
    """
    from gputop.answers import log
    from gputop.terminal.lines import unsaid

    _path_or_text("read_text", text)
    given = None if node is None else node.snapshot
    with unsaid():
        if isinstance(text, Path):
            return log.answer(log.LogRequest(file=str(text), given=given, library=library))
        data = text.encode(errors="replace") if isinstance(text, str) else text
        return log.answer_to_text(data, given, library)


def _path_or_text(name: str, given: object) -> None:
    if not isinstance(given, str | bytes | Path):
        raise TypeError(f"{name} takes a path or a text, not {type(given).__name__}")


def as_json(answer: Reply | NodeAnswers | NodeSnapshot) -> str:
    """The JSON document of an answer, or the snapshot of a node. Stable.

    >>> import gputop, json
    >>> json.loads(gputop.as_json(gputop.demo("hgx-h100-8").p2p(0, 1)))["schema"]
    'gputop.pair/1'
    """
    record = answer.snapshot if isinstance(answer, NodeAnswers) else answer
    document = getattr(record, "document", None)
    if document is None and not hasattr(record, "machine"):
        raise TypeError(f"as_json takes an answer or a node, not {type(answer).__name__}")
    return json_text(record if document is None else document())
