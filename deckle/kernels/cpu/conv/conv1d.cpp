// Convolution along sequences, and its transposes.   values: [rows, G in], weight: [G out, in, size], result: [windows, G out]
//
//   segment_convolution            result[w] = bias + the sum over t of values[w stride - lead + t dilation] weight[:, :, t]^T
//   segment_convolution_transpose  the same map from [windows, G out] to [rows, G in]
//   segment_convolution_weight     the gradient of the weight, [G out, in, size]
//
// Products of the windows [windows, size in], which are never in memory as a whole: a tile asks for a block of rows and taps. Of
// one tap, inside of one sequence, that is a strided view of the values; any other block is laid out in the thread's scratch
// memory, in the second cache, with zeros outside of the sequence. So bytes are those of values, weight and result; FLOPs 2
// windows size G in out. The transpose is such a product for each residue of the row modulo the stride, which sees every
// stride-th tap; the weight's gradient one with the windows transposed. One channel a group: depthwise.cpp.
//
// All windows side by side in memory and one product of them would, for size 3, write and read four times the bytes of the
// values.
// Instances: those of products (matmul/product.cpp); any number of threads gives the same bits.

#include <cstring>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/conv/depthwise.h"
#include "deckle/kernels/cpu/matmul/product.h"

namespace deckle::kernels::cpu {
namespace conv {
namespace {

using matmul::Matrix;

constexpr int64_t kWideTap = 256;     // channels from which one tap is a step of the product: its rows are read where they lie
constexpr int64_t kStepWidth = 1024;  // else as many taps as give about this many columns

/// Columns of a product's step.
int64_t step_of(int64_t channels) {
  if (channels >= kWideTap) return channels <= 4 * kStepWidth ? channels : kStepWidth;
  return std::max<int64_t>(1, kStepWidth / std::max<int64_t>(channels, 1)) * channels;
}

/// Rows [row, row + rows) of the windows, columns [col, col + cols) of their taps side by side.
Matrix windows_block(const Source& source, const Taps& taps, int64_t channels, int64_t row, int64_t rows, int64_t col,
                     int64_t cols, Scratch& scratch) {
  const int64_t item = item_size(source.dtype), first_tap = col / channels, last_tap = (col + cols - 1) / channels;
  if (first_tap == last_tap) {
    const int64_t b = source.sequence(row), length = source.from[b + 1] - source.from[b],
                  at = row - source.to[static_cast<size_t>(b)];
    const int64_t offset = taps.offsets[static_cast<size_t>(first_tap)], begin = at * taps.step + offset;
    const bool whole = row + rows <= source.to[static_cast<size_t>(b) + 1];
    if (whole && begin >= 0 && begin + (rows - 1) * taps.step < length) {
      const char* const data = source.data + ((source.from[b] + begin) * source.stride + col % channels) * item;
      return {data, source.dtype, rows, cols, taps.step * source.stride, 1};
    }
  }
  char* const block = scratch.take<char>(rows * cols * item);
  for_sequence_rows(source, row, rows, [&](int64_t i, int64_t b, int64_t o) {
    const int64_t length = source.from[b + 1] - source.from[b];
    char* to = block + i * cols * item;
    for (int64_t tap = first_tap; tap <= last_tap; ++tap) {
      const int64_t begin = tap == first_tap ? col % channels : 0;
      const int64_t count = std::min(channels, col + cols - tap * channels) - begin;
      const int64_t from = o * taps.step + taps.offsets[static_cast<size_t>(tap)];
      const auto bytes = static_cast<size_t>(count * item);
      if (from >= 0 && from < length)
        std::memcpy(to, source.data + ((source.from[b] + from) * source.stride + begin) * item, bytes);
      else
        std::memset(to, 0, bytes);
      to += bytes;
    }
  });
  return {block, source.dtype, rows, cols, cols, 1};
}

/// The weight of one group as a matrix [taps in, out], or [taps out, in] for the transpose; of the listed taps.
const char* weight_matrix(const View& weight, int64_t group, int64_t out, std::span<const int64_t> taps, bool transpose,
                          Scratch& scratch) {
  const int64_t in = weight.sizes[1], size = weight.sizes[2], item = item_size(weight.dtype);
  char* const matrix = scratch.take<char>(static_cast<int64_t>(taps.size()) * in * out * item);
  const char* const from = weight.ptr<const char>() + group * out * in * size * item;
  char* to = matrix;
  for (const int64_t tap : taps) {
    for (int64_t row = 0; row < (transpose ? out : in); ++row) {
      for (int64_t col = 0; col < (transpose ? in : out); ++col, to += item) {
        const int64_t o = transpose ? row : col, c = transpose ? col : row;
        std::memcpy(to, from + ((o * in + c) * size + tap) * item, static_cast<size_t>(item));
      }
    }
  }
  return matrix;
}

std::vector<int64_t> all_taps(int64_t size) {
  std::vector<int64_t> taps(static_cast<size_t>(size));
  for (int64_t t = 0; t < size; ++t) taps[static_cast<size_t>(t)] = t;
  return taps;
}

std::span<const int64_t> offsets_of(const RaggedView& ragged) {
  return {ragged.offsets, static_cast<size_t>(ragged.components) + 1};
}

/// The rows of one residue modulo the stride: how many of each sequence, counted through, and what they read.
struct Residue {
  std::vector<int64_t> offsets = {0}, taps;
  Taps reads{1, {}};

  Residue(const RaggedView& ragged, int64_t residue, int64_t size, int64_t stride, int64_t dilation, int64_t lead) {
    for (int64_t b = 0; b < ragged.components; ++b) {
      const int64_t length = ragged.offsets[b + 1] - ragged.offsets[b];
      offsets.push_back(offsets.back() + (length > residue ? (length - residue - 1) / stride + 1 : 0));
    }
    for (int64_t t = 0; t < size; ++t) {
      const int64_t start = residue + lead - t * dilation;
      if (start % stride != 0) continue;
      taps.push_back(t);
      reads.offsets.push_back(start / stride);
    }
  }
};

}  // namespace
}  // namespace conv

using namespace conv;

void segment_convolution(const Context&, const View& values, const RaggedView& ragged, const RaggedView& windows,
                         const View& weight, const View& bias, int64_t stride, int64_t dilation, int64_t lead, int64_t groups,
                         const View& result) {
  const int64_t in = weight.sizes[1], size = weight.sizes[2], out = weight.sizes[0] / groups, item = item_size(values.dtype);
  const Taps taps = Taps::forward(size, stride, dilation, lead);
  Source source{values.ptr<const char>(), values.dtype, in * groups, ragged.offsets, offsets_of(windows)};
  if (in == 1 && out == 1) return depthwise(source, taps, weight, bias, result);
  for (int64_t g = 0; g < groups; ++g) {
    Scratch scratch;
    Source own = source;
    own.data += g * in * item;
    const matmul::Blocks blocks = [&](int64_t row, int64_t rows, int64_t col, int64_t cols, Scratch& memory) {
      return windows_block(own, taps, in, row, rows, col, cols, memory);
    };
    const char* const matrix = weight_matrix(weight, g, out, all_taps(size), false, scratch);
    matmul::multiply({.a = {nullptr, values.dtype, windows.rows(), size * in, 0, 0},
                      .b = {matrix, values.dtype, size * in, out, out, 1},
                      .bias = bias.defined ? bias.ptr<const char>() + g * out * item : nullptr,
                      .c = result.ptr<char>() + g * out * item,
                      .c_leading = out * groups,
                      .a_blocks = &blocks,
                      .chunk = step_of(in)});
  }
}

void segment_convolution_transpose(const Context&, const View& gradient, const RaggedView& windows, const RaggedView& ragged,
                                   const View& weight, int64_t stride, int64_t dilation, int64_t lead, int64_t groups,
                                   const View& result) {
  const int64_t in = weight.sizes[1], size = weight.sizes[2], out = weight.sizes[0] / groups, item = item_size(gradient.dtype);
  if (in == 1 && out == 1)
    return depthwise_transpose(gradient, windows, ragged, Taps::forward(size, stride, dilation, lead), weight, result);
  for (int64_t residue = 0; residue < stride; ++residue) {
    const Residue rows(ragged, residue, size, stride, dilation, lead);
    const int64_t count = rows.offsets.back(), taps = rows.reads.count();
    if (count == 0) break;  // the next ones have no more rows, and there may be as many as the largest integer
    for (int64_t g = 0; g < groups; ++g) {
      Scratch scratch;
      const Source source{gradient.ptr<const char>() + g * out * item, gradient.dtype, out * groups, windows.offsets,
                          rows.offsets};
      const matmul::Blocks blocks = [&](int64_t row, int64_t height, int64_t col, int64_t cols, Scratch& memory) {
        return windows_block(source, rows.reads, out, row, height, col, cols, memory);
      };
      const char* const matrix = weight_matrix(weight, g, out, rows.taps, true, scratch);
      char* const target = result.ptr<char>() + g * in * item;
      char* const sums = stride == 1 ? target : scratch.take<char>(count * in * item);
      matmul::multiply({.a = {nullptr, gradient.dtype, count, taps * out, 0, 0},
                        .b = {matrix, gradient.dtype, taps * out, in, in, 1},
                        .c = sums,
                        .c_leading = stride == 1 ? in * groups : in,
                        .a_blocks = &blocks,
                        .chunk = step_of(out)});
      if (stride == 1 || in == 0) continue;
      for_sequence_rows(source, 0, count, [&](int64_t i, int64_t b, int64_t o) {
        const int64_t row = ragged.offsets[b] + residue + o * stride;
        std::memcpy(target + row * in * groups * item, sums + i * in * item, static_cast<size_t>(in * item));
      });
    }
  }
}

void segment_convolution_weight(const Context&, const View& values, const RaggedView& ragged, const View& gradient,
                                const RaggedView& windows, int64_t size, int64_t stride, int64_t dilation, int64_t lead,
                                int64_t groups, const View& result) {
  const int64_t in = values.sizes[1] / groups, out = gradient.sizes[1] / groups, item = item_size(values.dtype);
  const Taps taps = Taps::forward(size, stride, dilation, lead);
  const Source source{values.ptr<const char>(), values.dtype, in * groups, ragged.offsets, offsets_of(windows)};
  if (in == 1 && out == 1) return depthwise_weight(source, taps, gradient, result);
  for (int64_t g = 0; g < groups; ++g) {
    Scratch scratch;
    Source own = source;
    own.data += g * in * item;
    const matmul::Blocks blocks = [&](int64_t col, int64_t cols, int64_t row, int64_t rows, Scratch& memory) {
      const Matrix block = windows_block(own, taps, in, row, rows, col, cols, memory);
      return Matrix{block.data, block.dtype, cols, rows, 1, block.row_stride};
    };
    char* const sums = scratch.take<char>(size * in * out * item);  // [size in, out]
    matmul::multiply({.a = {nullptr, values.dtype, size * in, windows.rows(), 0, 0},
                      .b = {gradient.ptr<const char>() + g * out * item, values.dtype, windows.rows(), out, out * groups, 1},
                      .c = sums,
                      .a_blocks = &blocks});
    char* to = result.ptr<char>() + g * out * in * size * item;
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t c = 0; c < in; ++c) {
        for (int64_t t = 0; t < size; ++t, to += item)
          std::memcpy(to, sums + ((t * in + c) * out + o) * item, static_cast<size_t>(item));
      }
    }
  }
}

}  // namespace deckle::kernels::cpu
