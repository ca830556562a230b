"""The launcher under its older name: scripts also get `--local-rank=N`, unless --use-env."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

from ember.distributed import run as launcher
from ember.distributed.elastic.multiprocessing.errors import ChildFailedError


def main(args: Sequence[str] | None = None) -> None:
    """The launcher as a program."""
    warnings.warn(
        "The module torch.distributed.launch is deprecated and going to be removed in future.Use "
        "torch.distributed.run: scripts read LOCAL_RANK from the environment instead of taking "
        "--local-rank",
        FutureWarning,
        stacklevel=2,
    )
    parser = launcher.get_args_parser()
    parser.add_argument("--use-env", "--use_env", action="store_true")
    found = parser.parse_args(args)
    found.local_rank_argument = not found.use_env
    launcher.run(found)


if __name__ == "__main__":
    try:
        main()
    except ChildFailedError as error:
        sys.exit(f"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: {error}")
