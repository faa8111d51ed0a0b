"""Training rows and validation rows: setting some aside, duplicates between the two, labels that only one side
knows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from mixling.data.dataset import Dataset
from mixling.data.examples import names_of
from mixling.errors import ConfigError, DataError, near_miss

_MANY_LABELS = 20  # so few are classes, whatever they look like
_NUMBER = re.compile(r"[-+]?(\d{1,300}\.?\d*|\.\d+)([eE][-+]?\d{1,3})?")


def split_validation(
    store: Dataset, *, fraction: float, seed: int, own: str = "--validation FILE"
) -> tuple[Dataset, Dataset]:
    """Set about `fraction` of the examples aside: (train, validation), both in the order of the store.

    Classes keep their shares, and at least one example of each stays in train; tuples of labels are split at random,
    and go back to train where they have a label that train would lack. Equal texts stay on one side, and questions on
    one context; or the examples of one group, where they have groups. So validation can be a little smaller or larger
    than asked.

    Args:
        own: how the caller may give validation rows, for the message where there are too few.

    Raises:
        ConfigError: the fraction is not between 0 and 1.
        DataError: there are too few different texts to set one aside, or their labels cannot be learnt at all.
    """
    if not 0 < fraction < 1:
        raise ConfigError(f"validation fraction: got {fraction}; a number between 0 and 1 is allowed")
    _check_classes(store, repeated=True)
    hashes, ids = store.group_hashes(), store.class_ids()
    keys = _shuffled(hashes, seed)  # equal texts get equal keys: a class gives its smallest keys to validation
    classes = np.zeros(len(store), dtype=np.int32) if ids is None else ids - ids.min(initial=0)
    counts = np.bincount(classes, minlength=1)
    in_validation = np.zeros(len(store), dtype=bool)
    if store.schema.grouped:
        in_validation = _groups_set_aside(keys, classes, fraction)
    else:
        rows_by_class = np.split(np.argsort(classes, kind="stable"), np.cumsum(counts)[:-1])
        for rows, quota in zip(rows_by_class, _quotas(counts, fraction), strict=True):
            if quota:
                in_validation[rows[_smallest(keys[rows], int(quota))]] = True
        in_validation &= ~np.isin(hashes, hashes[~in_validation])  # a text with two labels may have gone both ways
    if ids is None:
        chosen = np.flatnonzero(in_validation)
        lacking = unseen(store.subset(chosen), store.subset(np.flatnonzero(~in_validation)).label_counts())
        in_validation &= ~np.isin(hashes, hashes[chosen[lacking]])
    if not in_validation.any():
        check_labels(store, None)  # more rows of the same kind would not help
        path = store.where(0)[0] if len(store) else None
        what = "groups" if store.schema.grouped else "contexts" if store.schema.targets == "answers" else "texts"
        got = f"{len(store)} rows with {len(np.unique(hashes))} different {what}"
        remedy = f"give more rows, a larger fraction, or validation rows of your own ({own})"
        raise DataError(f"{got} are too few to set some aside for validation; {remedy}", path=path)
    return store.subset(np.flatnonzero(~in_validation)), store.subset(np.flatnonzero(in_validation))


def _shuffled(hashes: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.uint64]:
    """A seeded bijection of 64-bit numbers (multiply and xor-shift), the same on every platform."""
    keys = hashes + np.uint64(seed % 2**64)
    for multiplier, shift in ((0xBF58476D1CE4E5B9, 31), (0x94D049BB133111EB, 29)):
        keys ^= keys >> np.uint64(shift)
        keys *= np.uint64(multiplier)
    keys ^= keys >> np.uint64(32)
    return keys


def _quotas(counts: npt.NDArray[np.int64], fraction: float) -> npt.NDArray[np.int64]:
    """How many of each class go to validation: largest remainders, and never a whole class."""
    exact = counts * fraction
    quotas = np.floor(exact).astype(np.int64)
    most = np.maximum(counts - 1, 0)
    open_classes = [
        c for c in np.argsort(quotas - exact, kind="stable") if quotas[c] < most[c] and quotas[c] < exact[c]
    ]
    missing = round(float(exact.sum())) - int(quotas.sum())
    quotas[open_classes[:missing]] += 1
    return np.minimum(quotas, most)


def _smallest(keys: npt.NDArray[np.uint64], quota: int) -> npt.NDArray[np.bool_]:
    """The `quota` smallest keys; equal keys go together, to where the count comes nearest, but never all of them."""
    edge = np.partition(keys, quota - 1)[quota - 1]
    below, upto = keys < edge, keys <= edge
    more, fewer = int(upto.sum()), int(below.sum())
    return upto if more < len(keys) and more - quota <= quota - fewer else below


def _groups_set_aside(
    keys: npt.NDArray[np.uint64], classes: npt.NDArray[np.int32], fraction: float
) -> npt.NDArray[np.bool_]:
    """Which examples go to validation (len,), by whole groups.

    Groups are taken in the order of their keys while each brings the counts of the classes in validation nearer to
    `fraction` of all; where even one is too much, the smallest. No class goes to validation as a whole.
    """
    order = np.argsort(keys, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)
    left = Counter(classes.tolist())
    wanted = {name: count * fraction for name, count in left.items()}
    members = [Counter(classes[rows].tolist()) for rows in groups]
    chosen: list[int] = []
    for number, counts in enumerate(members):
        nearer = sum(abs(wanted[name]) - abs(wanted[name] - count) for name, count in counts.items())
        if nearer > 0 and all(left[name] > count for name, count in counts.items()):
            chosen.append(number)
            left -= counts
            for name, count in counts.items():
                wanted[name] -= count
    if not chosen:
        allowed = [i for i, counts in enumerate(members) if all(left[name] > count for name, count in counts.items())]
        smallest = min(allowed, key=lambda i: len(groups[i]), default=None)
        chosen = [smallest] if smallest is not None and len(groups[smallest]) < len(keys) / 2 else []
    out = np.zeros(len(keys), dtype=bool)
    for number in chosen:
        out[groups[number]] = True
    return out


def report_duplicates(train: Dataset, validation: Dataset) -> int:
    """The number of validation examples whose text stands in train too."""
    return int(np.isin(validation.text_hashes(), train.text_hashes()).sum())


def unseen(store: Dataset, known_labels: Collection[str]) -> npt.NDArray[np.int64]:
    """Indices of the examples that carry a label, or a slot, which is not known."""
    known = set(known_labels)
    if known.issuperset(store.label_counts()):
        return np.zeros(0, dtype=np.int64)
    return np.array(
        [i for i, target in enumerate(store.targets) if not known.issuperset(names_of(target))], dtype=np.int64
    )


def _check_classes(store: Dataset, *, repeated: bool) -> None:
    """Refuse labels that are no classes.

    Args:
        repeated: labels must occur several times, since rows to measure on are still to be set aside.

    Raises:
        DataError: they are numbers with fractions, or there is one for nearly every row.
    """
    labels, rows = list(store.label_counts()), len(store)
    if store.class_ids() is None or len(labels) <= _MANY_LABELS:
        return
    unique = repeated and len(labels) > 2 / 3 * rows
    got = f"{len(labels):,} different labels in {rows:,} rows"
    # The number of a class has no fraction; whole numbers, such as years, may be classes as long as they repeat.
    if all(map(_NUMBER.fullmatch, labels)) and (unique or not all(map(_is_whole, labels))):
        message = (
            f"{got}, all of them numbers ({', '.join(labels[:3])}): to predict a number use --task regression "
            "(in Python TextRegressor); else make a few classes of the numbers, such as low, medium and high"
        )
    elif unique:
        message = f"{got} are too many; choose the column of the label with --label, or give more rows of each label"
    else:
        return
    raise DataError(message, path=store.where(0)[0])


def _is_whole(number: str) -> bool:
    return float(number).is_integer()


def check_labels(train: Dataset, validation: Dataset | None) -> None:
    """Refuse what cannot be learnt or measured.

    Questions have no labels. For slots, `B-name` makes `I-name` known and the other way round.

    Raises:
        DataError: train has one class only, or no slots but O; its labels are numbers, or nearly as many as its rows;
            validation has a label that train lacks.
    """
    if train.schema.targets in ("answers", "number"):
        return
    counts = train.label_counts()
    _check_classes(train, repeated=False)
    if len(counts) < 2 and (train.class_ids() is not None or "O" in counts):
        got = f"only the label {next(iter(counts))!r}" if counts else "no labels"
        message = f"{got} in {len(train)} training rows; at least two different labels are needed"
        raise DataError(message, path=train.where(0)[0] if len(train) else None)
    known = set(counts)
    if "O" in counts and train.class_ids() is None:
        known |= {prefix + slot[2:] for slot in counts if slot != "O" for prefix in ("B-", "I-")}
    bad = unseen(validation, known) if validation is not None else np.zeros(0, dtype=np.int64)
    if validation is not None and len(bad):
        path, line = validation.where(bad[0])
        label = next(label for label in names_of(validation.targets[bad[0]]) if label not in known)
        remedy = "correct it, leave the row out, or add training rows with it"
        message = f"label {label!r} does not occur in training; {near_miss(label, sorted(known))}; {remedy}"
        raise DataError(message, path=path, line=line)
