"""The kernels' text is of no one processor: all of it becomes AArch64 code too."""

import os
import subprocess
import sys

PROGRAM = """
import llvmlite.binding as llvm
import ember as torch
from ember.backends.cpu import native
from ember.nn import functional as F

x = torch.randn(64, 300, requires_grad=True)
loss = F.layer_norm(x, (300,)).pow(2).sum() + torch.softmax(F.gelu(x.exp().tanh()), 1).sum()
loss.backward()
torch.optim.AdamW([x]).step()
image = torch.randn(4, 16, 32, 32, requires_grad=True)
convolved = torch.nn.Conv2d(16, 32, 3, padding=1)(image)
torch.nn.Conv2d(32, 32, 3, groups=32)(convolved).relu().sum().backward()
F.cross_entropy(torch.randn(64, 100, requires_grad=True), torch.randint(100, (64,))).backward()
for shape in ((4, 16, 9, 9), (33, 20)):
    norm = (torch.nn.BatchNorm2d if len(shape) == 4 else torch.nn.BatchNorm1d)(shape[1])
    norm(torch.randn(shape, requires_grad=True)).sum().backward()
query = torch.randn(2, 4, 130, 32, requires_grad=True)
F.scaled_dot_product_attention(query, query, query).sum().backward()
for layer in (torch.nn.LSTM(32, 64), torch.nn.GRU(32, 64)):
    layer(torch.randn(9, 8, 32))[0].sum().backward()
wide = torch.randn(100, 1000)
torch.cumsum(wide, 1), torch.topk(wide, 5), torch.sort(wide), wide.double().exp(), wide @ wide.t()
for f in (torch.sin, torch.log, torch.log1p, torch.erf, torch.sigmoid, torch.sqrt, torch.expm1):
    f(wide.abs())

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
triple = "aarch64-unknown-linux-gnu"
machine = llvm.Target.from_triple(triple).create_target_machine(cpu="generic", features="", opt=2)
for text in native._builtins:
    assert "x86" not in text
    module = llvm.parse_assembly(text + "attributes #0 = { nounwind }")
    module.triple = triple
    assert machine.emit_object(module)[:4] == bytes([0x7F]) + b"ELF"
print(len(native._builtins))
"""


def test_every_kernel_compiles_for_aarch64():
    environment = dict(os.environ, EMBER_VECTOR_BITS="128")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 12
