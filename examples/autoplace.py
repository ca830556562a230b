"""Where is it faster, the CPU or the GPU? Measured once, the copies counted, and told.

ember run --gpus 1 examples/autoplace.py
"""

import torch
from torch import nn


@torch.devices.autoplace
def louder(signal):
    """A few cheap ops: worth the way to the GPU only for a large signal."""
    gain = torch.tensor([2.0], device="auto")  # "auto": where this function runs
    return (signal * gain).tanh().exp()


def main():
    short, long = torch.randn(64), torch.randn(64, 65536)
    for signal in (short, long, short, long):  # each shape is measured once
        result = louder(signal)
        assert result.device == signal.device  # it comes back to where the argument is
    print(louder.report())

    print()
    model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    placement = torch.devices.where(model, torch.randn(512, 1024))
    print(placement)
    model.to(placement.device)  # the program moves it, where everyone can read it
    print(f"The model is on {model[0].weight.device}")

    print()
    print(f'A tensor made with device="auto" is on {torch.zeros(3, device="auto").device}:')
    print(torch.devices.placements()[-1])


if __name__ == "__main__":
    main()
