"""Decoding of what comes from outside, files and options, into typed objects.

Files and values that do not fit their type are refused in one sentence that names the field. No other module
validates JSON by hand.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from bfq.errors import BadInput
from bfq.files import check_regular

T = TypeVar("T")
Word = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f]*\Z", max_length=200)]


@dataclass(frozen=True)
class Quantity:
    """The name of one number in an observation or an action, and its unit if that is known."""

    name: Word
    unit: Word = ""

    def __str__(self) -> str:
        return f"{self.name} [{self.unit}]" if self.unit else self.name


@dataclass(frozen=True)
class Labels:
    """What the numbers of a log are, in their order."""

    observations: list[Quantity]
    actions: list[Quantity]
    categories: dict[Word, list[str]] = field(default_factory=dict)  # one-hot columns


def decode(content: str | bytes, kind: type[T], where: str) -> T:
    """JSON as an object of this type; BadInput with the path of the field that does not fit."""
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise _misfit(error, where) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"{where} is not readable JSON: {error}.") from error


def convert(content: Any, kind: type[T], where: str) -> T:
    """Plain lists and dictionaries as an object of this type; BadInput with the path of the field."""
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise _misfit(error, where) from error


def _misfit(error: msgspec.ValidationError, where: str) -> BadInput:
    message, _, field = str(error).partition(" - at ")
    field = re.sub(r"^`?\$\.?|`$", "", field)
    return BadInput(f"{where}: {field or 'its content'}: {message}.")


def read_text(file: Path) -> bytes:
    """Return the content of a regular file; BadInput if it cannot be read."""
    check_regular(file)
    try:
        return file.read_bytes()
    except FileNotFoundError as error:
        raise BadInput(f"there is no file {file}.") from error
    except OSError as error:
        raise BadInput(f"cannot read {file}: {error.strerror or error}.") from error


def check_complete(given: Any, decoded: Any, where: str, path: str = "") -> None:
    """Refuse fields that are missing from a file or unknown."""
    if not isinstance(decoded, dict):
        return
    for name in sorted(set(given) ^ set(decoded)):
        problem = "is unknown" if name in given else "is missing"
        raise BadInput(f"{where}: the field {path}{name} {problem}.")
    for name, value in decoded.items():
        check_complete(given[name], value, where, f"{path}{name}.")


def check_value(name: str, value: Any, kind: Any) -> Any:
    """The value as plain Python, or BadInput if it is not of this type or outside its range."""
    plain = _plain(value)
    try:
        if isinstance(plain, float) and not math.isfinite(plain):
            raise ValueError("it is not finite")
        return msgspec.convert(plain, kind)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        words = _in_words(msgspec.json.schema(kind))
        raise BadInput(f"{name} must be {words}, not {value!r}.") from error


def _plain(value: Any) -> Any:
    """NumPy's numbers, tuples and arrays as Python's numbers and lists."""
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Sequence | range):
        return [_plain(one) for one in value]
    return value


NOUNS = {
    "integer": "a whole number",
    "number": "a finite number",
    "string": "text",
    "boolean": "true or false",
    "object": "names with numbers or words",
    "null": "nothing",
}


def _in_words(schema: dict[str, Any]) -> str:
    """What a value of this schema can be: `a whole number from 1 to 10,000`."""
    if "anyOf" in schema:
        return " or ".join(_in_words(one) for one in schema["anyOf"])
    if "title" in schema:
        return str(schema["title"])
    if "enum" in schema:
        return "one of " + ", ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"a list with each entry {_in_words(schema['items'])}"
    low, high = schema.get("minimum"), schema.get("maximum")
    noun = NOUNS.get(schema.get("type", ""), "a value")
    if "pattern" in schema:
        noun = "a name without < and >" if "<>" in schema["pattern"] else "an id like Pendulum-v1"
    if low is None or abs(low) > 1e30:
        return noun
    if high is None or high > 1e30:
        return f"{noun} of at least {low:,}"
    return f"{noun} from {low:,} to {high:,}"
