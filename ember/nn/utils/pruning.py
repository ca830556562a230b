"""The methods of pruning: how a mask is made, put on a parameter, and taken off again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import ember.ops as ops
from ember.core.tensor import Tensor
from ember.errors import check


class BasePruningMethod(ABC):
    """A way to prune: subclasses give `compute_mask`, and `PRUNING_TYPE`: "unstructured" for single
    elements, "structured" for channels, "global" for masks of their own."""

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Any, inputs: Any) -> None:
        """Before a forward: make the pruned tensor anew."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for importance scores `t`, on top of `default_mask`; both of one shape."""

    def apply_mask(self, module: Any) -> Tensor:
        """The parameter times its mask. AssertionError if the module is not pruned."""
        name = getattr(self, "_tensor_name", None)
        check(name is not None, AssertionError, lambda: f"Module {module} has to be pruned")
        mask = getattr(module, f"{name}_mask")
        return mask.to(dtype=getattr(module, f"{name}_orig").dtype) * getattr(
            module, f"{name}_orig"
        )

    @classmethod
    def apply(
        cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune the parameter `name`, on top of what has pruned it before. Nothing changes if the
        mask cannot be made."""
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        key, before = hook_of(module, name)
        original = getattr(module, name)
        if importance_scores is not None:
            check(
                importance_scores.shape == original.shape,
                AssertionError,
                lambda: (
                    f"importance_scores should have the same shape as parameter {name} of "
                    f"{module}, got {importance_scores.shape} vs {original.shape}"
                ),
            )
        scores = original if importance_scores is None else importance_scores
        if before is None:
            mask = method.compute_mask(scores, ops.ones_like(original))
            module.register_parameter(f"{name}_orig", original)
            del module._parameters[name]
        else:
            joined = PruningContainer(
                *(before if isinstance(before, PruningContainer) else [before])
            )
            joined.add_pruning_method(method)
            method = joined
            mask = method.compute_mask(scores, getattr(module, f"{name}_mask").detach().clone())
            del module._forward_pre_hooks[key]
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method  # type: ignore[no-any-return]

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Any = None
    ) -> Tensor:
        """The tensor with its pruned elements at zero."""
        check(
            importance_scores is None or importance_scores.shape == t.shape,
            AssertionError,
            "importance_scores should have the same shape as tensor t",
        )
        scores = t if importance_scores is None else importance_scores
        known = ops.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, known)

    def remove(self, module: Any) -> None:
        """Make the pruned tensor a plain parameter again, with its zeros."""
        name = self._tensor_name
        check(
            name is not None,
            AssertionError,
            lambda: f"Module {module} has to be pruned before pruning can be removed",
        )
        weight, original = self.apply_mask(module), module._parameters[f"{name}_orig"]
        if hasattr(module, name):
            delattr(module, name)
        original.data = weight.data
        del module._parameters[f"{name}_orig"]
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


def hook_of(module: Any, name: str) -> tuple[Any, Any]:
    """The hook that prunes a parameter, with its key; (None, None) if there is none."""
    found = [
        (key, hook)
        for key, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    ]
    check(
        len(found) <= 1,
        AssertionError,
        lambda: (
            f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. "
            "Use a PruningContainer."
        ),
    )
    return found[0] if found else (None, None)


class PruningContainer(BasePruningMethod):
    """Pruning methods one after the other, each on what those before have left."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1 and not isinstance(args[0], Iterable):
            self._tensor_name = args[0]._tensor_name
            self.add_pruning_method(args[0])
            return
        methods = args[0] if len(args) == 1 else args
        for method in methods:
            self._tensor_name = getattr(self, "_tensor_name", method._tensor_name)
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Append a method. TypeError for anything else; ValueError for one of another parameter."""
        check(
            method is None or isinstance(method, BasePruningMethod),
            TypeError,
            f"{type(method)} is not a BasePruningMethod subclass",
        )
        if method is None:
            return
        check(
            self._tensor_name == method._tensor_name,
            ValueError,
            f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to "
            f"PruningContainer {self}. Found '{method._tensor_name}'",
        )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far, and what the last method prunes of what it leaves."""
        method: Any = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype).clone()
        left = _left_by(method, mask)
        mask[left] = method.compute_mask(t[left], default_mask[left]).to(dtype=mask.dtype)
        return mask


def _left_by(method: Any, mask: Tensor) -> Any:
    """What of a tensor a method may still prune. AttributeError for an unknown PRUNING_TYPE."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    if method.PRUNING_TYPE == "structured":
        dim = method.dim % mask.dim()
        others = [d for d in range(mask.dim()) if d != dim]
        channels = mask.sum(others) != 0
        return tuple(channels if d == dim else slice(None) for d in range(mask.dim()))
    check(
        method.PRUNING_TYPE == "global",
        AttributeError,
        f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}",
    )
    return tuple(slice(None) for _ in range(mask.dim()))


class Identity(BasePruningMethod):
    """Prunes nothing: the parameter gets a mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask as it is."""
        return default_mask

    @classmethod
    def apply(cls, module: Any, name: str) -> Any:  # type: ignore[override]
        """Prune the parameter `name`."""
        return super().apply(module, name)


class RandomUnstructured(BasePruningMethod):
    """Prunes elements at random: `amount` of them, a number or a share."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Any) -> None:
        check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Zeros at random places."""
        count = number_of(self.amount, t.numel())
        mask = default_mask.clone()
        if count:
            places = ops.rand_like(t).view(-1).topk(count).indices
            mask.view(-1)[places] = 0
        return mask

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any) -> Any:  # type: ignore[override]
        """Prune the parameter `name`."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(BasePruningMethod):
    """Prunes the `amount` of elements (a number or a share) that are nearest to zero."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Any) -> None:
        check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Zeros where the scores are smallest."""
        count = number_of(self.amount, t.numel())
        mask = default_mask.clone()
        if count:
            places = t.abs().reshape(-1).topk(count, largest=False).indices
            mask.view(-1)[places] = 0
        return mask

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Any, name: str, amount: Any, importance_scores: Any = None
    ) -> Any:
        """Prune the parameter `name`."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class RandomStructured(BasePruningMethod):
    """Prunes whole channels along `dim` at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        check_amount(amount)
        self.amount, self.dim = amount, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Zeros in random channels."""
        check_channels(t, self.dim)
        channels = t.shape[self.dim]
        count = number_of(self.amount, channels)
        if count == 0:
            return default_mask
        draws = ops.rand(channels, device=t.device)
        kept = draws > draws.kthvalue(count).values
        return default_mask * spread(kept, t, self.dim).to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any, dim: int = -1) -> Any:  # type: ignore[override]
        """Prune the parameter `name`."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(BasePruningMethod):
    """Prunes the channels along `dim` with the smallest `n`-norm."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        check_amount(amount)
        self.amount, self.n, self.dim = amount, n, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Zeros in the weakest channels."""
        check_channels(t, self.dim)
        channels = t.shape[self.dim]
        count = number_of(self.amount, channels)
        if count == 0:
            return default_mask
        others = [d for d in range(t.dim()) if d != self.dim % t.dim()]
        strongest = t.norm(p=self.n, dim=others).topk(channels - count).indices
        kept = ops.zeros(channels, device=t.device)
        kept[strongest] = 1
        return default_mask * spread(kept, t, self.dim).to(dtype=default_mask.dtype)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None
    ) -> Any:
        """Prune the parameter `name`."""
        return super().apply(
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask that is given."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The product of both masks. AssertionError for another shape."""
        check(
            default_mask.shape == self.mask.shape,
            AssertionError,
            f"the mask has shape {list(self.mask.shape)}, the parameter {list(default_mask.shape)}",
        )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Any, name: str, mask: Tensor) -> Any:  # type: ignore[override]
        """Prune the parameter `name`."""
        return super().apply(module, name, mask=mask)


# numbers and channels


def check_amount(amount: Any) -> None:
    """TypeError or ValueError unless an amount is a share of 0 to 1 or a whole number."""
    check(
        isinstance(amount, (int, float)),
        TypeError,
        f"Invalid type for amount: {amount}. Must be int or float.",
    )
    check(
        amount >= 0 and (isinstance(amount, int) or amount <= 1),
        ValueError,
        f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer",
    )


def number_of(amount: Any, size: int) -> int:
    """How many of `size` an amount is. ValueError for more."""
    if not isinstance(amount, int):
        return round(amount * size)
    check(
        amount <= size,
        ValueError,
        f"amount={amount} should be smaller than the number of parameters to prune={size}",
    )
    return amount


def check_channels(t: Tensor, dim: int) -> None:
    """ValueError for a tensor without channels; IndexError for a dim that it does not have."""
    check(
        t.dim() > 1,
        ValueError,
        "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
        f"{t.shape} with {t.dim()} dims",
    )
    check(
        -t.dim() <= dim < t.dim(), IndexError, f"Invalid index {dim} for tensor of size {t.shape}"
    )


def spread(channels: Tensor, t: Tensor, dim: int) -> Tensor:
    """A value for each channel along `dim`, as a tensor of the shape of `t`."""
    shape = [1] * t.dim()
    shape[dim] = t.shape[dim]
    return channels.view(shape).expand(t.shape)
