"""Bad input to gradients, modules, losses, random numbers, optimizers, other devices."""


def leaf(torch, *values):
    return torch.tensor(list(values), requires_grad=True)


# what: (the attempt, the exception, the words that say what is wrong)
TRAINING = {
    "int grad": (
        lambda torch: torch.tensor([1], requires_grad=True),
        RuntimeError,
        "nly Tensors of floating point and complex dtype can require gradients",
    ),
    "cross entropy range": (
        lambda torch: torch.nn.functional.cross_entropy(torch.ones(2, 3), torch.tensor([0, 5])),
        IndexError,
        "Target 5 is out of bounds.",
    ),
    "cross entropy shape": (
        lambda torch: torch.nn.functional.cross_entropy(torch.ones(2, 3), torch.tensor([0])),
        ValueError,
        "Expected input batch_size (2) to match target batch_size (1).",
    ),
    "cross entropy dtype": (
        lambda torch: torch.nn.functional.cross_entropy(torch.ones(2, 3), torch.tensor([0.0, 1.0])),
        RuntimeError,
        "expected target dtype to be Long or Byte, but got Float",
    ),
    "nll 1": (
        lambda torch: torch.nn.functional.nll_loss(torch.ones(2, 3), torch.tensor([0, -5])),
        IndexError,
        "Target -5 is out of bounds.",
    ),
    "embedding range": (
        lambda torch: torch.nn.functional.embedding(torch.tensor([5]), torch.ones(2, 3)),
        IndexError,
        "index out of range in self",
    ),
    "embedding type": (
        lambda torch: torch.nn.functional.embedding(torch.tensor([1.0]), torch.ones(2, 3)),
        RuntimeError,
        "Expected tensor for argument #1 'indices' to have one of the",
    ),
    "linear shape": (
        lambda torch: torch.nn.Linear(3, 2)(torch.ones(2, 2)),
        RuntimeError,
        "mat1 and mat2 shapes cannot be multiplied (2x2 and 3x2)",
    ),
    "linear dtype": (
        lambda torch: torch.nn.Linear(2, 2)(torch.ones(2, 2, dtype=torch.float64)),
        RuntimeError,
        "mat1 and mat2 must have the same dtype, but got Double and Float",
    ),
    "linear int": (
        lambda torch: torch.nn.Linear(2, 2)(torch.ones(2, 2, dtype=torch.int64)),
        RuntimeError,
        "mat1 and mat2 must have the same dtype, but got Long and Float",
    ),
    "conv channels": (
        lambda torch: torch.nn.Conv2d(3, 2, 3)(torch.ones(1, 2, 5, 5)),
        RuntimeError,
        "Given groups=1, weight of size [2, 3, 3, 3], expected input[1, 2, 5,",
    ),
    "conv small": (
        lambda torch: torch.nn.Conv2d(1, 1, 3)(torch.ones(1, 1, 2, 2)),
        RuntimeError,
        "Calculated padded input size per channel: (2 x 2). Kernel size: (3 x",
    ),
    "conv dims": (
        lambda torch: torch.nn.Conv2d(1, 1, 3)(torch.ones(5, 5)),
        RuntimeError,
        "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got",
    ),
    "pool": (
        lambda torch: torch.nn.functional.max_pool2d(torch.ones(1, 1, 2, 2), 3),
        RuntimeError,
        "2). Calculated output size: (",
    ),
    "bn": (
        lambda torch: torch.nn.BatchNorm1d(3)(torch.ones(1, 3)),
        ValueError,
        "Expected more than 1 value per channel when training, got input size",
    ),
    "bn dims": (
        lambda torch: torch.nn.BatchNorm2d(3)(torch.ones(2, 3)),
        ValueError,
        "expected 4D input (got 2D input)",
    ),
    "layer norm": (
        lambda torch: torch.nn.LayerNorm(3)(torch.ones(2, 4)),
        RuntimeError,
        "Given normalized_shape=[3], expected input with shape [*, 3], but got",
    ),
    "dropout p": (
        lambda torch: torch.nn.functional.dropout(torch.ones(2), 1.5),
        ValueError,
        "dropout probability has to be between 0 and 1, but got 1.5",
    ),
    "mse shapes": (
        lambda torch: torch.nn.functional.mse_loss(torch.ones(2, 1), torch.ones(3, 2)),
        RuntimeError,
        "The size of tensor a (2) must match the size of tensor b (3) at",
    ),
    "bce range": (
        lambda torch: torch.nn.functional.binary_cross_entropy(
            torch.tensor([2.0]), torch.tensor([1.0])
        ),
        RuntimeError,
        "all elements of input should be between 0 and 1",
    ),
    "bce shape": (
        lambda torch: torch.nn.functional.binary_cross_entropy(
            torch.tensor([0.2]), torch.tensor([1.0, 1.0])
        ),
        ValueError,
        "Using a target size (torch.Size([2])) that is different to the input",
    ),
    "one_hot neg": (
        lambda torch: torch.nn.functional.one_hot(torch.tensor([-1])),
        RuntimeError,
        "Class values must be non-negative.",
    ),
    "one_hot type": (
        lambda torch: torch.nn.functional.one_hot(torch.tensor([1.0])),
        RuntimeError,
        "one_hot is only applicable to index tensor of type LongTensor.",
    ),
    "multinomial neg": (
        lambda torch: torch.multinomial(torch.tensor([-1.0, 2.0]), 1),
        RuntimeError,
        "probability tensor contains either `inf`, `nan` or element < 0",
    ),
    "normal std": (
        lambda torch: torch.normal(0.0, -1.0, (2,)),
        RuntimeError,
        "normal expects std >= 0.0, but found std -1",
    ),
    "randint": (
        lambda torch: torch.randint(5, 5, (2,)),
        RuntimeError,
        "random_ expects 'from' to be less than 'to', but got from=5 >= to=5",
    ),
    "bernoulli": (
        lambda torch: torch.bernoulli(torch.tensor([2.0])),
        RuntimeError,
        "Expected p_in >= 0 && p_in <= 1 to be true, but got false.",
    ),
    "topk": (
        lambda torch: torch.ones(2).topk(3),
        RuntimeError,
        "selected index k out of range",
    ),
    "kthvalue": (
        lambda torch: torch.ones(2).kthvalue(3),
        RuntimeError,
        "kthvalue(): selected number k out of range for dimension 0",
    ),
    "cumsum dim": (
        lambda torch: torch.ones(2).cumsum(1),
        IndexError,
        "Dimension out of range (expected to be in range of [-1, 0], but got 1)",
    ),
    "copy_ shape": (
        lambda torch: torch.ones(2).copy_(torch.ones(3)),
        RuntimeError,
        ") must match the size of tensor b (",
    ),
    "add_ cast": (
        lambda torch: torch.tensor([1]).add_(1.5),
        RuntimeError,
        "result type Float can't be cast to the desired output type Long",
    ),
    "optim empty": (
        lambda torch: torch.optim.SGD([], lr=0.1),
        ValueError,
        "optimizer got an empty parameter list",
    ),
    "optim lr": (
        lambda torch: torch.optim.SGD([leaf(torch, 1.0)], lr=-1),
        ValueError,
        "Invalid learning rate: -1",
    ),
    "optim nonleaf": (
        lambda torch: torch.optim.SGD([leaf(torch, 1.0) * 2], lr=1),
        ValueError,
        "can't optimize a non-leaf Tensor",
    ),
    "load_state": (
        lambda torch: torch.nn.Linear(2, 2).load_state_dict({"weight": torch.ones(2, 2)}),
        RuntimeError,
        "Error(s) in loading state_dict for Linear: Missing key(s) in",
    ),
    "load_state shape": (
        lambda torch: torch.nn.Linear(2, 2).load_state_dict(
            {"weight": torch.ones(3, 2), "bias": torch.ones(2)}
        ),
        RuntimeError,
        "Error(s) in loading state_dict for Linear: size mismatch for weight:",
    ),
    "einsum": (
        lambda torch: torch.einsum("ij,jk->ik", torch.ones(2, 3), torch.ones(2, 3)),
        RuntimeError,
        "einsum(): subscript j has size 2 for operand 1 which does not",
    ),
    "einsum bad": (
        lambda torch: torch.einsum("ij,jk", torch.ones(2, 3)),
        RuntimeError,
        "einsum(): fewer operands were provided than specified in the equation",
    ),
    "inverse": (
        lambda torch: torch.linalg.inv(torch.zeros(2, 2)),
        RuntimeError,
        "linalg.inv: The diagonal element 1 is zero, the inversion could not",
    ),
    "inverse shape": (
        lambda torch: torch.linalg.inv(torch.zeros(2, 3)),
        RuntimeError,
        "linalg.inv: A must be batches of square matrices, but they are 2 by 3",
    ),
    "cholesky": (
        lambda torch: torch.linalg.cholesky(-torch.eye(2)),
        RuntimeError,
        "linalg.cholesky: The factorization could not be completed because the",
    ),
    "meta item": (
        lambda torch: torch.ones(1, device="meta").item(),
        RuntimeError,
        "Tensor.item() cannot be called on meta tensors",
    ),
    "meta bool": (
        lambda torch: bool(torch.ones(1, device="meta")),
        RuntimeError,
        "Tensor.item() cannot be called on meta tensors",
    ),
    "meta tolist": (
        lambda torch: torch.ones(1, device="meta").tolist(),
        NotImplementedError,
        "Cannot copy out of meta tensor; no data!",
    ),
    "meta numpy": (
        lambda torch: torch.ones(1, device="meta").numpy(),
        TypeError,
        "can't convert meta",
    ),
    "meta cpu": (
        lambda torch: torch.ones(1, device="meta").cpu(),
        NotImplementedError,
        "Cannot copy out of meta tensor; no data!",
    ),
    "from_numpy": (
        lambda torch: torch.from_numpy([1]),
        TypeError,
        "expected np.ndarray (got list)",
    ),
    "complex cmp": (
        lambda torch: torch.tensor([1j]) < torch.tensor([1j]),
        NotImplementedError,
        "\" not implemented for 'ComplexFloat'",
    ),
    "complex float": (
        lambda torch: float(torch.tensor(1j + 1)),
        RuntimeError,
        "value cannot be converted to type",
    ),
    "complex max": (
        lambda torch: torch.tensor([1j]).max(),
        NotImplementedError,
        "\" not implemented for 'ComplexFloat'",
    ),
    "clamp none": (
        lambda torch: torch.ones(2).clamp(),
        RuntimeError,
        "torch.clamp: At least one of 'min' or 'max' must not be None",
    ),
    "unfold": (
        lambda torch: torch.ones(2).unfold(0, 3, 1),
        RuntimeError,
        "maximum size for tensor at dimension 0 is 2 but size is 3",
    ),
    "diagonal": (
        lambda torch: torch.ones(2).diagonal(),
        IndexError,
        "Dimension out of range (expected to be in range of [-1, 0], but got 1)",
    ),
    "roll": (
        lambda torch: torch.ones(2, 2).roll(1, 5),
        IndexError,
        "Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    ),
    "flip": (
        lambda torch: torch.ones(2).flip(1),
        IndexError,
        "Dimension out of range (expected to be in range of [-1, 0], but got 1)",
    ),
    "repeat": (
        lambda torch: torch.ones(2, 2).repeat(2),
        RuntimeError,
        "Number of dimensions of repeat dims can not be smaller than number of",
    ),
    "contains str": (
        lambda torch: "a" in torch.ones(2),
        RuntimeError,
        "Tensor.__contains__ only supports Tensor or scalar, but you passed in",
    ),
    "hash set": (
        lambda torch: torch.ones(2).__index__(),
        TypeError,
        "only integer tensors of a single element can be converted to an index",
    ),
    "index big": (
        lambda torch: [1, 2][torch.tensor(1.0)],
        TypeError,
        "only integer tensors of a single element can be converted to an index",
    ),
    "resize grad": (
        lambda torch: leaf(torch, 1.0, 2.0).resize_(3),
        RuntimeError,
        "cannot resize variables that require grad",
    ),
    "set_num": (
        lambda torch: torch.manual_seed("a"),
        ValueError,
        "invalid literal for int() with base 10: 'a'",
    ),
    "autograd none": (
        lambda torch: torch.ones(2).sum().backward(),
        RuntimeError,
        "element 0 of tensors does not require grad and does not have a grad_fn",
    ),
}
