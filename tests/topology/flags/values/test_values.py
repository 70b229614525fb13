"""Values as NCCL reads them: strtoll, case, unknown words, versions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.topology.flags.catalogue.catalogue import Flag, catalogue
from gputop.topology.flags.values.values import Reading, ignored, overridden, read_value
from gputop.topology.model.versions import Library, LibraryName

NCCL = Library(name=LibraryName.NCCL, version="2.28.9")
RCCL = Library(name=LibraryName.RCCL, version="2.21.5")


def read(name: str, text: str, library: Library = NCCL) -> Reading:
    flag = catalogue().flag(name)
    assert flag is not None
    return read_value(flag, text, library)


@pytest.mark.parametrize(
    ("name", "text", "effective", "is_ignored"),
    [
        ("NCCL_P2P_DISABLE", "1", "1", False),
        ("NCCL_P2P_DISABLE", "0x1", "1", False),
        ("NCCL_P2P_DISABLE", "01", "1", False),
        ("NCCL_P2P_DISABLE", "2", "0", True),
        ("NCCL_P2P_DISABLE", "true", "0", True),
        ("NCCL_P2P_DISABLE", "yes", "0", True),
        ("NCCL_P2P_DISABLE", "0", "0", False),
        ("NCCL_SHM_DISABLE", "on", "0", True),
        ("NCCL_RAS_ENABLE", "0", "0", False),
        ("NCCL_P2P_LEVEL", "NVL", "NVL", False),
        ("NCCL_P2P_LEVEL", "nvl", "default", True),
        ("NCCL_P2P_LEVEL", "NVL ", "default", True),
        ("NCCL_P2P_LEVEL", "NODE", "default", True),
        ("NCCL_P2P_LEVEL", "", "default", True),
        ("NCCL_P2P_LEVEL", "0", "LOC", False),
        ("NCCL_P2P_LEVEL", "1", "PIX", False),
        ("NCCL_P2P_LEVEL", "3", "PHB", False),
        ("NCCL_P2P_LEVEL", "9", "SYS", False),
        ("NCCL_BUFFSIZE", "8M", "8", False),
        ("NCCL_BUFFSIZE", "0x800000", "8388608", False),
        ("NCCL_BUFFSIZE", "", "default", True),
        ("NCCL_BUFFSIZE", "9" * 40, "default", True),
        ("NCCL_NVLS_ENABLE", "true", "0", False),
        ("NCCL_MAX_CTAS", "100", "64", False),
        ("NCCL_MAX_CTAS", "0", "default", True),
        ("NCCL_MAX_CTAS", "-3", "default", True),
        ("NCCL_MAX_NCHANNELS", "0", "1", False),
        ("NCCL_MIN_NCHANNELS", "-7", "0", False),
        ("NCCL_NTHREADS", "100", "512", False),
        ("NCCL_NTHREADS", "32", "64", False),
        ("NCCL_NTHREADS", "0", "default", True),
        ("NCCL_LL128_NTHREADS", "1024", "640", False),
        ("NCCL_THREAD_THRESHOLDS", "many", "default", True),
        ("NCCL_DEBUG", "info", "INFO", False),
        ("NCCL_DEBUG", "all", "default", True),
        ("NCCL_DEBUG_SUBSYS", "INIT,GRPH", "INIT,GRPH", False),
        ("NCCL_DEBUG_SUBSYS", "GRPH", "default", True),
        ("NCCL_SOCKET_FAMILY", "af_inet", "default", True),
        ("NCCL_NET_MERGE_LEVEL", "NONE", "LOC", False),
        ("NCCL_NETDEVS_POLICY", "max:2", "MAX:2", False),
        ("NCCL_NETDEVS_POLICY", "max:0", "default", True),
        ("NCCL_CTA_POLICY", "2", "ZERO", False),
        ("NCCL_CTA_POLICY", "ZERO", "default", True),
        ("CUDA_VISIBLE_DEVICES", "0,1,x,3", "0,1", False),
        ("CUDA_VISIBLE_DEVICES", "", "none", False),
        ("CUDA_VISIBLE_DEVICES", "0,0", "none", False),
        ("NCCL_TOPO_FILE", "", "default", True),
        ("TORCH_NCCL_BLOCKING_WAIT", "True", "1", False),
    ],
)
def test_a_value_counts_as_the_library_reads_it(
    name: str, text: str, effective: str, is_ignored: bool
) -> None:
    reading = read(name, text)
    assert (reading.effective, reading.ignored) == (effective, is_ignored)
    if is_ignored:
        assert reading.why


@pytest.mark.parametrize(
    ("library", "version", "text", "effective"),
    [
        ("nccl", "2.24.3", "112", "32"),
        ("nccl", "2.28.9", "112", "64"),
        # RCCL src/include/device.h: MAXCHANNELS 128; AMD's guides set 112 on eight MI300X.
        ("rccl", "2.21.5", "112", "112"),
        ("rccl", "2.21.5", "200", "128"),
    ],
)
def test_rccl_has_more_channels(library: str, version: str, text: str, effective: str) -> None:
    flag = catalogue().flag("NCCL_MIN_NCHANNELS")
    assert flag is not None
    reading = read_value(flag, text, Library(name=LibraryName(library), version=version))
    assert reading.effective == effective


def test_what_stops_the_start_is_fatal() -> None:
    assert read("NCCL_ALGO", "rings").fatal
    assert not read("NCCL_ALGO", "rings", Library(name=LibraryName.NCCL, version="2.23.4")).fatal
    assert not read("NCCL_ALGO", "ring;allreduce:tree,ring").fatal
    assert read("NCCL_PROTO", "allreduc:LL").fatal
    assert read("TORCH_NCCL_BLOCKING_WAIT", "on").fatal


@pytest.mark.parametrize(
    ("name", "library", "word"),
    [
        ("NCCL_IPC_USE_ABSTRACT_SOCKET", NCCL, "came with 2.29.2"),
        ("NCCL_TREE_THRESHOLD", NCCL, "2.4.8 was the last"),
        (
            "NCCL_SHM_USE_CUDA_MEMCPY",
            Library(name=LibraryName.NCCL, version="2.30.7"),
            "2.30.4 was the last",
        ),
        ("RCCL_MSCCL_ENABLE", NCCL, "RCCL does"),
        ("NCCL_IB_OOO_RQ", RCCL, "came with 2.30.3"),
    ],
)
def test_a_flag_of_another_version_is_not_read(name: str, library: Library, word: str) -> None:
    reading = read(name, "1", library)
    assert reading.ignored
    assert word in reading.why


def test_rccl_has_its_own_word_for_nvlink() -> None:
    assert read("NCCL_P2P_LEVEL", "XGMI", RCCL).effective == "XGMI"
    assert "XGMI" in read("NCCL_P2P_LEVEL", "NVL", RCCL).why
    assert read("NCCL_P2P_LEVEL", "XGMI").ignored


def test_newer_levels_are_unknown_to_older_versions() -> None:
    assert read("NCCL_P2P_LEVEL", "P2C", Library(name=LibraryName.NCCL, version="2.23.4")).ignored
    assert not read("NCCL_P2P_LEVEL", "P2C").ignored


def test_switches_of_2_30_take_words() -> None:
    new = Library(name=LibraryName.NCCL, version="2.30.7")
    assert read("NCCL_SET_THREAD_NAME", "TRUE", new).effective == "1"
    assert read("NCCL_SET_THREAD_NAME", "2", new).ignored
    assert read("NCCL_SET_THREAD_NAME", "TRUE").ignored


def test_one_variable_can_make_another_void() -> None:
    void = overridden({"NCCL_P2P_DISABLE": "1", "NCCL_P2P_LEVEL": "SYS"})
    assert void == {"NCCL_P2P_LEVEL": "NCCL_P2P_DISABLE=1 beats it"}
    assert overridden({"NCCL_P2P_DISABLE": "2", "NCCL_P2P_LEVEL": "SYS"}) == {}
    assert set(overridden({"NCCL_MAX_NRINGS": "4", "NCCL_MAX_NCHANNELS": "8"})) == {
        "NCCL_MAX_NRINGS"
    }


def test_the_list_of_what_is_ignored_names_typing_errors_too() -> None:
    values = {"NCCL_P2P_DISABLED": "1", "NCCL_P2P_LEVEL": "nvl", "NCCL_ALGO": "Ring", "HOME": "/"}
    found = ignored(values, NCCL, catalogue())
    assert [name for name, _, _ in found] == ["NCCL_P2P_DISABLED", "NCCL_P2P_LEVEL"]
    assert "NCCL_P2P_DISABLE" in found[0][2]


@given(
    st.sampled_from(catalogue().flags),
    st.text(max_size=60),
    st.sampled_from([NCCL, RCCL, Library(name=LibraryName.NCCL, version="2.30.7")]),
)
def test_any_text_gets_a_reading(flag: Flag, text: str, library: Library) -> None:
    reading = read_value(flag, text, library)
    assert reading.effective is not None
    assert not (reading.ignored and not reading.why)
