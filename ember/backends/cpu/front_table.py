"""The table behind the compiled operators: what its words mean, and the assembly that loads
them."""

from __future__ import annotations

HEADER = (
    "special", "layouts", "slot",  # lists whose first elements say which modes are in force
    "made_at", "state",  # who watches nodes being made; the modes of this thread
    "none", "false", "true", "zero", "no_edge", "nothing_saved", "sequence",
    "tensor", "parameter", "array", "storage", "exposed", "ndarray", "saved",  # types
    "name_array", "name_requires_grad", "name_base", "name_inference", "name_silent_writes",
    "name_no_grad_base", "name_grad_fn", "name_output_nr", "name_accumulate",
    "word_grad", "word_saved_hooks",
    "array_storage", "array_spec", "array_nd", "array_offset",  # where slots lie in objects
    "storage_buffer", "storage_device", "storage_version",
    "node_edges", "node_out_specs", "node_sequence", "node_recipe", "node_saved",
    "saved_array", "saved_version", "saved_is_output", "saved_node", "saved_output_nr",
    "saved_leaf", "saved_hooks",
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
    "recipe_1", "recipe_2", "recipe_3",  # by which operands need gradients, once they are known
)  # fmt: skip
# How a run is recorded: what of the operands leads on, and pairs of name and operand that follow.
RECIPE = ("kind", "out_specs", "recipe", "wanted", "any_saved", "saves", "result")
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
