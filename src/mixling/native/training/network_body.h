/* Included by steps_body.h: what a whole step needs besides the layers (network.c). */

TARGET static void NAME(norms)(const feed_forward_task *t) {
    size_t D = t->dim;
    for (size_t r = 0; r < t->tokens; r++) {
        float mean, scale;
        NAME(statistics)(D, t->eps, t->x + r * D, &mean, &scale);
        NAME(norm)(D, t->x + r * D, mean, scale, t->norm_weight, t->norm_bias, t->inner + r * D);
    }
}

TARGET static void NAME(norms_backward)(const feed_forward_task *t) {
    size_t D = t->dim;
    for (size_t first = 0; first < t->tokens; first += BLOCK) {
        size_t rows = t->tokens - first < BLOCK ? t->tokens - first : BLOCK;
        float means[BLOCK], scales[BLOCK];
        for (size_t r = 0; r < rows; r++) NAME(statistics)(D, t->eps, t->x + (first + r) * D, means + r, scales + r);
        NAME(end_backward)(t, first, rows, means, scales, t->inner + first * D);
    }
}

TARGET static int NAME(linear)(const linear_task *t) {
    size_t wide = sixteens(t->outputs), K = t->width;
    float *packed = zeros(NAME(packed)(K, wide)), *made = zeros(t->rows * wide);
    if (packed && made) {
        NAME(pack)(K, t->outputs, t->weight, 1, K, packed);
        for (size_t r = 0; r < t->rows; r++) memcpy(made + r * wide, t->bias, t->outputs * sizeof(float));
        NAME(multiply)(t->rows, wide, K, t->x, K, 1, packed, PANEL, K * PANEL, made, wide);
        copy_rows(t->rows, t->outputs, made, wide, t->out, t->outputs);
    }
    free(packed), free(made);
    return packed && made;
}

TARGET static int NAME(linear_backward)(const linear_task *t) {
    size_t K = t->width, C = t->outputs;
    memset(t->out, 0, t->rows * K * sizeof(float));
    NAME(multiply)(t->rows, K, C, t->of_out, C, 1, t->weight, K, PANEL, t->out, K);
    for (size_t first = 0; first < t->rows; first += BLOCK) {
        size_t rows = t->rows - first < BLOCK ? t->rows - first : BLOCK;
        NAME(multiply)(C, K, rows, t->of_out + first * C, 1, C, t->x + first * K, K, PANEL, t->of_weight, K);
    }
    for (size_t r = 0; r < t->rows; r++)
        for (size_t i = 0; i < C; i++) t->of_bias[i] += t->of_out[r * C + i];
    return 1;
}

TARGET static void NAME(spread)(const spread_task *t) {
    size_t S = t->width, R = t->outputs;
    memset(t->out, 0, t->rows * R * sizeof(float));
    NAME(multiply)(t->rows, R, S, t->x, S, 1, t->weight, R, PANEL, t->out, R);
}

TARGET static int NAME(spread_backward)(const spread_task *t) {
    size_t S = t->width, R = t->outputs;
    float *packed = allocate(NAME(packed)(R, S));
    if (!packed) return 0;
    NAME(pack)(R, S, t->weight, 1, R, packed);
    memset(t->out, 0, t->rows * S * sizeof(float));
    NAME(multiply)(t->rows, S, R, t->of_out, R, 1, packed, PANEL, R * PANEL, t->out, S);
    for (size_t first = 0; first < t->rows; first += BLOCK) {
        size_t rows = t->rows - first < BLOCK ? t->rows - first : BLOCK;
        NAME(multiply)(S, R, rows, t->x + first * S, 1, S, t->of_out + first * R, R, PANEL, t->of_weight, R);
    }
    free(packed);
    return 1;
}

TARGET static void NAME(add_rows)(size_t n, const float *x, float *y) {
    for (size_t i = 0; i < n; i += WIDTH) AT(y + i) += FROM(x + i);
}

TARGET static double NAME(squares)(size_t n, const float *x) { return (double)NAME(dot)(n, x, x); }

TARGET static void NAME(adamw)(
    size_t n, const adamw_rates *by, const float *restrict g, float *restrict p, float *restrict m, float *restrict v) {
    const float beta1 = by->beta1, beta2 = by->beta2, new1 = 1 - beta1, new2 = 1 - beta2;
    const float eps = by->eps, scale = by->scale, keep = by->keep, rate = by->rate, correction = by->correction;
    for (size_t i = 0; i < n; i++) {
        float of = g ? g[i] * scale : 0;
        m[i] = m[i] * beta1 + of * new1;
        v[i] = v[i] * beta2 + of * of * new2;
        p[i] = p[i] * keep - rate * m[i] / (sqrtf(v[i]) * correction + eps);
    }
}
