"""Split data into training and validation examples, and check both: duplicates, and labels of only one side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from mixling.data.dataset import Dataset
from mixling.data.examples import Target, names_of
from mixling.data.number_codes import MANY, WHOLE_NUMBERS, plain_number, reason_for_classes
from mixling.data.similar_labels import with_escapes
from mixling.errors import ConfigError, DataError, near_miss

_NAMED = 10  # labels named in a message


def split_validation(
    store: Dataset, *, fraction: float, seed: int, own: str = "--validation FILE", most: int | None = None
) -> tuple[Dataset, Dataset]:
    """Set about `fraction` of the examples aside; return (train, validation), both in the order of the store.

    The split is stratified by class, and at least one example of each class stays in train. Examples with tuples of
    labels are split at random, and return to train if one of their labels would be missing there. Equal texts, or
    questions with equal contexts, stay on one side; if there are groups, so do the examples of each group. Validation
    may therefore be a little smaller or larger than requested.

    Args:
        own: how the caller can provide validation examples, for the message if there are too few examples.
        most: validation examples, roughly; None: any number.

    Raises:
        ConfigError: the fraction is not between 0 and 1.
        DataError: there are too few distinct texts to set one aside, or their labels cannot be learned.
    """
    if not 0 < fraction < 1:
        raise ConfigError(f"validation fraction: got {fraction}; allowed: a number between 0 and 1")
    _check_classes(store, repeated=True)
    hashes = store.group_hashes()
    ids = store.class_ids()
    keys = _shuffled(hashes, seed)  # equal for equal texts; the smallest keys of a class go to validation
    classes = np.zeros(len(store), dtype=np.int32) if ids is None else ids - ids.min(initial=0)
    if store.schema.grouped:
        in_validation = _groups_set_aside(keys, classes, fraction)
    else:
        in_validation = _set_aside(keys, classes, fraction)
    if most is not None and np.count_nonzero(in_validation) > most:
        in_validation &= keys <= np.sort(keys[in_validation])[most - 1]
    if ids is None:
        chosen = np.flatnonzero(in_validation)
        unknown = unseen(store.subset(chosen), store.subset(np.flatnonzero(~in_validation)).label_counts())
        in_validation &= ~np.isin(hashes, hashes[chosen[unknown]])
    if not in_validation.any():
        check_labels(store, None)  # more rows of the same kind would not help
        path = store.where(0)[0] if len(store) else None
        what = "groups" if store.schema.grouped else "contexts" if store.schema.targets == "answers" else "texts"
        got = f"{len(store)} rows with {len(np.unique(hashes))} distinct {what}"
        remedy = f"provide more rows, a larger fraction, or your own validation rows ({own})"
        raise DataError(f"{got} are too few to set some aside for validation; {remedy}", path=path)
    return store.subset(np.flatnonzero(~in_validation)), store.subset(np.flatnonzero(in_validation))


def stratified(
    hashes: npt.NDArray[np.uint64], classes: npt.NDArray[np.integer], *, fraction: float, seed: int
) -> npt.NDArray[np.bool_]:
    """Return which examples to set aside, (examples,): about `fraction` of each class, but never all of one.

    Args:
        hashes: of the examples' content; equal ones stay on one side.
        classes: ids from 0.

    Raises:
        ConfigError: the fraction is not between 0 and 1.
    """
    if not 0 < fraction < 1:
        raise ConfigError(f"validation fraction: got {fraction}; allowed: a number between 0 and 1")
    return _set_aside(_shuffled(hashes, seed), classes, fraction)


def _set_aside(
    keys: npt.NDArray[np.uint64], classes: npt.NDArray[np.integer], fraction: float
) -> npt.NDArray[np.bool_]:
    counts = np.bincount(classes, minlength=1)
    chosen = np.zeros(len(keys), dtype=bool)
    rows_by_class = np.split(np.argsort(classes, kind="stable"), np.cumsum(counts)[:-1])
    for rows, quota in zip(rows_by_class, _quotas(counts, fraction), strict=True):
        if quota:
            chosen[rows[_smallest(keys[rows], int(quota))]] = True
    found = np.flatnonzero(chosen)
    chosen[found[_occur(keys[found], keys[~chosen])]] = False  # one with two labels may be on both sides
    return chosen


def _occur(keys: npt.NDArray[np.uint64], others: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Return which keys occur among others, as np.isin does: faster where these are many more."""
    ordered = np.sort(others)
    at = np.searchsorted(ordered, keys)
    return np.append(ordered, ordered[:1])[at] == keys if len(ordered) else np.zeros(len(keys), bool)


def assign_folds(
    examples: Dataset, folds: int, seed: int, *, groups: npt.NDArray[np.uint64] | None = None
) -> npt.NDArray[np.int64]:
    """Return the fold (n,) of each example: equal texts, and texts of a group, have the same, and each label is in all
    as evenly as can be.

    Args:
        groups: (n,) a number for each example, equal in a group; None: the examples' groups.

    Raises:
        DataError: there are fewer distinct texts than folds.
    """
    hashes = examples.group_hashes() if groups is None else groups
    classes = _classes(examples)
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    if len(first) < folds:
        raise DataError(
            f"{len(first)} distinct texts are too few for {folds} folds; give more examples or a smaller --folds",
            path=examples.where(0)[0] if len(examples) else None,
        )
    order = np.random.default_rng(seed).permutation(len(first))
    order = order[np.argsort(classes[first][order], kind="stable")]
    fold = np.empty(len(first), np.int64)
    fold[order] = np.arange(len(first)) % folds  # label after label, so that each is spread over the folds
    return fold[group]


def _classes(examples: Dataset) -> npt.NDArray[np.int64]:
    """Return the label (n,) by which each example is assigned to a fold: of several labels the rarest."""
    if (classes := examples.class_ids()) is not None:
        return classes.astype(np.int64)
    if examples.schema.targets == "number":
        return np.zeros(len(examples), np.int64)
    counts = examples.label_counts()
    order = {name: number for number, name in enumerate(sorted(counts, key=lambda name: (counts[name], name)))}
    rarest = [min((order[name] for name in names_of(target)), default=len(order)) for target in examples.targets]
    return np.array(rarest, np.int64)


def few_per_label(store: Dataset, count: int, *, seed: int) -> Dataset:
    """Return a sample with `count` examples of each label, or all of a label with fewer.

    Equal texts count once. Samples of one seed are nested: a smaller one is part of a larger one.

    Args:
        store: examples with one label each.
    """
    keys = _shuffled(store.text_hashes(), seed)
    _, first = np.unique(keys, return_index=True)
    chosen: list[npt.NDArray[np.int64]] = []
    targets = np.array([str(store.targets[int(index)]) for index in first])  # in the order of the keys
    for label in np.unique(targets):
        chosen.append(first[targets == label][:count])
    return store.subset(np.sort(np.concatenate(chosen)))


def _shuffled(hashes: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.uint64]:
    """Apply a seeded bijection of 64-bit numbers (multiply and xor-shift), the same on every platform."""
    keys = hashes + np.uint64(seed % 2**64)
    for multiplier, shift in ((0xBF58476D1CE4E5B9, 31), (0x94D049BB133111EB, 29)):
        keys ^= keys >> np.uint64(shift)
        keys *= np.uint64(multiplier)
    keys ^= keys >> np.uint64(32)
    return keys


def _quotas(counts: npt.NDArray[np.int64], fraction: float) -> npt.NDArray[np.int64]:
    """Return the number of validation examples of each class, by largest remainders, but never the whole class."""
    exact = counts * fraction
    quotas = np.floor(exact).astype(np.int64)
    most = np.maximum(counts - 1, 0)
    open_classes = [
        c for c in np.argsort(quotas - exact, kind="stable") if quotas[c] < most[c] and quotas[c] < exact[c]
    ]
    missing = round(float(exact.sum())) - int(quotas.sum())
    quotas[open_classes[:missing]] += 1
    bounded: npt.NDArray[np.int64] = np.minimum(quotas, most)
    return bounded


def _smallest(keys: npt.NDArray[np.uint64], quota: int) -> npt.NDArray[np.bool_]:
    """Select about `quota` smallest keys, but not all; equal keys are either all selected or all left."""
    edge = np.partition(keys, quota - 1)[quota - 1]
    below = keys < edge
    upto = keys <= edge
    more = int(upto.sum())
    fewer = int(below.sum())
    closest: npt.NDArray[np.bool_] = upto if more < len(keys) and more - quota <= quota - fewer else below
    return closest


def _groups_set_aside(
    keys: npt.NDArray[np.uint64], classes: npt.NDArray[np.int32], fraction: float
) -> npt.NDArray[np.bool_]:
    """Select whole groups for validation; return a mask (len,).

    In the order of their keys, groups are taken if they bring the class counts of validation closer to `fraction` of
    all; if there is no such group, the smallest is taken. No class goes to validation completely.
    """
    order = np.argsort(keys, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)
    left = Counter(classes.tolist())
    wanted = {name: count * fraction for name, count in left.items()}
    members = [Counter(classes[rows].tolist()) for rows in groups]
    chosen: list[int] = []
    for number, counts in enumerate(members):
        gain = sum(abs(wanted[name]) - abs(wanted[name] - count) for name, count in counts.items())
        if gain > 0 and all(left[name] > count for name, count in counts.items()):
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
    """Return the number of validation examples whose text is in train, too."""
    return int(_occur(validation.text_hashes(), train.text_hashes()).sum())


def unseen(store: Dataset, known_labels: Collection[str]) -> npt.NDArray[np.int64]:
    """Return the indices of examples with a label or slot that is not known."""
    known = set(known_labels)
    if known.issuperset(store.label_counts()):
        return np.zeros(0, dtype=np.int64)
    return np.array(
        [i for i, target in enumerate(store.targets) if not known.issuperset(names_of(target))], dtype=np.int64
    )


def describe_unseen(targets: Iterable[Target], known_labels: Collection[str]) -> str:
    """Return a sentence that counts and names the labels that are not known; "" if there are none."""
    known = set(known_labels)
    counts = Counter[str]()
    number = 0
    for target in targets:
        new = set(names_of(target)) - known
        counts.update(new)
        number += bool(new)
    if not number:
        return ""
    named = ", ".join(f"'{with_escapes(label)}' ({count:,})" for label, count in counts.most_common(_NAMED))
    more = f" and {len(counts) - _NAMED:,} more" if len(counts) > _NAMED else ""
    have = "example has a label"
    count = "counts as an error"
    if number > 1:
        have = "examples have labels"
        count = "count as errors"
    return f"{number:,} {have} that training never saw and {count}: {named}{more}"


def _check_classes(store: Dataset, *, repeated: bool) -> None:
    """Reject labels that are not classes.

    Args:
        repeated: whether labels must occur several times, because validation examples are still to be set aside.

    Raises:
        DataError: the labels are numbers with fractions, or nearly every row has its own.
    """
    labels = store.label_counts()
    rows = len(store)
    if store.class_ids() is None or len(labels) <= MANY:
        return
    unique = repeated and len(labels) > 2 / 3 * rows
    got = f"{len(labels):,} distinct labels in {rows:,} rows"
    why = reason_for_classes({name.replace(",", "."): count for name, count in labels.items()})
    amounts = {name: plain for name in labels if (plain := plain_number(name)) is not None}
    if why is None and len(amounts) == len(labels) and (unique or reason_for_classes(_summed(labels, amounts)) == ""):
        name, plain = next(iter(amounts.items()))
        message = (
            f"{got}, all of them amounts ({', '.join(list(labels)[:3])}): to predict a number, write them as numbers "
            f"with a decimal point, such as {plain} for {name}, and use --task regression; otherwise replace them by a "
            "few classes, such as low, medium and high"
        )
    elif why == "" or (unique and why == WHOLE_NUMBERS):
        message = (
            f"{got}, all of them numbers ({', '.join(list(labels)[:3])}): to predict a number use --task regression "
            "(in Python TextRegressor); otherwise replace the numbers by a few classes, such as low, medium and high"
        )
    elif unique:
        message = f"{got} are too many; choose the label column with --label, or provide more rows of each label"
    else:
        return
    raise DataError(message, path=store.where(0)[0])


def _summed(counts: Mapping[str, int], names: Mapping[str, str]) -> Counter[str]:
    """Return how often each name occurs, given counts by other names."""
    out: Counter[str] = Counter()
    for other, count in counts.items():
        out[names[other]] += count
    return out


def check_labels(train: Dataset, validation: Dataset | None) -> None:
    """Check that labels can be learned, and that validation examples have some of them.

    Questions have no labels. Of slots, `B-name` and `I-name` are known if one of them is.

    Raises:
        DataError: train has only one class, or no slots except O; its labels are numbers, or nearly every row has its
            own; no label of validation occurs in train.
    """
    if train.schema.targets in ("answers", "number"):
        return
    counts = train.label_counts()
    _check_classes(train, repeated=False)
    if len(counts) < 2 and (train.class_ids() is not None or "O" in counts):
        got = f"only the label {next(iter(counts))!r}" if counts else "no labels"
        message = f"{got} in {len(train)} training rows; at least two distinct labels are required"
        raise DataError(message, path=train.where(0)[0] if len(train) else None)
    known = set(counts)
    if "O" in counts and train.class_ids() is None:
        known |= {prefix + slot[2:] for slot in counts if slot != "O" for prefix in ("B-", "I-")}
    given = validation.label_counts() if validation is not None else {}
    if validation is not None and given and known.isdisjoint(given):
        path, line = validation.where(int(unseen(validation, known)[0]))
        label = next(iter(given))
        got = f"label {label!r} does not occur in training, nor does any other label of these rows"
        message = f"{got}; {near_miss(label, sorted(known))}; give rows with labels of the training data"
        raise DataError(message, path=path, line=line)
