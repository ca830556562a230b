"""What GPUs tell of themselves, and what waits for them."""

import os

import pytest

import ember as torch


def test_statistics_in_nested_dicts(gpus):
    held = torch.ones(1000, device="cuda:0")
    flat, nested = torch.cuda.memory_stats(0), torch.cuda.memory_stats_as_nested_dict(0)
    assert nested["allocated_bytes"]["all"]["current"] == flat["allocated_bytes.all.current"]
    assert held.nbytes <= nested["allocated_bytes"]["all"]["current"]
    assert torch.cuda.host_memory_stats_as_nested_dict() == {}


def test_the_part_of_a_memory(gpus):
    assert torch.cuda.get_per_process_memory_fraction(1) == 1.0
    torch.cuda.set_per_process_memory_fraction(0.25, 1)
    assert torch.cuda.get_per_process_memory_fraction(1) == 0.25
    assert torch.cuda.get_allocator_backend() == "native"


def test_processes(gpus):
    held = torch.ones(1 << 20, device="cuda:1")
    lines = torch.cuda.list_gpu_processes(1).splitlines()
    assert lines[0] == "GPU:1" and lines[1].split()[1] == str(os.getpid())
    assert torch.cuda.device_memory_used(1) >= held.nbytes


@pytest.mark.parametrize(
    "name", ["utilization", "memory_usage", "temperature", "power_draw", "clock_rate"]
)
def test_simulated_gpus_have_no_sensors(gpus, name):
    with pytest.raises(NotImplementedError, match="a simulated GPU has no sensors"):
        getattr(torch.cuda, name)()


def test_what_waits_is_found(gpus):
    x = torch.ones(4, device="cuda")
    assert torch.cuda.get_sync_debug_mode() == 0
    try:
        torch.cuda.set_sync_debug_mode("warn")
        with pytest.warns(UserWarning, match="called a synchronizing CUDA operation"):
            x.sum().item()
        torch.cuda.set_sync_debug_mode(2)
        with pytest.raises(RuntimeError, match="copy of 16 bytes from cuda:0 to cpu"):
            x.cpu()
        x + x  # does not wait
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert x.cpu().tolist() == [1.0] * 4
    for bad in ("loud", 3):
        with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
            torch.cuda.set_sync_debug_mode(bad)


def test_status():
    torch.cuda.check_error(torch.cuda.cudaStatus.SUCCESS)
    with pytest.raises(torch.cuda.CudaError, match="34"):
        torch.cuda.check_error(torch.cuda.cudaStatus.ERROR_NOT_READY)
    assert issubclass(torch.cuda.CudaError, RuntimeError)
    assert issubclass(torch.cuda.DeferredCudaCallError, Exception)


def test_graphs_are_not_captured():
    assert torch.cuda.is_current_stream_capturing() is False
    cuda = torch.cuda
    for call in (
        cuda.CUDAGraph,
        cuda.graph_pool_handle,
        lambda: cuda.graph(None),
        lambda: cuda.make_graphed_callables(torch.relu, ()),
    ):
        with pytest.raises(NotImplementedError, match="does not capture CUDA graphs"):
            call()


def test_what_is_left_out_has_a_reason():
    for name in ("cudart", "MemPool", "caching_allocator_alloc", "GreenContext"):
        with pytest.raises(AttributeError, match=f"torch.cuda has no {name} in Ember: "):
            getattr(torch.cuda, name)


def test_a_linear_layer_gives_the_numbers_of_the_cpu_to_the_last_bit(gpus):
    def outcome(device):
        torch.manual_seed(0)
        layer = torch.nn.Linear(512, 64).to(device)
        x = torch.randn(64, 512).to(device).requires_grad_()
        out = layer(x)
        out.backward(torch.randn(64, 64).to(device))
        return [t.detach().cpu() for t in (out, x.grad, layer.weight.grad, layer.bias.grad)]

    for here, there in zip(outcome("cpu"), outcome("cuda"), strict=True):
        assert torch.equal(here, there)
