"""`kl_divergence`, and the registry of the pairs of types that it has formulas for."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ember.errors import check

Pair = tuple[type, type]
_KL_REGISTRY: dict[Pair, Callable[[Any, Any], Any]] = {}
_KL_MEMOIZE: dict[Pair, Callable[[Any, Any], Any]] = {}  # what was found for two types


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """A decorator: the function gives KL(p‖q) for two types of distributions and their subclasses.

    Of several pairs that match, the one whose types lie nearest wins; register the pair itself
    where two are equally near. TypeError for what are no types.

    >>> from ember.distributions import Normal, kl_divergence, register_kl
    >>> class Mine(Normal):
    ...     pass
    >>> @register_kl(Mine, Mine)
    ... def _(p, q):
    ...     return "mine"
    >>> kl_divergence(Mine(0.0, 1.0), Mine(0.0, 1.0))
    'mine'
    """
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        check(
            isinstance(kind, type),  # any: libraries have distributions of their own
            TypeError,
            f"Expected {name} to be a Distribution subclass but got {kind}",
        )

    def register(function: Any) -> Any:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return register


def _is_nearer(pair: Pair, other: Pair) -> bool:
    """Whether a pair is more special: by its first type, and by its second where that is equal."""
    for kind, theirs in zip(pair, other):
        if kind is not theirs:
            return issubclass(kind, theirs)
    return False


def _nearest(pairs: list[Pair]) -> Pair:
    best = pairs[0]
    for pair in pairs[1:]:
        if _is_nearer(pair, best):
            best = pair
    return best


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The function for two types, or NotImplemented; a warning where two are equally near."""
    pairs = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not pairs:
        return NotImplemented
    by_p = _nearest(pairs)
    by_q = _nearest([(q, p) for p, q in pairs])[::-1]
    if _KL_REGISTRY[by_p] is not _KL_REGISTRY[by_q]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please "
            f"register_kl({by_p[0].__name__}, {by_q[1].__name__})",
            RuntimeWarning,
        )
    return _KL_REGISTRY[by_p]


def kl_divergence(p: Any, q: Any) -> Any:
    """KL(p‖q) = ∫ p(x) log(p(x) / q(x)) dx for each element of the batch.

    NotImplementedError for types without a formula.

    >>> import ember as torch
    >>> from ember.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
    tensor(0.5000)
    """
    types = type(p), type(q)
    function = _KL_MEMOIZE.get(types)
    if function is None:
        function = _KL_MEMOIZE[types] = _dispatch_kl(*types)
    if function is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {types[0].__name__} and q type "
            f"{types[1].__name__}"
        )
    return function(p, q)
