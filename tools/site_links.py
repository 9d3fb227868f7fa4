"""MkDocs hook: links from a page to files outside docs/ are checked and shown as plain text.

On a code host these links open the file. The site contains the pages only.
"""

import logging
import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)#\s]+)(#[^)]*)?\)")
log = logging.getLogger("mkdocs.plugins.site_links")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Replace links that leave the documentation folder by their text."""
    docs = Path(config["docs_dir"]).resolve()
    here = (docs / page.file.src_path).parent

    def shown(link: re.Match[str]) -> str:
        target = (here / link[2]).resolve()
        if target.is_relative_to(docs):
            return link[0]
        if not target.exists():
            log.warning("%s links to %s, which does not exist", page.file.src_path, link[2])
        return link[1]

    return LINK.sub(shown, markdown)
