"""pickle and copy of tensors: layout, sharing, gradients, attributes, subclasses."""

import copy
import io
import pickle

import pytest

import ember as torch
from ember.serialization.pickling import user_attributes


class Marked(torch.Tensor):
    """A subclass of the user's."""


class Stateful(torch.Tensor):
    def __getstate__(self):
        return {"kept": self.note}

    def __setstate__(self, state):
        self.note = state["kept"] + "!"


def marked(cls=Marked):
    made = object.__new__(cls)
    made._array = torch.arange(2.0)._array
    made.note = "mine"
    return made


def test_what_a_tensor_notes_of_itself_is_no_attribute_of_the_users():
    leaf = torch.ones(3, requires_grad=True)
    leaf.register_post_accumulate_grad_hook(lambda tensor: None)
    leaf.register_hook(lambda grad: grad)
    result = (leaf * 2)[1:]
    result.retain_grad()
    result.sum().backward()
    written = torch.zeros(3)
    written[1:].add_(1)
    with torch.inference_mode():
        frozen = torch.ones(2)
    tensors = (leaf, result, leaf.grad, leaf.detach(), leaf.data, written, written[1:], frozen)
    for tensor in tensors:
        assert user_attributes(tensor) == {}
    parameter = torch.nn.Parameter(torch.ones(2))
    (parameter * parameter).sum().backward()
    assert user_attributes(parameter) == {}


PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pickle_keeps_values_layout_and_sharing(protocol):
    base = torch.arange(12.0).view(3, 4)
    before = [base, base[1:, ::2], torch.tensor([True]), torch.ones(2, dtype=torch.bfloat16)]
    after = pickle.loads(pickle.dumps(before, protocol=protocol))
    for old, new in zip(before, after, strict=True):
        assert torch.equal(old, new) and old.stride() == new.stride()
        assert old.dtype is new.dtype and old.storage_offset() == new.storage_offset()
    after[0][1, 0] = 99
    assert after[1][0, 0] == 99 and base[1, 0] == 4


def test_buffers_travel_out_of_band():
    base = torch.arange(1000)
    buffers = []
    content = pickle.dumps([base, base[5:]], protocol=5, buffer_callback=buffers.append)
    assert len(buffers) == 1 and len(content) < 1000
    whole, part = pickle.loads(content, buffers=buffers)
    assert whole.data_ptr() == base.data_ptr() and part.data_ptr() == base[5:].data_ptr()
    read_only = [bytes(buffer) for buffer in buffers]
    whole, _ = pickle.loads(content, buffers=read_only)
    whole[0] = 3
    assert whole[0] == 3 and base[0] == 0


def test_a_pickle_keeps_requires_grad_and_drops_hooks():
    leaf = torch.ones(2, requires_grad=True)
    (leaf * leaf).sum().backward()
    leaf.register_hook(lambda grad: grad)
    found = pickle.loads(pickle.dumps(leaf))
    assert found.requires_grad and found.is_leaf and found.grad is None
    assert not pickle.loads(pickle.dumps(leaf.detach())).requires_grad
    assert pickle.loads(pickle.dumps(leaf * 2)).tolist() == [2, 2]


def test_attributes_and_subclasses():
    tensor = torch.ones(2)
    tensor.note = [1]
    found = pickle.loads(pickle.dumps(tensor))
    assert type(found) is torch.Tensor and found.note == [1] and found.tolist() == [1, 1]
    found = pickle.loads(pickle.dumps(marked()))
    assert type(found) is Marked and found.note == "mine" and found.tolist() == [0, 1]
    found = pickle.loads(pickle.dumps(marked(Stateful)))
    assert type(found) is Stateful and found.note == "mine!"


def test_saving_attributes_and_subclasses():
    file = io.BytesIO()
    torch.save([marked(), marked(Stateful)], file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match=f"{__name__}.Marked"):
        torch.load(file)
    for options in ({"weights_only": False}, {}):
        file.seek(0)
        with torch.serialization.safe_globals([Marked, Stateful]):
            first, second = torch.load(file, **options)
        assert type(first) is Marked and first.note == "mine" and first.tolist() == [0, 1]
        assert type(second) is Stateful and second.note == "mine!"


def test_parameters_modules_and_meta():
    parameter = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    parameter.note = "mine"
    found = pickle.loads(pickle.dumps(parameter))
    assert type(found) is torch.nn.Parameter and not found.requires_grad and found.note == "mine"
    module = torch.nn.Linear(2, 2)
    found = pickle.loads(pickle.dumps(module))
    assert torch.equal(found.weight, module.weight) and found.weight is not module.weight
    found = pickle.loads(pickle.dumps(torch.ones(2, 3, device="meta").t()))
    assert found.device.type == "meta" and found.stride() == (1, 3)


def test_deepcopy_keeps_sharing_gradients_and_attributes():
    base = torch.arange(4.0)
    first, view = copy.deepcopy([base, base[1:3]])
    first[1] = 9
    assert view.tolist() == [9, 2] and view.storage_offset() == 1 and base[1] == 1
    leaf = torch.ones(2, requires_grad=True)
    leaf.grad = torch.full((2,), 3.0)
    leaf.note = [1]
    found = copy.deepcopy({"a": leaf, "b": leaf})
    assert found["a"] is found["b"] and found["a"] is not leaf
    assert found["a"].requires_grad and found["a"].grad.tolist() == [3, 3]
    assert found["a"].grad is not leaf.grad
    assert found["a"].note == [1] and found["a"].note is not leaf.note
    assert type(copy.deepcopy(marked())) is Marked


def test_deepcopy_is_for_leaves():
    leaf = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(leaf * 2)
    assert copy.deepcopy((leaf * 2).detach()).tolist() == [2, 2]


def test_deepcopy_cuts_the_tie_to_a_parameter():
    base = torch.arange(2.0)
    tensor, parameter = copy.deepcopy([base, torch.nn.Parameter(base)])
    tensor[0] = 9
    assert parameter.tolist() == [0, 1]


def test_a_shallow_copy_shares_memory():
    leaf = torch.ones(2, requires_grad=True)
    leaf.note = [1]
    found = copy.copy(leaf)
    assert found is not leaf and found.requires_grad and found.note is leaf.note
    assert found.data_ptr() == leaf.data_ptr()


def test_generators():
    generator = torch.Generator().manual_seed(5)
    torch.rand(3, generator=generator)
    for found in (pickle.loads(pickle.dumps(generator)), copy.deepcopy(generator)):
        assert found.initial_seed() == 5
        ahead = torch.Generator().manual_seed(5)
        torch.rand(3, generator=ahead)
        assert torch.rand(2, generator=found).tolist() == torch.rand(2, generator=ahead).tolist()
