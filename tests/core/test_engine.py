"""The gradient engine: order, depth, failures that leave nothing half-done, devices."""

import gc
import threading
import weakref

import pytest

import ember


def leaf(torch, *values):
    return torch.tensor(list(values), dtype=torch.float64, requires_grad=True)


def test_a_chain_of_a_hundred_thousand_nodes():
    x = leaf(ember, 1.0)
    y = x
    for _ in range(100_000):
        y = y + 0
    y.backward()
    assert x.grad.tolist() == [1]
    del y  # taking it apart must not recurse either
    gc.collect()


def test_a_long_chain_that_is_never_run_backwards():
    x = leaf(ember, 1.0)
    y = x
    for _ in range(100_000):
        y = y * 1.0
    gone = weakref.ref(y)
    del y
    assert gone() is None


def test_a_long_chain_of_writes():
    x = leaf(ember, 1.0)
    y = x * 1
    for _ in range(2_000):
        y.add_(1)
        y[:].mul_(1)
    y.backward()
    assert x.grad.tolist() == [1]


def test_a_wide_graph(torch):
    x = leaf(torch, 1.0, 2.0)
    torch.stack([x * k for k in range(500)]).sum().backward()
    assert x.grad.tolist() == [124750, 124750]


def test_a_diamond_runs_each_node_once(torch):
    x, seen = leaf(torch, 1.0), []
    y = x * 2
    y.register_hook(lambda g: seen.append(g.item()))
    for _ in range(12):
        y = y + y
    y.backward()
    assert seen == [4096] and x.grad.tolist() == [8192]


def test_later_ops_run_first(torch):
    x, seen = leaf(torch, 1.0), []
    parts = [x * k for k in range(1, 4)]
    for k, part in enumerate(parts):
        part.register_hook(lambda g, k=k: seen.append(k))
    sum(parts).backward()
    assert seen == [2, 1, 0]


def test_a_failing_hook_stops_backward_and_leaves_recording_as_it_was(torch):
    x = leaf(torch, 1.0)
    y = x * 2

    def fail(grad):
        raise LookupError("no")

    y.register_hook(fail)
    with pytest.raises(LookupError):
        y.backward()
    assert torch.is_grad_enabled() and x.grad is None


def test_backward_without_recording_outside(torch):
    x = leaf(torch, 3.0)
    y = (x * x).sum()
    with torch.no_grad():
        y.backward()
        assert not torch.is_grad_enabled()
    assert x.grad.tolist() == [6] and torch.is_grad_enabled()


def test_backward_inside_a_hook(torch):
    x, w = leaf(torch, 1.0), leaf(torch, 2.0)

    def hook(grad):
        with torch.enable_grad():
            (w * w).sum().backward()

    y = x * 3
    y.register_hook(hook)
    y.backward()
    assert x.grad.tolist() == [3] and w.grad.tolist() == [4]


def test_backward_in_threads(torch):
    found = [None] * 4

    def work(k):
        x = leaf(torch, float(k))
        for _ in range(20):
            (x * x).sum().backward()
        found[k] = x.grad.tolist()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[40 * k] for k in range(4)]


def test_leaves_that_died_do_not_matter(torch):
    x, w = leaf(torch, 2.0), leaf(torch, 3.0)
    y = x * w
    del w
    gc.collect()
    y.backward()
    assert x.grad.tolist() == [3]


def test_backward_frees_the_inner_values():
    x = leaf(ember, 1.0, 2.0)
    inner = x.exp()
    gone = weakref.ref(inner.grad_fn)
    y = (inner * inner).sum()
    del inner
    y.backward()
    del y
    gc.collect()
    assert gone() is None


def test_undefined_gradients_stay_none(torch):
    x = leaf(torch, 1.0, 2.0)
    a, _b = x.unbind()
    (a * 3).backward()
    assert x.grad.tolist() == [3, 0]
    w = leaf(torch, 1.0)
    y = w.detach() * x
    y.sum().backward()
    assert w.grad is None


def test_the_gradient_is_stolen_only_when_nothing_else_sees_it():
    """A gradient made for a leaf alone becomes its .grad as it is; one seen elsewhere is copied."""
    made = []

    class Keep(ember.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            made.append((grad * 2).data_ptr())
            kept.append(grad * 2)
            return kept[-1]

    kept = []
    x = leaf(ember, 1.0, 2.0)
    Keep.apply(x).sum().backward()
    assert x.grad.data_ptr() != kept[0].data_ptr()
    x.grad.zero_()
    assert kept[0].tolist() == [2, 2] and made

    class Give(Keep):
        @staticmethod
        def backward(ctx, grad):
            found = grad * 2
            addresses.append(found.data_ptr())
            return found

    addresses = []
    x = leaf(ember, 1.0, 2.0)
    Give.apply(x).sum().backward()
    assert x.grad.data_ptr() == addresses[0]


@pytest.mark.parametrize("shape", [(3,), (2, 2)])
def test_a_gradient_of_a_wrong_shape_names_the_function(torch, shape):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return torch.ones(shape, dtype=torch.float64)

    x = leaf(torch, 1.0, 2.0)
    message = r"Function WrongBackward returned an invalid gradient at index 0 - got \["
    if shape == (2, 2):  # PyTorch sums what is broadcast over the shape
        Wrong.apply(x).sum().backward()
        assert x.grad.tolist() == [2, 2]
        return
    with pytest.raises(RuntimeError, match=message):
        Wrong.apply(x).sum().backward()
    assert x.grad is None


def test_gradients_across_two_gpus(gpus):
    x = ember.ones(2, 2, device="cuda:0", requires_grad=True)
    w = ember.full((2, 2), 3.0, device="cuda:1", requires_grad=True)
    host = ember.full((2, 2), 2.0, requires_grad=True)
    y = (x * host.to("cuda:0")).to("cuda:1") * w
    y.sum().backward()
    assert (x.grad.device, w.grad.device, host.grad.device) == (x.device, w.device, host.device)
    assert x.grad.tolist() == [[6, 6], [6, 6]]
    assert w.grad.tolist() == [[2, 2], [2, 2]]
    assert host.grad.tolist() == [[3, 3], [3, 3]]


def test_double_backward_across_two_gpus(gpus):
    x = ember.tensor([2.0], device="cuda:0", requires_grad=True)
    y = (x.to("cuda:1") ** 3).cpu()
    (first,) = ember.autograd.grad(y, x, create_graph=True)
    (second,) = ember.autograd.grad(first, x)
    assert first.item() == 12 and second.item() == 12 and second.device == x.device


def test_a_gradient_from_another_device_is_refused(gpus):
    class Stray(ember.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad.cpu()

    x = ember.ones(2, device="cuda:0", requires_grad=True)
    message = "returned an invalid gradient at index 0 - expected device cuda:0 but got cpu"
    with pytest.raises(RuntimeError, match=message):
        Stray.apply(x).sum().backward()
    assert x.grad is None


def test_the_seed_must_be_on_the_device_of_the_output(gpus):
    x = ember.ones(2, device="cuda:0", requires_grad=True)
    with pytest.raises(RuntimeError):
        (x * 2).backward(ember.ones(2))
    assert x.grad is None


def test_anomaly_mode_names_the_function_and_the_forward_call(torch):
    x = leaf(torch, 0.0)
    with torch.autograd.set_detect_anomaly(True):
        y = (x * 0).sqrt() * 0
        message = "Function 'SqrtBackward0' returned nan values in its 0th output"
        warning = pytest.warns(UserWarning, match="Error detected in SqrtBackward0")
        with pytest.raises(RuntimeError, match=message), warning as caught:
            y.sum().backward()
    assert "test_engine.py" in str(caught[0].message)
    assert not torch.is_anomaly_enabled()


def test_anomaly_mode_without_looking_for_nan(torch):
    x = leaf(torch, 0.0)
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        ((x * 0).sqrt() * 0).sum().backward()
    assert x.grad.isnan().all()
    assert not torch.is_anomaly_enabled()


def test_anomaly_mode_as_a_switch(torch):
    torch.autograd.set_detect_anomaly(True)
    assert torch.is_anomaly_enabled()
    torch.autograd.set_detect_anomaly(False)
    assert not torch.is_anomaly_enabled()
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        block = torch.autograd.detect_anomaly()
    with block:
        assert torch.is_anomaly_enabled()
    assert not torch.is_anomaly_enabled()


def test_nodes_as_users_see_them(torch):
    x = leaf(torch, 1.0, 2.0)
    y = (x * 2).sum()
    assert y.grad_fn.name() == "SumBackward0"
    ((inner, index),) = y.grad_fn.next_functions
    assert inner.name() == "MulBackward0" and index == 0
    last = inner.next_functions[0][0]
    assert last.name().endswith("AccumulateGrad") and last.variable is x
    assert inner.next_functions[-1][0] is None or len(inner.next_functions) == 1
    y.grad_fn.metadata["note"] = 5
    assert y.grad_fn.metadata == {"note": 5}
    assert isinstance(y.grad_fn, torch.autograd.graph.Node)
    assert x.grad_fn is None
