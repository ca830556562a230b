"""The version of PyTorch whose interface Ember follows, and Ember's own."""

from __future__ import annotations

from ember.torch_version import TorchVersion

ember_version = "0.1.0"
# Libraries compare this with the releases that they support; the local label tells who answers.
__version__ = TorchVersion("2.13.0+ember")
debug = False
cuda: str | None = None  # no CUDA is built in: the libraries are loaded at the first use of a GPU
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
git_version = "unknown"
