"""What the data made here returns: every local dataset of the running robots, and policies rolled out anew.

    python benchmarks/local_returns.py --size 200000 --out results/data/local.json
    python benchmarks/local_returns.py --reroll hopper-medium.npz --out results/data/rerolled.json

Means and standard deviations are over whole episodes; one that the size has cut is left out.
"""

import argparse
import json
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bfq.data.dataset import Dataset
from bfq.files import write_json
from bfq.run import versions
from bfq.tasks.catalog import GENERATED
from bfq.tasks.locomotion import reroll_recipe
from bfq.tasks.recipes import DataRecipe, generate_dataset, recipe_for


def whole_returns(dataset: Dataset, ends: set[int]) -> Any:
    """Returns of the episodes that no part's end has cut: `ends` are the last rows of the parts."""
    last = np.flatnonzero(dataset.episode_ends)
    lengths = np.diff(np.concatenate([[-1], last]))
    cut = [
        row in ends and dataset.masks[row] == 1 and n < 1000
        for row, n in zip(last, lengths, strict=True)
    ]
    return dataset.episode_returns[~np.array(cut)]


def local_names() -> list[str]:
    """The locomotion datasets that bfq generates."""
    return [name for name, recipe in GENERATED.items() if recipe.endswith(":locomotion_recipe")]


def made(recipe: DataRecipe) -> dict[str, Any]:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        dataset = generate_dataset(recipe, Path(folder) / "set")
        ends = set((np.cumsum([part.size for part in recipe.parts]) - 1).tolist())
        returns = whole_returns(dataset, ends)
        row = {"name": recipe.name, "simulator": recipe.simulator, "transitions": len(dataset)}
        row |= {
            "episodes": len(returns),
            "return_mean": float(returns.mean()),
            "return_std": float(returns.std()),
        }
        row |= {"sha256": dataset.sha256, "seconds": time.monotonic() - began}
    print(json.dumps(row), flush=True)
    return row


def rerolled(files: list[Path], episodes: int) -> Iterator[dict[str, Any]]:
    for path in files:
        for old_masses in (False, True):
            recipe = reroll_recipe([path], size=1000 * episodes, old_masses=old_masses)
            row = made(recipe)
            yield {**row, "policy": path.name, "old_masses": old_masses}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=200_000)
    parser.add_argument("--reroll", type=Path, nargs="*")
    parser.add_argument(
        "--episodes", type=int, default=100, help="at least so many, of the rolled-out policies"
    )
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.reroll:
        rows = list(rerolled(args.reroll, args.episodes))
    else:
        rows = [made(recipe_for(name, args.size)) for name in local_names()]
    record = {"rows": rows, "versions": versions(), "command": shlex.join(["python", *sys.argv])}
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(args.out, record)


if __name__ == "__main__":
    main()
