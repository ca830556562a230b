"""Module: registration, naming, modes, copies and repr."""

import copy
import pickle

import pytest

import ember as torch
from ember import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(3, 1, bias=False))
        self.register_buffer("scale", torch.ones(2))
        self.register_buffer("scratch", torch.zeros(1), persistent=False)

    def forward(self, x):
        return self.rest(self.first(x * self.scale))


def test_names_and_order_of_parameters_buffers_and_modules():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["first.weight", "first.bias", "rest.1.weight"]
    assert [n for n, _ in net.named_parameters(prefix="p", recurse=False)] == []
    assert [n for n, _ in net.named_buffers(prefix="p")] == ["p.scale", "p.scratch"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "rest", "rest.0", "rest.1"]
    assert [n for n, _ in net.named_modules(prefix="net")][:2] == ["net", "net.first"]
    assert [n for n, _ in net.named_children()] == ["first", "rest"]
    assert list(net.state_dict()) == ["scale", "first.weight", "first.bias", "rest.1.weight"]
    assert next(iter(net.modules())) is net and len(list(net.parameters())) == 3


def test_shared_members_come_once_unless_asked():
    shared = nn.Linear(1, 1)
    net = nn.Sequential(shared, shared)
    assert [n for n, _ in net.named_parameters()] == ["0.weight", "0.bias"]
    every = [n for n, _ in net.named_parameters(remove_duplicate=False)]
    assert every == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert [n for n, _ in net.named_modules(remove_duplicate=False)] == ["", "0", "1"]
    assert len(list(net.children())) == 1


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "weight",
            torch.zeros(2),
            (
                "cannot assign 'torch.FloatTensor' as parameter 'weight' "
                "(torch.nn.Parameter or None expected)"
            ),
        ),
        (
            "weight",
            nn.Linear(1, 1),
            (
                "cannot assign 'torch.nn.modules.linear.Linear' as parameter 'weight' "
                "(torch.nn.Parameter or None expected)"
            ),
        ),
        (
            "mean",
            "text",
            "cannot assign 'str' as buffer 'mean' (torch.nn.Buffer, torch.Tensor or None expected)",
        ),
        (
            "child",
            torch.zeros(1),
            (
                "cannot assign 'torch.FloatTensor' as child module 'child' "
                "(torch.nn.Module or None expected)"
            ),
        ),
    ],
)
def test_refused_assignments_name_type_and_attribute(name, value, message):
    module = nn.Linear(2, 2)
    module.register_buffer("mean", torch.zeros(1))
    module.add_module("child", nn.ReLU())
    before = dict(module.state_dict())
    with pytest.raises(TypeError) as error:
        setattr(module, name, value)
    assert str(error.value) == message
    assert list(module.state_dict()) == list(before) and isinstance(module.child, nn.ReLU)


@pytest.mark.parametrize(
    ("register", "name", "value", "error", "message"),
    [
        ("register_parameter", 3, None, TypeError, "parameter name should be a string. Got int"),
        ("register_parameter", "a.b", None, KeyError, 'parameter name can\'t contain "."'),
        ("register_parameter", "", None, KeyError, 'parameter name can\'t be empty string ""'),
        ("register_parameter", "forward", None, KeyError, "attribute 'forward' already exists"),
        (
            "register_parameter",
            "q",
            torch.zeros(1),
            TypeError,
            (
                "cannot assign 'torch.FloatTensor' object to parameter 'q' "
                "(torch.nn.Parameter or None required)"
            ),
        ),
        ("register_buffer", "a.b", None, KeyError, 'buffer name can\'t contain "."'),
        (
            "register_buffer",
            "q",
            3,
            TypeError,
            "cannot assign 'int' object to buffer 'q' (torch Tensor or None required)",
        ),
        ("add_module", "a.b", None, KeyError, 'module name can\'t contain ".", got: a.b'),
        (
            "add_module",
            "q",
            torch.zeros(1),
            TypeError,
            "torch.FloatTensor is not a Module subclass",
        ),
    ],
)
def test_refused_registrations(register, name, value, error, message):
    with pytest.raises(error) as caught:
        getattr(nn.Linear(2, 2), register)(name, value)
    assert caught.value.args[0] == message


def test_a_parameter_with_a_history_is_refused():
    parameter = nn.Parameter(torch.zeros(1)).mul(1)
    parameter_like = nn.Parameter(torch.zeros(1))
    with pytest.raises(
        TypeError, match="cannot assign 'torch.FloatTensor' object to parameter 'q'"
    ):
        nn.Module().register_parameter("q", parameter)
    module = nn.Module()
    module.register_parameter("q", parameter_like)
    assert module.q is parameter_like


def test_assignment_moves_a_name_between_kinds():
    module = nn.Module()
    module.x = 3
    module.x = nn.Parameter(torch.zeros(1))
    assert "x" in module._parameters and "x" not in vars(module)
    module.x = None
    assert module._parameters == {"x": None} and module.x is None
    module.y = torch.zeros(1)
    assert "y" in vars(module) and not module._buffers
    module.register_buffer("z", torch.zeros(1), persistent=False)
    module.z = torch.ones(2)
    assert module._buffers["z"].shape == (2,) and "z" not in module.state_dict()
    module.z = nn.ReLU()
    assert "z" in module._modules and not module._buffers and not module._non_persistent_buffers_set
    module.b = nn.Buffer(torch.ones(1), persistent=False)
    assert list(module._buffers) == ["b"] and "b" not in module.state_dict()
    del module.b, module.z, module.x
    assert not module._buffers and not module._modules and not module._parameters
    with pytest.raises(AttributeError, match="'Module' object has no attribute 'b'"):
        del module.b
    with pytest.raises(AttributeError, match="'Module' object has no attribute 'b'"):
        module.b


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (nn.Parameter(torch.zeros(1)), "cannot assign parameters before Module.__init__() call"),
        (nn.ReLU(), "cannot assign module before Module.__init__() call"),
        (nn.Buffer(torch.zeros(1)), "cannot assign buffer before Module.__init__() call"),
    ],
)
def test_assigning_before_init(value, message):
    class Early(nn.Module):
        def __init__(self):
            self.part = value

    with pytest.raises(AttributeError) as error:
        Early()
    assert str(error.value) == message


def test_init_takes_no_arguments_unless_asked():
    with pytest.raises(TypeError, match="takes 1 positional argument but 3 were given"):
        nn.Module(1, 2)
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'a'"):
        nn.Module(a=1)

    class Other:
        def __init__(self, a):
            self.a = a

    class Both(nn.Module, Other):
        call_super_init = True

        def __init__(self, a):
            super().__init__(a=a)

    assert Both(4).a == 4


def test_forward_is_asked_for():
    with pytest.raises(NotImplementedError, match='missing the required "forward" function'):
        nn.Module()(1)


def test_lookup_by_path():
    net = Net()
    assert net.get_submodule("") is net and net.get_submodule("rest.1") is net.rest[1]
    assert net.get_parameter("first.bias") is net.first.bias
    assert net.get_buffer("scale") is net.scale
    for look, path, message in (
        (net.get_submodule, "rest.2", "Sequential has no attribute `2`"),
        (net.get_submodule, "first.weight", "`weight` is not an nn.Module"),
        (net.get_parameter, "scale", "`scale` is not an nn.Parameter"),
        (net.get_buffer, "first.weight", "`weight` is not a buffer"),
    ):
        with pytest.raises(AttributeError) as error:
            look(path)
        assert str(error.value) == message


def test_set_submodule():
    net = Net()
    net.set_submodule("rest.0", nn.Tanh())
    net.set_submodule("extra", nn.Tanh())
    assert isinstance(net.rest[0], nn.Tanh) and isinstance(net.extra, nn.Tanh)
    with pytest.raises(ValueError, match="Cannot set the submodule without a target name!"):
        net.set_submodule("", nn.Tanh())
    with pytest.raises(ValueError, match="`module` is not an nn.Module, found <class 'str'>"):
        net.set_submodule("first", "text")
    with pytest.raises(AttributeError, match="Net has no attribute `new`"):
        net.set_submodule("new", nn.Tanh(), strict=True)
    with pytest.raises(AttributeError, match="`scale` is not an nn.Module"):
        net.set_submodule("scale", nn.Tanh())


def test_train_eval_apply_and_requires_grad():
    net = Net()
    assert net.eval() is net and not any(m.training for m in net.modules())
    assert net.train() is net and all(m.training for m in net.modules())
    with pytest.raises(ValueError, match="training mode is expected to be boolean"):
        net.train(1)
    seen = []
    assert net.apply(lambda m: seen.append(type(m).__name__)) is net
    assert seen == ["Linear", "ReLU", "Linear", "Sequential", "Net"]
    assert net.requires_grad_(False) is net and not any(p.requires_grad for p in net.parameters())


def test_zero_grad():
    net = nn.Linear(2, 1)
    net(torch.ones(1, 2)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert net.weight.grad.tolist() == [[0.0, 0.0]]
    net.zero_grad()
    assert net.weight.grad is None and net.bias.grad is None


def test_repr():
    assert repr(nn.Linear(3, 4)) == "Linear(in_features=3, out_features=4, bias=True)"
    assert repr(nn.Module()) == "Module()"
    assert repr(Net()) == (
        "Net(\n"
        "  (first): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (rest): Sequential(\n"
        "    (0): ReLU()\n"
        "    (1): Linear(in_features=3, out_features=1, bias=False)\n"
        "  )\n"
        ")"
    )
    with_extra = nn.Linear(1, 1)
    with_extra.child = nn.ReLU()
    assert repr(with_extra) == (
        "Linear(\n  in_features=1, out_features=1, bias=True\n  (child): ReLU()\n)"
    )


def test_dir_lists_members_but_no_numbers():
    names = dir(Net())
    assert {"first", "rest", "scale", "forward"} <= set(names)
    assert "0" not in dir(nn.Sequential(nn.ReLU()))


def test_deepcopy_keeps_sharing_and_cuts_memory():
    net = Net()
    net.tied = net.first
    net(torch.ones(1, 2)).sum().backward()
    twin = copy.deepcopy(net)
    assert twin.tied is twin.first and twin.first is not net.first
    assert torch.equal(twin.first.weight, net.first.weight)
    assert twin.first.weight.grad is None and isinstance(twin.first.weight, nn.Parameter)
    with torch.no_grad():
        twin.first.weight.zero_()
    assert net.first.weight.abs().sum().item() > 0


def test_pickle_round_trip():
    net = Net()
    net.first.weight.requires_grad_(False)
    net.first.bias.note = "kept"
    twin = pickle.loads(pickle.dumps(net))
    assert list(twin.state_dict()) == list(net.state_dict())
    assert torch.equal(twin.first.weight, net.first.weight) and twin.scratch.shape == (1,)
    assert not twin.first.weight.requires_grad and twin.first.bias.note == "kept"
    assert repr(twin) == repr(net) and torch.equal(twin(torch.ones(1, 2)), net(torch.ones(1, 2)))


def test_parameter():
    data = torch.ones(2)
    parameter = nn.Parameter(data)
    assert parameter.requires_grad and parameter.is_leaf and parameter.data_ptr() == data.data_ptr()
    assert not data.requires_grad
    assert repr(parameter) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert type(parameter + 1) is torch.Tensor and type(parameter.data) is torch.Tensor
    assert type(nn.Parameter(parameter)) is nn.Parameter and nn.Parameter().shape == (0,)
    with pytest.raises(
        RuntimeError, match="floating point and complex dtype can require gradients"
    ):
        nn.Parameter(torch.zeros(1, dtype=torch.int64))
    assert nn.Parameter(torch.zeros(1, dtype=torch.int64), requires_grad=False).dtype == torch.int64


def test_buffer_is_a_marked_plain_tensor():
    buffer = nn.Buffer(torch.ones(1))
    assert type(buffer) is torch.Tensor and isinstance(buffer, nn.Buffer)
    assert not isinstance(torch.ones(1), nn.Buffer) and not isinstance(buffer, nn.Parameter)
    assert buffer.persistent and not nn.Buffer(torch.ones(1), persistent=False).persistent


def test_parameter_of_a_tensor_subclass_keeps_the_class():
    class Tagged(torch.Tensor):
        pass

    class Marked:
        def __init__(self):
            self.module = nn.Module()

    tagged = torch.ones(2).as_subclass(Tagged)
    parameter = nn.Parameter(tagged)
    assert isinstance(parameter, nn.Parameter)
    holder = Marked()
    holder.module.p = parameter
    assert [n for n, _ in holder.module.named_parameters()] == ["p"]


def test_lazy_linear_takes_its_shape_from_the_first_input():
    layer = nn.LazyLinear(3)
    assert repr(layer) == "LazyLinear(in_features=0, out_features=3, bias=True)"
    assert repr(layer.weight) == "<UninitializedParameter>"
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter"):
        layer.weight.shape
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
        layer.weight + 1
    weight = layer.weight
    assert layer.double().weight.dtype == torch.float64 and layer.float()
    assert layer(torch.ones(2, 5)).shape == (2, 3)
    assert type(layer) is nn.Linear and layer.weight is weight and type(weight) is nn.Parameter
    assert weight.shape == (3, 5) and not layer._forward_pre_hooks


def test_lazy_modules_load_copy_and_pickle():
    layer = nn.LazyLinear(3)
    layer.load_state_dict(nn.Linear(4, 3).state_dict())
    assert layer.weight.shape == (3, 4)
    assert isinstance(copy.deepcopy(nn.LazyLinear(2)).weight, nn.UninitializedParameter)
    assert isinstance(pickle.loads(pickle.dumps(nn.LazyLinear(2))).bias, nn.UninitializedParameter)
    nn.LazyLinear(3).load_state_dict(nn.LazyLinear(3).state_dict())
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized"):
        nn.Linear(2, 3).load_state_dict(nn.LazyLinear(3).state_dict())
    norm = nn.LazyBatchNorm1d()
    assert norm(torch.ones(2, 4)).shape == (2, 4) and type(norm) is nn.BatchNorm1d
    assert norm.running_mean.shape == (4,) and norm.num_features == 4
