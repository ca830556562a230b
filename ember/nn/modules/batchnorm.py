"""Batch normalization (Ioffe and Szegedy, 2015)."""

import ember.ops as ops
from ember.dtypes import int64
from ember.errors import check
from ember.nn import functional as F
from ember.nn import init
from ember.nn.modules.lazy import LazyModuleMixin
from ember.nn.modules.module import Module
from ember.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "SyncBatchNorm",
]


def check_input_dim(input, *wanted):
    """ValueError unless the input has one of the numbers of dims."""
    check(
        input.dim() in wanted,
        ValueError,
        lambda: f"expected {' or '.join(f'{n}D' for n in wanted)} input (got {input.dim()}D input)",
    )


class _NormBase(Module):
    """What batch and instance norm share: weight and bias, running mean and variance."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]

    def __init__(
        self,
        num_features,
        eps=1e-5,
        momentum=0.1,
        affine=True,
        track_running_stats=True,
        device=None,
        dtype=None,
        *,
        bias=True,
    ):
        factory = {"device": device, "dtype": dtype}
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats

        def parameter(present):
            return Parameter(ops.empty(num_features, **factory)) if present else None

        self.register_parameter("weight", parameter(affine))
        self.register_parameter("bias", parameter(affine and bias))
        if track_running_stats:
            self.register_buffer("running_mean", ops.zeros(num_features, **factory))
            self.register_buffer("running_var", ops.ones(num_features, **factory))
            count = ops.tensor(0, dtype=int64, device=device)
            self.register_buffer("num_batches_tracked", count)
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self):
        """Set the running mean to 0, the variance to 1 and the count of batches to 0."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self):
        """Reset the running values, the weight to 1 and the bias to 0."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input):
        raise NotImplementedError

    def extra_repr(self):
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
        version = local_metadata.get("version", None)
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            # checkpoints from before the count was kept
            known = self.num_batches_tracked
            usable = known is not None and not known.is_meta
            state_dict[key] = known if usable else ops.tensor(0, dtype=int64)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    """Normalization over all dims but the channels'.

    Training uses the batch's own mean and biased variance and moves the running ones towards it
    by `momentum` (the variance unbiased); momentum=None keeps plain averages. Evaluation uses
    the running ones.
    """

    def forward(self, input):
        self._check_input_dim(input)
        counted = self.training and self.track_running_stats
        if counted and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        use_batch = self.training or (self.running_mean is None and self.running_var is None)
        keep_running = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if keep_running else None,
            self.running_var if keep_running else None,
            self.weight,
            self.bias,
            use_batch,
            self._update_factor(counted),
            self.eps,
        )

    def _update_factor(self, counted):
        """The share of this batch in the running values."""
        if self.momentum is not None:
            return self.momentum
        if counted and self.num_batches_tracked is not None:
            return 1.0 / float(self.num_batches_tracked)
        return 0.0


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """A norm that takes num_features from dim 1 of its first input."""

    def __init__(
        self,
        eps=1e-5,
        momentum=0.1,
        affine=True,
        track_running_stats=True,
        device=None,
        dtype=None,
        *,
        bias=True,
    ):
        factory = {"device": device, "dtype": dtype}
        super().__init__(0, eps, momentum, False, False, **factory)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(**factory)
            if bias:
                self.bias = UninitializedParameter(**factory)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**factory)
            self.running_var = UninitializedBuffer(**factory)
            self.num_batches_tracked = ops.tensor(0, dtype=int64, device=device)

    def reset_parameters(self):
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input):
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        for tensor in (self.weight, self.bias, self.running_mean, self.running_var):
            if tensor is not None:
                tensor.materialize((self.num_features,))
        self.reset_parameters()


class BatchNorm1d(_BatchNorm):
    """Batch norm of (N, C) or (N, C, L).

    >>> import ember as torch
    >>> torch.nn.BatchNorm1d(2)(torch.randn(3, 2)).shape
    torch.Size([3, 2])
    """

    def _check_input_dim(self, input):
        check_input_dim(input, 2, 3)


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A BatchNorm1d that takes num_features from its first input."""

    cls_to_become = BatchNorm1d

    def _check_input_dim(self, input):
        check_input_dim(input, 2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch norm of (N, C, H, W).

    >>> import ember as torch
    >>> torch.nn.BatchNorm2d(2)(torch.randn(3, 2, 4, 4)).shape
    torch.Size([3, 2, 4, 4])
    """

    def _check_input_dim(self, input):
        check_input_dim(input, 4)


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A BatchNorm2d that takes num_features from its first input."""

    cls_to_become = BatchNorm2d

    def _check_input_dim(self, input):
        check_input_dim(input, 4)


class BatchNorm3d(_BatchNorm):
    """Batch norm of (N, C, D, H, W).

    >>> import ember as torch
    >>> torch.nn.BatchNorm3d(2)(torch.randn(3, 2, 4, 4, 4)).shape
    torch.Size([3, 2, 4, 4, 4])
    """

    def _check_input_dim(self, input):
        check_input_dim(input, 5)


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A BatchNorm3d that takes num_features from its first input."""

    cls_to_become = BatchNorm3d

    def _check_input_dim(self, input):
        check_input_dim(input, 5)


class SyncBatchNorm(_BatchNorm):
    """Batch norm of (N, C, *) over the batches of all processes of a group.

    `ember.distributed` puts what computes the shared values into `synchronized`; while it is
    None there is one process, whose batch is the whole.
    """

    synchronized = None

    def __init__(
        self,
        num_features,
        eps=1e-5,
        momentum=0.1,
        affine=True,
        track_running_stats=True,
        process_group=None,
        device=None,
        dtype=None,
        *,
        bias=True,
    ):
        super().__init__(
            num_features,
            eps,
            momentum,
            affine,
            track_running_stats,
            device=device,
            dtype=dtype,
            bias=bias,
        )
        self.process_group = process_group

    def _check_input_dim(self, input):
        check(
            input.dim() >= 2,
            ValueError,
            lambda: f"expected at least 2D input (got {input.dim()}D input)",
        )

    def forward(self, input):
        check(
            input.size(1) != 0 if input.dim() >= 2 else True,
            ValueError,
            "SyncBatchNorm number of input channels should be non-zero",
        )
        if self.training and SyncBatchNorm.synchronized is not None:
            self._check_input_dim(input)
            return SyncBatchNorm.synchronized(self, input)
        return super().forward(input)

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """`module` with every batch norm in it replaced by a SyncBatchNorm of the same tensors."""
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            if module.affine:
                converted.weight = module.weight
                converted.bias = module.bias
            converted.running_mean = module.running_mean
            converted.running_var = module.running_var
            converted.num_batches_tracked = module.num_batches_tracked
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted
