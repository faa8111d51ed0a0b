"""What small parsers get wrong: the tree of intents and slots, or the words in it.

For finished runs of `parsing.py mtop`: the fraction of validation answers whose tree is right if its words are ignored,
and how many wrong answers contain words that are not in the source, from which the model should copy.

    python experiments/parsing_errors.py --data ../shared/data runs/parsing/mtop/*/0.001/20/0    # a minute a run
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import torch

from mixling import TextGenerator
from mixling.data import OnBadRow
from mixling.provenance import provenance
from mixling.research.seq2seq import PairColumns, read_pairs
from mixling.storage import write_json

_LABEL = re.compile(r"\[(?:IN|SL):\w+|\]")


def tree(parse: str) -> str:
    """A parse without its words."""
    return " ".join(_LABEL.findall(parse))


def words(parse: str) -> set[str]:
    """The words of a parse."""
    return set(_LABEL.sub(" ", parse).split())


def count(answers: list[str], sources: list[str], targets: list[str]) -> dict[str, int]:
    """Count right answers, right trees, wrong answers, and wrong answers with words that are not in the source."""
    rows = list(zip(answers, sources, targets, strict=True))
    wrong = [(answer, source) for answer, source, target in rows if answer != target]
    return {
        "answers": len(rows),
        "right": len(rows) - len(wrong),
        "right trees": sum(tree(answer) == tree(target) for answer, _, target in rows),
        "wrong, with words that the source lacks": sum(
            not words(answer) <= set(source.split()) for answer, source in wrong
        ),
    }


def main() -> None:
    """Count and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "parsing_errors.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    validation = options.data / "mtop_en_seq2seq" / "dev.jsonl.gz"
    pairs = list(read_pairs([validation], columns=PairColumns(), on_bad_row=OnBadRow("error")))
    sources, targets = [pair.source for pair in pairs], [str(pair.target) for pair in pairs]
    results = {}
    for folder in options.runs:
        answers = [written.text for written in TextGenerator(folder).generate(sources)]
        results[str(folder)] = count(answers, sources, targets)
        print(folder, results[str(folder)], flush=True)
    write_json(options.out, {"provenance": provenance(), "runs": results})


if __name__ == "__main__":
    main()
