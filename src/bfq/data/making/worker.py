"""A process of the crew: makes the blocks it is told to through a pipe, until the pipe ends."""

import os
import pickle
import signal
import sys
from contextlib import suppress

from bfq.errors import BadInput
from bfq.simulation.optional import package


def serve() -> None:
    """Answers each (block, seed, index) with the log of that block, or with what went wrong."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who gives the orders
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a simulator prints must not get between the answers
    with suppress(BadInput):  # MuJoCo, if it is here, would write its warnings into the user's folder
        package("mujoco", "mujoco").set_mju_user_warning(lambda message: None)
    while True:
        try:
            block, seed, index = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started us
        except EOFError:
            return
        try:
            answer = block(seed, index)
        except Exception as error:  # noqa: BLE001 - told to the one who asked, whatever it is
            answer = error
        try:
            pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
            answers.flush()
        except BrokenPipeError:  # the one who asked is gone
            os._exit(0)


if __name__ == "__main__":
    serve()
