"""Adaptive softmax (Grave et al., 2016): frequent classes in the head, rare ones in the tail."""

from collections import namedtuple

import ember.ops as ops
from ember.errors import check
from ember.nn import functional as F
from ember.nn.modules.container import ModuleList, Sequential
from ember.nn.modules.linear import Linear
from ember.nn.modules.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """log softmax over n_classes sorted by frequency, cut into clusters at `cutoffs`.

    The head scores the first cutoffs[0] classes and one entry a cluster; cluster i projects to
    in_features / div_value**(i + 1). Returns (log-probability of each target, mean loss).

    >>> import ember as torch
    >>> layer = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 10, cutoffs=[4])
    >>> layer(torch.randn(3, 8), torch.tensor([0, 5, 9])).output.shape
    torch.Size([3])
    """

    def __init__(
        self,
        in_features,
        n_classes,
        cutoffs,
        div_value=4.0,
        head_bias=False,
        device=None,
        dtype=None,
    ):
        factory = {"device": device, "dtype": dtype}
        super().__init__()
        cutoffs = list(cutoffs)
        check(len(cutoffs) > 0, ValueError, "cutoffs should be a sequence of length larger than 0")
        check(
            cutoffs == sorted(set(cutoffs))
            and cutoffs[0] > 0
            and cutoffs[-1] <= n_classes - 1
            and all(int(cut) == cut for cut in cutoffs),
            ValueError,
            "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
            "order, where each value is between 1 and n_classes-1",
        )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **factory)
        self.tail = ModuleList()
        for cluster in range(self.n_clusters):
            hidden = int(in_features // div_value ** (cluster + 1))
            size = self.cutoffs[cluster + 1] - self.cutoffs[cluster]
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, **factory),
                    Linear(hidden, size, bias=False, **factory),
                )
            )

    def reset_parameters(self):
        """Draw all weights anew."""
        self.head.reset_parameters()
        for to_hidden, to_classes in self.tail:
            to_hidden.reset_parameters()
            to_classes.reset_parameters()

    def forward(self, input_, target_):
        self._check(input_, target_)
        batched = target_.dim() > 0
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        self._check_classes(target)
        head = F.log_softmax(self.head(input), dim=1)
        column = target
        output = ops.zeros_like(head[:, 0])
        for cluster in range(self.n_clusters):
            low, high = self.cutoffs[cluster], self.cutoffs[cluster + 1]
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            local = F.log_softmax(self.tail[cluster](input.index_select(0, rows)), dim=1)
            inside = (target.index_select(0, rows) - low).unsqueeze(1)
            output = output.index_copy(0, rows, local.gather(1, inside).squeeze(1))
            column = column.index_fill(0, rows, self.shortlist_size + cluster)
        output = output + head.gather(1, column.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _check(self, input, target):
        if target.dim() == 1:
            check(
                input.shape[0] == target.shape[0],
                RuntimeError,
                "Input and target should have the same size in the batch dimension.",
            )
            check(
                input.dim() == 2,
                RuntimeError,
                lambda: (
                    "1D target tensor expects 2D input tensors, but found inputs with size "
                    f"{input.size()}"
                ),
            )
            return
        check(
            target.dim() == 0,
            RuntimeError,
            "0D or 1D target tensor expected, multi-target not supported",
        )
        check(
            input.dim() == 1,
            RuntimeError,
            lambda: (
                "0D target tensor expects 1D input tensors, but found inputs with size "
                f"{input.size()}"
            ),
        )

    def _check_classes(self, target):
        inside = target.numel() == 0 or bool(((target >= 0) & (target < self.n_classes)).all())
        check(
            inside,
            RuntimeError,
            lambda: (
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            ),
        )

    def _get_full_log_prob(self, input, head_output):
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for cluster, project in enumerate(self.tail):
            local = F.log_softmax(project(input), dim=1)
            parts.append(local + head[:, self.shortlist_size + cluster].unsqueeze(1))
        return ops.cat(parts, dim=1)

    def log_prob(self, input):
        """The log-probabilities of all classes: (N, in_features) to (N, n_classes)."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input):
        """The most probable class of each sample; tails are computed only where they may win."""
        head_output = self.head(input)
        output = head_output.argmax(dim=1)
        in_tail = output >= self.shortlist_size
        if bool(in_tail.any()):
            rows = in_tail.nonzero().squeeze(1)
            part = self._get_full_log_prob(input[rows], head_output[rows])
            output = output.index_copy(0, rows, part.argmax(dim=1))
        return output
