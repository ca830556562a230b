"""Train a small convolutional network on scikit-learn's handwritten digits.

The program is plain PyTorch; `ember run` runs it unchanged:

    ember run examples/digits.py                               on the CPU
    ember run --gpus 1 examples/digits.py --device cuda        on a simulated GPU
    ember run --gpus 2 examples/digits.py --device split       half of the layers on each of two
    ember run --gpus 1 examples/digits.py --device cuda --amp  in half precision
"""

import argparse
import json
import time

from sklearn.datasets import load_digits
from tqdm import tqdm

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """Two convolutions and two linear layers; the second half may live on another device."""

    def __init__(self, first_device, second_device):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.BatchNorm2d(32),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )
        self.classifier = nn.Sequential(
            nn.Linear(32 * 4 * 4, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )
        # Made on the CPU and moved afterwards: the first weights are the same wherever it runs.
        self.devices = first_device, second_device
        self.features.to(first_device)
        self.classifier.to(second_device)

    def forward(self, images):
        first, second = self.devices
        return self.classifier(self.features(images.to(first)).to(second))


def load(batch_size):
    """The digits as batches of (N, 1, 8, 8) images in 0..1 and labels: four fifths to train on."""
    digits = load_digits()
    images = torch.from_numpy(digits.images.astype("float32") / 16).unsqueeze(1)
    labels = torch.from_numpy(digits.target.astype("int64"))
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    images, labels = images[order], labels[order]
    split = len(labels) * 4 // 5
    training = TensorDataset(images[:split], labels[:split])
    test = TensorDataset(images[split:], labels[split:])
    shuffled = torch.Generator().manual_seed(1)
    return (
        DataLoader(training, batch_size, shuffle=True, drop_last=True, generator=shuffled),
        DataLoader(test, 256),
    )


def train(net, batches, epochs, amp, rate):
    """The loss of each step."""
    device = net.devices[1]
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(batches))
    scaler = torch.amp.GradScaler(device.type, enabled=amp)
    half = torch.float16 if device.type == "cuda" else torch.bfloat16
    losses = []
    net.train()
    for epoch in range(epochs):
        bar = tqdm(batches, desc=f"epoch {epoch + 1}/{epochs}", unit="batch")
        for images, labels in bar:
            optimizer.zero_grad()
            with torch.autocast(device.type, dtype=half, enabled=amp):
                loss = F.cross_entropy(net(images), labels.to(device))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            losses.append(loss.item())
            bar.set_postfix(loss=f"{losses[-1]:.4f}", refresh=False)
        mean = sum(losses[-len(batches) :]) / len(batches)
        print(f"epoch {epoch + 1}: mean loss {mean:.4f}", flush=True)
    return losses


@torch.no_grad()
def accuracy(net, batches):
    """The share of test images whose digit is found."""
    net.eval()
    right = total = 0
    for images, labels in batches:
        found = net(images).argmax(1).cpu()
        right += (found == labels).sum().item()
        total += len(labels)
    return right / total


def memory_in_use(devices):
    """The most bytes that tensors held on each GPU so far, by the GPU's name."""
    places = [device for device in dict.fromkeys(devices) if device.type == "cuda"]
    return {
        f"cuda:{device.index or 0} ({torch.cuda.get_device_name(device)})": (
            torch.cuda.max_memory_allocated(device)
        )
        for device in places
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda", "split"), default="cpu")
    parser.add_argument("--amp", action="store_true", help="half precision with loss scaling")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--curve", help="write the losses and figures to this JSON file")
    options = parser.parse_args()
    if options.device == "split":
        devices = torch.device("cuda:0"), torch.device("cuda:1")
    else:
        devices = (torch.device(options.device),) * 2

    torch.manual_seed(0)
    net = Net(*devices)
    training, test = load(options.batch_size)
    start = time.perf_counter()
    losses = train(net, training, options.epochs, options.amp, options.rate)
    seconds = time.perf_counter() - start
    memory = memory_in_use(devices)
    share = accuracy(net, test)
    print(f"test accuracy {share:.2%} after {len(losses)} steps in {seconds:.1f} s")
    for name, count in memory.items():
        print(f"{name}: at most {count / 2**20:.2f} MiB in use while training")
    if options.curve:
        figures = {"loss": losses, "accuracy": share, "seconds": seconds, "memory": memory}
        with open(options.curve, "w") as file:
            json.dump(figures, file)


if __name__ == "__main__":
    main()
