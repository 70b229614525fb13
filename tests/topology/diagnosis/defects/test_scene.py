"""Which defects fit what is known: every condition counts, and what is unknown says nothing."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gputop.topology.diagnosis.defects.scene import Scene, fitting, of_machine
from gputop.topology.diagnosis.defects.table import COMPARED, Defect, Trait, defects
from gputop.topology.model.machine import Gpu, Machine
from gputop.topology.model.surroundings import Host, Software
from gputop.topology.model.versions import Product, numbers
from tests.tables import hold

from .test_table import below

UNHEARD = ("defects", "fitting", "of_machine")


def held(compared: str) -> tuple[Product, str]:
    """A version that makes a comparison true."""
    match = COMPARED.fullmatch(compared)
    assert match is not None
    product, how, number = match.groups()
    return Product(product), below(number) if how == "<" else number


def with_it(row: Defect) -> Scene:
    """A scene in which all that a row asks for is true, but for what only the program shows."""
    named = row.since or (below(row.fixed[0]) if row.fixed else "1.0.0")
    return Scene(
        versions={row.product: (named,), **{p: (v,) for p, v in map(held, row.beside)}},
        traits=dict.fromkeys((*row.needs, *row.one_of), True),
        gpus=row.gpu[:1],
        models=tuple(f"NVIDIA {word}" for word in row.model[:1]),
        settings=dict(one.partition("=")[::2] for one in row.set[:1]),
    )


def without(row: Defect) -> Iterator[tuple[str, Scene]]:
    """The same with one thing unknown or otherwise each."""
    whole = with_it(row)
    if row.gpu:
        yield "gpu unknown", msgspec.structs.replace(whole, gpus=())
        yield "another gpu", msgspec.structs.replace(whole, gpus=("sm00",))
    if row.model:
        yield "another model", msgspec.structs.replace(whole, models=("NVIDIA T4",))
    for trait in row.needs:
        yield (
            f"without {trait}",
            msgspec.structs.replace(whole, traits={**whole.traits, trait: False}),
        )
        unknown = {one: known for one, known in whole.traits.items() if one is not trait}
        yield f"{trait} unknown", msgspec.structs.replace(whole, traits=unknown)
    if row.one_of:
        yield "none of them", msgspec.structs.replace(whole, traits=dict.fromkeys(Trait, False))
    if row.beside:
        alone = {row.product: whole.versions[row.product]}
        yield "others unknown", msgspec.structs.replace(whole, versions=alone)
    if row.set:
        yield "not set", msgspec.structs.replace(whole, settings={})
    for one in row.avoided:
        name, _, value = one.partition("=")
        yield one, msgspec.structs.replace(whole, settings={**whole.settings, name: value or "1"})
    yield "no version", msgspec.structs.replace(whole, versions={})
    if row.fixed:
        yield (
            "fixed",
            msgspec.structs.replace(
                whole, versions={**whole.versions, row.product: (row.fixed[-1],)}
            ),
        )


def test_a_row_fits_where_all_is_true_and_nowhere_else() -> None:
    def check(row: Defect) -> None:
        named = [one.id for found in fitting(with_it(row)).values() for one in found]
        assert (row.id in named) is not bool(row.only)
        for why, scene in without(row):
            named = [one.id for found in fitting(scene).values() for one in found]
            assert row.id not in named, why

    hold(check, defects(), lambda row: row.id)


def test_what_a_program_does_is_said_only_by_its_message() -> None:
    for row in defects():
        if row.only:
            assert with_it(row).fits(row) is not True, row.id
            assert not with_it(row).rules_out(row), row.id


def test_a_node_tells_its_versions_and_what_it_is() -> None:
    gpu = Gpu(address="0000:01:00.0", vendor="nvidia", name="NVIDIA H100 80GB HBM3")
    software = Software(nccl="2.18.1", nvidia_driver="535.129.03", cuda_driver="12.2")
    host = Host(kernel="6.8.0-60-generic", architecture="x86_64", cpu_vendor="AuthenticAMD")
    scene = of_machine(Machine(gpus=(gpu,), software=software, host=host), {})
    assert scene.gpus == ("sm90",)
    assert scene.traits[Trait.SEVERAL_GPUS] is False
    assert scene.traits[Trait.NVSWITCH] is True
    assert scene.traits[Trait.AMD_CPU] is True
    assert Trait.ROCE not in scene.traits
    assert scene.versions[Product.CUDA_DRIVER] == ("12.2",)
    assert numbers(scene.versions[Product.LINUX][0]) == (6, 8, 0)
