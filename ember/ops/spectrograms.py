"""Short-time Fourier transforms: spectra of overlapping stretches of a signal, and back."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.core.registry import FUNCTION, METHOD, composite
from ember.core.tensor import Tensor
from ember.errors import check
from ember.ops.complex_numbers import view_as_real
from ember.ops.fourier import forward_op, half_op, inverse_op, real_op
from ember.ops.padding import pad
from ember.ops.ranges import arange
from ember.source_lines import warn


def _settings(
    name: str, input: Tensor, n_fft: int, hop: Any, length: Any, window: Any
) -> tuple[str, int, int]:
    """What errors begin with, the hop and the window's length."""
    hop = n_fft // 4 if hop is None else hop
    length = n_fft if length is None else length
    where = (
        f"{name}({input.dtype}{list(input.shape)}, n_fft={n_fft}, hop_length={hop}, "
        f"win_length={length}, window={None if window is None else list(window.shape)})"
    )
    check(hop > 0, RuntimeError, f"{where}: expected hop_length > 0, but got hop_length={hop}")
    check(
        0 < length <= n_fft,
        RuntimeError,
        f"{where}: expected 0 < win_length <= n_fft, but got win_length={length}",
    )
    check(
        window is None or (window.ndim == 1 and window.shape[0] == length),
        RuntimeError,
        f"{where}: expected a 1D window tensor of size equal to win_length={length}",
    )
    return where, hop, length


def _centred(window: Tensor | None, n_fft: int, length: int, like: Tensor) -> Tensor:
    """The window (ones by default) with zeros on both sides to n_fft."""
    if window is None:
        window = like.new_ones(length)
    before = (n_fft - length) // 2
    return pad(window, (before, n_fft - length - before)) if length < n_fft else window


def _check_signal(
    input: Tensor, n_fft: int, is_complex: bool, return_complex: Any, center: bool, align: Any
) -> None:
    """RuntimeError for signals and settings that `stft` does not take."""
    check(
        return_complex is not None or is_complex,
        RuntimeError,
        "stft requires the return_complex parameter be given for real inputs, and will further "
        "require that return_complex=True in a future PyTorch release.",
    )
    check(
        not (align is not None and center),
        RuntimeError,
        "stft align_to_window should only be set when center = false.",
    )
    where = f"stft({input.dtype}{list(input.shape)}, n_fft={n_fft})"
    check(
        input.dtype.category >= dtypes.FLOAT,
        RuntimeError,
        f"{where}: expected a tensor of floating point or complex values",
    )
    check(input.ndim in (1, 2), RuntimeError, f"{where}: expected a 1D or 2D tensor")


def _advise_window(window: Tensor | None, why: str) -> None:
    if window is None:
        warn(
            f"A window was not provided. A rectangular window will be applied, {why}. Windows such "
            "as torch.hann_window reduce leakage; to use a rectangular one without this warning, "
            "give `window=torch.ones(n_fft, device=<device>)`."
        )


@composite(FUNCTION | METHOD)
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """The spectra of stretches of n_fft samples, hop_length (n_fft // 4) apart, times a window.

    (*, T) to (*, frequencies, stretches); with `center` stretch i is centred at i·hop_length, by
    padding. Half a spectrum for real signals unless onesided is False; complex, or pairs of real
    numbers if return_complex is False.

    >>> import ember as torch
    >>> torch.stft(torch.ones(8), 4, window=torch.ones(4), return_complex=True).shape
    torch.Size([3, 9])
    """
    is_complex = input.is_complex() or (window is not None and window.is_complex())
    _check_signal(input, n_fft, is_complex, return_complex, center, align_to_window)
    _advise_window(window, "which is known to cause spectral leakage")
    if return_complex is False:
        warn(
            "stft with return_complex=False is deprecated. In a future pytorch release, stft will "
            "return complex tensors for all inputs, and return_complex=False will raise an error: "
            "torch.view_as_real gives the old form of the complex result"
        )
    signal = input.unsqueeze(0) if input.ndim == 1 else input
    if center:
        reach = n_fft // 2
        signal = pad(signal.unsqueeze(0), (reach, reach), pad_mode).squeeze(0)
    where, hop, length = _settings("stft", signal, n_fft, hop_length, win_length, window)
    check(
        0 < n_fft <= signal.shape[-1],
        RuntimeError,
        f"{where}: expected 0 < n_fft <= {signal.shape[-1]}, but got n_fft={n_fft}",
    )
    check(
        not (onesided and is_complex),
        RuntimeError,
        "Cannot have onesided output if window or input is complex",
    )
    if align_to_window and length < n_fft:
        before = (n_fft - length) // 2
        signal = pad(signal, (before, n_fft - length - before))
    frames = signal.unfold(-1, n_fft, hop)
    if window is not None or length < n_fft:
        frames = frames * _centred(window, n_fft, length, signal.real)
    op = forward_op if is_complex or onesided is False else half_op
    made = op(frames, (n_fft,), (2,), "ortho" if normalized else "backward").transpose(1, 2)
    made = made.squeeze(0) if input.ndim == 1 else made
    pairs = not return_complex if return_complex is not None else not is_complex
    return view_as_real(made) if pairs else made


@composite(FUNCTION | METHOD)
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal of which `stft` gave the spectra: stretches overlapped, added, and divided by the
    sum of squared windows (Griffin and Lim, 1984). RuntimeError where that is zero."""
    check(
        input.is_complex(),
        RuntimeError,
        "istft requires a complex-valued input tensor matching the output from stft with "
        "return_complex=True.",
    )
    _advise_window(window, "and stft's own window would make the inversion lossless")
    where, hop, width = _settings("istft", input, n_fft, hop_length, win_length, window)
    check(input.numel() > 0, RuntimeError, f"{where}: input tensor cannot be empty.")
    check(
        input.ndim in (2, 3),
        RuntimeError,
        f"{where}: expected a tensor with 2 or 3 dimensions, but got {input.ndim}",
    )
    check(hop <= width, RuntimeError, f"{where}: expected 0 < hop_length <= win_length")
    half = n_fft // 2 + 1
    rows = input.shape[-2]
    halved = rows != n_fft if onesided is None else onesided
    check(
        rows == (half if halved else n_fft),
        RuntimeError,
        f"{where}: expected the frequency dimension (3rd to the last) of the input tensor to match "
        f"{'n_fft / 2 + 1' if halved else 'n_fft'} = {half if halved else n_fft}, but got {rows}",
    )
    check(
        not (return_complex and halved),
        RuntimeError,
        "Cannot have onesided output if window or input is complex",
    )
    spectra = (input.unsqueeze(0) if input.ndim == 2 else input).transpose(1, 2)
    norm = "ortho" if normalized else "backward"
    if return_complex:
        frames = inverse_op(spectra, (n_fft,), (2,), norm)
    else:
        frames = real_op(spectra[..., :half], (n_fft,), (2,), norm)
    weights = _centred(window, n_fft, width, input.real)
    made = _overlapped(where, frames * weights, weights, hop, center, length)
    return made.squeeze(0) if input.ndim == 2 else made


def _overlapped(
    where: str, frames: Tensor, weights: Tensor, hop: int, center: bool, length: int | None
) -> Tensor:
    """Stretches added where they overlap, over the sum of squared weights there."""
    batch, count, n_fft = frames.shape
    total = n_fft + hop * (count - 1)
    places = arange(count, device=frames.device).unsqueeze(1) * hop
    places = (places + arange(n_fft, device=frames.device)).reshape(-1)
    signal = frames.new_zeros((batch, total)).index_add(1, places, frames.reshape(batch, -1))
    squares = (weights * weights).expand(count, n_fft).reshape(-1)
    envelope = weights.new_zeros(total).index_add(0, places, squares)
    start = n_fft // 2 if center else 0
    end = total - start if length is None else start + length
    signal, envelope = signal[:, start:end], envelope[start:end]
    lowest = envelope.abs().min()
    check(
        lowest.is_meta or lowest.item() > 1e-11,
        RuntimeError,
        f"{where}: window overlap add min is 0: the windows leave samples that no stretch tells",
    )
    signal = signal / envelope
    missing = 0 if length is None else length - signal.shape[-1]
    return pad(signal, (0, missing)) if missing > 0 else signal
