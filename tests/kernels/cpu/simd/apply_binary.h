#pragma once

/// Defines NAME_f32 and NAME_f64, which apply a function of two vectors to arrays of n elements: a multiple of 64, so of every
/// vector length. To be used in the namespace of an instruction set.
#define DECKLE_APPLY_BINARY(NAME)                                                                    \
  template <typename T>                                                                              \
  void apply_##NAME(int64_t n, const T* a, const T* b, T* y) {                                       \
    const hn::ScalableTag<T> d;                                                                      \
    for (int64_t i = 0; i < n; i += static_cast<int64_t>(hn::Lanes(d)))                              \
      hn::StoreU(NAME(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, y + i);                       \
  }                                                                                                  \
  void NAME##_f32(int64_t n, const float* a, const float* b, float* y) { apply_##NAME(n, a, b, y); } \
  void NAME##_f64(int64_t n, const double* a, const double* b, double* y) { apply_##NAME(n, a, b, y); }
