"""The words and numbers of CUDA are read whoever reports them."""

from __future__ import annotations

import pytest

from gputop.topology.diagnosis.symptoms.explain import Symptom, explain, known_signs, table
from gputop.topology.logs.reading.read import read_log
from tests.topology.diagnosis.symptoms.system_examples import CUDA_FORMS, CUDA_WORDS


def test_what_cuda_says_is_read_whoever_reports_it() -> None:
    for words, idents in CUDA_WORDS.items():
        for form in CUDA_FORMS:
            log = read_log([form.format(words).encode()], signs=known_signs())
            found = [finding.id for finding in explain(log)]
            assert len(found) == 1, (words, form)
            assert found[0] in idents, (words, form)


@pytest.mark.parametrize("row", [row for row in table() if row.codes], ids=lambda row: row.id)
def test_a_number_of_cuda_without_words_is_read(row: Symptom) -> None:
    for code in row.codes:
        for line in (
            f"Cuda driver error {code} in call at file 'lib/nvd_device.h' in line 333.",
            f"Fatal CUDA Error at hybrid.cu:450. Return value {code} from 'cudaStreamCreate(&s)'.",
            f"CUDA error code: {code}",
        ):
            log = read_log([line.encode()], signs=known_signs())
            assert [finding.id for finding in explain(log)] == [row.id], line
