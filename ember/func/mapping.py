"""`vmap`: a function of one element made one of a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ember.core.levels import LevelArray
from ember.core.tensor import Tensor
from ember.errors import check
from ember.func.frames import BatchFrame
from ember.ops.joining import cat
from ember.pytree import tree_flatten, tree_unflatten

RANDOMNESS = ("error", "different", "same")


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """`func`, written for one element, for a batch of them: its ops run once for all.

    `in_dims` says which dim of each argument counts the elements (None: the same for all), as an
    int or in the arguments' structure; `out_dims` where that dim goes in each result. `randomness`
    is what random ops do: "error", "different" numbers for each element, or the "same". Keyword
    arguments are the same for all.
    `chunk_size` bounds how many elements run at once.

    >>> import ember as torch
    >>> rows, vector = torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([1., 10.])
    >>> torch.vmap(torch.dot, in_dims=(0, None))(rows, vector)
    tensor([21., 43.])
    """
    if randomness not in RANDOMNESS:
        raise RuntimeError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )
    check(
        chunk_size is None or chunk_size > 0,
        ValueError,
        f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})",
    )

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        for replaced in replaced_steps:
            steps = replaced()
            if steps is not None:
                return _by_steps(steps, func, in_dims, out_dims, randomness, args, kwargs)
        leaves, dims, spec, size = batched_inputs(func, in_dims, args)
        run = functools.partial(func, **kwargs) if kwargs else func
        if chunk_size is None or size <= chunk_size:
            return run_batch(run, leaves, dims, spec, size, randomness, out_dims)
        made = [
            run_batch(run, _chunk(leaves, dims, s, n), dims, spec, n, randomness, out_dims)
            for s, n in _chunks(size, chunk_size)
        ]
        return _joined(made, out_dims)

    return wrapped


# Each gives the three steps of `_functorch.vmap` in place of what follows, or None.
replaced_steps: list[Callable[[], Any]] = []


def _by_steps(
    steps: Any,
    func: Any,
    in_dims: Any,
    out_dims: Any,
    randomness: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """A call of a mapped function by steps of others, in one piece."""
    process, create, unwrap = steps
    size, dims, leaves, spec = process(in_dims, args, func)
    frame = BatchFrame(size, randomness)
    frame.enter()
    try:
        level = frame.depth + 1
        found = func(*create(dims, leaves, level, spec), **kwargs)
        return unwrap(found, out_dims, level, size, func)
    finally:
        frame.leave()


# inputs


def _name(func: Any) -> str:
    func = func.func if isinstance(func, functools.partial) else func
    return str(getattr(func, "__name__", repr(func)))


def batched_inputs(
    func: Any, in_dims: Any, args: tuple[Any, ...]
) -> tuple[list[Any], list[Any], Any, int]:
    """The arguments' leaves, the batch's dim of each, their structure, and the size of the
    batch. ValueError for dims that do not fit."""
    where = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): "
    check(
        isinstance(in_dims, (int, tuple)),
        ValueError,
        where + "expected `in_dims` to be int or a (potentially nested) tuple matching the "
        f"structure of inputs, got: {type(in_dims)}.",
    )
    check(
        args,
        ValueError,
        f"vmap({_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you "
        "are trying to vmap over a function with no inputs. The latter is unsupported.",
    )
    leaves, spec = tree_flatten(args)
    dims: list[Any] = []
    check(
        _broadcast(in_dims, args, dims),
        ValueError,
        lambda: (
            f"{where}in_dims is not compatible with the structure of `inputs`. in_dims has "
            f"structure {described(in_dims)} but inputs has structure {described(args)}."
        ),
    )
    for place, (leaf, dim) in enumerate(zip(leaves, dims, strict=True)):
        dims[place] = _checked(where, leaf, dim)
    sizes = [leaf.shape[d] for leaf, d in zip(leaves, dims, strict=True) if d is not None]
    check(
        sizes,
        ValueError,
        where + "got no tensor to map over: every in_dim is None. Give at least one a dim.",
    )
    check(
        len(set(sizes)) == 1,
        ValueError,
        "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
        f"{sizes} for the mapped dimension",
    )
    return leaves, dims, spec, sizes[0]


def _checked(where: str, leaf: Any, dim: Any) -> int | None:
    """One in_dim, counted from the front."""
    if dim is None:
        return None
    check(
        isinstance(dim, int),
        ValueError,
        f"{where}Got in_dim={dim} for an input but in_dim must be either an integer dimension or "
        "None.",
    )
    check(
        isinstance(leaf, Tensor),
        ValueError,
        f"{where}Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot "
        "vmap over non-Tensor arguments, please use None as the respective in_dim",
    )
    check(
        -leaf.ndim <= dim < leaf.ndim,
        ValueError,
        lambda: (
            f"{where}Got in_dim={dim} for some input, but that input is a Tensor of "
            f"dimensionality {leaf.ndim} so expected in_dim to satisfy -{leaf.ndim} <= in_dim < "
            f"{leaf.ndim}."
        ),
    )
    return dim % leaf.ndim  # type: ignore[no-any-return]


def _broadcast(dims: Any, tree: Any, found: list[Any]) -> bool:
    """Give each leaf of a tree its dim, from a tree of dims that may end earlier; False if they
    have other structures."""
    spec = tree_flatten(tree)[1]
    if spec is None or isinstance(dims, int) or dims is None:
        own = tree_flatten(dims)[1]
        if own is not None:
            return False
        found.extend([dims] * len(tree_flatten(tree)[0]))
        return True
    mine = tree_flatten(dims)[1]
    if mine is None:  # something else: one for all below
        found.extend([dims] * len(tree_flatten(tree)[0]))
        return True
    if mine[0] is not spec[0] or len(dims) != len(tree):
        return False
    if isinstance(tree, dict):
        return list(dims) == list(tree) and all(_broadcast(dims[k], tree[k], found) for k in tree)
    return all(_broadcast(d, t, found) for d, t in zip(dims, tree, strict=True))


def described(tree: Any) -> str:
    """The structure of a tree, as PyTorch writes it."""
    if tree_flatten(tree)[1] is None:
        return "*"
    kind, keys = type(tree).__name__, list(tree) if isinstance(tree, dict) else None
    children = tree.values() if isinstance(tree, dict) else tree
    return f"TreeSpec({kind}, {keys}, [{', '.join(map(described, children))}])"


# running


def run_batch(
    func: Any,
    leaves: list[Any],
    dims: list[Any],
    spec: Any,
    size: int,
    randomness: str,
    out_dims: Any,
) -> Any:
    """Run a function inside a vmap, and take its results out."""
    frame = BatchFrame(size, randomness)
    # moved before the frame is entered, so that this is part of the outside
    moved = [_to_front(v, d) for v, d in zip(leaves, dims, strict=True)]
    frame.enter()
    try:
        wrapped = [v if d is None else frame.wrap(v) for v, d in zip(moved, dims, strict=True)]
        found = func(*tree_unflatten(wrapped, spec))
    finally:
        frame.leave()
    return _results(func, frame, found, out_dims)


def _to_front(value: Any, dim: int | None) -> Any:
    return value if dim is None or dim == 0 else value.movedim(dim, 0)


def _results(func: Any, frame: BatchFrame, found: Any, out_dims: Any) -> Any:
    where = f"vmap({_name(func)}, ...)"
    leaves, spec = tree_flatten(found)
    dims: list[Any] = []
    check(
        all(d is None or isinstance(d, int) for d in tree_flatten(out_dims)[0]),
        ValueError,
        f"vmap({_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a "
        "python collection of ints representing where in the outputs the vmapped dimension "
        "should appear.",
    )
    single = isinstance(out_dims, tuple) and len(out_dims) == 1 and spec is None
    check(
        _broadcast(out_dims[0] if single else out_dims, found, dims),
        ValueError,
        lambda: (
            f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible "
            f"with the structure of `outputs`. out_dims has structure {described(out_dims)} but "
            f"outputs has structure {described(found)}."
        ),
    )
    made = [taken_out(where, func, frame, v, d) for v, d in zip(leaves, dims, strict=True)]
    return tree_unflatten(made, spec)


def taken_out(where: str, func: Any, frame: BatchFrame, value: Any, dim: Any) -> Any:
    """One result outside the vmap, its batch at `dim`."""
    if not isinstance(value, Tensor):
        check(
            dim is None,
            ValueError,
            f"{where}: `{_name(func)}` must only return Tensors, got type {type(value)}. Did you "
            "mean to set out_dims= to None for output?",
        )
        return value
    array: Any = value._array
    own = isinstance(array, LevelArray) and array.frame is frame
    whole: Any = array.value if own else value
    batched = own and array.batched
    if dim is None:
        check(
            not batched,
            ValueError,
            f"{where}: `{_name(func)}` can not return a BatchedTensor when out_dim is None",
        )
        return whole
    if not batched:
        whole = whole.unsqueeze(0).expand((frame.size, *whole.shape))
    ndim = whole.ndim
    check(
        -ndim <= dim < ndim,
        IndexError,
        f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})",
    )
    return whole if dim in (0, -ndim) else whole.movedim(0, dim)


# chunks


def _chunks(size: int, chunk: int) -> list[tuple[int, int]]:
    return [(start, min(chunk, size - start)) for start in range(0, size, chunk)]


def _chunk(leaves: list[Any], dims: list[Any], start: int, count: int) -> list[Any]:
    return [
        v if d is None else v.narrow(d, start, count) for v, d in zip(leaves, dims, strict=True)
    ]


def _joined(made: list[Any], out_dims: Any) -> Any:
    flat = [tree_flatten(m)[0] for m in made]
    dims: list[Any] = []
    _broadcast(out_dims, made[0], dims)
    joined = [
        parts[0] if d is None else cat(list(parts), d)
        for parts, d in zip(zip(*flat, strict=True), dims, strict=True)
    ]
    return tree_unflatten(joined, tree_flatten(made[0])[1])
