"""`gputop check`: diagnoses the node and sets an exit code."""

from __future__ import annotations

import time
from pathlib import Path

import click

from gputop.checking.check import Wanted
from gputop.checking.origin import origin
from gputop.checking.policy import site
from gputop.checking.rules import RULES
from gputop.commands.check.run import Order, carry_out
from gputop.commands.options import (
    completing,
    deadline_option,
    gpus_option,
    json_option,
    measuring_options,
    source_options,
)
from gputop.exits import USAGE, Exit
from gputop.terminal.clean import clean
from gputop.terminal.nearest import did_you_mean

_RECORDED = "nothing measured: a recording is only read"


@click.command("check")
@source_options
@json_option
@click.option("--list", "listing", is_flag=True, help="List the checks and exit.")
@click.option("--quick", is_flag=True, help="Read only: no load on the GPUs, takes under a second.")
@click.option("--full", is_flag=True, help="Measure everything at every size; takes minutes.")
@click.option(
    "--probe",
    metavar="NAMES",
    shell_complete=completing("probe_list"),
    help="Measure with these probes only, such as p2p,gemm.",
)
@gpus_option("Check")
@measuring_options
@click.option(
    "--expect",
    metavar="SHAPE",
    shell_complete=completing("references"),
    help="Compare with a reference node (dgx-h100, aws-p5.48xlarge, ...) or with the snapshot "
    "of a healthy node.",
)
@click.option(
    "--since",
    metavar="FILE",
    shell_complete=completing("files"),
    help="Earlier snapshot: report how much error counters have grown since then.",
)
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    metavar="ID[=REASON]",
    shell_complete=completing("rules"),
    help="Silence a check; it stays listed, as silenced. May be repeated.",
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Policy file; by default /etc/gputop/check.toml and check.toml in your configuration "
    "folder.",
)
@click.option(
    "--junit",
    metavar="FILE",
    shell_complete=completing("files"),
    help="Also write a JUnit file, one test case per check.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    shell_complete=completing("files"),
    help="Write the JSON to FILE, packed if it ends in .gz; %n is the node, %j the job. Its last "
    "folder is made.",
)
@click.option("--snapshot", "with_snapshot", is_flag=True, help="Put the snapshot into the JSON.")
@click.option(
    "--redact",
    is_flag=True,
    help="Replace names in the JSON, alike in all files of a fleet.",
)
@deadline_option(2, "End within this time whatever hangs, with an answer.")
@click.option("-v", "--verbose", is_flag=True, help="Show evidence, impact and what to do.")
@click.pass_context
def command(
    context: click.Context,
    sources: tuple[str, ...],
    demo: str | None,
    as_json: bool,
    listing: bool,
    quick: bool,
    full: bool,
    probe: str | None,
    gpus: str | None,
    force: bool,
    python: str | None,
    expect: str | None,
    since: str | None,
    ignored: tuple[str, ...],
    config: Path | None,
    junit: str | None,
    output: str | None,
    with_snapshot: bool,
    redact: bool,
    deadline: float | None,
    verbose: bool,
) -> None:
    """Check the node: what is wrong, the proof, and one verdict.

    Idle GPUs are measured for some seconds, unless --quick. Exit codes: 0 healthy, 1 slow,
    2 broken, 3 cannot tell.
    """
    if listing:
        from gputop.commands.check.list import print_list

        print_list(RULES, as_json=as_json)
        return
    recorded = bool(sources or demo)
    probes = _probes(probe)
    if quick and full:
        raise Exit("use --quick or --full, not both", USAGE)
    if probes and (quick or full):
        raise Exit("--probe says what is measured: leave out --quick and --full", USAGE)
    if recorded and (full or force or python or probes):
        raise Exit(
            "a recording cannot be measured: leave out --full, --probe, --force and --python", USAGE
        )
    if quick and (force or python):
        raise Exit("--quick does not measure: leave out --force and --python", USAGE)
    in_json = as_json or output is not None
    if (redact or with_snapshot) and not in_json:
        raise Exit("--redact and --snapshot are about the JSON: add --json or -o", USAGE)
    if expect == "":
        # An empty value is often an unset variable of a script; it must not expect nothing.
        raise Exit("--expect needs a name", USAGE)
    started = time.monotonic()
    decided = site(config, ignored, RULES)
    wanted = Wanted(
        sources=sources,
        demo=demo,
        since=since,
        # A demo is not a node of the site.
        expect=expect or ("" if demo else decided.expect),
        gpus=gpus,
        mode="quick" if quick or recorded else "full" if full else "default",
        force=force,
        python=python,
        policy=decided.policy,
        files=decided.files,
        probes=probes,
        origin=origin() if in_json else None,
        with_snapshot=with_snapshot,
        notes=(
            *decided.notes,
            *((_RECORDED,) if recorded and not quick else ()),
        ),
    )
    context.exit(
        carry_out(
            Order(
                wanted=wanted,
                as_json=as_json,
                verbose=verbose,
                junit=junit,
                output=output,
                redact=redact,
                deadline_seconds=deadline,
            ),
            started,
        )
    )


def _probes(text: str | None) -> tuple[str, ...]:
    """The names in --probe. Raises Exit for one that is unknown."""
    if text is None:
        return ()
    from gputop.probes import catalog

    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise Exit("--probe needs a name", USAGE)
    for name in names:
        if name not in catalog.NAMES:
            hint = did_you_mean(name, catalog.NAMES) or "; `gputop probe --list` lists them"
            raise Exit(f"--probe: no probe {clean(name, 60)!r}{hint}", USAGE)
    return names
