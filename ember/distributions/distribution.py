"""`Distribution`: the base of all, with shapes, checks of parameters and values, and `expand`."""

from __future__ import annotations

import warnings
from typing import Any

from ember import ops
from ember.core.modes import no_grad
from ember.core.tensor import Tensor
from ember.distributions import constraints
from ember.distributions.utils import lazy_property
from ember.errors import check
from ember.layout import Size

__all__ = ["Distribution"]


class Distribution:
    """A probability distribution over events of `event_shape`, a batch of `batch_shape` of them.

    Subclasses name their parameters' sets in `arg_constraints` and the set of their values in
    `support`. ValueError for parameters or values outside them, where `validate_args` holds.

    >>> import ember as torch
    >>> torch.distributions.Normal(torch.zeros(2), 1.0).batch_shape
    torch.Size([2])
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    _expands: tuple[str, ...] = ()  # the parameters that `expand` gives a greater batch

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions made from now on check parameters and values.

        >>> import ember as torch
        >>> torch.distributions.Distribution.set_default_validate_args(True)
        """
        check(value in (True, False), ValueError, f"validate_args is True or False, not {value!r}")
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Any = (),
        event_shape: Any = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self) -> None:
        try:
            known = self.arg_constraints
        except NotImplementedError:
            known = {}
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = "
                "{}` or initialize the distribution with `validate_args=False` to turn off "
                "validation."
            )
        for name, constraint in known.items():
            lazy = isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(constraint) or (name not in vars(self) and lazy):
                continue  # what is not known, or not yet computed, is not checked
            value = getattr(self, name)
            if not bool(constraint.check(value).all()):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution for a greater batch, its parameters expanded.

        >>> import ember as torch
        >>> torch.distributions.Normal(0.0, 1.0).expand((3,))
        Normal(loc: torch.Size([3]), scale: torch.Size([3]))
        """
        owner = next(kind for kind in type(self).__mro__ if "_expands" in vars(kind))
        if owner is Distribution:
            raise NotImplementedError(f"{type(self).__name__} does not define expand")
        new = self._get_checked_instance(owner, _instance)
        return self._expanded(new, Size(batch_shape))

    def _expanded(self, new: Any, batch_shape: Any) -> Any:
        dims = len(self._batch_shape)
        for name in self._expands:
            value = vars(self).get(name)
            if isinstance(value, Tensor):
                value = value.expand(batch_shape + value.shape[dims:])
            if value is not None:
                setattr(new, name, value)
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        self._expand_more(new, batch_shape)
        new._validate_args = self._validate_args
        return new

    def _expand_more(self, new: Any, batch_shape: Any) -> None:
        """What a subclass keeps besides its parameters."""

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        own = type(self).__init__ != cls.__init__
        check(
            _instance is not None or not own,
            NotImplementedError,
            f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ "
            "method must also define a custom .expand() method.",
        )
        return self.__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self) -> Any:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The shape of one draw of one of them."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """The parameters' sets by name."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The set of the values."""
        raise NotImplementedError

    @property
    def mean(self) -> Any:
        """The expected value."""
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        """The value of the greatest density."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Any:
        """The expected squared distance from the mean."""
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws of shape sample_shape + batch_shape + event_shape, without a gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws as a function of the parameters: their gradient reaches the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Any:
        """`sample((n,))`, by its older name."""
        warnings.warn("sample_n will be deprecated. Use .sample((n,)) instead", UserWarning)
        return self.sample(Size((n,)))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or of the probability, at the value."""
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        """The probability of a draw no greater than the value."""
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        """The value whose cdf is given."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values of a discrete distribution along dim 0, expanded to the batch or not."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """The entropy in nats."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """exp of the entropy."""
        return ops.exp(self.entropy())

    def _extended_shape(self, sample_shape: Any = ()) -> Any:
        return Size([*sample_shape, *self._batch_shape, *self._event_shape])

    def _validate_sample(self, value: Any) -> None:
        check(
            isinstance(value, Tensor),
            ValueError,
            "The value argument to log_prob must be a Tensor",
        )
        dims = len(self._event_shape)
        check(
            value.shape[value.ndim - dims :] == self._event_shape and value.ndim >= dims,
            ValueError,
            "The right-most size of value must match event_shape: "
            f"{value.shape} vs {self._event_shape}.",
        )
        wanted = self._batch_shape + self._event_shape
        for ours, theirs in zip(reversed(value.shape), reversed(wanted)):
            check(
                ours == 1 or theirs == 1 or ours == theirs,
                ValueError,
                f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs "
                f"{wanted}.",
            )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation."
            )
            return
        if not bool(support.check(value).all()):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) "
                f"to be within the support ({support!r}) of the distribution {self!r}, but found "
                f"invalid values:\n{value}"
            )

    def _checked(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return value

    def __repr__(self) -> str:
        known = [name for name in self.arg_constraints if name in vars(self)]
        values = [(name, vars(self)[name]) for name in known]
        texts = [f"{n}: {v if v.numel() == 1 else v.size()}" for n, v in values]
        return f"{type(self).__name__}({', '.join(texts)})"
