"""autograd.Function inside vmap and in forward mode, by its own rules and by made ones."""

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")


def wave(torch, *shape, phase=0.3):
    steps = torch.arange(torch.ones(shape).numel(), dtype=torch.float64)
    return (steps * 1.7 + phase).sin().reshape(shape)


def plain(x, w):
    return x.sin() * w, x * w * w


def functions(torch):
    """The op of `plain` without a vmap rule, with a made one, with its own, and with a jvp."""

    class Base(torch.autograd.Function):
        @staticmethod
        def forward(x, w):
            return x.sin() * w, x * w * w

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g, h):
            x, w = ctx.saved_tensors
            return g * x.cos() * w + h * w * w, g * x.sin() + h * 2 * x * w

    class Made(Base):
        generate_vmap_rule = True

        @staticmethod
        def jvp(ctx, a, b):
            x, w = ctx.saved_tensors
            return a * x.cos() * w + b * x.sin(), a * w * w + 2 * b * x * w

    class Own(Base):
        seen = []

        @staticmethod
        def vmap(info, in_dims, x, w):
            Own.seen.append((info.batch_size, info.randomness, in_dims))
            x = x if in_dims[0] is None else x.movedim(in_dims[0], 0)
            w = w if in_dims[1] is None else w.movedim(in_dims[1], 0)
            return Own.apply(x, w), (0, 0)

    return Base, Made, Own


def same(torch, found, wanted):
    found = found if isinstance(found, tuple) else (found,)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    return all(torch.allclose(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("which", [1, 2])
def test_inside_vmap(torch, which):
    kind = functions(torch)[which]
    func, x, w = torch.func, wave(torch, 3, 4), wave(torch, 4, phase=1)

    def squares(f):
        return lambda x, w: sum((o**2).sum() for o in f(x, w))

    def over(f):
        return torch.vmap(f, in_dims=(0, None))

    assert same(torch, over(kind.apply)(x, w), over(plain)(x, w))
    mine, wanted = squares(kind.apply), squares(plain)
    both = (0, 1)
    found = over(func.grad(mine, argnums=both))(x, w)
    assert same(torch, found, over(func.grad(wanted, argnums=both))(x, w))
    found = func.grad(squares(over(kind.apply)), argnums=both)(x, w)
    assert same(torch, found, func.grad(squares(over(plain)), argnums=both)(x, w))
    leaf = x.clone().requires_grad_()
    squares(over(kind.apply))(leaf, w).backward()
    assert torch.allclose(leaf.grad, func.grad(squares(over(plain)))(x, w))


def test_forward_mode(torch):
    _, made, _ = functions(torch)
    x, t = wave(torch, 3), wave(torch, 3, phase=1)
    found = torch.func.jvp(made.apply, (x, x * 2), (t, t * 3))[1]
    assert same(torch, found, torch.func.jvp(plain, (x, x * 2), (t, t * 3))[1])
    partial = torch.func.jvp(lambda y: made.apply(y, x), (x,), (t,))[1]
    assert same(torch, partial, torch.func.jvp(lambda y: plain(y, x), (x,), (t,))[1])


def test_what_a_rule_is_told(torch):
    own = functions(torch)[2]
    torch.vmap(own.apply, in_dims=(1, None), randomness="same")(wave(torch, 4, 3), wave(torch, 4))
    size, randomness, dims = own.seen[0]
    assert (size, randomness) == (3, "same") and dims[1] is None and dims[0] is not None


def test_refusals(torch):
    base, _, own = functions(torch)
    x = wave(torch, 3, 4)
    with pytest.raises(RuntimeError, match="but it does not have vmap support"):
        torch.vmap(base.apply)(x, x)

    class Both(own):
        generate_vmap_rule = True

    with pytest.raises(RuntimeError, match="it has both generate_vmap_rule=True and an overridden"):
        torch.vmap(Both.apply)(x, x)

    class Old(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(RuntimeError, match="it must override the setup_context staticmethod"):
        torch.func.grad(lambda y: Old.apply(y).sum())(x)
