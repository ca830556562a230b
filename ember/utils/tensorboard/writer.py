"""`SummaryWriter`: numbers, pictures and texts of a run, written for TensorBoard."""

from __future__ import annotations

import os
import time
from typing import Any

from ember.errors import check
from ember.utils.tensorboard import summaries

__all__ = ["FileWriter", "SummaryWriter"]
NOT_WRITTEN = "SummaryWriter.{} is not there: {}"


class FileWriter:
    """One file of events in a folder, written in the background.

    ImportError, which says what to install, without the package `tensorboard`.
    """

    def __init__(
        self, log_dir: Any, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = ""
    ):
        summaries.protos()
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self.log_dir = str(log_dir)
        self.event_writer = EventFileWriter(self.log_dir, max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Write an event at a step and a time (now)."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(
        self, summary: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Write a summary."""
        from tensorboard.compat.proto.event_pb2 import Event

        self.add_event(Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Bring what is waiting to the disk."""
        self.event_writer.flush()

    def close(self) -> None:
        """Flush, and end the file."""
        self.event_writer.close()


class SummaryWriter:
    """Writes to `log_dir`, by default runs/DATE_HOST with `comment` behind it, for TensorBoard.

    ImportError, which says what to install, without the package `tensorboard`.
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: Any = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ):
        if not log_dir:
            stamp = time.strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{stamp}_{os.uname().nodename}{comment}")
        self.log_dir, self.purge_step = log_dir, purge_step
        self.max_queue, self.flush_secs = max_queue, flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = {}
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        if self.file_writer is None:
            self.file_writer = self._new_writer(self.log_dir)
            if self.purge_step is not None:
                self._purge()
        return self.file_writer

    def _new_writer(self, folder: Any) -> FileWriter:
        if self.all_writers is None:
            self.all_writers = {}
        found = FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)
        self.all_writers[found.get_logdir()] = found
        return found

    def _purge(self) -> None:
        """Let TensorBoard forget what a run that crashed wrote after `purge_step`."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        assert self.file_writer is not None
        self.file_writer.add_event(Event(file_version="brain.Event:2"), self.purge_step)
        start = SessionLog(status=SessionLog.START)
        self.file_writer.add_event(Event(session_log=start), self.purge_step)
        self.purge_step = None

    def get_logdir(self) -> str:
        """The folder that is written to."""
        return str(self.log_dir)

    def _add(self, summary: Any, global_step: Any, walltime: float | None) -> None:
        self._get_file_writer().add_summary(summary, global_step, walltime)

    # values

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Write a number."""
        self._add(summaries.scalar(tag, scalar_value), global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write numbers that one chart shows, each to a folder of its own."""
        self._get_file_writer()
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.get_logdir(), main_tag.replace("/", "_") + "_" + tag)
            writer = (self.all_writers or {}).get(folder) or self._new_writer(folder)
            writer.add_summary(summaries.scalar(main_tag, value), global_step, walltime)

    def add_tensor(
        self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Write a tensor."""
        made = summaries.for_plugin(tag, "tensor", b"", summaries.array_of(tensor))
        self._add(made, global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Write how values are spread."""
        self._add(summaries.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: Any,
        max: Any,
        num: Any,
        sum: Any,
        sum_squares: Any,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write a histogram whose figures are known. ValueError unless each bucket has a limit."""
        check(
            len(bucket_limits) == len(bucket_counts),
            ValueError,
            "len(bucket_limits) != len(bucket_counts), see the document.",
        )
        made = summaries.histogram_of(
            tag,
            minimum=min,
            maximum=max,
            number=num,
            total=sum,
            squares=sum_squares,
            limits=bucket_limits,
            counts=bucket_counts,
        )
        self._add(made, global_step, walltime)

    # pictures, sounds, texts

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Write a picture: floats of 0 to 1, or bytes."""
        self._add(summaries.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Write a batch of pictures as a grid."""
        self._add(summaries.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: Any = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Write a figure of matplotlib, or a list of figures of one size, and close them."""
        import numpy as np

        drawn = []
        for one in figure if isinstance(figure, list) else [figure]:
            one.canvas.draw()
            drawn.append(np.asarray(one.canvas.buffer_rgba())[:, :, :3].copy())
            if close:
                from matplotlib import pyplot

                pyplot.close(one)
        self._add(summaries.image(tag, np.stack(drawn), "NHWC"), global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: Any = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Write a sound of -1 to 1."""
        self._add(summaries.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Write a text, shown as Markdown."""
        self._add(summaries.text(tag, text_string), global_step, walltime)

    # curves, pages, hyperparameters

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write precision against recall of probabilities for labels of 0 and 1."""
        made = summaries.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(made, global_step, walltime)

    def add_custom_scalars(self, layout: dict[str, Any]) -> None:
        """Write which scalars a page shows together: {category: {title: (kind, tags)}}."""
        self._add(summaries.layout(layout), None, None)

    def add_custom_scalars_multilinechart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Write a chart of several lines."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Write a chart of a line with its margin."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: Any = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Write the hyperparameters of a run and its metrics, to a folder of their own. TypeError
        unless both are dicts."""
        check(
            isinstance(hparam_dict, dict) and isinstance(metric_dict, dict),
            TypeError,
            "hparam_dict and metric_dict should be dictionary.",
        )
        made = summaries.hparams(hparam_dict, list(metric_dict))
        folder = os.path.join(self.get_logdir(), run_name or str(time.time()))
        writer = FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)
        for summary in made:
            writer.add_summary(summary, global_step)
        for tag, value in metric_dict.items():
            writer.add_summary(summaries.scalar(tag, value), global_step)
        writer.close()

    # what is not written

    def add_graph(self, *args: Any, **kwargs: Any) -> None:
        """NotImplementedError: a module is not traced into a graph of TensorBoard's."""
        raise NotImplementedError(NOT_WRITTEN.format("add_graph", "print the module"))

    def add_embedding(self, *args: Any, **kwargs: Any) -> None:
        """NotImplementedError."""
        what = "write the vectors as tab-separated values for projector.tensorflow.org"
        raise NotImplementedError(NOT_WRITTEN.format("add_embedding", what))

    def add_video(self, *args: Any, **kwargs: Any) -> None:
        """NotImplementedError."""
        raise NotImplementedError(NOT_WRITTEN.format("add_video", "add_images shows its frames"))

    def add_mesh(self, *args: Any, **kwargs: Any) -> None:
        """NotImplementedError."""
        raise NotImplementedError(NOT_WRITTEN.format("add_mesh", "add_figure shows a plot of it"))

    # the end

    def flush(self) -> None:
        """Bring what is waiting to the disk."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Flush, and end the files."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
