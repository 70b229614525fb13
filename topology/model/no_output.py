"""Lines with a message that nobody printed: commands and source that hold it.

What has the head of a log's line, or begins with the message, was printed.
"""

import re
from functools import lru_cache

_PROMPT = (
    r"^\W{0,3}(?:\([\w.-]{1,40}\) ?)?(?:\[?[\w.-]{1,40}@[\w.-]{1,64}[^$#\n]{0,80})?[$#%] +"
    r"(?:sudo +)?"
)
_BEFORE = r"^\s*(?:\d{1,6}(?:[:|]| +)\s*|-{1,6}> *(?:\d{1,6} +)?|> +(?:\d{1,6} +)?|[+-] *|\| *)?\s*"
"""What stands before a line of source: its number, a debugger's arrow, the sign of a diff."""
_STATEMENT = (
    r"(?:raise\b|assert\b.*[\"']|throw [\w:]{1,60}\(|(?:f|s|sn|k)?printk?f?\("
    r"|(?:std::)?c(?:err|out) *<<"
    r"|(?:\w{1,30}\.)?logg(?:er|ing)\.\w{1,20}\(|log\.\w{1,20}\(|warnings\.warn\(|fmt\.\w{1,20}\("
    r"|(?:el)?if\b.*(?:\bin str\(|\)\s*:\s*$|\bin \w{1,40}:\s*$|[\w\"']:\s*$"
    r"|\{\s*$|; *then\b|\)\s*f?printf\()"
    r"|(?:if|while|until) .{0,80}\b[ezr]?grep\b|except\b.*:\s*(?:#.*)?$|catch *\("
    r"|return +(?:f?[\"']|\w+;)|case \w{1,40}: *return +[\"']|#\s?define\b"
    r"|\*?(?:\"[^\"]*\"|'[^']*')\*?(?:[,;]|\))|\"[^\"]*\\n\"[),;]*\s*$|case\b.*:\s*$"
    r"|(?:WARN|ERROR|INFO|FATAL)\(|LOG\(\w{1,20}\) *<<"
    r"|(?:echo|printf|logger) +[\"'-]|\w{0,20}CHECK\w{0,20}\(.{0,200}[\"']|//|/\*|<!--"
    r"|\"\"\"\S|REM "
    r"|(?:static |const |auto |let |var |self\.)*\w{1,40}(?: \*?\w{1,40})?(?:\[\])?"
    r" = [\[({]?\s?[frb]?[\"']"
    r"|[\[({][\"'][^\"']*[\"'](?:, *[\w.-]{1,40})*[\])}][,;])"
)
"""Python, C, Go and shell that print, raise, compare or keep words. In a trace a `raise` is where
something happened; what happened is its last line."""
_CALL = (
    r"(?!.*\) += -\d+ E[A-Z]+\b|tensor\()"
    r"(?:(?:return|await|throw|yield|else|static|const|\w{1,40} :?=) +)*"
    r"(?:(?:\w{1,40}(?:\([^()\"']{0,40}\))?(?:\.|::|->)){1,6}"
    r"(?!\w+(?:Error|Exception|Exit|Interrupt|Warning)\()\w{1,40}"
    r"|[a-z]\w{0,40}|[A-Z][A-Z0-9_]{1,40})!?\([^\"'()]{0,80}(?:\(\w{0,30}){0,2}\(?[bfrL@]{0,2}(?:\"[^\"]*\"|'[^']*')"
    r"[^\"']{0,80}\)[;,:{ )]*$"
)
"""A call with words in quotation marks. What errors print of themselves, `RuntimeError('...')`, is
none; nor is a call that a tracer prints with its result."""
_SHELL = r"(?:^[\s+>@]*|[|&;{(] *@?|\b(?:then|else|do|sudo|time|RUN|watch|!) +[\"']?)"
"""What stands before a command within a line of a shell."""
_SEARCHERS = r"(?:[efzr]?grep|rg|ack|ag|findstr|Select-String)"
_SOURCES = (
    r"(?:[s]?dmesg|journalctl|z?cat|tail|head|less|strings|kubectl|oc|crictl|docker|podman|lspci"
    r"|lsmod|nvidia-smi|rocm-smi|amd-smi|ps|ls|find|env|systemctl|ssh|srun|scontrol|sinfo|squeue|tac)"
)
_TYPED = (
    rf"^[\s+>]*(?:(?:sudo|time|watch|ssh \S{{1,60}}) +[\"']?)*{_SOURCES} [^:\"'|]{{0,120}}"
    rf"(?:\|[^\"'|]{{0,80}}){{0,6}}\| *{_SEARCHERS} "
    rf"|^[\s+>]*(?:sudo +)?{_SEARCHERS} +(?:-[\w-]{{1,30}} +)*[\"']"
    rf"|{_SHELL}(?:echo|printf|Write-(?:Host|Error|Output|Warning)|cat +<<<)(?: +-\w{{1,3}})*"
    r" +[\"']|^\s*@echo |\|\| *echo "
    r"|(?:^\s*|(?:\|\||&&|[;{]) *)(?:die|fail\w{0,9}|warn\w{0,9}|err|error|fatal|abort|bail|info"
    r"|alert|usage|notice|debug|(?:log|msg|print|echo)_?\w{0,12}) +(?:\"[^\"]*\"|'[^']*')"
    r"(?: *(?:;.*|\}|>.*|\|\|.*))?\s*$"
)
"""A line of a shell that looks for words, or prints them, whatever stands before it."""
_RULES = (
    r"^\s*(?:- +)?[\"']?(?:match(?:es)?|pattern|regexp?|filter|contains|keyword|needle)[\"']?"
    r" *[:=] *[\"']|^\s*msg(?:id|str) \"|^\s*\"(?:[^\"\s]+ ){2}[^\"]*\" *: *[\"\[{]"
)
"""A rule of a program that looks for words, a translation, a table of what words mean."""
_HELP = (
    r"^\s*(?:-\w,? +)?--?(?![rwxsStT-]{8})[a-z][\w-]{0,40}(?:[ =][\w<>\[\]|-]{1,40})?\s{2,}\S"
    r"|^\s*--[a-z][\w-]{0,40}[ =][\"']|^\s*[Uu]sage: "
)
"""A program's own list of options: none of them happened."""
_REMARK = r"^[^#\"']{0,80}(?:\w ?= ?[^#\"']{1,60} *#|[;{}] *(?:#|//)) \S|^\s*(?:#:|//[/!]) "
"""A remark behind a statement, or one for a manual."""
_PLAIN = re.compile(
    rf"{_PROMPT}(?:echo|printf|logger|{_SEARCHERS}|awk|sed|dmesg|journalctl|z?cat|tail|less)\b"
    rf"|{_PROMPT}(?:[^\"'|]{{0,200}}\|){{1,6}} *{_SEARCHERS} "
    rf"|{_BEFORE}{_STATEMENT}|{_HELP}"
    r"|^\s*[A-Z]\w{0,20}CHECK\w{0,20}\(.{0,200}\); *(?://.*)?$"
)
_QUOTING = re.compile(rf"{_BEFORE}{_CALL}|{_TYPED}|{_RULES}")
_QUOTES = ('"', "'", "|", "echo")
"""One of these is in every line that _QUOTING finds. Few lines have any, and it takes long."""
_REMARKING = re.compile(_REMARK)
_REMARKS = ("#", "//")
MOST = 400
_ALIKE = str.maketrans("023456789", "1" * 9)


def without_numbers(line: str) -> str:
    """The beginning of a line that alone is looked at, with one digit for all of them.

    The patterns here and in told.py know digits, and none of them from another.
    """
    return line[:MOST].translate(_ALIKE)


def is_no_output(line: str) -> bool:
    """Whether what a line says was typed, or stands in a program: it did not happen."""
    return _is_no_output(without_numbers(line))


@lru_cache(1024)  # a program that fails says one thing again and again
def _is_no_output(text: str) -> bool:
    return (
        _PLAIN.search(text) is not None
        or (any(sign in text for sign in _QUOTES) and _QUOTING.search(text) is not None)
        or (any(sign in text for sign in _REMARKS) and _REMARKING.search(text) is not None)
    )
