"""The CPU's random numbers: PyTorch's own, bit for bit, recorded from PyTorch 2.13."""

import zlib

import numpy as np
import pytest

import ember
from ember.backends.cpu.mersenne import Mersenne

# distribution, parameters, dtype of the target, size, first number, CRC-32 of all bytes; seed 42
RECORDED = [
    ("uniform", (0.0, 1.0), "float32", 15, 0.8822692632675171, 1234724463),
    ("uniform", (0.0, 1.0), "float32", 1003, 0.8822692632675171, 3819975136),
    ("uniform", (0.0, 1.0), "float16", 15, 0.88232421875, 3396205380),
    ("uniform", (0.0, 1.0), "float16", 1003, 0.88232421875, 1492651850),
    ("uniform", (0.0, 1.0), "bfloat16", 15, 0.8828125, 2632056085),
    ("uniform", (0.0, 1.0), "bfloat16", 1003, 0.8828125, 4145209423),
    ("uniform", (-3.3, 7.7), "float32", 15, 6.404962062835693, 4063867934),
    ("uniform", (-3.3, 7.7), "float32", 1003, 6.404962062835693, 3123500616),
    ("uniform", (-3.3, 7.7), "float16", 15, 6.40625, 1632324590),
    ("uniform", (-3.3, 7.7), "float16", 1003, 6.40625, 3980457190),
    ("uniform", (-3.3, 7.7), "bfloat16", 15, 6.40625, 1620709130),
    ("uniform", (-3.3, 7.7), "bfloat16", 1003, 6.40625, 4180584966),
    ("normal", (0.0, 1.0), "float32", 15, 0.33669036626815796, 2308132694),
    ("normal", (0.0, 1.0), "float32", 1003, 1.9269152879714966, 3613682911),
    ("normal", (0.0, 1.0), "float16", 15, 0.336669921875, 3393341524),
    ("normal", (0.0, 1.0), "float16", 1003, 1.9267578125, 919590395),
    ("normal", (0.0, 1.0), "bfloat16", 15, 0.3359375, 2265528314),
    ("normal", (0.0, 1.0), "bfloat16", 1003, 1.9296875, 2359285386),
    ("normal", (0.3, 1.7), "float32", 15, 0.8723735809326172, 900537477),
    ("normal", (0.3, 1.7), "float32", 1003, 3.575756072998047, 3616650540),
    ("normal", (0.3, 1.7), "float16", 15, 0.87255859375, 171942609),
    ("normal", (0.3, 1.7), "float16", 1003, 3.576171875, 1311092378),
    ("normal", (0.3, 1.7), "bfloat16", 15, 0.87109375, 3190964256),
    ("normal", (0.3, 1.7), "bfloat16", 1003, 3.578125, 1855862210),
    ("integers_of_type", (), "float32", 15, 14801927.0, 3100371486),
    ("integers_of_type", (), "float32", 1003, 14801927.0, 1505567514),
    ("integers_of_type", (), "float16", 15, 426.0, 1903627919),
    ("integers_of_type", (), "float16", 1003, 426.0, 2768815083),
    ("integers_of_type", (), "bfloat16", 15, 12.0, 1570633489),
    ("integers_of_type", (), "bfloat16", 1003, 12.0, 1674221363),
    ("bernoulli", (0.3,), "float32", 15, 1.0, 1882204487),
    ("bernoulli", (0.3,), "float32", 1003, 1.0, 1519932292),
    ("bernoulli", (0.3,), "float16", 15, 1.0, 2743807726),
    ("bernoulli", (0.3,), "float16", 1003, 1.0, 1462697819),
    ("bernoulli", (0.3,), "bfloat16", 15, 1.0, 436864857),
    ("bernoulli", (0.3,), "bfloat16", 1003, 1.0, 2362533755),
    ("exponential", (0.3,), "float32", 15, 0.19971337914466858, 2321675865),
    ("exponential", (0.3,), "float32", 1003, 0.19971337914466858, 3303439612),
    ("exponential", (0.3,), "float16", 15, 0.19970703125, 2782227238),
    ("exponential", (0.3,), "float16", 1003, 0.19970703125, 1612508171),
    ("exponential", (0.3,), "bfloat16", 15, 0.2001953125, 2146357157),
    ("exponential", (0.3,), "bfloat16", 1003, 0.2001953125, 470429631),
    ("geometric", (0.3,), "float32", 15, 8.0, 1586258813),
    ("geometric", (0.3,), "float32", 1003, 8.0, 3837258548),
    ("geometric", (0.3,), "float16", 15, 8.0, 2583478266),
    ("geometric", (0.3,), "float16", 1003, 8.0, 277882480),
    ("geometric", (0.3,), "bfloat16", 15, 8.0, 2329643667),
    ("geometric", (0.3,), "bfloat16", 1003, 8.0, 1995495725),
    ("log_normal", (0.3, 0.5), "float32", 15, 1.597348690032959, 3150266110),
    ("log_normal", (0.3, 0.5), "float32", 1003, 1.597348690032959, 1612934481),
    ("log_normal", (0.3, 0.5), "float16", 15, 1.59765625, 3829645650),
    ("log_normal", (0.3, 0.5), "float16", 1003, 1.59765625, 2531949050),
    ("log_normal", (0.3, 0.5), "bfloat16", 15, 1.59375, 3850367169),
    ("log_normal", (0.3, 0.5), "bfloat16", 1003, 1.59375, 2423054590),
    ("cauchy", (0.3, 0.5), "float32", 15, -2.4062435626983643, 1825800797),
    ("cauchy", (0.3, 0.5), "float32", 1003, -2.4062435626983643, 1577658480),
    ("cauchy", (0.3, 0.5), "float16", 15, -2.40625, 2580695597),
    ("cauchy", (0.3, 0.5), "float16", 1003, -2.40625, 1024308694),
    ("cauchy", (0.3, 0.5), "bfloat16", 15, -2.40625, 1823822644),
    ("cauchy", (0.3, 0.5), "bfloat16", 1003, -2.40625, 1303952419),
    ("integers_of_type", (), "int64", 1003, 6909045637428952499, 3547433773),
    ("bernoulli", (0.3,), "int64", 1003, 1, 792233802),
    ("integers_of_type", (), "int32", 1003, 1608637542, 1662927202),
    ("bernoulli", (0.3,), "int32", 1003, 1, 2996964786),
    ("integers_of_type", (), "int16", 1003, 23654, 1638177867),
    ("bernoulli", (0.3,), "int16", 1003, 1, 1314644075),
    ("integers_of_type", (), "int8", 1003, 102, 3088935349),
    ("bernoulli", (0.3,), "int8", 1003, 1, 27433730),
    ("integers_of_type", (), "uint8", 1003, 102, 2874858553),
    ("bernoulli", (0.3,), "uint8", 1003, 1, 27433730),
    ("integers_of_type", (), "bool", 1003, False, 353123008),
    ("bernoulli", (0.3,), "bool", 1003, True, 27433730),
    ("integers", (0, 100), "int64", 1003, 42, 794604589),
    ("integers", (-5, 1048576), "int64", 1003, 121953, 3876291136),
    ("integers", (0, 268435455), "int64", 1003, 266460267, 3614139221),
    ("integers", (-7, 268435456), "int64", 1003, 199900588, 1314028779),
    ("integers", (-1099511627776, 2199023255552), "int64", 1003, -658003837517, 574985348),
    ("integers", (0, 9223372036854775807), "int64", 1003, 6909045637428952499, 4227054447),
    ("integers", (0, 18446744073709551616), "int64", 1003, 6909045637428952499, 1106707767),
]

# distribution, its parameters, size, first numbers, sum of the magnitudes; seed 42, float64
DOUBLES = [
    (
        "uniform",
        (0.0, 1.0),
        15,
        [0.05815448596142969, 0.06291016742457756, 0.12358607277440903],
        6.023334121223824,
    ),
    (
        "uniform",
        (0.0, 1.0),
        1003,
        [0.05815448596142969, 0.06291016742457756, 0.12358607277440903],
        489.17955710528724,
    ),
    (
        "uniform",
        (-3.3, 7.7),
        15,
        [-2.6603006544242733, -2.607988158329647, -1.9405531994815006],
        48.206369896809186,
    ),
    (
        "uniform",
        (-3.3, 7.7),
        1003,
        [-2.6603006544242733, -2.607988158329647, -1.9405531994815006],
        3125.4001926397705,
    ),
    (
        "normal",
        (0.0, 1.0),
        15,
        [0.33669035438385886, 0.1288094051365897, 0.23446236336153173],
        10.947997285747931,
    ),
    (
        "normal",
        (0.0, 1.0),
        1003,
        [0.2995562877502637, 0.24237779080894106, 0.28320739441795323],
        801.0258583453158,
    ),
    (
        "normal",
        (0.3, 1.7),
        15,
        [0.87237360245256, 0.5189759887322025, 0.6985860177146039],
        20.111595385771484,
    ),
    (
        "normal",
        (0.3, 1.7),
        1003,
        [0.8092456891754483, 0.7120422443751998, 0.7814525705105204],
        1389.1516999312666,
    ),
    (
        "exponential",
        (0.3,),
        15,
        [0.19971338563600716, 0.216587095977951, 0.4397225999469686],
        42.303404552282004,
    ),
    (
        "exponential",
        (0.3,),
        1003,
        [0.19971338563600716, 0.216587095977951, 0.4397225999469686],
        3210.713197127708,
    ),
    ("geometric", (0.3,), 15, [8.0, 8.0, 6.0], 65.0),
    ("geometric", (0.3,), 1003, [8.0, 8.0, 6.0], 3455.0),
    (
        "log_normal",
        (0.3, 0.5),
        15,
        [1.597348675868583, 1.4396567290531694, 1.5177533491503137],
        23.907258805486308,
    ),
    (
        "log_normal",
        (0.3, 0.5),
        1003,
        [1.597348675868583, 1.4396567290531694, 1.5177533491503137],
        1534.1002248302734,
    ),
    (
        "cauchy",
        (0.3, 0.5),
        15,
        [-2.406243648498657, -2.196850540028182, -0.9224371633635868],
        21.05672581648459,
    ),
    (
        "cauchy",
        (0.3, 0.5),
        1003,
        [-2.406243648498657, -2.196850540028182, -0.9224371633635868],
        2495.054811668015,
    ),
]

# after each step of `test_interleaved`: CRC-32 of the twister's state, the spare normal
INTERLEAVED = [
    (3351638326, 1.9427835329161933),
    (2351097548, 1.9427835329161933),
    (3763563071, -0.5018315820621166),
    (2076694584, -0.5018315820621166),
    (2076694584, None),
    (2561249816, None),
    (3329469432, -1.553747122690355),
    (3106750844, -1.553747122690355),
    (1321762696, 1.2063726613902732),
    (269633128, None),
    (2131932581, None),
]


def filled(source, distribution, parameters, dtype, size):
    out = np.zeros(size, getattr(ember, dtype).numpy)
    getattr(source, distribution)(out, *parameters)
    return out


def crc(array):
    return zlib.crc32(np.ascontiguousarray(array).tobytes())


@pytest.mark.parametrize(
    ("distribution", "parameters", "dtype", "size", "first", "checksum"), RECORDED
)
def test_recorded(distribution, parameters, dtype, size, first, checksum):
    out = filled(Mersenne(42), distribution, parameters, dtype, size)
    assert float(out[0]) == float(first)
    assert crc(out) == checksum


@pytest.mark.parametrize(("distribution", "parameters", "size", "first", "total"), DOUBLES)
def test_recorded_doubles(distribution, parameters, size, first, total):
    out = filled(Mersenne(42), distribution, parameters, "float64", size)
    assert out[: len(first)] == pytest.approx(first, rel=1e-14)
    assert np.abs(out).sum() == pytest.approx(total, rel=1e-13)


def test_long_draws():
    source = Mersenne(7)
    uniform = filled(source, "uniform", (0.0, 1.0), "float32", 100003)
    assert (crc(uniform), float(uniform[-1])) == (1410905187, 0.913200318813324)
    normal = filled(source, "normal", (0.0, 1.0), "float32", 100003)
    assert (crc(normal), float(normal[-1])) == (1470109759, 0.23796510696411133)
    assert crc(source.permutation(100003)) == 1626030366


def test_permutations():
    assert Mersenne(42).permutation(0).tolist() == []
    assert Mersenne(42).permutation(1).tolist() == [0]
    assert Mersenne(42).permutation(2).tolist() == [0, 1]
    assert Mersenne(42).permutation(10).tolist() == [2, 6, 1, 8, 4, 5, 0, 9, 3, 7]
    source = Mersenne(42)
    assert (crc(source.permutation(1003)), crc(source.permutation(5000))) == (772074128, 2406679889)


def test_interleaved():
    """Odd draws leave a spare normal behind; blocks of 16 and all else leave it alone."""
    source = Mersenne((1 << 40) + 5)
    transposed = np.zeros((4, 5), np.float32).T
    steps = [
        lambda: filled(source, "normal", (0.0, 1.0), "float32", 5),
        lambda: filled(source, "uniform", (0.0, 1.0), "float32", 3),
        lambda: filled(source, "normal", (0.0, 1.0), "float32", 2),
        lambda: filled(source, "normal", (0.0, 1.0), "float32", 20),
        lambda: filled(source, "normal", (0.0, 1.0), "float32", 1),
        lambda: filled(source, "integers", (0, 10), "int64", 4),
        lambda: filled(source, "normal", (0.0, 1.0), "float64", 1),
        lambda: source.permutation(700),
        lambda: source.normal(transposed, 0.0, 1.0),
        lambda: filled(source, "log_normal", (0.3, 0.5), "float32", 3),
        lambda: filled(source, "uniform", (0.0, 1.0), "float32", 624),
    ]
    for step, (checksum, spare) in zip(steps, INTERLEAVED, strict=True):
        step()
        assert crc(source.state()[:5016]) == checksum
        assert source.spare == (None if spare is None else pytest.approx(spare, rel=1e-14))


def test_order_of_memory():
    """Targets that are not contiguous are filled in the order of their memory."""
    normal = np.zeros((3, 4), np.float32)
    Mersenne(3).normal(normal.T, 0.0, 1.0)
    assert normal[0].tolist() == pytest.approx([0.80327606, 0.17483339, 0.08897810, -0.61371803])
    uniform = np.zeros((3, 4), np.float32)
    Mersenne(3).uniform(uniform.T, 0.0, 1.0)
    assert uniform[0].tolist() == pytest.approx([0.00426352, 0.10556936, 0.28584248, 0.02695483])
    strided = np.zeros((6, 10), np.float32)
    Mersenne(3).uniform(strided[:, ::2], 0.0, 1.0)
    packed = filled(Mersenne(3), "uniform", (0.0, 1.0), "float32", 30)
    assert strided[:, ::2].reshape(-1).tolist() == packed.tolist()
    assert not strided[:, 1::2].any()


def test_rejection_and_choice():
    """One stream through all samplers that draw a number of uniforms that nobody knows before."""
    source = Mersenne(11)
    out = np.zeros(8, np.float32)
    source.poisson(out, np.array([0, 0.5, 3, 9.9, 10, 30, 1e3, 1e5], np.float32))
    assert out.tolist() == [0, 0, 4, 9, 17, 39, 990, 100288]
    counts = np.array([5, 10, 10, 100, 100, 1000, 1e6, 0], np.float32)
    source.binomial(out, counts, np.array([0, 0.3, 0.7, 0.3, 0.8, 0.5, 0.4, 0.5], np.float32))
    assert out.tolist() == [0, 4, 7, 34, 82, 476, 400342, 0]
    shapes = np.array([0.1, 0.5, 1, 2, 30, 1000])
    single, double = np.zeros(6, np.float32), np.zeros(6)
    source.standard_gamma(single, shapes.astype(np.float32))
    expected = [0.78630525, 1.30545449, 0.11664601, 0.80506772, 21.56734467, 1027.96411133]
    assert single.tolist() == pytest.approx(expected, rel=1e-7)
    source.standard_gamma(double, shapes)
    expected = [0.0887934262510261, 1.2372956382246316, 3.2364975655248314]
    expected += [3.210110233141165, 32.40806341402702, 981.0033609884272]
    assert double.tolist() == pytest.approx(expected, rel=1e-13)
    rows = np.zeros((2, 3), np.float32)
    source.dirichlet(rows, np.array([[0.1, 0.5, 1.0], [2.0, 30.0, 1e-4]], np.float32))
    assert rows[0].tolist() == pytest.approx([2.0517925e-12, 0.30261576, 0.69738424], rel=1e-6)
    assert rows[1].tolist() == pytest.approx([0.03132619, 0.96867383, 1.1754944e-38], rel=1e-6)
    weights = np.array([[1, 2, 3, 4], [0, 1, 0, 5]], np.float32)
    chosen = np.zeros((2, 6), np.int64)
    source.choices(chosen, weights)
    assert chosen.tolist() == [[3, 0, 3, 3, 1, 2], [3, 1, 3, 3, 1, 3]]
    raced = np.zeros((2, 3), np.int64)
    source.race(raced, np.array([[1, 2, 3, 4], [2, 1, 7, 5]], np.float32))
    assert raced.tolist() == [[0, 3, 2], [3, 2, 0]]
    source.race(raced[:, :1], weights)
    assert raced[:, 0].tolist() == [3, 3]
    out = np.zeros(4, np.float32)
    source.bernoulli_each(out, np.array([0.1, 0.5, 0.9, 0.5], np.float32))
    assert out.tolist() == [0, 0, 1, 0]
    source.bernoulli_each(out, np.array([0.1, 0.5, 0.9, 0.5]))
    assert out.tolist() == [1, 0, 0, 0]
    assert crc(source.state()[:5016]) == 170191486


def test_bad_parameters_draw_nothing():
    source = Mersenne(1)
    before = source.state()
    out = np.zeros((1, 2), np.float32)
    index = np.zeros((1, 2), np.int64)
    with pytest.raises(RuntimeError, match="Expected p_in >= 0 && p_in <= 1"):
        source.bernoulli_each(out, np.array([[0.5, 1.5]], np.float32))
    with pytest.raises(RuntimeError, match="expected rate to be non-negative"):
        source.poisson(out, np.array([[1.0, -1.0]]))
    for weights, text in (
        ([[1, -1]], "element < 0"),
        ([[1, np.inf]], "inf"),
        ([[1, np.nan]], "nan"),
        ([[0, 0]], "sum of probabilities <= 0"),
    ):
        with pytest.raises(RuntimeError, match=text):
            source.race(index, np.array(weights, np.float32))
    for weights, text in (
        ([[1, -1]], "probability entry < 0"),
        ([[1, np.inf]], "infinity or NaN"),
        ([[0, 0]], "sum of probabilities <= 0"),
    ):
        with pytest.raises(RuntimeError, match=text):
            source.choices(index, np.array(weights, np.float32))
    assert (source.state() == before).all()
    assert not out.any()
    assert not index.any()


def test_edges_of_binomial():
    out = np.zeros(6, np.float64)
    counts = np.array([3, 3, 3, -3, np.inf, 3])
    Mersenne(1).binomial(out, counts, np.array([1.5, -0.5, np.nan, 0.5, 0.5, 1.0]))
    assert out[[0, 1, 3, 4, 5]].tolist() == [3, 0, 0, np.inf, 3]
    assert np.isnan(out[2])


# against a live PyTorch

FLOATS = ("float32", "float64", "float16", "bfloat16")
DRAWS = {
    "uniform": ("uniform_", (-3.3, 7.7), FLOATS),
    "normal": ("normal_", (0.3, 1.7), FLOATS),
    "integers_of_type": ("random_", (), (*FLOATS, "int64", "int32", "int16", "uint8", "bool")),
    "bernoulli": ("bernoulli_", (0.3,), (*FLOATS, "int64", "bool")),
    "exponential": ("exponential_", (0.3,), FLOATS),
    "geometric": ("geometric_", (0.3,), (*FLOATS, "int32")),
    "log_normal": ("log_normal_", (0.3, 0.5), FLOATS),
    "cauchy": ("cauchy_", (0.3, 0.5), FLOATS),
}


@pytest.mark.oracle
@pytest.mark.parametrize("distribution", DRAWS)
def test_equal_to_pytorch(distribution):
    torch = pytest.importorskip("torch")
    method, parameters, accepted = DRAWS[distribution]
    for dtype in accepted:
        generator, source = torch.Generator().manual_seed(77), Mersenne(77)
        for size in (*range(41), 257, 1000, 100003):
            theirs = torch.zeros(size, dtype=getattr(torch, dtype))
            getattr(theirs, method)(*parameters, generator=generator)
            ours = filled(source, distribution, parameters, dtype, size)
            same(theirs, ours, torch, exact=dtype != "float64" or distribution == "uniform")
        assert (generator.get_state().numpy()[:5016] == source.state()[:5016]).all()


def same(theirs, ours, torch, exact):
    if ours.dtype.name == "bfloat16":
        theirs, ours = theirs.view(torch.int16), ours.view(np.int16)
    if exact:
        assert (theirs.numpy() == ours).all()
    else:
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-12)


@pytest.mark.oracle
def test_ranges_equal_to_pytorch():
    torch = pytest.importorskip("torch")
    generator, source = torch.Generator().manual_seed(5), Mersenne(5)
    for low, span in ((0, 2), (-7, 107), (0, (1 << 28) - 1), (0, 1 << 28), (-(1 << 40), 1 << 41)):
        for size in (0, 1, 40, 300):
            theirs = torch.zeros(size, dtype=torch.int64).random_(
                low, low + span, generator=generator
            )
            assert (
                theirs.tolist() == filled(source, "integers", (low, span), "int64", size).tolist()
            )
    for size in (0, 1, 2, 17, 1000, 30001):
        assert (
            torch.randperm(size, generator=generator).tolist() == source.permutation(size).tolist()
        )
