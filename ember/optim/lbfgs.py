"""L-BFGS (Nocedal, 1980), with an optional strong-Wolfe line search (Nocedal and Wright, 2006,
ch. 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ember.ops as ops
from ember.core.modes import enable_grad, no_grad
from ember.core.tensor import Tensor
from ember.errors import check
from ember.optim.arguments import check_learning_rate
from ember.optim.line_search import strong_wolfe
from ember.optim.optimizer import Optimizer, ParamsT, _get_value

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """Limited-memory BFGS: steps along -H·g, with H built from the last `history_size` changes of p
    and g.

    `step` needs a closure that clears the gradients, evaluates the loss, calls backward and returns
    it; it is called up to `max_eval` times (default 1.25·max_iter) in up to `max_iter` iterations.
    An iteration ends the step when the greatest |g| is at most `tolerance_grad` or the change is at
    most `tolerance_change`. `line_search_fn` is None (steps of lr) or "strong_wolfe". One parameter
    group; ValueError for more.

    >>> import ember as torch
    >>> weight = torch.nn.Parameter(torch.tensor([3.0]))
    >>> optimizer = torch.optim.LBFGS([weight], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((weight - 1) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item()
    4.0
    >>> round(weight.item(), 4)
    1.0
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_learning_rate(lr)
        options = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, options)
        check(
            len(self.param_groups) == 1,
            ValueError,
            "LBFGS doesn't support per-parameter options (parameter groups)",
        )
        self._params = self.param_groups[0]["params"]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._params = self.param_groups[0]["params"]

    # ------------------------------------------------------------------ parameters as one vector

    def _gather_flat_grad(self) -> Tensor:
        parts = []
        for param in self._params:
            grad = ops.zeros_like(param) if param.grad is None else param.grad
            parts.append((ops.view_as_real(grad) if grad.is_complex() else grad).reshape(-1))
        return ops.cat(parts, 0)

    def _add_grad(self, step_size: float | Tensor, update: Tensor) -> None:
        """p ← p + step_size·update, cut into the parameters' shapes."""
        offset = 0
        for param in self._params:
            target = ops.view_as_real(param) if param.is_complex() else param
            count = target.numel()
            target.add_(
                update[offset : offset + count].view_as(target), alpha=_get_value(step_size)
            )
            offset += count

    def _clone_param(self) -> list[Tensor]:
        return [param.clone() for param in self._params]

    def _set_param(self, values: list[Tensor]) -> None:
        for param, value in zip(self._params, values, strict=True):
            param.copy_(value)

    def _directional_evaluate(
        self, closure: Callable[[], Any], start: list[Tensor], step_size: float, direction: Tensor
    ) -> tuple[float, Tensor]:
        """Loss and gradient at start + step_size·direction; the parameters are as before
        afterwards."""
        self._add_grad(step_size, direction)
        loss = float(closure())
        grad = self._gather_flat_grad()
        self._set_param(start)
        return loss, grad

    # ------------------------------------------------------------------ the step

    @no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:
        """Minimise for up to `max_iter` iterations; returns what the first call of `closure`
        returned."""
        check(len(self.param_groups) == 1, RuntimeError, "LBFGS has exactly one parameter group")
        closure = enable_grad()(closure)
        group, state = self.param_groups[0], self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        state["func_evals"] += 1
        grad = self._gather_flat_grad()
        if grad.abs().max() <= group["tolerance_grad"]:
            return first_loss
        _Iterations(self, group, state, closure).run(float(first_loss), grad)
        return first_loss


# What an optimizer keeps from one step to the next, in the order of PyTorch's checkpoints
_KEPT = ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss")


class _Iterations:
    """The iterations of one step. Attributes have the names of the state that they come from."""

    def __init__(
        self,
        optimizer: LBFGS,
        group: dict[str, Any],
        state: dict[str, Any],
        closure: Callable[[], Any],
    ):
        self.optimizer, self.group, self.state, self.closure = optimizer, group, state, closure
        self.d: Any  # the direction
        self.t: Any  # the step along it
        for name in _KEPT:
            setattr(self, name, state.get(name))
        self.evaluations = 1

    def run(self, loss: float, grad: Tensor) -> None:
        """Iterate from the present parameters until done, and save the state."""
        group, state = self.group, self.state
        change, lr = group["tolerance_change"], group["lr"]
        for count in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            self._choose_direction(grad)
            self.prev_flat_grad = _copied(self.prev_flat_grad, grad)
            self.prev_loss = previous_loss = loss
            first = state["n_iter"] == 1
            self.t = min(1.0, 1.0 / grad.abs().sum()) * lr if first else lr
            slope = grad.dot(self.d)
            if slope > -change:
                break
            loss, grad, used, flat = self._move(loss, grad, slope, count == group["max_iter"])
            self.evaluations += used
            state["func_evals"] += used
            if count == group["max_iter"] or self.evaluations >= group["max_eval"] or flat:
                break
            if (self.d * self.t).abs().max() <= change or abs(loss - previous_loss) < change:
                break
        state.update((name, getattr(self, name)) for name in _KEPT)

    def _choose_direction(self, grad: Tensor) -> None:
        if self.state["n_iter"] == 1:
            self.d = grad.neg()
            self.old_dirs, self.old_stps, self.ro, self.H_diag = [], [], [], 1
            return
        change = grad.sub(self.prev_flat_grad)
        moved = self.d.mul(self.t)
        curvature = change.dot(moved)
        if curvature > 1e-10:  # else the update would not keep H positive definite
            if len(self.old_dirs) == self.group["history_size"]:
                for kept in (self.old_dirs, self.old_stps, self.ro):
                    kept.pop(0)
            self.old_dirs.append(change)
            self.old_stps.append(moved)
            self.ro.append(1.0 / curvature)
            self.H_diag = curvature / change.dot(change)
        self.d = self._two_loop(grad)

    def _two_loop(self, grad: Tensor) -> Tensor:
        """-H·grad by the two-loop recursion over the history."""
        if self.state.get("al") is None:
            self.state["al"] = [None] * self.group["history_size"]
        weights, count = self.state["al"], len(self.old_dirs)
        q = grad.neg()
        for i in reversed(range(count)):
            weights[i] = self.old_stps[i].dot(q) * self.ro[i]
            q.add_(self.old_dirs[i], alpha=-_get_value(weights[i]))
        direction = q.mul(self.H_diag)
        for i in range(count):
            weight = self.old_dirs[i].dot(direction) * self.ro[i]
            direction.add_(self.old_stps[i], alpha=_get_value(weights[i] - weight))
        return direction

    def _move(
        self, loss: float, grad: Tensor, slope: Tensor, last: bool
    ) -> tuple[float, Tensor, int, bool]:
        """Step along the direction: (loss, gradient, evaluations used, whether the gradient has
        vanished)."""
        optimizer, group = self.optimizer, self.group
        name = group["line_search_fn"]
        if name is not None:
            check(name == "strong_wolfe", RuntimeError, "only 'strong_wolfe' is supported")
            start = optimizer._clone_param()

            def evaluate(step_size: float) -> tuple[float, Tensor]:
                return optimizer._directional_evaluate(self.closure, start, step_size, self.d)

            loss, grad, self.t, used = strong_wolfe(evaluate, self.t, self.d, loss, grad, slope)
            optimizer._add_grad(self.t, self.d)
        else:
            used = 0
            optimizer._add_grad(self.t, self.d)
            if last:  # nobody would read what another evaluation says
                return loss, grad, used, False
            loss = float(self.closure())
            grad = optimizer._gather_flat_grad()
            used = 1
        return loss, grad, used, bool(grad.abs().max() <= group["tolerance_grad"])


def _copied(target: Tensor | None, source: Tensor) -> Tensor:
    return source.clone() if target is None else target.copy_(source)
