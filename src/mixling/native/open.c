/* Opening a model: its file, its metadata, its text rules and labels. The weights are read in weights.c. */

#include "model.h"

#include <string.h>

enum { MAX_LEN = 65536, MAX_WORD_CHARS = 1000, MAX_FEATURES = 1 << 24, MAX_HASHES = 4096, MAX_WORD_HASHES = 64 };
enum { MIN_WINDOW = 8, MAX_ANSWER = 1000, MAX_SPANS = 1 << 24 }; /* of a window */

static int read_labels(mixling_model *model, const json *metadata, const char **reason) {
    uint32_t labels = json_get(metadata, 0, "labels"), names = json_get(metadata, labels, "names");
    uint32_t task = json_get(metadata, 0, "task");
    size_t size = metadata->text.size;
    *reason = "its metadata has no labels, or no task";
    if (labels == JSON_NONE || names == JSON_NONE || !json_plain(metadata, task).data) return MIXLING_DAMAGED;
    model->num_labels = json_count(metadata, names);
    if (!model->num_labels) return MIXLING_DAMAGED;
    model->task = model_take(model, size, 1);
    model->names = model_take(model, size + model->num_labels, 1);
    model->labels = model_take(model, model->num_labels, sizeof *model->labels);
    *reason = "out of memory";
    if (!model->task || !model->names || !model->labels) return MIXLING_MEMORY;
    json_string(metadata, task, model->task);
    char *at = model->names;
    uint32_t item = names + 1;
    for (size_t i = 0; i < model->num_labels; i++, item = metadata->values[item].next) {
        *reason = "its labels are no strings";
        if (metadata->values[item].kind != '"') return MIXLING_DAMAGED;
        model->labels[i] = at;
        size_t length = json_string(metadata, item, at);
        *reason = "the name of a label is empty, or has a lone surrogate";
        if (!length) return MIXLING_DAMAGED;
        *reason = "the name of a label has the character NUL";
        if (strlen(at) != length) return MIXLING_UNSUPPORTED;
        at += length + 1; /* memory is zero */
    }
    return MIXLING_OK;
}

/* What is done with the words of a text, by the task. */
static int read_task(mixling_model *model, const json *metadata, const onnx_file *file, const char **reason) {
    uint32_t reading = json_get(metadata, 0, "reading");
    int answers = reading != JSON_NONE && !json_null(metadata, reading);
    *reason = "its metadata has a reading configuration but no questions to answer, or vice versa";
    if (answers != !strcmp(model->task, "question_answering")) return MIXLING_DAMAGED;
    model->per_token = answers || !strcmp(model->task, "tagging");
    *reason = "it answers questions, and its tokens are subwords";
    if (answers && model->subwords) return MIXLING_UNSUPPORTED;
    if (!answers) return model->per_token ? model_read_tags(model, file, reason) : MIXLING_OK;
    uint32_t stride = json_get(metadata, reading, "stride");
    int64_t question = json_integer(metadata, json_get(metadata, reading, "max_question"), INT32_MAX);
    int64_t answer = json_integer(metadata, json_get(metadata, reading, "max_answer"), MAX_ANSWER);
    int64_t step = stride == JSON_NONE || json_null(metadata, stride) ? 0 : json_integer(metadata, stride, INT32_MAX);
    *reason = "its metadata does not say how questions are answered";
    if (model->num_labels != 2 || model->max_len < MIN_WINDOW || question < 1 || answer < 1 || step < 0)
        return MIXLING_DAMAGED;
    *reason = "the spans of its windows take more than 128 MiB";
    if (answer > MAX_SPANS / (int64_t)model->max_len) return MIXLING_UNSUPPORTED;
    model->max_question = (size_t)question;
    model->max_answer = (size_t)answer;
    model->stride = step ? (size_t)step : model->max_len / 4 < 128 ? model->max_len / 4 : 128;
    return MIXLING_OK;
}

int model_read_text(mixling_model *model, const json *metadata, const onnx_file *file, const char **reason) {
    uint32_t text = json_get(metadata, 0, "text"), projection = json_get(metadata, text, "projection");
    uint32_t pairs = json_get(metadata, 0, "pairs"), segments = json_get(metadata, text, "segments");
    *reason = "its metadata does not say how texts are read";
    if (text == JSON_NONE || projection == JSON_NONE) return MIXLING_DAMAGED;
    uint32_t tokens = json_get(metadata, text, "tokens"), type = json_get(metadata, projection, "type");
    model->subwords = json_is(metadata, tokens, "subwords") && json_is(metadata, type, "subwords");
    *reason = "its tokens and its projection are of different kinds";
    if (!model->subwords && json_is(metadata, tokens, "subwords") | json_is(metadata, type, "subwords"))
        return MIXLING_UNSUPPORTED;
    *reason = "its projection is neither MinHash nor TSP, nor a row for each subword";
    model->ternary = json_is(metadata, type, "tsp");
    if (!model->subwords && !model->ternary && !json_is(metadata, type, "minhash")) return MIXLING_UNSUPPORTED;
    *reason = "its vocabulary is not WordPiece of the usual kind";
    if (!bytes_equal(file->vocabulary_name, "vocab.txt", 9)) return MIXLING_UNSUPPORTED;
    *reason = "it reads more than 65,536 words of a text, or 1,000 characters of a word";
    int64_t max_len = json_integer(metadata, json_get(metadata, text, "max_len"), MAX_LEN);
    int64_t max_word_chars = json_integer(metadata, json_get(metadata, text, "max_word_chars"), MAX_WORD_CHARS);
    if (max_len < 1 || max_word_chars < 1) return MIXLING_UNSUPPORTED;
    int64_t features = json_integer(metadata, json_get(metadata, projection, "num_features"), MAX_FEATURES);
    int64_t hashes = 1, word_hashes = 0, letter_hashes = 0, seed = 0;
    if (!model->subwords && !model->ternary) {
        hashes = json_integer(metadata, json_get(metadata, projection, "num_hashes"), MAX_HASHES);
        word_hashes = json_integer(metadata, json_get(metadata, projection, "word_hashes"), MAX_WORD_HASHES);
        uint32_t letters = json_get(metadata, projection, "letter_hashes"); /* earlier files have none */
        if (letters != JSON_NONE) letter_hashes = json_integer(metadata, letters, MAX_WORD_HASHES);
        seed = json_integer(metadata, json_get(metadata, projection, "seed"), UINT32_MAX);
    }
    model->lowercase = json_boolean(metadata, json_get(metadata, text, "lowercase"));
    model->contractions = json_boolean(metadata, json_get(metadata, text, "contractions"));
    int marked = json_boolean(metadata, segments); /* of pairs, true; else their number */
    model->segments = marked < 0 ? (int)json_integer(metadata, segments, MIXLING_TEXTS) : 2 * marked;
    model->overlap = json_boolean(metadata, json_get(metadata, text, "overlap"));
    *reason = "its metadata does not say how texts are read";
    if (features < 2 || hashes < 1 || word_hashes < 0 || letter_hashes < 0 || seed < 0 || model->lowercase < 0 ||
        model->contractions < 0 || model->segments < 0 || model->segments == 1 || model->overlap < 0)
        return MIXLING_DAMAGED;
    int several = pairs == JSON_NONE ? -1 : json_boolean(metadata, pairs);
    uint32_t names = json_count(metadata, json_get(metadata, 0, "texts"));
    model->texts = several < 0 ? 0 : several ? names ? names : 2 : 1;
    *reason = "it reads more texts together than are allowed, or than it can tell apart";
    if (model->texts > MIXLING_TEXTS || (size_t)max_len + 1 < model->texts ||
        (model->segments && model->texts > (size_t)model->segments))
        return MIXLING_DAMAGED;
    static const char *const decisions[] = {"threshold", "conformal", "rule"};
    model->abstains = 0;
    for (size_t i = 0; i < sizeof decisions / sizeof *decisions; i++) {
        uint32_t value = json_get(metadata, 0, decisions[i]);
        model->abstains |= value != JSON_NONE && !json_null(metadata, value);
    }
    model->max_len = (size_t)max_len;
    model->max_word_chars = (size_t)max_word_chars;
    model->num_features = (uint32_t)features;
    model->max_features = (model->ternary ? (size_t)features : (size_t)(hashes + word_hashes + letter_hashes)) + 2;
    model->num_rows = model->num_features + (uint32_t)(model->segments + 2 * model->overlap);
    *reason = "out of memory";
    if (model_take_keys(model, (uint32_t)hashes, (uint32_t)word_hashes, (uint32_t)letter_hashes, (uint32_t)seed))
        return MIXLING_MEMORY;
    if (unicode_open(&model->unicode)) return MIXLING_MEMORY;
    for (uint32_t code = 0; code < 128; code++)
        model->ascii[code] = (uint8_t)(code ? unicode_class(&model->unicode, code) : CLASS_SPACE);
    int status = vocabulary_open(model, file->vocabulary, reason);
    if (status != MIXLING_OK || !model->subwords || model->vocabulary.number <= model->num_features) return status;
    *reason = "its vocabulary has more subwords than its table has rows";
    return MIXLING_DAMAGED;
}

static int open_parts(mixling_model *model, const onnx_file *file, const char **reason) {
    json metadata = {{NULL, 0}, NULL, 0}, plan = {{NULL, 0}, NULL, 0};
    int status = MIXLING_DAMAGED, parsed;
    *reason = "its metadata has no vocabulary";
    if (!file->vocabulary.data) return MIXLING_DAMAGED;
    *reason = "was exported without `native` in its metadata";
    if (!file->plan.size) return MIXLING_UNSUPPORTED;
    *reason = "its metadata is not JSON";
    if (!(parsed = json_open(file->metadata, &metadata)) && !(parsed = json_open(file->plan, &plan))) {
        *reason = "its format version is not 1, which this version of mixling reads: upgrade mixling";
        if (json_integer(&metadata, json_get(&metadata, 0, "format_version"), 1) == 1)
            status = read_labels(model, &metadata, reason);
        if (status == MIXLING_OK) status = model_read_text(model, &metadata, file, reason);
        if (status == MIXLING_OK) status = read_task(model, &metadata, file, reason);
        if (status == MIXLING_OK) status = model_read_body(model, &plan, file, reason);
        if (status == MIXLING_OK) status = model_read_ngrams(model, &metadata, file, reason);
        if (status == MIXLING_OK && model->subwords && model->branch.outputs) {
            status = MIXLING_UNSUPPORTED;
            *reason = "it has an n-gram branch, and its tokens are subwords";
        }
        if (status == MIXLING_OK) table_layout(model);
    } else if (parsed == -2) {
        status = MIXLING_MEMORY;
        *reason = "out of memory";
    }
    json_close(&metadata);
    json_close(&plan);
    return status;
}

int mixling_open(const void *data, size_t size, mixling_model **out, char *error, size_t error_size) {
    const char *reason = "out of memory";
    onnx_file file = {0};
    int status = MIXLING_MEMORY;
    /* A model in 8 bits takes four times its file when it is unpacked, and padding some more; more than that is an attempt
       to fill the memory. */
    mixling_model *model = model_new((size < SIZE_MAX / 32 ? 16 * size : SIZE_MAX / 2) + ((size_t)1 << 26));
    *out = NULL;
    if (model) {
        status = file_read((bytes){data, size}, &file, &reason);
        if (status == MIXLING_OK) status = open_parts(model, &file, &reason);
        file_close(&file);
        if (status == MIXLING_OK)
            *out = model;
        else
            mixling_close(model);
    }
    if (status != MIXLING_OK && error && error_size) {
        size_t length = strlen(reason);
        if (length >= error_size) length = error_size - 1;
        memcpy(error, reason, length);
        error[length] = 0;
    }
    return status;
}
