"""Formulas as LLVM functions over arrays, in three forms.

flat: element by element of contiguous arrays. along: row by row, the vectors lie along the row's
last dim (softmax over the last dim; any broadcast map). across: the vectors lie across rows, over
the last dim that is none of the row's (softmax over the channels of an image).

A row program runs in stages: stage s computes what needs s reductions of the row to be known, and
ends with the reductions of that stage. What is costly and needed in a later stage too is kept in a
scratch row. The function is a builtin of Python's (METH_FASTCALL) that takes the ndarrays and
numbers themselves:

    kernel(arrays..., outs..., numbers..., geometry, scratch, begin, end)

`geometry` holds int64: the length of the last row dim, of the row dim before it (1 if none), then
the lengths of the outer dims, then for each array its strides in elements: last row dim (across
only), the one before, outer dims. begin and end count elements (flat), rows (along), or rows of
blocks of columns (across: the last outer dim is the columns).
"""

from __future__ import annotations

from typing import NamedTuple

from ember.kernel.elements import load, load_one, mask_below, place, store
from ember.kernel.python_call import python_call
from ember.scalar.expr import Expr, topological
from ember.scalar.lowering import combine, is_boolean, is_costly, lower, select, start
from ember.scalar.primitives import ROW_REDUCTIONS
from ember.scalar.vectors import Vectors

FLAT, ALONG, ACROSS = "flat", "along", "across"


class Operand(NamedTuple):
    """A variable of the formulas: an array of an element type, `wide` if it changes along the
    vector's dim, or a number."""

    name: str
    element: str = "number"
    wide: bool = True


class Kernel(NamedTuple):
    """What is compiled: formulas over operands, the outs' element types, the form, how many outer
    dims the form has, which outs have one element for a row (along), and to which a result is added
    instead of being stored."""

    roots: tuple[Expr, ...]
    operands: tuple[Operand, ...]
    outs: tuple[str, ...]
    scalar: str
    lanes: int
    form: str
    outer: int = 0
    narrow: tuple[int, ...] = ()
    added: tuple[int, ...] = ()


class Loop:
    """Writes one kernel."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.b = Vectors(kernel.scalar, kernel.lanes)
        self.arrays = [o for o in kernel.operands if o.element != "number"]
        self.numbers = [o for o in kernel.operands if o.element == "number"]
        self.booleans = frozenset(o.name for o in self.arrays if o.element == "bool")
        self.by_name = {o.name: o for o in kernel.operands}
        self.order = topological(kernel.roots)
        self.stages = self._stages()
        self.last = max(self.stages[r] for r in kernel.roots)
        self.kept = self._kept()
        self.row: dict[Expr, str] = {}  # values that a whole row shares
        self.accumulators: dict[Expr, str] = {}  # where a reduction's running totals lie
        self.counters: dict[str, str] = {}
        self.splats: dict[str, str] = {}

    # what is computed when

    def _stages(self) -> dict[Expr, int]:
        found: dict[Expr, int] = {}
        for node in self.order:
            below = max((found[a] for a in node.args), default=0)
            found[node] = below + (node.op in ROW_REDUCTIONS)
        return found

    def _needed(self, stage: int) -> list[Expr]:
        """The nodes that the loop of a stage has to compute, arguments first."""
        ends = [
            n.args[0] for n in self.order if n.op in ROW_REDUCTIONS and self.stages[n] == stage + 1
        ]
        if stage == self.last:
            ends += [self.kernel.roots[i] for i in self._wide()]
        found: list[Expr] = []
        seen: set[Expr] = set()

        def visit(node: Expr) -> None:
            if node in seen:
                return
            seen.add(node)
            if node.op not in ROW_REDUCTIONS and not self._is_scratch(node, stage):
                for arg in node.args:
                    visit(arg)
            found.append(node)

        for end in ends:
            visit(end)
        return found

    def _wide(self) -> list[int]:
        """The outs with an element for each of the row's."""
        return [i for i in range(len(self.kernel.roots)) if i not in self.kernel.narrow]

    def _kept(self) -> dict[Expr, int]:
        """Costly nodes that several stages need, with the number of their scratch row."""
        self.kept = {}
        self.first: dict[Expr, int] = {}  # the stage that computes a node, not always its own
        uses: dict[Expr, int] = {}
        for stage in range(self.last + 1):
            for node in self._needed(stage):
                if is_costly(node) and self._varies(node):
                    self.first.setdefault(node, stage)
                    uses[node] = uses.get(node, 0) + 1
        return {n: i for i, n in enumerate(n for n, count in uses.items() if count > 1)}

    def _is_scratch(self, node: Expr, stage: int) -> bool:
        return node in self.kept and self.first[node] < stage

    def _varies(self, node: Expr) -> bool:
        """Whether a value differs from element to element of a row."""
        if node.op in ROW_REDUCTIONS:
            return False
        if node.op == "var":
            return self.by_name[node.value].element != "number"
        return any(self._varies(a) for a in node.args)

    # the function

    def text(self) -> str:
        """The whole module."""
        form = {FLAT: self._flat, ALONG: self._rows, ACROSS: self._rows}[self.kernel.form]
        count = len(self.arrays) + len(self.kernel.outs)
        arrays = [f"ptr %p{i}" for i in range(count)]
        numbers = [f"{self.kernel.scalar} %n{i}" for i in range(len(self.numbers))]
        form()
        arguments = ", ".join(
            [*arrays, *numbers, "ptr %geometry", "ptr %scratch", "i64 %begin", "i64 %end"]
        )
        body = "\n".join(self.b.lines)
        declared = "\n".join(sorted(self.b.declarations))
        return (
            f"{declared}\ndefine internal void @loop({arguments}) {{\nentry:\n{body}\n"
            f"  ret void\n}}\n{python_call(count, len(self.numbers), self.kernel.scalar)}"
        )

    def _flat(self) -> None:
        lanes = self.kernel.lanes
        self._row_values(0)
        self.splats = {
            o.name: load_one(self.b, o.element, f"%p{i}")
            for i, o in enumerate(self.arrays)
            if not o.wide
        }
        pointers = {i: f"%p{i}" for i in range(len(self.arrays) + len(self.kernel.outs))}
        self._vector_loop(0, pointers, "%begin", "%end", unrolled=lanes)

    def _rows(self) -> None:
        """For each row: where its arrays start, then the stages."""
        b = self.b
        self._memory()
        count = b.new("load i64, ptr %geometry")
        repeats = self._geometry(1)
        row, after = self._open("row", "%begin", "%end")
        starts = self._starts(row)
        for stage in range(self.last + 1):
            self._row_values(stage)
            if stage < self.last or self._wide():
                self._stage(stage, starts, count, repeats)
        self._store_narrow(starts)
        self._close(row, after)

    def _store_narrow(self, starts: dict[int, str]) -> None:
        b = self.b
        for position in self.kernel.narrow:
            value = self.row[self.kernel.roots[position]]
            one = b.new(f"extractelement {b.real} {value}, i64 0")
            b.do(f"store {self.kernel.scalar} {one}, ptr {starts[len(self.arrays) + position]}")

    def _geometry(self, position: int) -> str:
        place = self.b.new(f"getelementptr i64, ptr %geometry, i64 {position}")
        return self.b.new(f"load i64, ptr {place}")

    def _stride(self, array: int, which: int) -> str:
        """A stride of an array: which 0 is the last row dim's, 1 the one before, then outer."""
        outer = self.kernel.outer
        return self._geometry(2 + outer + array * (2 + outer) + which)

    def _memory(self) -> None:
        """Room for the accumulators of all stages and for the loops' counters."""
        b = self.b
        self.counters = {kind: b.new("alloca i64") for kind in ("row", "repeat", "down")}
        for node in self.order:
            if node.op in ROW_REDUCTIONS:
                self.accumulators[node] = b.new(f"alloca {b.real}, align 64")

    def _starts(self, row: str) -> dict[int, str]:
        """Pointers to the first element of a row in every array."""
        b, outer = self.b, self.kernel.outer
        total = len(self.arrays) + len(self.kernel.outs)
        offsets: dict[int, str] = dict.fromkeys(range(total), "0")
        rest = row
        across = self.kernel.form == ACROSS
        for dim in reversed(range(outer)):
            size = self._geometry(2 + dim)
            if across and dim == outer - 1:
                padded = b.new(f"add i64 {size}, {self.kernel.lanes - 1}")
                blocks = b.new(f"sdiv i64 {padded}, {self.kernel.lanes}")
                index = b.new(f"srem i64 {rest}, {blocks}")
                rest = b.new(f"sdiv i64 {rest}, {blocks}")
                index = b.new(f"mul i64 {index}, {self.kernel.lanes}")
                self.column, self.columns = index, size
            elif dim == 0:
                index = rest
            else:
                index = b.new(f"srem i64 {rest}, {size}")
                rest = b.new(f"sdiv i64 {rest}, {size}")
            for i in range(total):
                part = b.new(f"mul i64 {index}, {self._stride(i, 2 + dim)}")
                offsets[i] = b.new(f"add i64 {offsets[i]}, {part}")
        return {i: self._place(i, f"%p{i}", offsets[i]) for i in range(total)}

    def _element(self, array: int) -> str:
        count = len(self.arrays)
        return self.arrays[array].element if array < count else self.kernel.outs[array - count]

    def _place(self, array: int, base: str, offset: str) -> str:
        return place(self.b, self._element(array), base, offset)

    # loops

    def _open(self, kind: str, begin: str, end: str) -> tuple[str, tuple[str, ...]]:
        """Start `for index in range(begin, end)`; the index and what `_close` needs."""
        b = self.b
        counter = self.counters[kind]
        head, body, done = b.label("head"), b.label("body"), b.label("done")
        b.do(f"store i64 {begin}, ptr {counter}")
        b.go(head)
        b.begin(head)
        index = b.new(f"load i64, ptr {counter}")
        b.branch(b.new(f"icmp slt i64 {index}, {end}"), body, done)
        b.begin(body)
        return index, (counter, head, done)

    def _close(self, index: str, after: tuple[str, ...]) -> None:
        b = self.b
        counter, head, done = after
        b.do(f"store i64 {b.new(f'add i64 {index}, 1')}, ptr {counter}")
        b.go(head)
        b.begin(done)

    def _stage(self, stage: int, starts: dict[int, str], count: str, repeats: str) -> None:
        """The loops of one stage over the row, and its reductions' totals."""
        b = self.b
        reductions = self._reductions(stage)
        for node in reductions:
            b.do(f"store {b.real} {start(b, node.op)}, ptr {self.accumulators[node]}")
        index, after = self._open("repeat", "0", repeats)
        pointers = {}
        for i, first in starts.items():
            offset = b.new(f"mul i64 {index}, {self._stride(i, 1)}")
            pointers[i] = self._place(i, first, offset)
        self.scratch_start = b.new(f"mul i64 {index}, {count}")
        self.scratch_size = b.new(f"mul i64 {count}, {repeats}")
        self.splats = self._splats(stage, pointers)
        if self.kernel.form == ACROSS:
            self._column_loop(stage, pointers, count)
        else:
            self._vector_loop(stage, pointers, "0", count, unrolled=2 * self.kernel.lanes)
        self._close(index, after)
        for node in reductions:
            total = b.new(f"load {b.real}, ptr {self.accumulators[node]}")
            if self.kernel.form == ALONG:
                total = b.across(lambda x, y, op=node.op: combine(b, op, x, y), total)
            self.row[node] = total

    def _reductions(self, stage: int) -> list[Expr]:
        return [n for n in self.order if n.op in ROW_REDUCTIONS and self.stages[n] == stage + 1]

    def _splats(self, stage: int, pointers: dict[int, str]) -> dict[str, str]:
        """The values of arrays that are the same along the vectors."""
        if self.kernel.form == ACROSS:
            return {}
        read = {n.value for n in self._needed(stage) if n.op == "var"}
        return {
            o.name: load_one(self.b, o.element, pointers[i])
            for i, o in enumerate(self.arrays)
            if not o.wide and o.name in read
        }

    def _row_values(self, stage: int) -> None:
        """Values that do not differ within a row and are known before a stage: numbers, totals,
        and what is computed of them."""
        b = self.b
        for node in self.order:
            if node in self.row or self.stages[node] > stage or self._varies(node):
                continue
            if node.op in ROW_REDUCTIONS:
                continue  # of something constant: summed like any other
            if node.op == "var":
                position = self.numbers.index(self.by_name[node.value])
                self.row[node] = b.splat(f"%n{position}")
            elif node.op == "row_size":
                size = b.new(f"mul i64 {self._geometry(0)}, {self._geometry(1)}")
                self.row[node] = b.splat(b.new(f"sitofp i64 {size} to {self.kernel.scalar}"))
            elif all(a in self.row for a in node.args):
                self.row[node] = self._compute(node, self.row)

    def _compute(self, node: Expr, values: dict[Expr, str]) -> str:
        arguments = [values[a] for a in node.args]
        if node.op == "where":
            return select(self.b, arguments, is_boolean(node, self.booleans))
        return lower(self.b, node, arguments)

    def _vector_loop(
        self, stage: int, pointers: dict[int, str], begin: str, end: str, unrolled: int
    ) -> None:
        """Whole vectors, several at a time, then the rest under a mask."""
        b, lanes = self.b, self.kernel.lanes
        reductions = self._reductions(stage)
        length = b.new(f"sub i64 {end}, {begin}")
        whole = b.new(f"and i64 {length}, {-unrolled}")
        middle = b.new(f"add i64 {begin}, {whole}")
        self._counting(stage, pointers, reductions, begin, middle, unrolled // lanes, None)
        self._counting(stage, pointers, reductions, middle, end, 1, end)

    def _counting(
        self,
        stage: int,
        pointers: dict[int, str],
        reductions: list[Expr],
        begin: str,
        end: str,
        copies: int,
        limit: str | None,
    ) -> None:
        b, lanes = self.b, self.kernel.lanes
        before, body, done = b.label("before"), b.label("body"), b.label("done")
        b.go(before)
        b.begin(before)
        held = [b.new(f"load {b.real}, ptr {self.accumulators[n]}") for n in reductions]
        b.branch(b.new(f"icmp slt i64 {begin}, {end}"), body, done)
        b.begin(body)
        index = b.new("")  # a phi, completed below
        place = len(b.lines) - 1
        phis = []
        for _ in reductions:
            phis.append((b.new(""), len(b.lines) - 1))
        firsts = [start(b, n.op) for n in reductions]
        spare = [[(b.new(""), len(b.lines) - 1) for _ in reductions] for _ in range(copies - 1)]
        running = [[p for p, _ in phis], *[[p for p, _ in s] for s in spare]]
        ended = []
        for copy in range(copies):
            at = b.new(f"add i64 {index}, {copy * lanes}") if copy else index
            mask = mask_below(b, at, limit) if limit is not None else None
            ended.append(self._body(stage, pointers, reductions, at, mask, running[copy]))
        following = b.new(f"add i64 {index}, {copies * lanes}")
        again, last = b.new(f"icmp slt i64 {following}, {end}"), b.label("last")
        b.go(last)
        b.begin(last)
        b.branch(again, body, done)
        b.lines[place] += f"phi i64 [ {begin}, %{before} ], [ {following}, %{last} ]"
        for (_, line), value, new in zip(phis, held, ended[0], strict=True):
            b.lines[line] += f"phi {b.real} [ {value}, %{before} ], [ {new}, %{last} ]"
        for copy, group in enumerate(spare, 1):
            for (_, line), value, new in zip(group, firsts, ended[copy], strict=True):
                b.lines[line] += f"phi {b.real} [ {value}, %{before} ], [ {new}, %{last} ]"
        b.begin(done)
        joined = []
        for position in range(len(reductions)):
            ways = [[(held[position], before), (ended[0][position], last)]]
            ways += [[(firsts[position], before), (e[position], last)] for e in ended[1:]]
            joined.append([self._join(way) for way in ways])
        for node, (total, *rest) in zip(reductions, joined, strict=True):
            for part in rest:
                total = combine(b, node.op, total, part)
            b.do(f"store {b.real} {total}, ptr {self.accumulators[node]}")

    def _join(self, incoming: list[tuple[str, str]]) -> str:
        ways = ", ".join(f"[ {value}, %{block} ]" for value, block in incoming)
        return self.b.new(f"phi {self.b.real} {ways}")

    def _column_loop(self, stage: int, pointers: dict[int, str], count: str) -> None:
        """Down a block of columns: one vector a row element, under the block's mask."""
        b = self.b
        reductions = self._reductions(stage)
        mask = mask_below(b, self.column, self.columns)
        index, after = self._open("down", "0", count)
        totals = [b.new(f"load {b.real}, ptr {self.accumulators[n]}") for n in reductions]
        moved = {}
        for i, first in pointers.items():
            offset = b.new(f"mul i64 {index}, {self._stride(i, 0)}")
            moved[i] = self._place(i, first, offset)
        new = self._body(stage, moved, reductions, index, mask, totals)
        for node, total in zip(reductions, new, strict=True):
            b.do(f"store {b.real} {total}, ptr {self.accumulators[node]}")
        self._close(index, after)

    # one vector

    def _body(
        self,
        stage: int,
        pointers: dict[int, str],
        reductions: list[Expr],
        index: str,
        mask: str | None,
        totals: list[str],
    ) -> list[str]:
        """Compute a vector of every node that a stage needs; the new totals."""
        b = self.b
        values = dict(self.row)
        for node in self._needed(stage):
            if node in values:
                continue
            if node.op == "var":
                values[node] = self._variable(node.value, pointers, index, mask)
            elif self._is_scratch(node, stage):
                values[node] = b.new(f"load {b.real}, ptr {self._scratch(node, index)}, align 4")
            else:
                values[node] = self._compute(node, values)
                if node in self.kept:
                    place = self._scratch(node, index)
                    b.do(f"store {b.real} {values[node]}, ptr {place}, align 4")
        if stage == self.last:
            for position in self._wide():
                address = self._at(len(self.arrays) + position, pointers, index)
                element, value = self.kernel.outs[position], values[self.kernel.roots[position]]
                if position in self.kernel.added:
                    value = b.add(load(b, element, address, mask), value)
                store(b, element, value, address, mask)
        found = []
        for node, total in zip(reductions, totals, strict=True):
            new = combine(b, node.op, total, values[node.args[0]])
            found.append(b.select(mask, new, total) if mask is not None else new)
        return found

    def _scratch(self, node: Expr, index: str) -> str:
        """Where a kept value lies: rows of vectors, in the order of the loop."""
        b, lanes = self.b, self.kernel.lanes
        at = b.new(f"add i64 {self.scratch_start}, {index}")
        if self.kernel.form == ACROSS:
            at = b.new(f"mul i64 {at}, {lanes}")
            size = b.new(f"mul i64 {self.scratch_size}, {lanes}")
        else:
            size = b.new(f"add i64 {self.scratch_size}, {lanes}")
        skip = b.new(f"mul i64 {size}, {self.kept[node]}")
        place = b.new(f"add i64 {at}, {skip}")
        return b.new(f"getelementptr {self.kernel.scalar}, ptr %scratch, i64 {place}")

    def _variable(self, name: str, pointers: dict[int, str], index: str, mask: str | None) -> str:
        position = next(i for i, o in enumerate(self.arrays) if o.name == name)
        operand = self.arrays[position]
        if not operand.wide:
            if self.kernel.form == ACROSS:
                return load_one(self.b, operand.element, pointers[position])
            return self.splats[name]
        return load(self.b, operand.element, self._at(position, pointers, index), mask)

    def _at(self, array: int, pointers: dict[int, str], index: str) -> str:
        """The address of the vector at an index of the loop."""
        return self._place(array, pointers[array], "0" if self.kernel.form == ACROSS else index)


def kernel_text(kernel: Kernel) -> str:
    """The module of a kernel: `builtin` is what Python calls."""
    return Loop(kernel).text()


def scratch_elements(kernel: Kernel, row: int) -> int:
    """How many elements of scratch a kernel wants for rows of `row` elements."""
    kept = len(Loop(kernel).kept)
    each = row * kernel.lanes if kernel.form == ACROSS else row + kernel.lanes
    return kept * each
