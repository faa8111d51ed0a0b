/* Included by steps_body.h: the loss of sequences of tags, the longest first, and for all of them one word after another.
   Sums over sequences are scaled to 1 at each word, and any below 1e-30 of them is 0. */

/* What the values of x (n), with zeros behind them, are above their peak, as factors (wide); the peak. */
INLINE float NAME(factors)(size_t n, size_t wide, const float *x, float *to) {
    VECTOR tops = (VECTOR){0} - FLT_MAX, zero = {0}, least = zero + 1e-30f;
    memcpy(to, x, n * sizeof(float));
    for (size_t i = n; i < wide; i++) to[i] = -FLT_MAX;
    for (size_t i = 0; i < wide; i += WIDTH) tops = NAME(choose)(FROM(to + i) > tops, FROM(to + i), tops);
    float peak = tops[0];
    for (int i = 1; i < WIDTH; i++) peak = tops[i] > peak ? tops[i] : peak;
    for (size_t i = 0; i < wide; i += WIDTH) {
        VECTOR y = NAME(exponential)(FROM(to + i) - peak);
        AT(to + i) = NAME(choose)(y < least, zero, y);
    }
    return peak;
}

/* The factors (C, wide) of the transitions; the highest score. */
INLINE float NAME(transition_factors)(const sequences_task *t, size_t wide, float *to) {
    float highest = t->transitions[0];
    for (size_t i = 1; i < t->tags * t->tags; i++) highest = t->transitions[i] > highest ? t->transitions[i] : highest;
    for (size_t i = 0; i < t->tags; i++) {
        float peak = NAME(factors)(t->tags, wide, t->transitions + i * t->tags, to + i * wide);
        NAME(scale)(wide, (float)exp_of(peak - highest), to + i * wide);
    }
    return highest;
}

TARGET static int NAME(sequence_losses)(const sequences_task *t) {
    size_t C = t->tags, wide = sixteens(C), step = t->texts * wide;
    float *factors = allocate(C * wide), *packed = zeros(NAME(packed)(C, wide)), *own = allocate(wide);
    float *between = t->forward ? NULL : allocate(2 * step);
    sequences of = arrange(t);
    int done = factors && packed && own && of.words && (t->forward || between);
    float highest = done ? NAME(transition_factors)(t, wide, factors) : 0;
    if (done) NAME(pack)(C, C, factors, wide, 1, packed);
    for (size_t word = 0; done && word < of.longest; word++) {
        float *now = t->forward ? t->forward + word * step : between + word % 2 * step;
        const float *before = t->forward ? now - step : between + (word + 1) % 2 * step;
        memset(now, 0, step * sizeof(float));
        if (word) NAME(multiply)(of.reaching[word], wide, C, before, wide, 1, packed, PANEL, C * PANEL, now, wide);
        for (size_t r = 0; r < of.reaching[word]; r++) {
            size_t text = of.texts[r], at = of.words[text * t->length + word];
            float *row = now + r * wide, peak = NAME(factors)(C, wide, t->logits + at * C, own), sum;
            VECTOR sums = {0}, zero = {0};
            if (!word) NAME(fill)(wide, 1, row);
            for (size_t i = 0; i < wide; i += WIDTH) {
                AT(row + i) *= FROM(own + i);
                sums += FROM(row + i);
            }
            sum = NAME(total)(sums);
            sum = sum < FLT_MIN ? FLT_MIN : sum;
            for (size_t i = 0; i < wide; i += WIDTH) {
                VECTOR y = FROM(row + i) / sum;
                AT(row + i) = NAME(choose)(y < 1e-30f, zero, y);
            }
            if (t->sums) t->sums[word * t->texts + r] = sum;
            double loss = log_of(sum) + peak - t->logits[at * C + (size_t)t->targets[at]];
            if (word) {
                size_t last = (size_t)t->targets[of.words[text * t->length + word - 1]];
                loss += highest - t->transitions[last * C + (size_t)t->targets[at]];
            }
            of.losses[text] += loss;
        }
    }
    for (size_t text = 0; done && text < t->texts; text++) t->losses[text] = (float)of.losses[text];
    free(factors), free(packed), free(own), free(between);
    release(&of);
    return done;
}

/* From the last word to the first: `after` (texts, wide) is what follows a word, relative to each of its tags. */
TARGET static int NAME(sequence_losses_backward)(const sequences_task *t) {
    size_t C = t->tags, wide = sixteens(C), step = t->texts * wide;
    float *factors = allocate(C * wide), *packed = zeros(NAME(packed)(C, wide)), *own = allocate(wide);
    float *next = allocate(step), *after = allocate(step), *weighted = allocate(step), *pairs = zeros(C * wide);
    sequences of = arrange(t);
    int done = factors && packed && own && next && after && weighted && pairs && of.words;
    if (done) {
        NAME(transition_factors)(t, wide, factors);
        NAME(pack)(C, C, factors, 1, wide, packed);
        memset(t->of_logits, 0, t->texts * t->length * C * sizeof(float));
    }
    for (size_t word = done ? of.longest : 0; word--;) {
        size_t rows = of.reaching[word], going_on = of.reaching[word + 1];
        const float *forward = t->forward + word * step;
        memset(after, 0, going_on * wide * sizeof(float));
        NAME(multiply)(going_on, wide, C, next, wide, 1, packed, PANEL, C * PANEL, after, wide);
        for (size_t r = 0; r < going_on; r++) {
            memcpy(weighted + r * wide, forward + r * wide, wide * sizeof(float));
            NAME(scale)(wide, t->of_losses[of.texts[r]], weighted + r * wide);
        }
        NAME(multiply)(C, wide, going_on, weighted, 1, wide, next, wide, PANEL, pairs, wide);
        for (size_t r = 0; r < rows; r++) {
            size_t text = of.texts[r], at = of.words[text * t->length + word], target = (size_t)t->targets[at];
            const float *row = forward + r * wide;
            float of_loss = t->of_losses[text], sum = t->sums[word * t->texts + r], *follows = after + r * wide;
            if (r >= going_on) NAME(fill)(wide, 1, follows);
            for (size_t i = 0; i < C; i++) t->of_logits[at * C + i] = of_loss * row[i] * follows[i];
            t->of_logits[at * C + target] -= of_loss;
            if (word) {
                size_t last = (size_t)t->targets[of.words[text * t->length + word - 1]];
                t->of_transitions[last * C + target] -= of_loss;
            }
            NAME(factors)(C, wide, t->logits + at * C, own);
            /* From a word that no sequence reaches, nothing comes back. */
            float scale = sum > FLT_MIN ? 1 / sum : 0;
            for (size_t i = 0; i < wide; i += WIDTH)
                AT(next + r * wide + i) = FROM(own + i) * FROM(follows + i) * scale;
        }
    }
    for (size_t i = 0; done && i < C; i++)
        for (size_t j = 0; j < C; j++) t->of_transitions[i * C + j] += factors[i * wide + j] * pairs[i * wide + j];
    free(factors), free(packed), free(own), free(next), free(after), free(weighted), free(pairs);
    release(&of);
    return done;
}
