"""Anomaly detection: a backward that makes NaN says which node made it, and where its forward was
called."""

from __future__ import annotations

import warnings
from typing import Any

from ember.core import engine, node
from ember.core.tensor import Tensor

_check_nan = [True]


def _guarded(current: Any, grads: list[Any]) -> list[Any]:
    try:
        results = list(current.apply(grads))
    except Exception:
        _warn(current)
        raise
    if _check_nan[0]:
        for index, result in enumerate(results):
            if (
                isinstance(result, Tensor)
                and result.is_floating_point()
                and bool(result.isnan().any())
            ):
                _warn(current)
                raise RuntimeError(
                    f"Function '{current.name()}' returned nan values in its {index}th output."
                )
    return results


def _warn(current: Any) -> None:
    where = current.__dict__.get("_made_at")
    if where is None:
        text = (
            "No forward pass information available. Enable detect anomaly during forward pass "
            "for more information."
        )
    else:
        text = "Traceback of forward call that caused the error:\n" + "".join(where)
    warnings.warn(f"Error detected in {current.name()}. {text}", UserWarning, stacklevel=3)


def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on."""
    return engine.anomaly[0] is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly detection looks for NaN."""
    return is_anomaly_enabled() and _check_nan[0]


class set_detect_anomaly:
    """Switch anomaly detection; as a context manager, back at the end."""

    def __init__(self, mode: bool, check_nan: bool = True):
        self._before = engine.anomaly[0], _check_nan[0], node.made_at[0]
        engine.anomaly[0] = _guarded if mode else None
        node.made_at[0] = _where if mode else None
        _check_nan[0] = check_nan

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        engine.anomaly[0], _check_nan[0], node.made_at[0] = self._before


class detect_anomaly:
    """A block with anomaly detection: slow, for debugging."""

    def __init__(self, check_nan: bool = True):
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging.",
            UserWarning,
            stacklevel=2,
        )
        self._check_nan = check_nan

    def __enter__(self) -> None:
        self._setting = set_detect_anomaly(True, self._check_nan)

    def __exit__(self, *exc: object) -> None:
        self._setting.__exit__()


def _where() -> list[str]:
    import traceback  # slow to import, and only needed while looking for an error

    return traceback.format_stack()[:-3]
