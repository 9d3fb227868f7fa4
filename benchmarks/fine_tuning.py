"""Returns over environment steps when a policy that was trained on data goes on in its environment.

    python benchmarks/fine_tuning.py                                  # all tasks, 3 seeds
    python benchmarks/fine_tuning.py --tasks pendulum-mixed --offline 200 --online 200 --episodes 2

Writes a JSON file per task and agent, with the commands and versions, and a picture per task.
"""

import argparse
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import bfq

TASKS = ("pendulum-mixed", "local/halfcheetah-mini", "local/hopper-medium-replay")
HERE = Path(__file__).parents[1] / "results" / "fine-tuning"


def measure(task: str, agent: str, args: argparse.Namespace) -> dict:
    """One curve per seed; step 0 is the policy that was trained on the data alone."""
    place = args.runs / task.replace("/", "-") / agent
    judged = {"eval_episodes": args.episodes, "resume": True, "quiet": True}
    offline = bfq.train(
        task, agent, steps=args.offline, seeds=args.seeds, evaluations=1, out=place / "offline", **judged
    )  # fmt: skip
    online = bfq.finetune(
        offline, steps=args.online, evaluations=args.evaluations, out=place / "online", **judged
    )
    table, seeds = online.evaluations, len(offline.record.members)
    returns = [offline.scores["return"], *table["return"].reshape(-1, seeds).tolist()]
    return {
        "task": task,
        "agent": agent,
        "steps": [0, *table["step"][::seeds].tolist()],
        "returns": returns,
        "data_return": offline.record.data.return_mean,
        "protocol": online.record.protocol,
        "commands": [offline.record.command, online.record.command],
        "device": online.record.device,
        "versions": bfq.versions(),
    }


def draw(curves: list[dict], file: Path) -> None:
    """Mean and standard deviation over the seeds; the file that holds the numbers is named below."""
    figure, axes = plt.subplots(figsize=(6, 4))
    for curve in curves:
        returns = np.array(curve["returns"])
        mean, std = returns.mean(1), returns.std(1)
        axes.plot(curve["steps"], mean, label=curve["agent"])
        axes.fill_between(curve["steps"], mean - std, mean + std, alpha=0.2)
    axes.axhline(curves[0]["data_return"], color="gray", linestyle=":", label="the data")
    axes.set(xlabel="environment steps per seed", ylabel="return", title=curves[0]["task"])
    axes.legend()
    seeds = len(curves[0]["returns"][0])
    figure.text(0.01, -0.04, f"{seeds} seeds, mean ± std; {file.stem}-*.json", fontsize=7)
    figure.savefig(file, dpi=150, bbox_inches="tight")
    plt.close(figure)


def main() -> None:
    """Measure every task with every agent, and draw one picture per task."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--agents", nargs="+", default=["bfq", "td3_bc"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--offline", type=int, help="updates; default from the preset")
    parser.add_argument("--online", type=int, default=10_000, help="environment steps")
    parser.add_argument("--evaluations", type=int, default=10)
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--runs", type=Path, default=Path("runs/fine-tuning"))
    parser.add_argument("--out", type=Path, default=HERE)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for task in args.tasks:
        name, curves = task.replace("/", "-"), []
        for agent in args.agents:
            curves.append(measure(task, agent, args))
            (args.out / f"{name}-{agent}.json").write_text(json.dumps(curves[-1], indent=1) + "\n")
        draw(curves, args.out / f"{name}.png")


if __name__ == "__main__":
    main()
