"""Expressions: one object each, simplified only where no value changes, read as NumPy."""

import gc

import numpy as np
import pytest

from ember.scalar import primitives as p
from ember.scalar.evaluate import compile_numpy, constant, single_ufunc
from ember.scalar.expr import _interned, const, make, substitute, topological, var, variables


def test_equal_expressions_are_one_object():
    x = var("x")
    assert x is var("x") and x is not var("y")
    assert p.exp(x) + 1 is p.exp(var("x")) + 1
    assert x * 2 is not 2 * x
    assert const(1) is const(1)


def test_numbers_that_compare_equal_are_not_one():
    x = var("x")
    assert const(1) is not const(1.0) and const(True) is not const(1)
    assert const(0.0) is not const(-0.0)
    assert x + 1 is not x + True and x + 0.0 is not x + -0.0
    assert const(float("nan")) is const(float("nan"))


def test_what_nobody_holds_is_forgotten():
    gc.collect()
    before = len(_interned)
    kept = p.exp(var("forgotten")) * 17.25 + 3.5
    assert len(_interned) > before
    del kept
    gc.collect()
    assert len(_interned) == before


def test_simplifications():
    x = var("x")
    assert x * 1 is x and 1 * x is x and x / 1 is x and x**1 is x
    assert make("neg", make("neg", x)) is x and x**2 is x * x and repr(-1 * x) == "neg(x)"
    for kept in (
        x + 0,
        x * 0,
        x - x,
        x / x,
        x**0,
        x * True,
    ):  # NaN, inf and -0 stay
        assert kept is not x and kept.op != "const"


def test_no_truth_value():
    with pytest.raises(TypeError, match="a formula has no truth value"):
        bool(var("x") > 0)


def test_order_and_variables():
    x, y = var("x"), var("y")
    shared = p.exp(y)
    root = shared * x + shared
    order = topological([root])
    assert len(order) == 5 and order[-1] is root
    assert all(order.index(a) < order.index(node) for node in order for a in node.args)
    assert variables(root) == ["y", "x"]


def test_deep_expressions():
    root = var("x")
    for _ in range(20_000):
        root = make("add", root, 1)
    assert len(topological([root])) == 20_002


def test_substitution():
    x, y = var("x"), var("y")
    root = p.exp(x) + x
    assert substitute(root, lambda node: y if node is x else None) is p.exp(y) + y
    assert substitute(root, lambda node: y if node is p.exp(x) else None) is y + x
    assert substitute(root, lambda node: None) is root


def test_missing_primitives():
    with pytest.raises(AttributeError, match="the scalar language has no primitive 'expo'"):
        p.expo


def test_evaluation():
    x, y = var("x"), var("y")
    function = compile_numpy((p.where(x > y, x * 2, y), x + y), ["x", "y"], np.float32)
    a, b = np.array([1, 5], np.float32), np.array([[3], [4]], np.float32)
    chosen, total = function(a, b)
    assert chosen.tolist() == [[3, 10], [4, 10]] and total.tolist() == [[4, 8], [5, 9]]
    assert chosen.dtype == total.dtype == np.float32


def test_constants_have_the_compute_dtype():
    function = compile_numpy((var("x") * 2.5 + 1,), ["x"], np.float32)
    assert function(np.ones(2, np.float32)).dtype == np.float32
    assert constant(True, np.float32) is np.True_ and constant(3, np.int8) == np.int8(3)
    assert constant(1.5, np.int64) == 1.5 and constant(300, np.uint8) == 44


def test_rows():
    x = var("x")
    function = compile_numpy((x / p.row_sum(x) * p.row_size(),), ["x"], np.float64, (0, 2))
    found = function(np.arange(1.0, 9).reshape(2, 2, 2))
    total = np.arange(1.0, 9).reshape(2, 2, 2).sum((0, 2), keepdims=True)
    assert np.array_equal(found, np.arange(1.0, 9).reshape(2, 2, 2) / total * 4)


def test_formulas_that_are_one_ufunc():
    x, y = var("x"), var("y")
    assert single_ufunc((x + y,), ["x", "y"]) is np.add
    assert single_ufunc((p.exp(x),), ["x"]) is np.exp
    assert single_ufunc((y + x,), ["x", "y"]) is None
    assert single_ufunc((x + 1,), ["x"]) is None
    assert single_ufunc((p.sigmoid(x),), ["x"]) is None


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("remainder", [[7, -7, 7, -7], [3, 3, -3, -3]], [1, 2, -2, -1]),
        ("fmod", [[7, -7, 7, -7], [3, 3, -3, -3]], [1, -1, 1, -1]),
        ("floor_divide", [[7, -7, 7, -7], [2, 2, -2, -2]], [3, -4, -4, 3]),
        ("trunc_divide", [[7, -7, 7, -7], [2, 2, -2, -2]], [3, -3, -3, 3]),
        ("pow", [[2, -2, 1, -1], [3, 3, -5, -3]], [8, -8, 1, -1]),
        ("shift_left", [[1, 1, 1, 1], [3, 0, 64, -1]], [8, 1, 0, 0]),
        ("shift_right", [[8, -8, -8, 8], [1, 1, 64, 99]], [4, -4, -1, 0]),
        ("gcd", [[12, 18], [8, 12]], [4, 6]),
        ("signbit", [[-1, 0, 1]], [True, False, False]),
    ],
)
def test_integers(name, values, expected):
    names = ["x", "y"][: len(values)]
    function = compile_numpy((make(name, *map(var, names)),), names, np.int64)
    assert function(*(np.array(v) for v in values)).tolist() == expected


def test_integers_divided_by_zero():
    for name in ("floor_divide", "remainder", "fmod", "trunc_divide"):
        function = compile_numpy((make(name, var("x"), var("y")),), ["x", "y"], np.int64)
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            function(np.array([1]), np.array([0]))


def test_nan_and_infinity_go_through():
    inf, nan = np.inf, np.nan
    x = np.array([-inf, inf, nan, 0.0])
    with np.errstate(all="ignore"):

        def at(root):
            return compile_numpy((root,), ["x"], np.float64)(x)

        v = var("x")
        np.testing.assert_array_equal(at(p.maximum(v, 0)), [0, inf, nan, 0])
        np.testing.assert_array_equal(at(p.fmax(v, 0)), [0, inf, 0, 0])
        np.testing.assert_array_equal(at(p.sigmoid(v)), [0, 1, nan, 0.5])
        np.testing.assert_array_equal(at(p.where(v <= 0, 0, v)), [0, inf, nan, 0])
        np.testing.assert_array_equal(at(v * 0), [nan, nan, nan, 0])
        np.testing.assert_array_equal(at(p.sign(v)), [-1, 1, 0, 0])
