"""The kinds of port, and the static files that each kind serves beside the endpoints."""

from collections.abc import Mapping
from enum import Enum
from importlib.resources import files
from typing import Final

from regroup.classroom.page.files import PageFile, page_files

DESCRIPTION_FILES: Final = {
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
}
"""The files of the page that describes the endpoints, by path, besides the page itself."""
PAGE_PREFIX: Final = "page/"


class PortKind(Enum):
    """What a port serves: the endpoints alone, or the classroom's page with all endpoints, or the page with those that
    change nothing."""

    CONTROL = "control"
    PAGE = "page"
    PAGE_READ_ONLY = "page-read-only"

    @property
    def option(self) -> str:
        """The option of `regroup serve` that opens such a port, without its hyphens."""
        return "control" if self is PortKind.CONTROL else "page"

    @property
    def is_read_only(self) -> bool:
        return self is PortKind.PAGE_READ_ONLY


def served_files(kind: PortKind) -> Mapping[str, PageFile]:
    """The files of a port by path. `/` is the classroom's page or, on a port without it, the description of the
    endpoints, which is also at `/endpoints`."""
    folder = files("regroup.control.web").joinpath("page")
    found = {
        path: PageFile(media_type, folder.joinpath(name).read_bytes())
        for path, (name, media_type) in DESCRIPTION_FILES.items()
    }
    found["/"] = found["/endpoints"] = PageFile("text/html; charset=utf-8", folder.joinpath("index.html").read_bytes())
    if kind is not PortKind.CONTROL:
        found |= {f"/{path}": file for path, file in page_files(PAGE_PREFIX, is_live=True).items()}
    return found
