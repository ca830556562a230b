"""Five troubles of everyday work, and what each framework tells about them.

    python benchmarks/troubles.py [--python OTHER]

A hidden copy, a forgotten mask, a step that may not fit, a model too big for one GPU, an overflow
in half precision. Ember runs here; PyTorch, Accelerate, JAX and Paddle where they are installed in
this Python or in OTHER. Everything runs on the CPU: where a tool needs a GPU, its own words say so.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import traceback
import warnings

TROUBLES = ("hidden copies", "a forgotten mask", "will it fit", "too big for one GPU", "overflow")
SIZE, LAYERS, BATCH = 256, 6, 2048


def last_line(error):
    """What an error says, without the way to it."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"


def network(torch):
    """The model of all troubles, written to PyTorch's API."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.widen, self.narrow = nn.Linear(SIZE, 4 * SIZE), nn.Linear(4 * SIZE, SIZE)
            self.mask = torch.ones(SIZE)

        def forward(self, x):
            return x + self.narrow(nn.functional.gelu(self.widen(x))) * self.mask.to(x.device)

    return nn.Sequential(*(Block() for _ in range(LAYERS)), nn.Linear(SIZE, 10))


def masked(torch):
    """A layer with a mask that no move takes along."""
    nn = torch.nn

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.project = nn.Linear(8, 8)
            self.mask = torch.ones(8)

        def forward(self, x):
            return self.project(x) * self.mask

    return Attention()


def half_step(torch, model, batch):
    """A step in which a product leaves float16."""
    hidden = model[0](batch.half().float()).half()
    energy = hidden * hidden
    loss = model[1](energy.float()).float().mean()
    loss.backward()
    return loss


# Ember


def ember_copies():
    import ember as torch

    model = network(torch).cuda()
    with torch.devices.ledger() as copies:
        for _ in range(10):
            model(torch.randn(4, SIZE).cuda()).sum().item()
    for advice in copies.advice():
        print(f"{advice.pattern}: {advice.text}")


def ember_mask():
    import ember as torch

    model = masked(torch).cuda()
    print(*torch.devices.check(model), sep="\n")
    model(torch.ones(2, 8).cuda())


def ember_fit():
    import ember as torch

    model, batch = network(torch), torch.randn(BATCH, SIZE)
    print(torch.devices.fits(model, batch, "1x64MiB"))
    with torch.devices.track():
        model.cuda()(batch.cuda()).sum().backward()


def ember_large():
    import ember as torch

    model, batch = network(torch), torch.randn(BATCH, SIZE)
    plan = torch.devices.plan(model, batch, "2x64MiB", training=True)
    print(plan.explain())


def ember_overflow():
    import ember as torch

    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.amp.guard():
        half_step(torch, model, torch.full((4, 8), 2000.0))
        optimizer.step()


# PyTorch


def torch_copies():
    import torch

    attempt("sync debug mode", lambda: torch.cuda.set_sync_debug_mode("warn"))
    from torch._subclasses.fake_tensor import FakeTensorMode

    def faked():
        with FakeTensorMode():
            torch.randn(4, device="cuda").sum().item()

    attempt("FakeTensor", faked)


def torch_mask():
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    def moved():
        with FakeTensorMode():
            masked(torch).cuda()

    def made_there():
        with FakeTensorMode():
            torch.empty(2, 8, device="cuda") * masked(torch).mask

    attempt("FakeTensor, Module.cuda()", moved)
    attempt("FakeTensor, the product alone", made_there)


def torch_fit():
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    attempt("memory snapshot", lambda: torch.cuda.memory._record_memory_history())
    attempt("memory snapshot", lambda: torch.cuda.memory._snapshot())

    def faked():
        with FakeTensorMode():  # of the CPU: models do not move to a fake GPU
            model = network(torch)
            optimizer = torch.optim.AdamW(model.parameters())
            tracker = MemTracker()
            tracker.track_external(model, optimizer)
            with tracker:
                model(torch.randn(BATCH, SIZE)).sum().backward()
                optimizer.step()
            tracker.display_snapshot("peak", units="MiB", tabulate=False)

    attempt("FakeTensor and MemTracker (private)", faked)


def torch_large():
    print("nothing that places a model by itself: device arguments by hand, or FSDP's processes")


def torch_overflow():
    import torch

    def anomaly():
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
        with torch.autograd.detect_anomaly():
            loss = half_step(torch, model, torch.full((4, 8), 2000.0))
        print(f"no error; the loss is {loss.item()}")

    attempt("detect_anomaly", anomaly)


# Accelerate


def accelerate_fit():
    from accelerate.utils import calculate_maximum_sizes

    import torch

    total, largest = calculate_maximum_sizes(network(torch))
    print(f"calculate_maximum_sizes: weights {total / 2**20:.1f} MiB, the largest layer "
          f"{largest[0] / 2**20:.1f} MiB {largest[1]}")  # fmt: skip
    print(f"its rule for Adam: 4 times the weights, {4 * total / 2**20:.1f} MiB; no activations")


def accelerate_large():
    from accelerate import infer_auto_device_map

    import torch

    memory = {0: 8 << 20, 1: 8 << 20, "cpu": 1 << 30}
    print(infer_auto_device_map(network(torch), memory))
    print("for inference: no gradients, optimizer state or activations are counted")


# JAX


def jax_copies():
    import jax
    import jax.numpy as jnp

    first, second = jax.devices()[:2]

    def moved():
        x = jax.device_put(jnp.ones(4), first)
        with jax.transfer_guard("log"):
            for _ in range(3):
                y = jax.device_put(x, second)
                float(y.sum())
        with jax.transfer_guard("disallow"):
            jnp.add(jax.device_put(jnp.ones(4), second), 1.0)

    attempt("transfer_guard", moved)


def jax_mask():
    import jax
    import jax.numpy as jnp

    first, second = jax.devices()[:2]
    x, mask = jax.device_put(jnp.ones(8), second), jax.device_put(jnp.ones(8), first)
    x * mask


def jax_fit():
    import jax
    import jax.numpy as jnp

    weights = [(jnp.ones((SIZE, 4 * SIZE)), jnp.ones((4 * SIZE, SIZE))) for _ in range(LAYERS)]

    def loss(weights, x):
        for widen, narrow in weights:
            x = x + jax.nn.gelu(x @ widen) @ narrow
        return x.sum()

    step = jax.jit(jax.value_and_grad(loss))
    found = step.lower(weights, jnp.ones((BATCH, SIZE))).compile().memory_analysis()
    print(f"memory_analysis: arguments {found.argument_size_in_bytes / 2**20:.1f} MiB, temporary "
          f"{found.temp_size_in_bytes / 2**20:.1f} MiB, results "
          f"{found.output_size_in_bytes / 2**20:.1f} MiB")  # fmt: skip


def jax_large():
    print("shardings by hand: a mesh and the dims to split (or automatic ones in development)")


def jax_overflow():
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_debug_infs", True)
    hidden = jnp.full((4, 8), 2000.0, jnp.float16)
    hidden * hidden


# Paddle


def paddle_copies():
    import paddle

    attempt("a copy to a GPU", lambda: paddle.ones([2]).cuda())
    print("no ledger of copies was found in its interface")


def paddle_mask():
    import paddle

    attempt("a place", lambda: paddle.to_tensor([1.0], place=paddle.CUDAPlace(0)))


def paddle_fit():
    import paddle

    attempt("max_memory_allocated", lambda: print(paddle.device.cuda.max_memory_allocated()))


def paddle_large():
    print("auto_parallel's placements by hand (shard_tensor), or fleet's processes")


def paddle_overflow():
    import paddle
    from paddle.amp.debugging import DebugMode, TensorCheckerConfig, enable_tensor_checker

    config = TensorCheckerConfig(enable=True, debug_mode=DebugMode.CHECK_NAN_INF_AND_ABORT)
    enable_tensor_checker(config)
    hidden = paddle.full([4, 8], 3e38)
    print((hidden * hidden).shape)


def attempt(name, function):
    """Run something, and show what came of it."""
    try:
        function()
        print(f"[{name}: no more than the above]")
    except BaseException as error:
        print(f"[{name}] {last_line(error)}")


FRAMEWORKS = ("ember", "torch", "accelerate", "jax", "paddle")
KEYS = ("copies", "mask", "fit", "large", "overflow")


def one(who, key):
    """Run one trouble in this process."""
    warnings.simplefilter("ignore")
    if who == "ember":
        sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        import ember

        ember.cuda.simulate("2x64MiB")
        ember.manual_seed(0)
    function = globals().get(f"{who}_{key}")
    if function is None:
        print("nothing of the kind")
        return
    try:
        function()
    except Exception as error:
        if os.environ.get("TROUBLES_TRACE"):
            traceback.print_exc()
        print(f"{type(error).__name__}: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="where the others are installed")
    parser.add_argument("--only", default="", help="a framework")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        one(*arguments.one)
        return
    for trouble, key in zip(TROUBLES, KEYS, strict=True):
        print(f"\n{'=' * 12} {trouble}")
        for who in FRAMEWORKS:
            if arguments.only and who != arguments.only:
                continue
            python = sys.executable if who == "ember" else arguments.python
            command = [python, os.path.abspath(__file__), "--one", who, key]
            environment = os.environ | {
                "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
                "JAX_PLATFORMS": "cpu",
                "JAX_TRACEBACK_FILTERING": "off",
            }
            done = subprocess.run(
                command, capture_output=True, text=True, env=environment, timeout=300,
                cwd=tempfile.gettempdir(),
            )  # fmt: skip
            text = done.stdout if who != "jax" else done.stderr + done.stdout
            if done.returncode and not text.strip():
                text = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "?"
            print(f"--- {who}\n{text.rstrip()}")


if __name__ == "__main__":
    main()
