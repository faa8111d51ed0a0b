/* libmixling: from a text to the logits of a saved mixling model.

   A model is opened from the bytes of a `model.onnx` and never changes; any number of threads may share it. What is
   remembered between texts (the vectors of words) is a worker's, and a worker is used by one thread at a time. There
   are no globals, no locks, no files, no output. Texts are UTF-8; a byte that is none is read as U+FFFD.

   Not every model can be run: `mixling_open` answers MIXLING_UNSUPPORTED for those that need ONNX Runtime, and says
   why. See example.c for a program. */

#ifndef MIXLING_H
#define MIXLING_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mixling_model mixling_model;
typedef struct mixling_worker mixling_worker;

enum {
    MIXLING_OK = 0,
    MIXLING_DAMAGED = 1,     /* the file is none of a mixling model, or was changed */
    MIXLING_UNSUPPORTED = 2, /* a sound model perhaps, but with parts that are not built here */
    MIXLING_MEMORY = 3,      /* out of memory; the worker can be used on */
    MIXLING_ARGUMENT = 4 /* another number of texts than the model reads together; a function of another task; no cells
                            for a model with columns, or a cell that is no number, or date, as its column is */
};

/* The value of a column beside a text, UTF-8 as in a file; `data` is NULL where it is missing. In a column of numbers it may
   be a double, too: then `data` points to it and `size` is MIXLING_NUMBER. */
#define MIXLING_NUMBER ((size_t)-1)
typedef struct {
    const char *data;
    size_t size; /* in bytes */
} mixling_cell;

/* A text, or several that belong together. `second` is NULL where there is no second text; of further ones, it has each after
   the byte 0xFE, up to MIXLING_TEXTS in all. A model with columns takes as many `cells` as they are, in their order; of
   other models they are NULL.

   A text of the byte 0xFF before each word is split into words already, which have no NUL; characters are then counted as if
   there were a space between two words. */
typedef struct {
    const char *first;
    size_t first_size; /* in bytes */
    const char *second;
    size_t second_size;
    const mixling_cell *cells;
} mixling_text;

enum { MIXLING_TEXTS = 8 }; /* that belong together, at most */

/* Bits of the flags of a text. */
enum {
    MIXLING_TRUNCATED = 1, /* words, or characters of a word, were left out */
    MIXLING_EMPTY = 2      /* there was no word */
};

/* A word of a text: characters from `start` up to `end` of it. `marks` are set of several texts, see docs/format.md. */
typedef struct {
    uint32_t start, end;
    uint32_t marks;
} mixling_word;

/* The version of this header; `mixling_version` returns the compiled library's. */
#define MIXLING_VERSION "0.1.0"
const char *mixling_version(void);

/* Open a model; `data` is not needed afterwards.

   Writes a reason of less than `error_size` bytes to `error` where the result is not MIXLING_OK. */
int mixling_open(const void *data, size_t size, mixling_model **model, char *error, size_t error_size);
void mixling_close(mixling_model *model);

/* The number of labels, equal to the number of a text's logits, and the UTF-8 name of one. */
size_t mixling_num_labels(const mixling_model *model);
const char *mixling_label(const mixling_model *model, size_t index);
/* The number of columns beside the text, 0 for most models, the UTF-8 name of one, and whether it has numbers. */
size_t mixling_num_columns(const mixling_model *model);
const char *mixling_column(const mixling_model *model, size_t index);
int mixling_is_number(const mixling_model *model, size_t index);
/* The index of the first of its cells that is no number, or date, as its column is; the number of columns: there is none. */
size_t mixling_bad_cell(const mixling_model *model, const mixling_cell *cells);
/* How many texts belong together, 2 for a model of pairs; 0 where the file does not state it. */
size_t mixling_num_texts(const mixling_model *model);
/* 1 for a model whose metadata have a `threshold` below which it abstains, `conformal` sets of labels, or a `rule` by
   which another label than the most probable one can be the answer; they are not applied here. Else 0. */
int mixling_abstains(const mixling_model *model);
/* "classification", "multi_label", "regression"; "tagging", see `mixling_tag`; "question_answering", see
   `mixling_answer`. */
const char *mixling_task(const mixling_model *model);
/* 1 for "tagging" and "question_answering", whose logits are of words; else 0. */
int mixling_per_token(const mixling_model *model);
/* The instructions that it computes with: "avx512", "avx2", "neon" or "plain". */
const char *mixling_instructions(const mixling_model *model);
/* Words that are read of a text. */
size_t mixling_max_len(const mixling_model *model);

/* Make a worker.

   cache_bytes: about the memory for words that were met; at least as much as the longest text needs is taken.
   seed: any number that the authors of the texts do not know. */
int mixling_start(const mixling_model *model, size_t cache_bytes, uint64_t seed, mixling_worker **worker);
void mixling_stop(mixling_worker *worker);

/* Compute the logits (n, number of labels) and the flags (n) of texts. No answer depends on the other texts.

   Tags and answers have functions of their own, below. */
int mixling_predict(mixling_worker *worker, const mixling_text *texts, size_t n, float *logits, uint8_t *flags);

/* The same, but texts of more words or subwords than `mixling_max_len` are read to their end: in windows of that size, whose
   logits are averaged. Of several the longest is divided, and each window has the others, each up to its share.
   MIXLING_TRUNCATED then: a text has more than 1,048,576 characters, or a word too many; or another one is longer. */
int mixling_predict_long(mixling_worker *worker, const mixling_text *texts, size_t n, float *logits, uint8_t *flags);

/* Compute the logits (m, number of labels) of texts that have some of the words of one: `kept` (m, n) is 1 for those of
   its `n` words that the text has, and what the texts have in common is computed once.

   MIXLING_ARGUMENT: the text has another number of words that are read; several texts, or a model of them; a model whose tokens
   are subwords, or whose logits are of words. */
int mixling_predict_kept(
    mixling_worker *worker, const mixling_text *text, const uint8_t *kept, size_t m, size_t n, float *logits);

/* The values of a text's vector, and the vector itself: the mean of its words' rows, which are the input of the network. */
size_t mixling_vector_size(const mixling_model *model);
int mixling_vector(mixling_worker *worker, const mixling_text *text, float *vector);

/* Split a single text into the words that `mixling_predict` reads.

   words: room for `mixling_max_len` of them, the first `*n` are filled. */
int mixling_words(mixling_worker *worker, const mixling_text *text, mixling_word *words, size_t *n, uint8_t *flags);

/* Tag the words of a single text: `*n` words, their logits (n, number of labels), their tags, which are the most probable
   sequence of labels in which I-x follows B-x or I-x, and the probability of each tag. All four are in memory of the
   worker, until its next call.

   to_end: read a text of more than `mixling_max_len` words or subwords in windows that overlap, of which each word has its
   logits from the one where it is farthest from an end; only what is beyond 1,048,576 characters is left out. */
int mixling_tag(
    mixling_worker *worker, const mixling_text *text, int to_end, const mixling_word **words, const float **logits,
    const uint32_t **tags, const float **probabilities, size_t *n, uint8_t *flags);

/* An answer: characters from `start` up to `end` of the context. */
typedef struct {
    uint32_t start, end;
    int found;          /* 0: the context has no words */
    double margin;      /* score of "no answer" minus the span's score; a model with a threshold answers up to it */
    double probability; /* of the span, among all spans and "no answer"; not a number where a logit is none */
    double no_answer;   /* the probability of "no answer" */
} mixling_span;

/* Find the answer to a question, the first text of a pair, in its context, the second one, of up to 1,048,576 characters.

   The context is read in windows that overlap. MIXLING_TRUNCATED: words of the question were left out. */
int mixling_answer(mixling_worker *worker, const mixling_text *text, mixling_span *answer, uint8_t *flags);

/* The features of one word, as rows of the model's table; `*n` is how many, at most `capacity`. Those of ternary features
   that count -1 have the highest bit set. */
int mixling_features(
    mixling_worker *worker, const char *word, size_t size, uint32_t *features, size_t capacity, size_t *n);

/* Of a code point: its properties (tools/unicode_tables.py), and the text of lower case, or NFC, or both of it.

   out: room for 16 code points; how: 1 lower case, 2 NFC, 3 both. Returns their number. */
size_t mixling_normalize(const mixling_worker *worker, uint32_t code, int how, uint32_t *out, uint32_t *properties);

#ifdef __cplusplus
}
#endif
#endif
