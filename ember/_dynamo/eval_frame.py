"""`OptimizedModule` and `disable` where PyTorch keeps them."""

from ember.compiler.eager import OptimizedModule
from ember.compiler.marks import disable, set_stance

__all__ = ["OptimizedModule", "disable", "set_stance"]
