"""The older form of spectral normalization, by a hook before forward."""

import ember.ops as ops
from ember.core.modes import no_grad
from ember.errors import check
from ember.nn import functional as F
from ember.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ember.nn.parameter import Parameter

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]

TRANSPOSED = (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)


def as_matrix(weight, dim):
    """The weight with `dim` first and all other dims as one."""
    if dim != 0:
        weight = weight.permute(dim, *[d for d in range(weight.dim()) if d != dim])
    return weight.reshape(weight.size(0), -1)


class SpectralNorm:
    """The hook: before each forward it divides the weight by its largest singular value.

    The value is uᵀ W v, u and v kept as buffers and improved by power iteration in training.
    """

    _version = 1

    def __init__(self, name="weight", n_power_iterations=1, dim=0, eps=1e-12):
        check(
            n_power_iterations > 0,
            ValueError,
            "Expected n_power_iterations to be positive, but got "
            f"n_power_iterations={n_power_iterations}",
        )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight):
        """The weight with `dim` first and all other dims as one."""
        return as_matrix(weight, self.dim)

    def compute_weight(self, module, do_power_iteration):
        """W / (uᵀ W v)."""
        weight = getattr(module, self.name + "_orig")
        u = getattr(module, self.name + "_u")
        v = getattr(module, self.name + "_v")
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.t() @ u, dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix @ v, dim=0, eps=self.eps))
                # the graph of this forward keeps them; the next one writes the buffers again
                u, v = u.clone(), v.clone()
        return weight / (u @ (matrix @ v))

    def remove(self, module):
        """Put the weight back as a parameter."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        delattr(module, self.name)
        delattr(module, self.name + "_u")
        delattr(module, self.name + "_v")
        delattr(module, self.name + "_orig")
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute_weight(module, module.training))

    @staticmethod
    def apply(module, name, n_power_iterations, dim, eps):
        """Hang a new hook on a module."""
        for hook in module._forward_pre_hooks.values():
            check(
                not (isinstance(hook, SpectralNorm) and hook.name == name),
                RuntimeError,
                f"Cannot register two spectral_norm hooks on the same parameter {name}",
            )
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        check(
            weight is not None,
            ValueError,
            f"`SpectralNorm` cannot be applied as parameter `{name}` is None",
        )
        with no_grad():
            rows, cols = hook.reshape_weight_to_matrix(weight).size()
            like = {"dtype": weight.dtype, "device": weight.device}
            u = F.normalize(ops.empty(rows, **like).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(ops.empty(cols, **like).normal_(0, 1), dim=0, eps=eps)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.data)
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(hook)
        return hook


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Keep the largest singular value of a weight at 1 (Miyato et al., 2018).

    `dim` is the dim of the outputs: 1 for transposed convolutions, else 0.

    >>> import ember as torch
    >>> layer = torch.nn.utils.spectral_norm(torch.nn.Linear(20, 40))
    >>> layer.weight_u.size()
    torch.Size([40])
    """
    if dim is None:
        dim = 1 if isinstance(module, TRANSPOSED) else 0
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module, name="weight"):
    """Undo `spectral_norm`. ValueError if it was not applied."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
