"""What the words of GPU nodes mean: on one page, and each by itself for the search."""

from __future__ import annotations

from gputop.topology.hardware.terms import VendorTerms
from gputop.topology.model.page import Blank, Fact, Facts, Heading, Page
from gputop.topology.nccl.wording import MEANINGS
from gputop.topology.wiring.codes import MEANING

WORDS = {
    "P2P": "one GPU reads and writes the memory of another, without going through host memory",
    "P2P/CUMEM": "P2P with memory that CUDA's newer interface shares, cuMem",
    "P2P/IPC": "P2P with memory that CUDA's older interface shares between processes",
    "SHM": "shared memory: one GPU writes to the host's memory, the other reads it there",
    "GDR": "GPUDirect RDMA: the NIC reads and writes the GPU's memory itself",
    "NVLS": "NVLink SHARP: the NVSwitches add up the data of all GPUs",
    "NVSwitch": "a chip that connects the NVLinks of all GPUs, each GPU with every other",
    "NVLink": "NVIDIA's links between GPUs; NV18 are 18 of them together",
    "xGMI": "AMD's links between GPUs",
    "C2C": "the link between a Grace CPU and its GPU",
    "ring": "an order of the GPUs in which each sends to the next; each channel has its own",
    "tree": "an order of the GPUs in which each sends to the one above, then back down",
    "channel": "a part of the data with its own ring and tree; more channels use more links",
    "LL, LL128, Simple": "protocols: small messages with a flag in every 8 or 128 bytes, or large",
    "all-reduce": "every GPU gets the sum over all GPUs; training does it at every step",
    "all-gather": "every GPU gets the data of all GPUs, in the order of their ranks",
    "reduce-scatter": "every GPU gets its own part of the sum over all GPUs",
    "rank": "one process of a job, usually with one GPU",
    "busbw": "bus bandwidth: what each link carries, so that it compares with the link's rate",
    "algbw": "algorithm bandwidth: bytes of the message over its time",
    "payload": "the data that a link carries, without what its protocol adds",
    "RAS": "the port at which NCCL says where each rank of a running job stands",
    "NUMA": "a part of the host's memory with the CPUs next to it",
    "ACS": "a setting of PCIe ports: where it is on, P2P below them goes up to the CPU",
    "MIG": "one GPU split into several, which have no P2P",
    "ECC": "memory that corrects single wrong bits and reports worse errors",
    "Xid": "the number of an error that NVIDIA's driver writes to the kernel's log",
    "BAR1": "the window through which other devices reach the GPU's memory",
    "SM": "one of the processors of a GPU; an H100 has 132",
}


def terms(words: VendorTerms) -> dict[str, str]:
    """Each word with its meaning; relation codes and path types share some letters."""
    found = dict(WORDS)
    for code in ("PIX", "PXB", "PHB", "NODE", "SYS"):
        found[code] = f"{MEANING[code]} (topo -m)"
    for path, meaning in MEANINGS.items():
        if (letters := path.name) not in WORDS:
            said = f"{words.fill(meaning)} ({words.library})"
            found[letters] = f"{found[letters]}; {said}" if letters in found else said
    return found


def glossary(words: VendorTerms) -> Page:
    """All words, those of paths behind the others."""
    known = terms(words)
    own = tuple(Fact(what=word, value=known[word], source="") for word in WORDS)
    rest = [Fact(what=word, value=said, source="") for word, said in known.items()]
    codes = tuple(fact for fact in rest if fact.what not in WORDS)
    blocks = (Facts(own), Blank(), Heading("How far apart"), Facts(codes))
    return Page(title="Glossary", blocks=blocks)


def entry(word: str, words: VendorTerms) -> Page:
    """One word."""
    return Page.why(title=word, claim=f"{word}: {terms(words)[word]}.")
