"""Every op of the registry, and every recorded call of torch.nn.functional, inside vmap and in
forward mode: equal to the loop over elements, and to the transpose of reverse mode."""

import importlib.util
import pathlib
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ember
from ember import ops
from ember.core.formula import FormulaOp
from ember.core.op import REQUIRED
from ember.core.reduction import ReductionOp
from ember.core.registry import OPS
from ember.core.row_formula import RowOp
from ember.func import jvp, vjp, vmap

ops.load_rest()
_place = pathlib.Path(__file__).parents[1] / "ops" / "functional_cases.py"
_spec = importlib.util.spec_from_file_location("functional_cases_of_func", _place)
_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_cases)
LETTERS = "abcdefghi"
CASES = {f"{family}: {n}": c for family, cs in _cases.FAMILIES.items() for n, c in cs.items()}
BATCH = 3


def waves(shape, phase, dtype=ember.float64):
    count = ember.ones(shape).numel()
    values = (ember.arange(count, dtype=ember.float64) * 1.7 + phase).sin()
    return (values * 0.45 + 0.5).to(dtype).reshape(shape)


def close(a, b):
    if a.is_complex():
        a, b = ember.view_as_real(a), ember.view_as_real(b)
    return a.shape == b.shape and ember.allclose(a.double(), b.double(), 1e-6, 1e-8, True)


def required(op):
    return [p for p, d in zip(op.parameters, op.defaults, strict=True) if d is REQUIRED]


def runs(op, *values, **options):
    try:
        op(*values, **options)
    except (RuntimeError, TypeError, NotImplementedError, ValueError, AttributeError):
        return False
    return True


def kinds(op):
    """The dtypes, of these, that an op takes for all its operands."""
    count = len(required(op))
    usual = (ember.float64, ember.float32, ember.int64, ember.bool, ember.complex128)
    return [d for d in usual if runs(op, *[waves((2,), 0.1, d) for _ in range(count)])]


ELEMENTWISE = {
    name: op
    for name, op in OPS.items()
    if isinstance(op, FormulaOp) and not isinstance(op, RowOp) and not op.writes and kinds(op)
}
ROWS = {n: op for n, op in OPS.items() if isinstance(op, RowOp) and kinds(op)}
REDUCTIONS = {n: op for n, op in OPS.items() if isinstance(op, ReductionOp)}


def test_the_registry_is_seen():
    assert len(ELEMENTWISE) > 100 and len(ROWS) >= 3 and len(REDUCTIONS) > 5


def check_loop(function, values, dims):
    """vmap against the loop; one operand at least is batched."""
    found = vmap(function, in_dims=tuple(dims))(*values)
    rows = [
        function(*(v if d is None else v.select(d, k) for v, d in zip(values, dims, strict=True)))
        for k in range(BATCH)
    ]
    assert found.dtype == rows[0].dtype
    assert close(found, ember.stack(rows))


@st.composite
def operands(draw, count, dtype):
    """Operands that broadcast, some with a batch dim somewhere."""
    shape = draw(st.lists(st.integers(1, 3), max_size=3))
    values, dims = [], []
    for place in range(count):
        own = shape[draw(st.integers(0, len(shape))) :]
        own = [draw(st.sampled_from((n, 1))) for n in own]
        dim = (
            draw(st.integers(0, len(own)) | st.none()) if place else draw(st.integers(0, len(own)))
        )
        if dim is not None:
            own.insert(dim, BATCH)
        values.append(waves(tuple(own), place * 0.9 + 0.2, dtype))
        dims.append(dim)
    order = draw(st.permutations(range(count)))
    return [values[i] for i in order], [dims[i] for i in order]


@settings(max_examples=300)
@given(st.data())
def test_elementwise(data):
    op = ELEMENTWISE[data.draw(st.sampled_from(sorted(ELEMENTWISE)))]
    dtype = data.draw(st.sampled_from(kinds(op)))
    values, dims = data.draw(operands(len(required(op)), dtype))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_loop(op, values, dims)


@settings(max_examples=100)
@given(st.data())
def test_rows_and_reductions(data):
    shape = data.draw(st.lists(st.integers(1, 3), max_size=3))
    dim = data.draw(st.integers(-len(shape), len(shape) - 1)) if shape else 0
    place = data.draw(st.integers(0, len(shape)))
    shape.insert(place, BATCH)
    x = waves(tuple(shape), 0.3)
    if data.draw(st.booleans()):
        op = ROWS[data.draw(st.sampled_from(sorted(ROWS)))]
        if len(required(op)) == 1:
            check_loop(lambda v: op(v, dim=dim), [x], [place])
        return
    op = REDUCTIONS[data.draw(st.sampled_from(sorted(REDUCTIONS)))]
    keepdim = data.draw(st.booleans())
    if runs(op, x):
        check_loop(op, [x], [place])
    if runs(op, x, dim=0):
        check_loop(lambda v: op(v, dim=dim, keepdim=keepdim), [x], [place])


def is_differentiable(op):
    """Whether an op gives real numbers for real numbers."""
    if ember.float64 not in kinds(op):
        return False
    return op(*[waves((2,), 0.1) for _ in required(op)]).dtype is ember.float64


DIFFERENTIABLE = [name for name, op in ELEMENTWISE.items() if is_differentiable(op)]


@pytest.mark.parametrize("name", sorted(DIFFERENTIABLE))
def test_elementwise_forward_mode(name):
    op = ELEMENTWISE[name]
    xs = [waves((2, 3), 0.3 + 0.9 * i) for i in range(len(required(op)))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_transposed(lambda *values: [op(*values)], xs)


# torch.nn.functional


def compiled(expression, count):
    names = {"F": ember.nn.functional, "torch": ember, "ember": ember}
    return eval(f"lambda {','.join(LETTERS[:count])}: {expression}", names)


def element(inputs, number):
    """The inputs of one element of a batch."""
    made = []
    for place, given_ in enumerate(inputs):
        if isinstance(given_, tuple):
            made.append(_cases.wave(ember, given_, place * 0.9 + 0.2 + number, ember.float64))
        else:
            value = ember.tensor(given_)
            made.append(value.double() if value.is_floating_point() else value)
    return made


def leaves(tree):
    if isinstance(tree, ember.Tensor):
        return [tree]
    return [leaf for part in tree for leaf in leaves(part)] if tree is not None else []


READ = ("packed", "ctc")  # cases whose integers are lengths, which are read as numbers


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(CASES))
def test_functional(name):
    expression, inputs = CASES[name]
    function = compiled(expression, len(inputs))
    rows = [element(inputs, number) for number in range(BATCH)]
    places = [sum(map(ord, name)) + i for i in range(len(inputs))]
    dims = [p % (v.ndim + 1) for p, v in zip(places, rows[0], strict=True)]
    if len(dims) > 1 and places[0] % 3 == 0:  # one that all elements share
        dims[-1] = None
    for place, value in enumerate(rows[0]):
        if any(word in name for word in READ) and not value.is_floating_point():
            dims[place] = None
    for place, dim in enumerate(dims):
        for row in rows if dim is None else ():
            row[place] = rows[0][place]
    columns = zip(zip(*rows, strict=True), dims, strict=True)
    values = [c[0] if d is None else ember.stack(c, d) for c, d in columns]
    found = leaves(vmap(function, in_dims=tuple(dims))(*values))
    wanted = [leaves(function(*row)) for row in rows]
    for place, part in enumerate(found):
        assert close(part, ember.stack([w[place] for w in wanted]))


def check_transposed(function, xs):
    """⟨u, J·t⟩ = ⟨Jᵀ·u, t⟩, and the same for batches of t and of u."""
    out, pull = vjp(function, *xs)
    tangents = tuple(waves(tuple(x.shape), 5.0 + i) for i, x in enumerate(xs))
    moved = jvp(function, tuple(xs), tangents)[1]
    weights = [waves(tuple(o.shape), 9.0 + i, o.dtype) for i, o in enumerate(out)]
    back = pull(weights)
    left = sum(float((u * t).sum()) for u, t in zip(weights, moved, strict=True))
    right = sum(float((b * t).sum()) for b, t in zip(back, tangents, strict=True))
    if left == left and right == right:
        assert left == pytest.approx(right, rel=1e-7, abs=1e-9)
    batch = [ember.stack([t, 2 * t]) for t in tangents]
    for a, b in zip(vmap(lambda *t: jvp(function, tuple(xs), t)[1])(*batch), moved, strict=True):
        assert close(a[1], 2 * b)
    batch = [ember.stack([u, 2 * u]) for u in weights]
    for a, b in zip(vmap(lambda *u: pull(list(u)))(*batch), back, strict=True):
        assert close(a[1], 2 * b)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(CASES))
def test_functional_forward_mode(name):
    expression, inputs = CASES[name]
    values = element(inputs, 0)
    function = compiled(expression, len(inputs))
    moving = [i for i, given_ in enumerate(inputs) if isinstance(given_, tuple)]

    def of_moving(*xs):
        own = list(values)
        for place, x in zip(moving, xs, strict=True):
            own[place] = x
        return [leaf for leaf in leaves(function(*own)) if leaf.is_floating_point()]

    if moving and "max norm" not in name:  # a table normed in place is not differentiated there
        check_transposed_or_refused(of_moving, [values[i] for i in moving])


NOT_TWICE = (
    "is not differentiable with respect to argument",
    "_ctc_loss_backward is not implemented",
)


def check_transposed_or_refused(function, xs):
    try:
        check_transposed(function, xs)
    except RuntimeError as error:
        if not any(text in str(error) for text in NOT_TWICE):
            raise
