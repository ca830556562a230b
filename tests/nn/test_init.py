"""Initialisers: recorded numbers for a seed, their laws and their errors."""

import math

import pytest

import ember as torch
from ember import nn
from ember.nn import init

# initialiser, arguments, shape, first numbers and sum in PyTorch 2.13 after manual_seed(3)
RECORDED = [
    (
        "uniform_",
        (-1.0, 2.0),
        (3, 4),
        [-0.987209, -0.683292, -0.142473, -0.919136, 0.414843, -0.819651],
        3.60818,
    ),
    (
        "normal_",
        (1.0, 2.0),
        (3, 4),
        [2.606552, 1.349667, 1.177956, -0.227436, 1.092365, -1.736518],
        15.56425,
    ),
    ("normal_", (), (20,), [-0.076644, 0.359882, -0.782017, 0.071528, 1.046023, 0.522187], 8.89806),
    (
        "trunc_normal_",
        (),
        (20,),
        [-0.076644, 0.359882, -0.782017, 0.071528, 1.046023, 0.522187],
        6.34022,
    ),
    (
        "trunc_normal_",
        (0.0, 0.02),
        (30,),
        [-0.001533, 0.007198, -0.01564, 0.001431, 0.013297, -0.005736],
        -0.0294,
    ),
    (
        "trunc_normal_",
        (0.0, 1.0, 0.0, 0.5),
        (6,),
        [0.002132, 0.052785, 0.142921, 0.013477, 0.235807, 0.030058],
        0.47718,
    ),
    (
        "xavier_uniform_",
        (2.0,),
        (3, 4, 2),
        [-1.298143, -1.032862, -0.560796, -1.238723, -0.074331, -1.151886],
        -2.77819,
    ),
    (
        "xavier_normal_",
        (),
        (3, 4),
        [0.429369, 0.093452, 0.047561, -0.328046, 0.024686, -0.731365],
        0.95258,
    ),
    (
        "kaiming_uniform_",
        (),
        (3, 4),
        [-1.214301, -0.966154, -0.524577, -1.158719, -0.06953, -1.077491],
        -1.95291,
    ),
    (
        "kaiming_normal_",
        (0.1, "fan_out", "leaky_relu"),
        (3, 4),
        [0.652617, 0.142042, 0.07229, -0.498612, 0.037521, -1.111635],
        1.44788,
    ),
    (
        "orthogonal_",
        (2.0,),
        (3, 5),
        [1.558571, 0.339224, 0.172641, -1.190777, 0.089606, -1.10015],
        2.30094,
    ),
    (
        "orthogonal_",
        (),
        (5, 2, 2),
        [-0.048523, 0.701005, -0.227514, 0.058136, 0.662235, -0.057426],
        3.39042,
    ),
    (
        "sparse_",
        (0.3,),
        (10, 3),
        [-0.000766, 0.003599, 0.0, 0.000715, 0.006648, -0.002868],
        -0.00107,
    ),
    ("dirac_", (2,), (4, 2, 3), [0.0, 1.0, 0.0, 0.0, 0.0, 0.0], 4.0),
    ("eye_", (), (2, 3), [1.0, 0.0, 0.0, 0.0, 1.0, 0.0], 2.0),
]

# the first parameter values of modules made after manual_seed(5)
MADE = [
    (
        lambda: nn.Linear(3, 2),
        [0.381342, -0.43173, 0.470505, 0.36942, 0.485094, -0.44266, -0.387527, 0.274726],
    ),
    (
        lambda: nn.Bilinear(2, 2, 2),
        [0.467047, -0.528759, 0.576249, 0.452445, 0.594116, -0.542146, -0.474622, 0.336469],
    ),
    (
        lambda: nn.Embedding(3, 2, padding_idx=0),
        [0.0, 0.0, -0.558096, 0.667524, -0.197415, 1.942783],
    ),
    (lambda: nn.PReLU(2), [0.25, 0.25]),
]


@pytest.mark.parametrize(("name", "args", "shape", "first", "total"), RECORDED)
def test_numbers_are_those_of_pytorch(name, args, shape, first, total):
    torch.manual_seed(3)
    tensor = torch.empty(shape)
    assert getattr(init, name)(tensor, *args) is tensor
    flat = tensor.flatten().tolist()
    assert flat[: len(first)] == pytest.approx(first, abs=2e-6)
    assert math.fsum(flat) == pytest.approx(total, abs=2e-5)


@pytest.mark.parametrize(("make", "values"), MADE)
def test_modules_start_from_the_same_numbers(make, values):
    torch.manual_seed(5)
    made = [v for p in make().parameters() for v in p.flatten().tolist()]
    assert made[: len(values)] == pytest.approx(values, abs=2e-6)


@pytest.mark.oracle
@pytest.mark.parametrize(("name", "args", "shape", "first", "total"), RECORDED)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_numbers_against_live_pytorch(name, args, shape, first, total, dtype):
    theirs = pytest.importorskip("torch")
    if name == "orthogonal_" and dtype == "bfloat16":
        pytest.skip("PyTorch has no QR in bfloat16")
    theirs.manual_seed(11)
    torch.manual_seed(11)
    wanted = getattr(theirs.nn.init, name)(theirs.empty(shape, dtype=getattr(theirs, dtype)), *args)
    got = getattr(init, name)(torch.empty(shape, dtype=getattr(torch, dtype)), *args)
    tolerance = 1e-2 if dtype == "bfloat16" else 1e-5
    assert got.flatten().tolist() == pytest.approx(wanted.flatten().tolist(), abs=tolerance)
    assert torch.rand(1).item() == theirs.rand(1).item()


def test_initialisers_work_on_parameters_without_recording():
    weight = nn.Parameter(torch.zeros(3, 3))
    for fill in (init.ones_, init.zeros_, init.uniform_, init.orthogonal_, init.trunc_normal_):
        assert fill(weight) is weight and weight.is_leaf and weight.requires_grad
    assert init.constant_(weight, 3.0).sum().item() == 27


def test_calculate_gain():
    assert init.calculate_gain("conv2d") == 1 and init.calculate_gain("selu") == 0.75
    assert init.calculate_gain("tanh") == pytest.approx(5 / 3)
    assert init.calculate_gain("relu") == pytest.approx(math.sqrt(2))
    assert init.calculate_gain("leaky_relu") == pytest.approx(1.4141428569978354)
    assert init.calculate_gain("leaky_relu", 1) == pytest.approx(1.0)
    for slope in (True, "x"):
        with pytest.raises(ValueError, match=f"negative_slope {slope} not a valid number"):
            init.calculate_gain("leaky_relu", slope)
    with pytest.raises(ValueError, match="Unsupported nonlinearity nope"):
        init.calculate_gain("nope")


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (lambda: init.xavier_uniform_(torch.zeros(3)), "fewer than 2 dimensions"),
        (lambda: init.kaiming_normal_(torch.zeros(2, 3), mode="x"), "Mode x not supported"),
        (lambda: init.eye_(torch.zeros(2, 3, 4)), "Only tensors with 2 dimensions"),
        (lambda: init.dirac_(torch.zeros(2, 3)), "Only tensors with 3, 4, or 5 dimensions"),
        (lambda: init.dirac_(torch.zeros(3, 3, 3), groups=2), "dim 0 must be divisible by groups"),
        (lambda: init.orthogonal_(torch.zeros(3)), "Only tensors with 2 or more dimensions"),
        (lambda: init.sparse_(torch.zeros(3), 0.1), "Only tensors with 2 dimensions"),
    ],
)
def test_refused_tensors(fill, message):
    with pytest.raises(ValueError, match=message):
        fill()


def test_fans_and_laws():
    assert init._calculate_fan_in_and_fan_out(torch.zeros(2, 3, 4, 5)) == (60, 40)
    wide = init.orthogonal_(torch.empty(3, 5), gain=2.0)
    assert torch.allclose(wide @ wide.t(), 4 * torch.eye(3), atol=1e-5)
    sparse = init.sparse_(torch.empty(10, 4), sparsity=0.25)
    assert (sparse == 0).sum(0).tolist() == [3, 3, 3, 3]
    bounded = init.trunc_normal_(torch.empty(500), std=0.5, a=-0.1, b=0.7)
    assert -0.1 <= bounded.min().item() and bounded.max().item() <= 0.7
    uniform = init.kaiming_uniform_(torch.empty(50, 6), nonlinearity="relu")
    assert uniform.abs().max().item() <= 1.0 < 2 * uniform.abs().max().item()


def test_warnings():
    with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
        init.kaiming_uniform_(torch.zeros(0, 3))
    with pytest.warns(UserWarning, match="mean is more than 2 std from"):
        init.trunc_normal_(torch.zeros(2), mean=-4.5)
    with pytest.warns(FutureWarning, match="`nn.init.normal` is now deprecated in favor of"):
        init.normal(torch.zeros(1))


def test_a_generator_of_ones_own():
    first = init.normal_(torch.empty(4), generator=torch.Generator().manual_seed(1))
    again = init.normal_(torch.empty(4), generator=torch.Generator().manual_seed(1))
    assert torch.equal(first, again)
