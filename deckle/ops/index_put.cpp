// Elements written by indices, and where a mask is set.

#include <algorithm>
#include <numeric>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/base/parallel.h"
#include "deckle/base/range.h"
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

}  // namespace

Tensor flat_positions(const Tensor& self, TensorList indices, Ints shape) {
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
  return native::moved(positions, self.device());
}

Tensor native::flat_nonzero(const Tensor& self) {
  if (!self.device().is_cpu())
    return moved(native::flat_nonzero(on_host(self)), self.device());  // its size depends on the values
  constexpr int64_t kPiece = 1 << 15;                                  // elements counted, then listed, by one thread
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

Tensor native::nonzero(const Tensor& self) {
  if (!self.device().is_cpu()) return moved(native::nonzero(on_host(self)), self.device());
  const Tensor flat = native::flat_nonzero(self);
  const int64_t count = flat.numel(), rank = self.dim();
  const Tensor result = zeros_raw({count, rank}, DType::int64, self.device());
  if (count == 0 || rank == 0) return result;
  const int64_t* const places = flat.data<int64_t>();
  int64_t* const indices = result.data<int64_t>();
  const Dims sizes(self.sizes());
  const int64_t inner = sizes.back();
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
        "{} index tensors for self of shape {} (expected 1..{})", indices.size(), to_string(self.sizes()), self.dim());
  check(values.dtype() == self.dtype(), "self is {}, values is {} (expected one dtype)", name(self.dtype()),
        name(values.dtype()));
  Dims shape(indices[0].sizes());
  for (const Tensor& index : indices.subspan(1)) shape = broadcast_shapes(shape, index.sizes());
  const Ints rest = self.sizes().subspan(indices.size());
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
  return reshape(where(view(native::moved(written, self.device()), mask_sizes),
                       index_select(source, 0, native::moved(from, self.device())), rows),
                 self.sizes());
}

}  // namespace deckle
