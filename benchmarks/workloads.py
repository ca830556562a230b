"""The workloads of benchmarks/cpu.py, written to PyTorch's API: `python workloads.py NAME` runs one
after another and prints a line of JSON for each.

    python benchmarks/workloads.py ember|torch [--threads 1] [--only REGEX] [--seconds 1.0]
        [--compile]

A figure is the lower quartile of the process's CPU time (or of wall time with several threads) for
one call, after two calls that are not counted; `first` is the wall time of the first of these.
Ember's `compiled` workloads stand beside PyTorch's eager ones, or with `--compile` beside its
compiled ones, for which it needs a C++ compiler and minutes.
"""

import argparse
import importlib
import json
import re
import resource
import time

import networks


def make_workloads(torch, compiles):
    """name → a function to be called again and again."""
    nn, F = torch.nn, torch.nn.functional
    torch.manual_seed(0)
    found = {}

    def backward_of(module, *inputs):
        parameters = list(module.parameters())

        def run():
            for parameter in parameters:
                parameter.grad = None
            result = module(*inputs)
            result = result[0] if isinstance(result, tuple) else result
            result.sum().backward()

        return run

    def stepping(module, make_loss):
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)

        def run():
            optimizer.zero_grad()
            make_loss().backward()
            optimizer.step()

        return run

    small, tracked = torch.ones(4), torch.ones(4, requires_grad=True)
    found["a + b of 4, 1000 times"] = lambda: [small + small for _ in range(1000)]
    found["the same, recorded"] = lambda: [tracked + small for _ in range(1000)]
    square = torch.randn(64, 64)
    found["64x64 products, 100"] = lambda: [square @ square for _ in range(100)]
    million = torch.randn(1000, 1000)
    found["gelu(x * 2 + 1) * x, 1M"] = lambda: F.gelu(million * 2 + 1) * million
    found["exp, 1M"] = lambda: million.exp()
    found["sum, 1M"] = lambda: million.sum()
    found["sum of rows, 1M"] = lambda: million.sum(0)
    found["softmax, 1000 x 1000"] = lambda: F.softmax(million, 1)
    row = torch.randn(256).requires_grad_()
    table = torch.randn(1024, 256).requires_grad_()

    def normed():
        table.grad = row.grad = None
        F.layer_norm(table, (256,), row, row).sum().backward()

    found["layer_norm and back, 1024 x 256"] = normed
    scores, classes = torch.randn(256, 1000).requires_grad_(), torch.randint(0, 1000, (256,))

    def entropy():
        scores.grad = None
        F.cross_entropy(scores, classes).backward()

    found["cross_entropy and back, 256 x 1000"] = entropy
    heads = torch.randn(8, 4, 128, 64).requires_grad_()

    def attention():
        heads.grad = None
        F.scaled_dot_product_attention(heads, heads, heads, is_causal=True).sum().backward()

    found["attention and back, B8 H4 T128"] = attention
    image = torch.randn(8, 64, 32, 32).requires_grad_()
    for name, conv in (
        ("3x3", nn.Conv2d(64, 64, 3, padding=1, bias=False)),
        ("1x1", nn.Conv2d(64, 256, 1, bias=False)),
        ("3x3 stride 2", nn.Conv2d(64, 128, 3, stride=2, padding=1, bias=False)),
        ("depthwise 3x3", nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False)),
    ):
        found[f"convolution {name} and back"] = backward_of(conv, image)
    found["batch_norm and back"] = backward_of(nn.BatchNorm2d(64), image)
    found["max_pool and back"] = backward_of(nn.MaxPool2d(3, 2, 1), image)
    sequence = torch.randn(16, 32, 64)
    found["LSTM 64-128, T32, and back"] = backward_of(nn.LSTM(64, 128, batch_first=True), sequence)
    found["GRU 64-128, T32, and back"] = backward_of(nn.GRU(64, 128, batch_first=True), sequence)
    flat = torch.randn(1000000)
    found["sort, 1M"] = lambda: flat.sort()
    found["topk 100 of 1M"] = lambda: flat.topk(100)
    found["cumsum, 1M"] = lambda: flat.cumsum(0)
    places = torch.randint(0, 1000000, (100000,))
    found["index, 100K of 1M"] = lambda: flat[places]
    words, vectors = torch.randint(0, 10000, (32, 64)), nn.Embedding(10000, 128)
    found["embedding and back"] = backward_of(vectors, words)
    mlp = nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    )
    digits, labels = torch.randn(64, 784), torch.randint(0, 10, (64,))
    found["MLP step, B64"] = stepping(mlp, lambda: F.cross_entropy(mlp(digits), labels))
    layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, dropout=0.0)
    tokens = torch.randn(8, 128, 256)
    found["Transformer layer step, B8 T128 d256"] = stepping(
        layer, lambda: layer(tokens).pow(2).mean()
    )
    found |= whole_networks(torch)
    for name in [n for n in found if re.search("MLP|GPT|ResNet.* step", n)]:
        step = found[name]
        found[f"{name}, compiled"] = torch.compile(step) if compiles else step
    return found


def whole_networks(torch):
    """Training steps and inference of a GPT, a ResNet-18 and a network of depthwise layers."""

    def step(model, optimizer, loss):
        def run():
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()

        return run

    def inference(model, images):
        model.eval()

        def run():
            with torch.no_grad():
                model(images)

        return run

    small = {"layers": 4, "width": 256, "heads": 4, "words": 2048, "amp": False, "device": "cpu"}
    here = {"size": 128, "device": "cpu"}
    residual = networks.resnet(torch, 8, kind=18, amp=False, **here)
    quiet, _, _ = networks.resnet(torch, 8, kind=18, amp=False, **here)
    depthwise, _, _ = networks.depthwise(torch, 8, **here)
    images = networks.numbers(torch, 8, 3, 128, 128, device="cpu")
    return {
        "GPT step, 4 layers d256 B8 T128": step(*networks.gpt(torch, 8, 128, **small)),
        "ResNet-18 step, B8 128x128": step(*residual),
        "ResNet-18 inference": inference(quiet, images),
        "depthwise network inference": inference(depthwise, images),
    }


def measured(run, seconds, clock):
    """The lower quartile of the time of a call, and the first call's wall time."""
    start = time.perf_counter()
    run()
    first = time.perf_counter() - start
    settle(run)
    times, stop = [], time.monotonic() + seconds
    while len(times) < 5 or (time.monotonic() < stop and len(times) < 200):
        start = clock()
        run()
        times.append(clock() - start)
    return {"seconds": sorted(times)[len(times) // 4], "first": first}


def settle(run):
    """Calls that are not counted, until a compiled function's program is ready."""
    for _ in range(3):
        run()
        if hasattr(run, "report"):
            run.report()  # waits


def main():
    """Print a line of JSON for each workload, and one for the memory at the end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("framework", choices=["ember", "torch"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    start = time.perf_counter()
    torch = importlib.import_module(options.framework)
    print(json.dumps({"name": "import", "seconds": time.perf_counter() - start}), flush=True)
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    compiles = options.framework == "ember" or options.compile
    for name, run in make_workloads(torch, compiles).items():
        if re.search(options.only, name):
            print(json.dumps({"name": name, **measured(run, options.seconds, clock)}), flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"name": "peak memory, MiB", "memory": peak}), flush=True)


if __name__ == "__main__":
    main()
