"""How tensors print: recorded from PyTorch 2.13, and compared with a live one on random tensors."""

import math
import random

import ml_dtypes
import numpy as np
import pytest

from ember import dtypes
from ember.core import printing


@pytest.fixture(autouse=True)
def default_options():
    printing.set_printoptions(profile="default")
    yield
    printing.set_printoptions(profile="default")


def shown(values, *, device=None, requires_grad=False, node=None, default=dtypes.float32, **more):
    values = np.asarray(values)
    if values.dtype == np.float64 and "dtype" not in more:
        values = values.astype(np.float32)
    dtype = more.pop("dtype", dtypes.from_numpy_dtype(values.dtype))
    return printing.format_tensor(
        values, values.shape, dtype, device, requires_grad, node, default, **more
    )


NAN, INF = math.nan, math.inf
RECORDED = [
    ([1.0, 2.0], "tensor([1., 2.])"),
    ([1e-5, 1.0], "tensor([1.0000e-05, 1.0000e+00])"),
    ([0.0, NAN], "tensor([0., nan])"),
    ([NAN, -INF], "tensor([nan, -inf])"),
    ([1e9, 1.0], "tensor([1.0000e+09, 1.0000e+00])"),
    ([1.0, INF, 1000.5], "tensor([1.0000e+00,        inf, 1.0005e+03])"),
    ([1.0, 2000.0], "tensor([1.0000e+00, 2.0000e+03])"),
    ([-0.0, -1.5], "tensor([-0.0000, -1.5000])"),
    (np.array([0.5 + 1e-5j, 100j], "c8"), "tensor([0.5000+1.0000e-05j, 0.0000+1.0000e+02j])"),
    (
        np.array([complex(NAN, -INF), 1, complex(1, -0.0)], "c8"),
        "tensor([nan-infj, 1.+0.j, 1.-0.j])",
    ),
    ([True, False], "tensor([ True, False])"),
    (np.array([-128, 3], "i1"), "tensor([-128,    3], dtype=torch.int8)"),
    ([[1, 2], [3, 4]], "tensor([[1, 2],\n        [3, 4]])"),
    (np.float32(3), "tensor(3.)"),
    (np.zeros((0, 3), "f4"), "tensor([], size=(0, 3))"),
    (np.zeros(0, "i8"), "tensor([], dtype=torch.int64)"),
    (np.zeros((0, 3), "i4"), "tensor([], size=(0, 3), dtype=torch.int32)"),
    (np.array([1, 2], ml_dtypes.bfloat16), "tensor([1., 2.], dtype=torch.bfloat16)"),
    (
        np.array([1e-3, 256], ml_dtypes.float8_e5m2),
        "tensor([9.7656e-04, 2.5600e+02], dtype=torch.float8_e5m2)",
    ),
]


@pytest.mark.parametrize(("values", "text"), RECORDED, ids=[text[:40] for _, text in RECORDED])
def test_recorded(values, text):
    assert shown(values) == text


def test_notes_follow_the_values():
    assert shown([1.0], device="cuda:0") == "tensor([1.], device='cuda:0')"
    assert shown([1.0], requires_grad=True) == "tensor([1.], requires_grad=True)"
    text = shown([1.0], requires_grad=True, node="AddBackward0")
    assert text == "tensor([1.], grad_fn=<AddBackward0>)"
    assert shown([1.0], class_name="Points") == "Points([1.])"
    half = shown(np.ones(1, np.float16), device="cuda:1")
    assert half == "tensor([1.], device='cuda:1', dtype=torch.float16)"


def test_default_dtype_is_not_named():
    assert shown(np.ones(1), dtype=dtypes.float64, default=dtypes.float64) == "tensor([1.])"
    assert shown([1.0], default=dtypes.float64) == "tensor([1.], dtype=torch.float32)"
    complex128 = np.ones(1, np.complex128)
    assert shown(complex128, default=dtypes.float64) == "tensor([1.+0.j])"
    assert shown(complex128) == "tensor([1.+0.j], dtype=torch.complex128)"


def test_meta_has_no_values():
    text = printing.format_tensor(None, (2, 2), dtypes.int64, "meta", False, None, dtypes.float32)
    assert text == "tensor(..., device='meta', size=(2, 2), dtype=torch.int64)"


def test_long_tensors_show_their_ends():
    printing.set_printoptions(threshold=5, edgeitems=1)
    assert shown(np.arange(10.0) * 1000.5) == "tensor([   0.0000,  ..., 9004.5000])"
    assert shown(np.arange(40).reshape(2, 4, 5)) == (
        "tensor([[[ 0,  ...,  4],\n         ...,\n         [15,  ..., 19]],\n\n"
        "        [[20,  ..., 24],\n         ...,\n         [35,  ..., 39]]])"
    )
    printing.set_printoptions(edgeitems=0)
    assert shown(np.ones((3, 3))) == "tensor([...], size=(3, 3))"
    assert shown(np.float32(3)) == "tensor(3., size=())"


def test_lines_break_at_the_width():
    printing.set_printoptions(linewidth=20)
    assert shown(np.arange(1.0, 7.0), requires_grad=True) == (
        "tensor([1., 2., 3.,\n        4., 5., 6.],\n       requires_grad=True)"
    )


def test_precision_and_exponents():
    printing.set_printoptions(precision=10)
    assert shown([1 / 3, -200]) == "tensor([   0.3333333433, -200.0000000000])"
    printing.set_printoptions(precision=0)
    assert shown([1.5, 2.5]) == "tensor([2, 2])"
    printing.set_printoptions(profile="default", sci_mode=True)
    assert shown([1.0, INF]) == "tensor([1.0000e+00,        inf])"
    assert shown([0.0]) == "tensor([0.])"
    printing.set_printoptions(sci_mode=False)
    assert shown([1e10, 2]) == "tensor([10000000000.,           2.])"
    printing.set_printoptions()
    assert shown([1e10, 2]) == "tensor([1.0000e+10, 2.0000e+00])"


def test_options_come_back_after_a_block():
    with printing.printoptions(precision=2, profile="short"):
        assert printing.get_printoptions() == {
            "precision": 2,
            "threshold": 1000,
            "edgeitems": 2,
            "linewidth": 80,
            "sci_mode": None,
        }
        assert shown([1.5]) == "tensor([1.50])"
    assert shown([1.5]) == "tensor([1.5000])"
    with pytest.raises(ValueError, match="profile is one of default, short, full, not 'long'"):
        printing.set_printoptions(profile="long", precision=9)
    assert printing.get_printoptions()["precision"] == 4


KINDS = ["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8"]
KINDS += ["uint8", "int32", "int64", "bool", "complex64", "complex128"]


def random_values(chance, size):
    """Values of one of the kinds that the layout rules tell apart."""
    generator = np.random.default_rng(chance.randrange(2**32))
    spread = chance.choice([1, 3, 8, 20])
    signs = generator.choice([-1, 1], size)
    makers = [
        lambda: generator.normal(size=size),
        lambda: generator.integers(-10, 10, size).astype(float),
        lambda: np.exp(generator.normal(size=size) * spread) * signs,
        lambda: generator.integers(-(10**spread % 10**12), 10**11, size).astype(float),
        lambda: generator.choice([0.0, -0.0, NAN, INF, -INF], size),
        lambda: generator.choice([0.0, 1.0, NAN, INF, 2.5, -3], size),
        lambda: generator.choice([1e-4, 9.99e-5, 1e-5, 0, 1.0], size),
        lambda: generator.choice([1000.0, 1001.0, 1.0, 999.9, 0.5], size),
        lambda: generator.choice([1e8, 1.1e8, 1.0, 99999999.0, 100000000.5], size),
        lambda: np.full(size, chance.choice([0.0, -1.0, 1.5, 1e-30, 5e-324, 1.7e308, NAN])),
        lambda: generator.choice([0.99995, 0.00005, 9.99995, -0.00004, 10], size),
    ]
    return chance.choice(makers)()


def random_options(chance):
    choices = {
        "precision": [0, 1, 2, 4, 10],
        "threshold": [0, 1, 10, 50, math.inf],
        "edgeitems": [0, 1, 2, 5],
        "linewidth": [1, 20, 30, 80, 120],
        "profile": ["default", "short", "full"],
        "sci_mode": [True, False, None],
    }
    return {name: chance.choice(all_) for name, all_ in choices.items() if chance.random() < 0.3}


@pytest.mark.oracle
@pytest.mark.parametrize("seed", range(4))
def test_as_pytorch(seed):
    torch = pytest.importorskip("torch")
    chance = random.Random(seed)
    try:
        for _ in range(250):
            options = random_options(chance)
            for module in (torch, printing):
                module.set_printoptions(profile="default")
                module.set_printoptions(**options)
            compare_one(torch, chance, options)
    finally:
        torch.set_printoptions(profile="default")


def compare_one(torch, chance, options):
    ndim = chance.choice([0, 1, 1, 2, 2, 3, 4])
    lengths = [0, 1, 2, 3, 5, 7, 12] if ndim > 1 else [0, 1, 2, 7, 100, 1001]
    shape = tuple(chance.choice(lengths) for _ in range(ndim))
    name = chance.choice(KINDS)
    values = random_values(chance, math.prod(shape)).reshape(shape)
    if name.startswith("complex"):
        parts = [values, random_values(chance, math.prod(shape)).reshape(shape)]
        values = np.stack(parts, -1).astype(float).view(complex)[..., 0]
    elif name.startswith(("int", "uint", "bool")):
        values = np.nan_to_num(values).clip(-(2**62), 2**62).astype(np.int64)
    reference = torch.tensor(values).to(getattr(torch, name))
    numpy_type = dtypes.dtype.by_name[name].numpy
    if name.startswith(("bfloat", "float8")):
        carrier = {1: torch.uint8, 2: torch.int16}[reference.element_size()]
        array = reference.view(carrier).numpy().view(numpy_type)
    else:
        array = reference.numpy()
    text = shown(array, dtype=dtypes.dtype.by_name[name])
    assert text == repr(reference), (options, name, shape)
