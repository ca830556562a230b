"""The numbers that stand for dtypes and memory formats in TorchScript."""

from __future__ import annotations

from ember import dtypes
from ember.ops.formats import channels_last, channels_last_3d, contiguous_format, preserve_format

DTYPES = {
    0: dtypes.uint8,
    1: dtypes.int8,
    2: dtypes.int16,
    3: dtypes.int32,
    4: dtypes.int64,
    5: dtypes.float16,
    6: dtypes.float32,
    7: dtypes.float64,
    9: dtypes.complex64,
    10: dtypes.complex128,
    11: dtypes.bool_,
    15: dtypes.bfloat16,
}
CODES = {dtype: code for code, dtype in DTYPES.items()}
FORMATS = {0: contiguous_format, 1: preserve_format, 2: channels_last, 3: channels_last_3d}
