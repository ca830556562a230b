"""Operators that programs define: schemas, kernels by device, gradients, shapes."""

import pytest

import ember as torch
from ember import Tensor, library


@library.custom_op("tests_lib::scaled_sin", mutates_args=())
def scaled_sin(x: Tensor, k: int = 2, bias: Tensor | None = None) -> Tensor:
    return torch.sin(x) * k


@scaled_sin.register_fake
def _(x, k=2, bias=None):
    return torch.empty_like(x)


def _save(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.k = inputs[1]


def _gradient(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * x.cos() * ctx.k, None, None


scaled_sin.register_autograd(_gradient, setup_context=_save)


def test_custom_ops_run_and_have_a_place():
    x = torch.tensor([0.5, 1.0])
    assert torch.equal(scaled_sin(x, 3), torch.sin(x) * 3)
    assert torch.equal(torch.ops.tests_lib.scaled_sin(x), torch.sin(x) * 2)
    overload = torch.ops.tests_lib.scaled_sin.default
    assert repr(overload) == "<OpOverload(op='tests_lib.scaled_sin', overload='default')>"
    assert overload.name() == "tests_lib::scaled_sin"
    schema = "tests_lib::scaled_sin(Tensor x, SymInt k=2, Tensor? bias=None) -> Tensor"
    assert str(overload._schema) == schema
    assert repr(scaled_sin) == "<CustomOpDef(tests_lib::scaled_sin)>"


def test_gradients_of_custom_ops():
    x = torch.tensor([0.5, 1.0], requires_grad=True)
    y = scaled_sin(x, k=3)
    assert "GeneratedBackwardFor_tests_lib_scaled_sin_default" in type(y.grad_fn).__name__
    y.sum().backward()
    assert torch.allclose(x.grad, 3 * torch.cos(x.detach()))
    assert torch.autograd.gradcheck(
        scaled_sin, (torch.rand(3, dtype=torch.float64).requires_grad_(),)
    )


def test_shapes_without_elements():
    assert scaled_sin(torch.ones(2, 3, device="meta")).shape == (2, 3)


def test_without_gradient_or_fake():
    @library.custom_op("tests_lib::bare", mutates_args=())
    def bare(x: Tensor) -> Tensor:
        return x * 2

    y = bare(torch.ones(2, requires_grad=True))
    assert y.requires_grad
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="no fake impl registered for <CustomOpDef"):
        bare(torch.ones(2, device="meta"))


@pytest.mark.parametrize("result", [lambda x: x, lambda x: x.view(-1)])
def test_results_must_be_fresh(result):
    @library.custom_op("tests_lib::aliased", mutates_args=())
    def aliased(x: Tensor) -> Tensor:
        return result(x)

    with pytest.raises(RuntimeError, match="may not alias any inputs"):
        aliased(torch.ones(2))


def test_lists_and_several_results_have_gradients():
    @library.custom_op("tests_lib::both", mutates_args=())
    def both(xs: list[Tensor], k: float) -> tuple[Tensor, Tensor]:
        return xs[0] * k, xs[1] * 2

    both.register_autograd(
        lambda ctx, a, b: ([a * ctx.k, b * 2], None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "k", inputs[1]),
    )
    xs = [torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)]
    first, second = both(xs, 3.0)
    (first.sum() + second.sum()).backward()
    assert xs[0].grad.tolist() == [3.0, 3.0] and xs[1].grad.tolist() == [2.0, 2.0]


def test_ops_that_write():
    @library.custom_op("tests_lib::add_one", mutates_args={"x"})
    def add_one(x: Tensor) -> None:
        x.numpy()[...] += 1

    x = torch.zeros(2)
    assert add_one(x) is None
    assert x.tolist() == [1.0, 1.0] and x._version == 1
    with pytest.raises(RuntimeError, match="non-functional operator"):
        add_one.register_autograd(lambda ctx, g: g)


def test_kernels_by_device():
    @library.custom_op("tests_lib::on_gpus", mutates_args=(), device_types="cuda")
    def on_gpus(x: Tensor) -> Tensor:
        return x + 1

    with pytest.raises(NotImplementedError, match="with arguments from the 'CPU' backend"):
        on_gpus(torch.ones(1))
    on_gpus.register_kernel("cpu", lambda x: x + 2)
    assert on_gpus(torch.ones(1)).item() == 3
    with on_gpus.set_kernel_enabled("cpu", False), pytest.raises(NotImplementedError):
        on_gpus(torch.ones(1))


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, r"scaled_sin\(\) is missing value for argument 'x'. Declaration: tests_lib::"),
        (
            (3,),
            {},
            "Expected a value of type 'Tensor' for argument 'x' but instead found type 'int'",
        ),
        ((torch.ones(1),), {"k": "a"}, "Expected a value of type 'int' for argument 'k'"),
        ((torch.ones(1),), {"zz": 1}, "Unknown keyword argument 'zz' for operator"),
        ((torch.ones(1), 1, None, 2), {}, "expected at most 3"),
    ],
)
def test_calls_that_do_not_fit(args, kwargs, message):
    with pytest.raises(RuntimeError, match=message):
        torch.ops.tests_lib.scaled_sin(*args, **kwargs)


CPU = torch.device("cpu")


def untyped(x):
    pass


def no_return(x: Tensor):
    pass


def starred(*x: Tensor) -> Tensor: ...


def a_dict(x: dict) -> Tensor: ...


def several(
    x: Tensor,
    y: str = "a",
    z: torch.dtype = torch.float32,
    d: torch.device = CPU,
    n: list[int] | None = None,
    *,
    f: float = 1.0,
) -> tuple[Tensor, list[Tensor]]: ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (untyped, "Parameter x must have a type annotation"),
        (no_return, "No return type annotation was provided"),
        (starred, "do not support positional-only args, varargs"),
        (a_dict, "Parameter x has unsupported type <class 'dict'>"),
    ],
)
def test_annotations_that_no_schema_says(function, message):
    with pytest.raises(ValueError, match=message):
        library.infer_schema(function, mutates_args=())


def test_schemas_from_annotations():
    assert library.infer_schema(several, mutates_args=("x",)) == (
        '(Tensor(a0!) x, str y="a", ScalarType z=float32, Device d="cpu", SymInt[]? n=None, *, '
        "float f=1.0) -> (Tensor, Tensor[])"
    )
    with pytest.raises(ValueError, match="were not found in the custom op's signature"):
        library.infer_schema(several, mutates_args=("w",))


@pytest.fixture
def low():
    made = library.Library("tests_low", "DEF")
    yield made
    made._destroy()


def test_libraries_define_and_give_kernels(low):
    assert low.define("plus(Tensor x, int n=1) -> Tensor") == "plus"
    with pytest.raises(NotImplementedError, match="Could not run 'tests_low::plus'"):
        torch.ops.tests_low.plus(torch.ones(1))
    low.impl("plus", lambda x, n=1: x + n, "CPU")
    assert torch.ops.tests_low.plus(torch.ones(1), 3).item() == 4
    with pytest.raises(NotImplementedError, match="no fake impl or Meta kernel"):
        torch.ops.tests_low.plus(torch.ones(1, device="meta"))
    with pytest.raises(RuntimeError, match="same name and overload name multiple times"):
        low.define("plus(Tensor x, int n=1) -> Tensor")
    with pytest.raises(TypeError, match="required to be a callable"):
        low.impl("plus", 3, "CPU")
    with pytest.raises(RuntimeError, match="Only a single TORCH_LIBRARY"):
        library.Library("tests_low", "DEF")


def test_composite_kernels_are_differentiated_through(low):
    low.impl("fivefold", lambda x: x * 5)  # before the definition
    low.define("fivefold(Tensor x) -> Tensor")
    x = torch.ones(1, requires_grad=True)
    torch.ops.tests_low.fivefold(x).backward()
    assert x.grad.item() == 5


def test_autograd_kernels_go_first(low):
    low.define("tripled(Tensor x) -> Tensor")
    low.impl("tripled", lambda x: x * 3, "CPU")

    def above(x):
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.tests_low.tripled(x) + 100

    low.impl("tripled", above, "Autograd")
    assert torch.ops.tests_low.tripled(torch.ones(1)).item() == 103


def test_functions_by_name(low):
    library.define("tests_low::twice", "(Tensor x) -> Tensor", lib=low)

    @library.impl("tests_low::twice", "cpu")
    def twice(x):
        return x.detach() * 2

    library.register_fake("tests_low::twice", lambda x: torch.empty_like(x))
    library.register_autograd("tests_low::twice", lambda ctx, g: g * 2)
    x = torch.ones(2, requires_grad=True)
    torch.ops.tests_low.twice(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert torch.ops.tests_low.twice(torch.ones(2, device="meta")).shape == (2,)
    with pytest.raises(RuntimeError, match="operator tests_low::nothing does not exist"):
        library.register_fake("tests_low::nothing", lambda x: x)


@pytest.mark.parametrize(("kind", "ns"), [("DEF", "prim"), ("OTHER", "tests_x")])
def test_libraries_that_cannot_be(kind, ns):
    with pytest.raises(ValueError, match="reserved namespace|Unsupported kind"):
        library.Library(ns, kind)


def test_what_is_left_out_says_so():
    with pytest.raises(NotImplementedError, match="no Triton"):
        library.wrap_triton(None)
    with pytest.raises(NotImplementedError, match="opcheck is not part of Ember"):
        library.opcheck(scaled_sin, ())


def test_overrides_see_custom_ops():
    class Kept(torch.Tensor):
        pass

    assert type(scaled_sin(torch.ones(2).as_subclass(Kept))) is Kept
