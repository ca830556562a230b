"""The LLVM assembly of the short way of small ops: from two tensors to their sum without Python in
between.

It reads tensors, arrays, storages and ndarrays by the places that `Front` has found (they are
checked there), looks up what it needs by the specs of the operands in a table that Python fills,
calls NumPy's inner loop and makes the result's objects. Whatever is not exactly as it expects goes
to the Python function of the op, so nothing here decides what an op means.
"""

from __future__ import annotations

from ember.backends.cpu.front_nodes import NODES
from ember.backends.cpu.front_parts import PARTS
from ember.backends.cpu.front_table import (
    BLOCK,
    CALLABLES,
    HEADER,
    NDARRAY_DATA,
    NDARRAY_FLAGS,
    WRITEABLE,
    entry,
    header,
    number,
)

SEARCH = f"""
entry:
  %room = alloca double
  %values = alloca [2 x ptr]
  %front = load ptr, ptr @front
  %skipped = mul i64 %index, {BLOCK}
  %start = add i64 %skipped, {len(HEADER)}
  %block = getelementptr i64, ptr %front, i64 %start
  %quiet = call i1 @plain(ptr %front)
  br i1 %quiet, label %left_array, label %long
left_array:
  %known = call i1 @is_tensor(ptr %front, ptr %left)
  br i1 %known, label %left_look, label %learn
left_look:
  %a = call ptr @array_of(ptr %front, ptr %left)
  %no_a = icmp eq ptr %a, null
  br i1 %no_a, label %long, label %right_kind
right_kind:
  {number("array_spec", "at_spec")}
  %first = call ptr @slot_of(ptr %a, i64 %at_spec)
  %is_tensor = call i1 @is_tensor(ptr %front, ptr %right)
  br i1 %is_tensor, label %right_look, label %right_number
right_look:
  %found_b = call ptr @array_of(ptr %front, ptr %right)
  %no_b = icmp eq ptr %found_b, null
  br i1 %no_b, label %long, label %right_spec
right_spec:
  %spec_b = call ptr @slot_of(ptr %found_b, i64 %at_spec)
  br label %search
right_number:
  %type_b = call ptr @type_of(ptr %right)
  br label %search
search:
  %b = phi ptr [%found_b, %right_spec], [null, %right_number]
  %second = phi ptr [%spec_b, %right_spec], [%type_b, %right_number]
  %row = call ptr @find(ptr %block, ptr %first, ptr %second)
  %miss = icmp eq ptr %row, null
  br i1 %miss, label %learn, label %hit
hit:
  {entry("loop", "function")}
  %long_way = icmp eq ptr %function, null
  br i1 %long_way, label %long, label %check_a
check_a:
  {entry("descr_first", "descr_a")}
  %good_a = call i1 @is_of(ptr %front, ptr %a, ptr %descr_a)
  br i1 %good_a, label %data_a, label %long
data_a:
  %from_a = call ptr @data_of(ptr %front, ptr %a)
  {entry("number", "size", "i64")}
  %is_number = icmp ne i64 %size, 0
  br i1 %is_number, label %number_b, label %check_b
number_b:
  %fits = call i1 @number_in(ptr %right, i64 %size, ptr %room)
  br i1 %fits, label %ready, label %long
check_b:
  {entry("descr_second", "descr_b")}
  %good_b = call i1 @is_of(ptr %front, ptr %b, ptr %descr_b)
  br i1 %good_b, label %data_b, label %long
data_b:
  %of_b = call ptr @data_of(ptr %front, ptr %b)
  br label %ready
ready:
  %from_b = phi ptr [%of_b, %data_b], [%room, %number_b]
"""

PYTHON = f"""
learn:
  %learn.p = getelementptr i64, ptr %block, i64 {CALLABLES.index("learn")}
  br label %python
long:
  %run.p = getelementptr i64, ptr %block, i64 {CALLABLES.index("run")}
  br label %python
python:
  %callable.p = phi ptr [%learn.p, %learn], [%run.p, %long]
  %callable = load ptr, ptr %callable.p
  %answer = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %callable, ptr %left, ptr %right,
    ptr null)
  ret ptr %answer
"""

BINARY = f"""
define internal ptr @binary(i64 %index, ptr %left, ptr %right) #0 {{
{SEARCH}
  {header("ndarray", "ndarray")}
  {header("new_ndarray", "new")}
  {entry("descr", "descr")}
  {entry("ndim", "ndim", "i64")}
  {entry("dims", "dims")}
  %dim_count = trunc i64 %ndim to i32
  call void @Py_IncRef(ptr %descr)
  %nd = call ptr %new(ptr %ndarray, ptr %descr, i32 %dim_count, ptr %dims, ptr null, ptr null,
    i32 0, ptr null)
  %no_nd = icmp eq ptr %nd, null
  br i1 %no_nd, label %failed, label %compute
failed:
  ret ptr null
compute:
  %to = call ptr @slot_of(ptr %nd, i64 {NDARRAY_DATA})
  call void @loop(ptr %row, ptr %from_a, ptr %from_b, ptr %to)
  {entry("plan", "plan")}
  {entry("recipe_1", "recipe_1")}
  {entry("recipe_2", "recipe_2")}
  {entry("recipe_3", "recipe_3")}
  call void @Py_IncRef(ptr %plan)
  %out = call ptr @made(ptr %front, ptr %row, ptr %nd)
  %no_out = icmp eq ptr %out, null
  br i1 %no_out, label %done, label %left_needs
left_needs:
  %needs_a = call i64 @needs(ptr %front, ptr %left)
  br i1 %is_tensor, label %right_needs, label %weigh
right_needs:
  %needs_right = call i64 @needs(ptr %front, ptr %right)
  br label %weigh
weigh:
  %needs_b = phi i64 [0, %left_needs], [%needs_right, %right_needs]
  %any = or i64 %needs_a, %needs_b
  %none_needs = icmp eq i64 %any, 0
  br i1 %none_needs, label %done, label %ask
ask:
  %usual = icmp eq i64 %any, 1
  br i1 %usual, label %by_mode, label %record
by_mode:
  %mode = call i32 @recording(ptr %front)
  switch i32 %mode, label %record [i32 0, label %done
    i32 1, label %by_recipe]
by_recipe:
  %double_b = shl i64 %needs_b, 1
  %mask = or i64 %needs_a, %double_b
  %is_1 = icmp eq i64 %mask, 1
  %is_2 = icmp eq i64 %mask, 2
  %one_of_two = select i1 %is_2, ptr %recipe_2, ptr %recipe_3
  %recipe = select i1 %is_1, ptr %recipe_1, ptr %one_of_two
  %unknown = icmp eq ptr %recipe, null
  br i1 %unknown, label %record, label %short
short:
  store ptr %left, ptr %values
  %values.1 = getelementptr ptr, ptr %values, i64 1
  store ptr %right, ptr %values.1
  %recorded = call i1 @record(ptr %front, ptr %recipe, ptr %values, i64 2, i64 %mask, ptr %out)
  br i1 %recorded, label %done, label %record
record:
  %record.p = getelementptr i64, ptr %block, i64 {CALLABLES.index("record")}
  %recorder = load ptr, ptr %record.p
  %said = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %recorder, ptr %plan, ptr %left,
    ptr %right, ptr %out, ptr null)
  call void @Py_DecRef(ptr %out)
  br label %done
done:
  %result = phi ptr [null, %compute], [%out, %weigh], [%out, %by_mode], [%out, %short],
    [%said, %record]
  call void @Py_DecRef(ptr %plan)
  ret ptr %result
{PYTHON}
}}
"""

WRITTEN = f"""
; Whether nothing about a tensor makes a write of it more than a write of its memory.
define internal i1 @is_free(ptr %front, ptr %tensor) #0 {{
entry:
  {header("none", "none")}
  {header("false", "false")}
  %asked = call i1 @asks(ptr %front, ptr %tensor)
  br i1 %asked, label %no, label %inference
inference:
  {header("name_inference", "inference_name")}
  %ordinary = call i1 @has(ptr %tensor, ptr %inference_name, ptr %false)
  br i1 %ordinary, label %silent, label %no
silent:
  {header("name_silent_writes", "silent_name")}
  %loud = call i1 @has(ptr %tensor, ptr %silent_name, ptr %false)
  br i1 %loud, label %base, label %no
base:
  {header("name_no_grad_base", "base_name")}
  %own = call i1 @has(ptr %tensor, ptr %base_name, ptr %none)
  ret i1 %own
no:
  ret i1 false
}}

define internal ptr @written(i64 %index, ptr %left, ptr %right) #0 {{
{SEARCH}
  %left_free = call i1 @is_free(ptr %front, ptr %left)
  br i1 %left_free, label %writeable, label %long
writeable:
  {number("array_nd", "at_nd")}
  %nd = call ptr @slot_of(ptr %a, i64 %at_nd)
  %flags.p = getelementptr i8, ptr %nd, i64 {NDARRAY_FLAGS}
  %flags = load i32, ptr %flags.p
  %bit = and i32 %flags, {WRITEABLE}
  %locked = icmp eq i32 %bit, 0
  br i1 %locked, label %long, label %operand
operand:
  {number("array_storage", "at_storage")}
  %storage = call ptr @slot_of(ptr %a, i64 %at_storage)
  br i1 %is_tensor, label %right_free, label %compute
right_free:
  %asked = call i1 @asks(ptr %front, ptr %right)
  br i1 %asked, label %long, label %apart
apart:
  %other = call ptr @slot_of(ptr %b, i64 %at_storage)
  %shared = icmp eq ptr %other, %storage
  %same = icmp eq ptr %a, %b
  %distinct = xor i1 %same, true
  %overlap = and i1 %shared, %distinct
  br i1 %overlap, label %long, label %compute
compute:
  call void @loop(ptr %row, ptr %from_a, ptr %from_b, ptr %from_a)
  {number("storage_version", "at_version")}
  %version.p = getelementptr i8, ptr %storage, i64 %at_version
  %version = load ptr, ptr %version.p
  %count = call i64 @PyLong_AsLongLong(ptr %version)
  %next = add i64 %count, 1
  %new = call ptr @PyLong_FromLongLong(i64 %next)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %lost, label %counted
lost:
  ret ptr null
counted:
  store ptr %new, ptr %version.p
  call void @Py_DecRef(ptr %version)
  call void @Py_IncRef(ptr %left)
  ret ptr %left
{PYTHON}
}}
"""


def front_text(kinds: list[str]) -> str:
    """The module: `ember_front`, which is told where the table lies, and `ember_0` ... for
    operators of the kinds `binary` and `written`, methods that follow METH_O."""
    methods = "".join(
        f"""
define ptr @ember_{i}(ptr %self, ptr %other) #0 {{
  %result = call ptr @{kind}(i64 {i}, ptr %self, ptr %other)
  ret ptr %result
}}
"""
        for i, kind in enumerate(kinds)
    )
    return PARTS + NODES + BINARY + WRITTEN + methods
