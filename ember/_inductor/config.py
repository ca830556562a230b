"""The settings of `torch._inductor` that programs set: kept, without effect today."""

from types import SimpleNamespace

conv_1x1_as_mm = False
coordinate_descent_check_all_directions = False
coordinate_descent_tuning = False
epilogue_fusion = True
force_fuse_int_mm_with_mul = False
freezing = False
fx_graph_cache = True
max_autotune = False
max_autotune_gemm = False
use_mixed_mm = False
triton = SimpleNamespace(cudagraphs=False, cudagraph_trees=True, unique_kernel_names=True)
cpp = SimpleNamespace(threads=-1, weight_prepack=True)
