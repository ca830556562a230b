"""Sobol' sequences: PyTorch's points, scrambled or not."""

import numpy as np
import pytest
from scipy.stats import qmc

import ember as torch
from ember.quasirandom import SobolEngine


def test_points_without_scrambling():
    points = SobolEngine(5).draw(64, dtype=torch.float64)
    assert np.array_equal(points.numpy(), qmc.Sobol(5, scramble=False).random(64))


def test_points_of_a_seed():
    engine = SobolEngine(3, scramble=True, seed=7)
    assert engine.shift.tolist() == [214182645, 183537049, 804615878]
    assert engine.sobolstate[0, :3].tolist() == [545853173, 438452617, 257908810]
    assert engine.draw(1).tolist()[0] == pytest.approx([0.1994731, 0.1709322, 0.7493569])
    later = engine.fast_forward(6).draw(2)
    wanted = torch.tensor([[0.0564, 0.6136, 0.9284], [0.0797, 0.3155, 0.1933]])
    assert torch.allclose(later, wanted, atol=5e-5)
    torch.manual_seed(0)
    drawn = SobolEngine(2, scramble=True).draw(2)
    assert torch.allclose(drawn, torch.tensor([[0.4751, 0.5925], [0.5788, 0.0371]]), atol=5e-5)


def test_a_sequence_goes_on():
    engine = SobolEngine(4, scramble=True, seed=1)
    whole = engine.draw(11)
    engine.reset()
    assert engine.num_generated == 0
    parts = [engine.draw(), engine.draw(3), engine.draw(0), engine.draw(5), engine.draw(2)]
    assert torch.equal(torch.cat(parts), whole)
    assert torch.equal(engine.reset().fast_forward(4).draw(3), whole[4:7])
    assert engine.num_generated == 7


def test_draws_of_powers_of_two():
    engine = SobolEngine(2)
    assert engine.draw_base2(2).shape == (4, 2) and engine.draw_base2(2).shape == (4, 2)
    with pytest.raises(ValueError, match=r"8 points have been previously .* n=8\+2\*\*2=12"):
        engine.draw_base2(2)


def test_out_and_dtypes():
    out = torch.empty(3, 2)
    assert SobolEngine(2).draw(3, out=out) is out and out[1].tolist() == [0.5, 0.5]
    assert SobolEngine(1).draw(2).dtype is torch.float32
    with pytest.raises(NotImplementedError, match="not implemented for 'Half'"):
        SobolEngine(2).draw(2, dtype=torch.float16)


def test_dimensions():
    assert SobolEngine(SobolEngine.MAXDIM).draw(2).shape == (2, 21201)
    for dimension in (0, SobolEngine.MAXDIM + 1):
        with pytest.raises(ValueError, match=r"Supported range .* is \[1, 21201\]"):
            SobolEngine(dimension)


def test_repr():
    assert repr(SobolEngine(3)) == "SobolEngine(dimension=3)"
    assert repr(SobolEngine(2, True, 7)) == "SobolEngine(dimension=2, scramble=True, seed=7)"


@pytest.mark.oracle
@pytest.mark.parametrize(("dimension", "scramble", "seed"), [(3, False, None), (40, True, 5)])
def test_live_points(dimension, scramble, seed):
    oracle = pytest.importorskip("torch").quasirandom.SobolEngine(dimension, scramble, seed)
    ours = SobolEngine(dimension, scramble, seed)
    for count in (1, 5, 1, 32):
        assert np.array_equal(ours.draw(count).numpy(), oracle.draw(count).numpy())
