"""Output of mamf-finder: the best matrix product over many shapes, in TFLOP/s."""

from __future__ import annotations

import re

from ....model import quantities
from ....model.format import ProvesNothingError, text_format
from ....model.part import PartialNode
from .figures import ListedGpu, figure, gpus_of, names_of

TOOL = "mamf-finder"
_NAME = re.compile(r"_?\w*[Dd]eviceProperties\(name='([^'\n]{3,100})'")
_TYPE = re.compile(r"\*{0,2} ?Dtype: ?(?:torch\.)?(\w{3,20})")
_BEST = re.compile(
    r"[ \t]*(?:The best outcome was |max: {1,10}|mean: {1,10})(\d{1,6}(?:\.\d{1,3})?) ?TFLOPS @ "
    r"(\d{1,7})x(\d{1,7})x(\d{1,7}) \(MxNxK\)"
)


def _parse(lines: list[str]) -> PartialNode:
    name, kind, best = "", "bfloat16", None
    for line in lines:
        name = found[1] if (found := _NAME.search(line)) else name
        kind = found[1] if (found := _TYPE.search(line)) else kind
        if (found := _BEST.match(line)) and (best is None or float(found[1]) > float(best[1])):
            best = found
    if best is None:
        raise ProvesNothingError("no best outcome in it; paste its last lines")
    shown = {0: ListedGpu(0, name)} if name else {}
    m, n, k = map(int, best.groups()[1:])
    made = figure(
        TOOL, "gemm", quantities.GEMM, float(best[1]), unit="TFLOP/s", engine="kernel",
        src=names_of(shown).get(0), variant=f"{kind} M{m} K{k} N{n} matmul",
    )  # fmt: skip
    return PartialNode(gpus=gpus_of(shown, TOOL), measurements=(made,))


FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    starts=re.compile(r"(?m)^[^\n]{0,200}mamf-finder\.py|^\*\* Dtype: |" + f"^{_BEST.pattern}"),
    needs=("mamf-finder", "** Dtype", "TFLOPS @"),
    goes_on=re.compile(
        rf"\*\*|- |{_BEST.pattern}|\s*(?:\d{{1,7}} \||Tried |[Tt]he best|max:|mean:|median:|"
        r"geomean|Legend|Elapsed|Warming|Benchmark|[\w/.-]{1,200}python)|.{0,40}TFLOPS"
    ),
)
