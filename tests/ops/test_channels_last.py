"""Ops of images whose channels lie last: results lie in the order in which PyTorch's do, with the
values that row-major images give. The strides are those that PyTorch 2.13 gives on the CPU."""

import pytest

import ember as torch

F, LAST, LAST_3D = torch.nn.functional, torch.channels_last, torch.channels_last_3d


def image(*shape):
    torch.manual_seed(0)
    return torch.randn(shape)


def last(tensor):
    return tensor.to(memory_format=LAST if tensor.dim() == 4 else LAST_3D)


WEIGHT, DEEP = image(8, 4, 3, 3), image(8, 4, 3, 3, 3)
OPS = {
    "conv2d": (lambda x: F.conv2d(x, WEIGHT, padding=1), (288, 1, 48, 8)),
    "conv2d same": (lambda x: F.conv2d(x, WEIGHT, padding="same"), (288, 1, 48, 8)),
    "conv2d of one image": (lambda x: F.conv2d(x[:1], WEIGHT), (128, 1, 32, 8)),
    "conv2d with bias": (lambda x: F.conv2d(x, WEIGHT, WEIGHT[:, 0, 0, 0]), (128, 1, 32, 8)),
    "depthwise": (lambda x: F.conv2d(x, WEIGHT[:4, :1], groups=4), (64, 1, 16, 4)),
    "conv_transpose2d": (lambda x: F.conv_transpose2d(x, WEIGHT[:4]), (256, 1, 32, 4)),
    "half": (lambda x: F.conv2d(x.bfloat16(), WEIGHT.bfloat16()), (128, 1, 32, 8)),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), (144, 1, 24, 4)),
    "group_norm": (lambda x: F.group_norm(x, 2), (144, 1, 24, 4)),
    "relu": (F.relu, (144, 1, 24, 4)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), (36, 1, 12, 4)),
    "indices": (lambda x: F.max_pool2d(x, 2, return_indices=True)[1], (36, 1, 12, 4)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), (36, 1, 12, 4)),
    "lp_pool2d": (lambda x: F.lp_pool2d(x, 2, 2), (36, 1, 12, 4)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 3), (36, 1, 12, 4)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 3), (36, 1, 12, 4)),
    "unpool": (
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
        (144, 1, 24, 4),
    ),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), (576, 1, 48, 4)),
    "bilinear": (lambda x: F.interpolate(x, (3, 3), mode="bilinear"), (36, 1, 12, 4)),
    "antialias": (
        lambda x: F.interpolate(x, (3, 3), mode="bilinear", antialias=True),
        (36, 1, 12, 4),
    ),
    "area": (lambda x: F.interpolate(x, (3, 3), mode="area"), (36, 1, 12, 4)),
    "pad": (lambda x: F.pad(x, (1, 1, 1, 1)), (256, 1, 32, 4)),
    "reflect": (lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), (256, 1, 32, 4)),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), (144, 1, 48, 16)),
    "channel_shuffle": (lambda x: torch.channel_shuffle(x, 2), (144, 1, 24, 4)),
    "cat": (lambda x: torch.cat([x, x], 1), (288, 1, 48, 8)),
    "flip": (lambda x: x.flip(3), (144, 1, 24, 4)),
    "roll": (lambda x: x.roll(1, 3), (144, 1, 24, 4)),
    # what PyTorch makes row-major
    "softmax": (lambda x: F.softmax(x, 1), (144, 36, 6, 1)),
    "instance_norm": (F.instance_norm, (144, 36, 6, 1)),
    "layer_norm": (lambda x: F.layer_norm(x, (6,)), (144, 36, 6, 1)),
    "cat with another": (lambda x: torch.cat([x, x.contiguous()], 1), (288, 36, 6, 1)),
    "cumsum": (lambda x: x.cumsum(1), (144, 36, 6, 1)),
}
OPS_3D = {
    "conv3d": (lambda x: F.conv3d(x, DEEP), (216, 1, 72, 24, 8)),
    "conv_transpose3d": (lambda x: F.conv_transpose3d(x, DEEP[:4]), (1372, 1, 196, 28, 4)),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), (500, 1, 100, 20, 4)),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), (32, 1, 16, 8, 4)),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2), (32, 8, 4, 2, 1)),
    "trilinear": (lambda x: F.interpolate(x, (2, 2, 2), mode="trilinear"), (32, 1, 16, 8, 4)),
}


def check(run, strides, x):
    made, wanted = run(last(x)), run(x)
    assert made.stride() == strides and wanted.is_contiguous()
    tolerance = 0.01 if made.dtype is torch.bfloat16 else 1e-5
    assert torch.allclose(made, wanted, rtol=tolerance, atol=tolerance)
    place = torch.empty_like(last(x), device="meta")
    if "conv" not in str(run.__code__.co_names):
        assert run(place).stride() == strides
    if made.is_floating_point():
        a, b = x.clone().requires_grad_(), last(x).requires_grad_()
        for t in (a, b):
            run(t).square().sum().backward()
        assert b.grad.stride() == b.stride() and a.grad.is_contiguous()
        assert torch.allclose(a.grad, b.grad, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("name", OPS)
def test_of_images(name):
    check(*OPS[name], image(2, 4, 6, 6))


@pytest.mark.parametrize("name", OPS_3D)
def test_of_volumes(name):
    check(*OPS_3D[name], image(2, 4, 5, 5, 5))


def test_weights_with_channels_last_are_enough():
    assert F.conv2d(image(2, 4, 6, 6), last(WEIGHT)).stride() == (128, 1, 32, 8)
    layer = torch.nn.Conv2d(4, 8, 3).to(memory_format=LAST)
    layer(image(2, 4, 6, 6)).sum().backward()
    assert layer.weight.grad.stride() == layer.weight.stride() == (36, 1, 12, 4)


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((2, 1, 6, 6), (36, 1, 6, 1)), ((2, 4, 1, 1), (4, 1, 4, 4)), ((1, 4, 6, 6), (144, 1, 24, 4))],
)
def test_a_single_channel_or_pixel_lies_last_when_asked_for(shape, strides):
    x = torch.randn(shape)
    assert x.to(memory_format=LAST).stride() == strides
    assert torch.empty(shape, memory_format=LAST).stride() == strides
    assert x.contiguous(memory_format=LAST) is x or 1 not in shape[1:]
    assert x.to(memory_format=torch.contiguous_format) is x
    assert F.conv2d(x.to(memory_format=LAST), image(8, shape[1], 1, 1)).stride()[1] == 1


def test_a_net_and_a_recording_of_it():
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, bias=False),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 4, 1),
    )
    x = image(2, 3, 10, 10)
    wanted = net(x)
    net = net.to(memory_format=LAST)
    made = net(last(x))
    assert made.is_contiguous(memory_format=LAST) and torch.allclose(made, wanted, atol=1e-5)
    fast = torch.compile(net)
    for _ in range(3):
        again = fast(last(x))
        assert again.stride() == made.stride() and torch.allclose(again, made, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 32, 33, 37), (1, 16, 17, 16, 16), (3, 8, 70, 70)])
def test_large_images(shape):
    x = image(*shape)
    pool = F.max_pool2d if len(shape) == 4 else F.max_pool3d
    assert torch.equal(pool(last(x), 2), pool(x, 2))
    made = F.batch_norm(last(x).half(), None, None, training=True)
    assert torch.equal(made, F.batch_norm(x.half(), None, None, training=True))
    assert not made.is_contiguous()


def test_under_vmap():
    x = image(3, 2, 4, 6, 6)
    made = torch.vmap(lambda i: F.max_pool2d(last(i), 2))(x)
    assert torch.equal(made, torch.stack([F.max_pool2d(i, 2) for i in x]))
