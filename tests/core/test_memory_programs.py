"""Random programs of views and in-place writes: the same values and gradients as without either.

A program is run three ways: on Ember with views and writes; out of place, where a variable is an
array of positions in one NumPy vector and a write makes a new vector; and, marked oracle, on
PyTorch.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ember

SIZE = 24  # the elements of the base: 2 x 3 x 4
SETTINGS = settings(max_examples=60, deadline=None, derandomize=True, database=None)

# A step: (kind, which variable, a number that chooses among what fits it, another number).
STEP = st.tuples(
    st.sampled_from(["view", "view", "write", "base", "assign"]),
    st.integers(0, 7),
    st.integers(0, 999),
    st.integers(1, 5),
)
PROGRAM = st.lists(STEP, min_size=1, max_size=9)


def viewed(value, choice):
    """A view of a tensor, or of an array of positions: what fits its shape, by a number."""
    shape = tuple(value.shape)
    is_array = isinstance(value, np.ndarray)
    dims = [d for d, n in enumerate(shape) if n > 1]
    if not shape:
        return value[None]
    dim = dims[choice % len(dims)] if dims else 0
    lead = (slice(None),) * dim
    kind = choice // 7 % 6
    if kind == 0:
        return value[(*lead, choice % shape[dim])]
    if kind == 1:
        return value[(*lead, slice(choice % shape[dim], None))]
    if kind == 2:
        return value[(*lead, slice(None, None, 2))]
    if kind == 3:
        order = list(range(len(shape)))
        order = order[choice % len(order) :] + order[: choice % len(order)]
        return value.transpose(order) if is_array else value.permute(order)
    if kind == 4 and len(shape) > 1 and shape[0] == shape[1]:
        return value.diagonal(0, 0, 1)
    return value[(*lead, None)]


def formula(x, kind, number):
    """What a write makes of the value that is there (and its slope)."""
    return [x + number, x * number, number - x, x * 0 + number][kind]


SLOPES = [lambda n: 1.0, lambda n: float(n), lambda n: -1.0, lambda n: 0.0]


def written(x, kind, number):
    """The same, in place."""
    if kind == 0:
        x.add_(number)
    elif kind == 1:
        x.mul_(number)
    elif kind == 2:
        x.neg_().add_(number)
    else:
        x.fill_(number)


def run(torch, program):
    """The program in place: (base's values, each variable's gradient by the source)."""
    source = torch.arange(1.0, SIZE + 1, dtype=torch.float64).requires_grad_()
    base = (source * 1).view(2, 3, 4)
    variables = [base]
    for kind, which, choice, number in program:
        variable = variables[which % len(variables)]
        if kind == "view":
            variables.append(viewed(variable, choice))
        elif kind == "write":
            written(variable, choice % 4, number)
        elif kind == "base":
            written(base, choice % 3, number)
        else:
            other = variables[choice % len(variables)]
            if other.shape == variable.shape:
                variable.copy_(other.clone() * number)
    found = [base.detach().flatten().tolist()]
    for variable in variables:
        weight = torch.arange(1.0, 1 + variable.numel(), dtype=torch.float64)
        (grad,) = torch.autograd.grad(
            variable, source, weight.reshape(variable.shape), retain_graph=True
        )
        found.append((variable.detach().flatten().tolist(), grad.tolist()))
    return found


def out_of_place(program):
    """The program on vectors: each element's value and its derivative by each of the source's."""
    values, slopes = np.arange(1.0, SIZE + 1), np.eye(SIZE)
    base = np.arange(SIZE).reshape(2, 3, 4)
    variables = [base]

    def write(places, kind, number):
        places = places.reshape(-1)
        values[places] = formula(values[places], kind, number)
        slopes[places] = slopes[places] * SLOPES[kind](number)

    for kind, which, choice, number in program:
        places = variables[which % len(variables)]
        if kind == "view":
            variables.append(viewed(places, choice))
        elif kind == "write":
            write(places, choice % 4, number)
        elif kind == "base":
            write(base, choice % 3, number)
        else:
            other = variables[choice % len(variables)]
            if other.shape == places.shape:
                read = other.reshape(-1)
                new, slope = values[read] * number, slopes[read] * number
                values[places.reshape(-1)], slopes[places.reshape(-1)] = new, slope
    found = [values.tolist()]
    for places in variables:
        places = places.reshape(-1)
        weight = np.arange(1.0, 1 + places.size)
        found.append((values[places].tolist(), (weight @ slopes[places]).tolist()))
    return found


@SETTINGS
@given(PROGRAM)
def test_views_and_writes_agree_with_vectors(program):
    assert run(ember, program) == out_of_place(program)


@pytest.mark.oracle
@SETTINGS
@given(PROGRAM)
def test_views_and_writes_agree_with_pytorch(program):
    torch = pytest.importorskip("torch")
    assert run(ember, program) == run(torch, program)


@SETTINGS
@given(PROGRAM)
def test_views_and_writes_can_be_differentiated_twice(program):
    """The third power of everything: its second derivatives from the vectors' slopes."""
    source = ember.arange(1.0, SIZE + 1, dtype=ember.float64).requires_grad_()
    base = (source * 1).view(2, 3, 4)
    variables = [base]
    for kind, which, choice, number in program:
        variable = variables[which % len(variables)]
        if kind == "view":
            variables.append(viewed(variable, choice))
        elif kind in ("write", "base"):
            written(variable if kind == "write" else base, choice % 3, number)
    (first,) = ember.autograd.grad((base**3).sum(), source, create_graph=True)
    (second,) = ember.autograd.grad(first.sum(), source)
    values, slopes = evaluated(program)
    assert first.tolist() == (3 * values**2 * slopes).tolist()
    assert second.tolist() == (6 * values * slopes**2).tolist()


def evaluated(program):
    """The base's values and the slope of each by its own element of the source."""
    values, slopes = np.arange(1.0, SIZE + 1), np.ones(SIZE)
    base = np.arange(SIZE).reshape(2, 3, 4)
    variables = [base]
    for kind, which, choice, number in program:
        places = variables[which % len(variables)]
        if kind == "view":
            variables.append(viewed(places, choice))
        elif kind in ("write", "base"):
            places = (places if kind == "write" else base).reshape(-1)
            values[places] = formula(values[places], choice % 3, number)
            slopes[places] = slopes[places] * SLOPES[choice % 3](number)
    return values, slopes
