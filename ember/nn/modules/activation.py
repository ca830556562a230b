"""Activation modules: each holds the numbers of one function of `ember.nn.functional`."""

import ember.ops as ops
from ember.errors import check
from ember.nn import functional as F
from ember.nn import init
from ember.nn.modules.attention import MultiheadAttention
from ember.nn.modules.module import Module
from ember.nn.modules.softmax import LogSoftmax, Softmax, Softmax2d, Softmin
from ember.nn.parameter import Parameter
from ember.source_lines import warn

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


def _inplace_word(module, separator=", "):
    return f"{separator}inplace=True" if module.inplace else ""


class _InPlaceActivation(Module):
    """An activation whose only choice is whether to overwrite its input."""

    __constants__ = ["inplace"]

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def extra_repr(self):
        return _inplace_word(self, "")


class Threshold(Module):
    """x where x > threshold, else value.

    >>> import ember as torch
    >>> torch.nn.Threshold(0.5, 20.0)(torch.tensor([0.0, 1.0]))
    tensor([20.,  1.])
    """

    __constants__ = ["threshold", "value", "inplace"]

    def __init__(self, threshold, value, inplace=False):
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input):
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self):
        return f"threshold={self.threshold}, value={self.value}{_inplace_word(self)}"


class ReLU(_InPlaceActivation):
    """max(0, x).

    >>> import ember as torch
    >>> torch.nn.ReLU()(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input):
        return F.relu(input, inplace=self.inplace)


class RReLU(Module):
    """x where x >= 0, else a x, with a drawn from U(lower, upper), or its mean in evaluation.

    >>> import ember as torch
    >>> torch.nn.RReLU(0.1, 0.3).eval()(torch.tensor([-1.0, 2.0]))
    tensor([-0.2000,  2.0000])
    """

    __constants__ = ["lower", "upper", "inplace"]

    def __init__(self, lower=1.0 / 8, upper=1.0 / 3, inplace=False):
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input):
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self):
        return f"lower={self.lower}, upper={self.upper}{_inplace_word(self)}"


class Hardtanh(Module):
    """x clamped to [min_val, max_val].

    >>> import ember as torch
    >>> torch.nn.Hardtanh(-2, 2)(torch.tensor([-3.0, 1.0]))
    tensor([-2.,  1.])
    """

    __constants__ = ["min_val", "max_val", "inplace"]

    def __init__(self, min_val=-1.0, max_val=1.0, inplace=False, min_value=None, max_value=None):
        super().__init__()
        for old, value in (("min_value", min_value), ("max_value", max_value)):
            if value is not None:
                warn(
                    f"keyword argument `{old}` is deprecated and renamed to `{old[:-2]}`",
                    FutureWarning,
                )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        check(
            self.max_val > self.min_val,
            AssertionError,
            f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})",
        )

    def forward(self, input):
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}{_inplace_word(self)}"


class ReLU6(Hardtanh):
    """x clamped to [0, 6].

    >>> import ember as torch
    >>> torch.nn.ReLU6()(torch.tensor([-1.0, 8.0]))
    tensor([0., 6.])
    """

    def __init__(self, inplace=False):
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self):
        return _inplace_word(self, "")


class Sigmoid(Module):
    """1 / (1 + exp(-x)).

    >>> import ember as torch
    >>> torch.nn.Sigmoid()(torch.zeros(1))
    tensor([0.5000])
    """

    def forward(self, input):
        return ops.sigmoid(input)


class Hardsigmoid(_InPlaceActivation):
    """0 for x <= -3, 1 for x >= 3, x/6 + 1/2 between.

    >>> import ember as torch
    >>> torch.nn.Hardsigmoid()(torch.tensor([-4.0, 0.0, 4.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """

    def forward(self, input):
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self):
        return ""


class Tanh(Module):
    """tanh(x).

    >>> import ember as torch
    >>> torch.nn.Tanh()(torch.zeros(1))
    tensor([0.])
    """

    def forward(self, input):
        return ops.tanh(input)


class SiLU(_InPlaceActivation):
    """x·sigmoid(x), also called swish (Hendrycks and Gimpel, 2016).

    >>> import ember as torch
    >>> torch.nn.SiLU()(torch.tensor([1.0]))
    tensor([0.7311])
    """

    def forward(self, input):
        return F.silu(input, inplace=self.inplace)


class Mish(_InPlaceActivation):
    """x·tanh(softplus(x)) (Misra, 2019).

    >>> import ember as torch
    >>> torch.nn.Mish()(torch.tensor([1.0]))
    tensor([0.8651])
    """

    def forward(self, input):
        return F.mish(input, inplace=self.inplace)


class Hardswish(_InPlaceActivation):
    """x·hardsigmoid(x) (Howard et al., MobileNetV3, 2019).

    >>> import ember as torch
    >>> torch.nn.Hardswish()(torch.tensor([-4.0, 0.0, 4.0])).abs()
    tensor([0., 0., 4.])
    """

    def forward(self, input):
        return F.hardswish(input, self.inplace)

    def extra_repr(self):
        return ""


class ELU(Module):
    """x where x > 0, else alpha (exp(x) - 1) (Clevert et al., 2015).

    >>> import ember as torch
    >>> torch.nn.ELU()(torch.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    __constants__ = ["alpha", "inplace"]

    def __init__(self, alpha=1.0, inplace=False):
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input):
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self):
        return f"alpha={self.alpha}{_inplace_word(self)}"


class CELU(Module):
    """max(0, x) + min(0, alpha (exp(x/alpha) - 1)) (Barron, 2017).

    >>> import ember as torch
    >>> torch.nn.CELU()(torch.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    __constants__ = ["alpha", "inplace"]

    def __init__(self, alpha=1.0, inplace=False):
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input):
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self):
        return f"alpha={self.alpha}{_inplace_word(self)}"


class SELU(_InPlaceActivation):
    """λ·elu(x, α), with λ and α that keep mean 0 and variance 1 (Klambauer et al., 2017).

    >>> import ember as torch
    >>> torch.nn.SELU()(torch.tensor([1.0]))
    tensor([1.0507])
    """

    def forward(self, input):
        return F.selu(input, self.inplace)


class GLU(Module):
    """a·sigmoid(b), a and b the halves of the input along `dim` (Dauphin et al., 2016).

    >>> import ember as torch
    >>> torch.nn.GLU()(torch.tensor([2.0, 0.0]))
    tensor([1.])
    """

    __constants__ = ["dim"]

    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return F.glu(input, self.dim)

    def extra_repr(self):
        return f"dim={self.dim}"


class GELU(Module):
    """x·Φ(x), with Φ the normal CDF; approximate="tanh" takes its tanh fit.

    >>> import ember as torch
    >>> torch.nn.GELU()(torch.tensor([1.0]))
    tensor([0.8413])
    """

    __constants__ = ["approximate"]

    def __init__(self, approximate="none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input):
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self):
        return f"approximate={self.approximate!r}"


class Hardshrink(Module):
    """x where |x| > lambd, else 0.

    >>> import ember as torch
    >>> torch.nn.Hardshrink()(torch.tensor([0.4, 1.0]))
    tensor([0., 1.])
    """

    __constants__ = ["lambd"]

    def __init__(self, lambd=0.5):
        super().__init__()
        self.lambd = lambd

    def forward(self, input):
        return F.hardshrink(input, self.lambd)

    def extra_repr(self):
        return f"{self.lambd}"


class LeakyReLU(Module):
    """x where x >= 0, else negative_slope·x.

    >>> import ember as torch
    >>> torch.nn.LeakyReLU(0.1)(torch.tensor([-1.0, 2.0]))
    tensor([-0.1000,  2.0000])
    """

    __constants__ = ["inplace", "negative_slope"]

    def __init__(self, negative_slope=0.01, inplace=False):
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input):
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self):
        return f"negative_slope={self.negative_slope}{_inplace_word(self)}"


class LogSigmoid(Module):
    """log(1 / (1 + exp(-x))).

    >>> import ember as torch
    >>> torch.nn.LogSigmoid()(torch.zeros(1))
    tensor([-0.6931])
    """

    def forward(self, input):
        return F.logsigmoid(input)


class Softplus(Module):
    """log(1 + exp(beta·x)) / beta, and x itself where beta·x > threshold.

    >>> import ember as torch
    >>> torch.nn.Softplus()(torch.zeros(1))
    tensor([0.6931])
    """

    __constants__ = ["beta", "threshold"]

    def __init__(self, beta=1.0, threshold=20.0):
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input):
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self):
        return f"beta={self.beta}, threshold={self.threshold}"


class Softshrink(Module):
    """x moved towards 0 by lambd, and 0 where |x| <= lambd.

    >>> import ember as torch
    >>> torch.nn.Softshrink()(torch.tensor([0.4, 2.0]))
    tensor([0.0000, 1.5000])
    """

    __constants__ = ["lambd"]

    def __init__(self, lambd=0.5):
        super().__init__()
        self.lambd = lambd

    def forward(self, input):
        return F.softshrink(input, self.lambd)

    def extra_repr(self):
        return str(self.lambd)


class PReLU(Module):
    """x where x >= 0, else weight·x; one learned weight, or one a channel (He et al., 2015).

    >>> import ember as torch
    >>> torch.nn.PReLU()(torch.tensor([-1.0, 2.0])).tolist()
    [-0.25, 2.0]
    """

    __constants__ = ["num_parameters"]

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(ops.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        """Set every weight to `init`."""
        init.constant_(self.weight, self.init)

    def forward(self, input):
        return F.prelu(input, self.weight)

    def extra_repr(self):
        return f"num_parameters={self.num_parameters}"


class Softsign(Module):
    """x / (1 + |x|).

    >>> import ember as torch
    >>> torch.nn.Softsign()(torch.ones(1))
    tensor([0.5000])
    """

    def forward(self, input):
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x).

    >>> import ember as torch
    >>> torch.nn.Tanhshrink()(torch.ones(1))
    tensor([0.2384])
    """

    def forward(self, input):
        return F.tanhshrink(input)
