"""Products whose transposes alone are used, made transposed: the gradient of a linear layer's
weight, which otherwise is copied over into the weight's own order."""

from __future__ import annotations

from collections import defaultdict

from ember.backends.base import kernels_of
from ember.capture.recorder import Instruction, Place, places_in
from ember.device import CPU
from ember.kernel.array import Spec, spec_of
from ember.kernel.call import LibraryCall, MapCall


def turned(instructions: list[Instruction], fixed: set[int]) -> list[Instruction]:
    """The instructions, with such products of GPUs and the copies after them turned over."""
    found = list(instructions)
    uses: dict[int, list[int]] = defaultdict(list)
    for position, instruction in enumerate(instructions):
        for number in {p.storage for p in places_in((instruction.operands, instruction.outs))}:
            uses[number].append(position)
    for position, instruction in enumerate(instructions):
        if _is_product(instruction) and instruction.outs[0].storage not in fixed:
            _turn(found, uses, fixed, position)
    return found


def _is_product(instruction: Instruction) -> bool:
    call = instruction.call
    return (
        instruction.kind == "call"
        and isinstance(call, LibraryCall)
        and call.kernel == "matmul"
        and all(s.ndim == 2 for s in (*call.in_specs[:2], call.out_specs[0]))
        and call.out_specs[0].contiguous
        and instruction.outs[0].spec.device is not CPU
        and kernels_of(instruction.outs[0].spec.device).joins_formulas
    )


def _turn(
    found: list[Instruction], uses: dict[int, list[int]], fixed: set[int], position: int
) -> None:
    product = found[position]
    out = product.outs[0]
    chain: list[int] = []  # the copies after it, as long as they keep the order
    place = out._replace(spec=_transposed(out.spec))
    while len(uses[place.storage]) == 2 and place.storage not in fixed:
        reader = uses[place.storage][1]
        instruction = found[reader]
        if _is_formula(instruction, place):
            chain.append(reader)
            break
        if instruction.kind != "copy" or instruction.operands[0] != place:
            return
        chain.append(reader)
        target = instruction.outs[0]
        if target.spec.contiguous:
            break
        if target.spec.strides != place.spec.strides or target.spec.shape != place.spec.shape:
            return
        place = target
    else:
        return
    x, y = product.operands
    turned_x, turned_y = (p._replace(spec=_transposed(p.spec)) for p in (x, y))
    result = out._replace(spec=_row_major(place.spec, out.spec))
    call = product.call.with_specs((turned_y.spec, turned_x.spec), (result.spec,))
    runner = kernels_of(out.spec.device).prepare(call)
    found[position] = Instruction("call", call, (turned_y, turned_x), (result,), runner)
    for reader in chain:
        if found[reader].kind == "copy":
            found[reader] = _in_rows(found[reader])
        else:
            found[reader] = _reading_rows(found[reader], place)


def _is_formula(instruction: Instruction, place: Place) -> bool:
    """Whether an instruction is an elementwise formula that reads a place, of results of its
    shape."""
    return (
        instruction.kind == "call"
        and isinstance(instruction.call, MapCall)
        and not instruction.call.axes
        and instruction.operands.count(place) == 1
        and all(o.spec.shape == place.spec.shape for o in instruction.outs)
        and all(o.storage != place.storage for o in instruction.outs)
    )


def _reading_rows(formula: Instruction, place: Place) -> Instruction:
    """A formula that reads a place in row-major order."""
    rows = place._replace(spec=place.spec.with_shape(place.spec.shape))
    operands = tuple(rows if o == place else o for o in formula.operands)
    specs = tuple(
        rows.spec if o == place else s
        for o, s in zip(formula.operands, formula.call.in_specs, strict=True)
    )
    call = formula.call.with_specs(specs, formula.call.out_specs)
    runner = kernels_of(place.spec.device).prepare(call)
    return formula._replace(call=call, operands=operands, runner=runner)


def _transposed(spec: Spec) -> Spec:
    return spec_of(spec.shape[::-1], spec.strides[::-1], spec.dtype, spec.device)


def _row_major(spec: Spec, like: Spec) -> Spec:
    return like.with_shape(spec.shape)


def _in_rows(copy: Instruction) -> Instruction:
    """A copy between places of one shape, both of them in row-major order."""

    def rows(place: Place) -> Place:
        return place._replace(spec=place.spec.with_shape(place.spec.shape))

    return copy._replace(operands=(rows(copy.operands[0]),), outs=(rows(copy.outs[0]),))
