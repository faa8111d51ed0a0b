"""Word vectors of unlabeled text, for several models that begin with the same (`--set init.vectors=DIR`).

python experiments/vectors.py FILES... -o DIR
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mixling.data import read_texts
from mixling.text import VectorConfig, train_vectors


def main() -> None:
    """Count the words and write the vectors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("-o", "--out", type=Path, required=True)
    options = parser.parse_args()
    vectors = train_vectors(read_texts(options.files), VectorConfig())
    vectors.save(options.out)
    print(f"{len(vectors.words):,} words of {vectors.num_tokens:,}, vectors of width {vectors.config.dim}")


if __name__ == "__main__":
    main()
