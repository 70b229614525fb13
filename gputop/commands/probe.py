"""`gputop probe`: measure, in another process."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import click
import msgspec

from gputop import __version__
from gputop.clean import clean
from gputop.commands.options import json_option, print_json, say, settle
from gputop.exits import ANSWERED, CANNOT_TELL, FAILURES, INTERRUPTED, USAGE, Exit
from gputop.topology.machine import Machine

if TYPE_CHECKING:
    from gputop.measuring import Told, Wish
    from gputop.probes.interpreters import Choice
    from gputop.probes.protocol import Message
    from gputop.probes.spec import ProbeSpec

EXIT_CODES = {"finished": ANSWERED, "timed-out": FAILURES, "cancelled": INTERRUPTED}
"""By status; every other end leaves the question open."""
LEAVE_SECONDS = 10.0
"""After Ctrl+C the worker has this long to go; a driver call may hold it."""


@click.command("probe")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@json_option
@click.option("--list", "listing", is_flag=True, help="Say what can be measured and what it costs.")
@click.option("--gpus", metavar="LIST", help="Indices as nvidia-smi counts, addresses or UUIDs.")
@click.option("--python", "python", metavar="PATH", help="Measure with the torch of this Python.")
@click.option("--force", is_flag=True, help="Measure although a GPU is in use.")
@click.option("--selftest", is_flag=True, help="Try the machinery on the CPU; measures no GPU.")
@click.option("--trace", is_flag=True, help="Name the kernels that ran (profiles one pair).")
@click.option(
    "--deadline", type=click.FloatRange(1, 86400), metavar="SECONDS", help="Give up after this."
)
@click.pass_context
def command(
    context: click.Context,
    names: tuple[str, ...],
    as_json: bool,
    listing: bool,
    gpus: str | None,
    python: str | None,
    force: bool,
    selftest: bool,
    trace: bool,
    deadline: float | None,
) -> None:
    """Measure the wires between GPUs. Without a name, everything that can be measured here."""
    from gputop.probes import catalog

    if listing:
        _list(as_json)
        return
    unknown = [name for name in names if name not in catalog.NAMES]
    if unknown:
        raise Exit(f"no probe {unknown[0]!r}; there are: {', '.join(catalog.NAMES)}", USAGE)
    machine = Machine() if selftest else _machine()
    addresses = _addresses(gpus, machine, selftest=selftest)
    codes = [
        _measure(
            name,
            machine,
            addresses,
            as_json=as_json,
            python=python,
            force=force,
            selftest=selftest,
            deadline=deadline,
            params={"trace": True} if trace else {},
        )
        for name in names or catalog.NAMES
    ]
    context.exit(max(codes))


def _list(as_json: bool) -> None:
    from gputop.probes import catalog

    specs: list[ProbeSpec] = [catalog.load(name).SPEC for name in catalog.NAMES]
    if as_json:
        print_json(
            {
                "schema": "gputop.probes/1",
                "gputop": __version__,
                "source": [],
                "assumptions": [],
                "probes": specs,
            }
        )
        return
    for spec in specs:
        click.echo(f"{spec.name:<8} {spec.title}")
        click.echo(f"{'':<8} {spec.measures}")
        gib = spec.memory_bytes_per_gpu / (1 << 30)
        costs = ", ".join(
            f"{spec.estimate_seconds(gpus):.0f} s on {gpus} GPUs" for gpus in (2, 4, 8)
        )
        click.echo(
            f"{'':<8} needs {spec.minimum_gpus} GPUs and {gib:.1f} GiB on each; about {costs}"
        )


def _machine() -> Machine:
    """The GPUs as the drivers name them, with the links that say which pairs are alike."""
    from gputop.topology.watch import LiveFeed, load_sources

    snapshot = settle(LiveFeed(load_sources(("nvml", "pci")), thorough=True))
    if not snapshot.machine.gpus:
        reasons = "; ".join(problem.text for problem in snapshot.problems)
        raise Exit(f"no GPU to measure{': ' + reasons if reasons else ''}", CANNOT_TELL)
    return snapshot.machine


def _addresses(gpus: str | None, machine: Machine, *, selftest: bool) -> tuple[str, ...]:
    from gputop.selection import SelectionError, select

    if selftest:
        return ()
    try:
        return select(gpus, machine)
    except SelectionError as error:
        raise Exit(str(error), USAGE) from error


def _measure(
    probe: str,
    machine: Machine,
    addresses: tuple[str, ...],
    *,
    as_json: bool,
    python: str | None,
    force: bool,
    selftest: bool,
    deadline: float | None,
    params: dict[str, Any],
) -> int:
    """Run one probe, print what it gave, and give the exit code."""
    from gputop.figures import tables
    from gputop.measuring import measure, wish_for

    wish = wish_for(
        probe,
        machine,
        addresses,
        force=force,
        selftest=selftest,
        python=python,
        deadline_seconds=deadline,
        params=tuple(params.items()),
    )
    names = dict(wish.names)
    cancel = threading.Event()
    told: list[Told] = []
    failed: list[BaseException] = []
    done = threading.Event()
    reporter = _Reporter()

    def run() -> None:
        try:
            told.append(measure(wish, reporter.hear, cancel, reporter.started))
        except BaseException as error:  # noqa: BLE001 - handed to the main thread
            failed.append(error)
        finally:
            done.set()

    # Off the main thread, so that Ctrl+C reaches us while the worker is in a driver call.
    thread = threading.Thread(target=run, name=f"probe {probe}", daemon=True)
    thread.start()
    # Not join(): interrupted, it takes the thread for ended (Python 3.11, bpo-45274).
    try:
        while not done.wait(0.1):
            pass
    except KeyboardInterrupt:
        cancel.set()
        done.wait(LEAVE_SECONDS)
    reporter.close()
    if failed:
        raise failed[0]
    if not told:
        return INTERRUPTED
    if as_json:
        print_json(_document(wish, told[0]))
    elif told[0].measurements:
        click.echo(tables(told[0].measurements, names))
    for text in told[0].blind:
        say(f"note: {text}")
    for note in told[0].outcome.notes:
        say(f"note: {note.text}")
    outcome = told[0].outcome
    say(f"{probe}: {outcome.message}")
    code = EXIT_CODES.get(outcome.status, CANNOT_TELL)
    wrong = any(figure.verdict in ("wrong-bytes", "wrong-data") for figure in told[0].measurements)
    return max(code, FAILURES) if wrong and code in (ANSWERED, FAILURES) else code


def _document(wish: Wish, told: Told) -> dict[str, Any]:
    """The answer as one JSON object, schema gputop.probe/1."""
    outcome = told.outcome
    return {
        "schema": "gputop.probe/1",
        "gputop": __version__,
        "source": ["live"],
        "assumptions": list(told.blind),
        "probe": wish.probe,
        "gpus": list(wish.addresses),
        "status": outcome.status,
        "message": outcome.message,
        "elapsed_seconds": outcome.elapsed_seconds,
        "interpreter": None
        if told.choice is None or told.choice.chosen is None
        else {"path": told.choice.chosen.path, "how_found": told.choice.chosen.how_found},
        "versions": dict(told.measurements[0].versions) if told.measurements else {},
        "measurements": [msgspec.to_builtins(figure) for figure in told.measurements],
        "notes": [
            {"topic": note.topic, "text": note.text, "details": dict(note.details)}
            for note in outcome.notes
        ],
    }


class _Reporter:
    """Progress for people: one line that is written over on a terminal, silence otherwise."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._open = False

    def started(self, choice: Choice) -> None:
        for line in choice.sentences():
            say(line)

    def hear(self, message: Message) -> None:
        from gputop.probes.protocol import Progress

        if self._terminal and isinstance(message, Progress):
            text = clean(f"{message.done}/{message.total} {message.what}", 100)
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._open = True

    def close(self) -> None:
        if self._open:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._open = False
