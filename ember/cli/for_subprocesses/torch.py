"""`torch` for the Python programs that a program under `ember run` starts: it is on their path."""

import os
import sys

try:
    import ember
except ModuleNotFoundError:  # not installed: `ember run` was started in a checkout
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))
    import ember
from ember import torch_alias

# The import system hands out what stands here when this file is done.
sys.modules[__name__] = ember
torch_alias.install()
