"""checkpoint: the same gradients with fewer values kept, in both forms."""

import gc

import pytest

import ember


@pytest.fixture(params=["ember", pytest.param("torch", marks=pytest.mark.oracle)])
def torch(request):
    pytest.importorskip(f"{request.param}.utils.checkpoint")
    return pytest.importorskip(request.param)


def leaf(torch, *values):
    return torch.tensor(list(values), dtype=torch.float64, requires_grad=True)


@pytest.fixture(params=[True, False], ids=["reentrant", "not reentrant"])
def reentrant(request):
    return request.param


def test_the_same_values_and_gradients(torch, reentrant):
    w = leaf(torch, 2.0, 3.0)
    runs = []

    def part(x, scale):
        runs.append(torch.is_grad_enabled())
        return (x * w).sin() * scale

    x = leaf(torch, 0.5, 1.5)
    y = torch.utils.checkpoint.checkpoint(part, x, 3.0, use_reentrant=reentrant)
    assert len(runs) == 1
    y.sum().backward()
    assert len(runs) == 2 and runs[-1]
    z, v = x.detach().requires_grad_(), w.detach().requires_grad_()
    ((z * v).sin() * 3.0).sum().backward()
    assert x.grad.tolist() == z.grad.tolist() and w.grad.tolist() == v.grad.tolist()


def test_chained(torch, reentrant):
    x = leaf(torch, 0.5, 1.5)
    y = x
    for _ in range(4):
        y = torch.utils.checkpoint.checkpoint(lambda t: t.exp().log1p(), y, use_reentrant=reentrant)
    y.sum().backward()
    z = x.detach().requires_grad_()
    t = z
    for _ in range(4):
        t = t.exp().log1p()
    t.sum().backward()
    assert x.grad.tolist() == z.grad.tolist()


def test_random_numbers_are_drawn_again(torch, reentrant):
    torch.manual_seed(5)
    x = torch.ones(100, requires_grad=True)
    y = torch.utils.checkpoint.checkpoint(
        lambda t: torch.nn.functional.dropout(t) * t, x, use_reentrant=reentrant
    )
    after = torch.rand(1).item()
    y.sum().backward()
    assert (x.grad == 2 * y).all()
    torch.manual_seed(5)
    torch.nn.functional.dropout(torch.ones(100))
    assert torch.rand(1).item() == after


def test_keyword_arguments_and_containers(torch):
    def part(pair, *, extra):
        return {"sum": pair[0] * pair[1] + extra}

    a, b, c = leaf(torch, 2.0), leaf(torch, 3.0), leaf(torch, 5.0)
    found = torch.utils.checkpoint.checkpoint(part, (a, b), extra=c.exp(), use_reentrant=False)
    found["sum"].backward()
    assert a.grad.tolist() == [3] and b.grad.tolist() == [2]
    assert c.grad.item() == pytest.approx(148.4131591025766)


def test_autograd_grad_and_second_derivatives(torch):
    x = leaf(torch, 0.5)
    y = torch.utils.checkpoint.checkpoint(lambda t: t**3, x, use_reentrant=False)
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    assert first.item() == 0.75 and second.item() == 3


def test_nothing_is_kept(torch, reentrant):
    kept = []
    x = leaf(torch, 0.5)

    def note(tensor):
        kept.append(tensor)
        return tensor

    def part(t):
        for _ in range(20):
            t = t.exp().sin()
        return t

    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        torch.utils.checkpoint.checkpoint(part, x, use_reentrant=reentrant)
    assert len(kept) <= 1


def test_an_unlike_second_run(torch):
    runs = []

    def part(t):
        runs.append(1)
        return t.exp() if len(runs) == 1 else t[:1].exp()

    x = leaf(torch, 0.5, 0.25)
    y = torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False)
    with pytest.raises(RuntimeError, match="torch.utils.checkpoint"):
        y.sum().backward()


def test_without_a_choice_of_form(torch):
    x = leaf(torch, 0.5)
    if torch.__name__ == "torch":
        pytest.skip("PyTorch's default is on the way from one form to the other")
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        torch.utils.checkpoint.checkpoint(lambda t: t.exp(), x).backward()


def test_inputs_that_need_no_gradients(torch):
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        torch.utils.checkpoint.checkpoint(torch.exp, torch.ones(1), use_reentrant=True)


def test_without_recording(torch, reentrant):
    x = leaf(torch, 0.0)
    with torch.no_grad():
        y = torch.utils.checkpoint.checkpoint(torch.exp, x, use_reentrant=reentrant)
    assert y.tolist() == [1] and not y.requires_grad


def test_sequences(torch, reentrant):
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(3, 3) for _ in range(5)])
    x = torch.ones(2, 3, requires_grad=True)
    y = torch.utils.checkpoint.checkpoint_sequential(model, 2, x, use_reentrant=reentrant)
    y.sum().backward()
    found = [p.grad.tolist() for p in model.parameters()]
    model.zero_grad()
    model(x.detach()).sum().backward()
    assert found == [p.grad.tolist() for p in model.parameters()]


def test_autocast_is_the_same_in_the_second_run():
    seen = []

    def part(a, b):
        made = a @ b
        seen.append(made.dtype)
        return made.float()

    a = ember.ones(2, 2, requires_grad=True)
    with ember.autocast("cpu", dtype=ember.bfloat16):
        y = ember.utils.checkpoint.checkpoint(part, a, a, use_reentrant=False)
    y.sum().backward()
    assert seen == [ember.bfloat16, ember.bfloat16]


def test_results_that_backward_needs_are_not_kept():
    def part(x):
        return ember.relu(ember.softmax(x, 1)) * 2

    x = ember.ones(1000, 64, device="meta", requires_grad=True)
    with ember.devices.track() as memory:
        y = ember.utils.checkpoint.checkpoint(part, x, use_reentrant=False)
    assert sum(total for total, _, _ in memory.groups()) == y.nbytes
    y.sum().backward()
    assert x.grad.shape == x.shape


def test_nothing_is_left_after_backward():
    x = ember.ones(1000, 64, device="meta", requires_grad=True)
    collects = gc.isenabled()
    gc.disable()
    try:
        with ember.devices.track() as memory:
            y = x * 2
            z = ember.utils.checkpoint.checkpoint(
                lambda t: ember.relu(ember.exp(t)), y, use_reentrant=False
            )
            z.sum().backward()
            del y, z
            left = sum(total for total, _, _ in memory.groups())
    finally:
        if collects:
            gc.enable()
    assert left == x.grad.nbytes
