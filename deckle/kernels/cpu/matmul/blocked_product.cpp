// Matrix products in packed panels and blocks of registers.           c[batch, M, N] = a[batch, M, K] b[batch, K, N] (+ bias)
//
// Panels of b, 2 vectors wide, and panels of a, up to 14 rows high, lie in the order in which a block (register_blocks.cpp) reads
// them, so neither strides nor transposes cost more than the packing. A step takes as many columns as fit kStepBytes, and as much
// of K: first all threads pack b, then each task multiplies some rows by it, up to 512 of K (float64: 1,024) at a time, and its
// part of c stays in the second cache meanwhile. Rows of a are packed by their task; with too few rows for the threads a is
// packed with b, and tasks take groups of columns too. b as it lies serves where it is small, or where a has few rows. Of many
// items, or where b is small, each task packs b for itself: what another core has written costs more than packing it again.
//
// GF/s of one core of an Emerald Rapids (FMA peak 171, float64 86) by processor time, best of three runs, and of the libraries'
// tiles in its place, in turns (at fbdd19e1; T: b transposed, TT: both):
//                               blocks   libraries
//   float32 1024^3                 135         121
//   float32 1024^3, TT             132          85
//   float64 1024^3                  60          47
//   float32 8192 x 256 x 1024, T   134         142   two cores, a step for each piece of K, c written thrice: 241 of 259
//   float32 100^3, T                98          90   two cores, b packed before all tasks: 77 of 97
//   float32 64 x 256^2 x 64, T     101         102
//
// Milliseconds on two cores of it, medians of five in turns with PyTorch 2.15 (MKL), before -> after panels began on lines, edges
// were masked, the next panel of b was asked for, rows of b were packed side by side and pieces of K grew (9f431856; today's:
// `benchmarks/dense_ops/run --ops matmul mm bmm`):
//   float32 1024^3, T     9.12 ->  8.39   PyTorch  8.39
//   float32 1024^3, TT    9.46 ->  8.83            8.45
//   float64 1024^3       21.81 -> 18.03           17.82
//   float64 512^3, T      3.24 ->  2.93            3.04
//   float64 4 x 256^2 x 1024, T  6.23 -> 5.81      5.27
//   float32 512^3         1.50 ->  1.57            1.40   a packed for two groups of panels: not better
// Not better: tasks of 256 rows whose a is packed for all of them first (float32 the same, float64 5 % slower), pieces of 384,
// rows of the next piece of a asked for while blocks are multiplied.
//
// Few rows, and few columns of a transposed a, in microseconds of one thread, libraries' and these, least of five runs in turns
// (Intel, family 6, model 167, with others at work that took from 1.0 to 3 times as much, e9842322):
//   float64  16 x 1,024 x 1,024       1,333  1,105   8 x 1,024 x 1,024         798  644
//            1,024 x 1,024 x 16, a T  1,257  1,057   1,024 x 1,024 x 8, a T  1,048  633
//   float32  1,024 x 1,024 x 16, a T    601    470   1,024 x 1,024 x 8, a T    551  303
// Not better: steps of the matrix copied or fetched ahead for the loops of thin.cpp; of b of 32 MiB, 0.4 to 0.8 of the libraries'
// rate.
//
// Where a core's time goes in float32 1024^3 (one thread, sampled every 4 ms, 2,247 samples, c954bc6b): blocks 93 %, packing 6 %.
// At 144 GF/s beside a peak of 175 the blocks run at 88 % of it; at all of it they would make 93 %.
//
// Every sum is one chain per piece of K, and pieces depend on K alone: bits depend neither on threads nor on the partition.

#include "deckle/kernels/cpu/matmul/blocked_product.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/matmul/register_blocks.h"
#include "deckle/kernels/cpu/simd/transpose.h"

namespace deckle::kernels::cpu::matmul {
namespace {

constexpr int64_t kLeastSide = 16, kLeastDepth = 8;  // libraries have kernels for flat products
constexpr int64_t kFewestRows = 4;                   // but not for few rows of a
constexpr int64_t kLeastPackedRows = 64, kLeastReuse = 40,
                  kLeastReuseAlongK = 260;  // packing b pays from so many products an element on
constexpr int64_t kLongDepth = 384;         // of K, from which on that of the third counts
template <typename T>
constexpr int64_t kDepth = sizeof(T) == 4 ? 512 : 1024;  // of K
template <typename T>
constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
constexpr int64_t kStepDepth = 2048;
constexpr int64_t kStepBytes = int64_t{8} << 20;    // of packed b
constexpr int64_t kJoinedBytes = int64_t{8} << 20;  // of packed b of several items, of which each task reads one
constexpr int64_t kTaskRows = 84;
constexpr int64_t kTasks = 16;
constexpr int64_t kGroupPanels = 4;                  // of b, at least, of a task
constexpr int64_t kInPlaceBytes = 1 << 18;           // of b: in the second cache
constexpr int64_t kFewRowsBytes = int64_t{8} << 20;  // of b that few rows read as it lies
constexpr int64_t kFewRowsDepth = 128;               // of K, at a time there
constexpr int64_t kOwnBytes = 1 << 20;               // of b that a task packs for itself
constexpr int64_t kOwnSmallBytes = 1 << 17;          // the same of one item
constexpr int64_t kOwnBlocks = 3;                    // of rows
constexpr int64_t kRangeElements = 1 << 14;          // packed in a range: about 5 us
constexpr int64_t kRangeMultiplications = 1 << 19;
constexpr int64_t kPackSteps = 32;  // of K

int64_t parts(int64_t extent, int64_t part) { return (extent + part - 1) / part; }

struct Interval {
  int64_t begin, size;
};

/// Part `index` of `count` about equal ones.
Interval part_of(int64_t extent, int64_t count, int64_t index) {
  const int64_t begin = extent * index / count;
  return {begin, extent * (index + 1) / count - begin};
}

/// K in pieces of up to `most`, none across a multiple of `chunk`.
std::vector<Interval> depth_pieces(int64_t k, int64_t chunk, int64_t most) {
  std::vector<Interval> pieces;
  if (chunk == 0) chunk = k;
  for (int64_t begin = 0; begin < k; begin += chunk) {
    const int64_t size = std::min(chunk, k - begin), count = parts(size, most), piece = (parts(size, count) + 15) / 16 * 16;
    for (int64_t at = 0; at < size; at += piece) pieces.push_back({begin + at, std::min(piece, size - at)});
  }
  return pieces;
}

/// Some of K, in consecutive pieces.
struct Depth {
  int64_t begin = 0, size = 0;
  std::vector<Interval> pieces = {};
};

std::vector<Depth> depth_steps(const std::vector<Interval>& pieces) {
  std::vector<Depth> steps;
  for (const Interval& piece : pieces) {
    if (steps.empty() || steps.back().size + piece.size > kStepDepth) steps.push_back({piece.begin});
    steps.back().size += piece.size;
    steps.back().pieces.push_back(piece);
  }
  return steps;
}

/// How a step is cut into tasks: rows into blocks, which are cut into panels; panels of b into groups.
struct Grid {
  int64_t row_blocks, groups = 1;

  Grid(int64_t m, int64_t b_panels, int64_t panel_multiplications) : row_blocks(parts(m, kTaskRows)) {
    if (row_blocks > kTasks / 2) row_blocks = std::min(parts(row_blocks, kTasks) * kTasks, parts(m, kMostBlockRows));
    const auto more = [&] {
      const int64_t tasks = row_blocks * groups;
      return tasks < kTasks && m * b_panels * panel_multiplications >= 2 * tasks * kRangeMultiplications;
    };
    while (more() && b_panels >= 2 * groups * kGroupPanels) groups *= 2;
    while (more() && m >= row_blocks * kTaskRows / 2) row_blocks *= 2;
    while (more() && b_panels >= 2 * groups) groups *= 2;
  }
  explicit Grid(int64_t m) : row_blocks(parts(m, kTaskRows)) {}

  /// Whether several tasks read the same rows of a.
  bool shares_a() const { return groups > 1; }
  static bool may_share_a(int64_t m) { return parts(m, kTaskRows) < kTasks; }
};

/// So few rows of a that b, which lies along the columns of c, is read but twice: packing it would take longer. A large b is
/// left to the libraries, which read its rows in order.
bool has_few_rows(const Product& product) {
  const Matrix &a = product.a, &b = product.b;
  return a.rows >= kFewestRows && a.rows <= 2 * kMostBlockRows && b.cols >= kLeastPackedRows && b.col_stride == 1 &&
         product.batch.empty() && b.rows <= kFewRowsBytes / (std::max(b.cols, b.row_stride) * item_size(b.dtype));
}

template <typename T>
class Multiplication {
 public:
  Multiplication(const Product& product, const RegisterBlocks<T>& blocks, bool few_rows)
      : product_(product),
        blocks_(blocks),
        m_(product.a.rows),
        n_(product.b.cols),
        k_(product.a.cols),
        wide_(blocks.cols()),
        panels_(parts(n_, wide_)),
        few_rows_(few_rows),
        in_place_(few_rows_ || (product.b.col_stride == 1 && k_ <= kDepth<T> &&
                                k_ * std::max(n_, product.b.row_stride) * static_cast<int64_t>(sizeof(T)) <= kInPlaceBytes)) {}

  bool worthwhile() const {
    if (in_place_) return true;
    // Both lie along a long K: oneDNN packs less.
    const bool along_k = sizeof(T) == 4 && k_ > kLongDepth && product_.a.col_stride == 1 && product_.b.row_stride == 1;
    return m_ >= kLeastPackedRows && m_ * n_ >= (along_k ? kLeastReuseAlongK : kLeastReuse) * (m_ + n_);
  }

  void run() {
    Scratch scratch;
    bias_ = dense_bias(scratch);
    const std::vector<Depth> steps = depth_steps(depth_pieces(k_, product_.chunk, few_rows_ ? kFewRowsDepth : kDepth<T>));
    const int64_t items = product_.items(), bytes = panel_size(k_) * panels_ * static_cast<int64_t>(sizeof(T));
    const int64_t row_blocks = Grid(m_).row_blocks;
    if (steps.size() == 1 && items >= kTasks && bytes <= kOwnBytes) {
      const int64_t each = m_ * panels_ * wide_ * k_;
      return parallel_for(items, std::max<int64_t>(1, kRangeMultiplications / each), [&](int64_t begin, int64_t end) {
        for (int64_t item = begin; item < end; ++item) multiply_item(item, steps[0], 0, row_blocks);
      });
    }
    if (steps.size() == 1 && row_blocks <= kOwnBlocks && bytes <= kOwnSmallBytes) {
      const int64_t each = parts(m_, row_blocks) * panels_ * wide_ * k_;
      return parallel_for(items * row_blocks, std::max<int64_t>(1, kRangeMultiplications / each),
                          [&](int64_t begin, int64_t end) {
                            for (int64_t at = begin; at < end;) {
                              const int64_t item = at / row_blocks, last = std::min(end, (item + 1) * row_blocks);
                              multiply_item(item, steps[0], at % row_blocks, last - item * row_blocks);
                              at = last;
                            }
                          });
    }
    const int64_t joined = std::min(items, kJoinedBytes / bytes);
    if (steps.size() == 1 && joined > 1) {
      if (!in_place_) b_ = scratch.take<T>(joined * panels_ * panel_size(k_));
      for (int64_t item = 0; item < items; item += joined) multiply_items(item, std::min(joined, items - item), steps[0]);
      return;
    }
    int64_t deepest = 0;
    for (const Depth& step : steps) deepest = std::max(deepest, step.size);
    const int64_t most_panels =
        std::clamp<int64_t>(kStepBytes / (panel_size(deepest) * static_cast<int64_t>(sizeof(T))), 1, panels_);
    const int64_t column_steps = parts(panels_, most_panels);
    if (!in_place_) b_ = scratch.take<T>(parts(panels_, column_steps) * panel_size(deepest));
    if (Grid::may_share_a(m_)) a_ = scratch.take<T>(m_ * deepest + 2 * kPanelSpare * (parts(m_, kMostBlockRows) + kTasks));
    for (int64_t item = 0; item < items; ++item) {
      for (int64_t step = 0; step < column_steps; ++step) {
        for (const Depth& depth : steps) multiply_step(item, part_of(panels_, column_steps, step), depth);
      }
    }
  }

 private:
  int64_t panel_size(int64_t depth) const { return depth * wide_ + kPanelSpare; }

  const T* dense_bias(Scratch& scratch) const {
    if (product_.bias == nullptr) return nullptr;
    T* const dense = scratch.take<T>(panels_ * wide_);
    for (int64_t j = 0; j < n_; ++j) dense[j] = static_cast<const T*>(product_.bias)[j * product_.bias_stride];
    std::fill(dense + n_, dense + panels_ * wide_, T(0));
    return dense;
  }

  /// Rows of a block in panels, one after the other; each ends with spare elements.
  struct RowPanels {
    Interval rows;
    int64_t count;

    RowPanels(int64_t m, int64_t row_blocks, int64_t block, int64_t most)
        : rows(part_of(m, row_blocks, block)), count(parts(rows.size, most)) {}
    Interval panel(int64_t index) const { return part_of(rows.size, count, index); }
    int64_t offset(int64_t index, int64_t depth) const { return panel(index).begin * depth + index * kPanelSpare; }
  };

  /// One piece of K, `at` of the `depth` that panels in `to` have.
  void pack_a(int64_t item, const RowPanels& rows, const Interval& piece, int64_t at, int64_t depth, T* to) const {
    Scratch scratch;
    const bool made = product_.a_blocks != nullptr;
    const Matrix a = made ? (*product_.a_blocks)(rows.rows.begin, rows.rows.size, piece.begin, piece.size, scratch)
                          : product_.a.block(rows.rows.begin, rows.rows.size, piece.begin, piece.size);
    const T* const from = static_cast<const T*>(a.data) + (made ? 0 : product_.offsets(item).a);
    // Where columns lie on pages of their own, some of them at a time for all panels.
    const int64_t step = a.row_stride == 1 ? kPackSteps : piece.size;
    for (int64_t p = 0; p < piece.size; p += step) {
      for (int64_t i = 0; i < rows.count; ++i) {
        const Interval panel = rows.panel(i);
        blocks_.pack(from + panel.begin * a.row_stride + p * a.col_stride, a.row_stride, a.col_stride, panel.size,
                     std::min(step, piece.size - p), to + rows.offset(i, depth) + (at + p) * panel.size, panel.size);
      }
    }
  }

  void pack_b(int64_t item, int64_t panel, const Depth& depth, T* to) const {
    const Matrix& b = product_.b;
    const int64_t col = panel * wide_, width = std::min(wide_, n_ - col);
    const T* const from =
        static_cast<const T*>(b.data) + product_.offsets(item).b + depth.begin * b.row_stride + col * b.col_stride;
    blocks_.pack(from, b.col_stride, b.row_stride, width, depth.size, to, wide_);
  }

  /// Some rows of b, `from` on, in all panels: what lies side by side is read at once.
  void pack_b_rows(int64_t item, const Interval& panels, const Depth& depth, int64_t from, int64_t count) const {
    const Matrix& b = product_.b;
    const T* const rows = static_cast<const T*>(b.data) + product_.offsets(item).b + (depth.begin + from) * b.row_stride;
    for (int64_t at = 0; at < panels.size; ++at) {
      const int64_t col = (panels.begin + at) * wide_;
      blocks_.pack(rows + col, 1, b.row_stride, std::min(wide_, n_ - col), count, b_ + at * panel_size(depth.size) + from * wide_,
                   wide_);
    }
  }

  /// Row blocks [first, last) of an item, whose b is packed for them.
  void multiply_item(int64_t item, const Depth& depth, int64_t first, int64_t last) const {
    Scratch scratch;
    T* b = nullptr;
    if (!in_place_) {
      b = scratch.take<T>(panels_ * panel_size(depth.size));
      for (int64_t panel = 0; panel < panels_; ++panel) pack_b(item, panel, depth, b + panel * panel_size(depth.size));
    }
    const Grid grid(m_);
    for (int64_t block = first; block < last; ++block) multiply_task(item, grid, block, {0, panels_}, 0, b, depth);
  }

  /// Several items, whose packed b fits a step.
  void multiply_items(int64_t first, int64_t items, const Depth& depth) const {
    const Grid grid(m_);
    const int64_t size = panel_size(depth.size), joined = std::max<int64_t>(1, kRangeElements / size);
    parallel_for(in_place_ ? 0 : items * panels_, joined, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) pack_b(first + at / panels_, at % panels_, depth, b_ + at * size);
    });
    const int64_t each = parts(m_, grid.row_blocks) * panels_ * wide_ * depth.size;
    parallel_for(items * grid.row_blocks, std::max<int64_t>(1, kRangeMultiplications / each), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t item = task / grid.row_blocks;
        multiply_task(first + item, grid, task % grid.row_blocks, {0, panels_}, 0,
                      in_place_ ? nullptr : b_ + item * panels_ * size, depth);
      }
    });
  }

  /// All rows with panels `panels` of b, and some of K.
  void multiply_step(int64_t item, const Interval& panels, const Depth& depth) const {
    const Grid grid(m_, panels.size, wide_ * depth.size);
    // Where rows of b lie along the panels a range takes rows, else panels; of a, a block.
    const bool by_rows = product_.b.col_stride == 1;
    const int64_t joined = by_rows ? kPackSteps * std::max<int64_t>(1, kRangeElements / (kPackSteps * panels.size * wide_))
                                   : std::max<int64_t>(1, kRangeElements / panel_size(depth.size));
    const int64_t b_extent = in_place_ ? 0 : by_rows ? depth.size : panels.size, b_ranges = parts(b_extent, joined);
    const int64_t a_tasks = grid.shares_a() ? grid.row_blocks : 0, a_elements = parts(m_, grid.row_blocks) * depth.size;
    const int64_t grain = a_tasks == 0 ? 1 : std::max<int64_t>(1, kRangeElements / a_elements);
    parallel_for(b_ranges + a_tasks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t range = begin; range < end; ++range) {
        if (range < b_ranges) {
          const int64_t last = std::min(b_extent, (range + 1) * joined);
          for (int64_t at = range * joined, count = 1; at < last; at += count) {
            if (by_rows) {
              count = std::min(kPackSteps, last - at);
              pack_b_rows(item, panels, depth, at, count);
            } else {
              pack_b(item, panels.begin + at, depth, b_ + at * panel_size(depth.size));
            }
          }
          continue;
        }
        const RowPanels rows(m_, grid.row_blocks, range - b_ranges, blocks_.rows);
        for (const Interval& piece : depth.pieces)
          pack_a(item, rows, piece, piece.begin - depth.begin, depth.size, shared_a(grid, range - b_ranges, depth.size));
      }
    });
    const int64_t tasks = grid.row_blocks * grid.groups, each = m_ * panels.size * wide_ * depth.size / tasks;
    parallel_for(tasks, std::max<int64_t>(1, kRangeMultiplications / std::max<int64_t>(each, 1)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t task = begin; task < end; ++task)
                     multiply_task(item, grid, task / grid.groups, part_of(panels.size, grid.groups, task % grid.groups),
                                   panels.begin, b_, depth);
                 });
  }

  T* shared_a(const Grid& grid, int64_t block, int64_t depth) const {
    const int64_t row = part_of(m_, grid.row_blocks, block).begin;
    // A block has at most one panel more than its rows fill.
    return a_ + row * depth + kPanelSpare * (2 * row / blocks_.rows + block);
  }

  /// A block of rows times panels `group`, of those from `first_panel` on, which lie packed in b.
  void multiply_task(int64_t item, const Grid& grid, int64_t block, const Interval& group, int64_t first_panel, const T* packed_b,
                     const Depth& depth) const {
    Scratch scratch;
    const RowPanels rows(m_, grid.row_blocks, block, blocks_.rows);
    const bool shared = grid.shares_a();
    T* const own_a = shared ? nullptr : scratch.take<T>(rows.rows.size * std::min(kDepth<T>, k_) + rows.count * kPanelSpare);
    T* const c = static_cast<T*>(product_.c) + (item * m_ + rows.rows.begin) * product_.leading();
    for (const Interval& piece : depth.pieces) {
      const int64_t within = piece.begin - depth.begin, a_depth = shared ? depth.size : piece.size, a_at = shared ? within : 0;
      const T* const a = shared ? shared_a(grid, block, depth.size) : own_a;
      if (!shared) pack_a(item, rows, piece, 0, piece.size, own_a);
      const T* const in_place_b =
          static_cast<const T*>(product_.b.data) + product_.offsets(item).b + piece.begin * product_.b.row_stride;
      const bool more = piece.begin != 0;
      const int64_t leading = product_.leading(), next_lines = parts(piece.size * wide_, kLine<T> * rows.count);
      for (int64_t at = group.begin; at < group.begin + group.size; ++at) {
        const int64_t panel = first_panel + at, col = panel * wide_, width = std::min(wide_, n_ - col);
        const int64_t vectors = parts(width, blocks_.lanes);
        BlockArgs<T> args{.k = piece.size, .c_row = leading, .start_row = more ? leading : 0};
        args.last = width - (vectors - 1) * blocks_.lanes;
        args.b = in_place_ ? in_place_b + col : packed_b + at * panel_size(depth.size) + within * wide_;
        args.b_row = in_place_ ? product_.b.row_stride : wide_;
        // The next panel comes from the third cache: each block asks for a part of it.
        const bool fetches = !in_place_ && at + 1 < group.begin + group.size;
        const T* const next = fetches ? args.b + panel_size(depth.size) : args.b;
        for (int64_t i = 0; i < rows.count; ++i) {
          const Interval high = rows.panel(i);
          args.a = a + rows.offset(i, a_depth) + a_at * high.size;
          args.c = c + high.begin * leading + col;
          args.start = more ? args.c : bias_ == nullptr ? nullptr : bias_ + col;
          args.next = next + (fetches ? i * next_lines * kLine<T> : 0);
          args.next_lines = fetches ? next_lines : 0;
          blocks_.products[high.size - 1][vectors - 1](args);
        }
      }
    }
  }

  const Product& product_;
  const RegisterBlocks<T>& blocks_;
  const int64_t m_, n_, k_, wide_, panels_;
  const bool few_rows_, in_place_;
  const T* bias_ = nullptr;
  T* a_ = nullptr;
  T* b_ = nullptr;
};

template <typename T>
bool multiply_typed(const Product& product, bool few_rows) {
  const RegisterBlocks<T>& blocks = register_blocks().template of<T>();
  if (blocks.rows == 0) return false;
  if (!few_rows && (product.a.rows < kLeastSide || product.b.cols < kLeastSide)) return false;
  Multiplication<T> multiplication(product, blocks, few_rows);
  if (!multiplication.worthwhile()) return false;
  multiplication.run();
  return true;
}

/// Of few columns where a lies along them: the transposed product, whose few rows they are.
template <typename T>
bool multiply_turned(const Product& product) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const auto turn = [](const Matrix& matrix) {
    return Matrix{matrix.data, matrix.dtype, matrix.cols, matrix.rows, matrix.col_stride, matrix.row_stride};
  };
  const int64_t m = product.a.rows, n = product.b.cols;
  if (product.bias != nullptr || product.a_blocks != nullptr) return false;
  Product turned = product;
  turned.a = turn(product.b), turned.b = turn(product.a), turned.c_leading = m;
  if (!has_few_rows(turned)) return false;
  Scratch scratch;
  auto* const c = scratch.take<Bits>(m * n);
  turned.c = c;
  if (!multiply_typed<T>(turned, true)) return false;
  parallel_for(m, kRangeElements / n, [&](int64_t begin, int64_t end) {
    simd::transpose(c + begin, m, n, end - begin, static_cast<Bits*>(product.c) + begin * product.leading(), product.leading());
  });
  return true;
}

template <typename T>
bool multiply_any(const Product& product) {
  // Of float32 libraries multiply few rows as fast.
  return multiply_turned<T>(product) || multiply_typed<T>(product, sizeof(T) == 8 && has_few_rows(product));
}

}  // namespace

bool multiply_blocked(const Product& product) {
  if (product.a.cols < kLeastDepth) return false;
  if (product.a.dtype == DType::float32) return multiply_any<float>(product);
  if (product.a.dtype == DType::float64) return multiply_any<double>(product);
  return false;
}

}  // namespace deckle::kernels::cpu::matmul
