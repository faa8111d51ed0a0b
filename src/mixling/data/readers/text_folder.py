"""Read a folder with a folder for each class and a file for each text, as scikit-learn's `load_files` does.

One that has brat's annotations is read by `readers.brat`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from mixling.data.readers.brat import read_brat
from mixling.data.readers.files import open_file
from mixling.data.readers.lines import read_document
from mixling.data.readers.rows import OnBadRow, Row, nul_error
from mixling.errors import DataError

_IMAGES = frozenset((".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"))
_LOOKED_AT = 1000  # files


def holds_texts(folder: Path) -> bool:
    """Return whether a folder has folders of files, and no images; or brat's annotations."""
    if any(folder.glob("*.ann")):
        return True
    files = itertools.chain.from_iterable(map(_visible, _classes(folder)))
    return any(map(Path.is_file, files)) and not holds_images(folder)


def holds_images(folder: Path) -> bool:
    """Return whether images are among the first files of a folder, at any depth."""
    first = itertools.islice((path for path in folder.rglob("*") if path.is_file()), _LOOKED_AT)
    return any(path.suffix.lower() in _IMAGES or "idx3-ubyte" in path.name for path in first)


def read_text_folder(folder: Path, name: str, on_bad_row: OnBadRow) -> Iterator[Row]:
    """Stream rows with the columns `text`, `label` (the name of the folder) and `file`, in the order of names.

    Hidden files are skipped.

    Args:
        name: of the folder, as the user wrote it.

    Raises:
        DataError: there is no such folder with files; or a file is no text, unless `on_bad_row` skips it.
    """
    if any(folder.glob("*.ann")):
        yield from read_brat(folder, on_bad_row)
        return
    classes = _classes(folder)
    if (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file():
        raise DataError(f"is a data set that the library datasets saved; write hf:{name}", path=name)
    if not classes:
        remedy = "name the files in it, or keep the texts of each class in a folder of its own"
        raise DataError(f"is a folder; {remedy}", path=name)
    if beside := [item.name for item in _visible(folder) if item not in classes]:
        on_bad_row.note(f"{name}: {len(beside)} files beside the folders of classes are not read, such as {beside[0]}")
    empty = True
    for label in classes:
        inside = _visible(label)
        if deeper := [item for item in inside if item.is_dir()]:
            message = f"has a folder in the folder of a class, {deeper[0].name}; give the folder that holds the classes"
            raise DataError(message, path=label)
        for file in inside:
            empty = False
            try:
                with ExitStack() as stack:
                    text = "".join(read_document(open_file(file, stack), str(file)))
                if "\0" in text:
                    raise nul_error(str(file), text[: text.index("\0")].count("\n") + 1)
            except DataError as error:
                on_bad_row(error)
                continue
            yield Row({"text": text.rstrip("\r\n"), "label": label.name, "file": str(file)}, str(file), 1)
    if empty:
        raise DataError("has no files in its folders; a file for each text is required", path=name)


def _classes(folder: Path) -> list[Path]:
    return [item for item in _visible(folder) if item.is_dir()]


def _visible(folder: Path) -> list[Path]:
    return sorted(item for item in folder.iterdir() if not item.name.startswith("."))
