// Random data on the device, and how tests look at results there.
#pragma once

#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"
#include "tests/kernels/cuda/device.h"

namespace deckle::testing {

using kernels::AttentionElement;
using kernels::AttentionTensor;

/// Fills a [rows, heads, dim] tensor with standard normal values times `scale`, a function of (seed, index). Batches of
/// `rows_per_batch` rows are batch_stride apart.
void fill_normal(AttentionElement element, const AttentionTensor& tensor, int64_t rows, int64_t rows_per_batch, int heads,
                 int dim, uint64_t seed, float scale);
void fill_normal(float* data, int64_t count, uint64_t seed, float scale);

/// Sets rows [first, first + count) of a tensor of one batch to a 16-bit word.
void fill_words(const AttentionTensor& tensor, int64_t first, int64_t count, int heads, int dim, uint16_t word);

struct Difference {
  double error_norm, reference_norm, largest_error, largest_reference;
  unsigned long long not_finite;
};

Difference compare(AttentionElement element, const AttentionTensor& tensor, const double* reference, int64_t rows,
                   int64_t rows_per_batch, int heads, int dim);

/// How many of `count` 16-bit words equal `word`.
unsigned long long count_words(const void* data, int64_t count, uint16_t word);

/// How many elements of two tensors of the same layout differ in rows [first, first + rows).
unsigned long long count_different(const AttentionTensor& a, const AttentionTensor& b, int64_t first, int64_t rows, int heads,
                                   int dim);

}  // namespace deckle::testing
