// Iteration of every pointwise op: operands of any strides, broadcasts and dtypes become contiguous blocks of one type.
//
// Dims are ordered by the output's strides and merged where all operands allow. Then, with L the innermost size:
//   flat    every operand is contiguous or one number: the block function runs straight over memory; where that is plain at once
//           (flat.h) no dims are ordered, which on a few elements would take ten times as long as the op
//   rows    L >= 256: one call per row; an operand with inner stride 1 is passed directly, with stride 0 as a number
//   blocks  short rows: about a thousand elements at a time, operands that are not contiguous are gathered into buffers in L1; an
//           operand that repeats with a short period (a bias) is gathered once
// An operand of another dtype or inner stride is converted through a buffer; a transposed one in tiles.
#include "deckle/kernels/cpu/pointwise/driver.h"

#include <algorithm>
#include <type_traits>

#include "deckle/base/check.h"
#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/pointwise/flat.h"
#include "deckle/kernels/cpu/pointwise/walk.h"
#include "deckle/kernels/cpu/simd/convert.h"
#include "deckle/kernels/cpu/simd/repeat.h"
#include "deckle/kernels/cpu/simd/transpose.h"

namespace deckle::kernels::cpu::pointwise {
namespace {

constexpr int64_t kLongRow = 256;  // from this length on a call per row costs less than gathering
/// Of a tile of kBlock elements, where an operand is transposed: a cache line, or more of the wide elements.
template <typename T>
constexpr int64_t kTileRows = sizeof(T) == 2 ? 32 : 16;

/// One block function applied over one walk. `numbers` follow the tensor inputs.
template <typename T>
struct BlockWalk {
  using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

  BlockFunction<T> function;
  const Walk& walk;
  const Computed<T>* numbers;
  int number_count;

  int inputs() const { return walk.inputs + number_count; }
  int outputs() const { return walk.count - walk.inputs; }
  bool same_type(int operand) const { return walk.operands[operand].dtype == dtype_of<T>; }
  T* address(int operand, int64_t offset) const {
    const Operand& o = walk.operands[operand];
    return reinterpret_cast<T*>(o.data + offset * o.item);
  }

  struct Pointers {
    const T* in[kMaxOperands];
    uint8_t is_scalar[kMaxOperands] = {};
    T* out[kMaxOperands];
  };
  Pointers start() const {
    Pointers p;
    for (int i = 0; i < number_count; ++i) {
      p.in[walk.inputs + i] = reinterpret_cast<const T*>(numbers + i);
      p.is_scalar[walk.inputs + i] = kNumber;
    }
    return p;
  }

  void flat(int64_t begin, int64_t end) const {
    Pointers p = start();
    for (int i = 0; i < walk.inputs; ++i) {
      p.is_scalar[i] = walk.operands[i].strides[0] == 0 ? kElement : kElements;
      p.in[i] = address(i, p.is_scalar[i] ? 0 : begin);
    }
    for (int o = 0; o < outputs(); ++o) p.out[o] = address(walk.inputs + o, begin);
    function(end - begin, p.in, p.is_scalar, p.out);
  }

  /// Whether an input runs along dim 1 instead of dim 0: a transposed one.
  bool is_crossed(int operand) const {
    const int64_t* const strides = walk.operands[operand].strides;
    return operand < walk.inputs && walk.dims > 1 && strides[0] != 0 && strides[0] != 1 && strides[1] == 1 &&
           !walk.operands[operand].goes_through_table(1);
  }
  bool is_any_crossed() const {
    bool any = false;
    for (int i = 0; i < walk.inputs; ++i) any = any || is_crossed(i);
    return any;
  }

  /// Rows [begin, end) (indices over dims 1 and up), columns [column, column_end) of each. With crossed inputs, tiles of
  /// 16 rows and 64 columns: every cache line fetched across the rows is used by all of them.
  void rows(int64_t begin, int64_t end, int64_t column, int64_t column_end) const {
    Pointers p = start();
    bool direct[kMaxOperands];
    bool buffered = false;
    for (int o = 0; o < walk.count; ++o) {
      const int64_t stride = walk.operands[o].strides[0];
      const bool number = o < walk.inputs && stride == 0;
      direct[o] = same_type(o) && (stride == 1 || number);
      buffered = buffered || !(direct[o] || number);
      if (o < walk.inputs) p.is_scalar[o] = number ? kElement : kElements;
    }
    const bool tiles = is_any_crossed();
    if (!tiles && std::all_of(direct, direct + walk.count, [](bool d) { return d; }))
      return plain_rows(begin, end, column, column_end, p);
    Scratch scratch;
    T* const buffers = scratch.take<T>(walk.count * kBlock<T>);
    const int64_t step = tiles ? kBlock<T> / kTileRows<T> : buffered ? kBlock<T> : column_end - column;
    Position row(walk, begin, 1);
    for (int64_t r = begin, count; r < end; r += count, row.advance(count)) {
      count = tiles ? std::min({kTileRows<T>, end - r, walk.sizes[1] - row[1]}) : 1;
      for (int64_t c = column; c < column_end; c += step) {
        const int64_t n = std::min(step, column_end - c);
        for (int i = 0; i < walk.inputs; ++i) {
          if (is_crossed(i)) load_tile(i, row.offset(i), c, n, count, step, buffers + i * kBlock<T>);
        }
        Position at = row;
        for (int64_t k = 0; k < count; ++k, at.advance(1)) {
          for (int i = 0; i < walk.inputs; ++i) {
            const int64_t stride = walk.operands[i].strides[0];
            T* const source = address(i, at.offset(i) + c * stride);
            T* const buffer = buffers + i * kBlock<T> + (is_crossed(i) ? k * step : 0);
            if (!direct[i] && !is_crossed(i))
              simd::load_run(source, walk.operands[i].dtype, stride, p.is_scalar[i] ? 1 : n, buffer);
            p.in[i] = direct[i] ? source : buffer;
          }
          for (int o = 0; o < outputs(); ++o) {
            const int operand = walk.inputs + o;
            p.out[o] = direct[operand] ? address(operand, at.offset(operand) + c) : buffers + operand * kBlock<T>;
          }
          function(n, p.in, p.is_scalar, p.out);
          for (int o = 0; o < outputs(); ++o) {
            const int operand = walk.inputs + o;
            const int64_t stride = walk.operands[operand].strides[0];
            if (direct[operand]) continue;
            simd::store_run(p.out[o], n, address(operand, at.offset(operand) + c * stride), walk.operands[operand].dtype, stride);
          }
        }
      }
    }
  }

  /// The same where every operand is passed as it lies.
  void plain_rows(int64_t begin, int64_t end, int64_t column, int64_t column_end, Pointers& p) const {
    Position row(walk, begin, 1);
    for (int64_t r = begin; r < end; ++r, row.advance(1)) {
      for (int o = 0; o < walk.count; ++o) {
        T* const place = address(o, row.offset(o) + column * walk.operands[o].strides[0]);
        o < walk.inputs ? void(p.in[o] = place) : void(p.out[o - walk.inputs] = place);
      }
      function(column_end - column, p.in, p.is_scalar, p.out);
    }
  }

  /// Columns [column, column + n) of `rows` rows from `offset` on, of a crossed input, as tile[row][step].
  void load_tile(int operand, int64_t offset, int64_t column, int64_t n, int64_t rows, int64_t step, T* tile) const {
    const Operand& o = walk.operands[operand];
    const auto transpose = [&](const T* from, int64_t stride) {
      simd::transpose(reinterpret_cast<const Bits*>(from), stride, n, rows, reinterpret_cast<Bits*>(tile), step);
    };
    if (same_type(operand)) return transpose(address(operand, offset + column * o.strides[0]), o.strides[0]);
    T lines[kBlock<T>];
    for (int64_t c = 0; c < n; ++c)
      simd::load_run(address(operand, offset + (column + c) * o.strides[0]), o.dtype, 1, rows, lines + c * kTileRows<T>);
    transpose(lines, kTileRows<T>);
  }

  /// Visits the runs along dim 0 of `n` elements from element `begin` on: body(offset in elements, stride, done, run).
  template <typename Body>
  void visit_runs(int operand, int64_t begin, int64_t n, Body body) const {
    Position at(walk, begin, 0);
    const int64_t stride = walk.operands[operand].strides[0];
    for (int64_t done = 0; done < n;) {
      const int64_t run = std::min(n - done, walk.sizes[0] - at[0]);
      body(at.offset(operand), stride, done, run);
      at.advance(run);
      done += run;
    }
  }

  void gather(int operand, int64_t begin, int64_t n, T* buffer) const {
    const Operand& o = walk.operands[operand];
    if (o.strides[0] == 0 && walk.dims > 1 && !o.goes_through_table(1)) return gather_repeated(operand, begin, n, buffer);
    visit_runs(operand, begin, n, [&](int64_t offset, int64_t stride, int64_t done, int64_t run) {
      simd::load_run(address(operand, offset), walk.operands[operand].dtype, stride, run, buffer + done);
    });
  }
  /// For an operand with one number per row: gathers the numbers, then repeats each along its row.
  void gather_repeated(int operand, int64_t begin, int64_t n, T* buffer) const {
    const int64_t length = walk.sizes[0], first = begin / length, rows = (begin + n - 1) / length - first + 1;
    Scratch scratch;
    T* const numbers = scratch.take<T>(rows);
    Position at(walk, first, 1);
    const int64_t stride = walk.operands[operand].strides[1];
    for (int64_t done = 0; done < rows;) {
      const int64_t run = std::min(rows - done, walk.sizes[1] - at[1]);
      simd::load_run(address(operand, at.offset(operand)), walk.operands[operand].dtype, stride, run, numbers + done);
      at.advance(run);
      done += run;
    }
    const auto repeat = [&](int64_t row, int64_t count, int64_t times, T* to) {
      simd::repeat_each(reinterpret_cast<const Bits*>(numbers + row), count, times, reinterpret_cast<Bits*>(to));
    };
    const int64_t in_first = std::min(n, (first + 1) * length - begin), whole = (n - in_first) / length;
    repeat(0, 1, in_first, buffer);
    repeat(1, whole, length, buffer + in_first);
    const int64_t done = in_first + whole * length;
    if (done < n) repeat(1 + whole, 1, n - done, buffer + done);
  }
  void scatter(int operand, int64_t begin, int64_t n, const T* buffer) const {
    visit_runs(operand, begin, n, [&](int64_t offset, int64_t stride, int64_t done, int64_t run) {
      simd::store_run(buffer + done, run, address(operand, offset), walk.operands[operand].dtype, stride);
    });
  }

  /// Elements [begin, end) in blocks; `begin` is a multiple of the block.
  void blocks(int64_t begin, int64_t end, int64_t block, const int64_t* periods) const {
    Pointers p = start();
    enum class Way : uint8_t { number, direct, once, gather };
    Way ways[kMaxOperands];
    Scratch scratch;
    T* const buffers = scratch.take<T>(walk.count * kBlock<T>);
    for (int o = 0; o < walk.count; ++o) {
      T* const buffer = buffers + o * kBlock<T>;
      const bool input = o < walk.inputs;
      ways[o] = Way::gather;
      if (input && walk.one_number(o)) {
        ways[o] = Way::number;
        simd::load_run(address(o, 0), walk.operands[o].dtype, 1, 1, buffer);
      } else if (same_type(o) && walk.contiguous(o)) {
        ways[o] = Way::direct;
      } else if (input && block % periods[o] == 0) {
        ways[o] = Way::once;
        gather(o, 0, std::min(block, end - begin), buffer);
      }
      if (input) {
        p.is_scalar[o] = ways[o] == Way::number ? kElement : kElements;
        p.in[o] = buffer;
      } else {
        p.out[o - walk.inputs] = buffer;
      }
    }
    for (int64_t from = begin; from < end; from += block) {
      const int64_t n = std::min(block, end - from);
      for (int o = 0; o < walk.count; ++o) {
        const bool input = o < walk.inputs;
        if (ways[o] == Way::direct && input) p.in[o] = address(o, from);
        if (ways[o] == Way::direct && !input) p.out[o - walk.inputs] = address(o, from);
        if (input && ways[o] == Way::gather) gather(o, from, n, buffers + o * kBlock<T>);
      }
      function(n, p.in, p.is_scalar, p.out);
      for (int o = walk.inputs; o < walk.count; ++o) {
        if (ways[o] != Way::direct) scatter(o, from, n, buffers + o * kBlock<T>);
      }
    }
  }

  /// The period of an operand, in elements.
  int64_t period(int operand) const {
    int64_t elements = 1, period = 1;
    for (int d = 0; d < walk.dims; ++d) {
      elements *= walk.sizes[d];
      if (walk.operands[operand].strides[d] != 0) period = elements;
    }
    return period;
  }

  void operator()() const {
    const int64_t n = walk.numel();
    bool is_flat = true;
    for (int o = 0; o < walk.count; ++o) {
      is_flat = is_flat && same_type(o) && (walk.contiguous(o) || (o < walk.inputs && walk.one_number(o)));
    }
    if (is_flat) {
      parallel_for(n, kGrain, [&](int64_t begin, int64_t end) { flat(begin, end); });
    } else if (const int64_t length = walk.sizes[0]; length >= kLongRow || walk.dims == 1) {
      const int64_t pieces = is_any_crossed() ? 1 : (length + kGrain - 1) / kGrain;  // of each row
      const int64_t rows_per_range = std::max<int64_t>(is_any_crossed() ? kTileRows<T> : 1, kGrain / length);
      if (pieces == 1) {
        parallel_for(n / length, rows_per_range, [&](int64_t begin, int64_t end) { rows(begin, end, 0, length); });
      } else {
        parallel_for(n / length * pieces, 1, [&](int64_t piece, int64_t) {
          const int64_t row = piece / pieces, column = piece % pieces * kGrain;
          rows(row, row + 1, column, std::min(column + kGrain, length));
        });
      }
    } else {
      int64_t periods[kMaxOperands], longest = 1;
      for (int o = 0; o < walk.count; ++o) {
        periods[o] = period(o);
        if (periods[o] <= kBlock<T>) longest = std::max(longest, periods[o]);
      }
      const int64_t block = kBlock<T> / longest * longest;  // the shorter periods divide the longest: all are products of sizes
      parallel_for(n, kGrain / block * block, [&](int64_t begin, int64_t end) { blocks(begin, end, block, periods); });
    }
  }
};

template <typename T>
void run_typed(BlockFunction<T> function, std::span<const View> inputs, std::span<const Number> numbers,
               std::span<const View> outputs) {
  check(function != nullptr, "the operands are {} (expected floating ones)", name(dtype_of<T>));
  Computed<T> values[kMaxOperands];
  for (size_t i = 0; i < numbers.size(); ++i) {
    if constexpr (std::is_integral_v<T>)
      values[i] = static_cast<T>(numbers[i].integer);
    else
      values[i] = static_cast<Computed<T>>(numbers[i].real);
  }
  if (run_flat(function, inputs, values, numbers.size(), outputs)) return;
  const Walk walk = make_walk(inputs, outputs);
  BlockWalk<T>{function, walk, values, static_cast<int>(numbers.size())}();
}

/// Runs it if there is such a function and all tensors are of its type: they then need no buffers.
template <typename T>
bool run_as_stored(BlockFunction<T> function, std::span<const View> inputs, std::span<const Number> numbers,
                   std::span<const View> outputs) {
  const auto is = [](const View& view) { return view.dtype == dtype_of<T>; };
  if (function == nullptr || !std::all_of(outputs.begin(), outputs.end(), is) || !std::all_of(inputs.begin(), inputs.end(), is))
    return false;
  if constexpr (std::is_same_v<T, int32_t>) {
    for (const Number& number : numbers) {
      if (number.integer != static_cast<int32_t>(number.integer)) return false;
    }
  }
  run_typed(function, inputs, numbers, outputs);
  return true;
}

}  // namespace

void run(const Blocks& blocks, DType compute, std::span<const View> inputs, std::span<const Number> numbers,
         std::span<const View> outputs) {
  check(inputs.size() + numbers.size() + outputs.size() <= static_cast<size_t>(kMaxOperands) && !outputs.empty(),
        "{1} operands (expected {0} at most)", kMaxOperands, inputs.size() + numbers.size() + outputs.size());
  if (outputs[0].numel() == 0) return;
  switch (simd::compute_dtype(compute)) {
    case DType::float32:
      if (run_as_stored(blocks.bf16, inputs, numbers, outputs) || run_as_stored(blocks.f16, inputs, numbers, outputs)) return;
      return run_typed(blocks.f32, inputs, numbers, outputs);
    case DType::float64:
      return run_typed(blocks.f64, inputs, numbers, outputs);
    default:
      if (run_as_stored(blocks.i32, inputs, numbers, outputs)) return;
      return run_typed(blocks.i64, inputs, numbers, outputs);
  }
}

}  // namespace deckle::kernels::cpu::pointwise
