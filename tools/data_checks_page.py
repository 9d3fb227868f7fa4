"""Write the page about defects of data, generated from bfq/data/defects.toml.

python -m tools.data_checks_page docs/data-checks.md
"""

import sys
from pathlib import Path

from bfq.data.defects import NOTED, REFUSED
from bfq.files import write_bytes

INTRODUCTION = """# Checks of your data

bfq checks every file and every set of arrays. Some defects are refused with an error; others are noted, and
the data is used as it is. Each message ends with a name in brackets, such as `[nan]`, that is listed here.
Rows are counted from 0. For CSV files the message also has the line and the column if the defect is in one
cell. This page is generated from the table in `src/bfq/data/defects.toml`.
"""
TABLES = {"Refused": REFUSED, "Noted": NOTED}


def data_checks_page() -> str:
    """The page in Markdown: one table of refused and one of noted defects."""
    tables = []
    for head, defects in TABLES.items():
        rows = [
            f"| `{name}` | {defect.about} | {defect.remedy} |" for name, defect in defects.items()
        ]
        tables.append(
            "\n".join([f"## {head}\n", "| name | meaning | remedy |", "|---|---|---|", *rows])
        )
    return "\n".join([INTRODUCTION, "\n\n".join(tables), ""])


def main() -> None:
    page = data_checks_page()
    if len(sys.argv) > 1:
        write_bytes(Path(sys.argv[1]), page.encode())
    else:
        print(page, end="")


if __name__ == "__main__":
    main()
