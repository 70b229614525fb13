"""gputop as a library: cheap to import, typed, and with the answers of the commands."""

from __future__ import annotations

import copy
import doctest
import io
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import gputop
from gputop import library
from gputop.answers import QUESTIONS
from gputop.answers.question import Reply
from gputop.exits import CANNOT_TELL, USAGE
from gputop.topology.recorded.demos.demo import names
from tests.grid import share
from tests.support.command import gputop_here
from tests.support.places import RECORDINGS, ROOT

PAGE = ROOT / "docs" / "library.md"
HEAVY = ("textual", "networkx", "torch", "rich")
DEMO = "hgx-h100-8"
SNAPSHOT = RECORDINGS / "hgx-h200-4gpu-live" / "snapshot.json"
START = """
import sys
from tests.support.cpu import within
before = set(sys.modules)
with within({limit}):
    {what}
print(*sorted(set(sys.modules) - before))
"""
SCRIPT = Path(__file__).with_name("users_script.py")


def loaded(what: str, limit: float) -> set[str]:
    """The modules that a start of Python loads for this, within seconds of CPU."""
    done = subprocess.run(
        [sys.executable, "-c", START.format(what=what, limit=limit)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_the_import_takes_milliseconds_and_nothing_heavy() -> None:
    found = loaded("import gputop", 0.1)
    assert found == {"gputop"}


def test_reading_this_machine_takes_no_app_and_no_graph() -> None:
    found = loaded("import gputop; gputop.read()", 0.4)
    assert not found.intersection(HEAVY)
    assert "gputop.topology.nccl.prediction" not in found


def test_every_example_of_the_page_and_of_the_docstrings_works() -> None:
    text = PAGE.read_text("utf-8")
    assert len(text.splitlines()) <= 150
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    page = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, str(PAGE), 0)
    assert len(page.examples) > 15
    assert doctest.DocTestRunner().run(page).failed == 0
    assert doctest.testmod(library).failed == 0


def test_every_name_is_marked_and_on_the_page() -> None:
    text = PAGE.read_text("utf-8")
    public = [getattr(library, name) for name in library.__all__ if name != "GputopError"]
    methods = [value for name, value in vars(library.NodeAnswers).items() if name[0] != "_"]
    for thing in (*public, *methods):
        told = thing.__doc__ or ""
        assert re.search(r"\b(Stable|Provisional)\.", told), told
        name = (
            getattr(thing, "__name__", None)
            or getattr(thing, "attrname", "")
            or thing.fget.__name__
        )
        assert name in text
    assert set(gputop.__all__) == {"__version__", *library.__all__}
    assert set(library.__all__) <= set(dir(gputop))
    with pytest.raises(AttributeError):
        _ = getattr(gputop, "no_such_name")  # noqa: B009 - mypy knows that there is none


def test_a_users_script_runs() -> None:
    """That it is typed says mypy, which the gate runs over all of tests/."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(SNAPSHOT)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == gputop_here("check", "--quick", "--from", str(SNAPSHOT)).returncode
    assert done.stdout.startswith("{'0000:")


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (("explain", "--json"), lambda node: node.explain()),
        (("check", "--quick", "--json"), lambda node: node.check()),
        (("jobs", "--json"), lambda node: node.jobs()),
        (("metrics", "--json"), lambda node: node.metrics()),
        (("events", "--json"), lambda node: node.events()),
    ],
)
def test_an_answer_is_the_document_of_its_command(
    command: tuple[str, ...], answer: Callable[[gputop.NodeAnswers], Reply]
) -> None:
    said = json.loads(gputop_here(*command, "--demo", DEMO).stdout)
    told = json.loads(gputop.as_json(answer(gputop.demo(DEMO))))
    for document in (said, told):  # when it was read is a series of its own
        document["families"] = [
            one for one in document.get("families", ()) if "timestamp" not in one["name"]
        ]
    for changing in ("taken_at", "elapsed_seconds", "fleet"):
        for document in (said, told):
            document.pop(changing, None)
    assert told == said


DOORS = {
    "check": "check", "explain": "explain", "jobs": "jobs", "which": "which", "cost": "cost",
    "metrics": "metrics", "events": "events", "about": "figures", "log": "read_text",
    "diff": "diff",
}  # fmt: skip
"""Command -> what gives its answer in Python."""
NO_DOOR = {
    "flags": "explain(env=...) predicts with other variables; the catalogue is docs/variables.md",
    "probe": "check(measure=True) measures; a probe by itself is a process with a page of its own",
    "watch": "a loop of the caller's with read, check and diff",
    "record": "it writes for hours; gputop.load(file) reads the last moment of what it kept",
    "rules": "findings name their rules; the list is docs/rules.md",
    "rule": "the same",
    "doctor": "about the installation of gputop, for a bug report",
}


def test_every_question_has_a_door_or_a_reason_why_not() -> None:
    assert set(QUESTIONS) == {*DOORS, *NO_DOOR}
    for name in DOORS.values():
        assert hasattr(library.NodeAnswers, name) or name in library.__all__


def test_two_nodes_are_compared_as_by_the_command() -> None:
    said = json.loads(gputop_here("diff", DEMO, "sick-h100-8", "--json").stdout)
    told = json.loads(gputop.as_json(gputop.diff(gputop.demo(DEMO), gputop.demo("sick-h100-8"))))
    for document in (said, told):
        document["before"].pop("taken_at")
        document["now"].pop("taken_at")
    assert told == said


def test_two_readings_of_one_name_are_told_apart() -> None:
    for node in (gputop.demo(DEMO), gputop.load(PASTED), gputop.read()):
        found = gputop.diff(node, copy.copy(node))
        assert (str(found.verdict), found.changes, found.came) == ("same", (), ())
        assert found.source[0].removesuffix("before") == found.source[1].removesuffix("now")
        assert found.source[0] != found.source[1]
        assert pickle.loads(pickle.dumps(found)) == found
    with pytest.raises(TypeError, match="takes two nodes, not str"):
        gputop.diff(gputop.demo(DEMO), "hgx-h100-8")  # type: ignore[arg-type]


def test_a_call_asks_for_what_nccl_would_do_with_that_size() -> None:
    node = gputop.demo(DEMO)
    for choice in node.explain().choices:
        assert node.explain(choice.collective, choice.bytes).choices == (choice,)
    (small,) = node.explain("AllGather", 1 << 10).choices
    assert small.bytes == 1 << 10
    one = gputop.demo("mi300x-8").explain("ReduceScatter", 1 << 20)
    assert all(choice.collective == "ReduceScatter" for choice in one.choices)


def test_unknown_stays_unknown() -> None:
    node = gputop.load("\tGPU0\tGPU1\nGPU0\t X \tSYS\nGPU1\tSYS\t X \n")
    pair = node.p2p(0, 1)
    assert pair.granted is None
    assert node.nic_of(0).nic is None
    assert node.numa_of(0).numa_node is None
    assert node.env_for("gloo").variables == {}
    assert node.check().exit_code == CANNOT_TELL


def test_nvshmem_has_no_variables_on_amd() -> None:
    answer = gputop.demo("mi300x-8").env_for("nvshmem")
    assert answer.variables == {}
    assert answer.why == ("NVSHMEM runs on NVIDIA GPUs alone",)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (lambda: gputop.load("no/such/file"), USAGE),
        (lambda: gputop.load("-"), USAGE),
        (lambda: gputop.demo(None), USAGE),  # type: ignore[arg-type]
        (lambda: gputop.demo(DEMO).explain(gpus=[]), USAGE),
        (lambda: gputop.demo(DEMO).explain(env={"NCCL_ALGO": None}), USAGE),  # type: ignore[dict-item]
        (lambda: gputop.load("{}"), CANNOT_TELL),
        (lambda: gputop.load(""), USAGE),
        (lambda: gputop.demo("no-such-demo"), USAGE),
        (lambda: gputop.demo(DEMO).gpu(99), USAGE),
        (lambda: gputop.demo(DEMO).gpu("0,1"), USAGE),
        (lambda: gputop.demo(DEMO).nic_of("0-3"), USAGE),
        (lambda: gputop.demo(DEMO).p2p("0,1", 2), USAGE),
        (lambda: gputop.demo(DEMO).p2p(1, 1), USAGE),
        (lambda: gputop.demo(DEMO).p2p(1, "nvml:1"), USAGE),
        (lambda: gputop.demo(DEMO).explain("AllReduce"), USAGE),
        (lambda: gputop.demo(DEMO).explain("Gather", 8), USAGE),
        (lambda: gputop.demo(DEMO).explain("AllReduce", 0), USAGE),
        (lambda: gputop.demo(DEMO).explain(nodes=0), USAGE),
        (lambda: gputop.demo(DEMO).explain(nodes=2000), USAGE),
        (lambda: gputop.demo(DEMO).explain(env={"A=B": "1"}), USAGE),
        (lambda: gputop.demo(DEMO).env_for("mpi"), USAGE),
        (lambda: gputop.demo(DEMO).cost("Llama 9"), USAGE),
        (lambda: gputop.demo(DEMO).cost("Llama 3 8B", nodes=0), USAGE),
        (lambda: gputop.demo(DEMO).cost("Llama 3 8B", nodes=10**9), USAGE),
        (lambda: gputop.demo(DEMO).cost("Llama 3 8B", dtype="int3"), USAGE),
        (lambda: gputop.demo(DEMO).cost("Llama 3 8B", layout="tp=3"), USAGE),
        (lambda: gputop.demo(DEMO).cost("Llama 3 8B", env={"A=B": "1"}), USAGE),
        (lambda: gputop.demo(DEMO).cost("mine", config="{"), CANNOT_TELL),
        (lambda: gputop.load(SNAPSHOT).check(measure=True), USAGE),
        (lambda: gputop.read_text("nothing of a library"), CANNOT_TELL),
        (lambda: gputop.read_text("x NCCL WARN y", library="nccl-0"), USAGE),
    ],
)
def test_an_error_is_a_sentence_with_an_exit_code(wrong: Callable[[], object], code: int) -> None:
    with pytest.raises(gputop.GputopError) as caught:
        wrong()
    assert caught.value.exit_code == code
    assert "\n" not in str(caught.value)


def test_a_text_that_has_no_encoding_is_read() -> None:
    text = "host:1:1 [0] NCCL WARN Cuda failure 'out of memory' \udcff"
    assert "cuda-out-of-memory" in gputop.as_json(gputop.read_text(text))
    matrix = "\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n\udcff\n"
    assert len(gputop.load(matrix).gpus) == 2


def test_a_log_is_laid_over_the_node_that_is_given() -> None:
    log = RECORDINGS / "nccl-logs" / "h200-default.log.gz"
    told = gputop.read_text(log.read_bytes(), gputop.demo(DEMO))
    assert told.document()["schema"] == "gputop.log/1"
    assert gputop.read_text(log, gputop.demo(DEMO)).document()["findings"] is not None


PASTED = "\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n"


def test_a_text_is_called_a_text_and_not_stdin() -> None:
    node = gputop.load(PASTED)
    assert (node.snapshot.source, node.p2p(0, 1).source) == (("text",), ("text",))
    with pytest.raises(gputop.GputopError, match=r"^text: not a format"):
        gputop.load("nothing of ours\n")


def test_a_gpu_is_named_by_its_record_too() -> None:
    node = gputop.demo(DEMO)
    one, other = node.gpus[2], node.gpus[5]
    assert node.gpu(one) == one
    assert node.p2p(one, other) == node.p2p(2, 5)
    assert node.nic_of(one) == node.nic_of(2)
    some = [pair.src_bus_id for pair in node.explain(gpus=[one, other]).pairs]
    assert some == [one.address, other.address]
    assert [pair.src_bus_id for pair in node.explain(gpus="2,5").pairs] == some


def test_a_node_can_be_handed_to_another_process_and_copied() -> None:
    node = gputop.demo(DEMO)
    before = node.p2p(0, 1)
    for other in (pickle.loads(pickle.dumps(node)), copy.deepcopy(node), copy.copy(node)):
        assert other.p2p(0, 1) == before
        assert repr(other) == "<NodeAnswers of demo hgx-h100-8: 8 × NVIDIA H100 80GB HBM3>"
    for answer in (before, node.check(), node.explain(), node.which(2), node.env_for("ucx")):
        assert pickle.loads(pickle.dumps(answer)) == answer


def test_what_is_no_path_no_text_and_no_answer_is_said_so() -> None:
    odd: list[object] = [None, 5, ["a"], {}, io.StringIO(PASTED)]
    for given in odd:
        for call in (gputop.load, gputop.read_text):
            with pytest.raises(
                TypeError, match=f"takes a path or a text, not {type(given).__name__}"
            ):
                call(given)  # type: ignore[arg-type]
    node = gputop.demo(DEMO)
    assert gputop.as_json(node.snapshot) == gputop.as_json(node)
    for thing in (node.gpus, node.gpus[0], *odd):
        with pytest.raises(TypeError, match="takes an answer or a node, not"):
            gputop.as_json(thing)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", share(names(), 3))
def test_no_answer_says_a_sentence_twice(name: str) -> None:
    node = gputop.demo(name)
    ends = [(0, peer) for peer in range(1, len(node.gpus))]
    answers = [node.check(), node.explain(), node.which(2), node.jobs(), node.cost("Llama 3 8B")]
    answers += [node.p2p(*pair) for pair in ends]
    answers += [ask(gpu) for gpu in node.gpus for ask in (node.nic_of, node.numa_of)]
    answers += [node.env_for(library) for library in ("nccl", "ucx", "nvshmem", "gloo")]
    for answer in answers:
        for field in ("assumptions", "why", "references", "notes"):
            said = [str(line).rstrip(".") for line in getattr(answer, field, ())]
            assert len(set(said)) == len(said), (type(answer).__name__, field, said)


def test_the_library_prints_nothing(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(RECORDINGS)
    gputop.read().check()
    folders = [gputop.load("hgx-h200-4gpu-live"), gputop.load("nvidia-public"), gputop.load("ras")]
    monkeypatch.chdir(tmp_path)
    assert any(node.problems for node in folders)
    for node in folders:
        node.check()
        node.jobs()
        node.metrics()
        gputop.diff(node, gputop.read())
    gputop.demo(DEMO).check(measure=True)
    for name in ("behind.txt", "killed.txt"):
        saved = (RECORDINGS / "ras" / name).read_text()
        gputop.read_text(f"{saved}\n{saved[: len(saved) // 2]}")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: gputop.load("no/such/file"),
        lambda: gputop.load("{}"),
        lambda: gputop.demo(DEMO).p2p(0, 0),
        lambda: gputop.read_text("nothing of ours"),
    ],
)
def test_an_error_reaches_another_process_whole(wrong: Callable[[], object]) -> None:
    with pytest.raises(gputop.GputopError) as caught:
        wrong()
    cause = caught.value.__cause__
    for error in (caught.value, *((cause,) if isinstance(cause, gputop.GputopError) else ())):
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
            assert (type(again), str(again)) == (type(error), str(error))
            assert (again.exit_code, vars(again)) == (error.exit_code, vars(error))
