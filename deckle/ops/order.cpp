// Medians, different values, and places in sorted rows.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/core/factory_device.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/segment.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/generated/sort.h"
#include "deckle/ops/promotion.h"

namespace deckle {
namespace {

/// f(pointer, less) with the contiguous elements of x, ordered; NaN counts as larger than everything.
template <typename F>
void with_order(const Tensor& x, F&& f) {
  visit(x.dtype(), [&]<typename T>(TypeTag<T>) {
    f(x.data<T>(), [](const T& a, const T& b) {
      if constexpr (std::is_integral_v<T>) {
        return a < b;
      } else {
        const auto p = static_cast<double>(a), q = static_cast<double>(b);
        return p < q || (std::isnan(q) && !std::isnan(p));
      }
    });
  });
}

}  // namespace

std::tuple<Tensor, Tensor> composite::segment_median(const Tensor& values, const Ragged& ragged) {
  const Tensor constant = values.detach(), sorted = segment_argsort(constant, ragged);
  std::vector<int64_t> middle;
  const auto order = ragged->order();
  for (int64_t b = 0; b < ragged->components(); ++b) {
    const int64_t first = ragged->offset(b), count = ragged->offset(b + 1) - first, place = first + (count - 1) / 2;
    middle.push_back(count == 0 ? -1 : order.empty() ? place : order[static_cast<size_t>(place)]);
  }
  const Tensor rows = where(segment_any(isnan(constant), ragged), segment_argmax(constant, ragged),
                            index_select_or(sorted, tensor(middle), -1.0));
  return {segment_take(values, rows), rows};
}

std::tuple<Tensor, Tensor, Tensor> native::unique_places(const Tensor& self) {
  if (!self.device().is_cpu()) {  // how many there are depends on the values
    const auto [places, inverse, counts] = native::unique_places(on_host(self));
    return {moved(places, self.device()), moved(inverse, self.device()), moved(counts, self.device())};
  }
  const OnDevice host{Device()};
  const Tensor flat = native::contiguous(self);
  const int64_t count = flat.numel();
  std::vector<int64_t> order(static_cast<size_t>(count)), first, counts;
  std::iota(order.begin(), order.end(), 0);
  const Tensor inverse = empty(self.sizes(), DType::int64);
  with_order(flat, [&](const auto* x, auto less) {
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return less(x[a], x[b]); });
    for (const int64_t place : order) {
      // Not larger than the one before is equal; a NaN is not, even to itself.
      const bool is_nan = std::isnan(static_cast<double>(x[place])),
                 same = !first.empty() && !is_nan && !less(x[first.back()], x[place]);
      if (!same) {
        first.push_back(place);
        counts.push_back(0);
      }
      ++counts.back();
      inverse.data<int64_t>()[place] = static_cast<int64_t>(first.size()) - 1;
    }
  });
  return {tensor(first), inverse, tensor(counts)};
}

Tensor native::searchsorted(const Tensor& sorted_sequence, const Tensor& values, bool right) {
  const DType dtype = result_type({sorted_sequence, values});
  const Tensor rows = native::copied(sorted_sequence, dtype), wanted = native::copied(values, dtype);
  const bool one = rows.dim() == 1;
  check(rows.dim() >= 1 && (one || (wanted.dim() == rows.dim() &&
                                    std::equal(rows.sizes().begin(), rows.sizes().end() - 1, wanted.sizes().begin()))),
        "sorted_sequence has shape {}, values {} (expected a vector, or the same dims but for the last)", rows.sizes(),
        values.sizes());
  if (!values.device().is_cpu()) return moved(native::searchsorted(on_host(rows), on_host(wanted), right), values.device());
  const OnDevice host{Device()};
  const Tensor result = empty(values.sizes(), DType::int64);
  const int64_t n = rows.size(-1), m = one ? wanted.numel() : wanted.size(-1);
  with_order(rows, [&](const auto* x, auto less) {
    const auto* const y = wanted.data<std::remove_cv_t<std::remove_pointer_t<decltype(x)>>>();
    for (int64_t i = 0; i < wanted.numel(); ++i) {
      const auto* const begin = x + i / m * n;
      const auto* const found =
          right ? std::upper_bound(begin, begin + n, y[i], less) : std::lower_bound(begin, begin + n, y[i], less);
      result.data<int64_t>()[i] = found - begin;
    }
  });
  return result;
}

}  // namespace deckle
