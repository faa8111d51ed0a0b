/* The logits of many texts that have some of the words of one, as explanations ask for them.

   Where no layer mixes tokens, a token depends on nothing but the words around it: of the 1,024 texts that keep some of 10
   words, 220 tokens differ with a window of one word. Each is computed once; a text pools those that it has. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "model.h"

enum { TOKENS = 512, TEXTS = 1024, KEPT = 1 << 14, POOLED = 64, SHARING_PARTS = 3, NOWHERE = 0x1FFFF, FEW = 64 };

/* Texts whose tokens are known but not computed, and texts whose tokens are pooled. */
typedef struct {
    mixling_worker *worker;
    size_t n;                    /* words; the word n stands for a text without words */
    size_t most, room;           /* tokens at a time; and of all texts */
    int bits;                    /* of the slots of tokens; at most half are used */
    uint64_t *keys;              /* of a slot: the words of its token; 0: free */
    uint32_t *numbers;           /* of the token of each slot */
    uint32_t *places;            /* (most, parts) words of a token */
    uint32_t *which, *ends;      /* (room) tokens of the texts, one after another; (TEXTS) where a text's tokens end */
    float *weights, *own;        /* of attention: (most), and (n + 1) of a text's tokens, which sum to one */
    float *projected;            /* what tokens add to the logits; grown as needed */
    float *pools, *sums;         /* (POOLED, rows of the output), (POOLED, its columns) */
    float *unread;               /* of the pools of a text */
    uint32_t *list, *own_tokens; /* (n + 1) words of a text from the last to the first, and their tokens */
    size_t tokens, texts, used;  /* used: of `which` */
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
    if (!(total > 1e-20f)) { /* their scores are far below other texts' scores */
        for (size_t i = 0; i < n; i++) top = scores[which[i]] > top ? scores[which[i]] : top;
        total = 0;
        for (size_t i = 0; i < n; i++) total += of->own[i] = expf(scores[which[i]] - top);
    }
    float factor = 1 / total;
    for (size_t i = 0; i < n; i++) of->own[i] *= factor;
}

/* The pools of a text. */
static void pool(sharing *of, const uint32_t *which, size_t n, float *out) {
    const mixling_model *model = of->worker->model;
    size_t width = model->width;
    float *mean = out + (model->attention ? width : 0), *highest = mean + (model->mean ? width : 0);
    model->kernels->pool(
        n, width, of->worker->tokens, which, of->own, model->attention ? out : of->unread,
        model->mean ? mean : of->unread, model->maximum ? highest : of->unread);
}

/* The floats of what a token adds to the logits as a part of the weighted sum, and of the mean. */
static size_t projected_size(const mixling_model *model) {
    return padded(model->num_labels * (size_t)(model->attention + model->mean));
}

/* Multiply the tokens (fewer than texts) with the output's matrices of sums; a status. */
static int project(sharing *of) {
    const mixling_worker *worker = of->worker;
    const mixling_model *model = worker->model;
    size_t width = model->width, labels = model->num_labels, columns = projected_size(model);
    float *matrix = block_take(width * columns, sizeof *matrix);
    float *grown = block_grow(of->projected, 0, of->tokens * columns * sizeof *of->projected);
    if (grown) of->projected = grown;
    if (matrix && grown) {
        for (size_t part = 0; part < (size_t)(model->attention + model->mean); part++)
            for (size_t i = 0; i < width; i++)
                memcpy(
                    matrix + i * columns + part * labels,
                    model->output.values + (part * width + i) * model->output.stride, labels * sizeof *matrix);
        memset(of->projected, 0, of->tokens * columns * sizeof *of->projected);
        model->kernels->multiply(
            of->tokens, columns, width, worker->tokens, width, matrix, columns, of->projected, columns);
    }
    block_free(matrix);
    return matrix && grown ? MIXLING_OK : MIXLING_MEMORY;
}

/* The highest values of a text's tokens, and the logits without those. */
static void pool_projected(sharing *of, const uint32_t *which, size_t n, float *highest, float *logits) {
    const mixling_model *model = of->worker->model;
    size_t labels = model->num_labels, columns = projected_size(model);
    float *weighted = of->unread, *mean = weighted + columns, *unread = mean + columns;
    model->kernels->pool(n, model->width, of->worker->tokens, which, NULL, NULL, NULL, highest);
    model->kernels->pool(n, columns, of->projected, which, of->own, weighted, mean, unread);
    if (model->attention) mean += labels;
    for (size_t k = 0; k < labels && model->attention; k++) logits[k] += weighted[k];
    for (size_t k = 0; k < labels && model->mean; k++) logits[k] += mean[k];
}

/* Compute the tokens that are waiting, and the logits of the texts; a status. */
static int finish(sharing *of, float *logits) {
    mixling_worker *worker = of->worker;
    const mixling_model *model = worker->model;
    const matrix *output = &model->output;
    size_t labels = model->num_labels, from = 0, rows = output->rows, skipped = 0;
    if (!of->texts) return MIXLING_OK;
    int status = body_tokens(worker, worker->rows, of->n + 1, of->places, of->tokens),
        projects = of->tokens < of->texts;
    if (status == MIXLING_OK && projects) status = project(of);
    if (status != MIXLING_OK) return status;
    if (model->attention) weigh(of);
    if (projects) {
        rows = model->width;
        skipped = output->rows - (model->maximum ? model->width : 0);
    }
    for (size_t first = 0; first < of->texts; first += POOLED) {
        size_t texts = of->texts - first < POOLED ? of->texts - first : POOLED;
        for (size_t i = 0; i < texts; from = of->ends[first + i++]) {
            const uint32_t *which = of->which + from;
            size_t n = of->ends[first + i] - from;
            float *pools = of->pools + i * rows, *sums = of->sums + i * output->stride;
            memcpy(sums, model->output_bias, output->stride * sizeof *sums);
            if (model->attention) share_out(of, which, n);
            if (projects)
                pool_projected(of, which, n, pools, sums);
            else
                pool(of, which, n, pools);
        }
        model->kernels->multiply(
            texts, output->stride, output->rows - skipped, of->pools, rows, output->values + skipped * output->stride,
            output->stride, of->sums, output->stride);
        for (size_t i = 0; i < texts; i++)
            memcpy(logits + (first + i) * labels, of->sums + i * output->stride, labels * sizeof *logits);
    }
    memset(of->keys, 0, ((size_t)1 << of->bits) * sizeof *of->keys);
    of->tokens = of->texts = of->used = 0;
    return MIXLING_OK;
}

/* List the words that a text keeps, of `n`, from the last to the first; their number. `*same`: how many words of the text
   before are in the list; is set to how many of them, from the last on, this text has, too. */
static size_t list_kept(const uint8_t *kept, size_t n, uint32_t *list, size_t *same) {
    size_t number = 0;
    for (size_t i = n; i-- > 0;) {
        if (!kept[i]) continue;
        if (number < *same && list[number] != i) *same = number;
        list[number++] = (uint32_t)i;
    }
    if (number < *same) *same = number;
    return number;
}

static int run_sharing(sharing *of, const uint8_t *kept, size_t m, float *logits) {
    size_t n = of->n, labels = of->worker->model->num_labels, words = 0;
    int status = MIXLING_OK;
    for (size_t i = 0; i < m && status == MIXLING_OK; i++) {
        size_t same = words;
        words = list_kept(kept + i * n, n, of->list, &same);
        if (of->tokens + words + 1 > of->most || of->used + words + 1 > of->room || of->texts == TEXTS) {
            status = finish(of, logits + (i - of->texts) * labels);
            same = 0;
        }
        /* The word before the first that both texts have is another one. */
        for (size_t j = same ? same - 1 : 0; j < words; j++)
            of->own_tokens[j] =
                token_of(of, j + 1 < words ? of->list[j + 1] : NOWHERE, of->list[j], j ? of->list[j - 1] : NOWHERE);
        if (!words) of->own_tokens[0] = token_of(of, NOWHERE, (uint32_t)n, NOWHERE);
        memcpy(of->which + of->used, of->own_tokens, (words ? words : 1) * sizeof *of->which);
        of->used += words ? words : 1;
        of->ends[of->texts++] = (uint32_t)of->used;
    }
    return status == MIXLING_OK ? finish(of, logits + (m - of->texts) * labels) : status;
}

static void *take(size_t number, size_t size) { return number > SIZE_MAX / 2 / size ? NULL : malloc(number * size); }

static int share(mixling_worker *worker, const uint8_t *kept, size_t m, size_t n, float *logits) {
    const mixling_model *model = worker->model;
    const matrix *output = &model->output;
    int status = MIXLING_MEMORY, bits = seen_bits(n + 2 > TOKENS ? n + 2 : TOKENS);
    sharing of = {
        .worker = worker, .n = n, .bits = bits, .most = (size_t)1 << (bits - 1), .room = n + 2 > KEPT ? n + 2 : KEPT};
    of.keys = calloc((size_t)1 << bits, sizeof *of.keys);
    of.numbers = take((size_t)1 << bits, sizeof *of.numbers);
    of.places = take(of.most, model->parts * sizeof *of.places);
    of.which = take(of.room, sizeof *of.which);
    of.ends = take(TEXTS, sizeof *of.ends);
    of.weights = take(of.most, sizeof *of.weights);
    of.own = take(n + 1, sizeof *of.own);
    of.pools = take(POOLED, output->rows * sizeof *of.pools);
    of.sums = take(POOLED, output->stride * sizeof *of.sums);
    of.unread = take(model->width + 3 * projected_size(model), sizeof *of.unread);
    of.list = take(n + 1, sizeof *of.list);
    of.own_tokens = take(n + 1, sizeof *of.own_tokens);
    if (of.keys && of.numbers && of.places && of.which && of.ends && of.weights && of.own && of.pools && of.sums &&
        of.unread && of.list && of.own_tokens)
        status = run_sharing(&of, kept, m, logits);
    void *parts[] = {of.keys, of.numbers, of.places, of.which,  of.ends, of.weights,
                     of.own,  of.pools,   of.sums,   of.unread, of.list, of.own_tokens};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) free(parts[i]);
    block_free(of.projected);
    return status;
}

/* The rows of the words that a text keeps, in order; the row of no word where it keeps none. Their number. */
static size_t kept_rows(const mixling_worker *worker, const uint8_t *kept, size_t n, uint32_t *out) {
    size_t number = 0;
    for (size_t i = 0; i < n; i++) {
        out[number] = worker->rows[i];
        number += kept[i] != 0;
    }
    if (!number) out[number++] = worker->rows[n];
    return number;
}

static int run_each(mixling_worker *worker, const uint8_t *kept, size_t m, size_t n, float *logits) {
    uint32_t *rows = take(n + 1, sizeof *rows);
    int status = rows ? MIXLING_OK : MIXLING_MEMORY;
    for (size_t i = 0; i < m && status == MIXLING_OK; i++)
        status =
            body_run(worker, rows, kept_rows(worker, kept + i * n, n, rows), logits + i * worker->model->num_labels);
    free(rows);
    return status;
}

static int add_each_branch(mixling_worker *worker, const uint8_t *kept, size_t m, size_t n, float *logits) {
    uint32_t *rows = take(n + 1, sizeof *rows);
    if (!rows) return MIXLING_MEMORY;
    for (size_t i = 0; i < m; i++)
        ngrams_add(worker, rows, kept_rows(worker, kept + i * n, n, rows), logits + i * worker->model->num_labels);
    free(rows);
    return MIXLING_OK;
}

/* What the linear model has of the last words of a text, of any number of them: the sums of their weights, and which
   pairs of words are terms. */
typedef struct {
    mixling_worker *worker;
    size_t n;
    uint32_t *pairs;                /* (n, n) 1 + the term of a pair; 0: not looked up yet */
    uint32_t *sums;                 /* (n + 1, K + 1) */
    uint32_t list[FEW], terms[FEW]; /* words from the last to the first; terms of their pairs */
    size_t known[FEW + 1];          /* terms */
} endings;

/* Add the weights of the word before `number` others. */
static void add_word(endings *of, size_t number) {
    const mixling_worker *worker = of->worker;
    const ngram_branch *branch = &worker->model->branch;
    size_t width = branch->outputs + 1, word = of->list[number], known = of->known[number], after = 0;
    const uint32_t *rows = worker->rows, *before = of->sums + number * width;
    uint32_t *sums = of->sums + (number + 1) * width;
    const branch_word *own = table_branch(worker, rows[word]);
    int is_new = own->is_word != 0;
    for (size_t i = 0; i < number && is_new; i++) {
        const branch_word *other = table_branch(worker, rows[of->list[i]]);
        is_new = !other->is_word || other->hash != own->hash;
    }
    for (size_t k = 0; k < width; k++) sums[k] = before[k] + (is_new ? own->sums[k] : 0);
    of->known[number + 1] = known;
    if (!number) return;
    after = of->list[number - 1];
    uint32_t *pair = of->pairs + word * of->n + after;
    if (!*pair) *pair = 1 + (uint32_t)ngrams_pair(worker, rows[word], rows[after]);
    size_t term = *pair - 1;
    if (term == branch->number) return;
    for (size_t i = 0; i < known; i++)
        if (of->terms[i] == term) return;
    of->terms[known] = (uint32_t)term;
    of->known[number + 1] = known + 1;
    ngrams_add_term(branch, term, sums);
}

/* Add the linear model to the logits of the texts. What one has in common with that before it, from some word to the end,
   is as it was. */
static int add_branch(mixling_worker *worker, const uint8_t *kept, size_t m, size_t n, float *logits) {
    size_t width = worker->model->branch.outputs + 1, labels = worker->model->num_labels, words = 0;
    if (n > FEW) return add_each_branch(worker, kept, m, n, logits);
    endings of = {.worker = worker, .n = n};
    of.pairs = calloc(n * n, sizeof *of.pairs);
    of.sums = calloc((n + 1) * width, sizeof *of.sums);
    int status = of.pairs && of.sums ? MIXLING_OK : MIXLING_MEMORY;
    for (size_t i = 0; i < m && status == MIXLING_OK; i++) {
        size_t same = words;
        words = list_kept(kept + i * n, n, of.list, &same);
        for (size_t j = same; j < words; j++) add_word(&of, j);
        ngrams_score(worker, of.sums + words * width, logits + i * labels);
    }
    free(of.pairs);
    free(of.sums);
    return status;
}

int mixling_predict_kept(
    mixling_worker *worker, const mixling_text *text, const uint8_t *kept, size_t m, size_t n, float *logits) {
    const mixling_model *model = worker->model;
    const ngram_branch *branch = &model->branch;
    size_t tokens, words;
    uint8_t flags;
    if (model->per_token || model->subwords || model->texts > 1 || text->second) return MIXLING_ARGUMENT;
    int status = ngrams_read_cells(worker, text);
    if (status == MIXLING_OK) status = encode(worker, text, &tokens, &words, &flags);
    if (status != MIXLING_OK || words != n) return status == MIXLING_OK ? MIXLING_ARGUMENT : status;
    status = table_row(worker, EMPTY_WORD.key, EMPTY_WORD.key_size, 0, worker->rows + n);
    if (status != MIXLING_OK) return status;
    if (branch->outputs && !(branch->network > 0))
        memset(logits, 0, m * model->num_labels * sizeof *logits);
    else
        status = (shares(model) ? share : run_each)(worker, kept, m, n, logits);
    return status == MIXLING_OK && branch->outputs ? add_branch(worker, kept, m, n, logits) : status;
}
