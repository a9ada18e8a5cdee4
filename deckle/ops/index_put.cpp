// Elements written by indices, and where a mask is set.

#include <algorithm>
#include <numeric>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/base/parallel.h"
#include "deckle/base/range.h"
#include "deckle/core/factory_device.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/positions.h"

namespace deckle {
namespace {

/// For each of `rows` rows which of `positions` writes it last, or -1.
std::vector<int64_t> last_writes(const Tensor& positions, int64_t rows) {
  const Tensor here = native::on_host(positions);
  const auto* const at = here.data<int64_t>();
  std::vector<int64_t> last(static_cast<size_t>(rows), -1);
  for (int64_t i = 0; i < positions.numel(); ++i) last[static_cast<size_t>(at[i])] = i;
  return last;
}

/// Where the indices are: one that is out of range is told at the next synchronisation, as of every op there.
Tensor flat_positions_on_device(const Tensor& self, TensorList indices, IntSpan shape) {
  const OnDevice there(self.device());
  Tensor flat = zeros({numel_of(shape)}, DType::int64);
  for (size_t dim = 0; dim < indices.size(); ++dim) {
    const int64_t size = self.size(static_cast<int64_t>(dim));
    const Tensor given = reshape(expand(to(indices[dim], DType::int64), shape), {flat.numel()});
    const Tensor places = arange(0, size, 1, DType::int64);  // read by index, so that each is checked
    flat = flat * size + index_select(places, 0, where(lt(given, 0), given + size, given));
  }
  return flat;
}

/// index_put without the host: which element is written last at each row is what scatter leaves there.
Tensor put_on_device(const Tensor& rows, const Tensor& positions, const Tensor& source) {
  const OnDevice there(rows.device());
  const Tensor last =
      scatter(full({rows.size(0)}, -1, DType::int64), 0, positions, arange(0, positions.numel(), 1, DType::int64));
  Dims mask_sizes(static_cast<size_t>(rows.dim()), 1);
  mask_sizes[0] = rows.size(0);
  return where(view(ge(last, 0), mask_sizes), index_select(source, 0, clamp_min(last, 0)), rows);
}

}  // namespace

Tensor flat_positions(const Tensor& self, TensorList indices, IntSpan shape) {
  if (!self.device().is_cpu()) return flat_positions_on_device(self, indices, shape);
  const int64_t count = numel_of(shape);
  const Tensor positions = zeros_raw({count}, DType::int64, Device());
  auto* const flat = positions.data<int64_t>();
  for (size_t dim = 0; dim < indices.size(); ++dim) {
    const int64_t size = self.size(static_cast<int64_t>(dim));
    const Tensor index = native::on_host(expand(to(indices[dim], DType::int64), shape));
    const auto* const given = index.data<int64_t>();
    const auto* const wrong = std::find_if(given, given + count, [&](int64_t at) { return at < -size || at >= size; });
    if (wrong != given + count)
      fail("index {} is out of range for dim {} of shape {} (expected {})", *wrong, dim, self.sizes(), Range{-size, size - 1});
    for (int64_t i = 0; i < count; ++i) flat[i] = flat[i] * size + (given[i] < 0 ? given[i] + size : given[i]);
  }
  return positions;
}

Tensor native::flat_nonzero(const Tensor& self) {
  if (!self.device().is_cpu())
    return move_to(native::flat_nonzero(on_host(self)), self.device());  // its size depends on the values
  constexpr int64_t kPiece = 1 << 15;                                    // elements counted, then listed, by one thread
  const Tensor dense = native::contiguous(self);
  const int64_t count = dense.numel(), pieces = (count + kPiece - 1) / kPiece;
  std::vector<int64_t> starts(static_cast<size_t>(pieces) + 1, 0);  // of each piece in the result
  Tensor result;
  visit(self.dtype(), [&]<typename T>(TypeTag<T>) {
    const T* const x = count == 0 ? nullptr : dense.data<T>();
    const auto set = [x](int64_t i) { return static_cast<double>(x[i]) != 0.0; };
    parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t last = std::min(count, (piece + 1) * kPiece);
        for (int64_t i = piece * kPiece; i < last; ++i) starts[static_cast<size_t>(piece) + 1] += set(i);
      }
    });
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    result = zeros_raw({starts.back()}, DType::int64, self.device());
    if (starts.back() == 0) return;
    int64_t* const found = result.data<int64_t>();
    parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        int64_t *next = found + starts[static_cast<size_t>(piece)], *const last = found + starts[static_cast<size_t>(piece) + 1];
        for (int64_t i = piece * kPiece; next != last; ++i) {  // without a branch that is as good as random
          *next = i;
          next += set(i);
        }
      }
    });
  });
  return result;
}

Tensor native::unravel_index(const Tensor& flat, IntSpan sizes) {
  check(flat.dim() == 1 && flat.dtype() == DType::int64, Argument{"places"}, "is {} of shape {} (expected int64 of one dim)",
        name(flat.dtype()), flat.sizes());
  const auto rank = static_cast<int64_t>(sizes.size());
  if (!flat.device().is_cpu()) {
    const OnDevice there(flat.device());
    std::vector<Tensor> columns(sizes.size());
    Tensor rest = flat;
    for (int64_t dim = rank - 1; dim >= 0; --dim) {
      const int64_t size = std::max<int64_t>(sizes[static_cast<size_t>(dim)], 1);
      columns[static_cast<size_t>(dim)] = deckle::remainder(rest, size);
      rest = deckle::floor_divide(rest, size);
    }
    return rank == 0 ? zeros_raw({flat.size(0), 0}, DType::int64, flat.device()) : deckle::stack(columns, 1);
  }
  const Tensor dense = native::contiguous(flat);
  const int64_t count = flat.numel();
  const Tensor result = zeros_raw({count, rank}, DType::int64, Device());
  if (count == 0 || rank == 0) return result;
  const int64_t* const places = dense.data<int64_t>();
  int64_t* const indices = result.data<int64_t>();
  const int64_t inner = std::max<int64_t>(sizes.back(), 1);
  parallel_for(count, 1 << 14, [&](int64_t begin, int64_t end) {
    int64_t row = -1;
    for (int64_t i = begin; i < end; ++i) {
      int64_t* const index = indices + i * rank;
      if (row < 0 || places[i] - row * inner >= inner) {  // another row: all dims anew
        row = places[i] / inner;
        for (int64_t dim = rank - 2, rest = row; dim >= 0; --dim) {
          index[dim] = rest % sizes[static_cast<size_t>(dim)];
          rest /= sizes[static_cast<size_t>(dim)];
        }
      } else {
        std::copy_n(index - rank, rank - 1, index);
      }
      index[rank - 1] = places[i] - row * inner;
    }
  });
  return result;
}

Tensor composite::index_put(const Tensor& self, TensorList indices, const Tensor& values, bool accumulate) {
  check(!indices.empty() && static_cast<int64_t>(indices.size()) <= self.dim(),
        "{} index tensors for self of shape {} (expected 1..{})", indices.size(), self.sizes(), self.dim());
  check(values.dtype() == self.dtype(), "self is {}, values is {} (expected one dtype)", name(self.dtype()),
        name(values.dtype()));
  Dims shape(indices[0].sizes());
  for (const Tensor& index : indices.subspan(1)) shape = broadcast_shapes(shape, index.sizes());
  const IntSpan rest = self.sizes().subspan(indices.size());
  Dims value_sizes(shape), rows_sizes = {1}, source_sizes = {numel_of(shape)};
  for (const int64_t size : self.sizes().first(indices.size())) rows_sizes[0] *= size;
  for (const int64_t size : rest) {
    value_sizes.push_back(size);
    rows_sizes.push_back(size);
    source_sizes.push_back(size);
  }
  const Tensor positions = flat_positions(self, indices, shape);
  const Tensor rows = reshape(self, rows_sizes), source = reshape(expand(values, value_sizes), source_sizes);
  if (accumulate) return reshape(index_add(rows, 0, positions, source), self.sizes());
  if (positions.numel() == 0) return clone(self);
  if (!self.device().is_cpu()) return reshape(put_on_device(rows, positions, source), self.sizes());
  const std::vector<int64_t> last = last_writes(positions, rows_sizes[0]);
  const Tensor written = zeros_raw({rows_sizes[0]}, DType::bool_, Device());
  const Tensor from = zeros_raw({rows_sizes[0]}, DType::int64, Device());  // rows that nothing writes read row 0, unused
  bool* const is_written = written.data<bool>();
  int64_t* const read = from.data<int64_t>();
  for (size_t row = 0; row < last.size(); ++row) {
    is_written[row] = last[row] >= 0;
    read[row] = std::max<int64_t>(0, last[row]);
  }
  Dims mask_sizes(rows_sizes.size(), 1);
  mask_sizes[0] = rows_sizes[0];
  return reshape(where(view(written, mask_sizes), index_select(source, 0, from), rows), self.sizes());
}

}  // namespace deckle
