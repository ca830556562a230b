"""Random programs of views, casts and aliases, with writes into all of them, into arguments and
into state: replays agree with the programs, in what they return and in what they leave behind."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ember as torch
from ember.capture import summing
from ember.capture.compiled import Captured
from ember.nn import functional as F

N = 8

MAKE = [
    lambda a, b, i: a + b,
    lambda a, b, i: a * 2 - b,
    lambda a, b, i: a.t(),
    lambda a, b, i: a.t().contiguous(),
    lambda a, b, i: torch.where(a > b, a, b),
    lambda a, b, i: torch.softmax(a, i % 2),
    lambda a, b, i: a @ b * 0.2,
    lambda a, b, i: F.linear(a, b, b[i % N]) * 0.2,
    lambda a, b, i: a.sum(i % 2, keepdim=True) * 0.2 + b,
    lambda a, b, i: a.amax(i % 2, keepdim=True) - b * 0.1,
    lambda a, b, i: a.flip(i % 2),
    lambda a, b, i: a.roll(1, i % 2),
    lambda a, b, i: a.cumsum(i % 2) * 0.2,
    lambda a, b, i: torch.cat([a[:3], b[3:]]),
    lambda a, b, i: a.diagonal().unsqueeze(i % 2).expand(N, N) * 0.5,
    lambda a, b, i: F.layer_norm(a, (N,)),
    lambda a, b, i: F.gelu(a) + b[i % N],
    lambda a, b, i: (a - b).abs().sqrt(),
    lambda a, b, i: torch.tril(a, i % 3 - 1),
    lambda a, b, i: a.to(torch.bfloat16).float() + b,
    lambda a, b, i: a.half().double().float(),
    lambda a, b, i: a[torch.arange(N).flip(0)],
    lambda a, b, i: a.reshape(-1).view(N, N),
    lambda a, b, i: a.clone(),
    lambda a, b, i: torch.zeros(N, N) + a.mean(),
    lambda a, b, i: a.masked_fill(b > 0.3, 0.1),
    lambda a, b, i: a[:, ::2].repeat(1, 2),
]

WRITE = [
    lambda a, b, i: a[i % N].copy_(b[(i + 1) % N].clone()),
    lambda a, b, i: a[:, i % N :].add_(b[:, i % N :].clone()),
    lambda a, b, i: a.t()[1:3].mul_(b[1:3].clone()),
    lambda a, b, i: a[1:].copy_(a[:-1].clone()),
    lambda a, b, i: a.mul_(0.5).add_(b),
    lambda a, b, i: a.copy_(b),
    lambda a, b, i: a[i % N].fill_(0.3),
    lambda a, b, i: a.zero_(),
    lambda a, b, i: a.diagonal().add_(b[0].clone()),
    lambda a, b, i: a[::2].copy_(b[::2].to(torch.bfloat16)),
    lambda a, b, i: a.clamp_(-0.5, 0.5),
    lambda a, b, i: a.sub_(a.mean()),
]

number = st.integers(0, 9)
made = st.tuples(st.just(MAKE), st.integers(0, len(MAKE) - 1), number, number, number)
written = st.tuples(st.just(WRITE), st.integers(0, len(WRITE) - 1), number, number, number)


def perform(steps, values, outs):
    for kind, which, first, second, i in steps:
        a, b = values[-1 - first % len(values)], values[-1 - second % len(values)]
        found = kind[which](a, b, i)
        if kind is MAKE:
            values.append(found)
    return [values[-1 - out % len(values)].clone() for out in outs]


@settings(max_examples=80)
@given(
    st.lists(st.one_of(made, made, written), min_size=1, max_size=14),
    st.lists(number, min_size=1, max_size=3),
    st.booleans(),
)
def test_programs_and_what_they_leave_behind(steps, outs, has_state):
    holder = SimpleNamespace(state=torch.zeros(N, N))

    def function(x, y):
        return perform(steps, [x, y] + [holder.state] * has_state, outs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summing, "MOST_ROWS_ALONE", 1)  # sums of few rows join formulas too
        compare(function, holder)


def compare(function, holder):
    captured, runs = Captured(function), []
    for run in (function, captured):
        holder.state.fill_(0.25)
        results = []
        for seed in range(3):
            torch.manual_seed(seed)
            x, y = torch.rand(N, N) - 0.5, torch.rand(N, N) - 0.5
            try:
                results += [t.clone() for t in run(x, y)]
            except RuntimeError as error:  # as of writes into what overlaps itself
                results.append(str(error)[:40])
                break
            results += [x, y, holder.state.clone()]
        runs.append(results)
    for exact, found in zip(*runs, strict=True):
        if isinstance(exact, str):
            assert found == exact
        else:
            torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-5, equal_nan=True)
    if not any(isinstance(r, str) for r in runs[0]):
        assert captured.recordings[0].program is not None, captured.report()
