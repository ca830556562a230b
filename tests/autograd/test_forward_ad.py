"""Dual tensors: values with tangents through ops, views, writes, and reverse mode."""

import importlib

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def forward_ad(torch):
    """The module torch.autograd.forward_ad."""
    return importlib.import_module(f"{torch.__name__}.autograd.forward_ad")


def wave(torch, *shape, phase=0.3):
    steps = torch.arange(torch.ones(shape).numel(), dtype=torch.float64)
    return (steps * 1.7 + phase).sin().reshape(shape)


def test_tangents(torch, forward_ad):
    x, t = wave(torch, 3), wave(torch, 3, phase=1)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        unpacked = forward_ad.unpack_dual(dual)
        assert torch.equal(unpacked.primal, x) and torch.equal(unpacked.tangent, t)
        primal, tangent = forward_ad.unpack_dual(dual.sin() * dual)
        assert torch.allclose(primal, x.sin() * x)
        assert torch.allclose(tangent, (x.cos() * x + x.sin()) * t)
        assert not tangent.requires_grad and not primal.requires_grad
        assert forward_ad.unpack_dual(x).tangent is None
        two = forward_ad.unpack_dual(dual * forward_ad.make_dual(x * 2, t * 3))
        assert torch.allclose(two.tangent, t * x * 2 + x * t * 3)


def test_without_gradients(torch, forward_ad):
    x, t = wave(torch, 3), wave(torch, 3, phase=1)
    with torch.no_grad(), forward_ad.dual_level():
        made = forward_ad.make_dual(x, t) ** 2
        assert torch.allclose(forward_ad.unpack_dual(made).tangent, 2 * x * t)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        with torch.no_grad():
            made = dual**2
        assert torch.allclose(forward_ad.unpack_dual(made).tangent, 2 * x * t)
        assert forward_ad.unpack_dual(dual.detach()).primal.tolist() == x.tolist()


def test_views_and_writes(torch, forward_ad):
    x, t = wave(torch, 4), wave(torch, 4, phase=1)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        turned = forward_ad.unpack_dual(dual.view(2, 2).t().reshape(-1)[1:])
        assert torch.equal(turned.tangent, t[[2, 1, 3]])
        memory = torch.zeros(3, dtype=x.dtype)
        memory[1] = dual[0] * 2
        assert torch.equal(forward_ad.unpack_dual(memory).tangent[1], t[0] * 2)
        assert forward_ad.unpack_dual(memory).tangent[0].item() == 0


def test_with_reverse_mode(torch, forward_ad):
    x, t = wave(torch, 3).requires_grad_(), wave(torch, 3, phase=1)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        tangent = forward_ad.unpack_dual((dual**3).sum()).tangent
        (second,) = torch.autograd.grad(tangent, x)
        assert torch.allclose(second, 6 * x.detach() * t)


def test_tangents_of_gradients(torch, forward_ad):
    x, t = wave(torch, 3), wave(torch, 3, phase=1)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.requires_grad_(), t)
        (slope,) = torch.autograd.grad((dual.sin() ** 3).sum(), dual)
        found = forward_ad.unpack_dual(slope).tangent
    wanted = torch.autograd.functional.hvp(lambda y: (y.sin() ** 3).sum(), x.detach(), t)[1]
    assert torch.allclose(found, wanted)


def test_modules(torch, forward_ad):
    layer = torch.nn.Linear(3, 2).double()
    tangents = {n: torch.ones_like(p) for n, p in layer.named_parameters()}
    x = wave(torch, 4, 3)
    with forward_ad.dual_level():
        duals = {n: forward_ad.make_dual(p, tangents[n]) for n, p in layer.named_parameters()}
        found = forward_ad.unpack_dual(torch.func.functional_call(layer, duals, (x,))).tangent
        assert torch.allclose(found, (x.sum(1) + 1)[:, None].expand(4, 2))


def test_levels(torch, forward_ad):
    x = wave(torch, 3)
    with pytest.raises(RuntimeError, match="no level exists, make sure to enter_dual_level"):
        forward_ad.make_dual(x, x)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x)
        with pytest.raises(RuntimeError, match="already has a forward gradient at the same level"):
            forward_ad.make_dual(dual, x)
        with pytest.raises(RuntimeError, match="has a different size than that of the original"):
            forward_ad.make_dual(x, x[:2])
        with pytest.raises(ValueError, match="Expected primal to be floating point or complex"):
            forward_ad.make_dual(torch.arange(3), x)
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
            forward_ad.enter_dual_level()
    with pytest.raises(RuntimeError, match="Dual level must be a positive number"):
        forward_ad.exit_dual_level()
    assert forward_ad.unpack_dual(dual).tangent is None
    assert torch.is_grad_enabled()
    level = forward_ad.enter_dual_level()
    assert level == 0
    forward_ad.exit_dual_level(level=0)
