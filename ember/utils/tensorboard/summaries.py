"""Values as the messages of event files. `tensorboard` loads at the first use of one of them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from ember.errors import check


def protos() -> Any:
    """The messages of the `tensorboard` package. ImportError, which says what to install."""
    try:
        from tensorboard.compat.proto import summary_pb2
    except ImportError as error:
        raise ImportError(
            "torch.utils.tensorboard writes through the package tensorboard, which is not "
            "installed: pip install tensorboard"
        ) from error
    return summary_pb2


def array_of(values: Any) -> np.ndarray[Any, Any]:
    """A tensor, number or list as an ndarray on the host."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.float().numpy() if values.dtype.itemsize == 2 else values.numpy()
    return np.asarray(values)


def scalar(tag: str, value: Any) -> Any:
    """One number. AssertionError for more."""
    found = array_of(value)
    check(found.size == 1, AssertionError, f"scalar should be 0D, not of shape {found.shape}")
    messages = protos()
    one = messages.Summary.Value(tag=tag, simple_value=float(found.reshape(())))
    return messages.Summary(value=[one])


def histogram(tag: str, values: Any, bins: Any = "tensorflow", max_bins: int | None = None) -> Any:
    """How values are spread. ValueError for none."""
    found = array_of(values).astype(np.float64).reshape(-1)
    check(found.size > 0, ValueError, "The input has no element.")
    counts, limits = np.histogram(found, _edges() if bins == "tensorflow" else bins)
    if max_bins is not None and len(counts) > max_bins:
        step = -(-len(counts) // max_bins)
        counts = np.add.reduceat(counts, np.arange(0, len(counts), step))
        limits = np.append(limits[:-1:step], limits[-1])
    filled = np.flatnonzero(counts)
    first, last = max(int(filled[0]) - 1, 0), int(filled[-1]) + 1
    return histogram_of(
        tag,
        minimum=found.min(),
        maximum=found.max(),
        number=len(found),
        total=found.sum(),
        squares=found @ found,
        limits=limits[first + 1 : last + 1],
        counts=counts[first:last],
    )


def _edges() -> np.ndarray[Any, Any]:
    """The edges that TensorBoard's own histograms have: each is 1.1 times the one before."""
    growing = 1e-12 * 1.1 ** np.arange(774)
    return np.concatenate([-growing[::-1], [0.0], growing])


def histogram_of(
    tag: str,
    *,
    minimum: float,
    maximum: float,
    number: float,
    total: float,
    squares: float,
    limits: Sequence[float] | np.ndarray[Any, Any],
    counts: Sequence[float] | np.ndarray[Any, Any],
) -> Any:
    """A histogram whose figures are known."""
    messages = protos()
    made = messages.HistogramProto(
        min=float(minimum),
        max=float(maximum),
        num=float(number),
        sum=float(total),
        sum_squares=float(squares),
        bucket_limit=[float(limit) for limit in limits],
        bucket=[float(count) for count in counts],
    )
    return messages.Summary(value=[messages.Summary.Value(tag=tag, histo=made)])


def image(tag: str, values: Any, dataformats: str = "CHW", rescale: float = 1) -> Any:
    """A picture, or a batch side by side: floats of 0 to 1, or bytes."""
    found = _as_hwc(array_of(values), dataformats)
    if found.dtype != np.uint8:
        found = (found.astype(np.float32) * 255.0).clip(0, 255).astype(np.uint8)
    return png_of(tag, found, rescale)


def png_of(tag: str, pixels: np.ndarray[Any, Any], rescale: float = 1) -> Any:
    """Bytes (H, W, C) as a picture."""
    messages = protos()
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            "pictures are written through the package pillow, which is not installed: "
            "pip install pillow"
        ) from error
    height, width, channels = pixels.shape
    drawn = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
    if rescale != 1:
        drawn = drawn.resize((int(width * rescale), int(height * rescale)))
    file = io.BytesIO()
    drawn.save(file, format="PNG")
    made = messages.Summary.Image(
        height=drawn.height,
        width=drawn.width,
        colorspace=channels,
        encoded_image_string=file.getvalue(),
    )
    return messages.Summary(value=[messages.Summary.Value(tag=tag, image=made)])


def _as_hwc(values: np.ndarray[Any, Any], dataformats: str) -> np.ndarray[Any, Any]:
    """Pictures as (H, W, C); a batch becomes a grid of 8 columns."""
    names = dataformats.upper()
    check(
        len(set(names)) == len(names) == values.ndim,
        AssertionError,
        f"size of input tensor and input format are different: tensor shape {values.shape}, "
        f"input_format: {dataformats}",
    )
    if names == "HW":
        return values[:, :, None]
    if len(names) == 3:
        return values.transpose([names.index(name) for name in "HWC"])
    batch = values.transpose([names.index(name) for name in "NHWC"])
    count, height, width, channels = batch.shape
    columns = min(count, 8)
    rows = -(-count // columns)
    grid = np.zeros((rows * height, columns * width, channels), batch.dtype)
    for number, picture in enumerate(batch):
        row, column = divmod(number, columns)
        grid[row * height : (row + 1) * height, column * width : (column + 1) * width] = picture
    return grid


def audio(tag: str, values: Any, sample_rate: int = 44100) -> Any:
    """A sound of -1 to 1."""
    import wave

    messages = protos()
    found = np.clip(array_of(values).squeeze(), -1, 1)
    check(found.ndim == 1, AssertionError, "input tensor should be 1 dimensional.")
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(sample_rate)
        writer.writeframes((found * 32767).astype("<i2").tobytes())
    made = messages.Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=len(found),
        encoded_audio_string=file.getvalue(),
        content_type="audio/wav",
    )
    return messages.Summary(value=[messages.Summary.Value(tag=tag, audio=made)])


def for_plugin(tag: str, plugin: str, content: bytes, values: Any) -> Any:
    """A tensor for one of TensorBoard's plugins."""
    messages = protos()
    from tensorboard.util.tensor_util import make_tensor_proto

    data = messages.SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    one = messages.Summary.Value(
        tag=tag,
        metadata=messages.SummaryMetadata(plugin_data=data),
        tensor=make_tensor_proto(values),
    )
    return messages.Summary(value=[one])


def text(tag: str, words: str) -> Any:
    """A text, shown as Markdown."""
    return for_plugin(f"{tag}/text_summary", "text", b"", [words.encode()])


def pr_curve(tag: str, labels: Any, predictions: Any, thresholds: int, weights: Any) -> Any:
    """Precision against recall at thresholds of 0 to 1: for each threshold the true and false
    positives, true and false negatives, precision, recall."""
    protos()
    from tensorboard.plugins.pr_curve import plugin_data_pb2

    wanted, found = array_of(labels).reshape(-1) > 0, array_of(predictions).reshape(-1)
    share = np.ones(len(found)) if weights is None else array_of(weights).reshape(-1)
    thresholds = min(thresholds, 127)
    at = np.floor(found * (thresholds - 1)).astype(np.int64)
    positives, negatives = (
        np.bincount(at, share * kept, minlength=thresholds)[::-1].cumsum()[::-1]
        for kept in (wanted, ~wanted)
    )
    rows = pr_rows(positives, negatives, positives[0] - positives, negatives[0] - negatives)
    content = plugin_data_pb2.PrCurvePluginData(version=0, num_thresholds=thresholds)
    return for_plugin(tag, "pr_curves", content.SerializeToString(), rows)


def pr_rows(true: Any, false: Any, missed: Any, rejected: Any) -> np.ndarray[Any, Any]:
    """The rows of a curve: counts, then precision and recall."""
    precision = true / np.maximum(1e-7, true + false)
    recall = true / np.maximum(1e-7, true + missed)
    return np.stack([true, false, rejected, missed, precision, recall]).astype(np.float32)


def layout(charts: dict[str, Any]) -> Any:
    """Which scalars a page shows together: {category: {title: (kind, tags)}}."""
    protos()
    from tensorboard.plugins.custom_scalar import layout_pb2

    categories = []
    for category, titles in charts.items():
        made = []
        for title, (kind, tags) in titles.items():
            if kind.upper() == "MARGIN":
                check(len(tags) == 3, AssertionError, "a margin chart has 3 tags")
                series = layout_pb2.MarginChartContent.Series(
                    value=tags[0], lower=tags[1], upper=tags[2]
                )
                content = layout_pb2.MarginChartContent(series=[series])
                made.append(layout_pb2.Chart(title=title, margin=content))
            else:
                content = layout_pb2.MultilineChartContent(tag=tags)
                made.append(layout_pb2.Chart(title=title, multiline=content))
        categories.append(layout_pb2.Category(title=category, chart=made))
    page = layout_pb2.Layout(category=categories)
    tag = "custom_scalars__config__"
    return for_plugin(tag, "custom_scalars", b"", page.SerializeToString())


def hparams(values: dict[str, Any], metrics: Sequence[str]) -> list[Any]:
    """The hyperparameters of a run and the metrics that belong to it: three messages. ValueError
    for a value that is no number, text or bool."""
    messages = protos()
    from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2

    start, infos = plugin_data_pb2.SessionStartInfo(), []
    for name, value in values.items():
        value = value.item() if hasattr(value, "item") else value
        kind = {bool: "BOOL", int: "FLOAT64", float: "FLOAT64", str: "STRING"}.get(type(value))
        check(
            kind is not None,
            ValueError,
            "value should be one of int, float, str, bool, or torch.Tensor",
        )
        if kind == "BOOL":
            start.hparams[name].bool_value = value
        elif kind == "STRING":
            start.hparams[name].string_value = value
        else:
            start.hparams[name].number_value = value
        infos.append(api_pb2.HParamInfo(name=name, type=f"DATA_TYPE_{kind}"))
    experiment = api_pb2.Experiment(
        hparam_infos=infos,
        metric_infos=[api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag)) for tag in metrics],
    )
    end = plugin_data_pb2.SessionEndInfo(status=api_pb2.Status.Value("STATUS_SUCCESS"))
    made = []
    for tag, content in (
        ("experiment", plugin_data_pb2.HParamsPluginData(experiment=experiment, version=0)),
        ("session_start_info", plugin_data_pb2.HParamsPluginData(session_start_info=start)),
        ("session_end_info", plugin_data_pb2.HParamsPluginData(session_end_info=end)),
    ):
        data = messages.SummaryMetadata.PluginData(
            plugin_name="hparams", content=content.SerializeToString()
        )
        one = messages.Summary.Value(
            tag=f"_hparams_/{tag}", metadata=messages.SummaryMetadata(plugin_data=data)
        )
        made.append(messages.Summary(value=[one]))
    return made
