"""Files between Ember and a live PyTorch, both ways."""

import io
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path

import pytest

import ember

sys.path.insert(0, str(Path(__file__).parent))
torch = pytest.importorskip("torch")
record_files = pytest.importorskip("record_files")
pytestmark = [
    pytest.mark.oracle,
    pytest.mark.filterwarnings("ignore:TypedStorage is deprecated:UserWarning"),
    pytest.mark.filterwarnings("ignore:Detected pickle protocol:UserWarning"),
]


def saved(framework, obj, **options):
    file = io.BytesIO()
    framework.save(obj, file, **options)
    return io.BytesIO(file.getvalue())


def same(ours, theirs, place=""):
    assert type(ours).__name__ == type(theirs).__name__, place
    if isinstance(theirs, torch.Tensor):
        assert str(ours.dtype) == str(theirs.dtype), place
        assert tuple(ours.shape) == tuple(theirs.shape), place
        assert ours.stride() == theirs.stride(), place
        assert ours.storage_offset() == theirs.storage_offset(), place
        assert ours.requires_grad == theirs.requires_grad, place
        assert getattr(ours, "label", None) == getattr(theirs, "label", None), place
        assert str(ours.device) == str(theirs.device), place
        if theirs.device.type != "meta":
            memory = ours.untyped_storage(), theirs.untyped_storage()
            assert memory[0].tolist() == memory[1].tolist(), place
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs), place
        for key, value in theirs.items():
            same(ours[key], value, f"{place}.{key}")
    elif isinstance(theirs, (list, tuple)):
        for number, pair in enumerate(zip(ours, theirs, strict=True)):
            same(*pair, f"{place}[{number}]")
    else:
        assert str(ours) == str(theirs), place


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize(
    "options", [{}, {"pickle_protocol": 4}, {"_use_new_zipfile_serialization": False}]
)
def test_both_ways(options, weights_only):
    theirs = record_files.contents()
    ours = ember.load(saved(torch, theirs, **options), weights_only=weights_only)
    same(ours, theirs)
    if options.get("pickle_protocol") != 4 or not weights_only:
        back = torch.load(saved(ember, ours, **options), weights_only=weights_only)
        same(ours, back)


def test_both_ways_of_what_only_archives_hold():
    theirs = record_files.newer()
    ours = ember.load(saved(torch, theirs))
    same(ours, theirs)
    same(ours, torch.load(saved(ember, ours)))


def test_the_archives_are_equal_byte_for_byte():
    def content(framework):
        return {
            "w": framework.arange(6.0),
            "b": [framework.ones(3, dtype=framework.int8), framework.zeros(0)],
            "s": OrderedDict(x=framework.arange(3)),
        }

    theirs, ours = saved(torch, content(torch)).getvalue(), saved(ember, content(ember)).getvalue()
    entry = zipfile.ZipFile(io.BytesIO(theirs)).getinfo("archive/.data/serialization_id")
    assert len(ours) == len(theirs)
    assert ours[: entry.header_offset] == theirs[: entry.header_offset]


def test_training_states_and_modules():
    theirs = record_files.trained()
    ours = ember.load(saved(torch, theirs))
    same(ours["optimizer"], theirs["optimizer"])
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters())
    back = torch.load(saved(ember, ours))
    model.load_state_dict(back["model"])
    optimizer.load_state_dict(back["optimizer"])
    assert optimizer.param_groups[0]["lr"] == 0.1

    layers = ember.nn.Sequential(ember.nn.Conv2d(1, 2, 3), ember.nn.BatchNorm2d(2), ember.nn.GELU())
    found = torch.load(saved(ember, layers), weights_only=False)
    assert repr(found) == repr(layers)
    theirs = found(torch.ones(2, 1, 4, 4)).detach().numpy()
    ours = layers(ember.ones(2, 1, 4, 4)).detach().numpy()
    assert abs(ours - theirs).max() < 1e-5


@pytest.mark.parametrize(("source", "target"), [(torch, ember), (ember, torch)])
def test_generators(source, target):
    generator = source.Generator().manual_seed(3)
    source.rand(5, generator=generator)
    found = target.load(saved(source, generator), weights_only=False)
    wanted = source.rand(3, generator=generator).tolist()
    assert target.rand(3, generator=found).tolist() == wanted


def test_mapping_our_files(tmp_path):
    ember.save({"a": ember.arange(5)}, tmp_path / "a.pt")
    found = torch.load(tmp_path / "a.pt", mmap=True)
    assert found["a"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("source", "target"), [(torch, ember), (ember, torch)])
@pytest.mark.parametrize(
    "make",
    [
        lambda nn: nn.LSTM(3, 4),
        lambda nn: nn.GRU(3, 4, 2, bidirectional=True),
        lambda nn: nn.TransformerEncoderLayer(3, 1, 8, activation="gelu", batch_first=True),
        lambda nn: nn.LazyLinear(4),
        lambda nn: nn.Sequential(nn.LazyConv1d(4, 1), nn.ReLU()),
    ],
)
def test_whole_modules(source, target, make):
    source.manual_seed(0)
    module = make(source.nn)
    found = target.load(saved(source, module), weights_only=False)
    assert type(found).__module__.startswith(target.__name__)
    lazy = "Lazy" in repr(module)
    rows = [[[0.1, 0.2, 0.3]] * 3] * 2
    made = [m.eval()(f.tensor(rows)) for m, f in ((module, source), (found, target))]
    if not lazy:
        one, other = (m[0] if isinstance(m, tuple) else m for m in made)
        assert one.detach().flatten().tolist() == pytest.approx(
            other.detach().flatten().tolist(), abs=1e-6
        )
