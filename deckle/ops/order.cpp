// Medians, different values, and places in sorted rows.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/core/factory_device.h"
#include "deckle/core/kept.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/dispatch/kernel_row.h"
#include "deckle/dispatch/view.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/random.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/segment.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/generated/sort.h"
#include "deckle/ops/promotion.h"

namespace deckle {

namespace kernels::cpu {
void uniform_order(const Context&, const View& keys, const View& order);
}
namespace kernels::cuda {
void search_rows(const Context&, const View& rows, const View& wanted, bool right, const View& result);
}

namespace {

/// NaN counts as larger than everything.
constexpr auto kLess = []<typename T>(const T& a, const T& b) {
  if constexpr (std::is_integral_v<T>) {
    return a < b;
  } else {
    const auto p = static_cast<double>(a), q = static_cast<double>(b);
    return p < q || (std::isnan(q) && !std::isnan(p));
  }
};

/// Of an integer and a number that is none, neither of which the other's type holds.
bool less(int64_t a, double b) { return !(b < 0x1p63) || (b >= -0x1p63 && a < static_cast<int64_t>(std::ceil(b))); }
bool less(double a, int64_t b) { return a < -0x1p63 || (a < 0x1p63 && static_cast<int64_t>(std::floor(a)) < b); }

/// Row by row, with less(a, b) of elements in both orders.
template <typename T, typename V, typename Less>
void search_all(const View& rows, const View& wanted, bool right, const Less& less, const View& result) {
  const int64_t count = wanted.numel(), n = rows.sizes[rows.ndim - 1], m = rows.ndim == 1 ? count : wanted.sizes[wanted.ndim - 1];
  for (int64_t i = 0; i < count; ++i) {
    const T* const begin = rows.ptr<T>() + i / m * n;
    const V value = wanted.ptr<V>()[i];
    const T* const found =
        right ? std::upper_bound(begin, begin + n, value, less) : std::lower_bound(begin, begin + n, value, less);
    result.ptr<int64_t>()[i] = found - begin;
  }
}

/// All contiguous; `rows` [..., n], or [n] for all of `wanted`. Of one dtype, or one of them int64 and the other float64.
void search(const Context&, const View& rows, const View& wanted, bool right, const View& result) {
  const auto mixed = [](auto a, auto b) { return less(a, b); };
  if (rows.dtype == wanted.dtype)
    visit(rows.dtype, [&]<typename T>(TypeTag<T>) { search_all<T, T>(rows, wanted, right, kLess, result); });
  else if (rows.dtype == DType::int64)
    search_all<int64_t, double>(rows, wanted, right, mixed, result);
  else
    search_all<double, int64_t>(rows, wanted, right, mixed, result);
}

constexpr dispatch::KernelRow kSearch{&search, DECKLE_CUDA_KERNEL(search_rows)};

}  // namespace

/// By random keys of 53 bits, the same on every device.
Tensor composite::randperm(int64_t n, Generator* generator) {
  check(n >= 0, Argument{"n"}, "is {} (expected 0 or more)", n);
  const Tensor keys = rand({n}, {.dtype = DType::float64, .generator = generator});
  if (!keys.device().is_cpu()) return argsort(keys);
  Tensor order = empty({n}, DType::int64);
  kernels::cpu::uniform_order(Context{keys.device()}, dispatch::view(keys), dispatch::view(order));
  return order;
}

std::tuple<Tensor, Tensor> composite::segment_median(const Tensor& values, const Ragged& ragged) {
  const Tensor constant = values.detach(), sorted = segment_argsort(constant, ragged);
  const Tensor middle = kept_value(*ragged, "middle", {}, [&] {
    std::vector<int64_t> places;
    const auto order = ragged->order();
    for (int64_t b = 0; b < ragged->components(); ++b) {
      const int64_t first = ragged->offset(b), count = ragged->offset(b + 1) - first, place = first + (count - 1) / 2;
      places.push_back(count == 0 ? -1 : order.empty() ? place : order[static_cast<size_t>(place)]);
    }
    return tensor(places);
  });
  const Tensor rows =
      where(segment_any(isnan(constant), ragged), segment_argmax(constant, ragged), index_select_or(sorted, middle, -1.0));
  return {segment_take(values, rows), rows};
}

std::tuple<Tensor, Tensor, Tensor> native::unique_places(const Tensor& self) {
  if (!self.device().is_cpu()) {  // how many there are depends on the values
    const auto [places, inverse, counts] = native::unique_places(on_host(self));
    return {move_to(places, self.device()), move_to(inverse, self.device()), move_to(counts, self.device())};
  }
  const OnDevice host{Device()};
  const Tensor flat = native::contiguous(self);
  const int64_t count = flat.numel();
  std::vector<int64_t> order(static_cast<size_t>(count)), first, counts;
  std::iota(order.begin(), order.end(), 0);
  const Tensor inverse = empty(self.sizes(), DType::int64);
  visit(flat.dtype(), [&]<typename T>(TypeTag<T>) {
    const T* const x = flat.data<T>();
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return kLess(x[a], x[b]); });
    for (const int64_t place : order) {
      // Not larger than the one before is equal; a NaN is not, even to itself.
      const bool is_nan = std::isnan(static_cast<double>(x[place])),
                 same = !first.empty() && !is_nan && !kLess(x[first.back()], x[place]);
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
  const DType common = result_type({sorted_sequence, values});
  // Beside floating numbers integers stay what they are, as not all of them are floating numbers.
  const bool mixed = is_floating(sorted_sequence.dtype()) != is_floating(values.dtype());
  const auto operand = [&](const Tensor& x) {
    return native::copy_as(x, !mixed ? common : is_floating(x.dtype()) ? DType::float64 : DType::int64);
  };
  const Tensor rows = operand(sorted_sequence), wanted = operand(values);
  const bool one = rows.dim() == 1;
  check(rows.dim() >= 1 && (one || (wanted.dim() == rows.dim() &&
                                    std::equal(rows.sizes().begin(), rows.sizes().end() - 1, wanted.sizes().begin()))),
        "sorted_sequence has shape {}, values {} (expected a vector, or the same dims but for the last)", rows.sizes(),
        values.sizes());
  const Device device = dispatch::common_device({rows, wanted});
  const Tensor result = empty(values.sizes(), DType::int64, device);
  kSearch.on(device)(Context{device}, dispatch::view(rows), dispatch::view(wanted), right, dispatch::view(result));
  return result;
}

}  // namespace deckle
