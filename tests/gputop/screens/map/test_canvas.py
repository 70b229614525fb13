"""The cells of a drawing: junctions, marks, plain terminals, hostile names."""

from __future__ import annotations

from gputop.screens.map.canvas import Canvas, Marks, runs
from gputop.screens.map.facts import DOT, fact_lines
from gputop.topology.sketch.drawing import Box, BoxKind, Drawing, Line
from gputop.topology.sketch.layout import fitting
from gputop.topology.wiring.wires import WireKind
from gputop.widgets.spans import text_of
from tests.support.app import demo_report
from tests.topology.sketch import graphs


def test_a_bridged_pair_as_text() -> None:
    drawing = fitting(graphs.bridged().graph, 60, 20)
    lines = Canvas(drawing, Marks()).text().splitlines()
    body = [line.strip() for line in lines if line.strip()]
    assert body[0].startswith("╭")
    assert body[0].endswith("╮")
    assert body[-1].startswith("╰")
    assert "NV4 100" in body[-1]
    assert body[-1].endswith("╯")
    assert body[2].count("┬") == 2
    assert "┴" in "".join(body)


def test_lines_that_cross_are_no_corner() -> None:
    boxes = tuple(
        Box(name, (name,), BoxKind.GPU, x, y, 1, 1, (name,))
        for name, x, y in (("a", 0, 2), ("b", 4, 2), ("c", 2, 0), ("d", 2, 4))
    )
    lines = (
        Line(("a", "b"), ((0, 2), (4, 2)), WireKind.PCIE, frozenset([frozenset("ab")])),
        Line(("c", "d"), ((2, 0), (2, 4)), WireKind.NVLINK, frozenset([frozenset("cd")])),
    )
    drawing = Drawing(5, 5, boxes, lines)
    assert Canvas(drawing, Marks()).text() == "  c\n  │\na─┼─b\n  │\n  d"
    lit = Marks(path=frozenset([frozenset("ab")]))
    assert Canvas(drawing, lit).text() == "  c\n  │\na━┿━b\n  │\n  d"


def test_a_plain_terminal_gets_ascii_only() -> None:
    text = Canvas(fitting(graphs.cube().graph, 160, 43), Marks(), ascii_only=True).text()
    assert text.isascii()
    assert "+--" in text
    assert "GPU7" in text
    assert "NV2 50" in text


def test_names_from_devices_are_plain_text() -> None:
    maker = graphs.flat(1, 0)
    maker.graph.nodes[maker.gpus[0]]["label"] = "\x1b[31mG\u202e界"
    drawing = fitting(maker.graph, 80, 24)
    text = Canvas(drawing, Marks()).text()
    assert "\x1b" not in text
    assert "\u202e" not in text
    widths = {len(row) for row in Canvas(drawing, Marks()).rows}
    assert widths == {drawing.width}


def test_marks_change_styles() -> None:
    maker = graphs.switched(4)
    a, b = maker.gpus[:2]
    drawing = fitting(maker.graph, 160, 43)
    edge_a, edge_b = (frozenset((gpu, "nvswitch fabric")) for gpu in (a, b))
    marks = Marks(a, b, frozenset([edge_a, edge_b]), frozenset([edge_b]), frozenset([a, b]))
    canvas = Canvas(drawing, marks)
    styles = {style for row in canvas.rows for _, style in row}
    assert {"cursor", "cursor-frame", "first", "path", "bottleneck"} <= styles
    assert "┃" in canvas.text()


def test_runs_join_neighbours_of_one_style() -> None:
    cells = [("a", "x"), ("b", "x"), ("c", ""), ("d", "x")]
    assert runs(cells) == [("ab", "x"), ("c", ""), ("d", "x")]
    assert runs([]) == []


def test_what_a_switch_lacks_stands_out_from_the_rest_of_its_box() -> None:
    for size, short in (((160, 43), "bad"), ((80, 16), "short-chip")):
        drawing = fitting(demo_report("sick-h100-8").graph, *size)
        rows = [runs(row) for row in Canvas(drawing, Marks()).rows]
        (row,) = (row for row in rows if any("NVSwitches" in text for text, _ in row))
        assert [style for text, style in row if "GPU3: 16 of 18 !" in text] == [short]
        assert not any(style == short for text, style in row if "NVSwitches" in text)


def test_facts_break_between_each_other() -> None:
    line = (
        ("  ", ""),
        ("one fact", ""),
        DOT,
        ("two of them", ""),
        DOT,
        ("a third that is long", ""),
    )
    assert [text_of(row).rstrip() for row in fact_lines(line, 26)] == [
        "  one fact · two of them",
        "  a third that is long",
    ]
    assert [text_of(row).rstrip() for row in fact_lines(line, 14)][-2:] == [
        "  a third that",
        "  is long",
    ]
