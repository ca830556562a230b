"""Generators: seeds, states, copies, the default ones, and the functions of torch.random."""

import copy
import pickle

import pytest

import ember
from ember.core import generator as generators


@pytest.fixture
def gpus():
    """Two GPUs, simulated unless there are real ones."""
    if not ember.cuda.is_available():
        ember.cuda.simulate(2)
    if ember.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")


def draws(generator, count=3):
    return ember.rand(count, generator=generator, device=generator.device).tolist()


def test_seeds():
    g = ember.Generator()
    assert g.initial_seed() == 67280421310721
    assert g.manual_seed(7) is g
    assert g.initial_seed() == 7
    assert g.manual_seed(-1).initial_seed() == (1 << 64) - 1
    assert g.manual_seed(-(1 << 63)).initial_seed() == 1 << 63
    fresh = g.seed()
    assert g.initial_seed() == fresh
    assert fresh != g.seed()
    assert g.device == ember.device("cpu")
    assert ember.Generator(device="cpu").device == ember.device("cpu")


def test_bad_seeds():
    g = ember.Generator().manual_seed(7)
    for bad in (1.5, True, "a", None, ember.tensor(3)):
        with pytest.raises(RuntimeError, match="manual_seed expected a long, but got"):
            g.manual_seed(bad)
    for bad in (1 << 64, -(1 << 63) - 1):
        with pytest.raises(ValueError, match="Overflow when unpacking long"):
            g.manual_seed(bad)
        with pytest.raises(ValueError, match="Overflow when unpacking long"):
            ember.manual_seed(bad)
    assert g.initial_seed() == 7


def test_first_numbers_are_pytorchs():
    assert draws(ember.Generator().manual_seed(0)) == pytest.approx(
        [0.49625659, 0.7682218, 0.08847743]
    )
    fresh = ember.rand(2, generator=ember.Generator()).tolist()
    assert fresh == pytest.approx([0.26729524, 0.87252831], abs=1e-6)


def test_same_seed_same_numbers():
    g = ember.Generator().manual_seed(3)
    first = draws(g)
    assert draws(g) != first
    assert draws(g.manual_seed(3)) == first


def test_state():
    g = ember.Generator().manual_seed(3)
    ember.randn(3, generator=g)
    state = g.get_state()
    assert (state.dtype, tuple(state.shape)) == (ember.uint8, (5056,))
    assert state.device == ember.device("cpu")
    first = ember.randn(4, generator=g).tolist()
    other = ember.Generator()
    other.set_state(state)
    assert ember.randn(4, generator=other).tolist() == first
    assert other.initial_seed() == 3
    g.set_state(state.reshape(2, -1))
    assert ember.randn(4, generator=g).tolist() == first
    # A state is a copy: it does not change with the generator.
    assert (state == other.get_state()).all().item() is False


def test_bad_states():
    g = ember.Generator().manual_seed(3)
    before = g.get_state()
    with pytest.raises(TypeError, match="expected a torch.ByteTensor, but got str"):
        g.set_state("x")
    with pytest.raises(TypeError, match="RNG state must be a torch.ByteTensor"):
        g.set_state(before.float())
    with pytest.raises(RuntimeError, match="Expected a CPUGeneratorImplState of size 5056"):
        g.set_state(before[:-1])
    assert (g.get_state() == before).all().item()


def test_copies_continue_alike():
    g = ember.Generator().manual_seed(11)
    ember.randn(3, generator=g)
    copies = [
        g.clone_state(),
        copy.copy(g),
        copy.deepcopy(g),
        pickle.loads(pickle.dumps(g)),
    ]
    first = ember.randn(5, generator=g).tolist()
    for other in copies:
        assert other is not g
        assert other.initial_seed() == 11
        assert ember.randn(5, generator=other).tolist() == first
    unused = ember.Generator().manual_seed(4)
    assert draws(unused.clone_state()) == draws(unused)


def test_no_offset_on_the_cpu():
    g = ember.Generator()
    with pytest.raises(RuntimeError, match="CPU Generator does not use offset"):
        g.get_offset()
    with pytest.raises(RuntimeError, match="CPU Generator does not use offset"):
        g.set_offset(4)


def test_no_generator_on_meta():
    with pytest.raises(RuntimeError, match="META device type not an accelerator"):
        ember.Generator("meta")


def test_default_generator():
    assert isinstance(ember.default_generator, ember.Generator)
    assert ember.manual_seed(5) is ember.default_generator
    assert ember.initial_seed() == 5
    assert ember.random.initial_seed() == 5
    first = ember.rand(3).tolist()
    assert draws(ember.default_generator.manual_seed(5)) == first
    assert ember.manual_seed(2.9).initial_seed() == 2
    fresh = ember.seed()
    assert ember.initial_seed() == fresh


def test_rng_state():
    ember.manual_seed(5)
    state = ember.get_rng_state()
    first = ember.randn(3).tolist()
    ember.set_rng_state(state)
    assert ember.randn(3).tolist() == first
    assert (ember.random.get_rng_state() == ember.default_generator.get_state()).all().item()


def test_fork_rng():
    ember.manual_seed(5)
    with ember.random.fork_rng(devices=[]):
        inside = ember.rand(2).tolist()
        ember.manual_seed(99)
    assert ember.rand(2).tolist() == inside
    ember.manual_seed(5)
    with ember.random.fork_rng(enabled=False):
        ember.rand(2)
    assert ember.rand(2).tolist() != inside
    ember.manual_seed(5)
    with pytest.raises(KeyError), ember.random.fork_rng(devices=[]):
        ember.rand(2)
        raise KeyError
    assert ember.rand(2).tolist() == inside
    with pytest.raises(RuntimeError, match="torch has no module of `abc`"):
        ember.random.fork_rng(device_type="abc").__enter__()
    assert ember.random.thread_safe_generator() is None


def test_wrong_generators(gpus):
    on_gpu, on_cpu = ember.Generator("cuda"), ember.Generator()
    with pytest.raises(
        RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"
    ):
        ember.rand(2, device="cuda", generator=on_cpu)
    with pytest.raises(
        RuntimeError, match="Expected a 'cpu' device type for generator but found 'cuda'"
    ):
        ember.zeros(2).normal_(generator=on_gpu)
    with pytest.raises(TypeError, match="'generator' must be torch.Generator, not int"):
        ember.zeros(2).normal_(generator=5)
    with pytest.raises(TypeError, match="'generator' must be torch.Generator, not int"):
        ember.rand(2, generator=5)


def test_gpu_generators(gpus):
    g = ember.Generator("cuda").manual_seed(3)
    assert g.device == ember.device("cuda:0")
    first = draws(g)
    assert g.get_offset() == 4
    state = g.get_state()
    assert (state.device, tuple(state.shape)) == (ember.device("cpu"), (16,))
    second = draws(g)
    g.set_state(state)
    assert draws(g) == second
    g.set_offset(0)
    assert draws(g) == first
    assert draws(ember.Generator("cuda:1").manual_seed(3)) == first
    with pytest.raises(RuntimeError, match="multiple of 4"):
        g.set_offset(3)
    assert draws(pickle.loads(pickle.dumps(g))) == draws(g)


def test_gpu_defaults(gpus):
    ember.manual_seed(17)
    assert ember.cuda.initial_seed() == 17
    first = [ember.rand(3, device=f"cuda:{i}").tolist() for i in range(2)]
    assert first[0] == first[1]
    ember.cuda.manual_seed_all(17)
    assert ember.rand(3, device="cuda:1").tolist() == first[0]
    states = ember.cuda.get_rng_state_all()
    after = [ember.randn(3, device=f"cuda:{i}").tolist() for i in range(2)]
    ember.cuda.set_rng_state_all(states)
    assert [ember.randn(3, device=f"cuda:{i}").tolist() for i in range(2)] == after
    ember.cuda.set_rng_state(states[0], "cuda:1")
    assert (ember.cuda.get_rng_state(1) == states[0]).all().item()
    ember.cuda.manual_seed(4)
    assert (ember.cuda.initial_seed(), ember.initial_seed()) == (4, 17)
    ember.cuda.seed_all()
    assert (
        len({generators.default_of(ember.device("cuda", i)).initial_seed() for i in range(2)}) == 1
    )
    ember.cuda.seed()
    assert ember.cuda.initial_seed() != 4


def test_fork_rng_with_gpus(gpus):
    ember.manual_seed(5)
    with ember.random.fork_rng(devices=[0, "cuda:1"]):
        inside = [ember.rand(2, device=f"cuda:{i}").tolist() for i in range(2)]
    assert [ember.rand(2, device=f"cuda:{i}").tolist() for i in range(2)] == inside
    with pytest.warns(UserWarning, match="2 available devices"), ember.random.fork_rng():
        pass


def test_seeds_given_before_a_gpu_is_used(monkeypatch, gpus):
    monkeypatch.setattr(generators, "_defaults", {})
    generators.manual_seed_gpus(23)
    assert generators.default_of(ember.device("cuda:1")).initial_seed() == 23


@pytest.mark.oracle
def test_states_are_pytorchs():
    torch = pytest.importorskip("torch")
    for seed in (0, 42, -5, 1 << 40):
        torch.manual_seed(seed)
        ember.manual_seed(seed)
        for draw in ("randn(5)", "rand(3)", "randperm(20)", "randn(33)", "randint(0, 9, (4,))"):
            theirs, ours = (eval(f"lib.{draw}", {"lib": lib}).tolist() for lib in (torch, ember))
            assert theirs == ours
        assert torch.get_rng_state().tolist() == ember.get_rng_state().tolist()
