"""AMD's driver fails, lies or hangs: the real amdsmi over a libamd_smi.so that stands in.

The matrix as a whole is printed by tests/support/faults/matrix.py; here is a share of it. Without a
C compiler or a wheel of amdsmi these tests skip; test_amd_faults.py stands in for the module.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import pytest

from gputop.topology.model.severity import Verdict
from tests.support.faults import amdsmi_library
from tests.support.faults.amdsmi import PROCESSORS
from tests.support.faults.amdsmi_cells import AMDSMI
from tests.support.faults.amdsmi_library import AmdsmiStandIn, NoCompiler, build, load
from tests.support.faults.cells import BLOCKS, Cell
from tests.support.faults.facts import answer
from tests.support.faults.machine import diagnosed, settled
from tests.support.faults.plan import Fault, release

VERSION = "7.0.2"
SHARES = {"errors": 150, "lies": 40}
"""One in so many cells of the matrix is tried."""
BLOCKED_SHARE = 10
DEADLINE_SECONDS = 0.05


@pytest.fixture(scope="module")
def library(
    amdsmi_wheel: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AmdsmiStandIn]:
    try:
        folder = build(amdsmi_wheel(VERSION), tmp_path_factory.mktemp("rocm"))
    except NoCompiler as error:
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ROCM_HOME", raising=False)
        patch.setenv("ROCM_PATH", "")
        patch.setattr(sys, "path", list(sys.path))
        patch.setattr(amdsmi_library, "LOADED", None)
        forget()
        load(folder)
        assert amdsmi_library.LOADED is not None
        yield amdsmi_library.LOADED
        assert amdsmi_library.LOADED.broken == []
        forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "amdsmi"]:
        del sys.modules[name]


def share(kind: str, one_in: int) -> list[Cell]:
    """Some cells of a kind, the same ones each time."""
    return [cell for cell in AMDSMI.cells(kind) if crc32(repr(cell).encode()) % one_in == 0]


@pytest.mark.parametrize("bare", [False, True])
def test_a_machine_is_healthy_whose_pci_was_seen(library: AmdsmiStandIn, bare: bool) -> None:
    verdict = Verdict.CANNOT_TELL if bare else Verdict.HEALTHY
    assert diagnosed(AMDSMI.profile, bare=bare).verdict == verdict
    assert str(sys.modules["amdsmi"].__file__).startswith(sys.path[0])


@pytest.mark.parametrize("kind", SHARES)
def test_a_share_of_the_matrix_has_no_false_all_clear(library: AmdsmiStandIn, kind: str) -> None:
    picked = share(kind, SHARES[kind])
    assert len(picked) > 15
    assert [cell for cell in picked if AMDSMI.wrong(cell, AMDSMI.diagnose(cell))] == []


def test_a_share_of_the_calls_that_block_ends_in_time(library: AmdsmiStandIn) -> None:
    picked = share(BLOCKS, BLOCKED_SHARE)
    assert len(picked) > 4
    for cell in picked:
        fault = AMDSMI.fault(cell)
        seconds = 4 * DEADLINE_SECONDS
        snapshot = settled(AMDSMI.profile, [fault], deadline=DEADLINE_SECONDS, seconds=seconds)
        release()
        assert not AMDSMI.wrong(cell, answer(snapshot)), cell


LISTINGS = 3
"""How often a single reading lists the GPUs: two sources, and again behind the first."""


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("listing", range(LISTINGS))
def test_a_count_that_changes_while_it_is_read_is_not_healthy(
    library: AmdsmiStandIn, count: int, listing: int
) -> None:
    # The binding calls twice for a list: for its length, and for what is in it.
    fault = Fault(function=PROCESSORS, answer=count, after=2 * listing)
    assert diagnosed(AMDSMI.profile, [fault]).verdict in ("broken", "cannot tell")
    assert diagnosed(AMDSMI.profile, [Fault(function=PROCESSORS, answer=2)]).verdict == "healthy"
