"""torch.fft, stft and istft, and windows, against NumPy and SciPy."""

import numpy as np
import pytest
import scipy.signal

import ember as torch
from ember.autograd import gradcheck

NORMS = [None, "backward", "forward", "ortho"]


def signal(*shape, dtype=np.float64, seed=0):
    random = np.random.default_rng(seed)
    made = random.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        made = made + 1j * random.standard_normal(shape)
    return made.astype(dtype)


def near(result, expected, tolerance=1e-12):
    assert tuple(result.shape) == expected.shape
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("norm", NORMS)
class TestTransforms:
    @pytest.mark.parametrize("n", [None, 4, 7])
    def test_one_dim(self, norm, n):
        x, z = signal(3, 5), signal(3, 5, dtype=np.complex128)
        for name, array in (
            ("fft", z), ("fft", x), ("ifft", z), ("rfft", x), ("irfft", z), ("hfft", z),
            ("ihfft", x),
        ):  # fmt: skip
            found = getattr(torch.fft, name)(torch.tensor(array), n, norm=norm)
            near(found, getattr(np.fft, name)(array, n, norm=norm))
        near(torch.fft.fft(torch.tensor(z), dim=0, norm=norm), np.fft.fft(z, axis=0, norm=norm))

    @pytest.mark.parametrize("s", [None, (3, 6), (-1, 2)])
    def test_several_dims(self, norm, s):
        x, z = signal(2, 4, 5), signal(2, 4, 5, dtype=np.complex128)
        sizes = None if s is None else tuple(n if n > 0 else x.shape[1] for n in s)
        for name, array in (("fftn", z), ("ifftn", z), ("rfftn", x), ("irfftn", z)):
            found = getattr(torch.fft, name)(torch.tensor(array), s, (1, 2), norm)
            near(found, getattr(np.fft, name)(array, sizes, (1, 2), norm))
            two = getattr(torch.fft, name[:-1] + "2")(torch.tensor(array), s, norm=norm)
            near(two, found.numpy())
        turned = {"backward": "forward", "forward": "backward"}.get(norm or "backward", norm)
        expected = np.fft.irfftn(z.conj(), sizes, (1, 2), turned)
        near(torch.fft.hfftn(torch.tensor(z), s, (1, 2), norm), expected)
        expected = np.fft.rfftn(x, sizes, (1, 2), turned).conj()
        near(torch.fft.ihfftn(torch.tensor(x), s, (1, 2), norm), expected)

    def test_derivatives(self, norm):
        x = torch.tensor(signal(2, 5)).requires_grad_()
        z = torch.tensor(signal(2, 4, dtype=np.complex128)).requires_grad_()
        for n in (None, 3, 6):
            for name in ("fft", "ifft", "irfft", "hfft"):
                assert gradcheck(lambda t, f=name, n=n: getattr(torch.fft, f)(t, n, norm=norm), z)
            for name in ("fft", "rfft", "ihfft"):
                assert gradcheck(lambda t, f=name, n=n: getattr(torch.fft, f)(t, n, norm=norm), x)
        assert gradcheck(lambda t: torch.fft.irfftn(t, norm=norm), z)
        assert gradcheck(lambda t: torch.fft.rfftn(t, norm=norm), x)


class TestDetails:
    def test_dtypes(self):
        assert torch.fft.fft(torch.ones(4)).dtype is torch.complex64
        assert torch.fft.fft(torch.ones(4).double()).dtype is torch.complex128
        assert torch.fft.fft(torch.ones(4).long()).dtype is torch.complex64
        assert torch.fft.irfft(torch.ones(4)).dtype is torch.float32

    def test_shifts_and_frequencies(self):
        for n in (1, 4, 5):
            near(torch.fft.fftfreq(n, 0.5, dtype=torch.float64), np.fft.fftfreq(n, 0.5))
            near(torch.fft.rfftfreq(n, 0.5, dtype=torch.float64), np.fft.rfftfreq(n, 0.5))
            x = signal(n, n + 1)
            near(torch.fft.fftshift(torch.tensor(x)), np.fft.fftshift(x))
            near(torch.fft.ifftshift(torch.tensor(x), 1), np.fft.ifftshift(x, 1))

    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda: torch.fft.fft(torch.ones(4), 0), RuntimeError, "number of data points"),
            (lambda: torch.fft.fft(torch.ones(4).half()), RuntimeError, "Unsupported dtype Half"),
            (lambda: torch.fft.rfft(torch.ones(4) + 0j), RuntimeError, "real input tensor"),
            (lambda: torch.fft.fft(torch.ones(4), norm="a"), RuntimeError, "normalization mode"),
            (lambda: torch.fft.fft(torch.tensor(1.0)), IndexError, "no dimensions"),
            (lambda: torch.fft.fftn(torch.ones(4), (2, 2)), RuntimeError, "only has 1 dim"),
            (lambda: torch.fft.fftn(torch.ones(4, 4), dim=(0, 0)), RuntimeError, "unique"),
            (lambda: torch.fft.rfftn(torch.tensor(1.0)), RuntimeError, "at least one axis"),
            (lambda: torch.fft.fftfreq(4, dtype=torch.int32), RuntimeError, "floating point"),
        ],
    )
    def test_errors(self, call, error, message):
        with pytest.raises(error, match=message):
            call()


class TestSpectrograms:
    def test_stft(self):
        x, window = signal(2, 40), np.hanning(8) + 0.1
        found = torch.stft(torch.tensor(x), 8, 2, window=torch.tensor(window), return_complex=True)
        padded = np.pad(x, ((0, 0), (4, 4)), "reflect")
        frames = np.lib.stride_tricks.sliding_window_view(padded, 8, axis=1)[:, ::2]
        near(found, np.swapaxes(np.fft.rfft(frames * window), 1, 2))

    @pytest.mark.parametrize("options", [{}, {"normalized": True}, {"onesided": False}], ids=str)
    def test_istft_inverts(self, options):
        x = torch.tensor(signal(2, 40))
        window = torch.hann_window(6, dtype=torch.float64) + 0.1
        spectra = torch.stft(x, 8, 2, 6, window, return_complex=True, **options)
        near(torch.istft(spectra, 8, 2, 6, window, length=40, **options), x.numpy())

    def test_derivatives(self):
        x = torch.tensor(signal(20)).requires_grad_()
        window = torch.tensor(signal(6, seed=1)).requires_grad_()
        assert gradcheck(
            lambda x, w: torch.stft(x, 6, 2, window=w, return_complex=True), (x, w := window)
        )
        spectra = torch.tensor(signal(4, 5, dtype=np.complex128)).requires_grad_()
        assert gradcheck(lambda s, w: torch.istft(s, 6, 2, window=w), (spectra, w))

    def test_errors(self):
        x = torch.ones(10)
        with pytest.raises(RuntimeError, match="return_complex"):
            torch.stft(x, 4)
        with pytest.raises(RuntimeError, match="0 < n_fft < 10|0 < n_fft <= 10"):
            torch.stft(x, 40, center=False, window=torch.ones(40), return_complex=True)
        with pytest.raises(RuntimeError, match="hop_length > 0"):
            torch.stft(x, 4, 0, window=torch.ones(4), return_complex=True)
        with pytest.raises(RuntimeError, match="window overlap add min"):
            torch.istft(torch.ones(3, 5) + 0j, 4, window=torch.zeros(4))
        with pytest.raises(RuntimeError, match="complex-valued input"):
            torch.istft(torch.ones(3, 5), 4)


class TestWindows:
    @pytest.mark.parametrize("sym", [False, True])
    @pytest.mark.parametrize("size", [0, 1, 2, 7])
    def test_against_scipy(self, size, sym):
        windows = torch.signal.windows
        options = {"sym": sym, "dtype": torch.float64}
        for name in ("bartlett", "blackman", "cosine", "hamming", "hann", "nuttall"):
            found = getattr(windows, name)(size, **options)
            near(found, getattr(scipy.signal.windows, name)(size, sym), 1e-9)
        for name, argument in (("kaiser", "beta"), ("gaussian", "std"), ("exponential", "tau")):
            found = getattr(windows, name)(size, **{argument: 1.5}, **options)
            expected = getattr(scipy.signal.windows, name)(size, **{argument: 1.5}, sym=sym)
            near(found, expected, 1e-9)
        expected = scipy.signal.windows.general_cosine(size, [0.5, 0.3, 0.2], sym)
        near(windows.general_cosine(size, a=[0.5, 0.3, 0.2], **options), expected, 1e-9)

    @pytest.mark.parametrize("name", ["hann", "hamming", "blackman", "bartlett", "kaiser"])
    def test_functions_of_torch(self, name):
        for periodic in (False, True):
            found = getattr(torch, f"{name}_window")(9, periodic, dtype=torch.float64)
            near(
                found,
                getattr(torch.signal.windows, name)(
                    9, sym=not periodic, dtype=torch.float64
                ).numpy(),
            )
        assert getattr(torch, f"{name}_window")(1).tolist() == [1]

    def test_errors(self):
        with pytest.raises(RuntimeError, match="non-negative window_length"):
            torch.hann_window(-1)
        with pytest.raises(RuntimeError, match="floating point dtypes"):
            torch.hann_window(4, dtype=torch.int32)
        with pytest.raises(ValueError, match="non-negative window length"):
            torch.signal.windows.hann(-1)
        with pytest.raises(ValueError, match="float32 or float64"):
            torch.signal.windows.hann(3, dtype=torch.int32)
        with pytest.raises(ValueError, match="Center must be None"):
            torch.signal.windows.exponential(3, center=1.0)
