"""Ops declared by a formula."""

from pathlib import Path

import ember as torch
from ember.core.formula import FormulaOp


def test_the_readme_declares_an_op_that_works():
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    block = readme[readme.index("@elementwise") :].split("```")[0]
    source = "\n".join(line[2:] for line in block.splitlines()[1:])
    space = {}
    exec(source, space)
    x = torch.tensor([-1.0, 3.0], requires_grad=True)
    y = FormulaOp(space["softsign"])(x)
    assert y.tolist() == [-0.5, 0.75]
    y.sum().backward()
    assert x.grad.tolist() == [0.25, 0.0625]
