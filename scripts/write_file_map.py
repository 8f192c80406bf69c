"""Write docs/files.md, a line for each Python file of the packages, from its docstring: `make docs`.

tests/test_file_map.py compares the page with what this script writes.
"""

import ast
from itertools import groupby
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs" / "files.md"

PACKAGES: Final = (
    "protocol",
    "storage",
    "assignors",
    "coordinator",
    "mqtt",
    "members",
    "server",
    "conformance",
    "lab",
    "testing",
    "control",
    "notation",
    "classroom",
    "pipeline",
    "cli",
    "regroup_pytest.py",
)

HEAD: Final = """# Where to find what

Each Python file of the packages, with the first sentence of its docstring. [architecture.md](architecture.md) says what
the packages are for and which may import which, [glossary.md](glossary.md) explains the words. `make docs` writes this
page.
"""


def python_files(package: str) -> list[Path]:
    """The files of a package, folder by folder; the files of a folder before its sub-folders."""
    place = ROOT / package
    files = [place] if place.is_file() else place.rglob("*.py")
    return sorted(files, key=lambda file: (file.parent, file.name))


def first_sentence(file: Path) -> str | None:
    """The first sentence of the module's docstring on one line, without a final colon; None without a docstring."""
    docstring = ast.get_docstring(ast.parse(file.read_text("utf-8")))
    if docstring is None:
        return None
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    sentence = paragraph.partition(". ")[0].rstrip(".:")
    return sentence.replace("|", "\\|")


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    files = [file for package in PACKAGES for file in python_files(package)]
    for folder, in_folder in groupby(files, key=lambda file: file.parent.relative_to(ROOT)):
        rows = [(file, first_sentence(file)) for file in in_folder]
        named = [(file, sentence) for file, sentence in rows if file.name != "__init__.py" and sentence]
        about = next((sentence for file, sentence in rows if file.name == "__init__.py" and sentence), None)
        if not named:
            continue
        title = f"## {folder}/" if folder.name else "## Beside the packages"
        lines = [f"| [{file.name}](../{file.relative_to(ROOT)}) | {sentence} |" for file, sentence in named]
        parts.append(
            "\n".join([title, *(["", f"{about}."] if about else []), "", "| File | |", "|---|---|", *lines, ""])
        )
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
