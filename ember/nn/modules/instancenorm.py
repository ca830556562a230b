"""Instance normalization (Ulyanov et al., 2016)."""

from ember.errors import check
from ember.nn import functional as F
from ember.nn.modules.batchnorm import _LazyNormBase, _NormBase, check_input_dim
from ember.source_lines import warn

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


class _InstanceNorm(_NormBase):
    """Each channel of each sample normalized over its own places; the batch dim may be missing."""

    def __init__(
        self,
        num_features,
        eps=1e-5,
        momentum=0.1,
        affine=False,
        track_running_stats=False,
        device=None,
        dtype=None,
        *,
        bias=True,
    ):
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _get_no_batch_dim(self):
        raise NotImplementedError

    def _check_input_dim(self, input):
        check_input_dim(input, self._get_no_batch_dim(), self._get_no_batch_dim() + 1)

    def _apply_instance_norm(self, input):
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, *rest):
        *_, error_msgs = rest
        version = local_metadata.get("version", None)
        # before version 1 running values were saved though nothing read them
        if version is None and not self.track_running_stats:
            names = [n for n in ("running_mean", "running_var") if prefix + n in state_dict]
            if names:
                listed = " and ".join(f'"{prefix + name}"' for name in names)
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {listed} for {type(self).__name__} with "
                    "track_running_stats=False. If state_dict is a checkpoint saved before 0.4.0, "
                    "this may be expected because InstanceNorm does not track running stats by "
                    "default since 0.4.0. Please remove these keys from state_dict. If the running "
                    "stats are actually needed, instead set track_running_stats=True in "
                    f"{type(self).__name__} to enable them."
                )
                for name in names:
                    state_dict.pop(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, *rest)

    def forward(self, input):
        self._check_input_dim(input)
        channel_dim = input.dim() - self._get_no_batch_dim()
        if input.size(channel_dim) != self.num_features:
            check(
                not self.affine,
                ValueError,
                lambda: (
                    f"expected input's size at dim={channel_dim} to match num_features "
                    f"({self.num_features}), but got: {input.size(channel_dim)}."
                ),
            )
            warn(
                f"input's size at dim={channel_dim} does not match num_features. You can silence "
                "this warning by not passing in num_features, which is not used because "
                "affine=False"
            )
        if channel_dim == 0:
            return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)
        return self._apply_instance_norm(input)


class InstanceNorm1d(_InstanceNorm):
    """Instance norm of (N, C, L) or (C, L).

    >>> import ember as torch
    >>> torch.nn.InstanceNorm1d(2)(torch.randn(3, 2, 5)).shape
    torch.Size([3, 2, 5])
    """

    def _get_no_batch_dim(self):
        return 2


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm1d that takes num_features from its first input."""

    cls_to_become = InstanceNorm1d

    def _get_no_batch_dim(self):
        return 2


class InstanceNorm2d(_InstanceNorm):
    """Instance norm of (N, C, H, W) or (C, H, W).

    >>> import ember as torch
    >>> torch.nn.InstanceNorm2d(2)(torch.randn(3, 2, 5, 5)).shape
    torch.Size([3, 2, 5, 5])
    """

    def _get_no_batch_dim(self):
        return 3


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm2d that takes num_features from its first input."""

    cls_to_become = InstanceNorm2d

    def _get_no_batch_dim(self):
        return 3


class InstanceNorm3d(_InstanceNorm):
    """Instance norm of (N, C, D, H, W) or (C, D, H, W).

    >>> import ember as torch
    >>> torch.nn.InstanceNorm3d(2)(torch.randn(3, 2, 5, 5, 5)).shape
    torch.Size([3, 2, 5, 5, 5])
    """

    def _get_no_batch_dim(self):
        return 4


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm3d that takes num_features from its first input."""

    cls_to_become = InstanceNorm3d

    def _get_no_batch_dim(self):
        return 4
