"""Where D4RL, OGBench and Minari publish their files.

None of these addresses could be tried while this was written. The facts come from:

- D4RL: addresses from `d4rl/infos.py` and `d4rl/locomotion/__init__.py` of Farama-Foundation/D4RL; sizes and
  sha256 from the `checksums.tsv` beside each D4RL dataset of tensorflow/datasets. Copies on Hugging Face
  (imone/D4RL, one flat folder) are listed only for files that its pages or published scripts mention; where
  such a page gives a sha256, it agrees. One file is reported missing.
- OGBench: the address of ogbench 1.2.2 (`ogbench/utils.py`); the copy on Hugging Face was named by OGBench's
  author (issue 49 of seohongpark/ogbench). There are no official checksums. Those given here were measured by
  two parties, or by one party on both copies; the other files are trusted on first use.
- Minari: minari 0.5.4 (`minari/storage/remotes`): hf://farama-minari, where the part of a dataset id before
  the first slash is the repository. The listing, with sha256, is the public API of the Hugging Face Hub.

Berkeley's server is used over plain HTTP (as D4RL does) only for files with a known sha256.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from msgspec import Meta

from bfq.data.download import (
    OFFLINE,
    Progress,
    Refused,
    Remote,
    Say,
    Sha256,
    fetch,
    import_pooch,
    is_offline,
    open_session,
    reason,
)
from bfq.errors import BadInput, unknown
from bfq.records import decode

_D4RL = "http://rail.eecs.berkeley.edu/datasets/offline_rl"
_D4RL_COPY = "https://huggingface.co/datasets/imone/D4RL/resolve/main"
_OGBENCH = "rail.eecs.berkeley.edu/datasets/ogbench"
_OGBENCH_COPY = "https://huggingface.co/datasets/zhouzypaul/ogbench_datasets/resolve/main"
_HUB = "https://huggingface.co"
_MINARI = "farama-minari"
_PAGE_BYTES, _PAGES = 8 << 20, 100  # limits of a listing, far above those of any dataset

# task, folder/file on Berkeley's server, bytes, sha256
_D4RL_FILES = """
halfcheetah-random-v2 gym_mujoco_v2/halfcheetah_random-v2.hdf5 237338037 25407aef85b5d16c0f36b4149341edb4acc6a9e88c1db529b2de19e7464874ba
halfcheetah-medium-v2 gym_mujoco_v2/halfcheetah_medium-v2.hdf5 237727262 41324e8487a9556d8cfa4538827f8937f4d63dae3030825ebc9f3a726ed08ca0
halfcheetah-medium-replay-v2 gym_mujoco_v2/halfcheetah_medium_replay-v2.hdf5 59448533 48d494a4770c11f48260736dec090b78bdca8375647ed4d24bfa5b6610c7f683
halfcheetah-medium-expert-v2 gym_mujoco_v2/halfcheetah_medium_expert-v2.hdf5 474567252 015db75dae5bbe8e94029b71fa0bafc2073365df0c94744e71031189f3f79c06
halfcheetah-expert-v2 gym_mujoco_v2/halfcheetah_expert-v2.hdf5 237464597 d9fe53bb994eb1e20a99b4fa3412cd76a1bb7966a7ff55e0fcbdd6081bd2965f
hopper-random-v2 gym_mujoco_v2/hopper_random-v2.hdf5 152525345 63103ef7059db4c0819bd054f4e83ff339030b50bcdb46bdbe50385f234b5054
hopper-medium-v2 gym_mujoco_v2/hopper_medium-v2.hdf5 152756557 5bdf1bc4a713c82941de44633df669b36c89850b652a25985166796d25cf71a0
hopper-medium-replay-v2 gym_mujoco_v2/hopper_medium_replay-v2.hdf5 75854457 e121c5f7c9857a307baa9edc6a2c3b48e85fedb9ac316ecddd0f48ca7ef4e39b
hopper-medium-expert-v2 gym_mujoco_v2/hopper_medium_expert-v2.hdf5 304537315 9d51ad87f8c905be3880d84c6140bcdb7fbf39a19e046a237f238ba34fec9e26
hopper-expert-v2 gym_mujoco_v2/hopper_expert-v2.hdf5 152427435 01aa219a5f8eea5e639eccdc636ec2bf40e317159a95cf4bf6e985f16909941b
walker2d-random-v2 gym_mujoco_v2/walker2d_random-v2.hdf5 216109364 4e863bb6090cf4a461548bd470564b32f1ae5b32ef3085f816b2ede7f092e7fa
walker2d-medium-v2 gym_mujoco_v2/walker2d_medium-v2.hdf5 232254996 cf00f43add04c17fdfc2958dd581dea0851b2e5bedbe6fda073758a8f841aeda
walker2d-medium-replay-v2 gym_mujoco_v2/walker2d_medium_replay-v2.hdf5 86323963 e75de96a4f77acf7d4e0d6fdf0d7ccb177c26c44bb4388e4fd99f543ccfa18db
walker2d-medium-expert-v2 gym_mujoco_v2/walker2d_medium_expert-v2.hdf5 462197079 6b8d7f868c45bbaedf460be797fb7271b46dee6ebe45fe7a64319f2005b59a04
walker2d-expert-v2 gym_mujoco_v2/walker2d_expert-v2.hdf5 230567195 2985dc3d436a8baa10e8f43f946fe1d7c6337a4e4fbc65def70618093b18c59a
antmaze-medium-play-v2 ant_maze_v2/Ant_maze_big-maze_noisy_multistart_True_multigoal_False_sparse_fixed.hdf5 231110764 c9fec1c1daad97c71d61bd47f4ccc9f74faa855b8a2d2e8107d5378018827e5b
antmaze-medium-diverse-v2 ant_maze_v2/Ant_maze_big-maze_noisy_multistart_True_multigoal_True_sparse_fixed.hdf5 231095166 ad9dcbac05d1f8744a7a216083f513662f43f64f28a4a5eb225e9811902dfae7
antmaze-large-play-v2 ant_maze_v2/Ant_maze_hardest-maze_noisy_multistart_True_multigoal_False_sparse_fixed.hdf5 230880653 6d353df2457829925d7f9d4b0215587469908bd57478ea76f16417cfa944f471
antmaze-large-diverse-v2 ant_maze_v2/Ant_maze_hardest-maze_noisy_multistart_True_multigoal_True_sparse_fixed.hdf5 231183710 84f775eb7956ea9cc766704710dc520a8ab357adc7522ade47f556f0e335e284
pen-human-v1 hand_dapg_v1/pen-human-v1.hdf5 2040573 209e345b2150b633f30a11612612c60f49e941f127ce6c4dc0cd790501c46f9f
pen-cloned-v1 hand_dapg_v1/pen-cloned-v1.hdf5 155074191 6d1a982cee1950501bedebbddedbcbb377e6284d379986c83abac8a6c0be0c22
"""  # noqa: E501 - a row is one file, and a checksum does not break
# Not on the copy: nobody has seen the first, and the second is reported missing.
_NOT_COPIED = {"pen-human-v1", "antmaze-large-diverse-v2"}

# file, bytes, sha256; - where unpublished
_OGBENCH_FILES = """
antmaze-large-navigate-v0.npz 242877817 2dbe946ac107ca5ac524f82f7a72efa951ceab0be915201d6b32e612d823f2e7
antmaze-large-navigate-v0-val.npz 24302303 e9a4126825faefb57c34c29f1ee423858dbc4b6f71d9a9846a8b8bdb908b44a1
antmaze-giant-navigate-v0.npz - -
antmaze-giant-navigate-v0-val.npz - -
humanoidmaze-medium-navigate-v0.npz - -
humanoidmaze-medium-navigate-v0-val.npz - -
humanoidmaze-large-navigate-v0.npz - -
humanoidmaze-large-navigate-v0-val.npz - -
cube-single-play-v0.npz 256728298 80f3b6fd27f4f9d9e9eb6f0d07d6951559012f45b1e15ea4046ef8ecd8d3684e
cube-single-play-v0-val.npz 25687020 96d07401bdebdc3f0ea6d56ed1333863e0962f441483adc2c43b83105046eb00
scene-play-v0.npz 267055508 66625e0cd9f2fcf92f5988f4d1bedeb2aa8b1e748316e507e89f4a9afb87c341
scene-play-v0-val.npz - -
"""


def _d4rl(task: str, path: str, size: str, sha256: str) -> Remote:
    file = path.split("/")[1]
    copies = () if task in _NOT_COPIED else (f"{_D4RL_COPY}/{file}",)
    return Remote(task, file, (f"{_D4RL}/{path}", *copies), sha256, int(size), plain_http=True)


def _ogbench(file: str, size: str, sha256: str) -> Remote:
    name = file.removesuffix(".npz").removesuffix("-val")
    mirrors = (f"https://{_OGBENCH}/{file}", f"{_OGBENCH_COPY}/{file}")
    if sha256 == "-":
        return Remote(name, file, mirrors)
    return Remote(
        name, file, (*mirrors, f"http://{_OGBENCH}/{file}"), sha256, int(size), plain_http=True
    )


def _table() -> Iterator[Remote]:
    for row in _D4RL_FILES.split("\n")[1:-1]:
        yield _d4rl(*row.split())
    for row in _OGBENCH_FILES.split("\n")[1:-1]:
        yield _ogbench(*row.split())


REMOTES: tuple[Remote, ...] = tuple(_table())


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
    path: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-][\w.+-]*(/[A-Za-z0-9_-][\w.+-]*)*$")]
    size: Annotated[int, Meta(ge=0)] = 0
    lfs: LargeFile | None = None


def fetch_minari(
    dataset_id: str,
    folder: Path,
    *,
    hub: str = _HUB,
    offline: bool | None = None,
    progress: Progress | None = None,
    say: Say | None = None,
    retries: int = 3,
) -> Path:
    """Return the folder of a Minari dataset (such as D4RL/pen/human-v2), laid out as Minari's own."""
    if not re.fullmatch(r"([\w-]+/)*[\w-]+-v\d+", dataset_id, re.ASCII):
        raise BadInput(
            f"{dataset_id!r} is not a Minari dataset: names look like D4RL/pen/human-v2."
        )
    home = folder.joinpath(*dataset_id.split("/"))
    if _is_complete(dataset_id, home / "data"):
        return home
    if is_offline(offline):
        raise BadInput(
            f"the Minari dataset {dataset_id} is not on this machine and downloads are disabled: put its"
            f" files, metadata.json and main_data.hdf5, into {home / 'data'}, or unset {OFFLINE}."
        )
    for path, remote in _list_files(dataset_id, hub, retries):
        fetch(remote, home / path, offline=False, progress=progress, say=say, retries=retries)
    return home


def _is_complete(dataset_id: str, data: Path) -> bool:
    """Whether all files are here and unchanged; metadata.json comes last, so it stands for all."""
    if not (data / "metadata.json").exists():
        return False
    ledgers = sorted(data.rglob("*.ledger.json"))
    files = [ledger.with_name(ledger.name.removesuffix(".ledger.json")) for ledger in ledgers]
    if not all(file.exists() for file in files):
        return False
    for file in files:
        fetch(Remote(dataset_id, file.name, ()), file.parent)
    return True


def _list_files(dataset_id: str, hub: str, retries: int) -> list[tuple[str, Remote]]:
    """The files of a dataset, each with its folder, metadata.json last."""
    repository, _, inside = dataset_id.partition("/")
    prefix = f"{inside}/data/" if inside else "data/"
    address = f"{hub}/api/datasets/{_MINARI}/{repository}/tree/main/{quote(prefix[:-1], safe='')}"
    root = f"{hub}/datasets/{_MINARI}/{repository}/resolve/main"
    found = []
    for entry in _read_listing(dataset_id, f"{address}?recursive=true", hub, retries):
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


def _read_listing(dataset_id: str, url: str, hub: str, retries: int) -> list[HubEntry]:
    """All pages of a listing."""
    entries: list[HubEntry] = []
    following: str | None = url
    for _ in range(_PAGES):
        try:
            body, following = _get_page(str(following), hub, retries)
        except (Refused, OSError) as error:
            raise BadInput(
                f"the files of {dataset_id} could not be listed: {url}: {reason(error)}. Check the name, try"
                f" again later, or get the folder another way: bfq data import FOLDER --as {dataset_id}"
            ) from error
        entries += decode(body, list[HubEntry], f"the listing of {dataset_id} at {url}")
        if following is None:
            return entries
    raise BadInput(f"the list of the files of {dataset_id} has no end: {url}.")


def _get_page(url: str, hub: str, retries: int) -> tuple[bytes, str | None]:
    """A page of the listing, and the address of the next one."""
    import_pooch()  # brings requests along
    from requests.adapters import HTTPAdapter
    from urllib3 import Retry

    session = open_session(hub.startswith("http:"))
    again = HTTPAdapter(
        max_retries=Retry(retries, backoff_factor=1, status_forcelist=(429, 502, 503))
    )
    session.mount(hub, again)
    with session.get(url, timeout=20.0, stream=True) as response:
        response.raise_for_status()
        body: bytes = next(response.iter_content(_PAGE_BYTES + 1), b"")
        following: str | None = response.links.get("next", {}).get("url")
    if len(body) > _PAGE_BYTES:
        raise Refused(f"it answers with more than {_PAGE_BYTES:,} bytes")
    if following and not following.startswith(f"{hub}/"):
        raise Refused("it continues on another server")
    return body, following
