"""The LLVM assembly of the memory functions behind `allocator`.

A block begins with a header of 64 bytes on a page's first ones: a mark that depends on its address,
its capacity, the next block of its list, and its list. So an array's memory is one of these blocks
if it lies 64 bytes behind the beginning of a page and the mark is right. A list holds blocks of one
capacity; capacities are four to a power of two, and a request may take one of the next two lists.
"""

from __future__ import annotations

FIELDS = (
    "lock",
    "cached",
    "limit",
    "live",
    "peak",
    "hits",
    "misses",
    "context",
    "malloc",
    "calloc",
    "realloc",
    "free",
)
SMALLEST = 1 << 16
LARGEST = 1 << 40
CLASSES = 4 * 27
HEADER = 64
MARK = 0x1DEA5EED0DDBA11
HUGE = 4 << 20  # from here on, blocks ask for huge pages
LAZY = 32 << 20  # from here on, new zeros are pages that the system fills when they are touched


def _field(name: str, register: str) -> str:
    return f"%{register} = getelementptr i64, ptr %state, i64 {FIELDS.index(name)}"


LOCKING = f"""
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
declare i32 @madvise(ptr, i64, i32)
declare i32 @sched_yield()
declare ptr @memcpy(ptr, ptr, i64)
declare ptr @memset(ptr, i32, i64)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.umin.i64(i64, i64)

define i64 @ember_enter(ptr %state) #0 {{
entry:
  br label %again
again:
  %pair = cmpxchg ptr %state, i64 0, i64 1 acquire monotonic
  %mine = extractvalue {{i64, i1}} %pair, 1
  br i1 %mine, label %done, label %wait
wait:
  call i32 @sched_yield()
  br label %again
done:
  ret i64 0
}}

define i64 @ember_leave(ptr %state) #0 {{
  store atomic i64 0, ptr %state release, align 8
  ret i64 0
}}

define void @add(ptr %place, i64 %amount) #0 {{
  %old = load i64, ptr %place
  %new = add i64 %old, %amount
  store i64 %new, ptr %place
  ret void
}}

; The lock is held: gives every kept block back.
define i64 @drop(ptr %state) #0 {{
entry:
  {_field("cached", "cached")}
  %total = load i64, ptr %cached
  store i64 0, ptr %cached
  br label %each
each:
  %i = phi i64 [0, %entry], [%following, %emptied]
  %place = add i64 %i, {len(FIELDS)}
  %list = getelementptr i64, ptr %state, i64 %place
  br label %pop
pop:
  %block = load ptr, ptr %list
  %none = icmp eq ptr %block, null
  br i1 %none, label %emptied, label %give
give:
  %link = getelementptr i64, ptr %block, i64 2
  %next = load ptr, ptr %link
  store ptr %next, ptr %list
  store i64 0, ptr %block
  call void @free(ptr %block)
  br label %pop
emptied:
  %following = add i64 %i, 1
  %more = icmp ult i64 %following, {CLASSES}
  br i1 %more, label %each, label %end
end:
  ret i64 %total
}}

define i64 @ember_release(ptr %state) #0 {{
  call i64 @ember_enter(ptr %state)
  %total = call i64 @drop(ptr %state)
  call i64 @ember_leave(ptr %state)
  ret i64 %total
}}

; The block of an array's memory, or null where NumPy's own functions made it.
define ptr @block_of(ptr %memory) #0 {{
entry:
  %address = ptrtoint ptr %memory to i64
  %in_page = and i64 %address, 4095
  %looks = icmp eq i64 %in_page, {HEADER}
  br i1 %looks, label %check, label %other
check:
  %block = getelementptr i8, ptr %memory, i64 -{HEADER}
  %start = ptrtoint ptr %block to i64
  %expected = xor i64 %start, {MARK}
  %mark = load i64, ptr %block
  %ours = icmp eq i64 %mark, %expected
  br i1 %ours, label %yes, label %other
yes:
  ret ptr %block
other:
  ret ptr null
}}
"""

TAKING = f"""
; A kept block of a list or of the next two, or null.
define ptr @kept(ptr %state, i64 %class) #0 {{
entry:
  call i64 @ember_enter(ptr %state)
  %first = add i64 %class, {len(FIELDS)}
  %last = add i64 %first, 2
  br label %look
look:
  %i = phi i64 [%first, %entry], [%following, %further]
  %list = getelementptr i64, ptr %state, i64 %i
  %block = load ptr, ptr %list
  %none = icmp eq ptr %block, null
  br i1 %none, label %further, label %take
further:
  %following = add i64 %i, 1
  %over = icmp ugt i64 %following, %last
  br i1 %over, label %missed, label %look
take:
  %link = getelementptr i64, ptr %block, i64 2
  %next = load ptr, ptr %link
  store ptr %next, ptr %list
  %size = getelementptr i64, ptr %block, i64 1
  %capacity = load i64, ptr %size
  %less = sub i64 0, %capacity
  {_field("cached", "cached")}
  call void @add(ptr %cached, i64 %less)
  {_field("hits", "hits")}
  call void @add(ptr %hits, i64 1)
  call void @count(ptr %state, i64 %capacity)
  call i64 @ember_leave(ptr %state)
  ret ptr %block
missed:
  {_field("misses", "misses")}
  call void @add(ptr %misses, i64 1)
  call i64 @ember_leave(ptr %state)
  ret ptr null
}}

; The lock is held: bytes more (or less) are in use.
define void @count(ptr %state, i64 %bytes) #0 {{
  {_field("live", "live")}
  call void @add(ptr %live, i64 %bytes)
  %now = load i64, ptr %live
  {_field("peak", "peak")}
  %most = load i64, ptr %peak
  %higher = icmp sgt i64 %now, %most
  %new = select i1 %higher, i64 %now, i64 %most
  store i64 %new, ptr %peak
  ret void
}}

; A new block, or null where the system has none; what is kept goes before that.
define ptr @fresh(ptr %state, i64 %class, i64 %capacity) #0 {{
entry:
  %place = alloca ptr
  %large = icmp uge i64 %capacity, {HUGE}
  %alignment = select i1 %large, i64 2097152, i64 4096
  %status = call i32 @posix_memalign(ptr %place, i64 %alignment, i64 %capacity)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %made, label %retry
retry:
  call i64 @ember_release(ptr %state)
  %second = call i32 @posix_memalign(ptr %place, i64 %alignment, i64 %capacity)
  %better = icmp eq i32 %second, 0
  br i1 %better, label %made, label %never
never:
  ret ptr null
made:
  %block = load ptr, ptr %place
  br i1 %large, label %advise, label %mark
advise:
  call i32 @madvise(ptr %block, i64 %capacity, i32 14)
  br label %mark
mark:
  %start = ptrtoint ptr %block to i64
  %marked = xor i64 %start, {MARK}
  store i64 %marked, ptr %block
  %size = getelementptr i64, ptr %block, i64 1
  store i64 %capacity, ptr %size
  %number = getelementptr i64, ptr %block, i64 3
  store i64 %class, ptr %number
  call i64 @ember_enter(ptr %state)
  call void @count(ptr %state, i64 %capacity)
  call i64 @ember_leave(ptr %state)
  ret ptr %block
}}

; Memory of at least SMALLEST bytes; whether it is new goes to %is_new.
define ptr @large(ptr %state, i64 %bytes, ptr %is_new) #0 {{
entry:
  %all = add i64 %bytes, {HEADER - 1}
  %zeros = call i64 @llvm.ctlz.i64(i64 %all, i1 true)
  %exponent = sub i64 63, %zeros
  %shift = sub i64 %exponent, 2
  %quarters = lshr i64 %all, %shift
  %above = add i64 %quarters, 1
  %capacity = shl i64 %above, %shift
  %low = and i64 %quarters, 3
  %power = sub i64 %exponent, 16
  %four = shl i64 %power, 2
  %class = or i64 %four, %low
  %found = call ptr @kept(ptr %state, i64 %class)
  %none = icmp eq ptr %found, null
  store i1 %none, ptr %is_new
  br i1 %none, label %make, label %give
make:
  %made = call ptr @fresh(ptr %state, i64 %class, i64 %capacity)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %never, label %give
never:
  ret ptr null
give:
  %block = phi ptr [%found, %entry], [%made, %make]
  %memory = getelementptr i8, ptr %block, i64 {HEADER}
  ret ptr %memory
}}

define i1 @is_managed(i64 %bytes) #0 {{
  %beyond = sub i64 %bytes, {SMALLEST}
  %managed = icmp ult i64 %beyond, {LARGEST - SMALLEST}
  ret i1 %managed
}}
"""

FUNCTIONS = f"""
define ptr @ember_malloc(ptr %state, i64 %bytes) #0 {{
entry:
  %flag = alloca i1
  %managed = call i1 @is_managed(i64 %bytes)
  br i1 %managed, label %mine, label %numpy
mine:
  %memory = call ptr @large(ptr %state, i64 %bytes, ptr %flag)
  ret ptr %memory
numpy:
  {_field("malloc", "place")}
  %function = load ptr, ptr %place
  {_field("context", "theirs")}
  %context = load ptr, ptr %theirs
  %other = call ptr %function(ptr %context, i64 %bytes)
  ret ptr %other
}}

define ptr @ember_calloc(ptr %state, i64 %count, i64 %each) #0 {{
entry:
  %flag = alloca i1
  %bytes = mul i64 %count, %each
  %managed = call i1 @is_managed(i64 %bytes)
  %lazy = icmp uge i64 %bytes, {LAZY}
  %wide = or i64 %count, %each
  %huge = icmp ugt i64 %wide, {LARGEST}
  %no = or i1 %lazy, %huge
  %yes = xor i1 %no, true
  %take = and i1 %managed, %yes
  br i1 %take, label %mine, label %numpy
mine:
  %memory = call ptr @large(ptr %state, i64 %bytes, ptr %flag)
  %failed = icmp eq ptr %memory, null
  br i1 %failed, label %end, label %clear
clear:
  call ptr @memset(ptr %memory, i32 0, i64 %bytes)
  br label %end
end:
  ret ptr %memory
numpy:
  {_field("calloc", "place")}
  %function = load ptr, ptr %place
  {_field("context", "theirs")}
  %context = load ptr, ptr %theirs
  %other = call ptr %function(ptr %context, i64 %count, i64 %each)
  ret ptr %other
}}

define void @ember_free(ptr %state, ptr %memory, i64 %bytes) #0 {{
entry:
  %block = call ptr @block_of(ptr %memory)
  %theirs = icmp eq ptr %block, null
  br i1 %theirs, label %numpy, label %mine
numpy:
  {_field("free", "place")}
  %function = load ptr, ptr %place
  {_field("context", "which")}
  %context = load ptr, ptr %which
  call void %function(ptr %context, ptr %memory, i64 %bytes)
  ret void
mine:
  %size = getelementptr i64, ptr %block, i64 1
  %capacity = load i64, ptr %size
  %number = getelementptr i64, ptr %block, i64 3
  %class = load i64, ptr %number
  %less = sub i64 0, %capacity
  {_field("limit", "limited")}
  {_field("cached", "cached")}
  %limit = load i64, ptr %limited
  call i64 @ember_enter(ptr %state)
  call void @count(ptr %state, i64 %less)
  %too_large = icmp ugt i64 %capacity, %limit
  br i1 %too_large, label %give, label %fits
give:
  call i64 @ember_leave(ptr %state)
  store i64 0, ptr %block
  call void @free(ptr %block)
  ret void
fits:
  %now = load i64, ptr %cached
  %then = add i64 %now, %capacity
  %over = icmp ugt i64 %then, %limit
  br i1 %over, label %empty, label %keep
empty:
  call i64 @drop(ptr %state)
  br label %keep
keep:
  %index = add i64 %class, {len(FIELDS)}
  %list = getelementptr i64, ptr %state, i64 %index
  %head = load ptr, ptr %list
  %link = getelementptr i64, ptr %block, i64 2
  store ptr %head, ptr %link
  store ptr %block, ptr %list
  call void @add(ptr %cached, i64 %capacity)
  call i64 @ember_leave(ptr %state)
  ret void
}}

define ptr @ember_realloc(ptr %state, ptr %memory, i64 %bytes) #0 {{
entry:
  %block = call ptr @block_of(ptr %memory)
  %theirs = icmp eq ptr %block, null
  br i1 %theirs, label %numpy, label %mine
numpy:
  {_field("realloc", "place")}
  %function = load ptr, ptr %place
  {_field("context", "which")}
  %context = load ptr, ptr %which
  %other = call ptr %function(ptr %context, ptr %memory, i64 %bytes)
  ret ptr %other
mine:
  %size = getelementptr i64, ptr %block, i64 1
  %capacity = load i64, ptr %size
  %room = sub i64 %capacity, {HEADER}
  %new = call ptr @ember_malloc(ptr %state, i64 %bytes)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %end, label %move
move:
  %length = call i64 @llvm.umin.i64(i64 %room, i64 %bytes)
  call ptr @memcpy(ptr %new, ptr %memory, i64 %length)
  call void @ember_free(ptr %state, ptr %memory, i64 %room)
  br label %end
end:
  ret ptr %new
}}
"""


def allocator_text() -> str:
    """The module: ember_malloc, _calloc, _realloc and _free as NumPy calls them, _release, and
    _enter and _leave of its lock."""
    return LOCKING + TAKING + FUNCTIONS
