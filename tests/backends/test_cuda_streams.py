"""Streams of real GPUs on an emulated driver: where work goes, what waits, whose memory it is."""

import shutil

import pytest

from tests.backends.emulated import run

CODE = """
first = torch.cuda.current_stream()
assert first.cuda_stream == 0 and first == torch.cuda.default_stream()
side, other = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
assert side.cuda_stream != other.cuda_stream and driver.chosen.get(0, 0) == 0
from ember.backends.base import memory_of
memory = memory_of(torch.device("cuda", 0))

x = torch.arange(6.0, device="cuda")
assert torch.equal((x + 1).cpu(), torch.arange(6.0) + 1)
side.wait_stream(first)
assert driver.waits[-1][0] == side.cuda_stream
with torch.cuda.stream(side):
    assert torch.cuda.current_stream() == side and driver.current(0) == side.cuda_stream
    y = x * 2
    place = y.data_ptr()
    y.cpu()
    with torch.cuda.stream(other):
        assert driver.current(0) == other.cuda_stream
    assert driver.current(0) == side.cuda_stream
assert driver.current(0) == 0 and torch.cuda.current_stream() == first
assert len(memory.pools) == 3
del y  # goes back to the pool of the stream it was made in
assert torch.empty(6, device="cuda").data_ptr() != place
with torch.cuda.stream(side):
    again = torch.empty(6, device="cuda")
    assert again.data_ptr() == place
event = side.record_event()
first.wait_event(event)
assert driver.waits[-1][0] == 0 and event.query()
late = []
mark = driver.mark
driver.mark = lambda index, timed=True, stream=None: late.append(mark(index)) or late[-1]
again.record_stream(first)
torch.cuda.synchronize()
allocated = torch.cuda.memory_allocated()
driver.reached = lambda event: event not in late
del again  # the first stream may still read it
assert torch.cuda.memory_allocated() == allocated - 512
with torch.cuda.stream(side):
    assert torch.empty(6, device="cuda").data_ptr() != place
late.clear()
with torch.cuda.stream(side):
    assert torch.empty(6, device="cuda").data_ptr() == place
driver.mark = mark
x.record_stream(first)  # its own: nothing to wait for
del x
assert not memory.waiting
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() == 0 and not driver.blocks
many = [torch.cuda.Stream().cuda_stream for _ in range(70)]
assert len(set(many)) <= 32
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
end.record(side)
end.synchronize()
assert start.elapsed_time(end) >= 0 and side.query()
torch.cuda.set_stream(side)
assert driver.current(0) == side.cuda_stream
torch.cuda.set_stream(first)
side.synchronize()

def work(x):
    return ((x * 2).sum() + x).relu()

compiled = torch.compile(work)
x = torch.arange(6.0, device="cuda")
right = work(x).tolist()
for stream in (first, first, first, side, side, other, first):
    with torch.cuda.stream(stream):
        count = len(driver.waits)
        assert compiled(x).tolist() == right
print("done", len(driver.waits) - count)
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_streams_have_work_and_memory_of_their_own(tmp_path):
    assert "done 1" in run(tmp_path, CODE)
