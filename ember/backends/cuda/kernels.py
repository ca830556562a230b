"""Calls become launches of CUDA kernels. What is not written for GPUs yet runs on the host, its
operands copied there and its results back: right, and shown by the ledger."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ember.backends import base
from ember.backends.cpu.kernels import arithmetic_type
from ember.backends.cuda import fused_attention, library
from ember.backends.cuda.arrays import LARGEST, address, is_large
from ember.backends.cuda.binding import BoundCalls
from ember.backends.cuda.cudnn import Cudnn
from ember.backends.cuda.draws import STATE
from ember.backends.cuda.driver import Driver, KernelFunction
from ember.backends.cuda.memory import CudaMemory
from ember.backends.cuda.packed import plan_rows, source_text, widest
from ember.backends.cuda.prelude import C_TYPES
from ember.backends.cuda.source import (
    ACROSS,
    ALONG,
    MAP,
    ROW_THREADS,
    ROWS,
    THREADS,
    Input,
    Program,
    supported,
)
from ember.backends.cuda.together import KINDS, inputs_of
from ember.dtypes import dtype as DType
from ember.errors import AcceleratorError
from ember.kernel.array import Array, Spec, spec_of
from ember.kernel.call import Call, LibraryCall, MapCall, ReduceCall
from ember.kernel.dims import Dim, collapsed, spread
from ember.scalar.expr import Expr, make, topological, var

Runner = Callable[..., Any]
BLOCKS_A_PROCESSOR = 8
BLOCKS_OF_PACKS = 1 << 12  # of maps whose threads take one pack each
LONG_ROW, VERY_LONG_ROW = 512, 8192  # elements from which a block, a large one, takes a row
CHUNK = 8192  # elements of a row that one block adds up where there are few rows


class CudaKernels(BoundCalls, base.Kernels):
    """The kernels of one GPU."""

    def __init__(self, driver: Driver, memory: CudaMemory):
        super().__init__(driver, memory)
        self.processors = driver.attribute(self.index, "MULTIPROCESSOR_COUNT")
        self._functions: dict[Program, KernelFunction] = {}
        self._blas: list[library.Blas] = []
        self._cudnn: list[Cudnn] = []
        self.cupy: Any = None  # once something needs it
        self.texts: dict[str, KernelFunction] = {}  # of hand-written kernels
        self.attentions: dict[Any, Any] = {}
        self._flag: list[Any] = []
        memory.kernels = self

    def flag(self) -> int:
        """The word, on the host, that kernels set when an index is out of range; looked at when
        something is read back."""
        if not self._flag:
            self._flag.append(self.driver.word(self.index))
        self.memory.doubtful = True
        return int(self._flag[0].ctypes.data)

    def check(self) -> None:
        """AcceleratorError if an index was out of range before the stream was last waited for."""
        self.memory.doubtful = False
        word = int(self._flag[0][0])
        if word:
            self._flag[0][0] = 0
            if word == 2:
                raise AcceleratorError(
                    "CUDA error: device-side assert triggered: Expected p_in >= 0 && p_in <= 1 to "
                    "be true, but got false: a probability before this line was none."
                )
            raise AcceleratorError(
                "CUDA error: device-side assert triggered: an index was out of bounds in an "
                "indexing, gather, scatter or embedding op before this line. Run the step on the "
                "CPU to see which one: there the error names the index and the dimension."
            )

    def put_state(self, address: int, seed: int, offset: int) -> None:
        """Write where a stream of random numbers is into the GPU's memory."""
        function = self.texts.get(STATE)
        if function is None:
            function = self.driver.compile(self.index, STATE).prepare(["p", "p", "p"])
            self.texts[STATE] = function
        function.launch((1, 1), 32, [address, seed, offset])

    def attends(self, *how: Any) -> bool:
        """Whether attention (of query, key and value, causal or not, with a scale) is one op."""
        return fused_attention.attends(self, *how)

    def cudnn(self) -> Cudnn:
        """cuDNN, loaded at the first convolution."""
        if not self._cudnn:
            self._cudnn.append(Cudnn(self.driver, self.index))
        return self._cudnn[0]

    def blas(self) -> library.Blas:
        """cuBLAS, loaded at the first product."""
        if not self._blas:
            self._blas.append(library.Blas(self.driver, self.index))
        return self._blas[0]

    # calls

    def prepare(self, call: Call) -> Runner:
        """The function that runs a call."""
        if isinstance(call, MapCall):
            found = self._prepare_map(call)
        elif isinstance(call, ReduceCall):
            found = self._prepare_reduce(call)
        else:
            assert isinstance(call, LibraryCall)
            found = library.prepare(self, call)
        return self._by_host(call) if found is None else found

    def function(self, program: Program, kinds: list[str]) -> KernelFunction:
        """The compiled kernel of a program."""
        found = self._functions.get(program)
        if found is None:
            found = self.driver.compile(self.index, source_text(program)).prepare(kinds)
            self._functions[program] = found
        return found

    # maps and row programs

    def _prepare_map(self, call: MapCall, asked: frozenset[int] = frozenset()) -> Runner | None:
        """The runner of a formula; in the place of the numbers at the positions `asked` it takes
        addresses."""
        inputs = self._inputs(call, asked)
        if inputs is None:
            return None
        compute = arithmetic_type(call.compute).name
        targets = [call.in_specs[p] for p in call.writes] if call.writes else list(call.out_specs)
        shape = call.out_specs[0].shape
        launch = self._plan(call, inputs, compute, targets, shape)
        arrays = [i for i, g in enumerate(inputs) if g.is_array]
        numbers = [i for i, g in enumerate(inputs) if not g.is_array]
        specs, writes = call.out_specs, call.writes
        if not writes and not numbers and len(specs) == 1 and specs[0].numel:
            return self._simple(specs[0], launch)

        def run(*operands: Any) -> Any:
            outs = [operands[p] for p in writes] if writes else [self.empty(spec) for spec in specs]
            if specs[0].numel:
                arguments = [address(operands[i]) for i in arrays]
                arguments += [address(out) for out in outs]
                arguments += [operands[i] for i in numbers]
                launch(arguments)
            return outs[0] if len(outs) == 1 else tuple(outs)

        return run

    def _inputs(self, call: MapCall, asked: frozenset[int]) -> tuple[Input, ...] | None:
        """The variables of a formula that is one kernel here; None of another."""
        inputs = inputs_of(call, asked)
        targets = [call.in_specs[p] for p in call.writes] if call.writes else call.out_specs
        if inputs is None or any(t.dtype.name not in C_TYPES for t in targets):
            return None
        if not supported(call.roots, inputs, arithmetic_type(call.compute).name):
            return None
        shape = call.out_specs[0].shape
        return None if any(t.shape != shape for t in targets) else inputs

    def joins(self, call: Call) -> bool:
        """Whether a formula is one kernel here."""
        if not isinstance(call, MapCall) or any(_is_recorded(s) for s in call.in_specs):
            return False  # numbers that change stay with an optimizer's update, which is gathered
        return self._inputs(call, frozenset()) is not None

    def _simple(self, spec: Spec, launch: Callable[[list[Any]], None]) -> Runner:
        """The runner of a map of arrays alone with one result."""
        empty = self.empty

        def run(*operands: Array) -> Array:
            out = empty(spec)
            arguments = [address(o) for o in operands]
            arguments.append(address(out))
            launch(arguments)
            return out

        return run

    def _plan(
        self,
        call: MapCall,
        inputs: tuple[Input, ...],
        compute: str,
        targets: list[Spec],
        shape: tuple[int, ...],
    ) -> Callable[[list[Any]], None]:
        specs = [s for s in call.in_specs if isinstance(s, Spec)]
        every = [spread(s, shape) for s in specs] + [t.strides for t in targets]
        order = list(range(len(shape)))
        if not call.axes:
            order.sort(key=lambda d: -targets[0].strides[d])
        dims = collapsed(shape, order, set(call.axes), every)
        large = is_large([*specs, *targets], call.out_specs[0].numel)
        outs = tuple(t.dtype.name for t in targets)
        if call.axes or _walks_rows(call):  # without axes the rows are single elements
            return self._row_launch(call.roots, inputs, outs, compute, dims, large)
        if len(dims) <= 1 and all(s == 1 for d in dims for s in d.strides):
            smallest = min(s.dtype.itemsize for s in [*specs, *targets])
            wide = 8 if smallest < 4 else 4
            program = Program(call.roots, inputs, outs, compute, MAP, wide=wide, large=large)
            return self._contiguous_launch(program, call.out_specs[0].numel)
        program = Program(call.roots, inputs, outs, compute, MAP, max(len(dims), 1), large=large)
        plain = self._map_launch(program, dims, call.out_specs[0].numel)
        packs = tuple(s == 1 for s in dims[-1].strides) if dims else ()
        kinds = [i.kind for i in inputs if i.is_array] + list(outs)
        if (
            not dims
            or not all(s in (0, 1) for s in dims[-1].strides)
            or not all(packs[-len(outs) :])
        ):
            return plain
        wide = widest(kinds, packs, dims)
        if wide == 1:
            return plain
        last = dims[-1]
        fewer = Dim(last.size // wide, [s * wide for s in last.strides], False)
        packed = self._map_launch(
            program._replace(wide=wide, packs=packs),
            [*dims[:-1], fewer],
            call.out_specs[0].numel // wide,
        )
        return either(packed, plain, packs)

    def _kinds(self, program: Program, geometry: int) -> list[str]:
        kinds = ["p"] * (sum(i.is_array for i in program.inputs) + len(program.outs))
        kinds += [KINDS[i.kind] for i in program.inputs if not i.is_array]
        return kinds + ["p" if program.large else "i"] * geometry

    def _blocks(self, work: int, a_block: int) -> int:
        return max(1, min(-(-work // a_block), self.processors * BLOCKS_A_PROCESSOR))

    def _contiguous_launch(self, program: Program, count: int) -> Callable[[list[Any]], None]:
        arrays = sum(i.is_array for i in program.inputs) + len(program.outs)
        single = program._replace(wide=1)
        grids = [
            min(-(-count // (THREADS * wide)), self.processors * BLOCKS_OF_PACKS)
            for wide in (program.wide, 1)
        ]
        packed = self._launch(program, [count], (max(grids[0], 1), 1))
        plain = self._launch(single, [count], (max(grids[1], 1), 1))
        return either(packed, plain, (True,) * arrays)

    def _launch(
        self, program: Program, geometry: list[int], grid: tuple[int, int], threads: int = THREADS
    ) -> Callable[[list[Any]], None]:
        """A function of arrays and numbers that runs a program, compiled at its first call."""
        found: list[Callable[[list[Any]], None]] = []

        def launch(arguments: list[Any]) -> None:
            if not found:
                function = self.function(program, self._kinds(program, len(geometry)))
                found.append(function.bound(grid, threads, geometry))
            found[0](arguments)

        return launch

    def _map_launch(
        self, program: Program, dims: list[Dim], count: int
    ) -> Callable[[list[Any]], None]:
        total = sum(i.is_array for i in program.inputs) + len(program.outs)
        dims = dims or [Dim(1, [0] * total, False)]
        geometry = [count, *(d.size for d in dims)]
        for i in range(total):
            geometry += [d.strides[i] for d in dims]
        return self._launch(program, geometry, (self._blocks(count, THREADS), 1))

    def _row_launch(
        self,
        roots: tuple[Expr, ...],
        inputs: tuple[Input, ...],
        outs: tuple[str, ...],
        compute: str,
        dims: list[Dim],
        large: bool,
        *,
        chunks: int = 0,
    ) -> Callable[[list[Any]], None]:
        """Launch a row program over dims; `chunks` for a reduction that stores one value a row."""
        total = sum(i.is_array for i in inputs) + len(outs)
        outer, row = [d for d in dims if not d.is_row], [d for d in dims if d.is_row]
        none = Dim(1, [0] * total, True)
        along = not dims or dims[-1].is_row
        outer, row = outer or [none], row or [none]
        rows, length = math.prod(d.size for d in outer), math.prod(d.size for d in row)
        chunk = -(-length // (16 * chunks)) * 16 if chunks else length
        threads = 32 if chunk <= LONG_ROW else 256 if chunk <= VERY_LONG_ROW else 1024
        program = Program(
            roots,
            inputs,
            outs,
            compute,
            ALONG if along else ACROSS,
            len(outer),
            len(row),
            threads if along else 32,
            total=bool(chunks),
            large=large,
        )
        geometry = [rows, length, chunk, *(d.size for d in outer), *(d.size for d in row)]
        for i in range(total):
            geometry += [d.strides[i] for d in outer] + [d.strides[i] for d in row]
        if not along:
            return self._rows_of(program, geometry, ROW_THREADS, ROW_THREADS, max(chunks, 1))
        packs = tuple(s == 1 for s in row[-1].strides)
        if chunks:
            packs = (*packs[:-1], False)
        program = program._replace(packs=packs)
        kinds = [i.kind for i in inputs if i.is_array] + list(outs)
        wide = widest(kinds, packs, [*outer, *row]) if any(packs) else 1
        single = self._packed_rows(program, geometry, chunk, max(chunks, 1))
        if wide == 1:
            return single
        program = program._replace(wide=wide)
        return either(self._packed_rows(program, geometry, chunk, max(chunks, 1)), single, packs)

    def _packed_rows(
        self, program: Program, geometry: list[int], chunk: int, chunks: int
    ) -> Callable[[list[Any]], None]:
        threads, keep = plan_rows(program, chunk)
        if program.total:
            threads, keep = program.threads, 0
        block = max(threads, ROW_THREADS)
        program = program._replace(threads=threads, keep=keep)
        return self._rows_of(program, geometry, block, block // threads, chunks)

    def _rows_of(
        self, program: Program, geometry: list[int], block: int, each: int, chunks: int
    ) -> Callable[[list[Any]], None]:
        """Launch a row program of which a block takes `each` rows."""
        along, rows = program.form == ALONG, geometry[0]
        grid = min(-(-rows // each), LARGEST - 1) if along else self._blocks(rows, each)
        return self._launch(program, geometry, (grid, chunks), block)

    # reductions

    def _prepare_reduce(self, call: ReduceCall) -> Runner | None:
        spec, out = call.in_specs[0], call.out_specs[0]
        accumulate = arithmetic_type(call.accumulate).name
        inputs = (Input("x", spec.dtype.name),)
        if spec.dtype.name not in C_TYPES or out.dtype.name not in C_TYPES:
            return None
        root = make(ROWS[call.combine], var("x")) if call.combine in ROWS else None
        if root is None or not supported((root,), inputs, accumulate) or not out.contiguous:
            return None
        if spec.numel == 0:
            return lambda a: self._full(out, call.zero)
        order = list(range(spec.ndim))
        dims = collapsed(spec.shape, order, set(call.axes), [spec.strides])
        dims = [Dim(d.size, [*d.strides, 0], d.is_row) for d in dims]
        rows = math.prod(d.size for d in dims if not d.is_row)
        chunks = self._chunks(rows, spec.numel // rows, not dims or dims[-1].is_row)
        large = is_large([spec], spec.numel)
        outs = (out.dtype.name,) if chunks == 1 else (accumulate,)
        first = self._row_launch((root,), inputs, outs, accumulate, dims, large, chunks=chunks)
        if chunks == 1:

            def once(a: Array) -> Array:
                made = self.empty(out)
                first([address(a), address(made)])
                return made

            return once
        partial = spec_of((chunks, rows), (rows, 1), DType.by_name[accumulate], spec.device)
        again = [Dim(chunks, [rows, 0], True), Dim(rows, [1, 0], False)]
        if rows == 1:
            again = [Dim(chunks, [1, 0], True)]
        second = self._row_launch(
            (root,),
            (Input("x", accumulate),),
            (out.dtype.name,),
            accumulate,
            again,
            False,
            chunks=1,
        )

        def twice(a: Array) -> Array:
            part, made = self.empty(partial), self.empty(out)
            first([address(a), address(part)])
            second([address(part), address(made)])
            return made

        return twice

    def _chunks(self, rows: int, length: int, along: bool) -> int:
        """Into how many parts long rows are cut, so that there is work for every processor."""
        wanted = self.processors * (4 if along else 512)
        if rows >= wanted or length < 2 * (CHUNK if along else 64):
            return 1
        return max(1, min(-(-wanted // rows), length // (CHUNK if along else 64), 65535))

    def _full(self, spec: Spec, value: Any) -> Array:
        made = self.empty(spec)
        self.fill(made, value)
        return made


def either(
    packed: Callable[[list[Any]], None],
    plain: Callable[[list[Any]], None],
    packs: tuple[bool, ...],
) -> Callable[[list[Any]], None]:
    """The first where the packed arrays lie at multiples of 16 bytes, else the second."""
    places = [i for i, is_packed in enumerate(packs) if is_packed]

    def launch(arguments: list[Any]) -> None:
        bits = 0
        for i in places:
            bits |= arguments[i]
        (plain if bits & 15 else packed)(arguments)

    return launch


def _is_recorded(spec: Any) -> bool:
    """Whether an operand is a number of a recording, another at each replay."""
    return isinstance(spec, type) and issubclass(spec, float) and spec is not float


def _walks_rows(call: MapCall) -> bool:
    return any(n.op.startswith("row_") for n in topological(call.roots))
