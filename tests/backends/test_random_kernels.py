"""The steps of random numbers that are compiled for large draws: the same bits either way."""

import numpy as np

from ember.backends.cpu import box_muller, random_kernels


def test_compiled_normals_have_the_same_bits(monkeypatch):
    words = np.random.default_rng(1).integers(0, 1 << 32, 1 << 16, dtype=np.uint32)
    words[:4] = 0, 0xFFFFFF, 0, 0xFFFFFF
    words[8:12] = 0, 0xFFFFFF, 0x800000, 0x400000
    monkeypatch.setattr(random_kernels, "LARGE", 0)
    compiled = random_kernels.normal_blocks(words)
    plain = box_muller.normal_blocks(words)
    assert (compiled.view(np.int32) == plain.view(np.int32)).all()
    assert np.isfinite(plain).all()


def test_compiled_shuffle(monkeypatch):
    count = 5000
    partners = np.arange(count) + np.random.default_rng(1).integers(0, count - np.arange(count))
    expected = list(range(count))
    for i, j in enumerate(partners.tolist()):
        expected[i], expected[j] = expected[j], expected[i]
    monkeypatch.setattr(random_kernels, "LARGE", 0)
    values = np.arange(count)
    random_kernels.shuffle(values, partners)
    assert values.tolist() == expected
    monkeypatch.setattr(random_kernels, "SMALL", 1 << 40)
    values = np.arange(count)
    random_kernels.shuffle(values, partners)
    assert values.tolist() == expected


def test_fused_steps():
    """a·b + c rounded once, where rounding twice gives another number."""
    a, b = np.float32(1 + 2.0**-12), np.float32(1 - 2.0**-12)
    assert float(box_muller.fused(a, b, np.float32(-1))) == -(2.0**-24)
    a = np.array([1 + 2.0**-27])
    assert box_muller.fused_double(a, 1 - 2.0**-27, -1.0).tolist() == [-(2.0**-54)]
