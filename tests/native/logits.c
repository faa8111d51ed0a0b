/* Print the instructions of a model, and the logits of each line of standard input. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mixling.h"

int main(int number, char **arguments) {
    char line[4096], reason[200];
    mixling_model *model;
    mixling_worker *worker;
    FILE *file = number == 2 ? fopen(arguments[1], "rb") : NULL;
    if (!file) return 2;
    char *data = malloc(1 << 24);
    size_t size = fread(data, 1, 1 << 24, file);
    fclose(file);
    if (mixling_open(data, size, &model, reason, sizeof reason) != MIXLING_OK) return puts(reason), 3;
    free(data);
    if (mixling_start(model, 1 << 20, 0, &worker) != MIXLING_OK) return 4;
    puts(mixling_instructions(model));
    float *logits = malloc(mixling_num_labels(model) * sizeof *logits);
    while (fgets(line, sizeof line, stdin)) {
        mixling_text text = {line, strcspn(line, "\n"), NULL, 0, NULL};
        uint8_t flags;
        if (mixling_predict(worker, &text, 1, logits, &flags) != MIXLING_OK) return 5;
        for (size_t i = 0; i < mixling_num_labels(model); i++) printf("%.9g ", logits[i]);
        putchar('\n');
    }
    free(logits);
    mixling_stop(worker);
    mixling_close(model);
    return 0;
}
