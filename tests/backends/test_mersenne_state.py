"""The state of the CPU's random numbers: layout, round trips, one stream."""

import numpy as np
import pytest

from ember.backends.cpu.mersenne import STATE_BYTES, Mersenne


def normals(source, size):
    out = np.zeros(size, np.float32)
    source.normal(out, 0.0, 1.0)
    return out


def test_state_layout():
    source = Mersenne(42)
    state = source.state()
    assert state.shape == (STATE_BYTES,)
    words = state.view(np.uint64)
    assert words[:3].tolist() == [42, (1 << 32) + 1, 0]  # seed; left 1, seeded 1; next 0
    assert words[3:6].tolist() == [42, 3107752595, 1895908407]
    normals(source, 5)
    words = source.state().view(np.uint64)
    assert words[1:3].tolist() == [(1 << 32) + 613, 12]
    assert source.state()[5040] == 1
    assert source.state()[5024:5032].view(np.float64)[0] == pytest.approx(source.spare)


@pytest.mark.parametrize("drawn", [0, 1, 5, 623, 624, 625, 1248, 5000])
def test_states_go_round(drawn):
    source = Mersenne(9)
    source.bits32(drawn)
    normals(source, drawn % 3)
    state = source.state()
    other = Mersenne(0)
    other.set_state(state)
    assert (other.state() == state).all()
    assert other.initial == 9
    for _ in range(3):
        one, two = (normals(s, 7) for s in (source, other))
        assert one.tolist() == two.tolist()
        assert (other.bits64(400) == source.bits64(400)).all()
    assert (other.state() == source.state()).all()


def test_bad_states_change_nothing():
    source = Mersenne(9)
    good = source.state()
    bad = []
    for place in (8, 12, 16):  # left, seeded, next
        state = good.copy()
        state[place : place + 4].view(np.int32)[0] = 700 if place == 16 else 0
        bad.append(state)
    for state in bad:
        with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
            source.set_state(state)
    with pytest.raises(RuntimeError, match="Expected a CPUGeneratorImplState of size 5056"):
        source.set_state(good[:-1])
    assert (source.state() == good).all()


def test_seeding_starts_again():
    source = Mersenne(5)
    first = normals(source, 3)
    source.seed(5)
    assert source.spare is None
    assert normals(source, 3).tolist() == first.tolist()
    # The twister takes the lower 32 bits.
    assert (Mersenne(5 + (1 << 32)).bits32(4) == Mersenne(5).bits32(4)).all()


def test_words_are_the_twisters_memory():
    source = Mersenne(5)
    before = source.words.copy()
    first = source.bits32(10).tolist()
    source.words[:] = before
    assert source.bits32(10).tolist() == first


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 1000])
def test_few_and_many_draws_agree(count):
    one, two = Mersenne(3), Mersenne(3)
    assert (one.bits32(count) == [two.bits32(1)[0] for _ in range(count)]).all()
    assert (one.bits64(count) == [two.bits64(1)[0] for _ in range(count)]).all()
    pairs = two.bits32(2 * count).astype(np.uint64)
    assert (one.bits64(count) == (pairs[0::2] << np.uint64(32)) + pairs[1::2]).all()


@pytest.mark.oracle
def test_states_interchange_with_pytorch():
    torch = pytest.importorskip("torch")
    generator, source = torch.Generator().manual_seed(5), Mersenne(0)
    torch.randn(7, generator=generator)
    source.set_state(generator.get_state().numpy())
    assert torch.randn(3, generator=generator).numpy() == pytest.approx(normals(source, 3))
    generator.set_state(torch.from_numpy(source.state()))
    assert (generator.get_state().numpy() == source.state()).all()
