"""The topology XML of NCCL and RCCL: read with all it says, written back, refused when hostile."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gputop.topology.model.element import Element
from gputop.topology.model.format import FormatError
from gputop.topology.nccl.xml import read as reading
from gputop.topology.nccl.xml.attributes import number
from gputop.topology.nccl.xml.read import check_topology, read_topology, root_name
from gputop.topology.nccl.xml.write import write_topology
from tests.support.places import CAPTURES, RECORDINGS

RECORDED = sorted((RECORDINGS / "nccl-topologies").glob("*.xml"))
CAPTURED = sorted(CAPTURES.glob("*-graph/topologies/*.xml"))


def read(text: str | bytes) -> Element:
    return read_topology(text.encode() if isinstance(text, str) else text, "topo.xml")


def system(inside: str, version: str = "1") -> str:
    return f'<system version="{version}">\n{inside}\n</system>'


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_topology_comes_back_byte_for_byte(path: Path) -> None:
    assert write_topology(read(path.read_bytes())) == path.read_text()


def test_all_recordings_are_there() -> None:
    assert len(RECORDED) == 16


@pytest.mark.skipif(not CAPTURED, reason="the captures are not on this machine")
def test_every_captured_topology_comes_back() -> None:
    assert len(CAPTURED) == 86
    versions = set()
    for path in CAPTURED:
        element = read(path.read_bytes())
        versions.add(element.get("version"))
        assert read(write_topology(element)) == element
        bare = re.sub(r"<!--.*?-->", "", path.read_text(), flags=re.DOTALL)
        assert write_topology(element).split() == bare.replace("/>", "/> ").split()
    assert versions == {"1", "2"}


def test_everything_stays_in_its_order() -> None:
    text = system(
        '  <cpu numaid="0" colour="blue">\n'
        '    <nic>\n      <net speed="-1" name="a&amp;b&quot;&lt;" dev="0"/>\n    </nic>\n'
        '    <rack unit="7">\n      <pci what="ever"/>\n    </rack>\n'
        "  </cpu>"
    )
    root = read(f"<!-- made by hand -->\n{text}\n")
    (cpu,) = root.children
    assert cpu.attributes == (("numaid", "0"), ("colour", "blue"))
    assert [child.tag for child in cpu.children] == ["nic", "rack"]
    assert cpu.children[0].children[0].get("name") == 'a&b"<'
    assert write_topology(root) == f"{text}\n"


@pytest.mark.parametrize(
    "inside",
    [
        '<cpu numaid="-1"/>',
        '<pci busid="0000:00:06.0" class="0x03" link_speed="" link_width=""/>',
        '<cpu numaid="0"><pci busid="00000001:3B:00.0" link_speed="Unknown" link_width="0"/></cpu>',
        '<pci busid="0000:00:06.0"><gpu dev="0" sm="90"/></pci>',
        '<gpu dev="0x1"><nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/></gpu>',
        "<gpu><nvlink target='fffffff:ffff:ff' count='2'/></gpu>",
        '<net speed="" port="1 "/><net speed="-1" latency="1.5" guid="0xf01cbc0103dd6838"/>',
        '<cpu affinity="00000000,ffffffff" familyid="" host_hash="0xdf4136679ee45c87"/>',
        "<!-- a comment --><never heard='of' count='many'/>",
    ],
)
def test_what_nccl_tolerates_is_read(inside: str) -> None:
    root = read(system(inside))
    assert read(write_topology(root)) == root


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ('<gpu><nvlink count="18x"/></gpu>', "count='18x' of <nvlink> is not a whole number"),
        ('<gpu><nvlink count=""/></gpu>', "count='' of <nvlink> is not a whole number"),
        ('<gpu><nvlink count="-1"/></gpu>', "between 0 and 4096"),
        ('<gpu><xgmi count="99999"/></gpu>', "between 0 and 4096"),
        ('<pci link_width="x16"/>', "link_width='x16'"),
        ('<pci link_width="1.5"/>', "link_width='1.5'"),
        ('<pci busid="GPU-0"/>', "is not a PCI address"),
        ('<pci busid="0000:00:06"/>', "is not a PCI address"),
        ('<gpu><nvlink target="next door"/></gpu>', "is not a PCI address"),
        ('<cpu numaid="first"/>', "numaid='first'"),
        ('<cpu numaid="-2"/>', "numaid='-2'"),
        ('<cpu affinity="0-31"/>', "is not a CPU mask"),
        ('<cpu host_hash="here"/>', "host_hash='here'"),
        ('<gpu dev="zero"/>', "dev='zero'"),
        ('<gpu sm="9.0"/>', "sm='9.0'"),
        ('<gpu rank="1e9"/>', "rank='1e9'"),
        ('<gpu rank="99999999999999999999999"/>', "rank="),
        ('<gpu gdr="yes"/>', "gdr='yes'"),
        ('<net speed="fast"/>', "speed='fast'"),
        ('<net speed="99999999999"/>', "speed="),
        ('<net latency="nan"/>', "latency='nan'"),
        ('<net latency="inf"/>', "latency='inf'"),
        ('<net guid="0xno"/>', "guid='0xno'"),
        ('<gpu><c2c bw="nan" count="1"/></gpu>', "bw='nan'"),
        ('<gpu><c2c bw="-5" count="1"/></gpu>', "bw='-5'"),
        ('<pci class="switch"/>', "is not a PCI class"),
        (f'<cpu name="{"a" * 256}"/>', "256 characters in name of <cpu>"),
        (f"<{'a' * 256}/>", "256 characters"),
        ("<cpu " + " ".join(f'a{i}="1"' for i in range(17)) + "/>", "17 attributes"),
        ("<cpu>text</cpu>", "text between elements: 'text'"),
        ("<?xml-stylesheet href='x'?>", "processing instruction"),
        ("<cpu numaid='0' numaid='1'/>", "duplicate attribute"),
        ("<cpu>&boo;</cpu>", "undefined entity"),
        ("<cpu></pci>", "mismatched tag"),
    ],
)
def test_nonsense_is_refused_with_its_line(inside: str, said: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(system(inside))
    assert said in str(caught.value)
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("text", "said", "line"),
    [
        ("", "no element", 1),
        ("<system", "unclosed token", 1),
        ('<system version="1">\n<cpu>\n', "no element found", 3),
        ("<system/>", "no version", 1),
        (system("", "3"), "version '3'", 1),
        (system("", "one"), "version 'one'", 1),
        ("<html/>", "<html> at the top", 1),
        ('<graphs version="1"/>', "graph XML", 1),
        ('<!DOCTYPE system>\n<system version="1"/>', "DTD", 1),
        ('<!DOCTYPE x [<!ENTITY a "b">]>\n<system version="1">&a;</system>', "DTD", 1),
        ('<!DOCTYPE x SYSTEM "file:///etc/passwd">\n<system version="1"/>', "DTD", 1),
        ("\x00", "not XML", 1),
    ],
)
def test_what_is_no_topology_is_refused(text: str, said: str, line: int) -> None:
    with pytest.raises(FormatError, match=said) as caught:
        read(text)
    assert caught.value.line == line


def test_limits_of_size_depth_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FormatError, match="the limit for this XML"):
        read(b" " * (reading.MAX_BYTES + 1))
    deep = "<pci>" * 63 + "</pci>" * 63
    read(system(deep))
    with pytest.raises(FormatError, match="nested deeper than 64"):
        read(system(f"<pci>{deep}</pci>"))
    read(system("<gpu/>" * 576))
    with pytest.raises(FormatError, match="more than 576 <gpu> elements"):
        read(system("<gpu/>" * 577))
    monkeypatch.setattr(reading, "MAX_ELEMENTS", 100)
    read(system("<a/>" * 99))
    with pytest.raises(FormatError, match="more than 100 elements"):
        read(system("<a/>" * 100))


def test_an_element_from_a_snapshot_is_held_to_the_same_rules() -> None:
    good = read(system('<cpu numaid="0"><pci busid="0000:00:06.0"/></cpu>'))
    check_topology(good)
    bad = Element(tag="gpu", attributes=(("dev", "zero"),))
    deep = Element(tag="pci")
    for _ in range(70):
        deep = Element(tag="pci", children=(deep,))
    for child in (bad, deep):
        root = Element(tag="system", attributes=(("version", "1"),), children=(child,))
        with pytest.raises(FormatError):
            check_topology(root)
    with pytest.raises(FormatError):
        check_topology(Element(tag="system"))


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b'<?xml version="1.0"?>\n<!-- <graphs> -->\n<system version="1">', "system"),
        (b"\xef\xbb\xbf<system>", "system"),
        (b'<graphs version="1">', "graphs"),
        (b"<!DOCTYPE system [", "system"),
        (b"# no XML < 3", None),
    ],
)
def test_the_root_is_known_by_the_beginning(head: bytes, name: str | None) -> None:
    assert root_name(head) == name


@pytest.mark.parametrize(
    ("text", "value"),
    [("16", 16), ("0x10", 16), (" 7", 7), ("-1", -1), ("3 lanes", 3), ("", None), ("x", None)],
)
def test_numbers_as_c_reads_them(text: str, value: int | None) -> None:
    assert number(text) == value


SEEDS = [RECORDED[0].read_bytes(), system('<cpu numaid="0"/>', "2").encode()]


@given(
    seed=st.sampled_from(SEEDS),
    cuts=st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 30), st.binary(max_size=12)), max_size=6
    ),
)
@example(seed=SEEDS[0], cuts=[(0.0, 0, b'<!DOCTYPE a [<!ENTITY b "c">]>')])
def test_a_damaged_file_is_read_or_refused(
    seed: bytes, cuts: list[tuple[float, int, bytes]]
) -> None:
    data = bytearray(seed)
    for place, length, put in cuts:
        at = int(place * len(data))
        data[at : at + length] = put
    with contextlib.suppress(FormatError):
        root = read(bytes(data))
        assert read(write_topology(root)) == root


@settings(deadline=None)
@given(st.binary(max_size=400))
@example(b"<?xml version='1.0' encoding='bogus'?><system version='1'/>")
@example("<system version='1'/>".encode("utf-16"))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(FormatError):
        root = read(data)
        assert read(write_topology(root)) == root


names = st.from_regex(r"[a-z_][a-z0-9_.-]{0,8}", fullmatch=True)
values = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=12)
elements = st.recursive(
    st.builds(Element, tag=names.map("x".__add__)),
    lambda inner: st.builds(
        Element,
        tag=names.map("x".__add__),
        attributes=st.dictionaries(names, values, max_size=4).map(
            lambda items: tuple(items.items())
        ),
        children=st.lists(inner, max_size=3).map(tuple),
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(elements)
@example(Element(tag="x", attributes=(("a", "tab\there\nand\r\x85 there"),)))
def test_any_element_comes_back_as_it_was(inner: Element) -> None:
    root = Element(tag="system", attributes=(("version", "1"),), children=(inner,))
    assert read(write_topology(root)) == root
