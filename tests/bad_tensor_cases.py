"""Bad input to tensors and their ops, each with the exception that it deserves."""

import copy


def leaf(torch, *values):
    return torch.tensor(list(values), requires_grad=True)


# what: (the attempt, the exception, the words that say what is wrong)
TENSORS = {
    "add shapes": (
        lambda torch: torch.ones(2) + torch.ones(3),
        RuntimeError,
        "The size of tensor a (2) must match the size of tensor b (3) at",
    ),
    "matmul shapes": (
        lambda torch: torch.ones(2, 3) @ torch.ones(2, 3),
        RuntimeError,
        "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)",
    ),
    "matmul 0dim": (
        lambda torch: torch.tensor(1.0) @ torch.ones(2),
        RuntimeError,
        "both arguments to matmul need to be at least 1D, but they are 0D and",
    ),
    "mm dtype": (
        lambda torch: torch.ones(2, 2) @ torch.ones(2, 2, dtype=torch.float64),
        RuntimeError,
        "expected m1 and m2 to have the same dtype, but got: float != double",
    ),
    "mv shapes": (
        lambda torch: torch.mv(torch.ones(2, 3), torch.ones(2)),
        RuntimeError,
        "size mismatch, got input (2), mat (2x3), vec (2)",
    ),
    "bmm shapes": (
        lambda torch: torch.bmm(torch.ones(2, 3, 4), torch.ones(3, 4, 5)),
        RuntimeError,
        "Expected size for first two dimensions of batch2 tensor to be: [2, 4]",
    ),
    "cat shapes": (
        lambda torch: torch.cat([torch.ones(2, 2), torch.ones(2, 3)]),
        RuntimeError,
        "Sizes of tensors must match except in dimension 0. Expected",
    ),
    "cat empty": (
        lambda torch: torch.cat([]),
        ValueError,
        "torch.cat(): expected a non-empty list of Tensors",
    ),
    "stack shapes": (
        lambda torch: torch.stack([torch.ones(2), torch.ones(3)]),
        RuntimeError,
        "stack expects each tensor to be equal size, but got [2] at entry 0",
    ),
    "stack empty": (
        lambda torch: torch.stack([]),
        RuntimeError,
        "stack expects a non-empty TensorList",
    ),
    "sum dim": (
        lambda torch: torch.ones(2).sum(3),
        IndexError,
        "Dimension out of range (expected to be in range of [-1, 0], but got 3)",
    ),
    "sum dim twice": (
        lambda torch: torch.ones(2, 2).sum((0, 0)),
        RuntimeError,
        "dim 0 appears multiple times in the list of dims",
    ),
    "max empty": (
        lambda torch: torch.ones(0).max(),
        RuntimeError,
        "max(): Expected reduction dim to be specified for input.numel() == 0.",
    ),
    "argmax empty": (
        lambda torch: torch.ones(0).argmax(),
        IndexError,
        "argmax(): Expected reduction dim to be specified for input.numel() ==",
    ),
    "item many": (
        lambda torch: torch.ones(2).item(),
        RuntimeError,
        "a Tensor with 2 elements cannot be converted to Scalar",
    ),
    "bool many": (
        lambda torch: bool(torch.ones(2)),
        RuntimeError,
        "Boolean value of Tensor with more than one value is ambiguous",
    ),
    "len 0d": (
        lambda torch: len(torch.tensor(1.0)),
        TypeError,
        "len() of a 0-d tensor",
    ),
    "iter 0d": (
        lambda torch: iter(torch.tensor(1.0)),
        TypeError,
        "iteration over a 0-d tensor",
    ),
    "index 0d": (
        lambda torch: torch.tensor(1.0)[0],
        IndexError,
        "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or",
    ),
    "index range": (
        lambda torch: torch.ones(2)[5],
        IndexError,
        "index 5 is out of bounds for dimension 0 with size 2",
    ),
    "index float": (
        lambda torch: torch.ones(2)[torch.tensor([0.0])],
        IndexError,
        "tensors used as indices must be long, int, byte or bool tensors",
    ),
    "index list range": (
        lambda torch: torch.ones(2)[[5]],
        IndexError,
        "index 5 is out of bounds for dimension 0 with size 2",
    ),
    "mask shape": (
        lambda torch: torch.ones(2)[torch.tensor([True, False, True])],
        IndexError,
        "The shape of the mask [3] at index 0 does not match the shape of the",
    ),
    "setitem shape": (
        lambda torch: torch.ones(2).__setitem__(slice(None), torch.ones(3)),
        RuntimeError,
        ") must match the",
    ),
    "setitem index shape": (
        lambda torch: torch.ones(4).__setitem__([0, 1], torch.ones(3)),
        RuntimeError,
        "shape mismatch: value tensor of shape [3] cannot be broadcast to",
    ),
    "negative step": (
        lambda torch: torch.ones(4)[::-1],
        ValueError,
        "step must be greater than zero",
    ),
    "view": (
        lambda torch: torch.ones(4).view(3),
        RuntimeError,
        "shape '[3]' is invalid for input of size 4",
    ),
    "view -1": (
        lambda torch: torch.ones(4).view(-1, 3),
        RuntimeError,
        "shape '[-1, 3]' is invalid for input of size 4",
    ),
    "reshape": (
        lambda torch: torch.ones(4).reshape(3, 2),
        RuntimeError,
        "shape '[3, 2]' is invalid for input of size 4",
    ),
    "reshape 2 unknown": (
        lambda torch: torch.ones(4).reshape(-1, -1),
        RuntimeError,
        "only one dimension can be inferred",
    ),
    "transpose": (
        lambda torch: torch.ones(2).transpose(0, 1),
        IndexError,
        "Dimension out of range (expected to be in range of [-1, 0], but got 1)",
    ),
    "permute": (
        lambda torch: torch.ones(2, 3).permute(0, 0),
        RuntimeError,
        "permute(): duplicate dims are not allowed.",
    ),
    "permute count": (
        lambda torch: torch.ones(2, 3).permute(0),
        RuntimeError,
        "permute(sparse_coo): number of dimensions in the tensor input does",
    ),
    "t 3d": (
        lambda torch: torch.ones(2, 2, 2).t(),
        RuntimeError,
        "t() expects a tensor with <= 2 dimensions, but self is 3D",
    ),
    "expand": (
        lambda torch: torch.ones(2).expand(3),
        RuntimeError,
        "The expanded size of the tensor (3) must match the existing size (2)",
    ),
    "squeeze": (
        lambda torch: torch.ones(2).squeeze(4),
        IndexError,
        "Dimension out of range (expected to be in range of [-1, 0], but got 4)",
    ),
    "unsqueeze": (
        lambda torch: torch.ones(2).unsqueeze(4),
        IndexError,
        "Dimension out of range (expected to be in range of [-2, 1], but got 4)",
    ),
    "split": (
        lambda torch: torch.ones(4).split([1, 1]),
        RuntimeError,
        "split_with_sizes expects split_sizes to sum exactly to 4 (input",
    ),
    "chunk": (
        lambda torch: torch.ones(4).chunk(0),
        RuntimeError,
        "chunk expects `chunks` to be greater than 0, got: 0",
    ),
    "narrow": (
        lambda torch: torch.ones(4).narrow(0, 3, 3),
        RuntimeError,
        "start (3) + length (3) exceeds dimension size (4).",
    ),
    "gather index type": (
        lambda torch: torch.ones(2).gather(0, torch.tensor([0.0])),
        RuntimeError,
        "gather(): Expected dtype int32/int64 for index",
    ),
    "gather range": (
        lambda torch: torch.ones(2).gather(0, torch.tensor([5])),
        RuntimeError,
        "index 5 is out of bounds for dimension 0 with size 2",
    ),
    "gather dims": (
        lambda torch: torch.ones(2, 2).gather(0, torch.tensor([0])),
        RuntimeError,
        "Index tensor must have the same number of dimensions as input tensor",
    ),
    "scatter dtype": (
        lambda torch: torch.ones(2).scatter(
            0, torch.tensor([0]), torch.ones(1, dtype=torch.float64)
        ),
        RuntimeError,
        "scatter(): Expected self.dtype to be equal to src.dtype",
    ),
    "index_select range": (
        lambda torch: torch.ones(2).index_select(0, torch.tensor([4])),
        IndexError,
        "index out of range in self",
    ),
    "index_select type": (
        lambda torch: torch.ones(2).index_select(0, torch.tensor([1.0])),
        RuntimeError,
        "index_select(): Expected dtype int32 or int64 for index",
    ),
    "masked_fill type": (
        lambda torch: torch.ones(2).masked_fill(torch.ones(2), 1.0),
        RuntimeError,
        "only supports boolean masks, but got mask with dtype float",
    ),
    "where type": (
        lambda torch: torch.where(torch.ones(2), 1.0, 2.0),
        RuntimeError,
        "where expected condition to be a boolean tensor, but got a tensor",
    ),
    "neg bool": (
        lambda torch: -torch.tensor([True]),
        RuntimeError,
        "Negation, the `-` operator, on a bool tensor is not supported. If you",
    ),
    "sub bool": (
        lambda torch: torch.tensor([True]) - torch.tensor([True]),
        RuntimeError,
        "Subtraction, the `-` operator, with two bool tensors is not",
    ),
    "invert float": (
        lambda torch: ~torch.ones(2),
        TypeError,
        "~ (operator.invert) is only implemented on integer and Boolean-type",
    ),
    "and float": (
        lambda torch: torch.ones(2) & torch.ones(2),
        NotImplementedError,
        "\" not implemented for 'Float'",
    ),
    "shift float": (
        lambda torch: torch.ones(2) << 1,
        NotImplementedError,
        "\" not implemented for 'Float'",
    ),
    "floordiv zero": (
        lambda torch: torch.tensor([1]) // torch.tensor([0]),
        RuntimeError,
        "ZeroDivisionError",
    ),
    "mod zero": (
        lambda torch: torch.tensor([1]) % 0,
        RuntimeError,
        "ZeroDivisionError",
    ),
    "int neg pow": (
        lambda torch: torch.tensor([2]) ** -1,
        RuntimeError,
        "Integers to negative integer powers are not allowed.",
    ),
    "mean int": (
        lambda torch: torch.tensor([1, 2]).mean(),
        RuntimeError,
        "mean(): could not infer output dtype. Input dtype must be either a",
    ),
    "softmax int": (
        lambda torch: torch.tensor([1, 2]).softmax(0),
        NotImplementedError,
        "\" not implemented for 'Long'",
    ),
    "std int": (
        lambda torch: torch.tensor([1, 2]).std(),
        RuntimeError,
        "std and var only support floating point and complex dtypes",
    ),
    "relu bool": (
        lambda torch: torch.tensor([True]).relu(),
        RuntimeError,
        "Boolean inputs not supported for relu",
    ),
    "lerp dtype": (
        lambda torch: torch.lerp(torch.ones(2), torch.ones(2, dtype=torch.float64), 0.5),
        RuntimeError,
        "expected dtype float for `end` but got dtype double",
    ),
    "dot": (
        lambda torch: torch.ones(2).dot(torch.ones(3)),
        RuntimeError,
        "inconsistent tensor size, expected tensor [2] and src [3] to have the",
    ),
    "dot dtype": (
        lambda torch: torch.ones(2).dot(torch.ones(2, dtype=torch.float64)),
        RuntimeError,
        "dot : expected both vectors to have same dtype, but found Float and",
    ),
    "zeros float": (
        lambda torch: torch.zeros(1.5),
        TypeError,
        ", not float",
    ),
    "arange step": (
        lambda torch: torch.arange(0, 5, -1),
        RuntimeError,
        "upper bound and lower bound inconsistent with step sign",
    ),
    "arange 0 step": (
        lambda torch: torch.arange(0, 5, 0),
        RuntimeError,
        "step must be nonzero",
    ),
    "linspace neg": (
        lambda torch: torch.linspace(0, 1, -1),
        RuntimeError,
        "number of steps must be non-negative",
    ),
    "eye neg": (
        lambda torch: torch.eye(-1),
        RuntimeError,
        "n must be greater or equal to 0, got -1",
    ),
    "full no value": (
        lambda torch: torch.full((2,)),
        TypeError,
        "full() missing 1 required positional argument",
    ),
    "tensor ragged": (
        lambda torch: torch.tensor([[1, 2], [3]]),
        ValueError,
        "expected sequence of length 2 at dim 1 (got 1)",
    ),
    "tensor str": (
        lambda torch: torch.tensor(["a"]),
        ValueError,
        "too many dimensions 'str'",
    ),
    "tensor None": (
        lambda torch: torch.tensor(None),
        RuntimeError,
        "Could not infer dtype of NoneType",
    ),
    "tensor object": (
        lambda torch: torch.tensor([object()]),
        RuntimeError,
        "Could not infer dtype of object",
    ),
    "tensor big": (
        lambda torch: torch.tensor([2**70]),
        ValueError,
        "Overflow when unpacking long long",
    ),
    "tensor overflow": (
        lambda torch: torch.tensor([300], dtype=torch.uint8),
        RuntimeError,
        "value cannot be converted to type uint8 without overflow",
    ),
    "dtype str": (
        lambda torch: torch.zeros(2, dtype="float32"),
        TypeError,
        "argument 'dtype' must be torch.dtype, not str",
    ),
    "device bad": (
        lambda torch: torch.zeros(2, device="gpu"),
        RuntimeError,
        "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep,",
    ),
    "device empty": (
        lambda torch: torch.device(""),
        RuntimeError,
        "Device string must not be empty",
    ),
    "device -1": (
        lambda torch: torch.device("cuda:-1"),
        RuntimeError,
        "Invalid device string: 'cuda:-1'",
    ),
    "device type": (
        lambda torch: torch.zeros(2, device=1.5),
        TypeError,
        "torch.device",
    ),
    "add str": (
        lambda torch: torch.ones(2) + "a",
        TypeError,
        "unsupported operand type(s) for +: 'Tensor' and 'str'",
    ),
    "add None": (
        lambda torch: torch.ones(2) + None,
        TypeError,
        "unsupported operand type(s) for +: 'Tensor' and 'NoneType'",
    ),
    "add list": (
        lambda torch: torch.add(torch.ones(2), [1, 2]),
        TypeError,
        "add(): argument 'other' (position 2) must be Tensor, not list",
    ),
    "exp number": (
        lambda torch: torch.exp(1.0),
        TypeError,
        "exp(): argument 'input' (position 1) must be Tensor, not float",
    ),
    "sum number": (
        lambda torch: torch.sum(1.0),
        TypeError,
        "sum(): argument 'input' (position 1) must be Tensor, not float",
    ),
    "unknown kw2": (
        lambda torch: torch.exp(torch.ones(2), foo=1),
        TypeError,
        "exp() got an unexpected keyword argument 'foo'",
    ),
    "too many": (
        lambda torch: torch.exp(torch.ones(2), 1, 2, 3),
        TypeError,
        "exp() takes 1 positional argument",
    ),
    "attr": (
        lambda torch: torch.ones(2).nonexistent,
        AttributeError,
        "'Tensor' object has no attribute 'nonexistent'",
    ),
    "module attr": (
        lambda torch: torch.nonexistent,
        AttributeError,
        "module 'torch' has no attribute 'nonexistent'",
    ),
    "leaf": (
        lambda torch: leaf(torch, 1.0).add_(1),
        RuntimeError,
        "a leaf Variable that requires grad is being used in an in-place",
    ),
    "numpy grad": (
        lambda torch: leaf(torch, 1.0).numpy(),
        RuntimeError,
        "Can't call numpy() on Tensor that requires grad. Use",
    ),
    "deepcopy nonleaf": (
        lambda torch: copy.deepcopy(leaf(torch, 1.0) * 2),
        RuntimeError,
        "Only Tensors created explicitly by the user (graph leaves) support",
    ),
}
