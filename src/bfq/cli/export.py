"""`bfq export RUN`: write a trained policy to a file that runs without JAX."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from bfq.cli.words import show_json
from bfq.errors import counted

if TYPE_CHECKING:
    from bfq.deploy.export import Exported


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("folder", type=Path, metavar="RUN", help="the run folder")
    add("--member", type=int, default=0, metavar="K",
        help="position of the seed and its hyperparameters in result.json; default 0")  # fmt: skip
    add("--format", metavar="NAME",
        help="npz (NumPy) | c (one C99 file) | onnx; default from the ending of --out, or npz")  # fmt: skip
    add("--out", type=Path, metavar="FILE", help="output file; default RUN/policy-K.npz")
    add("--temperature", type=float, metavar="X", help="scale of the noise; default as in the run")
    add("--policy", metavar="WEIGHTS", help="ema | online; default as in the run")
    add("--agent", metavar="FILE", help="the Python file of the agent, if bfq does not have it")
    add("--json", action="store_true", help="print a description of the file as JSON")


def run(args: argparse.Namespace) -> int:
    """Write the file; print what it contains and how to use it."""
    from bfq.agents.registry import load_agent
    from bfq.deploy.export import export

    if args.agent:
        load_agent(args.agent)
    options = {name: getattr(args, name) for name in ("member", "format", "temperature", "policy")}
    written = export(args.folder, args.out, **options)
    if args.json:
        facts = {"file": str(written.path), "written_as": written.format, "bytes": written.size}
        show_json({**facts, **written.metadata})
    else:
        _show(written)
    return 0


def _show(written: "Exported") -> None:
    meta, path = written.metadata, written.path
    noise = "none: the same observation gives the same action"
    if meta["noise_dim"]:
        noise = f"{counted(meta['noise_dim'], 'draw')} from N(0, 1), times {meta['temperature']:g}"
    lines = {
        "written": f"{path} ({written.size / 1024:,.0f} KiB)",
        "policy": f"{meta['agent']} on {meta['task']}, update {meta['update']:,}, member {meta['member']}, "
        f"{meta['policy']} weights",
        "observation": f"{counted(meta['observation_dim'], 'number')}, in the units of the log",
        "action": f"{counted(meta['action_dim'], 'number')}, in the units and range of the log",
        "noise": noise,
        "checked": f"same actions as the trained agent, within {meta['deviation']:.0e} of half the action range",
    }
    if meta["protocol_candidates"] > 1:
        lines["note"] = meta["remark"]
    for name, words in lines.items():
        print(f"{name:12} {words}")
    print("use")
    also = ', "noise": …' if meta["noise_dim"] else ""
    for line in USE[written.format]:
        print(f"  {line.format(path=path, noise=also)}")


USE = {
    "npz": (
        'from bfq.deploy.numpy_policy import load; policy = load("{path}")',
        "action = policy(observation)  # the module needs only NumPy: copy it to the robot",
    ),
    "c": (
        "cc -O3 -march=native -fno-trapping-math -c {path}",
        "void bfq_act(const float *observation, const float *noise, float *action);",
    ),
    "onnx": (
        'policy = onnxruntime.InferenceSession("{path}")',
        'action = policy.run(None, {{"observation": …{noise}}})  # each (n, numbers) of float32',
    ),
}
