"""Type promotion as recorded: every pair of dtypes, with and without dims, and numbers.

A letter is NumPy's code of a dtype (f is bfloat16, g float32, C complex32, ! a refusal).
"""

import pytest

FLOATS = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
NAMES = ["bool", "uint8", "int8", "int16", "int32", "int64", *FLOATS]
LETTERS = dict(zip(NAMES, "?BbhilefgdFD", strict=True)) | {"complex32": "C"}
# Rows and columns in the order of NAMES.
DIMS = (
    "?BbhilefgdFD",
    "BBhhilefgdFD",
    "bhbhilefgdFD",
    "hhhhilefgdFD",
    "iiiiilefgdFD",
    "llllllefgdFD",
    "eeeeeeeggdFD",
    "ffffffgfgdFD",
    "gggggggggdFD",
    "ddddddddddDD",
    "FFFFFFFFFDFD",
    "DDDDDDDDDDDD",
)
ZERO_DIM = (
    "?BbhilefgdFD",
    "BBBBBBefgdFD",
    "bbbbbbefgdFD",
    "hhhhhhefgdFD",
    "iiiiiiefgdFD",
    "llllllefgdFD",
    "eeeeeeeeeeCC",
    "ffffffffffFF",
    "ggggggggggFF",
    "ddddddddddDD",
    "FFFFFFFFFFFF",
    "DDDDDDDDDDDD",
)
NUMBERS = (
    "?lgF",
    "BBgF",
    "bbgF",
    "hhgF",
    "iigF",
    "llgF",
    "eeeC",
    "fffF",
    "gggF",
    "dddD",
    "FFFF",
    "DDDD",
)
ZERO_DIM_NUMBERS = (
    "?lgF",
    "BBgF",
    "bbgF",
    "hhgF",
    "iigF",
    "llgF",
    "eeeC",
    "fffF",
    "gggF",
    "dddD",
    "FFFF",
    "DDDD",
)
# op: (the op, the dtype of its result for each dtype of the operand)
OPS = {
    "div": (lambda x: x / x, "ggggggefgdFD"),
    "sum": (lambda x: x.sum(), "llllllefgdFD"),
    "exp": (lambda x: x.exp(), "ggggggefgdFD"),
    "mean": (lambda x: x.mean(), "!!!!!!efgdFD"),
    "square": (lambda x: x**2, "lBbhilefgdFD"),
    "root": (lambda x: x**0.5, "ggggggefgdFD"),
    "power": (lambda x: 2**x, "lBbhilefgdFD"),
    "abs": (lambda x: x.abs(), "!Bbhilefgdgd"),
    "floor_divide": (lambda x: x // x, "!Bbhilefgd!!"),
    "less": (lambda x: x < x, "??????????!!"),
    "prod": (lambda x: x.prod(), "llllllefgdFD"),
    "cumsum": (lambda x: x.cumsum(0), "llllllefgdFD"),
    "neg": (lambda x: -x, "!BbhilefgdFD"),
    "remainder": (lambda x: x % x, "!Bbhilefgd!!"),
    "argmax": (lambda x: x.argmax(), "!lllllllll!!"),
    "invert": (lambda x: ~x, "?Bbhil!!!!!!"),
    "sqrt": (lambda x: x.sqrt(), "ggggggefgdFD"),
    "sigmoid": (lambda x: x.sigmoid(), "ggggggefgdFD"),
    "floor": (lambda x: x.floor(), "!Bbhilefgd!!"),
    "softmax": (lambda x: x.softmax(0), "!!!!!!efgd!!"),
    "std": (lambda x: x.std(), "!!!!!!efgdgd"),
    "var": (lambda x: x.var(), "!!!!!!efgdgd"),
    "max": (lambda x: x.max(), "?Bbhilefgd!!"),
    "clamp": (lambda x: x.clamp(0, 1), "lBbhilefgd!!"),
    "clampf": (lambda x: x.clamp(0.5), "ggggggefgd!!"),
    "relu": (lambda x: x.relu(), "!Bbhilefgd!!"),
    "sign": (lambda x: x.sign(), "?Bbhilefgd!!"),
    "isnan": (lambda x: x.isnan(), "????????????"),
    "conj": (lambda x: x.conj(), "?BbhilefgdFD"),
    "angle": (lambda x: x.angle(), "ggggggefgdgd"),
    "logical_not": (lambda x: x.logical_not(), "????????????"),
    "any": (lambda x: x.any(), "?B??????????"),
    "matmul": (lambda x: x @ x, "!BbhilefgdFD"),
    "round": (lambda x: x.round(), "!Bbhilefgd!!"),
    "gcd": (lambda x: x.gcd(x), "!Bbhil!!!!!!"),
    "lshift": (lambda x: x << 1, "lBbhil!!!!!!"),
    "masked": (lambda x: x.masked_fill(x == 1, 2), "?BbhilefgdFD"),
    "addnum": (lambda x: 2 - x, "!BbhilefgdFD"),
    "atan2": (lambda x: x.atan2(x), "ggggggefgd!!"),
    "norm": (lambda x: x.norm(), "!!!!!!efgdgd"),
    "median": (lambda x: x.median(), "!Bbhilefgd!!"),
    "logsumexp": (lambda x: x.logsumexp(0), "ggggggefgdFD"),
}


def letter(torch, attempt):
    try:
        found = LETTERS[str(attempt().dtype).removeprefix("torch.")]
    except (RuntimeError, TypeError, NotImplementedError):
        return "!"
    return found


def made(torch, name, dims):
    return torch.ones((2,) * dims, dtype=getattr(torch, name))


def test_promote_types(torch):
    for row, a in zip(DIMS, NAMES, strict=True):
        a = getattr(torch, a)
        found = [torch.promote_types(a, getattr(torch, b)) for b in NAMES]
        assert "".join(LETTERS[str(f).removeprefix("torch.")] for f in found) == row


@pytest.mark.filterwarnings("ignore:ComplexHalf support:UserWarning")
@pytest.mark.parametrize("table", ["dims", "zero dims", "both zero dims"])
def test_pairs_of_tensors(torch, table):
    rows = ZERO_DIM if table == "zero dims" else DIMS
    dims = {"dims": (1, 1), "zero dims": (1, 0), "both zero dims": (0, 0)}[table]
    for row, a in zip(rows, NAMES, strict=True):
        x = made(torch, a, dims[0])
        others = [made(torch, b, dims[1]) for b in NAMES]
        for op in (lambda p, q: p + q, lambda p, q: q * p, lambda p, q: torch.add(q, p)):
            found = "".join(letter(torch, lambda x=x, b=b, op=op: op(x, b)) for b in others)
            assert found == row, a
        found = [torch.result_type(x, b) for b in others]
        if "C" not in row:
            assert "".join(LETTERS[str(f).removeprefix("torch.")] for f in found) == row


@pytest.mark.filterwarnings("ignore:ComplexHalf support:UserWarning")
@pytest.mark.parametrize("dims", [0, 1])
def test_tensors_with_numbers(torch, dims):
    for row, a in zip(NUMBERS if dims else ZERO_DIM_NUMBERS, NAMES, strict=True):
        x = made(torch, a, dims)
        for op in (lambda p, q: p + q, lambda p, q: q * p):
            found = [letter(torch, lambda x=x, v=v, op=op: op(x, v)) for v in (True, 1, 1.0, 1j)]
            assert "".join(found) == row, a


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", OPS)
def test_results_of_ops(torch, name):
    op, row = OPS[name]
    found = [letter(torch, lambda a=a: op(made(torch, a, 1))) for a in NAMES]
    assert "".join(found) == row


def test_comparisons_and_choices(torch):
    for a in NAMES:
        for b in NAMES:
            x, y = made(torch, a, 1), made(torch, b, 1)
            assert (x == y).dtype is torch.bool
            assert torch.where(x == y, x, y).dtype is torch.promote_types(x.dtype, y.dtype)
            assert torch.cat([x, y]).dtype is torch.promote_types(x.dtype, y.dtype)


def test_numbers_do_not_widen(torch):
    """A number beyond the dtype is cast to it, as PyTorch casts."""
    x = torch.tensor([1.0], dtype=torch.float16)
    assert (x * 70000.0).tolist() == [float("inf")] and (x + 1e-9).dtype is torch.float16
    y = torch.tensor([200], dtype=torch.uint8)
    assert (y + 100).tolist() == [44] and (y - 201).tolist() == [255]
    assert (torch.tensor([1], dtype=torch.int32) + 2**31 - 1).tolist() == [-(2**31)]


def test_can_cast(torch):
    for a, b, expected in [
        ("float32", "int64", False),
        ("int64", "float16", True),
        ("complex64", "float64", False),
        ("float64", "complex64", True),
        ("bool", "uint8", True),
        ("int8", "bool", False),
        ("float64", "float16", True),
    ]:
        assert torch.can_cast(getattr(torch, a), getattr(torch, b)) is expected
