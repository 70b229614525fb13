"""The catalogue of variables: whole, consistent, in our own plain sentences, and easy to ask."""

from __future__ import annotations

from collections import Counter

import pytest

from gputop.topology.flags.catalogue.catalogue import (
    INTERNAL,
    PROGRAMS,
    Flag,
    catalogue,
    elsewhere,
    program_of,
    unknown,
)
from gputop.topology.flags.values.values import READERS, ignored, read_value, unread
from gputop.topology.model.variable_names import NAMES, PREFIXES, listed
from gputop.topology.model.versions import Library, LibraryName, numbers
from tests.tables import hold

NCCL = Library(name=LibraryName.NCCL, version="2.28.9")
LEAST = dict.fromkeys(("nccl", "rccl", "rocm", "cuda", "pytorch", "efa", *PROGRAMS), 7) | {
    "gloo": 5
}
FLAGS = catalogue().flags


def test_it_is_large_and_covers_every_group() -> None:
    assert len(FLAGS) >= 150
    counts = Counter(flag.group for flag in FLAGS)
    assert counts.keys() == LEAST.keys()
    assert {group for group, least in LEAST.items() if counts[group] < least} == set()
    assert sum(counts[group] for group in PROGRAMS) >= 120


def test_no_name_is_there_twice() -> None:
    names = catalogue().names()
    assert len(names) == len(set(names))


def _an_entry_is_whole(flag: Flag) -> None:
    assert flag.type in READERS
    for text in (flag.values, flag.default, flag.source, flag.subject):
        assert text.strip() == text != ""
    for sentence in (flag.changes, flag.set_when, flag.trap):
        if sentence is not None:
            assert sentence.endswith("."), sentence
            assert "—" not in sentence
            assert sentence.isascii(), sentence
    for version in (flag.since, flag.until):
        assert version is None or len(numbers(version)) >= 2
    if flag.type in ("enum", "policy") and flag.group == "nccl":
        assert flag.options


def test_an_entry_is_whole() -> None:
    hold(_an_entry_is_whole, FLAGS, lambda flag: flag.name)


def _what_is_worth_trying_counts(flag: Flag) -> None:
    if unread(flag, NCCL):
        return
    for value in flag.tries:
        reading = read_value(flag, value, NCCL)
        assert not reading.fatal, value
        assert not reading.ignored, value


def test_what_is_worth_trying_counts() -> None:
    hold(_what_is_worth_trying_counts, [f for f in FLAGS if f.tries], lambda flag: flag.name)


def test_every_name_may_be_shown_and_nothing_else_is_listed() -> None:
    assert all(listed(name) for name in catalogue().names())
    assert {name for name in NAMES if catalogue().flag(name) is None} == set()
    assert all(prefix.endswith(("_", "TUNABLE")) for prefix in PREFIXES)
    for name in (
        "HOME",
        "PATH",
        "AWS_SECRET_ACCESS_KEY",
        "FI_PASSWORD",
        "HIP_TOKEN",
        "GPU_KEY",
        "NCCL_FOO_TOKEN",
        "RCCL_PASSWORD",
        "NCCL_PSK",
    ):
        assert not listed(name)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("NCCL_P2P_DISABLED", "NCCL_P2P_DISABLE"),
        ("NCCL_SHM_DISABLED", "NCCL_SHM_DISABLE"),
        ("NCCL_P2PLEVEL", "NCCL_P2P_LEVEL"),
        ("nccl_algo", "NCCL_ALGO"),
        ("NCCL_SOCKET_IFACE", "NCCL_SOCKET_IFNAME"),
        ("NCCL_IB_TIMOUT", "NCCL_IB_TIMEOUT"),
        ("NCCL_DEBUG_SUBSYSTEM", "NCCL_DEBUG_SUBSYS"),
        ("CUDA_VISIBLE_DEVICE", "CUDA_VISIBLE_DEVICES"),
    ],
)
def test_a_typing_error_finds_its_name(typed: str, meant: str) -> None:
    assert catalogue().closest(typed)[0] == meant


def test_what_is_like_nothing_finds_nothing() -> None:
    assert catalogue().closest("NCCL_ZZZZZZ_QQ") == ()
    assert catalogue().closest("") == ()
    assert catalogue().closest("X" * 5000) == ()


def test_an_old_name_leads_to_the_flag() -> None:
    flag = catalogue().flag("NCCL_MAX_NRINGS")
    assert flag is not None
    assert flag.name == "NCCL_MAX_NCHANNELS"
    assert catalogue().alias("NCCL_MAX_NRINGS")
    assert not catalogue().alias("NCCL_MAX_NCHANNELS")
    assert catalogue().flag("NCCL_NOTHING") is None


def test_search_wants_every_word_and_puts_names_first() -> None:
    found = catalogue().search("gdr level")
    assert found[0].name in ("NCCL_NET_GDR_LEVEL", "NCCL_IB_GDR_LEVEL")
    assert catalogue().search("") == FLAGS
    assert catalogue().search("no such words at all") == ()


@pytest.mark.parametrize(
    ("name", "library", "version", "value"),
    [
        ("NCCL_IB_TIMEOUT", "nccl", "2.13.4", "14"),
        ("NCCL_IB_TIMEOUT", "nccl", "2.22.3", "18"),
        ("NCCL_IB_TIMEOUT", "nccl", "2.28.9", "20"),
        ("NCCL_IB_TIMEOUT", "rccl", "2.21.5", "18"),
        ("NCCL_PXN_DISABLE", "rccl", "2.21.5", "1"),
        ("NCCL_NET_DISABLE_INTRA", "rccl", "2.21.5", "1"),
        ("NCCL_DMABUF_ENABLE", "rccl", "2.21.5", "0"),
        ("NCCL_CUMEM_ENABLE", "nccl", "2.18.5", "0"),
        ("NCCL_CUMEM_ENABLE", "rccl", "2.21.5", "0"),
        ("NCCL_CUMEM_ENABLE", "rccl", "2.30.4", "-2 (decide: on gfx1250 alone)"),
        ("NCCL_PXN_C2C", "rccl", "2.30.4", "0"),
        ("NCCL_ALLGATHERV_ENABLE", "rccl", "2.30.4", "0"),
        ("NCCL_NCHANNELS_PER_NET_PEER", "nccl", "2.18.5", "2"),
        ("NCCL_NVLS_NCHANNELS", "nccl", "2.20.5", "16"),
    ],
)
def test_defaults_follow_library_and_version(
    name: str, library: str, version: str, value: str
) -> None:
    flag = catalogue().flag(name)
    assert flag is not None
    assert flag.default_of(library, numbers(version)) == value


@pytest.mark.parametrize(
    ("name", "since", "until"),
    [
        ("NCCL_SHM_USE_CUDA_MEMCPY", "2.13.4", "2.30.4"),
        ("NCCL_IPC_USE_ABSTRACT_SOCKET", "2.29.2", None),
        ("NCCL_TREE_THRESHOLD", "2.4.2", "2.4.8"),
        ("NCCL_CONF_FILE", "2.23.4", None),
        ("NCCL_MNNVL_ENABLE", "2.21.5", None),
        ("NCCL_P2P_MAX_PEERS", "2.30.3", None),
        ("NCCL_IB_SUBNET_PREFIX_LEN", "2.30.7", None),
        ("NCCL_NET_GDR_MLOPART", "2.30.7", "2.31.2"),
        ("NCCL_RUN_DIAGNOSTICS", "2.31.2", None),
        ("NCCL_PROGRESS_COUNTERS", "2.32.3", None),
    ],
)
def test_since_and_until_are_those_of_the_source(name: str, since: str, until: str | None) -> None:
    flag = catalogue().flag(name)
    assert flag is not None
    assert (flag.since, flag.until) == (since, until)


def test_versions_compare_as_numbers() -> None:
    assert numbers("nccl-2.28.9") == (2, 28, 9)
    assert numbers("2.30.7+cuda13.0") == (2, 30, 7)
    assert numbers("abc") == ()


@pytest.mark.parametrize(
    ("name", "who"),
    [
        ("NCCL_FASTRAK_CTRL_DEV", "Google's TCPXO network plugin"),
        ("NCCL_IBEXT_DISABLE", "NVIDIA's RDMA and SHARP plugin"),
        ("NCCL_INSPECTOR_ENABLE", "NCCL's inspector plugin"),
        ("NCCL_CHUNK_SIZE", "some releases of the library"),
        ("NCCL_P2P_DISABLED", ""),
    ],
)
def test_what_others_read_is_no_typing_error(name: str, who: str) -> None:
    assert who in elsewhere(name)
    assert bool(elsewhere(name)) == bool(who)
    reported = {one for one, _, _ in ignored({name: "1"}, NCCL, catalogue())}
    assert reported == (set() if who else {name})


def test_what_is_read_elsewhere_is_not_in_the_catalogue_as_well() -> None:
    assert [name for name in catalogue().names() if name in INTERNAL] == []


def test_the_variables_of_a_container_image_are_nothing_to_warn_of() -> None:
    image = {"NCCL_VERSION": "2.27.7-1", "NCCL_HOME": "/usr", "NVIDIA_VISIBLE_DEVICES": "all"}
    assert ignored(image, NCCL, catalogue()) == ()


@pytest.mark.parametrize(
    ("name", "trap"),
    [
        ("NCCL_MIN_NCHANNELS", "fewer than eight ranks"),
        ("HSA_FORCE_FINE_GRAIN_PCIE", "BAR"),
        ("HSA_ENABLE_PEER_SDMA", "HSA_ENABLE_SDMA is 0"),
        ("HSA_OVERRIDE_CPU_AFFINITY_DEBUG", "every CPU"),
        ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
        ("ROCR_VISIBLE_DEVICES", "Applied first"),
        ("GPU_MAX_HW_QUEUES", "nothing overlaps"),
        ("PYTORCH_TUNABLEOP_ENABLED", "PYTORCH_TUNABLE_OPS"),
        ("PYTORCH_TUNABLEOP_HIPBLASLT_ENABLED", "anything but 1"),
        ("DISABLE_ADDMM_HIP_LT", "TunableOp"),
        ("TORCH_BLAS_PREFER_HIPBLASLT", "TORCH_BLAS_PREFER_CUBLASLT"),
        ("ROC_GLOBAL_CU_MASK", "measurement is low"),
    ],
)
def test_amd_variables_have_their_traps(name: str, trap: str) -> None:
    flag = catalogue().flag(name)
    assert flag is not None
    assert trap in (flag.trap or "")
    assert listed(name)


def test_a_name_that_nothing_reads_leads_to_the_right_one() -> None:
    for wrong in ("PYTORCH_TUNABLE_OPS", "PYTORCH_TUNABLEOPS_ENABLED"):
        assert catalogue().flag(wrong) is None
        assert catalogue().closest(wrong) == ("PYTORCH_TUNABLEOP_ENABLED",)


OF_PROGRAMS = [flag for flag in FLAGS if flag.program]


def _a_name_leads_to_its_own_program(flag: Flag) -> None:
    for name in flag.names:
        assert program_of(name) is flag.program
        for typed in (name[:-1], name.lower(), f"{name}S", name[0] + name[2:]):
            for near in catalogue().closest(typed):
                assert program_of(near) in (flag.program, program_of(typed)), (typed, near)


def test_no_name_of_one_program_is_taken_for_one_of_another() -> None:
    hold(_a_name_leads_to_its_own_program, OF_PROGRAMS, lambda flag: flag.name)
    for flag in FLAGS[::9]:
        _, _, rest = flag.name.partition("_")
        for start in ("GLOO", "UCX", "MC", "FOO"):
            near = catalogue().closest(f"{start}_{rest}")
            assert all(one.split("_")[0] in (start, "PRTE") for one in near), (start, rest, near)


@pytest.mark.parametrize(
    ("name", "why", "read"),
    [
        ("UCX_TSL", "those that UCX reads, not described here; UCX_TLS is", True),
        ("VLLM_USE_V1", "those that vLLM reads, not described here", True),
        ("gloo_socket_ifname", "Gloo reads, not described here; GLOO_SOCKET_IFNAME is", True),
        ("MC_TCP_BIND_ADDRESS", "read by Mooncake, not by the library itself", True),
        ("NCCL_SOCKET_IFNAM", "NCCL_SOCKET_IFNAME is", False),
    ],
)
def test_an_unknown_name_is_said_to_be_its_programs(name: str, why: str, read: bool) -> None:
    assert why in unknown(name).why
    assert unknown(name).read == read


def test_a_name_without_the_librarys_beginning_leads_to_it() -> None:
    assert catalogue().without_prefix("SOCKET_IFNAME") == ("NCCL_SOCKET_IFNAME",)
    assert catalogue().without_prefix("FOO_SOCKET_IFNAME") == ()
    assert catalogue().without_prefix("TP_SOCKET_IFNAME") == ()


@pytest.mark.parametrize(
    ("name", "value", "fatal", "ignored_", "why"),
    [
        # As UCX 1.13.1 and 1.22.0 answer: "Invalid value for PROTO_ENABLE: 'maybe'".
        ("UCX_PROTO_ENABLE", "maybe", True, False, "UCX stops over it"),
        ("UCX_PROTO_ENABLE", "true", True, False, "UCX stops over it"),
        ("UCX_PROTO_ENABLE", "Y", False, False, ""),
        ("UCX_RNDV_SCHEME", "get", True, False, "UCX stops over it"),
        ("UCX_RNDV_SCHEME", "GET_ZCOPY", False, False, ""),
        ("UCX_TLS", "TCP", True, False, "none of its words is known"),
        ("UCX_TLS", "", True, False, "the list is empty"),
        ("UCX_TLS", "tcp,foo", False, False, "left out: foo"),
        ("UCX_TLS", "^foo", False, False, "left out: foo"),
        ("GLOO_DEVICE_TRANSPORT", "tcp", True, False, "Gloo stops over it"),
        ("NIXL_LOG_LEVEL", "loud", False, False, "it means WARN"),
        ("VLLM_KV_CACHE_LAYOUT", "HDN", False, True, "not one of NHD HND"),
    ],
)
def test_values_of_other_programs_are_read_as_they_read_them(
    name: str, value: str, fatal: bool, ignored_: bool, why: str
) -> None:
    flag = catalogue().flag(name)
    assert flag is not None
    reading = read_value(flag, value, NCCL)
    assert (reading.fatal, reading.ignored) == (fatal, ignored_)
    assert why in reading.why
