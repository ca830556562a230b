"""Writes the files in data/ with PyTorch: `python tests/serialization/record_files.py`.

The tests read them with Ember; what they hold is written out again in test_loading.py.
"""

import pickle
from collections import OrderedDict
from pathlib import Path

import torch

FOLDER = Path(__file__).parent / "data"


def contents():
    """One of everything that a file of weights may hold."""
    base = torch.arange(6.0).view(2, 3)
    named = torch.ones(2)
    named.label = "mine"
    return {
        "base": base,
        "view": base[1:, ::2],
        "parameter": torch.nn.Parameter(torch.tensor([1.0, -2.0])),
        "leaf": torch.tensor([0.5], requires_grad=True),
        "scalar": torch.tensor(1.5),
        "empty": torch.zeros(0, 3),
        "bool": torch.tensor([True, False]),
        "uint8": torch.tensor([1, 255], dtype=torch.uint8),
        "int8": torch.tensor([-1, 2], dtype=torch.int8),
        "int16": torch.tensor([-300], dtype=torch.int16),
        "int32": torch.tensor([70000], dtype=torch.int32),
        "int64": torch.tensor([2**40]),
        "float16": torch.tensor([0.5, 2.0], dtype=torch.float16),
        "bfloat16": torch.tensor([0.5, 3.0], dtype=torch.bfloat16),
        "float64": torch.tensor([0.1], dtype=torch.float64),
        "complex64": torch.tensor([1 + 2j]),
        "attribute": named,
        "size": torch.Size([2, 3]),
        "device": torch.device("cuda:1"),
        "dtype": torch.float16,
        "ordered": OrderedDict(a=1, b=[2, (3, None)]),
        "plain": {"text": "é", "number": -(10**20), "set": {1}, "bytes": b"\x00a", "float": 0.25},
    }


def newer():
    """What only archives hold: dtypes without a storage class, and `meta`."""
    return {
        "float8": torch.tensor([0.5, 2.0]).to(torch.float8_e5m2),
        "uint16": torch.tensor([1, 60000], dtype=torch.uint16),
        "meta": torch.ones(2, 3, device="meta"),
    }


def trained():
    """A model and its optimizer after a step."""
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}


def main():
    old = {"_use_new_zipfile_serialization": False}
    torch.save(contents(), FOLDER / "archive.pt")
    torch.save(contents(), FOLDER / "protocol4.pt", pickle_protocol=4)
    torch.save(contents(), FOLDER / "legacy.pt", **old)
    torch.save(newer(), FOLDER / "newer.pt")
    torch.save(trained(), FOLDER / "trained.pt")
    torch.save(torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.Tanh()), FOLDER / "module.pt")
    torch.save(torch.Generator().manual_seed(3), FOLDER / "generator.pt")
    torch.save(torch.arange(4.0).storage(), FOLDER / "storage.pt")
    named = contents()["attribute"]
    plain = pickle.dumps([torch.arange(3), torch.nn.Parameter(torch.ones(2)), named])
    (FOLDER / "plain.pkl").write_bytes(plain)


if __name__ == "__main__":
    main()
