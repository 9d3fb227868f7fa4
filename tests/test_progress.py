"""Progress is a live display in a terminal, and a few lines elsewhere."""

import io
import re
import sys
import time

import pytest
from rich.console import Console

from bfq import progress
from bfq.progress import Reporter, announced


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_slow_work_only_while_it_runs(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with announced("reading"):
        assert sys.stderr.getvalue() == "reading …\r"
    assert sys.stderr.getvalue().endswith("\x1b[2K\r")


def test_a_file_shows_only_work_that_takes_long(monkeypatch, capsys):
    with announced("reading"):
        pass
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    with announced("training", quiet=True):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""
    with announced("reading"):
        time.sleep(0.2)
    assert capsys.readouterr().err == "reading …\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_reporter_shows_what_happens_between_updates(terminal):
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=terminal, width=120)
    reporter = Reporter("bfq on mini", 100, console)
    with reporter.bar:
        reporter.resume(40)
        reporter.waiting("evaluating 5 × 20 episodes")
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.getvalue())
    if terminal:
        assert "40/100 evaluating 5 × 20 episodes" in plain
    else:
        lines = ["resuming at 40/100", "evaluating 5 × 20 episodes …"]
        assert plain.splitlines() == [f"bfq on mini: {line}" for line in lines]
