from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

class Model:
    labels: tuple[str, ...]
    task: str
    abstains: bool
    pairs: bool | None
    reads_long: bool
    instructions: str
    def __init__(self, data: bytes, cache_bytes: int, seed: int) -> None: ...
    def predict(self, texts: Sequence[str | tuple[str, str] | list[str]], to_end: bool) -> tuple[bytes, bytes]: ...
    def decide(
        self, texts: Sequence[str], to_end: bool, kind: type[T], labels: tuple[str, ...], make: Callable[[int], Any]
    ) -> tuple[list[T], bytes] | None: ...
    def lines(
        self,
        texts: Sequence[str],
        to_end: bool,
        starts: tuple[bytes, ...],
        names: tuple[bytes, ...],
        ends: tuple[bytes, ...],
    ) -> list[str] | None: ...
    def tag(self, texts: Sequence[str]) -> tuple[bytes, bytes, bytes, bytes, bytes]: ...
    def answer(self, pair: tuple[str, str]) -> tuple[int, int, int, float, float, float]: ...
    def words(self, text: str) -> tuple[list[tuple[int, int]], int]: ...
    def features(self, word: str) -> bytes: ...
    def normalize(self, code: int, how: int) -> tuple[int, bytes]: ...
