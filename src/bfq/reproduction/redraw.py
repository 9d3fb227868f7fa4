"""Tables, pictures and pages again, from result.json: neither data nor run folders are needed.

`python -m bfq.reproduction.redraw results/main`
"""

import argparse
import sys
from pathlib import Path

from bfq.errors import BadInput
from bfq.files import write_bytes
from bfq.reproduction.cells import Outcome
from bfq.reproduction.results import folder_of, read_outcome, write_pictures
from bfq.reproduction.table import markdown


def redraw(folder: Path) -> list[Path]:
    """Writes table.md, the figures and the page anew; result.json stays as it is."""
    outcome = read_outcome(folder)
    out = results_of(outcome, folder)
    written = write_pictures(outcome, out)
    write_bytes(folder / "table.md", markdown(outcome).encode())
    return [folder / "table.md", *written]


def results_of(outcome: Outcome, folder: Path) -> Path:
    """The folder around an experiment's own, which must have its name."""
    out = folder.absolute().parent
    own = folder_of(outcome.experiment, out)
    if own != folder.absolute():
        raise BadInput(f"{folder} holds the experiment {own.name}: name the folder so.")
    return out


def main() -> int:
    """Each folder in turn."""
    parser = argparse.ArgumentParser(prog="python -m bfq.reproduction.redraw", description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", metavar="RESULTS", help="as results/main")
    try:
        for folder in parser.parse_args().folders:
            print("\n".join(map(str, redraw(folder))))
    except BadInput as error:
        print(f"bfq: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
