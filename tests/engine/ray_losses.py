"""Work on Ray that loses a worker or a whole node in the middle, beside the same work in one process.

Run as a script by test_engine_ray.py, in a process of its own: python ray_losses.py FOLDER CASE. Prints JSON.

    harvest   two workers harvest zoo:lm, one is killed
    node      an audit on a local cluster of three nodes, one of which is removed while it works
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ray_audit import TEXTS, files

import heedful

LINES = 240
WAIT = 120  # seconds for something to kill


def killed_worker(named: str, killed: list[int]) -> None:
    """Kills the first process of Ray that works under this name, a moment after it has begun."""
    end = time.monotonic() + WAIT
    while time.monotonic() < end and not killed:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if command.startswith(named.encode()):
                time.sleep(0.5)
                os.kill(int(process.name), signal.SIGKILL)
                killed.append(int(process.name))
                return
        time.sleep(0.02)


def harvest(folder: Path) -> dict[str, Any]:
    path, killed = folder / "t.txt", list[int]()
    path.write_text("The state of the union is strong. We are here to work.\n" * LINES)

    def run(name: str, **more: Any) -> dict[str, bytes]:
        given: dict[str, Any] = {"context": 32, "batch_tokens": 64}
        heedful.harvest("zoo:lm", path, "blocks.2.resid", folder / name, **given, **more)
        return files(folder / name)

    here = run("local")
    threading.Thread(target=killed_worker, args=("ray::HarvestWorker.take", killed), daemon=True).start()
    return compared(here, run("ray", engine="ray", workers=2)) | {"killed": len(killed)}


def node(folder: Path) -> dict[str, Any]:
    import ray
    from ray.cluster_utils import Cluster

    def slow(texts: list[str]) -> list[float]:
        if ray.is_initialized():  # in a worker
            with (folder / "nodes").open("a") as file:
                file.write(f"{ray.get_runtime_context().get_node_id()}\n")
            time.sleep(0.05)
        return [sum(len(word) * (i + 1) for i, word in enumerate(text.split())) / 10 for text in texts]

    def audit(name: str, **more: Any) -> dict[str, bytes]:
        given: dict[str, Any] = {
            "methods": ["occlusion", "lime"],
            "metrics": ["aopc"],
            "draws": 3,
            "shard": 1,
        }
        params = {"lime": {"samples": 40}}
        heedful.audit(slow, TEXTS * 2, out=folder / name, params=params, **given, **more)
        return files(folder / name)

    here = audit("local", engine="local")
    (folder / "nodes").write_text("")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    others = [cluster.add_node(num_cpus=1) for _ in range(2)]
    removed: list[str] = []

    def remove() -> None:
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            busy = (folder / "nodes").read_text().split()
            for other in others:
                if busy.count(other.node_id) >= 3:
                    removed.append(other.node_id)
                    cluster.remove_node(other, allow_graceful=False)
                    return
            time.sleep(0.02)

    threading.Thread(target=remove, daemon=True).start()
    found = compared(here, audit("ray", engine="ray", address=cluster.address, workers=3))
    worked = set((folder / "nodes").read_text().split())
    cluster.shutdown()
    return found | {"killed": len(removed), "nodes": len(worked)}


def compared(here: dict[str, bytes], there: dict[str, bytes]) -> dict[str, Any]:
    differ = sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))
    return {"same": not differ, "differ": differ, "files": len(here)}


if __name__ == "__main__":
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    print(json.dumps({"harvest": harvest, "node": node}[sys.argv[2]](Path(sys.argv[1]))))
