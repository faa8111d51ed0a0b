/* Included by steps_body.h: an MLP over tokens whose weights each text has of its own. Its hidden layer, much the largest
   array, is never whole: it is made for some hidden units at a time, and backward once more for some channels. */

/* Out (n, D) = W2 gelu(W1^T X) of X (m, D), W1 (m, H) and W2 (n, H). */
TARGET static int NAME(generated)(const generated_task *t) {
    size_t D = t->dim, H = t->hidden, m = t->read, n = t->written, most = larger(UNITS, larger(m, n)), units;
    float *hidden = allocate(most * D);
    for (size_t text = 0; hidden && text < t->texts; text++) {
        const float *x = t->x + text * m * D, *w1 = t->w1 + text * m * H, *w2 = (t->w2 ? t->w2 : t->w1) + text * n * H;
        float *out = t->out + text * n * D;
        memset(out, 0, n * D * sizeof(float));
        for (size_t first = 0; first < H; first += units) {
            units = H - first < most ? H - first : most;
            memset(hidden, 0, units * D * sizeof(float));
            NAME(multiply)(units, D, m, w1 + first, 1, H, x, D, PANEL, hidden, D);
            for (size_t i = 0; i < units * D; i += WIDTH) AT(hidden + i) = NAME(gelu)(FROM(hidden + i));
            NAME(multiply)(n, D, units, w2 + first, H, 1, hidden, D, PANEL, out, D);
        }
    }
    free(hidden);
    return hidden != NULL;
}

/* The gradients, of W1 together with W2 where they are one. */
TARGET static int NAME(generated_backward)(const generated_task *t) {
    size_t D = t->dim, H = t->hidden, m = t->read, n = t->written, columns = sixteens(m), far = columns + 16;
    size_t wide = sixteens(H), apart = wide + 16; /* no powers of two, so that columns fall into all cache sets */
    size_t most = larger(CHANNELS, larger(m, n) / 2), channels;
    float *w1 = zeros(m * apart), *w2 = t->w2 ? zeros(n * apart) : w1, *by_unit = zeros(H * far);
    float *of_w1 = allocate(m * wide), *of_w2 = t->w2 ? allocate(n * wide) : of_w1;
    float *active = allocate(most * apart), *of_hidden = allocate(most * apart), *of_columns = allocate(most * columns);
    int done = w1 && w2 && by_unit && of_w1 && of_w2 && active && of_hidden && of_columns;
    for (size_t text = 0; done && text < t->texts; text++) {
        const float *x = t->x + text * m * D, *of_out = t->of_out + text * n * D;
        copy_rows(m, H, t->w1 + text * m * H, H, w1, apart);
        if (t->w2) copy_rows(n, H, t->w2 + text * n * H, H, w2, apart);
        for (size_t i = 0; i < m; i++)
            for (size_t h = 0; h < H; h++) by_unit[h * far + i] = w1[i * apart + h];
        memset(of_w1, 0, m * wide * sizeof(float));
        if (t->w2) memset(of_w2, 0, n * wide * sizeof(float));
        for (size_t first = 0; first < D; first += channels) {
            channels = D - first < most ? D - first : most;
            memset(active, 0, channels * apart * sizeof(float));
            memset(of_hidden, 0, channels * apart * sizeof(float));
            memset(of_columns, 0, channels * columns * sizeof(float));
            NAME(multiply)(channels, wide, m, x + first, 1, D, w1, apart, PANEL, active, apart);
            NAME(multiply)(channels, wide, n, of_out + first, 1, D, w2, apart, PANEL, of_hidden, apart);
            for (size_t c = 0; c < channels; c++)
                for (size_t i = c * apart; i < c * apart + wide; i += WIDTH) {
                    VECTOR slope;
                    AT(active + i) = NAME(gelu_and_slope)(FROM(active + i), &slope);
                    AT(of_hidden + i) *= slope;
                }
            NAME(multiply)(m, wide, channels, x + first, D, 1, of_hidden, apart, PANEL, of_w1, wide);
            NAME(multiply)(n, wide, channels, of_out + first, D, 1, active, apart, PANEL, of_w2, wide);
            NAME(multiply)(channels, columns, H, of_hidden, apart, 1, by_unit, far, PANEL, of_columns, columns);
            for (size_t i = 0; i < m; i++)
                for (size_t c = 0; c < channels; c++)
                    t->out[(text * m + i) * D + first + c] = of_columns[c * columns + i];
        }
        copy_rows(m, H, of_w1, wide, t->of_w1 + text * m * H, H);
        if (t->w2) copy_rows(n, H, of_w2, wide, t->of_w2 + text * n * H, H);
    }
    if (t->w2) free(w2), free(of_w2);
    free(w1), free(by_unit), free(of_w1), free(active), free(of_hidden), free(of_columns);
    return done;
}
