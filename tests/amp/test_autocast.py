"""autocast: the dtype an op runs in, nesting, the cache, gradients, functions, bad input."""

import warnings

import pytest

import ember
from ember import amp
from ember.amp.autocast_mode import (
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    set_autocast_dtype,
)
from ember.core.autocast_lists import LISTS
from ember.core.registry import OPS

F = ember.nn.functional
A, V = ember.rand(3, 3) + 0.1, ember.rand(3) + 0.1
B3, X4, X5 = ember.rand(2, 3, 3), ember.rand(2, 3, 8, 8), ember.rand(1, 2, 4, 4, 4)
IDS = ember.tensor([0, 1, 2])
HALF, FULL = ember.bfloat16, ember.float32

# On the CPU: an op of float32 and bfloat16 arguments, and the dtypes of its results (PyTorch 2.13)
CPU = {
    "matmul": (lambda c: c(A) @ c(A), HALF, HALF),
    "mm": (lambda c: ember.mm(c(A), c(A)), HALF, HALF),
    "bmm": (lambda c: ember.bmm(c(B3), c(B3)), HALF, HALF),
    "addmm": (lambda c: ember.addmm(c(A), c(A), c(A)), HALF, HALF),
    "baddbmm": (lambda c: ember.baddbmm(c(B3), c(B3), c(B3)), HALF, HALF),
    "matrix times vector": (lambda c: c(A) @ c(V), HALF, HALF),
    "einsum": (lambda c: ember.einsum("ij,jk->ik", c(A), c(A)), HALF, HALF),
    "linear": (lambda c: F.linear(c(A), c(A), c(V)), HALF, HALF),
    "conv2d": (lambda c: F.conv2d(c(X4), c(X4[:, :, :3, :3])), HALF, HALF),
    "prelu": (lambda c: F.prelu(c(A), c(V)), HALF, HALF),
    "attention": (lambda c: F.scaled_dot_product_attention(c(B3), c(B3), c(B3)), HALF, HALF),
    "add": (lambda c: c(A) + c(A), FULL, HALF),
    "relu": (lambda c: F.relu(c(A)), FULL, HALF),
    "softmax": (lambda c: c(A).softmax(0), FULL, HALF),
    "exp": (lambda c: c(A).exp(), FULL, HALF),
    "pow": (lambda c: c(A) ** 2.5, FULL, HALF),
    "sum": (lambda c: c(A).sum(), FULL, HALF),
    "mean": (lambda c: c(A).mean(), FULL, HALF),
    "cumsum": (lambda c: c(A).cumsum(0), FULL, HALF),
    "layer_norm": (lambda c: F.layer_norm(c(A), (3,)), FULL, HALF),
    "group_norm": (lambda c: F.group_norm(c(X4), 3), FULL, HALF),
    "gelu": (lambda c: F.gelu(c(A)), FULL, HALF),
    "avg_pool2d": (lambda c: F.avg_pool2d(c(X4), 2), FULL, HALF),
    "embedding": (lambda c: F.embedding(IDS, c(A)), FULL, HALF),
    "prod": (lambda c: c(A).prod(), FULL, FULL),
    "cross_entropy": (lambda c: F.cross_entropy(c(A), IDS.to(c(A).device)), FULL, FULL),
    "nll_loss": (lambda c: F.nll_loss(c(A), IDS.to(c(A).device)), FULL, FULL),
    "mse_loss": (lambda c: F.mse_loss(c(A), c(A)), FULL, FULL),
    "l1_loss": (lambda c: F.l1_loss(c(A), c(A)), FULL, FULL),
    "smooth_l1_loss": (lambda c: F.smooth_l1_loss(c(A), c(A)), FULL, FULL),
    "kl_div": (lambda c: F.kl_div(c(A), c(A), reduction="sum"), FULL, FULL),
    "binary_cross_entropy": (
        lambda c: F.binary_cross_entropy(c(A).clamp(0, 1), c(A).clamp(0, 1)),
        FULL,
        FULL,
    ),
    "with_logits": (lambda c: F.binary_cross_entropy_with_logits(c(A), c(A)), FULL, FULL),
    "avg_pool3d": (lambda c: F.avg_pool3d(c(X5), 2), FULL, FULL),
    "cat of two dtypes": (lambda c: ember.cat([c(A), A.to(c(A).device)]), FULL, FULL),
}

# The same on GPUs with float16, from PyTorch's documentation of its lists
CUDA = {
    **{name: case for name, case in CPU.items() if case[1] is HALF},
    "add": CPU["add"],
    "relu": CPU["relu"],
    "gelu": CPU["gelu"],
    "mean": CPU["mean"],
    "addmv": (lambda c: ember.addmv(c(V), c(A), c(V)), HALF, HALF),
    **{
        name: (CPU[name][0], FULL, FULL)
        for name in (
            "softmax exp pow sum cumsum layer_norm group_norm prod cross_entropy nll_loss "
            "mse_loss l1_loss smooth_l1_loss kl_div with_logits"
        ).split()
    },
    "log_softmax": (lambda c: c(A).log_softmax(0), FULL, FULL),
    "log": (lambda c: c(A).log(), FULL, FULL),
    "rsqrt": (lambda c: c(A).rsqrt(), FULL, FULL),
    "softplus": (lambda c: F.softplus(c(A)), FULL, FULL),
    "cosine_similarity": (lambda c: F.cosine_similarity(c(A), c(A)), FULL, FULL),
    "cat of two dtypes": CPU["cat of two dtypes"],
}


@pytest.mark.parametrize("name", CPU)
def test_dtypes_on_the_cpu(name):
    op, from_float32, from_half = CPU[name]
    with ember.autocast("cpu"):
        assert op(lambda t: t).dtype == from_float32
        assert op(lambda t: t.bfloat16()).dtype == from_half


@pytest.mark.parametrize("name", CUDA)
def test_dtypes_on_a_gpu(name, gpus):
    op, from_float32, from_half = CUDA[name]
    with ember.autocast("cuda"):
        half = {HALF: ember.float16, FULL: FULL}
        assert op(lambda t: t.cuda()).dtype == half[from_float32]
        assert op(lambda t: t.cuda().half()).dtype == half[from_half]
    with ember.autocast("cpu"):
        assert (A.cuda() @ A.cuda()).dtype == FULL  # the other device type's block


def test_every_listed_name_is_an_op():
    """A name that no op has would be a rule that never applies."""
    names = {name for rules in LISTS.values() for group in rules for name in group}
    assert sorted(names - set(OPS)) == []


def test_the_refused_loss_on_a_gpu(gpus):
    p = A.clamp(0, 1).cuda()
    with ember.autocast("cuda"):
        with pytest.raises(RuntimeError, match="unsafe to autocast") as caught:
            F.binary_cross_entropy(p, p)
        assert "binary_cross_entropy_with_logits" in str(caught.value)
        with ember.autocast("cuda", enabled=False):
            assert F.binary_cross_entropy(p, p).dtype == FULL


def test_other_dtypes_are_left_alone():
    for dtype in (ember.float64, ember.int64):
        a = ember.ones(2, 2, dtype=dtype)
        with ember.autocast("cpu"):
            assert ember.mm(a, a).dtype == dtype
            assert F.linear(a, a).dtype == dtype


def test_mixed_half_dtypes_meet_in_the_blocks_dtype():
    with ember.autocast("cpu"):
        assert (A @ A.half()).dtype == HALF


def test_blocks_nest():
    assert not is_autocast_enabled("cpu")
    with ember.autocast("cpu", dtype=ember.float16) as block:
        assert isinstance(block, amp.autocast)
        assert is_autocast_enabled("cpu") and not is_autocast_enabled()
        assert get_autocast_dtype("cpu") == ember.float16 and (A @ A).dtype == ember.float16
        with ember.autocast("cpu", enabled=False):
            assert not is_autocast_enabled("cpu") and (A @ A).dtype == FULL
            with ember.autocast("cpu"):
                assert (A @ A).dtype == ember.float16  # the dtype of the block around
        with block:
            assert is_autocast_enabled("cpu")
        assert is_autocast_enabled("cpu") and (A @ A).dtype == ember.float16
    assert not is_autocast_enabled("cpu") and (A @ A).dtype == FULL


def test_blocks_end_on_errors():
    with pytest.raises(ZeroDivisionError), ember.autocast("cpu"):
        1 // 0
    assert not is_autocast_enabled("cpu")


def test_as_a_decorator():
    @ember.autocast("cpu")
    def product(a):
        """The square."""
        return a @ a

    assert product(A).dtype == HALF and product.__name__ == "product" and product.__doc__
    assert (A @ A).dtype == FULL


def test_gradients_are_float32():
    layer = ember.nn.Linear(3, 2)
    with ember.autocast("cpu"):
        out = layer(A)
        loss = out.float().pow(2).mean()
    assert out.dtype == HALF and loss.dtype == FULL
    loss.backward()
    assert layer.weight.grad.dtype == FULL and layer.bias.grad.dtype == FULL
    exact = ember.nn.Linear(3, 2)
    exact.load_state_dict(layer.state_dict())
    exact(A).pow(2).mean().backward()
    assert ember.allclose(layer.weight.grad, exact.weight.grad, rtol=0.05, atol=0.02)


def casts_of(weight):
    """The nodes that two uses of a weight cast it by."""
    found = []
    for _ in range(2):
        node = ember.mm(A, weight).grad_fn
        found += [edge for edge, _ in node.next_functions if edge is not None]
    return found


def test_casts_of_parameters_are_kept():
    weight = ember.rand(3, 3).requires_grad_()
    with ember.autocast("cpu"):
        assert is_autocast_cache_enabled()
        first, second = casts_of(weight)
        assert first is second
        clear_autocast_cache()
        third, _ = casts_of(weight)
        assert third is not first
    with ember.autocast("cpu", cache_enabled=False):
        assert not is_autocast_cache_enabled()
        first, second = casts_of(weight)
        assert first is not second
    assert is_autocast_cache_enabled()


def test_a_changed_parameter_is_cast_again():
    weight = ember.zeros(3, 3).requires_grad_()
    with ember.autocast("cpu"):
        assert (A @ weight).abs().max() == 0
        with ember.no_grad():
            weight.fill_(1.0)
        assert (A @ weight).abs().max() > 0


def test_the_default_dtype_can_be_set():
    assert get_autocast_dtype("cpu") == HALF and get_autocast_dtype("cuda") == ember.float16
    set_autocast_dtype("cpu", ember.float16)
    try:
        with ember.autocast("cpu"):
            assert (A @ A).dtype == ember.float16
    finally:
        set_autocast_dtype("cpu", HALF)


def test_unsupported_dtypes_warn_and_disable():
    message = "In CPU autocast, but the target dtype is not supported. Disabling autocast."
    for dtype in (FULL, ember.float64, ember.int32):
        with pytest.warns(UserWarning, match=message):
            block = ember.autocast("cpu", dtype=dtype)
        with block:
            assert (A @ A).dtype == FULL
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ember.autocast("cpu", dtype=ember.float64, enabled=False)


def test_no_gpu_warns_and_disables(no_gpus):
    with pytest.warns(UserWarning, match="CUDA is not available"):
        block = ember.autocast("cuda")
    with block:
        assert not is_autocast_enabled("cuda")


def test_bad_device_types():
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`, got"):
        ember.autocast(ember.device("cpu"))
    with pytest.raises(RuntimeError, match="device type at start of device string"):
        ember.autocast("xyz")
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'meta'"):
        ember.autocast("meta")
    with pytest.raises(TypeError):
        ember.autocast()
    assert amp.is_autocast_available("cpu") and amp.is_autocast_available("cuda")
    assert not amp.is_autocast_available("meta")


def test_custom_functions():
    seen = []

    class Square(ember.autograd.Function):
        @staticmethod
        @amp.custom_fwd(device_type="cpu")
        def forward(ctx, x):
            ctx.save_for_backward(x)
            seen.append(("forward", is_autocast_enabled("cpu")))
            return x @ x

        @staticmethod
        @amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            seen.append(("backward", is_autocast_enabled("cpu"), get_autocast_dtype("cpu")))
            return (grad.float() @ x.t() + x.t() @ grad.float()).float()

    x = ember.rand(2, 2).requires_grad_()
    with ember.autocast("cpu", dtype=ember.float16):
        out = Square.apply(x)
    assert out.dtype == ember.float16
    out.float().sum().backward()
    assert seen == [("forward", True), ("backward", True, ember.float16)]
    assert x.grad.dtype == FULL


def test_custom_functions_that_cast_their_inputs():
    seen = []

    class Wide(ember.autograd.Function):
        @staticmethod
        @amp.custom_fwd(device_type="cpu", cast_inputs=ember.float32)
        def forward(ctx, x, others):
            seen.append((x.dtype, others[0].dtype, is_autocast_enabled("cpu")))
            return x * 2

        @staticmethod
        @amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            seen.append(is_autocast_enabled("cpu"))
            return grad * 2, None

    x = ember.rand(2).bfloat16().requires_grad_()
    with ember.autocast("cpu"):
        out = Wide.apply(x, [x.detach().half()])
    out.sum().backward()
    assert seen == [(FULL, FULL, False), False]
    Wide.apply(x, [x.detach().half()])
    assert seen[-1] == (HALF, ember.float16, False)  # outside of a block nothing is cast
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        amp.custom_fwd(lambda ctx: 1, device_type=5)
    with pytest.raises(TypeError, match="device_type"):
        amp.custom_bwd(lambda ctx: 1)


def test_a_rule_is_for_the_whole_of_a_function():
    """cdist computes by a matrix product, which stays in float32 inside of it."""
    a = ember.tensor([[1000.0, 1.0], [1000.0, 2.0]] * 20)
    exact = ember.cdist(a, a)
    with ember.autocast("cpu"):
        assert ember.allclose(ember.cdist(a, a), exact)
        assert ember.allclose(ember.cdist(a.bfloat16(), a.bfloat16()), exact)


def test_questions_about_devices_of_others():
    assert not is_autocast_enabled("mps") and not is_autocast_enabled("xpu")
    assert ember.get_autocast_dtype("mps") is ember.float16
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda"):
        is_autocast_enabled("nowhere")
