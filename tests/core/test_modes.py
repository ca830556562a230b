"""Recording on and off: blocks, decorators, generators, threads; inference mode; the defaults."""

import threading

import pytest

import ember


def recorded(torch):
    return (torch.ones(1, requires_grad=True) * 2).requires_grad


def test_blocks(torch):
    assert recorded(torch)
    with torch.no_grad():
        assert not recorded(torch) and not torch.is_grad_enabled()
        with torch.enable_grad():
            assert recorded(torch)
        assert not recorded(torch)
    assert recorded(torch)


def test_a_block_that_fails_switches_back(torch):
    blocks = (torch.no_grad, torch.inference_mode, lambda: torch.set_grad_enabled(False))
    for block in blocks:
        with pytest.raises(LookupError), block():
            raise LookupError
        assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def test_one_block_object_may_be_entered_again():
    block = ember.no_grad()  # PyTorch's forgets the mode before the first
    with block:
        with block:
            assert not ember.is_grad_enabled()
        assert not ember.is_grad_enabled()
    assert ember.is_grad_enabled()


def test_decorators(torch):
    @torch.no_grad()
    def called(x):
        """Doc."""
        return (x * 2).requires_grad

    @torch.no_grad
    def plain(x):
        return (x * 2).requires_grad

    @torch.enable_grad()
    def on(x):
        return (x * 2).requires_grad

    @torch.inference_mode()
    def inference(x):
        return (x * 2).is_inference()

    @torch.set_grad_enabled(False)
    def off(x):
        return (x * 2).requires_grad

    x = torch.ones(1, requires_grad=True)
    assert torch.is_grad_enabled()
    assert not called(x) and not plain(x) and not off(x) and inference(x)
    assert called.__name__ == "called" and called.__doc__ == "Doc."
    with torch.no_grad():
        assert on(x)
    assert torch.is_grad_enabled()


def test_decorated_generators(torch):
    @torch.no_grad()
    def steps():
        got = []
        try:
            for _ in range(3):
                got.append((yield torch.is_grad_enabled()))
        except LookupError:
            yield "caught", torch.is_grad_enabled()
        finally:
            ends.append(torch.is_grad_enabled())
        return got

    ends = []
    made = steps()
    assert next(made) is False and torch.is_grad_enabled()
    assert made.send(5) is False and torch.is_grad_enabled()
    assert made.throw(LookupError) == ("caught", False) and torch.is_grad_enabled()
    made.close()
    assert ends == [False]

    def through():
        return (yield from steps())

    outer = through()
    sent = [next(outer), outer.send(1), outer.send(2)]
    with pytest.raises(StopIteration) as stop:
        outer.send(3)
    assert sent == [False] * 3 and stop.value.value == [1, 2, 3]
    unfinished = steps()
    next(unfinished)
    unfinished.close()
    assert ends == [False] * 3


def test_set_grad_enabled_as_a_function(torch):
    try:
        torch.set_grad_enabled(False)
        assert not recorded(torch)
    finally:
        torch.set_grad_enabled(True)
    assert recorded(torch)
    with torch.set_grad_enabled(False):
        assert not recorded(torch)
    assert recorded(torch)


def test_each_thread_has_its_own_mode(torch):
    seen = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
        thread.start()
        thread.join()
        assert not torch.is_grad_enabled()
    assert seen == [True]


def test_inference_mode(torch):
    with torch.inference_mode():
        assert torch.is_inference_mode_enabled() and not torch.is_grad_enabled()
        x = torch.ones(2)
        assert x.is_inference() and x[0].is_inference() and (x + 1).is_inference()
        x.add_(1)
        with torch.inference_mode(False):
            assert not torch.is_inference_mode_enabled()
            assert not torch.ones(1).is_inference() and recorded(torch)
        assert not recorded(torch)
    assert not torch.is_inference_mode_enabled()
    y = x.clone()
    assert not y.is_inference()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor"):
        x.requires_grad_()
    w = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        w * x
    assert (w + x).requires_grad
    (w * y).sum().backward()
    assert w.grad.tolist() == [2, 2] and y.tolist() == [2, 2]


def test_inference_tensors_have_no_version(torch):
    with torch.inference_mode():
        x = torch.ones(2)
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        x._version


def test_normal_tensors_in_inference_mode(torch):
    w = torch.ones(2, requires_grad=True)
    x = torch.ones(2)
    with torch.inference_mode():
        y = w * 2
        assert y.is_inference() and not y.requires_grad
        x.add_(1)  # a normal tensor may be written, and counts it
        assert not x[:1].is_inference()
    assert x._version == 1 and x.tolist() == [2, 2]


def test_the_default_dtype(torch):
    try:
        assert torch.get_default_dtype() is torch.float32
        torch.set_default_dtype(torch.float64)
        assert torch.tensor([1.0]).dtype is torch.float64
        assert torch.tensor([1j]).dtype is torch.complex128
        assert (torch.tensor([1, 2]) / 2).dtype is torch.float64
        assert (torch.tensor([1, 2]) * 1.5).dtype is torch.float64
        torch.set_default_dtype(torch.float16)
        assert (torch.tensor([1, 2]) * 1.5).dtype is torch.float16
    finally:
        torch.set_default_dtype(torch.float32)
    assert (torch.tensor([1, 2]) * 1.5).dtype is torch.float32
    with pytest.raises(TypeError, match="only floating-point types are supported as the default"):
        torch.set_default_dtype(torch.int64)
    with pytest.raises(TypeError, match="invalid dtype object"):
        torch.set_default_dtype("float64")


def test_the_default_device(torch):
    with torch.device("meta"):
        assert torch.ones(2).is_meta and torch.tensor([1]).is_meta and torch.arange(3).is_meta
        assert torch.ones(2, device="cpu").is_cpu
        with torch.device("cpu"):
            assert torch.ones(2).is_cpu
    assert torch.ones(2).is_cpu
    try:
        torch.set_default_device("meta")
        assert torch.zeros(1).is_meta and torch.get_default_device() == torch.device("meta")
    finally:
        torch.set_default_device(None)
    assert torch.zeros(1).is_cpu and torch.get_default_device() == torch.device("cpu")


def test_numpy_refuses_gradients_only_while_they_are_recorded():
    x = ember.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        x.numpy()
    with ember.no_grad():
        assert x.numpy().tolist() == [1.0, 1.0]
