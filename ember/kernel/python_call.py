"""The function that Python calls around a kernel: it reads ndarrays and numbers by itself, and lets
other threads run while the kernel works."""

from __future__ import annotations

DATA = 16  # offset of the data pointer in an ndarray: fixed by NumPy's ABI


def python_call(arrays: int, numbers: int, scalar: str) -> str:
    """`builtin(self, args, count)` for `loop(arrays..., numbers..., geometry, scratch, begin,
    end)`."""
    lines: list[str] = []

    def argument(position: int) -> str:
        lines.append(f"  %a{position} = getelementptr ptr, ptr %args, i64 {position}")
        lines.append(f"  %o{position} = load ptr, ptr %a{position}")
        return f"%o{position}"

    def data(position: int) -> str:
        given = argument(position)
        lines.append(f"  %f{position} = getelementptr i8, ptr {given}, i64 {DATA}")
        lines.append(f"  %d{position} = load ptr, ptr %f{position}")
        return f"ptr %d{position}"

    total = arrays + numbers
    given = [data(i) for i in range(arrays)]
    for i in range(arrays, total):
        lines.append(f"  %w{i} = call double @PyFloat_AsDouble(ptr {argument(i)})")
        if scalar == "float":
            lines.append(f"  %x{i} = fptrunc double %w{i} to float")
        given.append(f"{scalar} %{'x' if scalar == 'float' else 'w'}{i}")
    given += [data(total), data(total + 1)]
    for i in (total + 2, total + 3):
        lines.append(f"  %i{i} = call i64 @PyLong_AsLongLong(ptr {argument(i)})")
        given.append(f"i64 %i{i}")
    read = "\n".join(lines)
    return f"""
declare double @PyFloat_AsDouble(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLong(i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
define ptr @builtin(ptr %self, ptr %args, i64 %count) {{
{read}
  %state = call ptr @PyEval_SaveThread()
  call void @loop({", ".join(given)})
  call void @PyEval_RestoreThread(ptr %state)
  %done = call ptr @PyLong_FromLong(i64 0)
  ret ptr %done
}}
"""
