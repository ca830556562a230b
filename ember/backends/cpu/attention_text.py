"""Attention of float32 heads and its gradients as LLVM functions: a head is done tile by tile of
queries, and all that a tile needs stays in the cache (Dao et al., arXiv:2205.14135).

The functions read rows of neighbours at any steps, so the parts of a joint projection are read
where they lie, and gradients may be written there.
"""

from __future__ import annotations

from functools import lru_cache

from ember.backends.cpu.panel_text import at, sizes, turned
from ember.backends.cpu.small_products import write_product
from ember.kernel.elements import load, mask_below, store
from ember.kernel.nests import close_loop, open_loop, sum_of_products
from ember.kernel.python_call import python_call
from ember.scalar.expr import Expr, topological, var
from ember.scalar.lowering import combine, is_boolean, lower, select, start
from ember.scalar.primitives import exp, log, where
from ember.scalar.vectors import Vectors

LEAST_EXPONENT = -87.0  # exp of less is no normal number: taken as 0, which is fast
_x = var("x")
EXP = where(_x < LEAST_EXPONENT, 0.0, exp(where(_x < LEAST_EXPONENT, LEAST_EXPONENT, _x)))
LOG = log(_x)
PARTS = ("kt", "vt", "weights", "changes")  # of the scratch, in this order

Tiles = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]  # for keys, features, values


def _value(b: Vectors, formula: Expr, x: str) -> str:
    """A formula of x."""
    values: dict[Expr, str] = {}
    for node in topological((formula,)):
        given = [values[a] for a in node.args]
        if node.op == "var":
            values[node] = x
        elif node.op == "where":
            values[node] = select(b, given, is_boolean(node, frozenset()))
        else:
            values[node] = lower(b, node, given)
    return values[formula]


class Module:
    """Internal functions, each of pointers and integers, and what they declare."""

    def __init__(self, lanes: int):
        self.lanes, self.texts = lanes, [""]
        self.declarations: set[str] = set()

    def begin(self) -> Vectors:
        """A new function's body."""
        return Vectors("float", self.lanes)

    def end(self, b: Vectors, name: str, pointers: list[str], numbers: list[str]) -> None:
        """Add a function."""
        self.declarations |= b.declarations
        given = [f"ptr noalias %{p}" for p in pointers] + [f"i64 %{n}" for n in numbers]
        body = "\n".join(b.lines)
        self.texts.append(
            f"define internal void @{name}({', '.join(given)}) noinline {{\nentry:\n{body}\n"
            "  ret void\n}\n"
        )

    def text(self) -> str:
        """All of them."""
        return "\n".join([*sorted(self.declarations), *self.texts])


def call(b: Vectors, name: str, pointers: list[str], numbers: list[str]) -> None:
    """Call a function of a module."""
    given = [f"ptr {p}" for p in pointers] + [f"i64 {n}" for n in numbers]
    b.do(f"call void @{name}({', '.join(given)})")


def product(module: Module, name: str, tile: tuple[int, int], adds: bool) -> None:
    """name(right, left, out, rows, terms, columns, left's steps by row and column, right's and
    out's by row)."""
    b = module.begin()
    wide = tile[1] * b.lanes
    blocks = b.new(f"sdiv i64 {b.new(f'add i64 %wide, {wide - 1}')}, {wide}")
    steps = ["%left_row", "%left_column", "%right_row", "%out_row"]
    pointers, numbers = ("%right", "%left", "%out"), ("%made", "%count", "%wide")
    write_product(b, tile, pointers, numbers, steps, ("0", blocks), adds)
    names = ["made", "count", "wide", "left_row", "left_column", "right_row", "out_row"]
    module.end(b, name, ["right", "left", "out"], names)


def transpose(module: Module) -> None:
    """transpose(source, to, factor, rows, columns, step, pitch): to[c · pitch + r] becomes factor ·
    source[r · step + c]; writes whole squares of vectors."""
    b = module.begin()
    factor = b.splat(b.new("load float, ptr %factor"))
    last = b.new("sub i64 %rows, 1")
    down = open_loop(b, "0", "%rows", b.lanes)
    across = open_loop(b, "0", "%columns", b.lanes)
    mask, square = mask_below(b, across.index, "%columns"), []
    for i in range(b.lanes):
        row = b.new(f"add i64 {down.index}, {i}")
        past = b.new(f"icmp sgt i64 {row}, {last}")
        row = b.new(f"select i1 {past}, i64 {last}, i64 {row}")
        place = at(b, "%source", sum_of_products(b, (row, "%step"), (across.index, 1)))
        square.append(load(b, "float", place, mask))
    for i, vector in enumerate(turned(b, square)):
        column = b.new(f"add i64 {across.index}, {i}")
        place = at(b, "%to", sum_of_products(b, (column, "%pitch"), (down.index, 1)))
        store(b, "float", b.mul(vector, factor), place, None)
    close_loop(b, across)
    close_loop(b, down)
    module.end(b, "transpose", ["source", "to", "factor"], ["rows", "columns", "step", "pitch"])


def _limit(b: Vectors, row: str) -> str:
    """How many keys a row of a tile attends to."""
    own = b.new(f"add i64 %first, {b.new(f'mul i64 {row}, %more')}")
    less = b.new(f"icmp slt i64 {own}, %count")
    return b.new(f"select i1 {less}, i64 {own}, i64 %count")


def _softmax(module: Module) -> None:
    """softmax(scores, sums, rows, count, pitch, first, more): rows become their softmax over the
    first first + more · row keys, 0 after those, and sums the logs of the sums of exp."""
    b = module.begin()
    rows = open_loop(b, "0", "%rows")
    line = at(b, "%scores", b.new(f"mul i64 {rows.index}, %pitch"))
    limit = _limit(b, rows.index)
    loop = open_loop(b, "0", limit, b.lanes, ((b.real, start(b, "row_max")),))
    mask = mask_below(b, loop.index, limit)
    score = load(b, "float", at(b, line, loop.index), mask)
    greater = combine(b, "row_max", loop.carried[0], score)
    (top,) = close_loop(b, loop, [b.select(mask, greater, loop.carried[0])])
    top = b.across(lambda x, y: combine(b, "row_max", x, y), top)
    loop = open_loop(b, "0", "%count", b.lanes, ((b.real, b.number(0.0)),))
    mask = mask_below(b, loop.index, limit)
    place = at(b, line, loop.index)
    e = _value(b, EXP, b.sub(load(b, "float", place, mask), top))
    e = b.select(mask, e, b.number(0.0))
    store(b, "float", e, place, None)
    (total,) = close_loop(b, loop, [b.add(loop.carried[0], e)])
    total = b.across(b.add, total)
    loop = open_loop(b, "0", "%count", b.lanes)
    place = at(b, line, loop.index)
    share = b.div(b.number(1.0), total)
    store(b, "float", b.mul(load(b, "float", place, None), share), place, None)
    close_loop(b, loop)
    log_sum = b.new(f"extractelement {b.real} {b.add(top, _value(b, LOG, total))}, i64 0")
    b.do(f"store float {log_sum}, ptr {at(b, '%sums', rows.index)}")
    close_loop(b, rows)
    module.end(b, "softmax", ["scores", "sums"], ["rows", "count", "pitch", "first", "more"])


def _weights(module: Module) -> None:
    """weights(scores, sums, rows, count, pitch, first, more): the same from the known sums."""
    b = module.begin()
    rows = open_loop(b, "0", "%rows")
    line = at(b, "%scores", b.new(f"mul i64 {rows.index}, %pitch"))
    limit = _limit(b, rows.index)
    known = b.splat(b.new(f"load float, ptr {at(b, '%sums', rows.index)}"))
    loop = open_loop(b, "0", "%count", b.lanes)
    mask, place = mask_below(b, loop.index, limit), at(b, line, loop.index)
    weight = _value(b, EXP, b.sub(load(b, "float", place, mask), known))
    store(b, "float", b.select(mask, weight, b.number(0.0)), place, None)
    close_loop(b, loop)
    close_loop(b, rows)
    module.end(b, "weights", ["scores", "sums"], ["rows", "count", "pitch", "first", "more"])


def _slopes(module: Module) -> None:
    """slopes(weights, changes, g, out, factor, rows, count, pitch, features, g_row, out_row):
    changes become factor · weights · (changes − g · out)."""
    b = module.begin()
    factor = b.splat(b.new("load float, ptr %factor"))
    rows = open_loop(b, "0", "%rows")
    g = at(b, "%g", b.new(f"mul i64 {rows.index}, %g_row"))
    out = at(b, "%out", b.new(f"mul i64 {rows.index}, %out_row"))
    loop = open_loop(b, "0", "%features", b.lanes, ((b.real, b.number(0.0)),))
    mask = mask_below(b, loop.index, "%features")
    one, other = (load(b, "float", at(b, p, loop.index), mask) for p in (g, out))
    (mean,) = close_loop(b, loop, [b.fma(one, other, loop.carried[0])])
    mean = b.across(b.add, mean)
    begin = b.new(f"mul i64 {rows.index}, %pitch")
    loop = open_loop(b, "0", "%count", b.lanes)
    place = at(b, at(b, "%changes", begin), loop.index)
    weight = load(b, "float", at(b, at(b, "%weights", begin), loop.index), None)
    change = b.sub(load(b, "float", place, None), mean)
    store(b, "float", b.mul(b.mul(weight, change), factor), place, None)
    close_loop(b, loop)
    close_loop(b, rows)
    pointers = ["weights", "changes", "g", "out", "factor"]
    names = ["rows", "count", "pitch", "features", "g_row", "out_row"]
    module.end(b, "slopes", pointers, names)


class Heads:
    """The loop over heads that is being written: the sizes, and where the arrays of a head lie.

    Geometry: queries, keys, features, values, queries of a tile, 1 if causal, heads of the inner
    dim, elements from row to row of the scratch; then steps by outer head, inner head and row of
    each array.
    """

    def __init__(self, module: Module, arrays: list[str]):
        self.b = b = module.begin()
        names = [f"{array}_{step}" for array in arrays for step in ("outer", "inner", "row")]
        known = sizes(b, 8 + len(names))
        self.queries, self.keys, self.features, self.values = known[:4]
        self.tile, self.causal, inner, self.pitch = known[4:8]
        self.step = dict(zip(names, known[8:], strict=True))
        self.is_causal = b.new(f"icmp ne i64 {self.causal}, 0")
        self.loop = open_loop(b, "%begin", "%end")
        outer = b.new(f"sdiv i64 {self.loop.index}, {inner}")
        rest = b.new(f"srem i64 {self.loop.index}, {inner}")
        self.start = {}
        for i, array in enumerate(arrays):
            by_outer, by_inner = self.step[f"{array}_outer"], self.step[f"{array}_inner"]
            offset = sum_of_products(b, (outer, by_outer), (rest, by_inner))
            self.start[array] = at(b, f"%p{i}", offset)
        sums = b.new(f"mul i64 {self.loop.index}, {self.queries}")
        self.start["sums"] = at(b, f"%p{len(arrays)}", sums)

    def row(self, array: str, number: str) -> str:
        """The address of a row."""
        by = self.b.new(f"mul i64 {number}, {self.step[array + '_row']}")
        return at(self.b, self.start[array], by)

    def scratch(self) -> list[str]:
        """The keys turned, the values turned, a tile's weights and their gradients."""
        b, lanes = self.b, self.b.lanes
        size, found = "0", []
        for count in (self.features, self.values, self.tile):
            found.append(at(b, "%scratch", size))
            padded = b.new(f"and i64 {b.new(f'add i64 {count}, {lanes - 1}')}, {-lanes}")
            part = b.new(f"mul i64 {padded}, {self.pitch}")
            size = b.new(f"add i64 {size}, {part}")
        return [*found, at(b, "%scratch", size)]

    def tiles(self, carried: tuple[tuple[str, str], ...] = ()) -> None:
        """Start the loop over tiles: how many queries and keys they have, and how many keys its
        first query attends to."""
        b = self.b
        size = b.new(f"sub i64 {self.queries}, 1")
        count = b.new(f"add i64 {b.new(f'sdiv i64 {size}, {self.tile}')}, 1")
        self.inside = open_loop(b, "0", count, 1, carried)
        self.first = b.new(f"mul i64 {self.inside.index}, {self.tile}")
        end = self._smaller(b.new(f"add i64 {self.first}, {self.tile}"), self.queries)
        self.rows = b.new(f"sub i64 {end}, {self.first}")
        own = self._smaller(end, self.keys)
        self.count = b.new(f"select i1 {self.is_causal}, i64 {own}, i64 {self.keys}")
        one = b.new(f"add i64 {self.first}, 1")
        self.seen = b.new(f"select i1 {self.is_causal}, i64 {one}, i64 {self.keys}")

    def _smaller(self, x: str, y: str) -> str:
        less = self.b.new(f"icmp slt i64 {x}, {y}")
        return self.b.new(f"select i1 {less}, i64 {x}, i64 {y}")

    def text(self, module: Module, arrays: int) -> str:
        """The whole module."""
        close_loop(self.b, self.loop)
        pointers = [f"p{i}" for i in range(arrays)] + ["geometry", "scratch"]
        module.end(self.b, "loop", pointers, ["begin", "end"])
        return module.text() + python_call(arrays, 0, "float")


@lru_cache(maxsize=32)
def forward_text(lanes: int, tiles: Tiles) -> str:
    """builtin(q, k, v, out, sums, factor, geometry, scratch, begin, end) for heads begin..end."""
    module = Module(lanes)
    by_keys, _, by_values = tiles
    product(module, "to_keys", by_keys, False)
    product(module, "to_values", by_values, False)
    transpose(module)
    _softmax(module)
    h = Heads(module, ["q", "k", "v", "out"])
    b, pitch = h.b, h.pitch
    kt, _, weights, _ = h.scratch()
    key = [h.keys, h.features, h.step["k_row"], pitch]
    call(b, "transpose", [h.start["k"], kt, "%p5"], key)
    h.tiles()
    steps = [h.rows, h.features, h.count, h.step["q_row"], "1", pitch, pitch]
    call(b, "to_keys", [kt, h.row("q", h.first), weights], steps)
    sums = at(b, h.start["sums"], h.first)
    call(b, "softmax", [weights, sums], [h.rows, h.count, pitch, h.seen, h.causal])
    steps = [h.rows, h.count, h.values, pitch, "1", h.step["v_row"], h.step["out_row"]]
    call(b, "to_values", [h.start["v"], weights, h.row("out", h.first)], steps)
    close_loop(b, h.inside)
    return h.text(module, 6)


@lru_cache(maxsize=32)
def backward_text(lanes: int, tiles: Tiles) -> str:
    """builtin(q, k, v, out, g, dq, dk, dv, sums, factor, one, geometry, scratch, begin, end) for
    heads begin..end; `one` is 1.

    Rows of dk and dv get what the first tile that reaches them gives, and then more.
    """
    module = Module(lanes)
    for name, tile in zip(("keys", "features", "values"), tiles, strict=True):
        product(module, f"to_{name}", tile, False)
        product(module, f"more_{name}", tile, True)
    transpose(module)
    _weights(module)
    _slopes(module)
    h = Heads(module, ["q", "k", "v", "out", "g", "dq", "dk", "dv"])
    b, pitch = h.b, h.pitch
    kt, vt, weights, changes = h.scratch()
    key = [h.keys, h.features, h.step["k_row"], pitch]
    call(b, "transpose", [h.start["k"], kt, "%p9"], key)
    value = [h.keys, h.values, h.step["v_row"], pitch]
    call(b, "transpose", [h.start["v"], vt, "%p10"], value)
    h.tiles((("i64", "0"),))
    before = h.inside.carried[0]
    q, g = h.row("q", h.first), h.row("g", h.first)
    steps = [h.rows, h.features, h.count, h.step["q_row"], "1", pitch, pitch]
    call(b, "to_keys", [kt, q, weights], steps)
    sums = at(b, h.start["sums"], h.first)
    call(b, "weights", [weights, sums], [h.rows, h.count, pitch, h.seen, h.causal])
    _by_keys(h, "values", "dv", weights, (g, "g"), h.values, before)
    steps = [h.rows, h.values, h.count, h.step["g_row"], "1", pitch, pitch]
    call(b, "to_keys", [vt, g, changes], steps)
    numbers = [h.rows, h.count, pitch, h.values, h.step["g_row"], h.step["out_row"]]
    call(b, "slopes", [weights, changes, g, h.row("out", h.first), "%p9"], numbers)
    steps = [h.rows, h.count, h.features, pitch, "1", h.step["k_row"], h.step["dq_row"]]
    call(b, "to_features", [h.start["k"], changes, h.row("dq", h.first)], steps)
    _by_keys(h, "features", "dk", changes, (q, "q"), h.features, before)
    (seen,) = close_loop(b, h.inside, [h.count])
    left = b.new(f"sub i64 {h.keys}, {seen}")
    for array, name, wide in (("dk", "features", h.features), ("dv", "values", h.values)):
        steps = [left, "0", wide, "0", "0", "0", h.step[array + "_row"]]
        call(b, f"to_{name}", [kt, kt, h.row(array, seen)], steps)
    return h.text(module, 11)


def _by_keys(
    h: Heads, name: str, array: str, left: str, right: tuple[str, str], wide: str, before: str
) -> None:
    """Add the product of a turned tile and rows to the rows of keys up to `before`, and write it
    to those after."""
    pointer, source = right
    new = h.b.new(f"sub i64 {h.count}, {before}")
    for kind, first, rows in (("more", "0", before), ("to", before, new)):
        steps = [rows, h.rows, wide, "1", h.pitch]
        steps += [h.step[source + "_row"], h.step[array + "_row"]]
        places = [pointer, at(h.b, left, first), h.row(array, first)]
        call(h.b, f"{kind}_{name}", places, steps)
