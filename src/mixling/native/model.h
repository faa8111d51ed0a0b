/* An opened model and a worker, as the parts of the library see them. */

#ifndef MIXLING_MODEL_H
#define MIXLING_MODEL_H

#include "columns.h"
#include "file.h"
#include "json.h"
#include "kernels.h"
#include "mixling.h"
#include "unicode.h"

enum { MARK_TEXT = 13, MARK_SHARED = 2 }; /* of a word of several texts: which it is in, and whether others have it */

/* The mark of a text's number, which leaves the bit of MARK_SHARED free. */
static inline uint32_t text_mark(size_t number) { return (uint32_t)((number & 1) | (number >> 1) << 2); }
static inline uint32_t text_of_mark(uint32_t marks) { return (marks & 1) | marks >> 2 << 1; }

/* A matrix (rows, columns) whose rows have `stride` floats. */
typedef struct {
    size_t rows, columns, stride;
    float *values;
} matrix;

struct mixer; /* mixers.h */

typedef struct {
    const struct mixer *mixer; /* NULL: an MLP */
    int mixes_tokens;          /* a token-mixing MLP, else one over the channels */
    int before;                /* the norm is before it, else after the sum */
    float *norm_weight, *norm_bias;
    matrix expand, contract; /* of channels: (D, F), (F, D); of tokens: (H, max_len), (max_len, H) */
    float *expand_bias, *contract_bias;
    int8_matrix integers; /* `contract` of channels as it is stored, with its bias, where that is faster */
    /* In bfloat16, or NULL: `expand` of channels as pairs of rows (D / 2, F); of tokens both as pairs of values,
       (H, max_len / 2) and (max_len, H / 2), rounded up. */
    uint32_t *expand_pairs, *contract_pairs;
} sublayer;

/* WordPiece: a set of byte strings. */
typedef struct {
    uint8_t *text;
    uint32_t *starts;                        /* of each subword, and the end of the last */
    uint32_t *slots;                         /* 1 + the number of a subword; 0 where there is none */
    uint32_t mask, number, longest, unknown; /* longest: in bytes; unknown: the number of [UNK] */
} vocabulary;

/* Of n-grams the most characters, and the terms that are compared at once; more of them than a bucket has may be there. */
enum { NGRAMS_MAX_N = 8, NGRAMS_BUCKET = 8 };

/* A linear model of a text's words, pairs of words and character n-grams, whose logits are added to the network's (see
   mixling/text/ngram_branch.py). */
typedef struct {
    uint32_t min_n, max_n;
    float network;          /* factor of the network's logits in the sum */
    size_t number, outputs; /* T; K, 0 where there is no such model */
    int low_bits;
    uint32_t *terms;    /* (T) hashes, ascending */
    uint32_t *buckets;  /* of each value of the bits above the low ones, its first term; and T */
    int8_t *weights;    /* (T, K + 1), the square of each term last; or (W) with `score_of` */
    int8_t *squares;    /* (T) where weights are stored one by one; else NULL */
    uint32_t *starts;   /* (T + 1) of the terms' weights, where these are stored one by one; else NULL */
    uint32_t *score_of; /* of each such weight, below K */
    float *scale, *bias;
    column_set columns;    /* beside the text; their number is 0 where there are none */
    float *column_weights; /* (width of the columns, K) */
} ngram_branch;

struct mixling_model {
    size_t budget; /* bytes that may still be taken */
    /* text */
    size_t max_len, max_word_chars;
    int lowercase, contractions, segments, overlap, abstains; /* segments: how many */
    size_t texts;                                             /* that belong together; 0: unknown */
    int ternary;  /* a word's features count 1 or -1, two bits of its hash each; else MinHash */
    int subwords; /* tokens are subwords, each with a row of its own in the table; else words, with hashed features */
    uint32_t num_features, num_hashes, word_hashes, letter_hashes, num_rows;
    size_t max_features; /* of a word */
    uint32_t *keys;      /* of the hash family */
    unicode_tables unicode;
    uint8_t ascii[128]; /* classes */
    vocabulary vocabulary;
    /* labels */
    char *task, *names;
    const char **labels;
    size_t num_labels;
    /* the table of features: integers with a scale for each column, or floats */
    size_t row_size; /* S, values of a row */
    int8_t *integers;
    float *floats, *scale;
    /* the body */
    size_t dim, width, window, parts; /* D, D padded, w, 2w + 1 */
    matrix spread;                    /* (S, parts * width); no values where a row is that wide itself */
    float *bias;
    float *positions;                 /* (max_len, width), added to the tokens; NULL: none */
    float *token_weight, *token_bias; /* of a norm of the tokens; NULL: none */
    sublayer *sublayers;
    size_t num_sublayers;
    /* Where the first sublayer is over channels, with its norm before it, its first product is made once a word:
       W1 norm(x) + b1 = r (sum of W' row + `folded_bias`) + `folded_shift`, with W' = (I - 1/D) diag(g) W1, of the rows
       that x is the sum of, and r = 1 / deviation of x. No values where it is not so. */
    matrix folded;
    float *folded_bias, *folded_shift;
    /* Whether rows are kept in half precision and products in 8 bits, as those of models in 8 bits are where processors
       convert them: reading them takes as long as all else. Rows are in a unit, a power of two, so that no word is beyond
       the range; each part of the products is followed by its unit, in which its greatest value is 127. */
    int halves;
    float row_unit;
    size_t product_at, branch_at, record; /* of a word in the table; in bytes */
    float *final_weight, *final_bias;
    int attention, mean, maximum; /* pools */
    float *score;
    float score_bias;
    matrix output; /* (pools * width, C padded) */
    float *output_bias;
    int per_token;      /* logits of each token, without a pool */
    int32_t *begins;    /* of a tagger: for each tag I-x that has one, its tag B-x; else -1 */
    float *transitions; /* (C, C) scores of each tag after each other one, -inf where I-x cannot be; NULL: none */
    double *factors, *reversed; /* their exponentials, divided by the highest one, and transposed */
    /* How questions are answered, where max_answer is not 0; in tokens */
    size_t stride, max_question, max_answer;
    size_t widest; /* floats of a token in the hidden layer of a sublayer over channels */
    size_t hidden; /* rows of the hidden layer of one over tokens */
    int mixes;     /* there is a mixer that is no MLP */
    ngram_branch branch;
    const kernels *kernels;
    const int8_kernels *int8_kernels; /* NULL: none */
    const bf16_kernels *bf16_kernels; /* NULL: none */
};

/* A model without any part yet, for `mixling_close`, limited to this many bytes; NULL without memory. */
mixling_model *model_new(size_t budget);

/* Take the keys of the hash family; a status of mixling.h. */
int model_take_keys(mixling_model *model, uint32_t hashes, uint32_t word_hashes, uint32_t letter_hashes, uint32_t seed);

/* Take zeroed memory that counts as the model's; NULL beyond its budget. */
void *model_take(mixling_model *model, size_t number, size_t size);

/* The parts of opening: a status of mixling.h, with a reason. */
int model_read_text(mixling_model *model, const json *metadata, const onnx_file *file, const char **reason);
int model_read_body(mixling_model *model, const json *plan, const onnx_file *file, const char **reason);
int model_read_ngrams(mixling_model *model, const json *metadata, const onnx_file *file, const char **reason);
int model_read_tags(mixling_model *model, const onnx_file *file, const char **reason);
int vocabulary_open(mixling_model *model, bytes content, const char **reason);
enum { NO_SUBWORD = 0xFFFFFFFF };
/* The number of the subword of `prefix` ("" or "##") and text, whose FNV-1a hash is given; NO_SUBWORD: there is none. */
uint32_t vocabulary_find(const vocabulary *from, int continues, const uint8_t *text, size_t size, uint32_t hash);

#define FNV_START 2166136261u
#define FNV_PRIME 16777619u
static inline uint32_t fnv(uint32_t hash, const uint8_t *text, size_t size) {
    for (size_t i = 0; i < size; i++) hash = (hash ^ text[i]) * FNV_PRIME;
    return hash;
}

/* A word of a text: the bytes that name it (its first max_word_chars characters), and where it stands. */
typedef struct {
    const uint8_t *key, *text;
    uint32_t key_size, size; /* in bytes; `size` of the whole word */
    uint32_t start, end;     /* characters */
    uint32_t marks;
} found_word;

enum { WORD_BEGINS = 0xFF }; /* a byte that no UTF-8 has */
static inline int is_split(const uint8_t *text, size_t size) { return size && text[0] == WORD_BEGINS; }

/* Split a text into at most max_len words; `flags` gets MIXLING_TRUNCATED. Returns their number. */
size_t words_split(const mixling_model *model, const uint8_t *text, size_t size, found_word *out, uint8_t *flags);

/* Words of a text of any length. */
typedef struct {
    found_word *words;
    size_t number, size;
} word_list;

/* Split a text of up to `max_chars` characters into all its words, the longer ones into pieces; 0, or -1 without memory. */
int words_split_all(
    const mixling_model *model, const uint8_t *text, size_t size, size_t max_chars, word_list *out, uint8_t *flags);

/* Where a word of a long text stands: bytes from `begin` up to `end`, and its first character; and its tokens. */
typedef struct {
    uint32_t begin, end, start, tokens;
} spot;

/* Find the words of a text of up to `max_chars` characters: worker->spots from number `*n` on, which grows with them; 0, or
   -1 without memory. */
int words_find(mixling_worker *worker, const uint8_t *text, size_t size, size_t max_chars, size_t *n, uint8_t *flags);

typedef struct {
    uint32_t *codes[2]; /* 8 code points for each character of a word that is read */
    uint8_t *text;      /* the normalized word */
    uint32_t *ends;     /* of its characters, in bytes */
    size_t length;      /* characters */
    uint32_t *hashes;   /* of the beginnings of a subword */
    uint32_t *lowest;   /* MinHash */
    int32_t *sums;
} word_scratch;

/* Allocate buffers to read words of up to `max_word_chars` characters; a status of mixling.h. */
int scratch_open(const mixling_model *model, word_scratch *scratch);
void scratch_close(word_scratch *scratch);

/* Whether a key stands for [SEP] or [EMPTY], which are hashed whole, or a subword: no word has a NUL, but that the key of
   an empty word is one. */
enum { SUBWORD_KEY = 6 }; /* of a subword: two NULs and its number */
static inline int is_special(const uint8_t *key, size_t size) { return size > 1 && key[0] == 0; }

#define FEWER (UINT32_C(1) << 31) /* marks a feature that counts -1 */

/* The features of a word by its key, whose normal form is left in `scratch`; returns how many, all below num_rows, with
   those that count -1 marked and behind the others. */
size_t features_of(
    const mixling_model *model, word_scratch *scratch, const uint8_t *key, size_t size, uint32_t marks, uint32_t *out);

/* Spell a word as the numbers of its subwords, writing as many as `capacity` allows; returns how many there are. */
size_t spell(
    const mixling_model *model, word_scratch *scratch, const uint8_t *key, size_t size, uint32_t *subwords,
    size_t capacity);

/* A word for the linear model. */
typedef struct {
    uint32_t hash, is_word; /* 0: [SEP] and [EMPTY], which are no terms */
    uint32_t sums[];        /* (K + 1): the weights of it and its n-grams, modulo 2^32, and their squares */
} branch_word;

static inline size_t branch_word_size(const ngram_branch *branch) {
    return branch->outputs ? sizeof(branch_word) + (branch->outputs + 1) * sizeof(uint32_t) : 0;
}

/* Add the weights of a term. */
void ngrams_add_term(const ngram_branch *branch, size_t term, uint32_t *sums);

/* The linear model's part of the word that `features_of` left in `scratch`. */
void ngrams_of_word(const mixling_model *model, word_scratch *scratch, int special, uint32_t marks, branch_word *out);

typedef struct {
    uint64_t hash;
    uint32_t key, key_size, row; /* key_size 0: free; key: its place in `keys` */
    uint16_t marks, met;         /* met: since it is in the table, again */
} slot;

enum { TOGETHER = 8 }; /* words that are computed at a time */

/* Words that were met, with what each adds to the tokens around it. */
typedef struct {
    slot *slots;
    size_t mask, used, complete, capacity; /* words; those from `complete` on are computed when they are needed */
    uint8_t *keys;
    size_t keys_used, keys_size;
    /* Of each word: its row, of `parts * width` values; the products of its parts with model->folded, if there is such a
       matrix; and a branch_word, if there is a branch. */
    uint8_t *records;
    size_t records_size; /* words */
} word_table;

/* A number that was met in a round: a slot of another one is free. */
typedef struct {
    uint32_t number, round;
} seen_slot;

/* Of the slots for `n` numbers. */
static inline int seen_bits(size_t n) {
    int bits = 1;
    while ((size_t)1 << bits < 2 * n) bits++;
    return bits;
}

/* Two hashes of a word, and where it is. */
typedef struct {
    uint64_t hashes[2];
    uint32_t text, word;
} shared_word;

struct mixling_worker {
    const mixling_model *model;
    uint64_t seed;
    word_table table;
    word_scratch scratch;
    found_word *words;  /* of all texts, max_len of each */
    uint32_t *rows;     /* of the table, one a token */
    uint32_t *starts;   /* the first token of each word, where tokens are subwords */
    uint32_t *subwords; /* max_len + 1 of each text, and the marks of each; where tokens are subwords */
    uint8_t *subword_marks;
    uint32_t *features;
    uint32_t *shared[2]; /* code points of a word in full; grown as needed */
    size_t shared_size;
    shared_word *shared_words; /* of all texts */
    size_t num_shared_words;
    const uint8_t **parts;          /* of each token, its record and its product; grown with the next */
    float *tokens, *normed, *inner; /* (N, width) twice, and the hidden layer; grown as needed */
    float *mixing;                  /* for mixers */
    uint8_t *integers;              /* the hidden layer for products with integers, and the step of each token */
    float *steps;
    uint32_t *pairs;                              /* tokens and the hidden layer for products in bfloat16 */
    float *word_sums, *word_rows, *word_products; /* of TOGETHER words that are computed */
    size_t body_size;                             /* tokens that they are for */
    float *pools, *scores, *logits;
    seen_slot *seen; /* the distinct words, or pairs of words, of a text */
    uint32_t round;
    uint64_t multiplier;         /* of a number, for the upper bits that are its slot */
    uint32_t *branch_sums;       /* (K + 1) */
    column_value *column_values; /* of a text */
    float *column_scores;        /* (K) of the columns beside the text */
    uint32_t *sources;           /* (N, C) of the best sequence of tags; grown as needed */
    double *forward;             /* (N, C) sums of the probabilities of sequences; as many */
    size_t num_sources;
    double *best;      /* 3 (C) */
    word_list both[2]; /* of a question and its context */
    float *window;     /* (max_len, 2) logits */
    spot *spots;       /* of the words of a long text, or of several; grown as needed */
    size_t num_spots;
    mixling_word *tagged; /* the words of a long text, their logits and tags; grown as needed */
    float *tag_logits;
    uint32_t *tags;
    float *probabilities;
    size_t num_tagged;
    float *window_logits; /* 2 (labels) */
    double *open;         /* (tokens of a window, max_answer) scores of spans */
};

/* The keys of words that no text has. */
extern const found_word SEPARATOR_WORD, EMPTY_WORD;

/* The texts of a text, one or several, as far as there is room; their number. */
size_t texts_of(const mixling_text *text, bytes out[MIXLING_TEXTS]);
/* Mark the words of `texts` lists by the text, and those that several have; 0, or -1 without memory. */
int mark_texts(mixling_worker *worker, found_word *const *words, const size_t *numbers, size_t texts);
/* How many tokens of each text are read: where they are too many with their separators, the longest lose some at their
   end; whether it is so. */
int fit_texts(size_t max_len, size_t texts, const size_t *numbers, size_t *kept);
/* The rows of the tokens that are read of a text, or of several, at most max_len (at least one); a status.

   Of a single text, `*words` of worker->words are read. */
int encode_texts(mixling_worker *worker, const bytes *texts, size_t number, size_t *n, size_t *words, uint8_t *flags);
int encode(mixling_worker *worker, const mixling_text *text, size_t *n, size_t *words, uint8_t *flags);

/* Tag the words of a text up to max_len of them, without their sequence: words, logits, their number; a status. */
int tag_words(
    mixling_worker *worker, const mixling_text *text, mixling_word *words, float *logits, size_t *n, uint8_t *flags);
/* The most probable sequence of tags of `n` words, and the probability of each tag; a status. */
int tag_sequence(mixling_worker *worker, const float *logits, size_t n, uint32_t *tags, float *probabilities);

/* The probability of each tag (n, C) of `n` words of a model with transitions; a status. */
int tag_probabilities(mixling_worker *worker, const float *logits, size_t n, double *probabilities);

/* The logits (labels) and flags of a text, or of several, up to max_len words; a status. */
int texts_run(mixling_worker *worker, const bytes *texts, size_t number, float *logits, uint8_t *flags);

/* Make room in a table that may have none for the words of one more text. */
void table_prepare(mixling_worker *worker);
/* Where a word is in the table, to which it is added if it is new; a status. */
int table_row(mixling_worker *worker, const uint8_t *key, size_t size, uint32_t marks, uint32_t *row);

/* A word of the table for the linear model. */
static inline const branch_word *table_branch(const mixling_worker *worker, uint32_t row) {
    return (const void *)(worker->table.records + row * worker->model->record + worker->model->branch_at);
}

/* Compute the words that were added to the table. */
void table_complete(mixling_worker *worker);
/* What the table has of a word. */
void table_layout(mixling_model *model);

/* Take memory for texts of `n` tokens; 0, or -1 without it. */
int body_reserve(mixling_worker *worker, size_t n);
/* The logits (C) of `n` tokens with rows of the table, or (n, C) where each token has its own; a status. */
int body_run(mixling_worker *worker, const uint32_t *rows, size_t n, float *logits);
/* Leave tokens in worker->tokens after all sublayers, which must not mix them. Token i is the sum of parts of the words at
   window_words (tokens, parts) among `n` words with rows of the table; n or more stands for no word. A status. */
int body_tokens(mixling_worker *worker, const uint32_t *rows, size_t n, const uint32_t *window_words, size_t tokens);
/* Free what grows with the tokens of a text. */
void body_free(mixling_worker *worker);
/* Weight the logits of `n` tokens, and add the linear model's. */
void ngrams_add(mixling_worker *worker, const uint32_t *rows, size_t n, float *logits);
/* The term of a pair of words in rows of the table; the number of terms where it is none. */
size_t ngrams_pair(const mixling_worker *worker, uint32_t first, uint32_t second);
/* Compute worker->column_scores from the cells of a text; a status. */
int ngrams_read_cells(mixling_worker *worker, const mixling_text *text);
/* Weight the logits of a text, and add the linear model's, whose weights of its terms have these sums (K), modulo
   2^32; `number` of its words are different. */
void ngrams_score(const mixling_worker *worker, const uint32_t *sums, float *logits);

#endif
