"""Opens ONNX Runtime sessions the way that suits short texts on a shared machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

_MOST_THREADS = 4
_ERRORS_ONLY = 3


def usable_cores() -> int:
    """Cores that this process may run on, which in a container are fewer than the machine's."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def open_session(model: Path | bytes, *, threads: int, spinning: bool) -> Any:
    """A session on the processor; 0 threads means as many as pay off here."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY
    options.intra_op_num_threads = threads or min(_MOST_THREADS, usable_cores())
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    # Every batch has another shape: a planned arena would only hold on to the largest.
    options.enable_mem_pattern = False
    options.enable_cpu_mem_arena = False
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spinning else "0")
    source = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def session_errors() -> tuple[type[Exception], ...]:
    """What the runtime raises for a file that it can't use."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return (
        state.Fail,
        state.InvalidArgument,
        state.InvalidGraph,
        state.InvalidProtobuf,
        state.NoSuchFile,
        state.NotImplemented,
        state.RuntimeException,
    )
