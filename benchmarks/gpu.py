"""Ember and PyTorch on the same GPU: ops in microseconds, training steps in milliseconds.

    python benchmarks/gpu.py [ops] [copies] [steps] [curves] [memory] [--only NAME] [--quick]
                             [--torch-compile]

Wants a GPU, PyTorch beside Ember, and an otherwise idle machine. Ops of both run in one process,
training steps each in a process of its own, which also says how long the first step took and the
most memory that tensors used. Each figure is the least of some rounds.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import json
import math
import subprocess
import sys
import time
from functools import partial

import numpy as np
from networks import STEPS, classes, gpt, numbers, resnet

COPY = "copy of 256 MB"


def synchronize(*modules):
    """Wait for all GPU work."""
    for torch in modules:
        torch.cuda.synchronize()


def seconds(function, repeats, rounds=5, modules=()):
    """The time of a call, in the best of some rounds."""
    for _ in range(4):
        function()
    synchronize(*modules)
    best = math.inf
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeats):
            function()
        synchronize(*modules)
        best = min(best, (time.perf_counter() - start) / repeats)
    return best


# ops


def backward_of(torch, function, *inputs):
    """A function that runs the gradients of another again and again."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    result = function(*leaves)
    slope = torch.ones_like(result)
    return lambda: torch.autograd.grad(result, leaves, slope, retain_graph=True)


def cases(torch):
    """(name, bytes that must move or None, function) of each op."""
    F = torch.nn.functional
    few, many = numbers(torch, 4), numbers(torch, 1 << 26)
    big = 4 << 26
    yield COPY, 2 * big, lambda: many.clone()
    yield "add of 4", None, lambda: few + few
    yield "add of 64M", 3 * big - big, lambda: many + many
    yield "gelu of 64M", 2 * big, lambda: F.gelu(many)
    yield "sum of 64M", big, lambda: many.sum()
    rows = numbers(torch, 65536, 1024)
    yield "softmax 65536x1024", 2 * big, lambda: F.softmax(rows, -1)
    yield "sum of columns 65536x1024", big, lambda: rows.sum(0)
    yield "transposed copy 65536x1024", 2 * big, lambda: rows.t().contiguous()
    x, w = (numbers(torch, *s, dtype="bfloat16") for s in ((16384, 768), (768,)))
    size = 2 * 16384 * 768
    yield "layer_norm bf16 16384x768", 2 * size, lambda: F.layer_norm(x, (768,), w, w)
    again = backward_of(torch, lambda x, w, b: F.layer_norm(x, (768,), w, b), x, w, w)
    yield "layer_norm backward bf16", 3 * size, again
    yield "bias bf16 16384x768", 2 * size, lambda: x + w
    yield "dropout bf16 16384x768", 2 * size, lambda: F.dropout(x, 0.1)
    yield "randn 64M", big, lambda: torch.randn(1 << 26, device="cuda")
    scores, targets = numbers(torch, 16384, 50304, dtype="bfloat16"), classes(torch, 50304, 16384)
    size = 2 * 16384 * 50304
    yield "cross_entropy bf16 16384x50304", size, lambda: F.cross_entropy(scores, targets)
    again = backward_of(torch, lambda s: F.cross_entropy(s, targets), scores)
    yield "cross_entropy backward bf16", 2 * size, again
    scores = again = None
    image = numbers(torch, 128, 256, 56, 56, dtype="bfloat16")
    image = image.to(memory_format=torch.channels_last)
    norm = torch.nn.BatchNorm2d(256).cuda()
    yield "batch_norm+relu 128x256x56x56", 3 * 2 * image.numel(), lambda: F.relu(norm(image))


def products(torch):
    """Products, convolutions and attention."""
    F = torch.nn.functional
    attend = partial(F.scaled_dot_product_attention, is_causal=True)
    for n in (64, 1024, 4096, 8192):
        square = numbers(torch, n, n, dtype="bfloat16")
        yield f"matmul bf16 {n}", None, lambda s=square: s @ s
    single = numbers(torch, 4096, 4096)
    yield "matmul f32 4096", None, lambda: single @ single
    few = numbers(torch, 64, 64)
    yield "matmul f32 64", None, lambda: few @ few
    x, w, b = (numbers(torch, *s, dtype="bfloat16") for s in ((16384, 768), (3072, 768), (3072,)))
    yield "linear bf16 16384x768x3072", None, lambda: F.linear(x, w, b)
    for c, n, k in ((64, 56, 3), (256, 56, 1), (512, 7, 3), (3, 224, 7)):
        image = numbers(torch, 64, c, n, n, dtype="bfloat16")
        image = image.to(memory_format=torch.channels_last)
        kernel = numbers(torch, max(c, 64), c, k, k, dtype="bfloat16")
        kernel = kernel.to(memory_format=torch.channels_last)
        yield (
            f"conv bf16 {c}x{n}x{n} {k}x{k}", None,
            lambda x=image, w=kernel: F.conv2d(x, w, padding=w.shape[-1] // 2),
        )  # fmt: skip
        again = backward_of(torch, lambda x, w: F.conv2d(x, w, padding=w.shape[-1] // 2), image,
                            kernel)  # fmt: skip
        yield f"conv backward {c}x{n}x{n} {k}x{k}", None, again
    for batch, heads, steps, features in ((16, 12, 1024, 64), (2, 16, 4096, 128), (1, 12, 128, 64)):
        shape = (batch, steps, 3, heads, features)
        q, k, v = numbers(torch, *shape, dtype="bfloat16").permute(2, 0, 3, 1, 4)
        name = f"attention {batch}x{heads}x{steps}x{features}"
        yield name, None, partial(attend, q, k, v)
        yield f"{name} backward", None, backward_of(torch, attend, q, k, v)


def small(torch):
    """What small things cost."""
    few = numbers(torch, 4)
    one = numbers(torch, 1)
    host = torch.ones(4)
    yield "item", None, lambda: one.item()
    yield "item of a part", None, lambda: few[0].item()
    yield "4 numbers to the GPU", None, lambda: host.cuda()
    yield "sum of 4", None, lambda: few.sum()


def copies(torch):
    """Copies of 256 MB between host and GPU."""
    host, device = torch.zeros(1 << 26), numbers(torch, 1 << 26)
    pinned = torch.zeros(1 << 26).pin_memory()
    target = torch.empty(1 << 26).pin_memory()
    big = 4 << 26
    yield "to the GPU", big, lambda: host.cuda()
    yield "from the GPU", big, lambda: device.cpu()
    yield "to the GPU, pinned", big, lambda: device.copy_(pinned, non_blocking=True)
    yield "from the GPU, pinned", big, lambda: target.copy_(device, non_blocking=True)


def compared(generate, both, repeats=30):
    """A line for each case of two generators that go together."""
    results = []
    for (name, size, ours), (_, _, theirs) in zip(*(generate(torch) for torch in both)):
        times = []
        for function in (ours, theirs):
            try:
                times.append(seconds(function, repeats, modules=both))
            except Exception as error:
                times.append(math.nan)
                print(f"  {name}: {type(error).__name__}: {str(error)[:200]}")
        rate = f"{size / times[0] / 1e9:7.0f} GB/s" if size else " " * 12
        cells = " | ".join(f"{t * 1e6:10.1f}" for t in times)
        print(f"| {name:34} | {cells} | {times[1] / times[0]:5.2f} | {rate} |", flush=True)
        results.append((name, *times))
    return results


# training steps


def step_of(torch, name, how):
    """A function that does one training step and returns its loss."""
    _, optimizer, loss = STEPS[name](torch)

    def step():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        return value

    if how == "deferred":
        return torch.deferred(host=False)(step)
    return torch.compile(step) if how == "compiled" and torch.__name__ == "ember" else step


def trained(which, how, names, quick):
    """Figures of training steps, a line of JSON each: for this process alone."""
    start = time.perf_counter()
    torch = importlib.import_module(which)
    torch.cuda.init()
    for name in names:
        found = {"step": name, "who": which, "how": how}
        try:
            found |= figures(torch, name, how, quick, start)
        except Exception as error:
            found["error"] = f"{type(error).__name__}: {str(error)[:300]}"
        print(json.dumps(found), flush=True)
        gc.collect()
        torch.cuda.empty_cache()
        start = time.perf_counter()


def figures(torch, name, how, quick, start):
    """Seconds until the first step is done and of a step, memory, and losses."""
    if how == "compiled" and torch.__name__ == "torch":
        _, optimizer, loss = STEPS[name](torch)
        forward = torch.compile(loss)

        def step():
            optimizer.zero_grad()
            value = forward()
            value.backward()
            optimizer.step()
            return value
    else:
        step = step_of(torch, name, how)
    losses = [step().item()]
    first = time.perf_counter() - start
    losses += [step().item() for _ in range(4)]
    torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    step()
    torch.cuda.synchronize()
    each = time.perf_counter() - began
    repeats = max(3, min(50, int((0.7 if quick else 2) / each / 3)))
    took = seconds(step, repeats, 3, [torch])
    peak = torch.cuda.max_memory_allocated() / 2**30
    report = step.report() if hasattr(step, "report") else ""
    return {"ms": took * 1e3, "first_s": first, "GiB": peak, "losses": losses, "report": report}


def steps(options):
    """A table of training steps."""
    names = [n for n in STEPS if options.only in n]
    ways = [(w, "eager") for w in ("ember", "torch")]
    ways[1:1] = [("ember", "deferred"), ("ember", "compiled")]
    if options.torch_compile:
        ways.append(("torch", "compiled"))
    print("| training step | who | ms | first step s | GiB | losses | |")
    rows = {}
    for which, how in ways:
        command = [sys.executable, __file__, "--child", f"{which} {how}"]
        command += ["--names", "|".join(names)]
        command += ["--quick"] if options.quick else []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            for line in child.stdout:  # told at once: a long run may be cut short
                if line.startswith("{"):
                    found = json.loads(line)
                    rows[found["step"], which, how] = found
                    print(described(found), flush=True)
    print("| training step | " + " | ".join(" ".join(way) for way in ways) + " |")
    for name in names:
        theirs = rows.get((name, "torch", "eager"), {}).get("ms", math.nan)
        found = [rows.get((name, *way), {}).get("ms", math.nan) for way in ways]
        cells = " | ".join(f"{ms:8.3f} ({theirs / ms:5.2f} x)" for ms in found)
        print(f"| {name:20} | {cells} |")


def described(found):
    """A line of the table: figures of one training step."""
    start = f"| {found['step']:20} | {found['who']} {found['how']:9}"
    if "error" in found:
        return f"{start} | {found['error']} |"
    ends = ", ".join(f"{found['losses'][i]:.4f}" for i in (0, -1))
    figures = f"{found['ms']:8.3f} | {found['first_s']:5.1f} | {found['GiB']:6.2f} | {ends}"
    return f"{start} | {figures} | {found['report']} |"


# curves


def curve(torch, make, batches, count, nudge=0.0):
    """The losses of a training run, the same batches for everyone; from weights of which one is
    larger by the factor 1 + `nudge`."""
    _, optimizer, loss = make(torch)
    with torch.no_grad():
        weight = optimizer.param_groups[0]["params"][0]
        weight[(0,) * weight.dim()] *= 1 + nudge

    def step(inputs, targets):
        optimizer.zero_grad()
        value = loss(inputs, targets)
        value.backward()
        optimizer.step()
        return value.detach()

    run = torch.compile(step) if torch.__name__ == "ember" else step
    found = [run(*(torch.from_numpy(b).cuda() for b in batches(i))) for i in range(count)]
    return np.array([float(v) for v in found])


def token_batches(batch, length, words):
    """Sequences in which each word tells the next, but for one in ten."""
    following = np.random.default_rng(3).permutation(words)

    def batches(i):
        generator = np.random.default_rng(1000 + i)
        rows = np.empty((batch, length + 1), np.int64)
        rows[:, 0] = generator.integers(0, words, batch)
        for t in range(length):
            noise = generator.random(batch) < 0.1
            rows[:, t + 1] = np.where(noise, generator.integers(0, words, batch),
                                      following[rows[:, t]])  # fmt: skip
        return np.ascontiguousarray(rows[:, :-1]), rows[:, 1:].reshape(-1)

    return batches


def image_batches(batch, size, words):
    """Images whose class is a faint pattern in noise."""
    patterns = np.random.default_rng(4).standard_normal((words, 3, size, size)).astype("f")

    def batches(i):
        generator = np.random.default_rng(2000 + i)
        targets = generator.integers(0, words, batch)
        noise = generator.standard_normal((batch, 3, size, size)).astype("f")
        return noise + 0.3 * patterns[targets], targets

    return batches


def curves(both, count):
    """How far training runs of both are apart, and two runs of PyTorch's that start from weights
    one rounding apart: what rounding alone does. Single precision is single, not TF32."""
    for torch in both:
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    runs = {
        "gpt2 124M b4 t128 float32": (
            lambda torch: gpt(torch, 4, 128, amp=False), token_batches(4, 128, 50304),
        ),
        "gpt2 124M b4 t128 bf16": (lambda torch: gpt(torch, 4, 128), token_batches(4, 128, 50304)),
        "resnet18 b64 64x64 float32": (
            lambda torch: resnet(torch, 64, 18, 64, 10, amp=False), image_batches(64, 64, 10),
        ),
    }  # fmt: skip
    for name, (make, batches) in runs.items():
        ours, theirs = (curve(torch, make, batches, count) for torch in both)
        nudged = curve(both[1], make, batches, count, 1.2e-7)
        apart, own = (np.abs(c - theirs) / np.abs(theirs) for c in (ours, nudged))
        at = [0, count // 30, count // 10, count // 3, count - 1]
        print(f"{name}: {count} steps, losses at {at}: {ours[at].round(4)} and PyTorch's "
              f"{theirs[at].round(4)}; apart by at most {apart.max():.1e}, in the mean "
              f"{apart.mean():.1e}; PyTorch from one rounding beside: {own.max():.1e}, "
              f"{own.mean():.1e}", flush=True)  # fmt: skip


def full_memory(torch):
    """A hundred times out of memory leaves memory as it was."""
    torch.ones(3, device="cuda")
    start = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0]
    refused = 0
    for _ in range(100):
        try:
            held = [torch.empty(1 << 34, dtype=torch.uint8, device="cuda") for _ in range(20)]
            del held
        except torch.cuda.OutOfMemoryError:
            refused += 1
    gc.collect()
    torch.cuda.empty_cache()
    end = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0]
    works = torch.ones(5, device="cuda").sum().item() == 5
    print(f"out of memory: {refused} of 100 refused, allocated and free before {start}, after "
          f"{end}, works: {works}")  # fmt: skip


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["ops", "copies", "steps", "curves", "memory"])
    parser.add_argument("--only", default="", help="steps whose name contains this")
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--count", type=int, default=300, help="steps of the curves")
    parser.add_argument("--torch-compile", action="store_true", help="PyTorch's compiler too")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--names", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        trained(*options.child.split(), options.names.split("|"), options.quick)
        return
    if {"ops", "copies", "curves", "memory"} & set(options.parts):
        both = [importlib.import_module(name) for name in ("ember", "torch")]
        print(f"{both[1].cuda.get_device_name(0)}, PyTorch {both[1].__version__}")
    if "ops" in options.parts:
        print("| op, us | Ember | PyTorch | Ember is quicker by | Ember's rate |")
        for generate in (cases, products, small):
            compared(generate, both, 10 if options.quick else 30)
    if "copies" in options.parts:
        compared(copies, both, 3)
    if "memory" in options.parts:
        full_memory(both[0])
    if "curves" in options.parts:
        curves(both, options.count)
    if "steps" in options.parts:
        steps(options)


if __name__ == "__main__":
    main()
