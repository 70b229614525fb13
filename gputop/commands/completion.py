"""`gputop completion`: the script that makes a shell complete commands, options and values."""

from __future__ import annotations

import os

import click
from click.shell_completion import (
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    split_arg_string,
)

from gputop.commands.examples import WithExamples
from gputop.exits import ANSWERED, USAGE
from gputop.terminal.output import print_document

PROGRAM = "gputop"
VARIABLE = "_GPUTOP_COMPLETE"
"""What a script sets to ask for completions: "bash_complete", or "bash_source" for the script."""
_BASH = """\
%(complete_func)s() {
    local line value
    COMPREPLY=()
    while IFS= read -r line; do
        value=${line#*,}
        case ${line%%%%,*} in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                COMPREPLY+=("$value")
                [[ $value == *= ]] && compopt -o nospace
                ;;
        esac
    done < <(GPUTOP_LINE="${COMP_LINE:0:COMP_POINT}" GPUTOP_BREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null)
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""
_ZSH = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local -a plain described open response
    local kind key text
    (( ! $+commands[%(prog_name)s] )) && return 1
    [[ $PREFIX == --*=* ]] && compset -P 1 '*='
    response=("${(@f)$(COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) \\
        %(complete_var)s=zsh_complete %(prog_name)s 2>/dev/null)}")
    for kind key text in ${response}; do
        if [[ "$kind" == "dir" ]]; then
            _path_files -/
        elif [[ "$kind" == "file" ]]; then
            _path_files -f
        elif [[ "$key" == *= ]]; then
            open+=("$key")
        elif [[ "$text" == "_" ]]; then
            plain+=("$key")
        else
            described+=("$key":"$text")
        fi
    done
    (( $#described )) && _describe -V unsorted described -U -i "$IPREFIX"
    (( $#plain )) && compadd -U -i "$IPREFIX" -V unsorted -a plain
    (( $#open )) && compadd -U -i "$IPREFIX" -V unsorted -S '' -a open
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""
_FISH = """\
function %(complete_func)s
    set -l found (env %(complete_var)s=fish_complete COMP_WORDS=(commandline -cp) \\
        COMP_CWORD=(commandline -t) %(prog_name)s 2>/dev/null)
    set -l option (string match -r -- '^--[^=]+=' (commandline -ct))
    for line in $found
        set -l parts (string split -m 1 "," -- $line)
        switch $parts[1]
            case dir
                __fish_complete_directories $parts[2] | string replace -r -- '^' "$option"
            case file
                __fish_complete_path $parts[2] | string replace -r -- '^' "$option"
            case plain
                echo "$option$parts[2]"
        end
    end
end
complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""


_WHERE = """\b
bash  gputop completion bash > ~/.local/share/bash-completion/completions/gputop
zsh   gputop completion zsh > "${fpath[1]}/_gputop"
fish  gputop completion fish > ~/.config/fish/completions/gputop.fish"""


class Bash(ShellComplete):
    """Bash, which cuts words at "=" and ":" and wants only what follows the last of them."""

    name = "bash"
    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Read the line up to the cursor."""
        # One more letter tells whether a blank at the end begins a word or is part of a quoted one.
        words = split_arg_string(f"{os.environ.get('GPUTOP_LINE', '')}x")[1:]
        return words[:-1], words[-1][:-1] if words else ""

    def format_completion(self, item: CompletionItem[str]) -> str:
        """One line: kind and value."""
        _, typed = self.get_completion_args()
        breaks = set(os.environ.get("GPUTOP_BREAKS", "=:")) & set("=:")
        cut = max((typed.rfind(mark) + 1 for mark in breaks), default=0)
        option, equals, _ = typed.partition("=")
        whole = f"{option}={item.value}" if equals and option.startswith("--") else item.value
        kept = whole[:cut].lower() == typed[:cut].lower()
        return f"{item.type},{whole[cut:] if kept else item.value}"


class Zsh(ZshComplete):
    """Zsh, with a script that leaves no blank behind NAME=."""

    source_template = _ZSH


class Fish(FishComplete):
    """Fish, with a script that takes commas in values."""

    source_template = _FISH


SHELLS: dict[str, type[ShellComplete]] = {"bash": Bash, "zsh": Zsh, "fish": Fish}


def answer(root: click.Command, instruction: str) -> int:
    """Answer a shell: what `instruction` asks for, "bash_complete" or "bash_source"."""
    shell, _, what = instruction.partition("_")
    if shell not in SHELLS or what not in ("complete", "source"):
        return USAGE
    complete = _of(shell, root)
    print_document(complete.source() if what == "source" else complete.complete() + "\n")
    return ANSWERED


def _of(shell: str, root: click.Command) -> ShellComplete:
    return SHELLS[shell](root, {}, PROGRAM, VARIABLE)


@click.command("completion", cls=WithExamples, epilog=_WHERE)
@click.argument("shell", type=click.Choice(tuple(SHELLS)))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    It completes commands, options and values: demos, variables, probes, rules and GPUs. Write it
    where the shell looks, then open a new shell.
    """
    print_document(_of(shell, context.find_root().command).source())
