"""Floating-point operations by module: the figures are PyTorch's."""

import pytest

import ember as torch
from ember.utils import flop_counter
from ember.utils.module_tracker import ModuleTracker


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.b(self.a(x))


def counts(counter):
    found = counter.get_flop_counts()
    return {name: sum(by_op.values()) for name, by_op in found.items()}


def test_forward_and_backward_by_module():
    with flop_counter.FlopCounterMode(display=False) as counter:
        Net()(torch.randn(5, 3)).sum().backward()
    assert counts(counter) == {"Global": 480, "Net": 480, "Net.a": 240, "Net.b": 240}
    assert counter.get_total_flops() == 480


def test_convolutions_and_batches():
    with flop_counter.FlopCounterMode(display=False) as counter:
        torch.nn.Conv2d(3, 8, 3)(torch.randn(1, 3, 8, 8)).sum().backward()
    aten = torch.ops.aten
    by_op = counter.get_flop_counts()["Global"]
    assert by_op[aten.convolution] == 15552 and by_op[aten.convolution_backward] == 15552
    with flop_counter.FlopCounterMode(display=False) as counter:
        torch.bmm(torch.randn(2, 3, 4), torch.randn(2, 4, 5))
    assert counter.get_flop_counts()["Global"] == {aten.bmm: 240}


@pytest.mark.parametrize(
    ("kind", "options", "forward", "both"),
    [
        ("GRU", {}, 23040, 58368),
        ("GRU", {"bidirectional": True}, 46080, 116736),
        ("GRU", {"num_layers": 2}, 53760, 147456),
        ("GRU", {"bias": False}, 23040, 58368),
        ("RNN", {}, 7680, 19456),
        ("RNN", {"num_layers": 2}, 17920, 49152),
        ("LSTM", {}, 30720, 77824),  # 4/3 of a GRU's
    ],
)
def test_recurrent_layers(kind, options, forward, both):
    layer, x = getattr(torch.nn, kind)(8, 16, **options), torch.randn(5, 2, 8)
    with flop_counter.FlopCounterMode(display=False) as counter:
        made = layer(x)[0]
    assert counter.get_total_flops() == forward
    with flop_counter.FlopCounterMode(display=False) as counter:
        made.sum().backward()
    assert counter.get_total_flops() == both - forward
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, [5, 3])
    with flop_counter.FlopCounterMode(display=False) as counter:
        torch.nn.GRU(8, 16)(packed)
    assert counter.get_total_flops() == 18432


def test_the_table(capsys):
    with flop_counter.FlopCounterMode(depth=1):
        Net()(torch.randn(5, 3))
    shown = capsys.readouterr().out
    assert "Net" in shown and "Net.a" not in shown and "200.000" in shown and "100.00%" in shown


def test_suffixes():
    assert flop_counter.get_suffix_str(31944) == "K"
    assert flop_counter.convert_num_with_suffix(31944, "K") == "31.944K"
    assert flop_counter.convert_to_percent_str(1, 4) == "25.00%"


def test_modules_are_tracked():
    net, seen = Net(), []
    net.b.register_forward_pre_hook(lambda module, args: seen.append(sorted(tracker.parents)))
    net.b.weight.register_hook(lambda grad: seen.append((tracker.is_bw, sorted(tracker.parents))))
    with ModuleTracker() as tracker:
        net(torch.ones(1, 3)).sum().backward()
        seen.append(sorted(tracker.parents))
    assert seen[0] in (["Global", "Net", "Net.b"], ["Global", "Net"])
    assert seen[1][0] is True and seen[2] == ["Global"]
