// Functions on nested tensors that have no entry: with something of their own for each component, padding, pooling, options of
// products.
#include <gtest/gtest.h>

#include <algorithm>

#include "deckle/nested/generated/index.h"
#include "deckle/nested/generated/shape.h"
#include "deckle/nested/indexing.h"
#include "deckle/nested/interop.h"
#include "deckle/nested/padding.h"
#include "deckle/nested/pooling.h"
#include "deckle/nested/products.h"
#include "deckle/nested/rows.h"
#include "deckle/nested/structure.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/matmul.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/ops/by_hand.h"
#include "tests/support/random.h"

namespace deckle::suite {
namespace {

using testing::random_integer;

/// One number for each component.
std::vector<int64_t> drawn(const Ragged& shape, const std::function<int64_t(int64_t b)>& draw) {
  std::vector<int64_t> result;
  for (int64_t b = 0; b < shape->components(); ++b) result.push_back(draw(b));
  return result;
}

Tensor tensor_of(const std::vector<int64_t>& numbers) { return nested::index_tensor(numbers); }

/// Rows before the first or after the last are `value`.
Tensor moved(const Tensor& x, int64_t by, int64_t dim, double value) {
  const int64_t length = x.size(dim), lost = std::min(std::abs(by), length);
  Dims sizes(x.sizes());
  sizes[static_cast<size_t>(dim)] = lost;
  const Tensor filled = full(sizes, value, x.dtype()), kept = narrow(x, dim, by < 0 ? lost : 0, length - lost);
  return by < 0 ? cat({kept, filled}, dim) : cat({filled, kept}, dim);
}

TEST(NumbersOfTheirOwn, ForEachComponentAlongEveryRaggedDim) {
  for (const int ragged_dims : {1, 2}) {
    for (int dim = 1; dim <= ragged_dims; ++dim) {
      for_patterns(ragged_dims, [&](const Ragged& shape) {
        const auto length = [=](int64_t b) { return shape->components() == 0 ? 0 : shape->size(b, dim - 1); };
        const Batch x = {normal(shape, {2})};
        const std::vector<int64_t> start = drawn(shape, [&](int64_t b) { return random_integer(0, length(b)); });
        const std::vector<int64_t> count =
            drawn(shape, [&](int64_t b) { return random_integer(0, length(b) - start[static_cast<size_t>(b)]); });
        const std::vector<int64_t> by = drawn(shape, [&](int64_t) { return random_integer(-4, 4); });
        const auto of = [](const std::vector<int64_t>& numbers, int64_t b) { return numbers[static_cast<size_t>(b)]; };
        check(HandCase{"narrow",
                       {},
                       x,
                       [=](const Batch& x) { return Parts{parts(narrow(x[0], dim, tensor_of(start), tensor_of(count)))}; },
                       [=](const Batch& x) {
                         return Parts{
                             each(x[0], [&](int64_t b) { return narrow(x[0][b], dim - 1, of(start, b), of(count, b)); })};
                       }});
        check(HandCase{"slice",
                       {},
                       x,
                       [=](const Batch& x) { return Parts{parts(slice(x[0], dim, tensor_of(by), tensor_of(start), 2))}; },
                       [=](const Batch& x) {
                         return Parts{each(x[0], [&](int64_t b) { return slice(x[0][b], dim - 1, of(by, b), of(start, b), 2); })};
                       }});
        check(HandCase{"shift",
                       {},
                       x,
                       [=](const Batch& x) { return Parts{parts(shift(x[0], tensor_of(by), dim, 7.0))}; },
                       [=](const Batch& x) {
                         return Parts{each(x[0], [&](int64_t b) { return moved(x[0][b], of(by, b), dim - 1, 7.0); })};
                       }});
        check(HandCase{
            "shift",
            {},
            x,
            [=](const Batch& x) { return Parts{parts(shift(x[0], -1, dim))}; },
            [=](const Batch& x) { return Parts{each(x[0], [&](int64_t b) { return moved(x[0][b], -1, dim - 1, 0.0); })}; }});
        check(HandCase{"roll",
                       {},
                       x,
                       [=](const Batch& x) { return Parts{parts(roll(x[0], tensor_of(by), dim))}; },
                       [=](const Batch& x) {
                         return Parts{each(x[0], [&](int64_t b) {
                           return x[0][b].numel() == 0 ? x[0][b] : roll(x[0][b], of(by, b), dim - 1);
                         })};
                       }});
        if (shape->min_size(dim - 1) == 0) return;  // an empty component has no position to select
        const std::vector<int64_t> position = drawn(shape, [&](int64_t b) { return random_integer(-length(b), length(b) - 1); });
        check(HandCase{"select",
                       {},
                       x,
                       [=](const Batch& x) { return Parts{parts(select(x[0], dim, tensor_of(position)))}; },
                       [=](const Batch& x) {
                         return Parts{each(x[0], [&](int64_t b) { return select(x[0][b], dim - 1, of(position, b)); })};
                       }});
      });
    }
  }
}

TEST(RowsByRaggedIndex, SelectedAndAdded) {
  for_patterns(1, [](const Ragged& shape) {
    const NestedTensor index = indices(shape, 4, [&](int64_t b) { return shape->size(b); });
    check(HandCase{
        "index_select",
        {},
        {normal(shape, {2})},
        [=](const Batch& x) { return Parts{parts(index_select(x[0], there(index, x)))}; },
        [=](const Batch& x) { return Parts{each(x[0], [&](int64_t b) { return index_select(x[0][b], 0, index[b]); })}; }});
    check(HandCase{
        "index_add",
        {},
        {normal(shape, {2}), normal(index.ragged(), {2})},
        [=](const Batch& x) { return Parts{parts(index_add(x[0], there(index, x), x[1]))}; },
        [=](const Batch& x) { return Parts{each(x[0], [&](int64_t b) { return index_add(x[0][b], 0, index[b], x[1][b]); })}; }});
  });
}

TEST(Pooling, OneRowOfEachComponent) {
  for (const int ragged_dims : {1, 2}) {
    for_patterns(ragged_dims, [&](const Ragged& shape) {
      const auto pooled = [&](Pooling pooling, const std::function<Tensor(const Tensor& rows)>& of_rows) {
        check(HandCase{"pool",
                       {},
                       {normal(shape, {2})},
                       [=](const Batch& x) { return Parts{parts(pool(x[0], pooling))}; },
                       [=](const Batch& x) {
                         return Parts{each(x[0], [&](int64_t b) {
                           const Tensor rows = reshape(x[0][b], {x[0][b].numel() / 2, 2});
                           return rows.size(0) == 0 ? zeros({2}, rows.dtype()) : of_rows(rows);
                         })};
                       }});
      };
      pooled(Pooling::average, [](const Tensor& rows) { return mean(rows, {0}); });
      pooled(Pooling::max, [](const Tensor& rows) { return amax(rows, {0}); });
      if (ragged_dims > 1) return;
      pooled(Pooling::first, [](const Tensor& rows) { return select(rows, 0, 0); });
      pooled(Pooling::last, [](const Tensor& rows) { return select(rows, 0, -1); });
    });
  }
}

/// A component in its room of `sizes`, with `value` in the rest.
Tensor in_room(Tensor x, Ints sizes, PadSide side, double value) {
  for (size_t at = 0; at < sizes.size(); ++at) {
    const auto dim = static_cast<int64_t>(at);
    Dims rest(x.sizes());
    rest[at] = sizes[at] - x.size(dim);
    const Tensor filled = full(rest, value, x.dtype());
    x = side == PadSide::left ? cat({filled, x}, dim) : cat({x, filled}, dim);
  }
  return x;
}

TEST(Padding, AnySideAnyValueAndBack) {
  for (const int ragged_dims : {1, 2}) {
    for (const PadSide side : {PadSide::left, PadSide::right}) {
      for_patterns(ragged_dims, [&](const Ragged& shape) {
        std::vector<int64_t> sizes;
        for (int dim = 0; dim < ragged_dims; ++dim) sizes.push_back(shape->max_size(dim) + 2);
        const PadOptions options{.side = side, .value = -3.0, .sizes = sizes};
        const Batch x = {normal(shape, {2})};
        check(HandCase{"to_padded",
                       {},
                       x,
                       [=](const Batch& x) { return Parts{{to_padded(x[0], options)}}; },
                       [=](const Batch& x) {
                         return Parts{{stack(each(x[0], [&](int64_t b) { return in_room(x[0][b], sizes, side, -3.0); }), 0)}};
                       }});
        check(HandCase{
            "padding_mask",
            {},
            x,
            [=](const Batch& x) { return Parts{{padding_mask(x[0], options)}}; },
            [=](const Batch& x) {
              return Parts{{stack(
                  each(x[0],
                       [&](int64_t b) { return in_room(ones_like(to(select(x[0][b], -1, 0), DType::bool_)), sizes, side, 0.0); }),
                  0)}};
            }});
        Dims room = {shape->components()};
        for (const int64_t size : sizes) room.push_back(size);
        room.push_back(2);
        const auto found = [=](Tensor component, int64_t b) {
          for (int dim = 0; dim < ragged_dims; ++dim) {
            const int64_t length = shape->size(b, dim);
            component = narrow(component, dim, side == PadSide::left ? component.size(dim) - length : 0, length);
          }
          return component;
        };
        check(HandCase{"from_padded",
                       {},
                       {dense_normal(room)},
                       [=](const Batch& x) { return Parts{parts(from_padded(x[0].values(), shape, side))}; },
                       [=](const Batch& x) { return Parts{each(x[0], [&](int64_t b) { return found(x[0][b], b); })}; }});
      });
    }
  }
  const Tensor kept = mask(Ragged::from_lengths(std::vector<int64_t>{4, 4, 4}), {}).values().view({3, 4});
  check(HandCase{
      "from_mask",
      {},
      {dense_normal({3, 4, 2})},
      [=](const Batch& x) { return Parts{parts(from_mask(x[0].values(), there(kept, x)))}; },
      [=](const Batch& x) { return Parts{each(x[0], [&](int64_t b) { return masked_select(x[0][b], select(kept, 0, b)); })}; }});
}

/// Rows first .. first + count of one tensor, which may overlap.
Parts runs(const Tensor& rows, const std::vector<int64_t>& first, const std::vector<int64_t>& count) {
  Parts result(1);
  for (size_t b = 0; b < first.size(); ++b) result[0].push_back(narrow(rows, 0, first[b], count[b]));
  return result;
}

TEST(Layouts, ShareTheirValues) {
  const Batch x = {dense_normal({10, 2})};
  const std::vector<int64_t> first = {6, 0, 3, 2}, count = {3, 2, 0, 5};
  check(HandCase{"from_jagged",
                 {},
                 x,
                 [=](const Batch& x) {
                   return Parts{parts(from_jagged({x[0].values(), tensor_of({6, 0, 3, 2, 10}), tensor_of(count)}))};
                 },
                 [=](const Batch& x) { return runs(x[0].values(), first, count); }});
  check(HandCase{
      "from_varlen",
      {},
      x,
      [](const Batch& x) {
        return Parts{parts(from_varlen(x[0].values(), nested::index_tensor(std::vector<int64_t>{0, 4, 4, 10}, DType::int32)))};
      },
      [](const Batch& x) {
        return runs(x[0].values(), {0, 4, 4}, {4, 0, 6});
      }});
  check(HandCase{"from_arrow",
                 {},
                 x,
                 [](const Batch& x) {
                   return Parts{parts(from_arrow({tensor_of({2, 5, 5, 9}), x[0].values()}))};
                 },
                 [](const Batch& x) {
                   return runs(x[0].values(), {2, 5, 5}, {3, 0, 4});
                 }});
  const Tensor sizes = tensor_of({2, 3, 0, 3, 1, 3}), strides = tensor_of({1, 2, 3, 1, 1, 5}), offsets = tensor_of({0, 7, 20});
  check(HandCase{"from_strided",
                 {},
                 {dense_normal({40})},
                 [=](const Batch& x) {
                   return Parts{parts(from_strided({x[0].values(), view(sizes, {3, 2}), view(strides, {3, 2}), offsets}))};
                 },
                 [](const Batch& x) {
                   const Tensor buffer = contiguous(x[0].values());
                   return Parts{{as_strided(buffer, {2, 3}, {1, 2}, 0), as_strided(buffer, {0, 3}, {3, 1}, 7),
                                 as_strided(buffer, {1, 3}, {1, 5}, 20)}};
                 }});
}

TEST(Products, OfTransposedOperands) {
  for_patterns(1, [](const Ragged& shape) {
    const NestedTensor keys =
        index_select(normal(shape, {3}), 0, tensor_of(drawn(shape, [&](int64_t b) { return shape->components() - 1 - b; })));
    const auto loop = [](const Batch& x) {
      return Parts{each(x[0], [&](int64_t b) { return matmul(x[0][b], transpose(x[1][b], 0, 1)); })};
    };
    check(HandCase{"matmul",
                   {},
                   {normal(shape, {3}), NestedTensor(clone(keys.values()), keys.ragged())},
                   [](const Batch& x) { return Parts{parts(matmul(x[0], x[1], {.transpose_other = true}))}; },
                   loop});
    check(HandCase{
        "matmul",
        {},
        {normal(shape, {3}), normal(shape, {2})},
        [](const Batch& x) { return Parts{parts(matmul(x[0], x[1], {.transpose_self = true}))}; },
        [](const Batch& x) { return Parts{each(x[0], [&](int64_t b) { return matmul(transpose(x[0][b], 0, 1), x[1][b]); })}; }});
    check(HandCase{"matmul",
                   {},
                   {normal(shape, {3}), dense_normal({shape->components(), 2, 3})},
                   [](const Batch& x) { return Parts{parts(matmul(x[0], x[1].values(), {.transpose_other = true}))}; },
                   loop});
    check(HandCase{"matmul",
                   {},
                   {dense_normal({shape->components(), 2, 3}), normal(shape, {3})},
                   [](const Batch& x) { return Parts{parts(matmul(x[0].values(), x[1], {.transpose_other = true}))}; },
                   loop});
  });
}

}  // namespace
}  // namespace deckle::suite
