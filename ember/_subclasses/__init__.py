"""Tensors that stand for others while a program is captured: none are made here."""

from ember._subclasses import fake_tensor, functional_tensor
from ember._subclasses.fake_tensor import FakeTensor, FakeTensorMode

__all__ = ["FakeTensor", "FakeTensorMode", "fake_tensor", "functional_tensor"]
