"""The memories of simulated GPUs: what is counted, what does not fit, what is given back."""

import gc

import pytest

import ember

MIB = 1 << 20


def allocated():
    return ember.cuda.memory_allocated(0)


def room(memory, nbytes):
    """Let a memory have that many bytes free."""
    gc.collect()
    memory.capacity = memory.allocated + nbytes


def test_tensors_are_counted_and_given_back(gpus):
    before = allocated()
    x = ember.zeros(1000, device="cuda")
    assert allocated() - before == 4096  # 4000 bytes in blocks of 512
    view = x[10:].view(2, 495)
    assert allocated() - before == 4096
    del x
    assert allocated() - before == 4096
    del view
    assert allocated() == before


def test_every_way_to_make_a_tensor_is_counted(gpus):
    ways = {
        "ones": lambda: ember.ones(256, device="cuda"),
        "to": lambda: ember.ones(256).to("cuda"),
        "cuda": lambda: ember.ones(256).cuda(),
        "clone": lambda: base.clone(),
        "add": lambda: base + 1,
        "sum": lambda: base.sum(0, keepdim=True).expand(2).contiguous(),
        "where": lambda: ember.where(base > 0, base, base),
        "cat": lambda: ember.cat([base, base]),
        "index": lambda: base[[0, 1]],
        "matmul": lambda: base @ base,
        "rand": lambda: ember.rand(256, device="cuda"),
        "arange": lambda: ember.arange(256, device="cuda"),
        "nonzero": lambda: base.nonzero(),
        "softmax": lambda: base.softmax(0),
        "sort": lambda: base.sort(),
        "empty": lambda: ember.empty(256, device="cuda"),
        "tensor": lambda: ember.tensor([1.0] * 256, device="cuda"),
        "half": lambda: base.half(),
        "to_other": lambda: ember.ones(256, device="cuda:1").to("cuda:0"),
    }
    base = ember.ones(256, device="cuda")
    for name, way in ways.items():
        before = allocated()
        made = way()
        after = allocated()
        assert after > before, name
        del made
        gc.collect()
        assert allocated() == before, name


def test_writes_take_no_memory(gpus):
    x = ember.ones(256, device="cuda")
    before = allocated()
    x.add_(1).mul_(2).zero_()
    x[0] = 5
    x.copy_(ember.ones(256))
    assert allocated() == before


def test_backward_gives_back_what_it_used(gpus):
    x = ember.ones(1024, device="cuda", requires_grad=True)
    before = allocated()
    (x.exp() * x).sum().backward()
    assert allocated() == before + 4096  # the gradient
    x.grad = None
    assert allocated() == before


def test_peaks(gpus):
    ember.cuda.reset_peak_memory_stats()
    before = allocated()
    x = ember.ones(1024, device="cuda")
    del x
    assert ember.cuda.max_memory_allocated() == before + 4096
    ember.cuda.reset_peak_memory_stats()
    assert ember.cuda.max_memory_allocated() == before


def test_a_full_gpu(gpus):
    room(gpus[0], MIB)
    before = allocated()
    with pytest.raises(ember.OutOfMemoryError, match="CUDA out of memory. Tried to allocate 4.00"):
        ember.empty(MIB, device="cuda")
    assert allocated() == before
    assert issubclass(ember.cuda.OutOfMemoryError, RuntimeError)
    assert ember.cuda.OutOfMemoryError is ember.OutOfMemoryError


def test_the_message_says_what_is_in_use_and_what_to_do(gpus):
    room(gpus[0], MIB)
    with pytest.raises(ember.OutOfMemoryError) as caught:
        ember.empty(MIB, device="cuda")
    text = str(caught.value)
    assert "GPU 0 has a total capacity of" in text and "1.00 MiB is free" in text
    assert "smaller batches" in text and "memory_summary" in text


LARGE = {
    "empty": lambda x: ember.empty(2 * MIB, device="cuda"),
    "zeros": lambda x: ember.zeros(2 * MIB, device="cuda"),
    "to": lambda x: ember.empty(2 * MIB).to("cuda"),
    "from_other": lambda x: ember.empty(2 * MIB, device="cuda:1").to("cuda:0"),
    "outer": lambda x: x[:, None] * x,
    "cat": lambda x: ember.cat([x] * 2048),
    "matmul": lambda x: x[:, None] @ x[None],
    "expand": lambda x: x.expand(2048, 1024).contiguous(),
    "clone": lambda x: x.expand(2048, 1024).clone(memory_format=ember.contiguous_format),
    "rand": lambda x: ember.rand(2 * MIB, device="cuda"),
    "double": lambda x: x.expand(2048, 1024).double(),
    "repeat": lambda x: x.repeat(2048),
    "index": lambda x: x[ember.zeros(2 * MIB, dtype=ember.int64)],
}


@pytest.mark.parametrize("name", LARGE)
def test_a_hundred_times_out_of_memory(gpus, name):
    x = ember.ones(1024, device="cuda")
    room(gpus[0], MIB)
    before, failures = allocated(), ember.cuda.memory_stats(0)["num_ooms"]
    for _ in range(100 if name in ("empty", "outer") else 5):
        with pytest.raises(ember.OutOfMemoryError):
            LARGE[name](x)
    gc.collect()
    assert allocated() == before and ember.cuda.memory_stats(0)["num_ooms"] > failures
    assert (x + 1).sum().item() == 2048  # and it goes on


def test_out_of_memory_in_backward_leaves_gradients_and_memory(gpus):
    x = ember.ones(64, 1024, device="cuda", requires_grad=True)
    y = (x.exp() * 2).sum()
    room(gpus[0], 4096)
    before = allocated()
    with pytest.raises(ember.OutOfMemoryError):
        y.backward(retain_graph=True)
    gc.collect()
    assert x.grad is None and allocated() == before and ember.is_grad_enabled()
    room(gpus[0], 64 * MIB)
    y.backward()
    assert x.grad[0, 0].item() == pytest.approx(2 * 2.718281828)


def test_a_part_of_the_memory(gpus):
    gpus[0].capacity = 1024 * MIB
    ember.cuda.set_per_process_memory_fraction(0.001)
    with pytest.raises(ember.OutOfMemoryError):
        ember.empty(MIB, device="cuda")
    ember.cuda.set_per_process_memory_fraction(1.0)
    ember.empty(MIB, device="cuda")
    for fraction, kind in ((1.5, ValueError), (-0.1, ValueError), (1, TypeError)):
        with pytest.raises(kind, match="fraction"):
            ember.cuda.set_per_process_memory_fraction(fraction)


def test_the_devices_have_memories_of_their_own(gpus):
    before = allocated(), ember.cuda.memory_allocated(1)
    x = ember.ones(1024, device="cuda:1")
    assert (allocated(), ember.cuda.memory_allocated("cuda:1")) == (before[0], before[1] + 4096)
    with ember.cuda.device(1):
        assert ember.cuda.memory_allocated() == before[1] + 4096
    assert x.device.index == 1


def test_statistics(gpus):
    before = ember.cuda.memory_stats(0)
    x = ember.ones(1024, device="cuda")
    stats = ember.cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == allocated()
    assert stats["allocation.all.current"] == before["allocation.all.current"] + 1
    assert stats["reserved_bytes.all.current"] >= stats["allocated_bytes.all.current"]
    free, total = ember.cuda.mem_get_info()
    assert total == gpus[0].capacity and 0 <= free <= total - allocated()
    ember.cuda.empty_cache()
    assert ember.cuda.memory_reserved() - allocated() < 2 * MIB
    assert "Allocated memory" in ember.cuda.memory_summary() and x.is_cuda


def test_the_host_is_reached_only_by_a_copy(gpus):
    x = ember.ones(3, device="cuda")
    message = "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu"
    with pytest.raises(TypeError, match=message):
        x.numpy()
    import numpy

    with pytest.raises(TypeError, match=message):
        numpy.asarray(x)
    with pytest.raises(TypeError, match=message):
        numpy.sin(x)
    assert x.cpu().numpy().tolist() == [1, 1, 1]
    host = x.cpu()
    host.add_(1)
    assert x.tolist() == [1, 1, 1]


def test_addresses_are_of_the_device(gpus):
    x, y = ember.ones(4, device="cuda:0"), ember.ones(4, device="cuda:1")
    assert x.data_ptr() != y.data_ptr() and x[1:].data_ptr() == x.data_ptr() + 4
