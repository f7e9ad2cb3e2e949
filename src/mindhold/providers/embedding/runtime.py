"""Opens ONNX Runtime sessions the way that suits short texts on a shared machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mindhold.bare.environment import silence_runtime

GPU = "gpu"
# As the runtime calls them; which of them it offers is a matter of the package that is installed.
ON_GPU = (
    "CUDAExecutionProvider",
    "ROCMExecutionProvider",
    "DmlExecutionProvider",
    "CoreMLExecutionProvider",
)
ON_CPU = "CPUExecutionProvider"
_MOST_THREADS = 4
_ERRORS_ONLY = 3


def usable_cores() -> int:
    """Cores that this process may run on, which in a container are fewer than the machine's."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def workers(threads: int) -> int:
    """How many batches are run at once; 0 threads means as many as pay off here."""
    return threads or min(_MOST_THREADS, usable_cores())


def places(device: str, offered: Sequence[str]) -> list[str]:
    """Where to compute, in order of preference: the last one can do all that the others can't."""
    found = [name for name in ON_GPU if name in offered] if device == GPU else []
    return [*found[:1], ON_CPU]


def runtime() -> Any:
    """ONNX Runtime, told to send nothing to anybody: the one place where it is imported."""
    silence_runtime()
    import onnxruntime

    onnxruntime.disable_telemetry_events()  # versions before 1.29 don't know the variable
    return onnxruntime


def open_session(model: Path | bytes, *, device: str = "cpu") -> Any:
    """A session that computes in the thread that calls it.

    Threads inside an inference wait for each other at every layer, and spin or sleep meanwhile; batches side by side
    don't. One short text is quicker by one thread too.
    """
    onnxruntime = runtime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    # Every batch has another shape: a planned arena would only hold on to the largest.
    options.enable_mem_pattern = False
    options.enable_cpu_mem_arena = False
    source = model if isinstance(model, bytes) else str(model)
    chosen = places(device, onnxruntime.get_available_providers())
    return onnxruntime.InferenceSession(source, options, providers=chosen)


def session_errors() -> tuple[type[Exception], ...]:
    """What the runtime raises for a file that it can't use."""
    state = runtime().capi.onnxruntime_pybind11_state
    return (
        state.Fail,
        state.InvalidArgument,
        state.InvalidGraph,
        state.InvalidProtobuf,
        state.NoSuchFile,
        state.NotImplemented,
        state.RuntimeException,
    )
