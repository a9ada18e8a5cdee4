#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "deckle/attention/compile_mask.h"
#include "deckle/core/factory_device.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/generated/shape.h"

namespace deckle::testing {

/// The sequences that a mask is of. `all` has the keys and, behind them, spare rows.
struct MaskBatch {
  std::vector<int64_t> rows, keys, all;
  int64_t heads = 2;
  bool dense = false;  // planes are exactly as large as the sequences

  int64_t sequences() const { return static_cast<int64_t>(rows.size()); }
  Ragged q() const { return Ragged::from_lengths(rows); }
  Ragged k() const { return Ragged::from_lengths(keys); }
  Ragged spare() const { return all == keys ? Ragged() : Ragged::from_lengths(all); }
};

/// A mask and an oracle: what it says about (sequence, head, row, key) by the words of its documentation, one pair at a time.
struct MaskCase {
  AttentionMask mask;
  std::function<bool(int64_t, int64_t, int64_t, int64_t)> sees;
  std::string text;
};

/// Draws masks. `draw(low, high)` is a number between the two, both included.
class MaskDrawer {
 public:
  explicit MaskDrawer(std::function<int64_t(int64_t, int64_t)> draw) : draw_(std::move(draw)) {}

  /// Also numbers at the ends of their range, and masks that do not fit the batch.
  bool hostile = false;
  /// Whether all drawn so far fit: if not, making or compiling the mask is an Error.
  bool fits = true;

  MaskBatch batch(int64_t longest) {
    const auto length = [&] { return chance(10) ? 0 : draw_(1, longest); };
    MaskBatch batch;
    batch.heads = draw_(1, 3);
    for (int64_t b = draw_(1, 3); b > 0; --b) {
      batch.rows.push_back(length());
      batch.keys.push_back(length());
    }
    batch.all = batch.keys;
    if (chance(30)) {
      for (int64_t& keys : batch.all) keys += draw_(0, 2);
    }
    return batch;
  }

  MaskCase mask(const MaskBatch& batch, int depth) {
    if (depth == 0 || chance(20)) return leaf(batch);
    const int64_t kind = draw_(0, 4);
    const MaskCase a = mask(batch, depth - 1);
    if (kind == 0) return {!a.mask, [a](auto... at) { return !a.sees(at...); }, "!" + a.text};
    const MaskCase b = mask(batch, depth - 1);
    if (kind == 1)
      return {a.mask || b.mask, [a, b](auto... at) { return a.sees(at...) || b.sees(at...); },
              fmt::format("({} || {})", a.text, b.text)};
    return {a.mask && b.mask, [a, b](auto... at) { return a.sees(at...) && b.sees(at...); },
            fmt::format("({} && {})", a.text, b.text)};
  }

 private:
  static constexpr int64_t kLargest = std::numeric_limits<int64_t>::max(), kSmallest = std::numeric_limits<int64_t>::min();

  bool chance(int64_t percent) { return draw_(0, 99) < percent; }

  /// A number of keys, or of steps to either side.
  int64_t number(int64_t low) {
    if (!hostile || !chance(20)) return draw_(low, 6);
    static constexpr int64_t kEdges[] = {kLargest, kLargest - 1, int64_t{1} << 62, int64_t{1} << 32, (int64_t{1} << 32) - 1,
                                         1 << 20,  -1,           kSmallest};
    return kEdges[draw_(0, 7)];
  }
  int64_t prefix() {
    const int64_t keys = number(0);
    fits = fits && keys >= 0;
    return keys;
  }
  std::vector<int64_t> prefixes(const MaskBatch& batch) {
    std::vector<int64_t> keys;
    for (int64_t b = 0; b < batch.sequences(); ++b) keys.push_back(prefix());
    return keys;
  }

  NestedTensor ids(const std::vector<int64_t>& lengths) {
    const Ragged shape = Ragged::from_lengths(lengths);
    const Tensor values = zeros_raw({shape->rows()}, DType::int64, Device());
    const bool sorted = chance(50);  // else documents lie scattered
    int64_t id = 0;
    for (int64_t i = 0; i < values.numel(); ++i) values.data<int64_t>()[i] = sorted ? (id += chance(20)) % 4 : draw_(-1, 2);
    return {values, shape};
  }

  int64_t plane_size(int64_t full, bool exact) {
    if (chance(40)) return 1;
    const int64_t size = full + (exact ? 0 : draw_(0, 1));
    if (!hostile || !chance(5)) return size;
    const int64_t wrong = draw_(0, 12);
    fits = fits && (wrong == 1 || wrong == full || (!exact && wrong > full));
    return wrong;
  }
  Tensor plane(const MaskBatch& batch) {
    const auto longest = [](const std::vector<int64_t>& lengths) { return *std::max_element(lengths.begin(), lengths.end()); };
    Dims sizes{plane_size(batch.sequences(), true), plane_size(batch.heads, true), plane_size(longest(batch.rows), batch.dense),
               plane_size(longest(batch.keys), batch.dense)};
    const Tensor allowed = zeros_raw(sizes, DType::bool_, Device());
    const bool many = chance(50);
    int64_t bits = 0;
    for (int64_t i = 0; i < allowed.numel(); ++i) {
      if (i % 8 == 0) bits = many ? draw_(0, 255) | draw_(0, 255) : draw_(0, 255) & draw_(0, 255);
      allowed.data<bool>()[i] = (bits >> i % 8 & 1) != 0;
    }
    if (!chance(20)) return allowed;
    if (sizes[0] == 1) sizes[0] = batch.sequences();  // rows that repeat, in the same memory
    if (sizes[2] == 1) sizes[2] = std::max<int64_t>(1, longest(batch.rows));
    return expand(allowed, sizes);
  }

  MaskCase leaf(const MaskBatch& batch) {
    const auto position = [rows = batch.rows, keys = batch.keys](bool top_left, int64_t b, int64_t i) {
      const auto at = static_cast<size_t>(b);
      return top_left ? i : i + keys[at] - rows[at];
    };
    const auto of = [](const std::vector<int64_t>& each, int64_t b) { return each[static_cast<size_t>(b)]; };
    const bool top_left = chance(50);
    switch (draw_(0, 8)) {
      case 0:
        return {masks::full(), [](auto...) { return true; }, "full"};
      case 1:
        return {top_left ? AttentionMask(masks::causal<Alignment::top_left>()) : masks::causal(),
                [=](int64_t b, int64_t, int64_t i, int64_t j) { return j <= position(top_left, b, i); },
                top_left ? "causal_top_left" : "causal"};
      case 2: {
        const int64_t left = number(-1), right = number(-1);
        return {top_left ? AttentionMask(masks::window<Alignment::top_left>(left, right)) : masks::window(left, right),
                [=](int64_t b, int64_t, int64_t i, int64_t j) {
                  const int64_t distance = j - position(top_left, b, i);
                  return (left < 0 || -distance <= left) && (right < 0 || distance <= right);
                },
                fmt::format("window{}({}, {})", top_left ? "_top_left" : "", left, right)};
      }
      case 3: {
        const int64_t keys = prefix();
        return {masks::prefix(keys), [=](int64_t, int64_t, int64_t, int64_t j) { return j < keys; },
                fmt::format("prefix({})", keys)};
      }
      case 4: {
        const std::vector<int64_t> keys = prefixes(batch);
        return {masks::prefix(keys), [=](int64_t b, int64_t, int64_t, int64_t j) { return j < of(keys, b); },
                fmt::format("prefix{}", to_string(Ints(keys)))};
      }
      case 5: {
        const int64_t keys = prefix();
        return {masks::prefix_lm(keys),
                [=](int64_t b, int64_t, int64_t i, int64_t j) { return j < keys || j <= position(false, b, i); },
                fmt::format("prefix_lm({})", keys)};
      }
      case 6: {
        const std::vector<int64_t> keys = prefixes(batch);
        return {masks::prefix_lm(keys),
                [=](int64_t b, int64_t, int64_t i, int64_t j) { return j < of(keys, b) || j <= position(false, b, i); },
                fmt::format("prefix_lm{}", to_string(Ints(keys)))};
      }
      case 7: {
        const NestedTensor q = ids(batch.rows), k = ids(chance(50) ? batch.keys : batch.all);
        return {masks::documents(q.to(factory_device()), k.to(factory_device())),
                [=](int64_t b, int64_t, int64_t i, int64_t j) {
                  return q.values().data<int64_t>()[q.ragged()->offsets()[static_cast<size_t>(b)] + i] ==
                         k.values().data<int64_t>()[k.ragged()->offsets()[static_cast<size_t>(b)] + j];
                },
                "documents"};
      }
      default: {
        const Tensor allowed = plane(batch);
        return {masks::boolean(allowed.to(factory_device())),
                [=](int64_t b, int64_t h, int64_t i, int64_t j) {
                  const int64_t at[4] = {b, h, i, j};
                  int64_t offset = 0;
                  for (int d = 0; d < 4; ++d) offset += (allowed.size(d) == 1 ? 0 : at[d]) * allowed.stride(d);
                  return allowed.data<bool>()[offset];
                },
                "boolean" + to_string(allowed.sizes())};
      }
    }
  }

  std::function<int64_t(int64_t, int64_t)> draw_;
};

/// What kernels read from a compiled mask.
inline bool compiled_sees(const CompiledMask& mask, const MaskBatch& batch, int64_t b, int64_t h, int64_t i, int64_t j) {
  const auto at = static_cast<size_t>(b);
  const int64_t distance = j - (i + (mask.alignment == Alignment::top_left ? 0 : batch.keys[at] - batch.rows[at]));
  if ((mask.causal && distance > 0) || (mask.left >= 0 && -distance > mask.left) || (mask.right >= 0 && distance > mask.right))
    return false;
  if (!mask.bounds.empty()) {
    int64_t row = i;
    for (size_t before = 0; before < at; ++before) row += batch.rows[before];
    bool inside = false;
    const int32_t* bounds = mask.bounds.data() + row * mask.range_count * 2;
    for (int n = 0; n < mask.range_count; ++n) inside |= j >= bounds[2 * n] && j < bounds[2 * n + 1];
    if (!inside) return false;
  }
  if (!mask.plane.defined()) return true;
  const int64_t place[4] = {b, h, i, j};
  int64_t offset = 0;
  for (int d = 0; d < 4; ++d) offset += (mask.plane.size(d) == 1 ? 0 : place[d]) * mask.plane.stride(d);
  return mask.plane.data<bool>()[offset];
}

/// The first (sequence, head, row, key) at which a compiled mask differs from what its case says, in words; "" if there is none.
inline std::string compiled_mask_differs(const MaskCase& one, const MaskBatch& batch) {
  const CompiledMask compiled = compile_mask(one.mask, batch.q(), batch.k(), batch.heads, batch.spare());
  for (int64_t b = 0; b < batch.sequences(); ++b) {
    for (int64_t h = 0; h < batch.heads; ++h) {
      for (int64_t i = 0; i < batch.rows[static_cast<size_t>(b)]; ++i) {
        for (int64_t j = 0; j < batch.keys[static_cast<size_t>(b)]; ++j) {
          const bool expected = one.sees(b, h, i, j);
          if (compiled_sees(compiled, batch, b, h, i, j) != expected)
            return fmt::format("{}: sequence {}, head {}, row {} {} key {}", one.text, b, h, i,
                               expected ? "does not see" : "sees", j);
        }
      }
    }
  }
  return "";
}

}  // namespace deckle::testing
