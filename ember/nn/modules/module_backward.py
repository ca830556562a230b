"""Backward hooks of modules: what passes between a module and the rest of the gradient graph.

Full hooks see the gradients of all inputs and all outputs. So the inputs pass one identity node
on their way in and the outputs another on their way out; the hooks run when backward gets there.
"""

import ember.ops as ops
from ember.core.modes import is_grad_enabled
from ember.core.node import Node, edge_of
from ember.core.tensor import Tensor, connected
from ember.errors import check
from ember.source_lines import warn


class BackwardHookFunctionBackward(Node):
    """The identity on some tensors, which shows their gradients to `on_gradients` in backward."""

    __slots__ = ("on_gradients",)

    def apply(self, grads):
        passed = self.on_gradients(grads, self.out_specs)
        return tuple(
            None if target is None else grad
            for grad, (target, _) in zip(passed, self.edges, strict=True)
        )


def _pass_through(tensors, on_gradients):
    """The same tensors as outputs of one node; those without gradients as they are, detached."""
    edges = tuple(edge_of(tensor) for tensor in tensors)
    node = BackwardHookFunctionBackward(edges, tuple(t._array.spec for t in tensors))
    node.on_gradients = on_gradients
    outputs = []
    for place, (tensor, (target, _)) in enumerate(zip(tensors, edges, strict=True)):
        output = connected(tensor._array, None if target is None else node, place)
        if target is not None:  # a write in place would slip past the node: let it be refused
            output._base = tensor if tensor._base is None else tensor._base
            output._view_history = output._base._history
            output._view_of_many = True
        outputs.append(output)
    return outputs


def _zeros(spec):
    return ops.zeros(spec.shape, dtype=spec.dtype, device=spec.device)


def _scatter(values, places, length):
    """A tuple with `values` at `places` and None elsewhere."""
    spread = [None] * length
    for place, value in zip(places, values, strict=True):
        spread[place] = value
    return tuple(spread)


class BackwardHook:
    """One call of a module with full backward hooks or pre-hooks."""

    def __init__(self, module, user_hooks, user_pre_hooks):
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.grad_outputs = None
        self.input_places = None  # None: no input wants gradients
        self.output_places = ()

    def setup_input_hook(self, args):
        """`args` with its tensors passed through the node that ends this module's backward."""
        self.args_count = len(args)
        places, wrapped = self._through_node(args, self._inputs_arrived)
        self.input_places = places
        return wrapped

    def setup_output_hook(self, result):
        """`result` with its tensors passed through the node that starts this module's backward."""
        results = (result,) if isinstance(result, Tensor) else result
        if not isinstance(results, tuple):
            return result
        self.outputs_count = len(results)
        self.output_places, wrapped = self._through_node(results, self._outputs_arrived)
        return wrapped[0] if isinstance(result, Tensor) else wrapped

    def _through_node(self, values, on_gradients):
        places = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
        if not is_grad_enabled() or not any(edge_of(values[i])[0] for i in places):
            return None, values
        passed = _pass_through([values[i] for i in places], on_gradients)
        replaced = list(values)
        for place, tensor in zip(places, passed, strict=True):
            replaced[place] = tensor
        if hasattr(values, "_fields"):
            return places, type(values)(*replaced)
        return places, type(values)(replaced)

    def _outputs_arrived(self, gradients, specs):
        grad_outputs = _scatter(gradients, self.output_places, self.outputs_count)
        for hook in self.user_pre_hooks:
            grad_outputs = self._replaced(hook(self.module, grad_outputs), grad_outputs, "pre hook")
        self.grad_outputs = grad_outputs
        if self.input_places is None:
            self._no_input_will_arrive()
        gradients = [grad_outputs[place] for place in self.output_places]
        return [_zeros(s) if g is None else g for g, s in zip(gradients, specs, strict=True)]

    def _no_input_will_arrive(self):
        if self.user_hooks:
            warn(
                "Full backward hook is firing when gradients are computed with respect to module "
                "outputs since no inputs require gradients. See "
                "https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
                "#torch.nn.Module.register_full_backward_hook for more details."
            )
        grad_inputs = (None,) * self.args_count
        for hook in self.user_hooks:
            given = hook(self.module, grad_inputs, self.grad_outputs)
            check(
                given is None or all(g is None for g in _as_tuple(given)),
                RuntimeError,
                "Backward hook for Modules where no input requires gradient should always return "
                "None or None for all gradients.",
            )
        self.grad_outputs = None

    def _inputs_arrived(self, gradients, specs):
        gradients = [_zeros(s) if g is None else g for g, s in zip(gradients, specs, strict=True)]
        if self.grad_outputs is None:  # backward began inside the module: the hooks do not apply
            return gradients
        grad_inputs = _scatter(gradients, self.input_places, self.args_count)
        for hook in self.user_hooks:
            given = hook(self.module, grad_inputs, self.grad_outputs)
            grad_inputs = self._replaced(given, grad_inputs, "hook")
        self.grad_outputs = None
        return [grad_inputs[place] for place in self.input_places]

    @staticmethod
    def _replaced(given, before, kind):
        if given is None:
            return before
        given = _as_tuple(given)
        check(
            all(value is None or isinstance(value, Tensor) for value in given),
            TypeError,
            f"Backward {kind} returned what is no tensor, None or tuple of them: {given}",
        )
        role = "grad_output" if kind == "pre hook" else "grad_input"
        check(
            len(given) == len(before),
            RuntimeError,
            f"Backward {kind} returned an invalid number of {role}, got {len(given)}, but "
            f"expected {len(before)}",
        )
        return given


def _as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def register_non_full_hooks(module, hooks, result, args):
    """Hang the deprecated kind of backward hook on the last node of the module's forward."""
    tensor = result
    while not isinstance(tensor, Tensor):
        if isinstance(tensor, dict):
            tensor = next((v for v in tensor.values() if isinstance(v, Tensor)), None)
        elif isinstance(tensor, (list, tuple)) and tensor:
            tensor = tensor[0]
        else:
            return
    if tensor is None or tensor.grad_fn is None:
        return
    for hook in hooks:
        tensor.grad_fn.register_hook(_bound(hook, module))
    _warn_of_non_full_hooks(result, args, tensor.grad_fn)


def _bound(hook, module):
    return lambda grad_inputs, grad_outputs: hook(module, grad_inputs, grad_outputs)


def _warn_of_non_full_hooks(result, inputs, node):
    results = (result,) if isinstance(result, Tensor) else result
    problem = None
    if not isinstance(results, tuple) or not all(isinstance(r, Tensor) for r in results):
        problem = (
            "on a Module that does not return a single Tensor or a tuple of Tensors",
            "some of the grad_output",
        )
    elif not all(isinstance(i, Tensor) for i in inputs):
        problem = (
            "on a Module that does not take as input a single Tensor or a tuple of Tensors",
            "some of the grad_input",
        )
    elif len({r.grad_fn for r in results if r.grad_fn is not None}) > 1:
        problem = ("when outputs are generated by different autograd Nodes", "some grad_output")
    if problem is not None:
        what, missing = problem
        warn(
            f"Using non-full backward hooks {what} is deprecated and will be removed in future "
            f"versions. This hook will be missing {missing}. Please use "
            "register_full_backward_hook to get the documented behavior.",
            FutureWarning,
        )
        return
    own = {i.grad_fn for i in inputs if i.grad_fn is not None}
    if own != {edge[0] for edge in node.next_functions}:
        warn(
            "Using a non-full backward hook when the forward contains multiple autograd Nodes is "
            "deprecated and will be removed in future versions. This hook will be missing some "
            "grad_input. Please use register_full_backward_hook to get the documented behavior.",
            FutureWarning,
        )
