/* Answers to questions: the windows of a context, and the best span of all of them, as mixling/text/windows.py and
   answers.py. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

enum { MAX_CHARS = 1 << 20 }; /* of a context, and of a question */

/* The best span so far; only scores of spans that a later window may contain as well are kept. */
typedef struct {
    double *open;             /* (tokens, width) scores of spans from token `begin` on */
    size_t width, begin, end; /* `end`: the token after the last one with scores */
    double score, sum;        /* of the best span; sum of exp(score of a span - `score`) */
    size_t first, last;       /* its tokens */
} best_span;

/* Finish the spans that start before token `end`, which no later window contains. */
static void finish(best_span *best, size_t end) {
    size_t number = (end < best->end ? end : best->end) - best->begin, scores = number * best->width, top = 0;
    const double *open = best->open;
    if (!number) return;
    for (size_t i = 1; i < scores; i++)
        if (open[i] > open[top]) top = i;
    if (open[top] > best->score) {
        best->sum *= exp(best->score - open[top]);
        best->score = open[top];
        best->first = best->begin + top / best->width;
        best->last = best->first + top % best->width;
    }
    for (size_t i = 0; i < scores; i++)
        if (open[i] >= best->score - 60) best->sum += exp(open[i] - best->score); /* others are lost in rounding */
    best->begin += number;
    memmove(best->open, open + scores, (best->end - best->begin) * best->width * sizeof *open);
}

/* Add the scores of the spans of a window of `n` tokens from `begin` on, with logits (n, 2). */
static void add_window(best_span *best, size_t begin, size_t n, const float *logits) {
    finish(best, begin);
    for (size_t i = 0; i < n; i++) {
        double *scores = best->open + i * best->width;
        int known = begin + i < best->end;
        for (size_t j = 0; j < best->width; j++) {
            double score = i + j < n ? (double)logits[2 * i] + (double)logits[2 * (i + j) + 1] : -INFINITY;
            if (!known || score > scores[j]) scores[j] = score;
        }
    }
    best->begin = begin;
    if (begin + n > best->end) best->end = begin + n;
}

/* The logits (n, 2) of a window: the question, [SEP], and the words of the context from `begin` up to `end`. */
static int run_window(mixling_worker *worker, size_t asked, size_t begin, size_t end) {
    size_t n = 0;
    int status = MIXLING_OK;
    table_prepare(worker);
    for (size_t i = 0; i < asked + 1 + end - begin && status == MIXLING_OK; i++) {
        const found_word *word = i < asked    ? worker->both[0].words + i
                                 : i == asked ? &SEPARATOR_WORD
                                              : worker->both[1].words + begin + (i - asked - 1);
        status = table_row(worker, word->key, word->key_size, word->marks, worker->rows + n++);
    }
    return status == MIXLING_OK ? body_run(worker, worker->rows, n, worker->window) : status;
}

static int split_both(mixling_worker *worker, const mixling_text *text, uint8_t *flags) {
    const mixling_model *model = worker->model;
    word_list *question = worker->both, *context = question + 1;
    if (words_split_all(model, (const uint8_t *)text->first, text->first_size, MAX_CHARS, question, flags) ||
        words_split_all(model, (const uint8_t *)text->second, text->second_size, MAX_CHARS, context, flags))
        return MIXLING_MEMORY;
    found_word *words[] = {question->words, context->words};
    size_t numbers[] = {question->number, context->number};
    return mark_texts(worker, words, numbers, 2) ? MIXLING_MEMORY : MIXLING_OK;
}

int mixling_answer(mixling_worker *worker, const mixling_text *text, mixling_span *answer, uint8_t *flags) {
    const mixling_model *model = worker->model;
    *flags = 0;
    memset(answer, 0, sizeof *answer);
    if (!model->max_answer || !text->second) return MIXLING_ARGUMENT;
    int status = split_both(worker, text, flags), finite = 1;
    if (status != MIXLING_OK) return status;
    size_t asked = worker->both[0].number, total = worker->both[1].number;
    size_t most = model->max_question < model->max_len / 2 ? model->max_question : model->max_len / 2;
    if (asked > most) {
        asked = most;
        *flags |= MIXLING_TRUNCATED;
    }
    size_t space = model->max_len - 1 - asked, step = model->stride < space ? model->stride : space;
    size_t width = total < model->max_answer ? total : model->max_answer;
    best_span best = {worker->open, width, 0, 0, -INFINITY, 0, 0, 0};
    double nothing = INFINITY;
    for (size_t begin = 0; !begin || begin < (total > space ? total - space : 0) + step; begin += step) {
        size_t end = total - begin < space ? total : begin + space, n = asked + 1 + end - begin;
        status = run_window(worker, asked, begin, end);
        if (status != MIXLING_OK) return status;
        const float *logits = worker->window;
        for (size_t i = 0; i < 2 * n; i++) finite &= isfinite(logits[i]) != 0;
        if (!finite) break;
        logits += 2 * asked;
        double none = (double)logits[0] + (double)logits[1];
        if (none < nothing) nothing = none;
        if (total) add_window(&best, begin, end - begin, logits + 2);
    }
    if (!finite) {
        answer->margin = answer->probability = answer->no_answer = NAN;
        return MIXLING_OK;
    }
    if (!total) {
        answer->margin = INFINITY;
        answer->no_answer = 1;
        return MIXLING_OK;
    }
    finish(&best, total);
    double top = best.score > nothing ? best.score : nothing;
    double sum = best.sum * exp(best.score - top) + exp(nothing - top);
    answer->found = 1;
    answer->start = worker->both[1].words[best.first].start;
    answer->end = worker->both[1].words[best.last].end;
    answer->margin = nothing - best.score;
    answer->probability = exp(best.score - top) / sum;
    answer->no_answer = exp(nothing - top) / sum;
    return MIXLING_OK;
}
