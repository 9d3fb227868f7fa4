"""`bfq export RUN`: a trained policy as a file that runs without JAX."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from bfq.cli.words import show_json
from bfq.errors import counted

if TYPE_CHECKING:
    from bfq.deploy.export import Exported


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of the verb."""
    add = parser.add_argument
    add("folder", type=Path, metavar="RUN", help="the run folder")
    add("--member", type=int, default=0, metavar="K", help="which member; default 0")
    add(
        "--format",
        metavar="NAME",
        help="npz (NumPy) | c (one C99 file) | onnx; default as --out ends, or npz",
    )
    add("--out", type=Path, metavar="FILE", help="where to write; default RUN/policy-K.npz")
    add(
        "--temperature",
        type=float,
        metavar="X",
        help="factor on the noise; default the run's protocol",
    )
    add("--policy", metavar="WHICH", help="ema | online; default the run's protocol")
    add("--json", action="store_true", help="print what was written as JSON")


def run(args: argparse.Namespace) -> int:
    """Writes the file, and says what it is and how to use it."""
    from bfq.deploy.export import export_policy

    wishes = {name: getattr(args, name) for name in ("member", "format", "temperature", "policy")}
    written = export_policy(args.folder, args.out, **wishes)
    if args.json:
        facts = {"file": str(written.path), "written_as": written.format, "bytes": written.size}
        show_json({**facts, **written.metadata})
    else:
        _show(written)
    return 0


def _show(written: "Exported") -> None:
    told, path = written.metadata, written.path
    noise = "none: the same observation gives the same action"
    if told["noise_dim"]:
        noise = f"{counted(told['noise_dim'], 'draw')} from N(0, 1), times {told['temperature']:g}"
    lines = {
        "written": f"{path} ({written.size / 1024:,.0f} KiB)",
        "policy": f"{told['agent']} on {told['task']}, update {told['update']:,}, member {told['member']}, "
        f"{told['policy']} weights",
        "observation": f"{counted(told['observation_dim'], 'number')}, in the units of the log",
        "action": f"{counted(told['action_dim'], 'number')}, in the units and the range of the log",
        "noise": noise,
        "checked": f"acts as the trained agent, within {told['deviation']:.0e} of half the action range",
    }
    if told["protocol_candidates"] > 1:
        lines["note"] = told["remark"]
    for name, words in lines.items():
        print(f"{name:12} {words}")
    print("use")
    also = ', "noise": …' if told["noise_dim"] else ""
    for line in USE[written.format]:
        print(f"  {line.format(path=path, noise=also)}")


USE = {
    "npz": (
        'from bfq.deploy.numpy_policy import load; policy = load("{path}")',
        "action = policy(observation)  # that module needs NumPy alone: copy it to the robot",
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
