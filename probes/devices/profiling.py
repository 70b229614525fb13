"""Lists what GPUs do, by torch's profiler."""

import importlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")


def gpu_activities(torch: Any, work: Callable[[], object]) -> list[dict[str, Any]]:
    """Run `work` under torch.profiler; each GPU activity: name, device, stream, microseconds."""
    profiler = importlib.import_module("torch.profiler")
    both = [profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]
    with profiler.profile(activities=both) as profile:
        work()
        for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
            torch.cuda.synchronize(index)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        trace = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    return [
        {
            "category": event["cat"],
            "name": str(event.get("name", ""))[:300],
            "device": event.get("args", {}).get("device"),
            "stream": event.get("args", {}).get("stream"),
            "bytes": event.get("args", {}).get("bytes"),
            "duration_us": event.get("dur"),
        }
        for event in trace.get("traceEvents", [])
        if event.get("cat") in _CATEGORIES
    ]
