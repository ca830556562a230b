"""The table behind the compiled operators: what its words mean, and the assembly that loads
them."""

from __future__ import annotations

HEADER = (
    "special", "layouts", "slot",  # lists whose first elements say which modes are in force
    "none", "false", "zero",
    "tensor", "parameter", "array", "storage", "exposed", "ndarray", "float", "int",  # types
    "name_array", "name_requires_grad", "name_base", "name_inference", "name_silent_writes",
    "name_no_grad_base",
    "array_storage", "array_spec", "array_nd", "array_offset",  # where slots lie in objects
    "storage_buffer", "storage_device", "storage_version",
    "new_ndarray", "new_object", "no_arguments",  # functions of NumPy and Python
)  # fmt: skip
CALLABLES = ("learn", "run", "record")  # of an op: on a miss, beyond the short way, with gradients
ENTRY = (
    "first", "second",  # specs of the operands, or the type of a number
    "plan", "spec", "device", "descr", "ndim", "dims",  # of the result
    "descr_first", "descr_second", "number",  # 4 or 8 where the second is a float of that size
    "loop", "data", "inner", "outer",  # NumPy's loop, elements in a run of it, how many runs
    "stride_first", "stride_second", "stride_out",
    "step_first", "step_second", "step_out",  # bytes from run to run
)  # fmt: skip
ENTRIES = 32
BLOCK = len(CALLABLES) + ENTRIES * len(ENTRY)
NDARRAY_DATA, NDARRAY_DESCR, NDARRAY_FLAGS = 16, 56, 64
PLAIN_FLAGS, WRITEABLE = 0x101, 0x400  # contiguous and aligned


def header(name: str, register: str) -> str:
    """Lines that load a word of the header."""
    return (
        f"%{register}.p = getelementptr i64, ptr %front, i64 {HEADER.index(name)}\n"
        f"  %{register} = load ptr, ptr %{register}.p"
    )


def number(name: str, register: str) -> str:
    """The same, as a number."""
    return header(name, register).replace("load ptr", "load i64")


def entry(name: str, register: str, kind: str = "ptr") -> str:
    """Lines that load a word of the entry."""
    return (
        f"%{register}.p = getelementptr i64, ptr %row, i64 {ENTRY.index(name)}\n"
        f"  %{register} = load {kind}, ptr %{register}.p"
    )
