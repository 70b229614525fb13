"""Examples in the help of each command, and of the manual page. A test runs every one."""

from __future__ import annotations

import click

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "gputop": (
        ("gputop", "open the app on this machine"),
        ("gputop --demo sick-h100-8", "open it on a made-up node; no GPU is needed"),
        ("ssh node nvidia-smi topo -m | gputop --from -", "open it on what another one printed"),
        ("gputop -1", "its first lines as text: verdict, jobs, cost, GPUs"),
        ("gputop help check", "the help of a command"),
    ),
    "check": (
        ("gputop check --quick", "read only, in under a second: before a job"),
        ("gputop check --demo sick-h100-8 -v", "a sick node, with the proof and what to do"),
        ("gputop check --expect hgx-h100-8", "compare with what this kind of node should be"),
    ),
    "explain": (
        ("gputop explain 0 5 --demo pcie-l40s-8", "why this pair has no P2P, and what changes it"),
        ("gputop explain --set NCCL_P2P_DISABLE=1", "what a variable would change here"),
        ("gputop explain --against 2.30", "what another version would change"),
    ),
    "flags": (
        ("gputop flags", "what is set here, and what it does"),
        ("gputop flags NCCL_P2P_LEVEL", "one variable, and what each value would do here"),
        ("gputop flags --pid 4711", "what a running process has set"),
    ),
    "jobs": (
        ("gputop jobs", "what runs on the GPUs, and who waits for whom"),
        ("gputop jobs --json", "the same for a program"),
    ),
    "log": (
        ("gputop log nccl.log", "what a log says, the cause first"),
        ("gputop log -", "read it from stdin: paste, then Ctrl+D"),
    ),
    "probe": (
        ("gputop probe --quick", "all links and GPUs, in under a minute"),
        ("gputop probe p2p --gpus 0-3", "one probe on four GPUs"),
        ("gputop probe --demo sick-h100-8", "what it looks like: simulated, no GPU is needed"),
    ),
    "which": (
        ("gputop which 4", "the best four GPUs here and now, with lines to copy"),
        ("gputop which 2 --busy --demo dgx-1v", "as if nobody used any; no GPU is needed"),
    ),
    "cost": (
        ("gputop cost Llama 3 8B", "its layouts over the GPUs here, the fastest that fit first"),
        ("gputop cost Llama 3 70B --nodes 4 --layout tp=8", "some layouts on four nodes"),
        ("gputop cost Llama 3 70B --demo mi300x-8", "no GPU is needed"),
    ),
    "diff": (
        ("gputop diff hgx-h100-8 sick-h100-8", "what is worse on the second; no GPU is needed"),
        ("gputop diff before.json", "a snapshot beside this machine as it is now"),
        ("gputop diff g1.json g2.json", "two nodes by their saved checks"),
    ),
    "metrics": (
        ("gputop metrics --demo sick-h100-8", "what Prometheus would get; no GPU is needed"),
        ("gputop metrics --textfile gputop.prom --once", "for the node exporter, from a timer"),
    ),
    "events": (
        ("gputop events", "what happened here, in time order, with what to do"),
        ("gputop events --since 1h", "in the last hour"),
        ("gputop events --from -", "of a pasted log of the kernel: sudo dmesg | ..."),
    ),
    "watch": (
        ("gputop watch", "a line whenever the node, a fault or a job changes"),
        ("gputop watch --on broken,hang --once", "end at the first of these, with its code"),
        ("gputop watch --demo sick-h100-8 --once", "how a sick node stands; no GPU is needed"),
    ),
    "record": (
        ("gputop record -o night.gtrec", "once a second, until Ctrl+C"),
        ("gputop record -o night.gtrec --duration 8h --max-size 50MB", "until one of the two"),
        ("gputop record --demo hgx-h100-8 -o demo.gtrec --duration 3s", "no GPU is needed"),
    ),
    "replay": (
        ("gputop replay night.gtrec", "in the app, with a time bar"),
        ("gputop replay night.gtrec --list", "what happened, as text"),
        ("gputop replay night.gtrec --export night.csv", "for a spreadsheet; .json for Perfetto"),
        ("gputop check --from night.gtrec --at 21:14:03", "any command, at that time"),
    ),
    "rules": (("gputop rules", "what is checked, and how bad it can be"),),
    "rule": (
        ("gputop rule pcie-width", "why it matters, what proves it, an example"),
        ("gputop rule pcie-width --json", "the same for a program"),
    ),
    "about": (
        ("gputop about H200-SXM", "its data sheet and what healthy ones reach"),
        ("gputop about H100 H200-SXM", "two side by side"),
        ("gputop about ConnectX-7", "a NIC; nodes, links, variables and codes too"),
    ),
    "doctor": (("gputop doctor", "what gputop found here, for a bug report"),),
    "topo": (
        ("gputop topo", "the matrix, as nvidia-smi topo -m prints it"),
        ("gputop topo --format tree", "sockets, switches, GPUs and NICs as a tree"),
        ("gputop topo --format svg > node.svg", "a picture of the node"),
    ),
    "snapshot": (
        ("gputop snapshot -o node.json", "all that is known; gputop --from node.json opens it"),
        ("gputop snapshot --redact", "without host names, serials and addresses"),
    ),
    "probe net": (
        ("gputop probe net --rank 0 --of 2 --meet /shared/meet", "on the first of two nodes"),
        ("gputop probe net --rank 1 --of 2 --meet /shared/meet", "on the second one"),
    ),
    "mcp": (
        ("gputop mcp --redact", "what an agent's client starts"),
        ("gputop mcp --skill", "when to use which tool"),
    ),
    "fleet": (
        ("gputop fleet --demo", "a made-up cluster with some odd nodes"),
        ("gputop fleet results/", "the app on what `gputop check -o` wrote on each node"),
        ("gputop fleet plan results/", "which pairs of nodes to measure next"),
    ),
    "plan": (
        ("gputop fleet plan results/", "the next round, and what is at fault"),
        ("gputop fleet plan results/ --format sbatch", "the next round as a script for Slurm"),
    ),
    "schema": (("gputop schema check", "what the JSON of a check holds"),),
    "completion": (),
}
"""Name of a command -> what somebody may type, with what it is for."""
_BESIDE = 42
"""Columns of an example with its purpose on the same line."""


def lines_of(name: str) -> list[str]:
    """The examples of a command, as lines of at most 80 columns."""
    found = []
    width = max(
        (len(text) for text, _ in EXAMPLES.get(name, ()) if len(text) <= _BESIDE), default=0
    )
    for text, purpose in EXAMPLES.get(name, ()):
        whole = f"{text:<{width}}  {purpose}"
        found += [whole] if len(whole) <= 78 else [text, f"{'':<6}{purpose}"]
    return found


class WithExamples(click.Command):
    """A command whose help ends with examples."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Say of which command a refusal is, where Click leaves that out."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then what else the command has to say."""
        if lines := lines_of(self.name or "gputop"):
            with formatter.section("Examples"):
                for line in lines:
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
        super().format_epilog(ctx, formatter)
