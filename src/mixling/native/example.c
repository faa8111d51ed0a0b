/* Label the lines of standard input with a saved model.

   cc -O3 -std=gnu11 -fno-math-errno -fno-trapping-math -o label example.c json.c ... -lm   (all but python.c)
   ./label runs/snips/model.onnx < texts.txt */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mixling.h"

int main(int number, char **arguments) {
    char line[65536], reason[200];
    uint8_t flags;
    mixling_model *model;
    mixling_worker *worker;
    FILE *file = number == 2 ? fopen(arguments[1], "rb") : NULL;
    if (!file || fseek(file, 0, SEEK_END)) return fprintf(stderr, "usage: label model.onnx < texts.txt\n"), 2;
    size_t size = (size_t)ftell(file);
    char *data = malloc(size ? size : 1);
    rewind(file);
    if (!data || fread(data, 1, size, file) != size) return fprintf(stderr, "the model cannot be read\n"), 2;
    fclose(file);
    if (mixling_open(data, size, &model, reason, sizeof reason) != MIXLING_OK)
        return fprintf(stderr, "%s: %s\n", arguments[1], reason), 2;
    free(data);
    size_t labels = mixling_num_labels(model);
    float *logits = malloc(labels * sizeof *logits);
    if (!logits || mixling_start(model, 64 << 20, 0, &worker) != MIXLING_OK) return 3;
    while (fgets(line, sizeof line, stdin)) {
        mixling_text text = {line, strcspn(line, "\n"), NULL, 0, NULL};
        size_t best = 0;
        if (mixling_predict(worker, &text, 1, logits, &flags) != MIXLING_OK) return 3;
        for (size_t i = 1; i < labels; i++)
            if (logits[i] > logits[best]) best = i;
        puts(mixling_label(model, best));
    }
    free(logits);
    mixling_stop(worker);
    mixling_close(model);
    return 0;
}
