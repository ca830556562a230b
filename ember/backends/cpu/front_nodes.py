"""The LLVM assembly that records a formula op: its node, the edges, and what is saved for backward.

It does what `FormulaOp.record` does where nothing is unusual, and answers false, with nothing done,
where anything is: then Python does it.
"""

from __future__ import annotations

from ember.backends.cpu.front_table import RECIPE, header, number

OPERANDS = 8  # more than any formula op has


def recipe(name: str, register: str, kind: str = "ptr") -> str:
    """Lines that load a word of a recipe."""
    return (
        f"%{register}.p = getelementptr i64, ptr %recipe, i64 {RECIPE.index(name)}\n"
        f"  %{register} = load {kind}, ptr %{register}.p"
    )


MODES = f"""
declare ptr @PyTuple_New(i64)
declare ptr @PyTuple_GetItem(ptr, i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyTuple_Pack(i64, ...)
declare ptr @PyIter_Next(ptr)
declare ptr @PyDict_New()
declare i32 @PyDict_SetItem(ptr, ptr, ptr)

; 0 where this thread does not record, 1 where it does, 2 where it does in an unusual way.
define internal i32 @recording(ptr %front) #0 {{
entry:
  {header("state", "state")}
  {header("word_grad", "grad")}
  {header("false", "false")}
  %off = call i1 @has(ptr %state, ptr %grad, ptr %false)
  br i1 %off, label %no, label %further
further:
  {header("word_saved_hooks", "hooks")}
  {header("no_arguments", "empty")}
  {header("made_at", "made_at")}
  {header("none", "none")}
  %free = call i1 @has(ptr %state, ptr %hooks, ptr %empty)
  %watcher = call ptr @first_of(ptr %made_at)
  %unwatched = icmp eq ptr %watcher, %none
  %usual = and i1 %free, %unwatched
  br i1 %usual, label %yes, label %odd
no:
  ret i32 0
yes:
  ret i32 1
odd:
  ret i32 2
}}
"""

EDGES = f"""
; Where the gradient of a tensor that needs one goes, a new tuple; null where it has no place yet.
define internal ptr @edge_for(ptr %front, ptr %tensor) #0 {{
entry:
  {header("name_grad_fn", "grad_fn")}
  {header("none", "none")}
  %node = call ptr @PyObject_GetAttr(ptr %tensor, ptr %grad_fn)
  %lost = icmp eq ptr %node, null
  br i1 %lost, label %clear, label %kind
kind:
  %leaf = icmp eq ptr %node, %none
  br i1 %leaf, label %end_of_graph, label %inside
inside:
  {header("name_output_nr", "output_nr")}
  %number = call ptr @PyObject_GetAttr(ptr %tensor, ptr %output_nr)
  %no_number = icmp eq ptr %number, null
  br i1 %no_number, label %drop, label %pack
drop:
  call void @Py_DecRef(ptr %node)
  br label %clear
end_of_graph:
  call void @Py_DecRef(ptr %node)
  {header("name_accumulate", "accumulate")}
  %known = call ptr @PyObject_GetAttr(ptr %tensor, ptr %accumulate)
  %failed = icmp eq ptr %known, null
  br i1 %failed, label %clear, label %accumulator
accumulator:
  %first_use = icmp eq ptr %known, %none
  br i1 %first_use, label %drop_none, label %zeroth
drop_none:
  call void @Py_DecRef(ptr %known)
  ret ptr null
zeroth:
  {header("zero", "zero")}
  call void @Py_IncRef(ptr %zero)
  br label %pack
pack:
  %target = phi ptr [%node, %inside], [%known, %zeroth]
  %index = phi ptr [%number, %inside], [%zero, %zeroth]
  %pair = call ptr (i64, ...) @PyTuple_Pack(i64 2, ptr %target, ptr %index)
  call void @Py_DecRef(ptr %target)
  call void @Py_DecRef(ptr %index)
  %no_pair = icmp eq ptr %pair, null
  br i1 %no_pair, label %clear, label %done
done:
  ret ptr %pair
clear:
  call void @PyErr_Clear()
  ret ptr null
}}
"""

SAVING = f"""
; A tensor kept for backward, a new `Saved`; %pair is its edge, null where it needs no gradient or
; is the result. Null where it may not be saved.
define internal ptr @saved_of(ptr %front, ptr %tensor, ptr %pair, ptr %is_output) #0 {{
entry:
  {header("name_inference", "inference")}
  {header("false", "false")}
  {header("none", "none")}
  {header("zero", "zero")}
  %usual = call i1 @has(ptr %tensor, ptr %inference, ptr %false)
  br i1 %usual, label %take, label %no
no:
  ret ptr null
take:
  {header("name_array", "name")}
  %array = call ptr @PyObject_GetAttr(ptr %tensor, ptr %name)
  %lost = icmp eq ptr %array, null
  br i1 %lost, label %clear, label %make
make:
  {header("saved", "kind")}
  %made = call ptr @PyType_GenericAlloc(ptr %kind, i64 0)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %drop, label %fill
fill:
  {number("array_storage", "at_storage")}
  {number("storage_version", "at_version")}
  %storage = call ptr @slot_of(ptr %array, i64 %at_storage)
  %version = call ptr @slot_of(ptr %storage, i64 %at_version)
  {number("saved_array", "to_array")}
  {number("saved_version", "to_version")}
  {number("saved_is_output", "to_is_output")}
  {number("saved_node", "to_node")}
  {number("saved_output_nr", "to_output_nr")}
  {number("saved_leaf", "to_leaf")}
  {number("saved_hooks", "to_hooks")}
  call void @set_slot(ptr %made, i64 %to_array, ptr %array)
  call void @Py_DecRef(ptr %array)
  call void @set_slot(ptr %made, i64 %to_version, ptr %version)
  call void @set_slot(ptr %made, i64 %to_is_output, ptr %is_output)
  call void @set_slot(ptr %made, i64 %to_hooks, ptr %none)
  %free = icmp eq ptr %pair, null
  br i1 %free, label %apart, label %connected
apart:
  call void @set_slot(ptr %made, i64 %to_node, ptr %none)
  call void @set_slot(ptr %made, i64 %to_output_nr, ptr %zero)
  call void @set_slot(ptr %made, i64 %to_leaf, ptr %none)
  ret ptr %made
connected:
  %node = call ptr @PyTuple_GetItem(ptr %pair, i64 0)
  %index = call ptr @PyTuple_GetItem(ptr %pair, i64 1)
  call void @set_slot(ptr %made, i64 %to_node, ptr %node)
  call void @set_slot(ptr %made, i64 %to_output_nr, ptr %index)
  {header("name_grad_fn", "grad_fn")}
  %is_leaf = call i1 @has(ptr %tensor, ptr %grad_fn, ptr %none)
  %leaf = select i1 %is_leaf, ptr %tensor, ptr %none
  call void @set_slot(ptr %made, i64 %to_leaf, ptr %leaf)
  ret ptr %made
drop:
  call void @Py_DecRef(ptr %array)
  br label %clear
clear:
  call void @PyErr_Clear()
  ret ptr null
}}

; The dict of what a node saves, or null.
define internal ptr @all_saved(ptr %front, ptr %recipe, ptr %values, ptr %pairs, ptr %out) #0 {{
entry:
  {recipe("saves", "count", "i64")}
  {recipe("result", "result")}
  {header("true", "true")}
  {header("false", "false")}
  %saved = call ptr @PyDict_New()
  %failed = icmp eq ptr %saved, null
  br i1 %failed, label %clear, label %more
more:
  %i = phi i64 [0, %entry], [%next, %put]
  %left = icmp ult i64 %i, %count
  br i1 %left, label %each, label %last
each:
  %twice = shl i64 %i, 1
  %name_at = add i64 %twice, {len(RECIPE)}
  %index_at = add i64 %name_at, 1
  %name.p = getelementptr i64, ptr %recipe, i64 %name_at
  %index.p = getelementptr i64, ptr %recipe, i64 %index_at
  %name = load ptr, ptr %name.p
  %index = load i64, ptr %index.p
  %value.p = getelementptr ptr, ptr %values, i64 %index
  %value = load ptr, ptr %value.p
  %is_tensor = call i1 @is_tensor(ptr %front, ptr %value)
  br i1 %is_tensor, label %tensor, label %number
tensor:
  %pair.p = getelementptr ptr, ptr %pairs, i64 %index
  %pair = load ptr, ptr %pair.p
  %kept = call ptr @saved_of(ptr %front, ptr %value, ptr %pair, ptr %false)
  %refused = icmp eq ptr %kept, null
  br i1 %refused, label %drop, label %put
number:
  call void @Py_IncRef(ptr %value)
  br label %put
put:
  %item = phi ptr [%kept, %tensor], [%value, %number]
  call i32 @PyDict_SetItem(ptr %saved, ptr %name, ptr %item)
  call void @Py_DecRef(ptr %item)
  %next = add i64 %i, 1
  br label %more
last:
  %none = icmp eq ptr %result, null
  br i1 %none, label %done, label %keep_result
keep_result:
  %own = call ptr @saved_of(ptr %front, ptr %out, ptr null, ptr %true)
  %no_own = icmp eq ptr %own, null
  br i1 %no_own, label %drop, label %put_result
put_result:
  call i32 @PyDict_SetItem(ptr %saved, ptr %result, ptr %own)
  call void @Py_DecRef(ptr %own)
  br label %done
done:
  ret ptr %saved
drop:
  call void @Py_DecRef(ptr %saved)
  br label %clear
clear:
  call void @PyErr_Clear()
  ret ptr null
}}
"""

RECORD = f"""
; The node of a run of %count operands, of which those in %mask need gradients; false, and nothing
; done, where Python has to make it.
define internal i1 @record(ptr %front, ptr %recipe, ptr %values, i64 %count, i64 %mask, ptr %out)
  #0 {{
entry:
  %pairs = alloca [{OPERANDS} x ptr]
  store [{OPERANDS} x ptr] zeroinitializer, ptr %pairs
  {recipe("wanted", "wanted", "i64")}
  {header("no_edge", "no_edge")}
  {header("no_arguments", "nothing")}
  {header("new_object", "new")}
  %edges = call ptr @PyTuple_New(i64 %count)
  %no_edges = icmp eq ptr %edges, null
  br i1 %no_edges, label %clear, label %each
each:
  %i = phi i64 [0, %entry], [%next, %edge]
  %place = getelementptr ptr, ptr %pairs, i64 %i
  %bit = shl i64 1, %i
  %asked = and i64 %mask, %bit
  %asks = icmp ne i64 %asked, 0
  br i1 %asks, label %ask, label %edge
ask:
  %value.p = getelementptr ptr, ptr %values, i64 %i
  %value = load ptr, ptr %value.p
  %pair = call ptr @edge_for(ptr %front, ptr %value)
  store ptr %pair, ptr %place
  %no_pair = icmp eq ptr %pair, null
  br i1 %no_pair, label %give_up, label %edge
edge:
  %held = load ptr, ptr %place
  %goes = and i64 %wanted, %bit
  %is_wanted = icmp ne i64 %goes, 0
  %shown = select i1 %is_wanted, ptr %held, ptr %no_edge
  call void @Py_IncRef(ptr %shown)
  call i32 @PyTuple_SetItem(ptr %edges, i64 %i, ptr %shown)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %each, label %gather
gather:
  {recipe("any_saved", "any_saved", "i64")}
  {header("nothing_saved", "empty")}
  %saves = icmp ne i64 %any_saved, 0
  br i1 %saves, label %save, label %plain
save:
  %made = call ptr @all_saved(ptr %front, ptr %recipe, ptr %values, ptr %pairs, ptr %out)
  %refused = icmp eq ptr %made, null
  br i1 %refused, label %give_up, label %make
plain:
  call void @Py_IncRef(ptr %empty)
  br label %make
make:
  %saved = phi ptr [%made, %save], [%empty, %plain]
  {recipe("kind", "kind")}
  {header("sequence", "sequence")}
  %node = call ptr %new(ptr %kind, ptr %nothing, ptr null)
  %order = call ptr @PyIter_Next(ptr %sequence)
  %no_node = icmp eq ptr %node, null
  %no_order = icmp eq ptr %order, null
  %bad = or i1 %no_node, %no_order
  br i1 %bad, label %give_back, label %fill
give_back:
  call void @Py_DecRef(ptr %saved)
  br label %give_up
fill:
  {recipe("out_specs", "specs")}
  {recipe("recipe", "known")}
  {number("node_edges", "at_edges")}
  {number("node_out_specs", "at_specs")}
  {number("node_sequence", "at_sequence")}
  {number("node_recipe", "at_recipe")}
  {number("node_saved", "at_saved")}
  call void @set_slot(ptr %node, i64 %at_edges, ptr %edges)
  call void @set_slot(ptr %node, i64 %at_specs, ptr %specs)
  call void @set_slot(ptr %node, i64 %at_sequence, ptr %order)
  call void @set_slot(ptr %node, i64 %at_recipe, ptr %known)
  call void @set_slot(ptr %node, i64 %at_saved, ptr %saved)
  call void @Py_DecRef(ptr %order)
  call void @Py_DecRef(ptr %saved)
  {header("name_grad_fn", "grad_fn")}
  {header("name_requires_grad", "requires_grad")}
  {header("true", "true")}
  call i32 @PyObject_SetAttr(ptr %out, ptr %grad_fn, ptr %node)
  call i32 @PyObject_SetAttr(ptr %out, ptr %requires_grad, ptr %true)
  call void @Py_DecRef(ptr %node)
  br label %free
give_up:
  call void @PyErr_Clear()
  br label %free
free:
  %result = phi i1 [true, %fill], [false, %give_up]
  call void @Py_DecRef(ptr %edges)
  br label %drop
drop:
  %j = phi i64 [0, %free], [%after, %dropped]
  %any = icmp ult i64 %j, %count
  br i1 %any, label %look, label %done
look:
  %pair_at = getelementptr ptr, ptr %pairs, i64 %j
  %old = load ptr, ptr %pair_at
  %is_null = icmp eq ptr %old, null
  br i1 %is_null, label %dropped, label %drop_pair
drop_pair:
  call void @Py_DecRef(ptr %old)
  br label %dropped
dropped:
  %after = add i64 %j, 1
  br label %drop
done:
  ret i1 %result
clear:
  call void @PyErr_Clear()
  ret i1 false
}}
"""
NODES = MODES + EDGES + SAVING + RECORD
