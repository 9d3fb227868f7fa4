"""The name of the defect that a message is about."""

import re


def name_of(sentence) -> str | None:
    """The word in brackets at the end of a sentence or an exception, if any."""
    found = re.search(r"\[([a-z0-9-]+)\]$", str(sentence))
    return found[1] if found else None
