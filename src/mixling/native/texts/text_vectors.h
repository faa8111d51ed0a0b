#ifndef MIXLING_TEXT_VECTORS_H
#define MIXLING_TEXT_VECTORS_H

#include "../mixling.h"

/* The values of a text's vector; 0: the model gives logits of words, and has no vectors of texts. */
size_t text_vector_size(const mixling_model *model);

/* Compute the vectors (n, size) of texts up to the model's maximum: the pooled tokens from which the network makes its
   logits. */
int text_vectors(mixling_worker *worker, const mixling_text *texts, size_t n, float *vectors, uint8_t *flags);

#endif
