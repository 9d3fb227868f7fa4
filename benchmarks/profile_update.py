"""Profile an update: the number of kernels, their names and their times.

    python benchmarks/profile_update.py --agent bfq --members 1 --precision bfloat16
    python benchmarks/profile_update.py --chunk 60 --grouped       on a CPU: products, and loops by their kind

Without --overlapped the kernels run in sequence, so their times add up. With it they run as in training, where
some overlap and each takes longer.
"""

import argparse
import gzip
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from bfq.agents.contract import Spec
from bfq.agents.registry import get_agent
from bfq.bench.measure import Sizes, compile_population, random_transitions, resize
from bfq.bench.timing import timed
from bfq.settings import check_precision, compose
from bfq.training import compilation

TASK, SPEC = "halfcheetah-medium-v2", Spec(17, 6)
HOLDS = re.compile(r"(while|call|conditional)[.\d]*$")
NUMBER = re.compile(r"[.\d]+$")  # of an operation among those of its kind
OVERLAP = "xla_gpu_command_buffer_scheduling_mode"


def kernels(folder: Path) -> list[dict[str, Any]]:
    """The kernels on a GPU's streams, or the operations of a CPU program, from a trace of JAX."""
    (path,) = folder.rglob("*.trace.json.gz")
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e.get("name") == "process_name"}
    threads = {
        (e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("name") == "thread_name"
    }
    found = [
        e
        for e in events
        if e.get("ph") == "X"
        and (
            "GPU" in names[e["pid"]]
            and "Stream" in threads.get((e["pid"], e["tid"]), "")
            or _on_cpu(e)
        )
    ]
    return sorted(found, key=lambda e: e["ts"])


def _on_cpu(event: dict[str, Any]) -> bool:
    """Whether the event is an operation on a CPU that does not contain others."""
    return "thunk_executor" in event.get("args", {}).get("_src", "") and not HOLDS.match(
        event["name"]
    )


def profile(args: argparse.Namespace) -> None:
    agent = get_agent(args.agent)
    depths = {"depth": args.depth, "critic_depth": args.depth, "steps": args.chunk}
    config = resize(agent, compose(TASK, args.agent).config, depths)
    sizes = Sizes(args.members, args.transitions, SPEC, args.chunk, precision=args.precision)
    rows = random_transitions(sizes, agent.needs)
    if not args.overlapped:
        compilation.OPTIONS["gpu"].pop(OVERLAP)
    updates = compile_population(agent, config, rows, sizes)
    states = updates.states

    def work() -> Any:
        nonlocal states
        states, metrics = updates.program(states, rows, jnp.int32(0))
        return metrics

    timing = timed(work, 5)
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(work())
        ran = kernels(Path(folder))
    show(ran, args, timing.median / args.chunk)


def show(ran: Sequence[dict[str, Any]], args: argparse.Namespace, seconds: float) -> None:
    """Print the kernels of an update by name, most expensive first."""
    print(
        f"{args.agent}, {args.members} members, {args.precision}: {1e6 * seconds:.1f} µs per update"
    )
    if not ran:
        print("no kernels in the trace")
        return
    busy = sum(e["dur"] for e in ran) / args.chunk
    print(f"{len(ran) / args.chunk:.0f} kernels per update, {busy:.0f} µs in sequence")
    times: dict[str, list[float]] = defaultdict(list)
    for e in ran:
        times[NUMBER.sub("", e["name"]) if args.grouped else e["name"]].append(e["dur"])
    for name, took in sorted(times.items(), key=lambda item: -sum(item[1]))[: args.top]:
        each, total = sum(took) / len(took), sum(took) / args.chunk
        print(f"{len(took) / args.chunk:6.1f} × {each:7.2f} µs = {total:7.1f} µs  {name[:100]}")


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--agent", default="bfq", metavar="NAME")
    add("--members", type=int, default=1, metavar="N")
    add("--depth", type=int, default=4, metavar="N", help="hidden layers of every network")
    add("--transitions", type=int, default=1_000_000, metavar="N")
    add(
        "--precision",
        default="float32",
        metavar="NAME",
        help="of the products: float32 or bfloat16",
    )
    add("--chunk", type=int, default=200, metavar="N", help="updates in one compiled call")
    add("--overlapped", action="store_true", help="as in training")
    add("--grouped", action="store_true", help="names that differ in their number alone as one")
    add("--top", type=int, default=40, metavar="N", help="kernels shown")
    args = parser.parse_args(words)
    check_precision(args.precision)
    profile(args)


if __name__ == "__main__":
    main()
