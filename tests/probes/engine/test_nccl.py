"""The binding of NCCL: what a library is asked, and what is said of its answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.probes.engine.nccl import Nccl, NcclError
from tests.device_kernels.made_up import MadeUpDriver


@pytest.fixture
def nccl(driver: MadeUpDriver, made_up_library: Path) -> Nccl:
    return Nccl(str(made_up_library))


@pytest.mark.parametrize(
    ("number", "text"),
    [(2708, "2.7.8"), (2804, "2.8.4"), (20906, "2.9.6"), (21805, "2.18.5"), (23207, "2.32.7")],
)
def test_a_version_in_words(driver: MadeUpDriver, nccl: Nccl, number: int, text: str) -> None:
    driver.becomes(f"nccl_version={number}")
    assert nccl.version() == text


def test_an_id_is_128_bytes_and_no_text(driver: MadeUpDriver, nccl: Nccl) -> None:
    one, other = nccl.unique_id(), nccl.unique_id()
    assert (len(one), one[-1]) == (128, 0x80)
    assert one != other


def test_an_id_is_passed_by_value(driver: MadeUpDriver, nccl: Nccl) -> None:
    """The library looks at its last byte before anything else."""
    with pytest.raises(NcclError, match=r"ncclUnhandledCudaError of ncclCommInitRank"):
        nccl.communicator(nccl.unique_id(), 0, 1)  # no device is current
    with pytest.raises(NcclError, match=r"ncclInvalidArgument of ncclCommInitRank"):
        nccl.communicator(bytes(128), 0, 1)


def test_an_error_has_its_name_its_sentence_and_the_last_warning(
    driver: MadeUpDriver, nccl: Nccl
) -> None:
    driver.becomes("ncclGetUniqueId=2;last_error=no interface\n")
    with pytest.raises(NcclError) as caught:
        nccl.unique_id()
    text = "ncclSystemError of ncclGetUniqueId: unhandled system error; no interface"
    assert str(caught.value) == text
    assert caught.value.says_all, "a reply has no name of a class before these words"
    driver.becomes("ncclGetUniqueId=99")
    with pytest.raises(NcclError, match=r"^ncclResult 99 of ncclGetUniqueId: unknown result code$"):
        nccl.unique_id()
