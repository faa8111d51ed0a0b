"""What is said of files that are not UTF-8: the command converts them, and the encoding is the probable one."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from mixling.data import OnBadRow, read_rows
from mixling.errors import DataError

TEXTS = {
    "cp1252": ["café crème", "“très bon” – 5 €", "naïve façade"],
    "latin-1": ["Straße schön", "größer", "mañana"],
    "macintosh": ["café très", "été"],
    "cp1251": ["хороший фильм", "плохой фильм"],
    "gb18030": ["这部电影很好看", "服务很差"],
    "shift_jis": ["映画は面白いです", "これはよくない"],
}


@pytest.mark.parametrize("encoding", TEXTS)
def test_the_command_converts_the_file(encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    content = "text,label\n" + "".join(f"{text},a\n" for text in TEXTS[encoding])
    Path("my rows.csv").write_bytes(content.encode(encoding))
    with pytest.raises(DataError, match=r"my rows.csv:2: byte 0x.. \(byte \d+ of the line\) is not UTF-8") as caught:
        list(read_rows("my rows.csv", on_bad_row=OnBadRow("error")))
    message = str(caught.value)
    assert f"('{TEXTS[encoding][0][:12]}" in message
    command = message[message.index("iconv ") :]
    assert shlex.split(command)[-1] == "utf8-my rows.csv"
    subprocess.run(command, shell=True, check=True)
    assert Path("utf8-my rows.csv").read_text("utf-8") == content


def test_a_packed_file_and_an_unknown_encoding_get_words_to_fill_in(tmp_path: Path) -> None:
    import gzip

    packed = tmp_path / "rows.csv.gz"
    packed.write_bytes(gzip.compress("text,label\ncafé,a\n".encode("cp1252")))
    with pytest.raises(DataError, match="iconv -f cp1252 -t utf-8 OLD > NEW"):
        list(read_rows(str(packed), on_bad_row=OnBadRow("error")))
    (tmp_path / "rows.csv").write_bytes(b"text,label\n\x98\xff\x98\xff,a\n")
    with pytest.raises(DataError, match="convert it from its encoding: iconv -f ENCODING -t utf-8"):
        list(read_rows(str(tmp_path / "rows.csv"), on_bad_row=OnBadRow("error")))
