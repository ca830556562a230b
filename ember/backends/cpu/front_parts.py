"""The LLVM assembly of the parts of the compiled operators: reading tensors, looking into the
table, NumPy's loop, and making the result's objects."""

from __future__ import annotations

from ember.backends.cpu.front_table import (
    CALLABLES,
    ENTRIES,
    ENTRY,
    NDARRAY_DATA,
    NDARRAY_DESCR,
    NDARRAY_FLAGS,
    PLAIN_FLAGS,
    entry,
    header,
    number,
)

DECLARATIONS = """
declare ptr @PyObject_GetAttr(ptr, ptr)
declare i32 @PyObject_SetAttr(ptr, ptr, ptr)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare void @PyErr_Clear()
declare ptr @PyErr_Occurred()
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare i64 @PyLong_AsLongLong(ptr)

@front = internal global ptr null

define void @ember_front(ptr %table) {
  store ptr %table, ptr @front
  ret void
}

; What an object's type is.
define internal ptr @type_of(ptr %object) #0 {
  %place = getelementptr i8, ptr %object, i64 8
  %type = load ptr, ptr %place
  ret ptr %type
}

; The first element of a list.
define internal ptr @first_of(ptr %list) #0 {
  %place = getelementptr i8, ptr %list, i64 24
  %items = load ptr, ptr %place
  %item = load ptr, ptr %items
  ret ptr %item
}

; Whether an attribute, or its default in the class, is this very object.
define internal i1 @has(ptr %object, ptr %name, ptr %expected) #0 {
entry:
  %value = call ptr @PyObject_GetAttr(ptr %object, ptr %name)
  %failed = icmp eq ptr %value, null
  br i1 %failed, label %clear, label %compare
clear:
  call void @PyErr_Clear()
  ret i1 false
compare:
  call void @Py_DecRef(ptr %value)
  %same = icmp eq ptr %value, %expected
  ret i1 %same
}

define internal ptr @slot_of(ptr %object, i64 %offset) #0 {
  %place = getelementptr i8, ptr %object, i64 %offset
  %value = load ptr, ptr %place
  ret ptr %value
}

define internal void @set_slot(ptr %object, i64 %offset, ptr %value) #0 {
  %place = getelementptr i8, ptr %object, i64 %offset
  call void @Py_IncRef(ptr %value)
  store ptr %value, ptr %place
  ret void
}
"""

READING = f"""
; Whether no mode is in force that the short way does not know.
define internal i1 @plain(ptr %front) #0 {{
  {header("special", "special")}
  {header("layouts", "layouts")}
  {header("slot", "slot")}
  {header("none", "none")}
  %modes = call ptr @first_of(ptr %special)
  %known = call ptr @first_of(ptr %layouts)
  %executor = call ptr @first_of(ptr %slot)
  %quiet = icmp eq ptr %modes, %known
  %eager = icmp eq ptr %executor, %none
  %both = and i1 %quiet, %eager
  ret i1 %both
}}

define internal i1 @is_tensor(ptr %front, ptr %object) #0 {{
  {header("tensor", "tensor")}
  {header("parameter", "parameter")}
  %type = call ptr @type_of(ptr %object)
  %one = icmp eq ptr %type, %tensor
  %other = icmp eq ptr %type, %parameter
  %either = or i1 %one, %other
  ret i1 %either
}}

; The array of a tensor that an ndarray already shows (borrowed), or null.
define internal ptr @array_of(ptr %front, ptr %tensor) #0 {{
entry:
  {header("name_array", "name")}
  %array = call ptr @PyObject_GetAttr(ptr %tensor, ptr %name)
  %failed = icmp eq ptr %array, null
  br i1 %failed, label %clear, label %found
clear:
  call void @PyErr_Clear()
  ret ptr null
found:
  call void @Py_DecRef(ptr %array)
  {header("array", "kind")}
  %type = call ptr @type_of(ptr %array)
  %dense = icmp eq ptr %type, %kind
  br i1 %dense, label %look, label %no
look:
  {number("array_nd", "at_nd")}
  %nd = call ptr @slot_of(ptr %array, i64 %at_nd)
  {number("array_storage", "at_storage")}
  %storage = call ptr @slot_of(ptr %array, i64 %at_storage)
  %bare = icmp eq ptr %nd, null
  %empty = icmp eq ptr %storage, null
  %unset = or i1 %bare, %empty
  br i1 %unset, label %no, label %types
types:
  {header("ndarray", "ndarray")}
  {header("storage", "plain")}
  {header("exposed", "exposed")}
  %shown = call ptr @type_of(ptr %nd)
  %shows = icmp eq ptr %shown, %ndarray
  %held = call ptr @type_of(ptr %storage)
  %is_plain = icmp eq ptr %held, %plain
  %is_exposed = icmp eq ptr %held, %exposed
  %is_held = or i1 %is_plain, %is_exposed
  %good = and i1 %shows, %is_held
  br i1 %good, label %flags, label %no
flags:
  %place = getelementptr i8, ptr %nd, i64 {NDARRAY_FLAGS}
  %bits = load i32, ptr %place
  %masked = and i32 %bits, {PLAIN_FLAGS}
  %fine = icmp eq i32 %masked, {PLAIN_FLAGS}
  br i1 %fine, label %yes, label %no
yes:
  ret ptr %array
no:
  ret ptr null
}}

; Whether a gradient might be asked for: it needs one, or is a view.
define internal i1 @asks(ptr %front, ptr %tensor) #0 {{
entry:
  {header("name_requires_grad", "name")}
  {header("false", "false")}
  %free = call i1 @has(ptr %tensor, ptr %name, ptr %false)
  br i1 %free, label %look, label %yes
look:
  {header("name_base", "base")}
  {header("none", "none")}
  %own = call i1 @has(ptr %tensor, ptr %base, ptr %none)
  %view = xor i1 %own, true
  ret i1 %view
yes:
  ret i1 true
}}

; 1 where a tensor needs a gradient, 0 where not, 2 where that takes a closer look.
define internal i64 @needs(ptr %front, ptr %tensor) #0 {{
  {header("name_requires_grad", "name")}
  {header("name_base", "base")}
  {header("false", "false")}
  {header("none", "none")}
  %free = call i1 @has(ptr %tensor, ptr %name, ptr %false)
  %own = call i1 @has(ptr %tensor, ptr %base, ptr %none)
  %asked = select i1 %free, i64 0, i64 1
  %found = select i1 %own, i64 %asked, i64 2
  ret i64 %found
}}

; Whether an ndarray has this dtype.
define internal i1 @is_of(ptr %front, ptr %array, ptr %descr) #0 {{
  {number("array_nd", "at_nd")}
  %nd = call ptr @slot_of(ptr %array, i64 %at_nd)
  %found = call ptr @slot_of(ptr %nd, i64 {NDARRAY_DESCR})
  %same = icmp eq ptr %found, %descr
  ret i1 %same
}}

define internal ptr @data_of(ptr %front, ptr %array) #0 {{
  {number("array_nd", "at_nd")}
  %nd = call ptr @slot_of(ptr %array, i64 %at_nd)
  %data = call ptr @slot_of(ptr %nd, i64 {NDARRAY_DATA})
  ret ptr %data
}}

; The entry for two keys in the table of an op, or null.
define internal ptr @find(ptr %block, ptr %first, ptr %second) #0 {{
  %a = ptrtoint ptr %first to i64
  %b = ptrtoint ptr %second to i64
  %x = mul i64 %a, 1099511628211
  %y = add i64 %x, %b
  %z = mul i64 %y, -7046029254386353131
  %high = lshr i64 %z, 40
  %place = urem i64 %high, {ENTRIES}
  %words = mul i64 %place, {len(ENTRY)}
  %at = add i64 %words, {len(CALLABLES)}
  %row = getelementptr i64, ptr %block, i64 %at
  {entry("first", "first_key")}
  {entry("second", "second_key")}
  %one = icmp eq ptr %first_key, %first
  %two = icmp eq ptr %second_key, %second
  %hit = and i1 %one, %two
  %found = select i1 %hit, ptr %row, ptr null
  ret ptr %found
}}

; A number as a float of 4 or 8 bytes in %room; false where it does not go.
define internal i1 @number_in(ptr %object, i64 %size, ptr %room) #0 {{
entry:
  %value = call double @PyFloat_AsDouble(ptr %object)
  %odd = fcmp oeq double %value, -1.0
  br i1 %odd, label %look, label %store
look:
  %error = call ptr @PyErr_Occurred()
  %none = icmp eq ptr %error, null
  br i1 %none, label %store, label %clear
clear:
  call void @PyErr_Clear()
  ret i1 false
store:
  %wide = icmp eq i64 %size, 8
  br i1 %wide, label %double, label %single
double:
  store double %value, ptr %room
  ret i1 true
single:
  %short = fptrunc double %value to float
  store float %short, ptr %room
  ret i1 true
}}
"""

RUNNING = f"""
; NumPy's inner loop over the runs of an entry.
define internal void @loop(ptr %row, ptr %first, ptr %second, ptr %out) #0 {{
entry:
  %pointers = alloca [3 x ptr]
  %count = alloca i64
  {entry("loop", "function")}
  {entry("data", "data")}
  {entry("inner", "inner", "i64")}
  {entry("outer", "outer", "i64")}
  {entry("step_first", "step_a", "i64")}
  {entry("step_second", "step_b", "i64")}
  {entry("step_out", "step_c", "i64")}
  %strides = getelementptr i64, ptr %row, i64 {ENTRY.index("stride_first")}
  store i64 %inner, ptr %count
  %p1 = getelementptr ptr, ptr %pointers, i64 1
  %p2 = getelementptr ptr, ptr %pointers, i64 2
  br label %each
each:
  %i = phi i64 [0, %entry], [%next, %each]
  %a = phi ptr [%first, %entry], [%a2, %each]
  %b = phi ptr [%second, %entry], [%b2, %each]
  %c = phi ptr [%out, %entry], [%c2, %each]
  store ptr %a, ptr %pointers
  store ptr %b, ptr %p1
  store ptr %c, ptr %p2
  call void %function(ptr %pointers, ptr %count, ptr %strides, ptr %data)
  %a2 = getelementptr i8, ptr %a, i64 %step_a
  %b2 = getelementptr i8, ptr %b, i64 %step_b
  %c2 = getelementptr i8, ptr %c, i64 %step_c
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %outer
  br i1 %more, label %each, label %end
end:
  ret void
}}

; A tensor over an ndarray (whose reference it takes), or null with an error.
define internal ptr @made(ptr %front, ptr %row, ptr %nd) #0 {{
entry:
  {header("storage", "storage_type")}
  {header("array", "array_type")}
  {header("tensor", "tensor_type")}
  {header("zero", "zero")}
  {entry("spec", "spec")}
  {entry("device", "device")}
  call void @Py_IncRef(ptr %spec)
  call void @Py_IncRef(ptr %device)
  %storage = call ptr @PyType_GenericAlloc(ptr %storage_type, i64 0)
  %no_storage = icmp eq ptr %storage, null
  br i1 %no_storage, label %fail1, label %second
fail1:
  br label %drop
second:
  {number("storage_buffer", "at_buffer")}
  {number("storage_device", "at_device")}
  {number("storage_version", "at_version")}
  call void @set_slot(ptr %storage, i64 %at_buffer, ptr %nd)
  call void @set_slot(ptr %storage, i64 %at_device, ptr %device)
  call void @set_slot(ptr %storage, i64 %at_version, ptr %zero)
  %array = call ptr @PyType_GenericAlloc(ptr %array_type, i64 0)
  %no_array = icmp eq ptr %array, null
  br i1 %no_array, label %fail2, label %third
fail2:
  call void @Py_DecRef(ptr %storage)
  br label %drop
third:
  {number("array_storage", "at_storage")}
  {number("array_spec", "at_spec")}
  {number("array_offset", "at_offset")}
  {number("array_nd", "at_nd")}
  call void @set_slot(ptr %array, i64 %at_storage, ptr %storage)
  call void @set_slot(ptr %array, i64 %at_spec, ptr %spec)
  call void @set_slot(ptr %array, i64 %at_offset, ptr %zero)
  call void @set_slot(ptr %array, i64 %at_nd, ptr %nd)
  call void @Py_DecRef(ptr %storage)
  {header("new_object", "new")}
  {header("no_arguments", "nothing")}
  %tensor = call ptr %new(ptr %tensor_type, ptr %nothing, ptr null)
  %no_tensor = icmp eq ptr %tensor, null
  br i1 %no_tensor, label %fail3, label %fourth
fail3:
  call void @Py_DecRef(ptr %array)
  br label %drop
fourth:
  {header("name_array", "name")}
  %status = call i32 @PyObject_SetAttr(ptr %tensor, ptr %name, ptr %array)
  call void @Py_DecRef(ptr %array)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %fail4, label %drop
fail4:
  call void @Py_DecRef(ptr %tensor)
  br label %drop
drop:
  %result = phi ptr [null, %fail1], [null, %fail2], [null, %fail3], [null, %fail4],
    [%tensor, %fourth]
  call void @Py_DecRef(ptr %nd)
  call void @Py_DecRef(ptr %spec)
  call void @Py_DecRef(ptr %device)
  ret ptr %result
}}
"""

PARTS = DECLARATIONS + READING + RUNNING
