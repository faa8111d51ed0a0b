"""Things that are found by name: files of a package, entry points of other packages, and what a process registers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mixling.errors import ConfigError, near_miss

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_T = TypeVar("_T", bound=type)


class Registry(Generic[_T]):
    """Classes of one sort by name: the library's own first, then registered ones, then entry points'.

    Args:
        what: one of them in a word, for messages.
        key: what its name is called: "name" or "type".
        group: the group of the entry points.
        how: the function that registers one, with its module.
        own: returns the names of the library's own, without importing them.
        load_own: imports one of these.
        name_of: returns the name of a class, and raises ConfigError where it is not of the sort.
    """

    def __init__(
        self,
        what: str,
        *,
        key: str,
        group: str,
        how: str,
        own: Callable[[], Collection[str]],
        load_own: Callable[[str], _T],
        name_of: Callable[[Any], str],
    ) -> None:
        self.what = what
        self.key = key
        self.group = group
        self.how = how
        self._own = own
        self._load_own = load_own
        self._name_of = name_of
        self.registered: dict[str, _T] = {}
        self._loaded: dict[str, _T] = {}

    @cached_property
    def entry_points(self) -> Mapping[str, EntryPoint]:
        """The entry points of the group by name."""
        from importlib.metadata import entry_points  # its import takes longer than the rest of this module

        return {found.name: found for found in entry_points(group=self.group)}

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted({*self._own(), *self.registered, *self.entry_points})

    def register(self, item: _T) -> _T:
        """Make a class known in this process; one of the same module and name replaces that registered before.

        Raises:
            ConfigError: it is not of the sort, or its name is taken.
        """
        name = self._name_of(item)
        known = self.registered.get(name)
        same = known is not None and (known.__module__, known.__qualname__) == (item.__module__, item.__qualname__)
        if name in self._own() or (known is not None and not same):
            owner = "mixling" if known is None else f"{known.__module__}.{known.__qualname__}"
            raise ConfigError(
                f"{self.what} {name!r}: {owner} has a {self.what} of this {self.key}; choose another {self.key}"
            )
        self.registered[name] = item
        return item

    def get(self, name: object) -> _T:
        """Return the class of this name.

        Raises:
            ConfigError: there is none, or its entry point cannot be loaded.
        """
        if isinstance(name, str):
            if name in self.registered:
                return self.registered[name]
            if name not in self._loaded and name in self._own():
                self._loaded[name] = self._load_own(name)
            if name in self._loaded:
                return self._loaded[name]
            if name in self.entry_points:
                return self._from_entry_point(self.entry_points[name])
        raise ConfigError(
            f"unknown {self.what} {name!r}; {near_miss(str(name), self.names())}; names of other packages are found by "
            f"an entry point of the group {self.group!r}, or after {self.how}"
        )

    def _from_entry_point(self, found: EntryPoint) -> _T:
        where = f"{self.what} {found.name!r}: entry point {found.value!r}"
        try:
            item: _T = found.load()
        except Exception as error:  # whatever the import of foreign code raises
            raise ConfigError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
        if (name := self._name_of(item)) != found.name:
            raise ConfigError(f"{where}: its {self.key} is {name!r}; name the entry point so")
        return item
