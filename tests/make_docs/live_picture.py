"""The picture of the live page in docs/classroom.md: `python -m tests.make_docs.live_picture`.

ben has crashed while dora joins, so all wait until his session ends. `make docs` does not make it: its bytes depend on
the browser, its fonts and the time.
"""

from contextlib import closing
from typing import Final

from regroup.control.web.files import PortKind
from regroup.testing import Emulator
from tests.browser import opened_page
from tests.control.conftest import Control, Port
from tests.make_docs.blocks import ROOT

FILE: Final = ROOT / "docs" / "pictures" / "live.png"
SIZE: Final = {"width": 1200, "height": 760}
MAX_BYTES: Final = 160_000


def begin(kafka: Emulator, control: Control) -> None:
    """Three members, of which one crashes, and a fourth that joins."""
    for count, name in enumerate(("anna", "ben", "carla"), start=1):
        control.act("/simulated-member/add", group="billing", topics=["orders"], client_id=name)
        kafka.group("billing").wait_until_stable(members=count)
    control.act("/simulated-member/crash", client="ben")
    control.act("/simulated-member/add", group="billing", topics=["orders"], client_id="dora")


def main() -> None:
    with Emulator(topics={"orders": 6}) as kafka, closing(Port(kafka, kind=PortKind.PAGE)) as port:
        begin(kafka, port.control)
        with opened_page(viewport=SIZE) as page:
            page.goto(f"http://127.0.0.1:{port.control.port}/")
            page.locator("#hands .session.ending").wait_for()
            page.wait_for_timeout(500)
            page.screenshot(path=FILE)
    size = FILE.stat().st_size
    print(f"{FILE.name}: {size:,} bytes")
    if size > MAX_BYTES:
        raise ValueError(f"{FILE} has {size} bytes, and at most {MAX_BYTES} are wanted")


if __name__ == "__main__":
    main()
