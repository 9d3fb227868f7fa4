"""A picture that is ready."""

from typing import NamedTuple


class Drawn(NamedTuple):
    """A picture with its file, its title and what to see in it."""

    file: str
    title: str
    png: bytes
    caption: str
    photo: bool = False  # frames of a simulator, whose colours are their own on a dark page too
