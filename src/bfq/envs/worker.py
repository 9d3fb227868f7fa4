"""A helping process: calls what it is told to through a pipe, until the pipe ends."""

import os
import pickle
import signal
import sys
from contextlib import suppress
from typing import Any

from bfq.envs.optional import package
from bfq.errors import BadInput


def serve() -> None:
    """Answers each (function, arguments) with what the function gives, or with what went wrong."""
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # are for the one who tells us; its pipe ends with it
        signal.signal(number, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a simulator prints must not get between the answers
    with suppress(
        BadInput
    ):  # MuJoCo, if it is here, would write its warnings into the user's folder
        package("mujoco", "mujoco").set_mju_user_warning(lambda message: None)
    while True:
        try:
            function, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started us
        except EOFError:
            return
        try:
            answer = function(*arguments)
        except Exception as error:  # noqa: BLE001 - told to the one who asked, whatever it is
            answer = error
        try:
            answers.write(_packed(answer))
            answers.flush()
        except BrokenPipeError:  # the one who asked is gone
            os._exit(0)


def _packed(answer: Any) -> bytes:
    """An error may hold what cannot be sent, or not read again: its words can."""
    try:
        content = pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL)
        if isinstance(answer, Exception):
            pickle.loads(content)  # noqa: S301 - made in the line above
        return content
    except Exception:  # noqa: BLE001 - pickling fails in many ways
        return pickle.dumps(RuntimeError(repr(answer)))


if __name__ == "__main__":
    serve()
