"""Further checks: NVLS, PCIe links, refused values, and how far initialisation came."""

import re
from collections.abc import Iterator
from itertools import pairwise

from ...logs.report.communicator import (
    READY,
    STARTED,
    Communicator,
    LoggedNode,
    LoggedSystem,
    Proof,
)
from ...logs.report.outcome import outcome_of
from ...logs.report.report import OTHER, WARN, LogReport
from ...model.severity import RunState
from ...recorded.formats.measured.nccl_rows import BOUNDS, HEAD, row_of
from .checks import check

_ATTRIBUTE = re.compile(r"Attribute .* of node .* not found")
_COMPUTED = re.compile(r"Attribute (?:arch|vendor|familyid|modelid) of node cpu not found")
"""NCCL computes these for each CPU that it finds itself: only one from a file can lack them."""
_NO_FAMILY = re.compile(r"address +with family (?!2 |10 )\d+ is neither AF_INET")
_REFUSED = re.compile(
    r"(?:Call to connect|socketPollConnect: connect) returned "
    r"(?:Connection (?:refused|timed out)|No route to host|Network is unr)"
)
_UNSAID = re.compile(r"[Ii]nternal error|unhandled system error")
_ONE_NAME = re.compile(r"=?[A-Za-z][\w.-]+")
_COUNTED = re.compile(r"store.based barrier .*world_size=(\d+), worker_count=(\d+)")
_TESTED = re.compile(r"Rank +\d+ .{0,40}Pid +\d+ on +(\S+) device")
MANY_REFUSALS = 3
"""A rank that starts a little later than the others is refused to, too (include/socket.h)."""
CRIPPLED_GBS = 1.0
"""GB/s of the slowest real link, generation 1 with four lanes (constants of graph/topo.h)."""


def _systems(log: LogReport) -> Iterator[LoggedSystem]:
    for comm in log.communicators:
        yield from comm.systems
    yield from log.systems


def _switched(log: LogReport) -> Proof | None:
    """Find a line that shows a GPU with a link to an NVSwitch."""
    for system in _systems(log):
        for node in system.nodes:
            for link in node.links:
                if link.to.startswith("NVS/"):
                    return Proof(node.line, f"{node.name} + {link.kind}[{link.gbs}] - {link.to}")
    return None


_APU = re.compile(
    r"\bgfx(?:902|909|90c|1013|103[3567]|1103|115[0-3])\b|Strix|Ryzen AI|\bAPUs?\b"
    r"|Radeon (?:\(TM\) )?(?:[678]\d0M|80[456]0S)"
)
"""Processors with graphics that use the host's memory."""
_NO_MEMORY = re.compile(r"HIP out of memory\. Tried to allocate|hipErrorOutOfMemory")


@check
def memory_of_an_apu(log: LogReport) -> Iterator[Proof]:
    """HIP runs out of memory in a text that names a processor with graphics."""
    notes = (*log.context, *log.notes)
    if any(_APU.search(note.text) for note in notes):
        found = {note.line: note.text for note in notes if _NO_MEMORY.search(note.text)}
        for line in sorted(found)[:1]:
            yield Proof(line, found[line])


_AMD = re.compile(
    r"\bRadeon\b|\bgfx\d{3}|AMD Instinct|/dev/kfd|HIP_VISIBLE|HSA_OVERRIDE|\bamdgpu\b"
)
"""Who speaks so has AMD's GPUs."""
_NVIDIA = re.compile(r"NVIDIA Corporation|GeForce|\bRTX\b|\bTesla\b|NVRM|nvidia-smi|nvidia\.ko")
_NO_NVIDIA = re.compile(r"[Ff]ound no NVIDIA driver on your system")


@check
def cuda_build_on_rocm(log: LogReport) -> Iterator[Proof]:
    """PyTorch asks for NVIDIA's driver in a text that speaks of AMD's GPUs alone."""
    notes = (*log.context, *log.notes)
    both = [[one.search(note.text) for note in notes] for one in (_AMD, _NVIDIA)]
    if any(both[0]) and not any(both[1]):
        found = {note.line: note.text for note in notes if _NO_NVIDIA.search(note.text)}
        for line in sorted(found)[:1]:
            yield Proof(line, found[line])


_AGENT = re.compile(r"^ *Name: +(gfx[0-9a-f]+)\b")
_PRODUCT = re.compile(r"^ *Marketing Name: +(\S.*?) *$")
_TARGETS = (
    (r"\bMI(?:300|308|325)", "gfx942"), (r"\bMI35[05]", "gfx950"),
    (r"\bMI2[15]0", "gfx90a"), (r"\bMI100\b", "gfx908"), (r"\bMI[56]0\b|Radeon VII", "gfx906"),
    (r"\bMI25\b|Vega 64|Vega 56", "gfx900"), (r"RX 9070", "gfx1201"), (r"RX 9060", "gfx1200"),
    (r"RX 7900|W7900|W7800", "gfx1100"), (r"RX 7[78]00(?!S)|W7700", "gfx1101"),
    (r"RX 7600|W7600", "gfx1102"), (r"RX 6[89]\d0|W6800", "gfx1030"), (r"RX 67\d0", "gfx1031"),
    (r"RX 66\d0|W6600", "gfx1032"), (r"8060S|8050S", "gfx1151"), (r"780M", "gfx1103"),
)  # fmt: skip
"""Products of AMD and the target of each, by LLVM's user guide of the AMDGPU backend."""


@check
def gfx_pretended(log: LogReport) -> Iterator[Proof]:
    """A GPU has another target in rocminfo than its product has, of another family."""
    name = ""
    for note in log.context:
        agent, product = _AGENT.match(note.text), _PRODUCT.match(note.text)
        name = agent[1] if agent else name
        if product and name:
            own = next((target for said, target in _TARGETS if re.search(said, product[1])), name)
            family = 4 if own.startswith("gfx9") else 5
            if own[:family] != name[:family] or (family == 4 and own != name):
                yield Proof(note.line, f"{note.text.strip()}: {own}, and rocminfo says {name}")
            name = ""


@check
def nvls_off(log: LogReport) -> Iterator[Proof]:
    """NCCL_NVLS_ENABLE=0 on a machine with NVSwitches."""
    switch = _switched(log)
    for variable in log.set("NCCL_NVLS_ENABLE"):
        if variable.value == "0" and switch is not None:
            yield Proof(variable.line, variable.said)
            yield switch


@check
def nvls_missing(log: LogReport) -> Iterator[Proof]:
    """The library says that multicast is not available, behind NVSwitches."""
    switch = _switched(log)
    lines = [note for note in log.notes if "multicast support is not available" in note.text]
    if switch is not None and lines:
        yield from (Proof(note.line, note.text) for note in lines)
        yield switch


def _gpu_links(system: LoggedSystem) -> dict[str, tuple[float, Proof]]:
    """GPU -> GB/s of the link to what it hangs under, and the line."""
    found = {}
    nodes = {node.name: node for node in system.nodes}
    for node in system.nodes:
        parent = nodes.get(node.parent or "")
        if not node.name.startswith("GPU/") or parent is None:
            continue
        for link in parent.links:
            if link.pci and link.to == node.name:
                text = f"{parent.name} + PCI[{link.gbs}] - {node.name}"
                found[node.name] = (link.gbs, Proof(node.line, text))
    return found


@check
def pci_crippled(log: LogReport) -> Iterator[Proof]:
    """A link between a GPU and its CPU that is slower than any real one."""
    for system in _systems(log):
        nodes = {node.name: node for node in system.nodes}
        on_the_way = {
            (above.name, below.name): above
            for gpu in system.nodes
            if gpu.name.startswith("GPU/")
            for above, below in _way_up(gpu, nodes)
        }
        for (_, below), above in on_the_way.items():
            for link in above.links:
                if link.pci and link.to == below and link.gbs < CRIPPLED_GBS:
                    text = f"{above.name} + PCI[{link.gbs}] - {below}"
                    yield Proof(nodes[below].line, text)


def _way_up(
    node: LoggedNode, nodes: dict[str, LoggedNode]
) -> Iterator[tuple[LoggedNode, LoggedNode]]:
    """Each pair of a node and what hangs under it, from this node up to its CPU."""
    seen = set()
    while node.name not in seen and (above := nodes.get(node.parent or "")) is not None:
        seen.add(node.name)
        yield above, node
        node = above


@check
def pci_unequal(log: LogReport) -> Iterator[Proof]:
    """GPUs of one block with different links: those below the most frequent value."""
    for system in _systems(log):
        links = _gpu_links(system)
        speeds = [gbs for gbs, _ in links.values()]
        if len(speeds) < 3:
            continue
        usual = max(set(speeds), key=lambda gbs: (speeds.count(gbs), gbs))
        slow = [proof for gbs, proof in links.values() if gbs < usual]
        if slow and speeds.count(usual) > len(speeds) / 2:
            yield from slow
            yield next(proof for gbs, proof in links.values() if gbs == usual)


@check
def nvlink_unequal(log: LogReport) -> Iterator[Proof]:
    """A link between two GPUs that is wider at one end, or GPUs with unlike links to the switches.

    Sums over other GPUs prove nothing: a communicator of a part of a mesh leaves links out.
    """
    for system in _systems(log):
        widths = {
            (node.name, link.to): (link.gbs, node.line, link.kind)
            for node in system.nodes
            for link in node.links
            if link.nvlink
        }
        fabric = [gbs for (_, to), (gbs, *_) in widths.items() if to.startswith("NVS/")]
        for (name, to), (gbs, line, kind) in widths.items():
            back = widths.get((to, name), (gbs,))[0]
            full = max(fabric) if to.startswith("NVS/") else back
            if gbs < full and not name.startswith("NVS/"):
                text = f"{name} + {kind}[{gbs}] - {to}, where others have {full}"
                yield Proof(line, text)


@check
def topology_attribute_missing(log: LogReport) -> Iterator[Proof]:
    """An attribute is missing while a topology file is in use, or only a file can lack it."""
    file = _topology_file(log)
    yield from (proof for proof in _attributes(log) if file or _COMPUTED.search(proof.text))


@check
def topology_attribute_unread(log: LogReport) -> Iterator[Proof]:
    """An attribute is missing and no file is in use: it could not be read from the machine."""
    if not _topology_file(log):
        yield from (proof for proof in _attributes(log) if not _COMPUTED.search(proof.text))


def _topology_file(log: LogReport) -> bool:
    loaded = any("Loading topology file" in note.text for note in log.notes)
    return loaded or log.variable("NCCL_TOPO_FILE") is not None


def _attributes(log: LogReport) -> Iterator[Proof]:
    for note in log.notes:
        if note.level is WARN and _ATTRIBUTE.search(note.text):
            yield Proof(note.line, note.text)


@check
def value_refused(log: LogReport) -> Iterator[Proof]:
    """A variable that the library says it does not understand."""
    for variable in log.environment:
        if variable.remark is not None:
            yield Proof(
                variable.line,
                f"Invalid value {variable.value} for {variable.name}: {variable.remark}",
            )


@check
def init_unfinished(log: LogReport) -> Iterator[Proof]:
    """Ranks that start and are never ready, while others are ready or not in the log."""
    for comm in log.communicators:
        if _stuck(log, comm):
            continue
        waiting = [rank for rank in comm.ranks if rank.state is STARTED and rank.line is not None]
        # Ranks of a log without the Init lines are "started" because nothing more is known.
        if any(rank.state is not STARTED for rank in comm.ranks) or _introduced(log, comm.ident):
            missing = [rank for rank in range(min(comm.nranks, 4096)) if comm.rank(rank) is None]
            if waiting and missing:
                named = ", ".join(map(str, missing[:16]))
                more = f" and {len(missing) - 16} more" if len(missing) > 16 else ""
                yield Proof(comm.line, f"not in this log: ranks {named}{more} of {comm.nranks}")
            for rank in waiting:
                where = f" on {rank.host}" if rank.host else ""
                text = f"rank {rank.rank} of {comm.nranks}{where}: Init START, no Init COMPLETE"
                yield Proof(rank.line or comm.line, text)


@check
def init_stuck(log: LogReport) -> Iterator[Proof]:
    """All ranks of a communicator start and none is ever ready."""
    for comm in log.communicators:
        if _stuck(log, comm):
            last = max(comm.ranks, key=lambda rank: rank.line or 0)
            text = f"rank {last.rank}, the last of all {comm.nranks}: Init START, no Init COMPLETE"
            yield Proof(last.line or comm.line, text)


def _stuck(log: LogReport, comm: Communicator) -> bool:
    seen = [rank for rank in comm.ranks if rank.state is STARTED and rank.line is not None]
    return len(seen) == comm.nranks > 1 and _introduced(log, comm.ident)


def _introduced(log: LogReport, ident: str) -> bool:
    return log.kinds.get("init", 0) > 0 and not ident.startswith("unnamed")


@check
def interface_absent(log: LogReport) -> Iterator[Proof]:
    """Addresses of no family where interfaces are named, and no rank says which one it took."""
    lines = [note for note in log.notes if _NO_FAMILY.search(note.text)]
    if not lines or log.bootstrap:
        return
    for variable in log.set("NCCL_SOCKET_IFNAME"):
        if not variable.value.startswith("^"):
            yield Proof(lines[0].line, lines[0].text)
            yield Proof(variable.line, variable.said)


@check
def one_name_for_all(log: LogReport) -> Iterator[Proof]:
    """One interface named for several hosts, and a failure that no line of the library explains."""
    failed = [note for note in log.notes if note.level is OTHER and _UNSAID.search(note.text)]
    if not failed or log.bootstrap or len(_tested_hosts(log)) < 2:
        return
    for variable in log.set("NCCL_SOCKET_IFNAME"):
        if _ONE_NAME.fullmatch(variable.value):
            yield Proof(variable.line, variable.said)
            yield Proof(failed[0].line, failed[0].text)


_ADDRESS = re.compile(r"(?:\[\d+\])?([\w.-]+):(\d{1,3}(?:\.\d{1,3}){3})<")


@check
def one_host_two_addresses(log: LogReport) -> Iterator[Proof]:
    """One host name whose processes have different addresses on one interface: two machines."""
    if len(log.hosts) != 1:
        return
    found: dict[str, set[str]] = {}
    for text in log.bootstrap:
        for name, address in _ADDRESS.findall(text):
            found.setdefault(name, set()).add(address)
    for name, addresses in found.items():
        if len(addresses) > 1:
            told = f"{log.hosts[0]} has {name} with {' and '.join(sorted(addresses))}"
            yield Proof(
                min(comm.line for comm in log.communicators) if log.communicators else 1, told
            )


@check
def more_ranks_than_told(log: LogReport) -> Iterator[Proof]:
    """A barrier at the store that counts more ranks than the group has."""
    for note in log.notes:
        found = _COUNTED.search(note.text)
        if found and int(found[2]) > int(found[1]):
            yield Proof(note.line, note.text)


def _tested_hosts(log: LogReport) -> set[str]:
    """The hosts in a list of devices of nccl-tests."""
    sections = () if log.pasted is None else log.pasted.sections
    found = (_TESTED.search(line) for section in sections for line in section.lines)
    return {match[1] for match in found if match is not None}


@check
def table_without_rows(log: LogReport) -> Iterator[Proof]:
    """The head of a table of nccl-tests without a row, while all ranks are ready."""
    comms = [comm for comm in log.communicators if comm.nranks > 1]
    ready = [rank for comm in comms for rank in comm.ranks if rank.state is READY]
    sections = () if log.pasted is None else log.pasted.sections
    lines = [
        (number, line)
        for section in sections
        for number, line in enumerate(section.lines, section.first)
    ]
    heads = [Proof(number, line.strip()) for number, line in lines if HEAD.match(line)]
    if not heads or len(ready) < sum(comm.nranks for comm in comms) or not ready:
        return
    if not any(row_of(line) or BOUNDS.match(line) for _, line in lines):
        last = max(ready, key=lambda rank: rank.line or 0)
        yield Proof(last.line or heads[0].line, f"rank {last.rank}, the last one: Init COMPLETE")
        yield heads[0]


@check
def refused_for_good(log: LogReport) -> Iterator[Proof]:
    """Connections that are refused again and again, in a log where no rank gets any further."""
    refused = [note for note in log.notes if _REFUSED.match(note.text)]
    ready = any(rank.ready is not None for comm in log.communicators for rank in comm.ranks)
    waited = any("refused" not in note.text for note in refused)
    often = sum(note.count for note in refused) >= (1 if waited else MANY_REFUSALS)
    if often and not ready:
        yield from (Proof(note.line, note.text) for note in refused)


_HANGS = re.compile(
    r"(?i)\bhangs?\b|\bhanging\b|\bstuck\b|\bfreez\w+|no progress|KeyboardInterrupt|\^C|0% *\|"
)
_LINK = re.compile(r"LnkSta:\W{0,4}Speed \S{1,12}(?: \((\w+)\))?, Width x\d{1,2}(?: \((\w+)\))?")


def _links(log: LogReport) -> Iterator[tuple[Proof, str, str]]:
    """Lines of lspci about links where no device is named: what they say of speed and width."""
    machine = None if log.pasted is None else log.pasted.snapshot.machine
    known = machine is not None and machine.pci
    # Of devices whose own width is in the text too, a rule tells more.
    if not known or not any("LnkCap:" in note.text for note in log.context):
        for note in log.context:
            if (found := _LINK.search(note.text)) is not None:
                yield Proof(note.line, note.text.strip()), found[1] or "", found[2] or ""


_RETURNED = re.compile(r"(?:[\w-]{1,40}/){0,4}([\w-]{1,40})\.(?:cc|h):\d{1,5} -> [1-6]\b")
_CALLED = ("init", "group", "enqueue", "collectives")
"""Files with the functions that programs call; other threads hand codes up when a run ends."""


@check
def returned_through(log: LogReport) -> Iterator[Proof]:
    """Codes of errors that NCCL's functions hand up, through those that programs call."""
    codes = [(found[1], note) for note in log.notes if (found := _RETURNED.match(note.text))]
    well = outcome_of(log).state in (RunState.FINISHED, RunState.RUNS)
    if not well and any(file in _CALLED for file, _ in codes):
        yield from (Proof(note.line, note.text) for _, note in codes)


@check
def silent(log: LogReport) -> Iterator[Proof]:
    """Ranks are ready, nothing of a run follows, and the text speaks of a job that hangs."""
    state, comm = outcome_of(log).state, log.main
    quiet = state in (RunState.SILENT, RunState.UNKNOWN)
    ready = comm is not None and any(rank.ready is not None for rank in comm.ranks)
    if quiet and ready and comm is not None and comm.nranks > 1:
        said = [note for note in log.context if _HANGS.search(note.text)]
        yield from (Proof(note.line, note.text) for note in said[:1])


_PROMPT = r"^\W{0,3}(?:\[?[\w.-]+@[\w.-]+[^#$%]{0,80})?[#$%]"
_ASKS_MODULE = re.compile(
    rf"{_PROMPT} *(?:sudo +)?lsmod *\| *[ef]?grep +(?:-\w+ +)*[\"']?"
    r"(?:nvidia\w*|nv_?peer\w*|gdr\w*|\w*peer_?mem|ib_\w+|rdma_\w+|mlx[45]\w*|amdgpu|efa|\w*umad)"
    r"[\"']?\s*$"
)
_NEXT_COMMAND = re.compile(rf"{_PROMPT}(?: |\s*$)")


@check
def module_absent(log: LogReport) -> Iterator[Proof]:
    """Commands that ask lsmod for a module of ours and print nothing before the next command."""
    for asked, after in pairwise(log.context):
        if _ASKS_MODULE.match(asked.text) and _NEXT_COMMAND.match(after.text):
            yield Proof(asked.line, asked.text)


@check
def narrow_link(log: LogReport) -> Iterator[Proof]:
    """Links that run with fewer lanes than their device has, of devices without a name."""
    yield from (proof for proof, _, width in _links(log) if width == "downgraded")


@check
def slow_link(log: LogReport) -> Iterator[Proof]:
    """Links at a lower speed with all lanes, of devices without a name."""
    for proof, speed, width in _links(log):
        if speed == "downgraded" and width != "downgraded":
            yield proof


_BAR = re.compile(
    r"\b(?P<device>(?:[\da-f]{4}:)?[\da-f]{2}:[\da-f]{2}\.\d): BAR (?P<number>[0-5])\b(?P<said>.*)"
)
_MATTERS = re.compile(
    r"\b((?:[\da-f]{4}:)?[\da-f]{2}:[\da-f]{2}\.\d): "
    r"\[[\da-f]{4}:[\da-f]{4}\] type [\da-f]{2} class 0x(?:02|03|12)[\da-f]{4}\b"
)
"""How the kernel names a network adapter, a display or an accelerator by its class."""
_NO_ROOM = re.compile(r"no space for|failed to assign|can't assign")
_LARGE = re.compile(r"size 0x[1-9a-f][\da-f]{7,}")
"""From 256 MiB on it is a GPU's memory, which the table of the kernel's faults has."""


@check
def bars_without_room(log: LogReport) -> Iterator[Proof]:
    """Small memory windows of GPUs and NICs that got no room, nor got any later in the text.

    What a device is has to stand in the text: the kernel leaves out small windows of many others.
    """
    sections = () if log.pasted is None else log.pasted.sections
    lines = {
        number: text for part in sections for number, text in enumerate(part.lines, part.first)
    }
    lines |= {note.line: note.text for note in (*log.context, *log.suspects)}
    matter = {found[1] for text in lines.values() if (found := _MATTERS.search(text))}
    left: dict[tuple[str, str], Proof] = {}
    for number, text in sorted(lines.items()):
        found = _BAR.search(text)
        if found is None:
            continue
        at = found["device"], found["number"]
        if "assigned" in found["said"] and "can't" not in found["said"]:
            left.pop(at, None)
        elif _NO_ROOM.search(found["said"]) and "mem" in text and not _LARGE.search(text):
            left[at] = Proof(number, text.strip())
    yield from (proof for (device, _), proof in left.items() if device in matter)
