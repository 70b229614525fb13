"""A complaint of a program beside a fault of the hardware."""

from __future__ import annotations

from gputop.topology.diagnosis.symptoms.explain import known_signs
from gputop.topology.diagnosis.symptoms.log import examine
from gputop.topology.logs.reading.read import read_log
from tests.topology.diagnosis.symptoms.test_unmarked_text import read

TABLE = """\
| NVIDIA-SMI 450.51.05    Driver Version: 450.51.05    CUDA Version: 11.0     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla V100S-PCI...  Off  | 00000000:00:08.0 Off |                    1 |
| N/A   34C    P0    27W / 250W |      4MiB / 32510MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+
"""
WANTED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total "
    "capacity of 31.75 GiB of which 1.50 GiB is free."
)


def said(*lines: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Finding -> its severity and its possible causes."""
    log = read_log(
        [line.encode() for line in (*TABLE.splitlines(), *lines)],
        signs=known_signs(),
        outputs=True,
    )
    return {
        one.id: (str(one.severity), tuple(each.cause for each in one.candidates))
        for one in examine(log, None).findings
    }


def test_a_complaint_without_figures_may_be_an_error_of_the_memory() -> None:
    severity, causes = said("RuntimeError: CUDA error: out of memory")["program-out-of-memory"]
    assert severity == "cannot-tell"
    assert "ECC could not correct" in causes[0]
    assert "ran out of GPU memory" in causes[1]


def test_a_complaint_that_shows_its_cause_is_believed() -> None:
    severity, causes = said(WANTED)["program-out-of-memory"]
    assert severity == "broken"
    assert not any("ECC" in cause for cause in causes)


def test_the_error_alone_blames_nothing() -> None:
    assert {severity for severity, _ in said().values()} <= {"notice"}


def test_what_a_sentence_tells_of_puts_no_complaint_in_doubt() -> None:
    told = "We used to get `NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus` there."
    said = "RuntimeError: CUDA error: out of memory"
    alone, both = read(said).findings, read(f"{told}\n{said}").findings
    assert alone[0].title in {one.title for one in both}
