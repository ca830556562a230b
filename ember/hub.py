"""`torch.hub`: models that a `hubconf.py` offers, and weights from the network with their hash
checked."""

from __future__ import annotations

import builtins
import importlib.util
import os
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from ember.errors import check
from ember.serialization import load as _load_file

__all__ = [
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
READ_DATA_CHUNK = 128 * 1024
MODULE_HUBCONF = "hubconf.py"
VAR_DEPENDENCY = "dependencies"
ENV_TORCH_HOME, ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR = "TORCH_HOME", "XDG_CACHE_HOME", "~/.cache"
_hub_dir: builtins.list[str | None] = [None]


def _get_torch_home() -> str:
    """The folder of all that is kept: $TORCH_HOME, else torch/ in the user's cache folder."""
    cache = os.path.join(os.getenv(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR), "torch")
    return os.path.expanduser(os.getenv(ENV_TORCH_HOME, cache))


def get_dir() -> str:
    """The folder of downloaded models: what `set_dir` set, else hub/ in $TORCH_HOME."""
    return _hub_dir[0] or os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the folder of downloaded models."""
    _hub_dir[0] = os.path.expanduser(d)


def _hubconf(repo: str, source: str) -> Any:
    check(
        source in ("github", "local"),
        ValueError,
        f'Unknown source: "{source}". Allowed values: "github" | "local".',
    )
    check(
        source == "local",
        NotImplementedError,
        "torch.hub: repositories are not downloaded, since loading one runs its code; clone it, "
        f'look at it, and give its folder: torch.hub.load("path/to/{repo}", ..., source="local")',
    )
    path = os.path.join(repo, MODULE_HUBCONF)
    check(os.path.isfile(path), FileNotFoundError, f"[Errno 2] No such file or directory: '{path}'")
    sys.path.insert(0, str(repo))
    try:
        spec = importlib.util.spec_from_file_location(MODULE_HUBCONF, path)
        module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
        spec.loader.exec_module(module)  # type: ignore[union-attr]
    finally:
        sys.path.remove(str(repo))
    return module


def _entry(module: Any, model: str) -> Any:
    check(
        isinstance(model, str),
        ValueError,
        "Invalid input: model should be a string of function name",
    )
    wanted = getattr(module, VAR_DEPENDENCY, None) or []
    missing = [name for name in wanted if name != "torch" and not importlib.util.find_spec(name)]
    check(not missing, RuntimeError, f"Missing dependencies: {', '.join(missing)}")
    found = getattr(module, model, None)
    check(callable(found), RuntimeError, f"Cannot find callable {model} in hubconf")
    return found


def load(
    repo_or_dir: Any,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """What the function `model` of a local folder's `hubconf.py` gives for the other arguments.

    NotImplementedError for source="github"; RuntimeError if the function, or a package that the
    file depends on, is missing.
    """
    return _entry(_hubconf(repo_or_dir, source.lower()), model)(*args, **kwargs)


def list(
    github: Any,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
    verbose: bool = True,
) -> builtins.list[str]:
    """The names that the `hubconf.py` in a local folder offers."""
    module = _hubconf(github, "local" if os.path.isdir(github) else "github")
    found = vars(module).items()
    return [name for name, value in found if callable(value) and not name.startswith("_")]


def help(
    github: Any,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
) -> str | None:
    """The docstring of a function in the `hubconf.py` of a local folder."""
    source = "local" if os.path.isdir(github) else "github"
    return _entry(_hubconf(github, source), model).__doc__  # type: ignore[no-any-return]


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Save what a URL holds as the file `dst`.

    `hash_prefix`: how its SHA-256 must begin; RuntimeError if it does not. The file appears only
    once it is complete.
    """
    import hashlib
    import shutil
    import tempfile
    from urllib.request import Request, urlopen

    from tqdm import tqdm

    dst = os.path.expanduser(dst)
    digest = hashlib.sha256()
    with urlopen(Request(url, headers={"User-Agent": "torch.hub"})) as answer:
        total = answer.headers.get("Content-Length")
        handle, partial = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(dst)))
        try:
            with (
                os.fdopen(handle, "wb") as file,
                tqdm(
                    total=int(total) if total else None,
                    disable=not progress,
                    unit="B",
                    unit_scale=True,
                    unit_divisor=1024,
                ) as bar,
            ):
                while chunk := answer.read(READ_DATA_CHUNK):
                    file.write(chunk)
                    digest.update(chunk)
                    bar.update(len(chunk))
            found = digest.hexdigest()
            check(
                not hash_prefix or found.startswith(hash_prefix),
                RuntimeError,
                f'invalid hash value (expected "{hash_prefix}", got "{found}")',
            )
            shutil.move(partial, dst)
        finally:
            if os.path.exists(partial):
                os.remove(partial)


def load_state_dict_from_url(
    url: str,
    model_dir: Any = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """The object that a URL holds, from `model_dir` if it was downloaded before.

    `check_hash`: the file's name ends in "-" and the beginning of its SHA-256, which must hold.
    `weights_only=True` reads tensors and plain containers only: for a file you do not trust, since
    reading any other pickle can run code.
    """
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = file_name if file_name is not None else os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        sys.stderr.write(f'Downloading: "{url}" to {path}\n')
        matched = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, matched.group(1) if matched else None, progress=progress)
    return _load_file(Path(path), map_location=map_location, weights_only=weights_only)
