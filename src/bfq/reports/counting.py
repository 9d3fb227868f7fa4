"""Numbers of things, in words: on its own, since a command line is quicker without what reports import."""


def counted(number: int, noun: str) -> str:
    """`1 member`, `6 members`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
