"""Rows of a table by index: `embedding`, `embedding_bag`, `one_hot`."""

import math

from ember.core.lifting import is_batched, whole
from ember.core.modes import is_grad_enabled, no_grad
from ember.core.registry import FUNCTION, F, composite
from ember.dtypes import int32, int64
from ember.errors import check
from ember.ops.linear import widened
from ember.ops.pointwise import where_
from ember.ops.sparse_tensors import COO, rebuild, recorded
from ember.source_lines import warn


def _check_indices(name, indices, what="indices"):
    check(
        indices.dtype in (int64, int32),
        RuntimeError,
        lambda: (
            f"Expected tensor for argument #1 '{what}' to have one of the following scalar types: "
            f"Long, Int; but got torch.{indices.dtype.title}Tensor instead (while checking "
            f"arguments for {name})"
        ),
    )


def _rows(weight, indices):
    """weight[indices], IndexError for an index outside the table."""
    try:
        found = weight.index_select(0, indices.reshape(-1))
    except (IndexError, RuntimeError) as error:
        # Looked for only now, so that good indices are not read twice.
        outside = indices[(indices < 0) | (indices >= weight.size(0))]
        if outside.numel() == 0:
            raise
        raise IndexError(
            f"index out of range in self: {int(outside[0])} in a table of {weight.size(0)} rows"
        ) from error
    return found.view(*indices.shape, *weight.shape[1:])


def _without_gradient(found, excluded):
    """`found`, whose rows at `excluded` pass no gradient on."""
    if not (is_grad_enabled() and found.requires_grad):
        return found
    return where_(excluded.unsqueeze(-1), found.detach(), found)


def _scaled_by_frequency(found, indices, rows):
    """`found` with each row's gradient divided by how often its index occurs."""
    if not (is_grad_enabled() and found.requires_grad):
        return found
    flat = indices.reshape(-1).to(int64)
    ones = found.detach().new_ones(flat.shape)
    counts = ones.new_zeros((rows,)).index_add(0, flat, ones)
    scale = (1 / counts.index_select(0, flat)).view(indices.shape).unsqueeze(-1)
    # The difference is zero: it only carries the scaled gradient.
    return found.detach() + (found - found.detach()) * scale


@composite(export=FUNCTION)
def embedding_renorm_(input, indices, max_norm, norm_type):
    """Scale the rows of `input` at `indices`, in place, to a p-norm of at most `max_norm`."""
    with no_grad():
        flat = indices.reshape(-1)
        rows = _rows(input.detach(), flat)
        norms = rows.norm(norm_type, 1, True)
        scale = (max_norm / (norms + 1e-7)).masked_fill(norms <= max_norm, 1)
        input.index_copy_(0, flat.to(int64), rows * scale)
    return input


@composite(export=F)
def embedding(
    input,
    weight,
    padding_idx=None,
    max_norm=None,
    norm_type=2.0,
    scale_grad_by_freq=False,
    sparse=False,
):
    """The rows of `weight` (V, D) at indices of any shape (*): (*, D).

    The row `padding_idx` gets no gradient; rows longer than `max_norm` are scaled in place first;
    `sparse` makes the gradient of the table a sparse tensor of rows. IndexError for an index
    outside the table.

    >>> import ember as torch
    >>> table = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.nn.functional.embedding(torch.tensor([1, 1]), table)
    tensor([[3., 4.],
            [3., 4.]])
    """
    if padding_idx is not None:
        rows = weight.size(0)
        message = "Padding_idx must be within num_embeddings"
        check(-rows <= padding_idx < rows, AssertionError, message)
        padding_idx %= rows
    check(weight.dim() == 2, RuntimeError, "'weight' must be 2-D")
    _check_indices("embedding", input)
    if max_norm is not None:
        embedding_renorm_(weight, input, max_norm, norm_type)
    found = _table_rows(weight, input, padding_idx, scale_grad_by_freq, sparse)
    if padding_idx is None or sparse:  # a sparse gradient leaves out the padding by itself
        return found
    return _without_gradient(found, input == padding_idx)


@composite(export=FUNCTION, name="embedding")
def embedding_of(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    """`torch.nn.functional.embedding` with the table first; a padding_idx of −1 is none."""
    padding = None if padding_idx < 0 else padding_idx
    return embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


def _table_rows(weight, indices, padding_idx, scale_grad_by_freq, sparse):
    """The rows of a table with the gradient that is wanted: dense, scaled, sparse."""
    if sparse:
        return _rows_with_sparse_gradient(weight, indices, padding_idx, scale_grad_by_freq)
    found = _rows(weight, indices)
    if scale_grad_by_freq:
        found = _scaled_by_frequency(found, indices, weight.size(0))
    return found


def _rows_with_sparse_gradient(weight, indices, padding_idx, scale_grad_by_freq):
    """The rows of a table whose gradient is a sparse tensor of rows, one for each index."""

    def gradient(g):
        check(
            not scale_grad_by_freq,
            RuntimeError,
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients: leave "
            "one of them out",
        )
        places, rows = indices.reshape(-1).to(int64), g.reshape(-1, g.size(-1))
        if padding_idx is not None:
            kept = (places != padding_idx).nonzero().squeeze(1)
            places, rows = places.index_select(0, kept), rows.index_select(0, kept)
        return rebuild(COO, [places.unsqueeze(0), rows], weight.shape)

    return recorded("embedding", _rows(weight.detach(), indices), [weight], gradient)


def _check_bag(input, weight, offsets, mode, per_sample_weights):
    check(mode in ("sum", "mean", "max"), ValueError, "mode has to be one of sum, mean or max")
    check(
        per_sample_weights is None or per_sample_weights.size() == input.size(),
        ValueError,
        lambda: (
            f"embedding_bag: If per_sample_weights ({per_sample_weights.size()}) is not None, then "
            f"it must have the same shape as the input ({input.size()})"
        ),
    )
    check(
        input.dim() in (1, 2),
        ValueError,
        lambda: f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}",
    )
    check(
        input.dim() == 1 or offsets is None,
        ValueError,
        lambda: (
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of "
            f"fixed length sequences. However, found offsets of type {type(offsets)}"
        ),
    )
    check(
        input.dim() == 2 or offsets is not None,
        ValueError,
        "offsets has to be a 1D Tensor but got None",
    )
    message = "offsets has to be a 1D Tensor"
    check(offsets is None or offsets.dim() == 1, ValueError, message)
    _check_indices("embedding_bag", input)
    if offsets is not None:
        _check_indices("embedding_bag", offsets, "offsets")
    check(
        per_sample_weights is None or mode == "sum",
        NotImplementedError,
        "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
        f"mode='sum' (got mode='{mode}'). Please open a feature request on GitHub.",
    )
    check(
        per_sample_weights is None or per_sample_weights.dtype is weight.dtype,
        RuntimeError,
        lambda: (
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument "
            f"#1 'per_sample_weights'; but type torch.{weight.dtype.title}Tensor does not equal "
            f"torch.{per_sample_weights.dtype.title}Tensor (while checking arguments for "
            "embedding_bag)"
        ),
    )


def _check_offsets(offsets, length):
    """RuntimeError for offsets that start after 0 or go beyond the end; only on the CPU."""
    if offsets.device.type != "cpu" or offsets.numel() == 0:
        return
    offsets = whole(offsets)
    first, last = int(offsets.select(-1, 0).max()), int(offsets.max())
    check(
        first == 0,
        RuntimeError,
        "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
        f"position 0. However, got {first}",
    )
    check(
        last <= length,
        RuntimeError,
        f"offsets[-1] can not be greater than input's length {length} but got offsets[-1] of "
        f"{last}",
    )


@composite(export=F)
def embedding_bag(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """The sum, mean or max of the rows of `weight` (V, D) at each bag of indices: (B, D).

    Bags are the rows of a 2-D input, or parts of a 1-D one that start at `offsets`
    (`include_last_offset`: the last is the end). Indices equal to `padding_idx` count for nothing;
    an empty bag gives zeros. ValueError or RuntimeError for arguments that do not go together.

    >>> import ember as torch
    >>> table = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.nn.functional.embedding_bag(torch.tensor([[0, 1]]), table)
    tensor([[2., 3.]])
    """
    if weight.dtype in (int64, int32) and input.is_floating_point():
        warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag("
            "weight, input, ...)` is deprecated, and should now be `embedding_bag(input, weight, "
            "...)`."
        )
        weight, input = input, weight
    _check_bag(input, weight, offsets, mode, per_sample_weights)
    rows = weight.size(0)
    if padding_idx is not None:
        check(
            -rows <= padding_idx < rows,
            RuntimeError,
            f"padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, but "
            f"got {padding_idx}",
        )
        padding_idx %= rows
    message = "max mode does not support scaling the gradient by the frequency"
    check(mode != "max" or not scale_grad_by_freq, ValueError, message)
    check(mode != "max" or not sparse, ValueError, "max mode does not support sparse weights")
    if max_norm is not None:
        embedding_renorm_(weight, input, max_norm, norm_type)
    found = _table_rows(weight, input, padding_idx, scale_grad_by_freq, sparse)
    dtype = found.dtype
    found, per_sample_weights = widened(found, per_sample_weights)
    if per_sample_weights is not None:
        found = found * per_sample_weights.unsqueeze(-1)
    kept = None if padding_idx is None else input != padding_idx
    if offsets is None:
        return _fixed_bags(found, kept, mode).to(dtype)
    _check_offsets(offsets, input.size(0))
    bags = offsets.size(0) - 1 if include_last_offset else offsets.size(0)
    bag = _bag_of(offsets[:bags], input.size(0))
    return _offset_bags(found, kept, mode, bag, bags).to(dtype)


def _fixed_bags(found, kept, mode):
    """Bags of one length: (B, L, D) to (B, D)."""
    if found.size(1) == 0:
        return found.sum(1)
    if mode == "max":
        if kept is None:
            return found.max(1)[0]
        top = found.masked_fill(~kept.unsqueeze(-1), float("-inf")).max(1)[0]
        return top.masked_fill(~kept.any(1).unsqueeze(-1), 0)
    if kept is not None:
        found = found.masked_fill(~kept.unsqueeze(-1), 0)
    total = found.sum(1)
    if mode == "sum":
        return total
    if kept is None:
        return total / found.size(1)
    return total / kept.sum(1).clamp(min=1).unsqueeze(-1)


def _bag_of(offsets, length):
    """The bag that each index belongs to."""
    marks = offsets.new_zeros((length + 1,), dtype=int64)
    marks = marks.index_add(0, offsets.to(int64), marks.new_ones(offsets.shape))
    return marks[:length].cumsum(0) - 1


def _offset_bags(found, kept, mode, bag, bags):
    """Bags of any length: (L, D) to (B, D)."""
    zeros = found.new_zeros((bags, found.size(1)))
    if mode == "max":
        places = bag.unsqueeze(-1).expand(found.shape)
        if kept is None:
            return zeros.scatter_reduce(0, places, found, "amax", include_self=False)
        found = found.masked_fill(~kept.unsqueeze(-1), -math.inf)
        top = zeros.scatter_reduce(0, places, found, "amax", include_self=False)
        return top.masked_fill(top.detach() == -math.inf, 0)
    if kept is not None:
        found = found.masked_fill(~kept.unsqueeze(-1), 0)
    total = zeros.index_add(0, bag, found)
    if mode == "sum":
        return total
    ones = found.detach().new_ones(bag.shape) if kept is None else kept.to(found.dtype)
    counts = ones.new_zeros((bags,)).index_add(0, bag, ones)
    return total / counts.clamp(min=1).unsqueeze(-1)


@composite(export=F)
def one_hot(tensor, num_classes=-1):
    """Classes (*) as vectors (*, num_classes) of 0 and one 1; int64.

    By default num_classes is the greatest class plus one. RuntimeError for another dtype, or, on
    the CPU, a class outside.

    >>> import ember as torch
    >>> torch.nn.functional.one_hot(torch.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    message = "one_hot is only applicable to index tensor of type LongTensor."
    check(tensor.dtype is int64, RuntimeError, message)
    if tensor.numel() == 0:
        message = "Can not infer total number of classes from empty tensor."
        check(num_classes > 0, RuntimeError, message)
        return tensor.new_zeros((*tensor.shape, num_classes))
    if tensor.device.type == "cpu" or num_classes == -1:
        check(
            num_classes > 0 or not is_batched(tensor),
            RuntimeError,
            "When vmap-ing torch.nn.functional.one_hot, please provide an explicit positive "
            "num_classes argument.",
        )
        classes = whole(tensor)
        check(int(classes.min()) >= 0, RuntimeError, "Class values must be non-negative.")
        greatest = int(classes.max())
        if num_classes == -1:
            num_classes = greatest + 1
        message = "Class values must be smaller than num_classes."
        check(greatest < num_classes, RuntimeError, message)
    zeros = tensor.new_zeros((*tensor.shape, num_classes))
    return zeros.scatter(-1, tensor.unsqueeze(-1), 1)
