"""Why a model gives an answer: the effect of each word, found by leaving words out; never torch."""
