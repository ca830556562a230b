"""Simulated GPUs as devices: which exist, which is current, what may meet, what is counted."""

import copy
import pickle

import pytest

import ember
from ember.backends.base import copy_observers
from ember.devices.ledger import Ledger


def gpu(index=0, *shape):
    return ember.ones(shape or (2,), device=f"cuda:{index}")


def test_names(gpus):
    assert ember.cuda.is_available() and ember.cuda.device_count() >= 2
    assert gpu().device == ember.device("cuda", 0) and gpu(1).get_device() == 1
    assert ember.ones(1, device="cuda").device == ember.device("cuda:0")
    assert ember.ones(1, device=1).device == ember.device("cuda:1")
    assert ember.ones(1).cuda(1).is_cuda and gpu().type() == "torch.cuda.FloatTensor"
    assert "device='cuda:0'" in repr(gpu())


def test_the_current_device(gpus):
    assert ember.cuda.current_device() == 0
    with ember.cuda.device(1):
        assert (
            ember.ones(1, device="cuda").device.index == 1
            and ember.ones(1).cuda().get_device() == 1
        )
        with ember.cuda.device(-1):
            assert ember.cuda.current_device() == 1
        with ember.cuda.device_of(gpu(0)):
            assert ember.cuda.current_device() == 0
        assert (gpu(0) + 1).get_device() == 0
    assert ember.cuda.current_device() == 0
    ember.cuda.set_device("cuda:1")
    assert ember.cuda.current_device() == 1
    with pytest.raises(LookupError), ember.cuda.device(0):
        raise LookupError
    assert ember.cuda.current_device() == 1
    ember.cuda.set_device(0)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: ember.ones(1, device="cuda:7"),
        lambda: ember.ones(1).to("cuda:7"),
        lambda: ember.ones(1).cuda(7),
        lambda: ember.cuda.set_device(7),
        lambda: ember.cuda.device(7),
        lambda: ember.cuda.memory_allocated(7),
        lambda: ember.cuda.synchronize(7),
        lambda: ember.nn.Linear(1, 1).to("cuda:7"),
        lambda: ember.tensor([1.0], device="cuda:7"),
        lambda: ember.rand(1, device=7),
    ],
)
def test_ordinals_that_do_not_exist(gpus, ask):
    with pytest.raises(ember.AcceleratorError, match="invalid device ordinal") as caught:
        ask()
    assert "cuda:7" in str(caught.value) and "there are 2" in str(caught.value)
    assert isinstance(caught.value, RuntimeError) and ember.cuda.current_device() == 0


def test_what_a_gpu_that_does_not_exist_is(gpus):
    for ask in (ember.cuda.get_device_properties, ember.cuda.get_device_name):
        with pytest.raises(AssertionError, match="Invalid device id: .*invalid device ordinal"):
            ask(7)


MIXED = {
    "add": lambda a, b: a + b,
    "add_": lambda a, b: a.add_(b),
    "mul_number_first": lambda a, b: 2 * a * b,
    "where": lambda a, b: ember.where(a > 0, a, b),
    "matmul": lambda a, b: a @ b,
    "cat": lambda a, b: ember.cat([a, b]),
    "stack": lambda a, b: ember.stack([a, b]),
    "maximum": lambda a, b: ember.maximum(a, b),
    "eq": lambda a, b: a == b,
    "lerp": lambda a, b: ember.lerp(a, a, b),
    "linear": lambda a, b: ember.nn.functional.linear(a[None], b[None]),
    "mse": lambda a, b: ember.nn.functional.mse_loss(a, b),
    "addmm": lambda a, b: ember.addmm(a[None], a[None, :1], b[None]),
    "dot": lambda a, b: a.dot(b),
    "module": lambda a, b: ember.nn.Linear(2, 2).to(a.device)(b),
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("pair", ["cuda:0 cpu", "cpu cuda:1", "cuda:0 cuda:1"])
def test_devices_that_do_not_meet(gpus, name, pair):
    first, second = pair.split()
    a, b = ember.ones(2, device=first), ember.ones(2, device=second)
    with pytest.raises(
        RuntimeError, match="Expected all tensors to be on the same device"
    ) as caught:
        MIXED[name](a, b)
    text = str(caught.value)
    assert first in text and second in text and ".to('cuda:" in text
    assert a.tolist() == [1, 1] and a._version == 0


def test_the_message_names_each_argument_and_the_fix(gpus):
    with pytest.raises(RuntimeError) as caught:
        ember.where(gpu(0) > 0, gpu(0), ember.ones(2))
    text = str(caught.value)
    assert "checking arguments of where: condition [2] is on cuda:0, input [2] is on cuda:0" in text
    assert "other [2] is on cpu" in text and "other = other.to('cuda:0')" in text


def test_numbers_on_the_cpu_go_along(gpus):
    x, number = gpu(), ember.tensor(3.0)
    assert (x + number).tolist() == [4, 4] and (number * x).device == x.device
    assert ember.where(x > 0, x, number).tolist() == [1, 1]
    assert x.mul_(number).tolist() == [3, 3]
    x[0] = ember.tensor(7.0)
    assert x.tolist() == [7, 3]
    with pytest.raises(RuntimeError, match="same device"):
        x + ember.tensor(3.0, device="cuda:1")
    with pytest.raises(RuntimeError, match="same device"):
        ember.ones(2) + ember.tensor(3.0, device="cuda:0")
    w = ember.tensor(3.0, requires_grad=True)
    (gpu() * w).sum().backward()
    assert w.grad.item() == 2 and w.grad.is_cpu


def test_out_on_another_device(gpus):
    out = ember.zeros(2)
    with pytest.raises(RuntimeError, match="device"):
        ember.add(gpu(), 1, out=out)
    assert out.tolist() == [0, 0] and out._version == 0


def test_indices(gpus):
    x = gpu(0, 4)
    assert x[ember.tensor([0, 1])].device == x.device
    assert x[ember.tensor([True, False, True, False])].shape == (2,)
    with pytest.raises(RuntimeError, match="indices should be either on cpu or on the same device"):
        ember.ones(4)[ember.tensor([0], device="cuda:0")]
    with pytest.raises(RuntimeError, match="indices should be either on cpu or on the same device"):
        x[ember.tensor([0], device="cuda:1")]


def test_copies_between_devices_are_copies(gpus):
    x = ember.arange(4.0)
    y = x.to("cuda:0")
    z = y.to("cuda:1")
    x.zero_()
    y.mul_(2)
    assert z.tolist() == [0, 1, 2, 3] and y.tolist() == [0, 2, 4, 6]
    assert y.to("cuda:0") is y and y.cuda() is y
    assert y.to("cuda:0", copy=True).data_ptr() != y.data_ptr()
    t = ember.arange(6.0).reshape(2, 3).t().cuda()
    assert t.stride() == (1, 3) and t.tolist() == [[0, 3], [1, 4], [2, 5]]
    half = x.to("cuda:0", ember.float16)
    assert half.dtype is ember.float16 and half.is_cuda
    x.copy_(z)
    assert x.tolist() == [0, 1, 2, 3]


def test_copies_are_counted(gpus):
    with Ledger() as ledger:
        x = ember.ones(256).to("cuda:0")
        y = x.to("cuda:1")
        y.sum().item()
        (x + 1).mul_(2)
    totals = ledger.totals()
    assert totals["host to device"]["count"] == 1 and totals["host to device"]["bytes"] == 1024
    assert totals["device to device"]["count"] == 1
    assert totals["device to host"]["count"] == 1 and totals["device to host"]["bytes"] == 4
    assert not copy_observers


@pytest.mark.parametrize(
    ("read", "count"),
    [
        (lambda x: x.tolist(), 1),
        (lambda x: x[0].item(), 1),
        (lambda x: float(x[1]), 1),
        (lambda x: bool((x > 0).all()), 1),
        (lambda x: x.cpu(), 1),
        (lambda x: repr(x), None),
        (lambda x: x[x > 0], 1),
        (lambda x: x + x, 0),
        (lambda x: x.sum(), 0),
        (lambda x: x[1:], 0),
        (lambda x: x.shape[0], 0),
        (lambda x: x.fill_(3), 0),
        (lambda x: x.requires_grad, 0),
    ],
)
def test_reads_are_copies_to_the_host(gpus, read, count):
    x = gpu()
    with Ledger() as ledger:
        read(x)
    found = ledger.totals()["device to host"]["count"]
    assert found >= 1 if count is None else found == count


def test_streams_and_events(gpus):
    stream = ember.cuda.Stream()
    default = ember.cuda.current_stream()
    start, end = (ember.cuda.Event(enable_timing=True) for _ in range(2))
    with ember.cuda.stream(stream):
        assert ember.cuda.current_stream() == stream
        start.record()
        x = gpu(0, 512, 512)
        x = x @ x
        end.record()
    assert ember.cuda.current_stream() == default
    end.synchronize()
    ember.cuda.synchronize()
    assert start.elapsed_time(end) > 0 and stream.query() and end.query()
    default.wait_stream(stream)
    default.wait_event(end)
    other = ember.cuda.Stream(1)
    with ember.cuda.stream(other):
        assert ember.cuda.current_device() == 1
    assert ember.cuda.current_device() == 0
    with ember.cuda.stream(None):
        assert ember.cuda.current_stream() == default
    with pytest.raises(ValueError, match="enable_timing=True"):
        ember.cuda.Event().elapsed_time(end)
    with pytest.raises(ValueError, match="must be recorded"):
        ember.cuda.Event(enable_timing=True).elapsed_time(end)


def test_properties(gpus):
    found = ember.cuda.get_device_properties(1)
    assert found.total_memory > 0 and found.name == ember.cuda.get_device_name(1)
    assert (found.major, found.minor) == ember.cuda.get_device_capability(1)
    assert ember.cuda.can_device_access_peer(0, 1) and not ember.cuda.can_device_access_peer(0, 0)
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        ember.cuda.get_device_name("cpu")


def test_copies_and_pickles_stay_on_the_device(gpus):
    x = gpu(1)
    assert copy.deepcopy(x).device == x.device
    assert pickle.loads(pickle.dumps(x)).device == x.device


def test_the_same_numbers_as_on_the_cpu(gpus):
    ember.manual_seed(0)
    a, b = ember.randn(5, 7), ember.randn(7, 3)
    host = ((a @ b).softmax(1) + a.sum(1, keepdim=True)).std(0)
    device = ((a.cuda() @ b.cuda()).softmax(1) + a.cuda().sum(1, keepdim=True)).std(0)
    assert device.is_cuda and device.cpu().tolist() == host.tolist()


def test_products_of_halves_are_rounded_once_as_on_the_cpu(gpus):
    ember.manual_seed(0)
    x, w, b = (ember.randn(*n).half() for n in ((8, 3), (4, 3), (4,)))
    host = ember.nn.functional.linear(x, w, b)
    assert ember.nn.functional.linear(x.cuda(), w.cuda(), b.cuda()).tolist() == host.tolist()
    exact = ember.nn.functional.linear(x.double(), w.double(), b.double())
    assert host.tolist() == exact.half().tolist()


def test_simulating_after_the_first_use(gpus):
    gpu()
    with pytest.raises(RuntimeError, match="simulate them before their first use"):
        ember.cuda.simulate(5)
    assert ember.cuda.device_count() == 2
