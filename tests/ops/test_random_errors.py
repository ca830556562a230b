"""Bad arguments of the random ops: PyTorch's errors, and nothing is drawn."""

import warnings

import pytest

import ember

ERRORS = [
    ("rand()", TypeError, "invalid combination of arguments"),
    ("rand(2.0)", TypeError, "'size' .position 1. must be tuple of ints, not float"),
    ("rand(2, foo=1)", TypeError, "foo"),
    ("rand(-1)", RuntimeError, "negative dimension -1"),
    (
        "rand(2, dtype=ember.int64)",
        NotImplementedError,
        '"check_uniform_bounds" not implemented for .Long',
    ),
    (
        "randn(2, dtype=ember.bool)",
        NotImplementedError,
        '"normal_kernel_cpu" not implemented for .Bool',
    ),
    ("rand_like([1])", TypeError, "must be Tensor, not list"),
    (
        "rand(2, dtype=ember.float32, requires_grad=1).long().requires_grad_()",
        RuntimeError,
        "floating",
    ),
    ("randint(3)", TypeError, "invalid combination of arguments"),
    ("randint(3, 3)", TypeError, "must be tuple of ints, not int"),
    ("randint(2.0, 5.0, (2,))", TypeError, "must be int, not float"),
    (
        "randint(3, 3, (2,))",
        RuntimeError,
        "random_ expects 'from' to be less than 'to', but got from=3",
    ),
    (
        "randint(300, (2,), dtype=ember.uint8)",
        RuntimeError,
        "to - 1 is out of bounds for unsigned char",
    ),
    (
        "randint(-1, 3, (2,), dtype=ember.uint8)",
        RuntimeError,
        "from is out of bounds for unsigned char",
    ),
    ("randint(0, 3, (2,), dtype=ember.bool)", RuntimeError, "to - 1 is out of bounds for bool"),
    (
        "randint(0, 3, (2,), dtype=ember.complex64)",
        RuntimeError,
        "only integral, floating-point|handles only",
    ),
    ("randint(0, 1 << 63, (2,))", ValueError, "Overflow when unpacking long"),
    (
        "randint(3, (2,), requires_grad=True)",
        RuntimeError,
        "Only Tensors of floating point and complex",
    ),
    ("randperm(-1)", RuntimeError, "negative dimension -1"),
    ("randperm(5.0)", TypeError, "'n' .position 1. must be int, not float"),
    ("randperm(300, dtype=ember.uint8)", RuntimeError, "value cannot be converted to type uint8_t"),
    ("randperm(3000, dtype=ember.float16)", RuntimeError, "n cannot be greater than 2049 for Half"),
    ("randperm(5, dtype=ember.bool)", NotImplementedError, '"randperm" not implemented for .Bool'),
    ("zeros(3).uniform_(2, 1)", RuntimeError, r"a \[from, to\) range, but found from=2 > to=1"),
    ("zeros(3).uniform_(float('nan'), 1)", RuntimeError, "from is out of bounds for float"),
    (
        "zeros(3).uniform_(-3e38, 3e38)",
        RuntimeError,
        "uniform_ expects to-from <= std::numeric_limits",
    ),
    ("zeros(3).uniform_(from_=1)", TypeError, "unexpected keyword argument 'from_'"),
    ("zeros(3).normal_(0, -1)", RuntimeError, "normal expects std >= 0.0, but found std -1"),
    (
        "zeros(3).normal_(0, float('nan'))",
        RuntimeError,
        "normal expects std >= 0.0, but found std nan",
    ),
    (
        "normal(ember.zeros(2), ember.tensor([1.0, -1.0]))",
        RuntimeError,
        "all elements of std >= 0.0",
    ),
    ("normal(0.0, -1.0, (3,))", RuntimeError, "normal expects std >= 0.0"),
    ("normal(2, 3)", TypeError, "invalid combination of arguments"),
    ("normal(ember.zeros(3), ember.ones(4))", RuntimeError, "size|shape"),
    ("zeros(3).random_(5, 5)", RuntimeError, "random_ expects 'from' to be less than 'to'"),
    ("zeros(3).random_(0)", RuntimeError, "random_ expects 'from' to be less than 'to'"),
    ("zeros(3).random_(2.0)", TypeError, "must be int, not float"),
    (
        "zeros(3).bernoulli_(1.1)",
        RuntimeError,
        r"bernoulli_ expects p to be in \[0, 1\], but got p=1.1",
    ),
    ("zeros(3).bernoulli_(float('nan'))", RuntimeError, "but got p=nan"),
    (
        "zeros(3).bernoulli_(ember.tensor([0.1, 2.0, 0.3]))",
        RuntimeError,
        "Expected p_in >= 0 && p_in <= 1",
    ),
    (
        "zeros(3).bernoulli_(ember.tensor([1, 0, 1]))",
        NotImplementedError,
        "not implemented for .Long",
    ),
    ("zeros(3).bernoulli_(ember.tensor([0.1, 0.2]))", RuntimeError, "expand|size"),
    (
        "bernoulli(ember.tensor([1, 0]))",
        NotImplementedError,
        '"bernoulli_tensor_cpu_p_" not implemented',
    ),
    (
        "zeros(3).exponential_(0)",
        RuntimeError,
        "exponential_ expects lambda > 0.0, but found lambda=0",
    ),
    (
        "zeros(3, dtype=ember.int32).exponential_()",
        RuntimeError,
        "Exponential distribution is a continuous",
    ),
    (
        "zeros(3).geometric_(1)",
        RuntimeError,
        r"geometric_ expects p to be in \(0, 1\), but got p=1",
    ),
    ("zeros(3).log_normal_(0, 0)", RuntimeError, "log_normal_ expects std > 0.0, but found std=0"),
    ("zeros(3).cauchy_(0, 0)", RuntimeError, "cauchy_ expects sigma > 0.0, but found sigma=0"),
    (
        "zeros(1).expand(2).uniform_()",
        RuntimeError,
        "more than one element of the written-to tensor",
    ),
    ("zeros(2, requires_grad=True).normal_()", RuntimeError, "a leaf Variable that requires grad"),
    (
        "multinomial(ember.rand(3), 4)",
        RuntimeError,
        "cannot sample n_sample > prob_dist.size.-1. samples",
    ),
    ("multinomial(ember.rand(3), 0)", RuntimeError, "cannot sample n_sample <= 0 samples"),
    ("multinomial(ember.rand(2, 3, 4), 1)", RuntimeError, "prob_dist must be 1 or 2 dim"),
    (
        "multinomial(ember.tensor([1, 2]), 1)",
        RuntimeError,
        "only supports floating-point dtypes for input",
    ),
    ("multinomial(ember.tensor([-1.0, 2]), 1)", RuntimeError, "either `inf`, `nan` or element < 0"),
    ("multinomial(ember.tensor([0.0, 0]), 2, True)", RuntimeError, "sum of probabilities <= 0"),
    (
        "multinomial(ember.tensor([float('inf'), 2]), 3, True)",
        RuntimeError,
        "entry = infinity or NaN",
    ),
    ("poisson(ember.tensor([-1.0]))", RuntimeError, "invalid Poisson rate"),
    ("poisson(ember.tensor([1]))", NotImplementedError, '"poisson_cpu" not implemented for .Long'),
    (
        "binomial(ember.tensor([3]), ember.tensor([0.5]))",
        ValueError,
        "only supports floating-point dtypes",
    ),
    (
        "binomial(ember.tensor([3.0]), ember.tensor([0.5]).double())",
        RuntimeError,
        "Found dtype Double",
    ),
]


@pytest.mark.parametrize(("expression", "kind", "text"), ERRORS)
def test_errors_draw_nothing(expression, kind, text):
    ember.manual_seed(3)
    before = ember.get_rng_state()
    if "ember.rand(" in expression or "rand(2, dtype=ember.float32" in expression:
        before = None
    with pytest.raises(kind, match=text):
        eval(f"ember.{expression}", {"ember": ember})
    if before is not None:
        assert (ember.get_rng_state() == before).all().item()


def test_bounds_beyond_a_floating_dtype():
    """Bounds that a dtype does not hold exactly move inwards, with a warning."""
    with pytest.warns(UserWarning, match=r"to - 1 is out of bounds \[-\(2\^11\), 2\^11\]"):
        x = ember.zeros(1000, dtype=ember.float16).random_(1001, 3001)
    assert 1001 <= x.float().min().item()
    assert x.float().max().item() <= 3000
    with pytest.raises(RuntimeError, match="'from' casted to dtype to be less than 'to' casted"):
        ember.zeros(3, dtype=ember.bfloat16).random_(1000001, 1000009)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ember.zeros(3, dtype=ember.float16).random_(0, 2048)
    x = ember.zeros(100, dtype=ember.int64).random_(-(1 << 63), None)
    assert x.min().item() < 0 < x.max().item()
    assert ember.zeros(100, dtype=ember.int8).random_(120, None).min().item() >= 120
