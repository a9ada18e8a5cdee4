// Gather by position within the own component, column by column, and its transpose, scatter-add.
//
//   segment_gather       result[i, c] = values[index[i, c], c]          index: [index rows, columns], positions in the component
//   segment_scatter_add  values, plus source[i, c] at [index[i, c], c]  that row i belongs to; its columns are some of values'
// Read 8 + 4, write 4 bytes per element. A block of columns of an average component stays in L2. A column of a component belongs
// to one thread, which accumulates in order in double (integers: int64). Instances: gather by element size, scatter_add by dtype.

#include <algorithm>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/base/range.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/item.h"
#include "deckle/kernels/cpu/segment/tasks.h"
#include "deckle/kernels/cpu/simd/convert_element.h"

namespace deckle::kernels::cpu {
namespace {

constexpr int64_t kMostSums = 1 << 17;  // of a block, 1 MiB, unless the component is long
constexpr int64_t kFewestColumns = 16;  // still whole cache lines for long components

/// The offset of each column of `index` in a row of `values`, which has the same number of dims, none of them smaller.
std::vector<int64_t> columns_of(const View& index, const View& values) {
  std::vector<int64_t> columns = {0};
  for (int dim = 1; dim < index.ndim; ++dim) {
    std::vector<int64_t> finer;
    for (const int64_t column : columns) {
      for (int64_t i = 0; i < index.sizes[dim]; ++i) finer.push_back(column * values.sizes[dim] + i);
    }
    columns = std::move(finer);
  }
  return columns;
}

/// Of its own, so that the loops keep the position in a register.
[[noreturn, gnu::noinline, gnu::cold]] void fail_position(int64_t position, int64_t b, int64_t length) {
  fail("index {} is out of range for component {} (expected {})", position, b, Range{0, length - 1});
}

/// Rows of one component.
struct Component {
  int64_t number, begin, length;

  Component(const RaggedView& ragged, int64_t b)
      : number(b), begin(ragged.offsets[b]), length(ragged.offsets[b + 1] - ragged.offsets[b]) {}
  int64_t check_position(int64_t position) const {
    if (static_cast<uint64_t>(position) >= static_cast<uint64_t>(length)) [[unlikely]]
      fail_position(position, number, length);
    return position;
  }
};

template <typename T>
void gather(const View& values, const RaggedView& ragged, const View& index, const RaggedView& index_ragged, const View& result) {
  const std::vector<int64_t> columns = columns_of(index, values);
  const int64_t inner = static_cast<int64_t>(columns.size()), values_inner = segment::inner_size(values);
  const auto* const from = values.ptr<const T>();
  segment::for_components(index_ragged, inner, [&](int64_t b, int64_t first, int64_t count) {
    const Component component(ragged, b);
    for (int64_t row = index_ragged.offsets[b]; row < index_ragged.offsets[b + 1]; ++row) {
      const auto* const positions = index.ptr<const int64_t>() + row * inner + first;
      const int64_t* const column = columns.data() + first;
      T* const to = result.ptr<T>() + row * inner + first;
      for (int64_t c = 0; c < count; ++c)
        to[c] = from[(component.begin + component.check_position(positions[c])) * values_inner + column[c]];
    }
  });
}

/// A block of columns [first, first + count) of component b: sums start from the values.
template <typename T, typename Sum>
void scatter_block(const View& values, const RaggedView& ragged, const View& index, const RaggedView& index_ragged,
                   const View& source, const std::vector<int64_t>& columns, int64_t b, int64_t first, int64_t count,
                   const View& result) {
  const Component component(ragged, b);
  const int64_t begin = component.begin, rows = component.length;
  const int64_t inner = static_cast<int64_t>(columns.size()), values_inner = segment::inner_size(values);
  const int64_t* const column = columns.data() + first;
  Scratch scratch;
  Sum* const sums = scratch.take<Sum>(rows * count);
  for (int64_t row = 0; row < rows; ++row) {
    const T* const from = values.ptr<const T>() + (begin + row) * values_inner;
    for (int64_t c = 0; c < count; ++c) sums[row * count + c] = static_cast<Sum>(from[column[c]]);
  }
  for (int64_t row = index_ragged.offsets[b]; row < index_ragged.offsets[b + 1]; ++row) {
    const auto* const positions = index.ptr<const int64_t>() + row * inner + first;
    const T* const added = source.ptr<const T>() + row * inner + first;
    for (int64_t c = 0; c < count; ++c) {
      sums[component.check_position(positions[c]) * count + c] += static_cast<Sum>(added[c]);
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    T* const to = result.ptr<T>() + (begin + row) * values_inner;
    for (int64_t c = 0; c < count; ++c) to[column[c]] = simd::convert<T>(sums[row * count + c]);
  }
}

}  // namespace

void segment_gather(const Context&, const View& values, const RaggedView& ragged, const View& index,
                    const RaggedView& index_ragged, const View& result) {
  if (index.numel() == 0) return;
  visit_item(values.dtype, [&]<typename T>(TypeTag<T>) { gather<T>(values, ragged, index, index_ragged, result); });
}

void segment_scatter_add(const Context&, const View& values, const RaggedView& ragged, const View& index,
                         const RaggedView& index_ragged, const View& source, const View& result) {
  const std::vector<int64_t> columns = columns_of(index, values);
  const auto inner = static_cast<int64_t>(columns.size());
  visit(values.dtype, [&]<typename T>(TypeTag<T>) {
    if (inner != segment::inner_size(values))
      std::copy_n(values.ptr<const T>(), values.numel(), result.ptr<T>());  // columns outside of index keep their values
    using Sum = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
    struct Block {
      int64_t component, first, count;
    };
    std::vector<Block> blocks;
    for (int64_t b = 0; b < ragged.components; ++b) {
      const int64_t rows = std::max<int64_t>(ragged.offsets[b + 1] - ragged.offsets[b], 1);
      const int64_t width = std::clamp(kMostSums / rows, kFewestColumns, segment::kColumns);
      for (int64_t first = 0; first < inner; first += width) blocks.push_back({b, first, std::min(width, inner - first)});
    }
    const auto count = static_cast<int64_t>(blocks.size());
    parallel_for(count, 1 + segment::kGrain * count / (index.numel() + 1), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Block& block = blocks[static_cast<size_t>(i)];
        scatter_block<T, Sum>(values, ragged, index, index_ragged, source, columns, block.component, block.first, block.count,
                              result);
      }
    });
  });
}

}  // namespace deckle::kernels::cpu
