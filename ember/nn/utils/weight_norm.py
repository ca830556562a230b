"""The older form of weight normalization, by a hook before forward."""

from ember.errors import check
from ember.nn.parameter import Parameter
from ember.nn.utils.norm_of_slices import norm_except_dim
from ember.source_lines import warn

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


class WeightNorm:
    """The hook: before each forward it makes the weight from `name_g` and `name_v`."""

    def __init__(self, name, dim):
        self.name = name
        self.dim = dim

    def compute_weight(self, module):
        """g · v / ‖v‖."""
        magnitude = getattr(module, self.name + "_g")
        direction = getattr(module, self.name + "_v")
        return direction * (magnitude / norm_except_dim(direction, self.dim))

    def remove(self, module):
        """Put the weight back as a parameter."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module, name="weight", dim=0):
    """Replace a weight by magnitude `name_g` and direction `name_v` (Salimans and Kingma, 2016).

    Deprecated: `torch.nn.utils.parametrizations.weight_norm` is the newer form. RuntimeError if
    the weight is normalized already.
    """
    warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of "
        "`torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
    )
    for hook in module._forward_pre_hooks.values():
        check(
            not (isinstance(hook, WeightNorm) and hook.name == name),
            RuntimeError,
            f"Cannot register two weight_norm hooks on the same parameter {name}",
        )
    hook = WeightNorm(name, dim)
    weight = getattr(module, name)
    del module._parameters[name]
    module.register_parameter(name + "_g", Parameter(norm_except_dim(weight, dim).data))
    module.register_parameter(name + "_v", Parameter(weight.data))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module, name="weight"):
    """Undo `weight_norm`. ValueError if it was not applied."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
