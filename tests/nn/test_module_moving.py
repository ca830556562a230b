"""Casting and moving modules in place."""

import pytest

import ember as torch
from ember import nn


def trained():
    net = nn.Linear(2, 2)
    net(torch.ones(1, 2)).sum().backward()
    return net


def test_casts_keep_parameters_and_take_gradients_along():
    net = trained()
    weight, gradient = net.weight, net.weight.grad
    assert net.double() is net and net.weight is weight and weight.dtype == torch.float64
    assert weight.grad is gradient and gradient.dtype == torch.float64
    assert gradient.tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("name", ["half", "bfloat16", "float", "double"])
def test_casts_spare_integers(name):
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    net.register_buffer("index", torch.tensor([1, 0]))
    wanted = getattr(
        torch, {"half": "float16", "float": "float32", "double": "float64"}.get(name, name)
    )
    getattr(net, name)()
    state = net.state_dict()
    assert state["0.weight"].dtype == state["1.running_mean"].dtype == wanted
    assert state["1.num_batches_tracked"].dtype == state["index"].dtype == torch.int64


def test_buffers_are_replaced_and_shared_ones_drift_apart():
    buffer = torch.zeros(1)
    pair = nn.ModuleList([nn.Module(), nn.Module()])
    for module in pair:
        module.register_buffer("b", buffer)
    pair.double()
    assert pair[0].b is not pair[1].b and buffer.dtype == torch.float32


def test_to_takes_dtype_device_or_tensor():
    assert nn.Linear(1, 1).to(torch.float64).weight.dtype == torch.float64
    assert nn.Linear(1, 1).to("cpu", torch.float64).weight.dtype == torch.float64
    assert nn.Linear(1, 1).to(dtype=torch.float16, non_blocking=True).bias.dtype == torch.float16
    like = torch.zeros(1, dtype=torch.float64)
    assert nn.Linear(1, 1).to(like).weight.dtype == torch.float64
    net = nn.Linear(1, 1)
    assert net.to(None) is net and net.to() is net


def test_to_refuses_other_dtypes_and_arguments():
    net = nn.Linear(1, 1)
    with pytest.raises(TypeError) as error:
        net.to(torch.int32)
    assert str(error.value) == (
        "nn.Module.to only accepts floating point or complex dtypes, but got desired "
        "dtype=torch.int32"
    )
    with pytest.raises(RuntimeError, match="does not accept copy argument"):
        net.to("cpu", copy=True)
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        net.to(other=torch.zeros(1))
    with pytest.raises(RuntimeError, match="nope"):
        net.to("nope")
    assert net.weight.dtype == torch.float32


def test_memory_format_changes_strides_only():
    net = nn.Conv2d(2, 2, 2).to(memory_format=torch.channels_last)
    assert net.weight.stride() == (8, 1, 4, 2) and net.weight.shape == (2, 2, 2, 2)


def test_type_casts_everything_by_name():
    assert nn.Linear(1, 1).type(torch.float64).weight.dtype == torch.float64
    assert nn.Linear(1, 1).type("torch.DoubleTensor").weight.dtype == torch.float64
    with pytest.raises(
        RuntimeError, match="floating point or complex dtype|floating point and complex"
    ):
        nn.Linear(1, 1).type(torch.int64)


def test_leaving_meta_needs_to_empty():
    ghost = nn.Linear(2, 2, device="meta")
    with pytest.raises(NotImplementedError) as error:
        ghost.to("cpu")
    assert str(error.value) == (
        "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of "
        "torch.nn.Module.to() when moving module from meta to a different device."
    )
    assert ghost.weight.is_meta
    made = ghost.to_empty(device="cpu")
    assert made is ghost and made.weight.device.type == "cpu"
    assert isinstance(made.weight, nn.Parameter) and made.weight.requires_grad


def test_meta_makes_new_parameters():
    net = nn.Linear(1, 1)
    weight = net.weight
    net.to("meta")
    assert net.weight is not weight and net.weight.is_meta and weight.device.type == "cpu"
    kept = nn.Linear(1, 1)
    weight = kept.weight
    assert kept.to_empty(device="cpu").weight is weight


def test_to_empty_can_spare_children():
    net = nn.Sequential(nn.Linear(1, 1, device="meta"))
    assert net.to_empty(device="cpu", recurse=False)[0].weight.is_meta


def test_complex_casts_warn():
    with pytest.warns(UserWarning, match="Complex modules are a new feature"):
        net = nn.Linear(1, 1).to(torch.complex64)
    assert net.weight.dtype == torch.complex64


def test_a_failing_move_leaves_parameter_and_gradient_together():
    net = trained()
    gradient = net.weight.grad

    def fail_on_gradients(tensor):
        if tensor is gradient:
            raise MemoryError("full")
        return tensor.double()

    with pytest.raises(MemoryError):
        net._apply(fail_on_gradients)
    assert net.weight.dtype == torch.float32 and net.weight.grad is gradient
    assert net.bias.dtype == torch.float32


@pytest.mark.usefixtures("no_gpus")
def test_a_gpu_that_is_not_there_moves_nothing():
    net = trained()
    with pytest.raises((AssertionError, RuntimeError)):
        net.cuda()
    assert net.weight.device.type == "cpu" and net.weight.grad.device.type == "cpu"
    assert nn.Module().cuda() is not None


def test_an_optimizer_made_before_a_move_still_holds():
    net = nn.Linear(1, 1)
    listed = list(net.parameters())
    net.half().float()
    assert all(a is b for a, b in zip(listed, net.parameters(), strict=True))


@pytest.mark.usefixtures("gpus")
def test_cuda_moves_in_place_with_gradients_and_buffers():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    net(torch.randn(3, 2)).sum().backward()
    weight, gradient, mean = net[0].weight, net[0].weight.grad, net[1].running_mean
    values = weight.detach().clone()
    assert net.cuda() is net and net[0].weight is weight
    assert str(weight.device) == "cuda:0" and weight.is_leaf and weight.requires_grad
    assert weight.grad is gradient and gradient.is_cuda
    assert net[1].running_mean is not mean and net[1].num_batches_tracked.is_cuda
    assert net.to("cuda:1")[0].weight is weight and weight.get_device() == 1
    assert torch.equal(net.cpu()[0].weight, values) and gradient.device.type == "cpu"


@pytest.mark.usefixtures("gpus")
def test_moved_parameters_still_train():
    net = nn.Linear(2, 1).cuda(1)
    net(torch.ones(4, 2, device="cuda:1")).sum().backward()
    assert net.weight.grad.get_device() == 1
    with pytest.raises(RuntimeError, match="cuda:1"):
        net(torch.ones(4, 2))


@pytest.mark.usefixtures("gpus")
def test_an_ordinal_that_does_not_exist_moves_nothing():
    net = trained()
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        net.cuda(99)
    assert {p.device.type for p in net.parameters()} == {"cpu"}
    assert net.weight.grad.device.type == "cpu"


@pytest.mark.usefixtures("gpus")
def test_loading_keeps_the_device():
    net = nn.Linear(2, 1).cuda()
    weight, state = net.weight, nn.Linear(2, 1).double().state_dict()
    net.load_state_dict(state)
    assert net.weight is weight and weight.is_cuda and weight.dtype == torch.float32
    assert torch.equal(weight.cpu(), state["weight"].float())
    assert state["weight"].device.type == "cpu"


@pytest.mark.usefixtures("gpus")
def test_names_on_a_gpu():
    net = nn.Linear(1, 1).cuda()
    with pytest.raises(TypeError, match="cannot assign 'torch.cuda.FloatTensor' as parameter"):
        net.weight = torch.zeros(1, device="cuda")
    assert "[torch.float32 of size 1 (GPU 1)]" in repr(nn.ParameterList([torch.ones(1)]).cuda(1))
    assert "[torch.cuda.FloatTensor of size 1 (GPU 0)]" in repr(
        nn.ParameterDict({"a": torch.ones(1)}).cuda()
    )
