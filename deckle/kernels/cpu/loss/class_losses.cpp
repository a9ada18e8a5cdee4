// Negative log-likelihoods that integer targets pick from rows, and the mean of losses that count.     x: [rows, n]; targets:
// [rows]
//
//   class_errors            -x[i, target_i], 0 where the target is ignored       reads one element of each row
//   class_errors_backward   zeros but for -gradient_i at [i, target_i]            writes every element once
//   counted_mean            sum of loss / number of targets that count            one pass
#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/loss/class_targets.h"
#include "deckle/kernels/cpu/reduce/values.h"
#include "deckle/kernels/cpu/simd/row_buffer.h"

namespace deckle::kernels::cpu {
namespace {

constexpr int64_t kRowGrain = 4096;      // rows of one element
constexpr int64_t kBytesGrain = 262144;  // of zeros

/// Calls body(targets), a pointer to int64_t or int32_t.
template <typename Body>
void visit_targets(const View& target, Body body) {
  target.dtype == DType::int64 ? body(target.ptr<const int64_t>()) : body(target.ptr<const int32_t>());
}

}  // namespace

void class_errors(const Context&, const View& input, const View& target, int64_t ignore_index, const View& result) {
  const int64_t classes = input.sizes[1];
  visit_floating(input.dtype, [&]<typename T>(TypeTag<T>) {
    visit_targets(target, [&](const auto* targets) {
      parallel_for(input.sizes[0], kRowGrain, [&](int64_t begin, int64_t end) {
        const T* const from = input.ptr<const T>();
        T* const to = result.ptr<T>();
        for (int64_t row = begin; row < end; ++row) {
          const int64_t chosen = targets[row];
          if (chosen == ignore_index) {
            to[row] = T(0.0F);
            continue;
          }
          check_class(chosen, row, classes);
          const T value = from[row * classes + chosen];
          if constexpr (sizeof(T) == 2) {
            to[row].bits = static_cast<uint16_t>(value.bits ^ 0x8000u);
          } else {
            to[row] = -value;
          }
        }
      });
    });
  });
}

void class_errors_backward(const Context&, const View& gradient, const View& target, std::span<const int64_t>,
                           int64_t ignore_index, const View& result) {
  const int64_t classes = result.sizes[1], item = item_size(result.dtype), bytes = classes * item;
  visit_targets(target, [&](const auto* targets) {
    parallel_for(result.sizes[0], std::max<int64_t>(1, kBytesGrain / std::max<int64_t>(bytes, 1)),
                 [&](int64_t begin, int64_t end) {
                   char* const to = static_cast<char*>(result.data);
                   if (bytes > 0) std::memset(to + begin * bytes, 0, static_cast<size_t>((end - begin) * bytes));
                   for (int64_t row = begin; row < end; ++row) {
                     const int64_t chosen = targets[row];
                     if (chosen == ignore_index) continue;
                     check_class(chosen, row, classes);
                     simd::set_value(result, row * classes + chosen, -simd::value_at(gradient, row));
                   }
                 });
  });
}

void counted_mean(const Context&, const View& loss, const View& target, int64_t ignore_index, const View& mean,
                  const View& count) {
  int64_t counted = 0;
  visit_targets(target, [&](const auto* targets) {
    for (int64_t i = 0, n = target.numel(); i < n; ++i) counted += targets[i] != ignore_index ? 1 : 0;
  });
  const auto divisor = static_cast<double>(counted);
  reduce::fold(reduce::sums(), loss, {}, divisor, mean);
  simd::set_value(count, 0, divisor);
}

}  // namespace deckle::kernels::cpu
