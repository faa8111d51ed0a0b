/* The logits of many texts that have some of the words of one, as explanations ask for them.

   Where no layer mixes tokens, a token depends on nothing but the words around it: of the 1,024 texts that keep some of 10
   words, 220 tokens differ with a window of one word. Each is computed once; a text pools those that it has. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "model.h"

enum { TOKENS = 512, TEXTS = 1024, KEPT = 1 << 14, POOLED = 64, SHARING_PARTS = 3, NOWHERE = 0x1FFFF };

/* Texts whose tokens are known but not computed, and those of which tokens are pooled. */
typedef struct {
    mixling_worker *worker;
    size_t n;               /* words; the word n is that of a text without words */
    size_t most, room;      /* tokens at a time; and of all texts */
    int bits;               /* of the slots of tokens, of which at most half are used */
    uint64_t *keys;         /* of a slot: the words of its token; 0: free */
    uint32_t *numbers;      /* of a slot: that of its token */
    uint32_t *places;       /* (most, parts) words of a token */
    uint32_t *which, *ends; /* (room) tokens of the texts, one after another; (TEXTS) where those of a text end */
    float *weights, *own;   /* of attention: (most), and (n + 1) of a text's tokens, which sum to one */
    float *pools, *sums;    /* (POOLED, rows of the output), (POOLED, its columns) */
    float *unread;          /* (width) */
    uint32_t *list;         /* (n + 1) words of a text */
    size_t tokens, texts, used; /* used: of `which` */
} sharing;

/* Whether tokens depend on the words around them alone. */
static int shares(const mixling_model *model) {
    if (model->parts > SHARING_PARTS || model->positions) return 0;
    for (size_t i = 0; i < model->num_sublayers; i++)
        if (model->sublayers[i].mixer || model->sublayers[i].mixes_tokens) return 0;
    return 1;
}

/* The number of the token of a word between two others, which is added if it is new. */
static uint32_t token_of(sharing *of, uint32_t before, uint32_t word, uint32_t after) {
    size_t parts = of->worker->model->parts, mask = ((size_t)1 << of->bits) - 1;
    const uint32_t around[] = {before, word, after};
    uint64_t key = (uint64_t)word + 1;
    if (parts > 1) key |= (uint64_t)before << 20 | (uint64_t)after << 40;
    size_t at = (size_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> (64 - of->bits));
    for (; of->keys[at]; at = (at + 1) & mask)
        if (of->keys[at] == key) return of->numbers[at];
    of->keys[at] = key;
    of->numbers[at] = (uint32_t)of->tokens;
    memcpy(of->places + of->tokens * parts, parts > 1 ? around : &word, parts * sizeof word);
    return (uint32_t)of->tokens++;
}

/* The scores of attention, and their exponentials. */
static void weigh(sharing *of) {
    mixling_worker *worker = of->worker;
    const mixling_model *model = worker->model;
    float top = -INFINITY;
    for (size_t i = 0; i < of->tokens; i++) {
        worker->scores[i] = model->kernels->dot(model->width, worker->tokens + i * model->width, model->score);
        if (worker->scores[i] > top) top = worker->scores[i];
    }
    for (size_t i = 0; i < of->tokens; i++) of->weights[i] = expf(worker->scores[i] - top);
}

/* The weights of the tokens of a text, which sum to one. */
static void share_out(sharing *of, const uint32_t *which, size_t n) {
    const float *scores = of->worker->scores;
    float total = 0, top = -INFINITY;
    for (size_t i = 0; i < n; i++) total += of->own[i] = of->weights[which[i]];
    if (!(total > 1e-20f)) { /* their scores are far below those of other texts */
        for (size_t i = 0; i < n; i++) top = scores[which[i]] > top ? scores[which[i]] : top;
        total = 0;
        for (size_t i = 0; i < n; i++) total += of->own[i] = expf(scores[which[i]] - top);
    }
    for (size_t i = 0; i < n; i++) of->own[i] /= total;
}

static void pool(sharing *of, const uint32_t *which, size_t n, float *out) {
    const mixling_model *model = of->worker->model;
    size_t width = model->width;
    float *mean = out + (model->attention ? width : 0), *highest = mean + (model->mean ? width : 0);
    if (model->attention) share_out(of, which, n);
    model->kernels->pool(
        n, width, of->worker->tokens, which, of->own, model->attention ? out : of->unread, model->mean ? mean : of->unread,
        model->maximum ? highest : of->unread);
}

/* Compute the tokens that are waiting, and the logits of the texts; a status. */
static int finish(sharing *of, float *logits) {
    mixling_worker *worker = of->worker;
    const mixling_model *model = worker->model;
    const matrix *output = &model->output;
    size_t labels = model->num_labels, from = 0;
    if (!of->texts) return MIXLING_OK;
    int status = body_tokens(worker, worker->rows, of->n + 1, of->places, of->tokens);
    if (status != MIXLING_OK) return status;
    if (model->attention) weigh(of);
    for (size_t first = 0; first < of->texts; first += POOLED) {
        size_t texts = of->texts - first < POOLED ? of->texts - first : POOLED;
        for (size_t i = 0; i < texts; from = of->ends[first + i++]) {
            pool(of, of->which + from, of->ends[first + i] - from, of->pools + i * output->rows);
            memcpy(of->sums + i * output->stride, model->output_bias, output->stride * sizeof(float));
        }
        model->kernels->multiply(
            texts, output->stride, output->rows, of->pools, output->rows, output->values, output->stride, of->sums,
            output->stride);
        for (size_t i = 0; i < texts; i++)
            memcpy(logits + (first + i) * labels, of->sums + i * output->stride, labels * sizeof *logits);
    }
    memset(of->keys, 0, ((size_t)1 << of->bits) * sizeof *of->keys);
    of->tokens = of->texts = of->used = 0;
    return MIXLING_OK;
}

/* The places of the words that a text keeps, of `n`; that of no word at all where it keeps none. Their number. */
static size_t list_kept(const uint8_t *kept, size_t n, uint32_t *out) {
    size_t number = 0;
    for (size_t i = 0; i < n; i++) {
        out[number] = (uint32_t)i;
        number += kept[i] != 0;
    }
    if (!number) out[number++] = (uint32_t)n;
    return number;
}

static int run_sharing(sharing *of, const uint8_t *kept, size_t m, float *logits) {
    size_t n = of->n, labels = of->worker->model->num_labels;
    int status = MIXLING_OK;
    for (size_t i = 0; i < m && status == MIXLING_OK; i++) {
        size_t words = list_kept(kept + i * n, n, of->list);
        if (of->tokens + words > of->most || of->used + words > of->room || of->texts == TEXTS)
            status = finish(of, logits + (i - of->texts) * labels);
        for (size_t j = 0; j < words; j++)
            of->which[of->used++] =
                token_of(of, j ? of->list[j - 1] : NOWHERE, of->list[j], j + 1 < words ? of->list[j + 1] : NOWHERE);
        of->ends[of->texts++] = (uint32_t)of->used;
    }
    return status == MIXLING_OK ? finish(of, logits + (m - of->texts) * labels) : status;
}

static void *take(size_t number, size_t size) { return number > SIZE_MAX / 2 / size ? NULL : malloc(number * size); }

static int share(mixling_worker *worker, const uint8_t *kept, size_t m, size_t n, float *logits) {
    const mixling_model *model = worker->model;
    const matrix *output = &model->output;
    int status = MIXLING_MEMORY, bits = seen_bits(n + 1 > TOKENS ? n + 1 : TOKENS);
    sharing of = {.worker = worker, .n = n, .bits = bits, .most = (size_t)1 << (bits - 1), .room = n + 1 > KEPT ? n + 1 : KEPT};
    of.keys = calloc((size_t)1 << bits, sizeof *of.keys);
    of.numbers = take((size_t)1 << bits, sizeof *of.numbers);
    of.places = take(of.most, model->parts * sizeof *of.places);
    of.which = take(of.room, sizeof *of.which);
    of.ends = take(TEXTS, sizeof *of.ends);
    of.weights = take(of.most, sizeof *of.weights);
    of.own = take(n + 1, sizeof *of.own);
    of.pools = take(POOLED, output->rows * sizeof *of.pools);
    of.sums = take(POOLED, output->stride * sizeof *of.sums);
    of.unread = take(model->width, sizeof *of.unread);
    of.list = take(n + 1, sizeof *of.list);
    if (of.keys && of.numbers && of.places && of.which && of.ends && of.weights && of.own && of.pools && of.sums &&
        of.unread && of.list)
        status = run_sharing(&of, kept, m, logits);
    void *parts[] = {of.keys, of.numbers, of.places, of.which, of.ends, of.weights, of.own, of.pools, of.sums, of.unread, of.list};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) free(parts[i]);
    return status;
}

static int run_each(mixling_worker *worker, const uint8_t *kept, size_t m, size_t n, float *logits) {
    size_t labels = worker->model->num_labels;
    uint32_t *list = take(2 * (n + 1), sizeof *list), *rows = list + n + 1;
    int status = list ? MIXLING_OK : MIXLING_MEMORY;
    for (size_t i = 0; i < m && status == MIXLING_OK; i++) {
        size_t words = list_kept(kept + i * n, n, list);
        for (size_t j = 0; j < words; j++) rows[j] = worker->rows[list[j]];
        status = body_run(worker, rows, words, logits + i * labels);
    }
    free(list);
    return status;
}

static int add_branch(mixling_worker *worker, const uint8_t *kept, size_t m, size_t n, float *logits) {
    uint32_t *list = take(2 * (n + 1), sizeof *list), *rows = list + n + 1;
    if (!list) return MIXLING_MEMORY;
    for (size_t i = 0; i < m; i++) {
        size_t words = list_kept(kept + i * n, n, list);
        for (size_t j = 0; j < words; j++) rows[j] = worker->rows[list[j]];
        ngrams_add(worker, rows, words, logits + i * worker->model->num_labels);
    }
    free(list);
    return MIXLING_OK;
}

int mixling_predict_kept(
    mixling_worker *worker, const mixling_text *text, const uint8_t *kept, size_t m, size_t n, float *logits) {
    const mixling_model *model = worker->model;
    const ngram_branch *branch = &model->branch;
    size_t tokens, words;
    uint8_t flags;
    if (model->per_token || model->subwords || model->pairs > 0 || text->second) return MIXLING_ARGUMENT;
    int status = encode(worker, text, &tokens, &words, &flags);
    if (status != MIXLING_OK || words != n) return status == MIXLING_OK ? MIXLING_ARGUMENT : status;
    status = table_row(worker, EMPTY_WORD.key, EMPTY_WORD.key_size, 0, worker->rows + n);
    if (status != MIXLING_OK) return status;
    if (branch->outputs && !(branch->network > 0))
        memset(logits, 0, m * model->num_labels * sizeof *logits);
    else
        status = (shares(model) ? share : run_each)(worker, kept, m, n, logits);
    return status == MIXLING_OK && branch->outputs ? add_branch(worker, kept, m, n, logits) : status;
}
