"""Where D4RL, OGBench and Minari publish their files: the table in published.toml and the Hub."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from msgspec import Meta

from bfq.data import download
from bfq.data.download import Progress, Refused, Remote, Say, Sha256, fetch
from bfq.errors import BadInput, unknown
from bfq.records import decode

_HUB = "https://huggingface.co"
_MINARI = "farama-minari"
_PAGE_BYTES, _PAGES = 8 << 20, 100  # limits of a listing, far above those of any dataset


def _read_table() -> Iterator[Remote]:
    table = tomllib.loads(files("bfq.data").joinpath("published.toml").read_text())
    d4rl, ogbench = table["d4rl"], table["ogbench"]
    for task, path, size, sha256 in d4rl["files"]:
        file = path.split("/")[1]
        copies = () if task in d4rl["not_copied"] else (f"{d4rl['copy']}/{file}",)
        mirrors = (f"{d4rl['server']}/{path}", *copies)
        yield Remote(task, file, mirrors, sha256, size, plain_http=True)
    for file, size, sha256 in ogbench["files"]:
        name = file.removesuffix(".npz").removesuffix("-val")
        mirrors = (f"https://{ogbench['server']}/{file}", f"{ogbench['copy']}/{file}")
        if sha256:  # guards a connection without encryption
            mirrors += (f"http://{ogbench['server']}/{file}",)
        yield Remote(name, file, mirrors, sha256 or None, size or None, plain_http=bool(sha256))


REMOTES: tuple[Remote, ...] = tuple(_read_table())


def remotes_for(task: str) -> tuple[Remote, ...]:
    """The files of a task; OGBench has one for training and one for validation, in this order."""
    # All tasks in a maze or scene of OGBench share one log: …-singletask-task3-v0 reads …-v0.
    name = re.sub(r"-singletask(-task[1-5])?(?=-v0$)", "", task)
    found = tuple(remote for remote in REMOTES if remote.name == name)
    if not found:
        raise unknown("task with published files", task, {remote.name for remote in REMOTES})
    return found


@dataclass(frozen=True)
class LargeFile:
    """The checksum of a large file on the Hub."""

    oid: Sha256


@dataclass(frozen=True)
class HubEntry:
    """A file or folder in a listing of the Hub; its path cannot leave the folder of the dataset."""

    type: str
    path: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-][\w.+-]*(/[A-Za-z0-9_-][\w.+-]*)*\Z")]
    size: Annotated[int, Meta(ge=0)] = 0
    lfs: LargeFile | None = None


def fetch_minari(
    dataset_id: str,
    folder: Path,
    *,
    hub: str = _HUB,
    progress: Progress = lambda done, total: None,
    say: Say = lambda sentence: None,
) -> Path:
    """Return the folder of a Minari dataset (such as D4RL/pen/human-v2), laid out as Minari's own."""
    if not re.fullmatch(r"([\w-]+/)*[\w-]+-v\d+", dataset_id, re.ASCII):
        raise BadInput(f"{dataset_id!r} is not a Minari dataset such as D4RL/pen/human-v2.")
    home = folder.joinpath(*dataset_id.split("/"))
    if _is_complete(dataset_id, home / "data"):
        return home
    files = "put its files, metadata.json and main_data.hdf5, into"
    download.check_online(f"the Minari dataset {dataset_id}", f"{files} {home / 'data'}")
    for path, remote in _list_files(dataset_id, hub):
        fetch(remote, home / path, progress=progress, say=say)
    return home


def _is_complete(dataset_id: str, data: Path) -> bool:
    """Whether all files are here and unchanged; metadata.json comes last, so it stands for all."""
    ledgers = sorted(data.rglob("*.ledger.json"))
    files = [ledger.with_name(ledger.name.removesuffix(".ledger.json")) for ledger in ledgers]
    if not all(file.exists() for file in (data / "metadata.json", *files)):
        return False
    for file in files:
        fetch(Remote(dataset_id, file.name, ()), file.parent)
    return True


def _list_files(dataset_id: str, hub: str) -> list[tuple[str, Remote]]:
    """The files of a dataset, each with its folder, metadata.json last."""
    repository, _, inside = dataset_id.partition("/")
    prefix = f"{inside}/data/" if inside else "data/"
    address = f"{hub}/api/datasets/{_MINARI}/{repository}/tree/main/{quote(prefix[:-1], safe='')}"
    root = f"{hub}/datasets/{_MINARI}/{repository}/resolve/main"
    found = []
    for entry in _read_listing(dataset_id, f"{address}?recursive=true", hub):
        if entry.type != "file":
            continue
        if not entry.path.startswith(prefix):
            raise BadInput(f"the listing of {dataset_id} has a file outside it: {entry.path!r}.")
        path = Path(entry.path.removeprefix(prefix.removesuffix("data/")))
        checksum = entry.lfs.oid if entry.lfs else None
        url, plain_http = f"{root}/{quote(entry.path)}", hub.startswith("http:")
        remote = Remote(dataset_id, path.name, (url,), checksum, entry.size, plain_http)
        found.append((str(path.parent), remote))
    found.sort(key=lambda item: item[1].file == "metadata.json")
    if not found or found[-1][1].file != "metadata.json":
        raise BadInput(f"there is no metadata.json among the files of {dataset_id} at {root}.")
    return found


def _read_listing(dataset_id: str, url: str, hub: str) -> list[HubEntry]:
    """All pages of a listing."""
    entries: list[HubEntry] = []
    following: str | None = url
    for _ in range(_PAGES):
        try:
            body, following = _get_page(str(following), hub)
        except (Refused, OSError) as error:
            raise BadInput(
                f"the files of {dataset_id} could not be listed: {url}: {download.reason(error)}. Check the name, try"
                f" again later, or get the folder another way: bfq data import FOLDER --as {dataset_id}"
            ) from error
        entries += decode(body, list[HubEntry], f"the listing of {dataset_id} at {url}")
        if following is None:
            return entries
    raise BadInput(f"the list of the files of {dataset_id} has no end: {url}.")


def _get_page(url: str, hub: str) -> tuple[bytes, str | None]:
    """A page of the listing, and the address of the next one."""
    download.import_pooch()  # brings requests along
    from requests.adapters import HTTPAdapter
    from urllib3 import Retry

    session = download.open_session(hub.startswith("http:"))
    again = Retry(3, backoff_factor=1, status_forcelist=(429, 502, 503))
    session.mount(hub, HTTPAdapter(max_retries=again))
    with session.get(url, timeout=20.0, stream=True) as response:
        response.raise_for_status()
        body: bytes = next(response.iter_content(_PAGE_BYTES + 1), b"")
        following: str | None = response.links.get("next", {}).get("url")
    if len(body) > _PAGE_BYTES:
        raise Refused(f"it answers with more than {_PAGE_BYTES:,} bytes")
    if following and not following.startswith(f"{hub}/"):
        raise Refused("it continues on another server")
    return body, following
