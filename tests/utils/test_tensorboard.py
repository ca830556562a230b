"""SummaryWriter: the messages that it writes, read back by the package tensorboard."""

import sys

import numpy as np
import pytest

import ember as torch
from ember.utils.tensorboard import SummaryWriter


def test_without_the_package_the_error_says_what_to_install(tmp_path, monkeypatch):
    for name in [n for n in sys.modules if n.partition(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ImportError, match="pip install tensorboard"):
        SummaryWriter(tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.fixture
def read(tmp_path):
    pytest.importorskip("tensorboard", reason="the package that it writes through")
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    def values(write, folder="."):
        with SummaryWriter(str(tmp_path)) as writer:
            write(writer)
        found = []
        for path in sorted((tmp_path / folder).glob("events.*")):
            for event in EventFileLoader(str(path)).Load():
                found += [(event.step, value) for value in event.summary.value]
        return found

    return values


def test_scalars(read):
    def write(writer):
        writer.add_scalar("loss", torch.tensor(0.5), 3)
        with pytest.raises(AssertionError, match="scalar should be 0D"):
            writer.add_scalar("loss", torch.ones(2))

    ((step, value),) = read(write)
    assert (step, value.tag, value.tensor.float_val[0]) == (3, "loss", 0.5)


def test_scalars_of_one_chart_have_folders(read):
    found = read(lambda w: w.add_scalars("a/b", {"x": 1.0, "y": 2.0}, 1), "a_b_y")
    assert [(step, value.tag) for step, value in found] == [(1, "a/b")]


def test_histograms(read):
    ((_, value),) = read(lambda w: w.add_histogram("h", torch.tensor([0.0, 1.0, 1.0]), 1))
    assert value.tag == "h" and value.metadata.plugin_data.plugin_name == "histograms"
    from ember.utils.tensorboard import summaries

    made = summaries.histogram("h", np.array([1.0, 2.0, 2.0]), bins=4).value[0].histo
    assert (made.min, made.max, made.num, made.sum, made.sum_squares) == (1, 2, 3, 5, 9)
    assert list(made.bucket) == [1, 0, 0, 2] and list(made.bucket_limit) == [1.25, 1.5, 1.75, 2]
    with pytest.raises(ValueError, match="no element"):
        summaries.histogram("h", [])


def test_pictures(read):
    def write(writer):
        writer.add_image("one", torch.rand(3, 4, 5))
        writer.add_images("grid", torch.rand(9, 1, 2, 2))
        with pytest.raises(AssertionError, match="input format are different"):
            writer.add_image("one", torch.rand(4, 5))

    found = read(write)
    assert [value.tag for _, value in found] == ["one", "grid"]
    sizes = [tuple(map(int, value.tensor.string_val[:2])) for _, value in found]
    assert sizes == [(5, 4), (16, 4)]  # (width, height)


def test_sounds_and_texts(read):
    def write(writer):
        writer.add_audio("sound", torch.zeros(10), sample_rate=8000)
        writer.add_text("words", "**hello**", 2)

    (_, sound), (step, words) = read(write)
    assert sound.tag == "sound" and words.tag == "words/text_summary" and step == 2
    assert words.tensor.string_val[0] == b"**hello**"


def test_curves():
    pytest.importorskip("tensorboard")
    from tensorboard.util.tensor_util import make_ndarray

    from ember.utils.tensorboard import summaries

    labels, predictions = torch.tensor([0, 1, 1, 0]), torch.tensor([0.1, 0.9, 0.4, 0.6])
    made = summaries.pr_curve("pr", labels, predictions, 3, None).value[0]
    true, false, rejected, missed, precision, recall = make_ndarray(made.tensor)
    assert true.tolist() == [2, 1, 0] and false.tolist() == [2, 1, 0]
    assert rejected.tolist() == [0, 1, 2] and missed.tolist() == [0, 1, 2]
    assert precision.tolist() == [0.5, 0.5, 0] and recall.tolist() == [1, 0.5, 0]


def test_hyperparameters(read, tmp_path):
    def write(writer):
        writer.add_hparams({"lr": 0.1, "kind": "sgd", "bias": True}, {"accuracy": 1}, run_name="r")
        with pytest.raises(TypeError, match="should be dictionary"):
            writer.add_hparams([], {})
        with pytest.raises(ValueError, match="value should be one of"):
            writer.add_hparams({"x": []}, {})

    tags = [value.tag for _, value in read(write, "r")]
    names = ["experiment", "session_start_info", "session_end_info"]
    assert tags == [*(f"_hparams_/{name}" for name in names), "accuracy"]


def test_pages_of_charts(read):
    ((_, value),) = read(lambda w: w.add_custom_scalars_multilinechart(["a", "b"], "c", "t"))
    assert value.tag == "custom_scalars__config__"


def test_what_is_not_written_says_so(read):
    def write(writer):
        for name in ("add_graph", "add_embedding", "add_video", "add_mesh"):
            with pytest.raises(NotImplementedError, match=name):
                getattr(writer, name)()

    assert read(write) == []
