// Ops on nested tensors over the batch: components as they are, chosen, joined, or met position by position.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "deckle/nested/generated/index.h"
#include "deckle/nested/generated/shape.h"
#include "deckle/nested/generated/sort.h"
#include "deckle/nested/rows.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/generated/sort.h"
#include "tests/ops/by_hand.h"

namespace deckle::suite {
namespace {

/// Components `wanted` of the first operand.
Tensors chosen(const Batch& x, const std::vector<int64_t>& wanted) {
  Tensors result;
  for (const int64_t b : wanted) result.push_back(x[0][b]);
  return result;
}

/// Components first .. last - 1.
Tensors range(const Batch& x, int64_t first, int64_t last) {
  std::vector<int64_t> wanted;
  for (int64_t b = first; b < std::min(last, x[0].components()); ++b) wanted.push_back(b);
  return chosen(x, wanted);
}

std::vector<int64_t> counting(int64_t count) {
  std::vector<int64_t> result(static_cast<size_t>(count));
  std::iota(result.begin(), result.end(), 0);
  return result;
}

TEST(OverTheBatch, PartsAreComponents) {
  for (const int ragged_dims : {1, 2}) {
    for_patterns(ragged_dims, [&](const Ragged& shape) {
      const int64_t count = shape->components();
      const Batch x = {normal(shape, {2})};
      const HandCase cases[] = {
          {"select",
           {batch},
           x,
           [](const Batch& x) { return Parts{{select(x[0], 0, -1).dense()}}; },
           [](const Batch& x) { return Parts{chosen(x, {-1})}; }},
          {"slice",
           {batch},
           x,
           [](const Batch& x) { return Parts{parts(slice(x[0], 0, 1, 100, 2))}; },
           [](const Batch& x) {
             return Parts{x[0].components() > 3 ? chosen(x, {1, 3}) : chosen(x, {1})};
           }},
          {"slice",
           {batch},
           x,
           [](const Batch& x) { return Parts{parts(slice(x[0], 0, -2, 100))}; },
           [](const Batch& x) {
             return Parts{chosen(x, {-2, -1})};
           }},
          {"narrow",
           {batch},
           x,
           [](const Batch& x) { return Parts{parts(narrow(x[0], 0, 1, 1))}; },
           [](const Batch& x) { return Parts{chosen(x, {1})}; }},
          {"split_with_sizes",
           {batch},
           x,
           [count](const Batch& x) {
             return parts(split_with_sizes(x[0], {1, 0, count - 1}));
           },
           [count](const Batch& x) {
             return Parts{range(x, 0, 1), {}, range(x, 1, count)};
           }},
          {"split",
           {batch},
           x,
           [](const Batch& x) { return parts(split(x[0], 3)); },
           [count](const Batch& x) {
             return count > 3 ? Parts{range(x, 0, 3), range(x, 3, count)} : Parts{range(x, 0, count)};
           }},
          {"chunk",
           {batch},
           x,
           [](const Batch& x) { return parts(chunk(x[0], 2)); },
           [count](const Batch& x) {
             return Parts{range(x, 0, (count + 1) / 2), range(x, (count + 1) / 2, count)};
           }},
          {"unbind",
           {batch},
           x,
           [](const Batch& x) {
             Parts all;
             for (const NestedTensor& one : unbind(x[0])) all.push_back({one.dense()});
             return all;
           },
           [count](const Batch& x) {
             Parts all;
             for (int64_t b = 0; b < count; ++b) all.push_back({x[0][b]});
             return all;
           }},
          {"index_select",
           {batch},
           x,
           [](const Batch& x) {
             return Parts{parts(index_select(x[0], 0, nested::index_tensor(std::vector<int64_t>{1, 0, 1})))};
           },
           [](const Batch& x) {
             return Parts{chosen(x, {1, 0, 1})};
           }},
          {"flip",
           {batch},
           x,
           [](const Batch& x) { return Parts{parts(flip(x[0], {0}))}; },
           [count](const Batch& x) {
             std::vector<int64_t> order = counting(count);
             std::reverse(order.begin(), order.end());
             return Parts{chosen(x, order)};
           }},
          {"roll",
           {batch},
           x,
           [](const Batch& x) { return Parts{parts(roll(x[0], 1, 0))}; },
           [count](const Batch& x) {
             std::vector<int64_t> order = counting(count);
             std::rotate(order.begin(), order.end() - 1, order.end());
             return Parts{chosen(x, order)};
           }},
          {"flatten",
           {batch},
           x,
           [](const Batch& x) { return Parts{{flatten(x[0], 0, x[0].ragged_dims()).dense()}}; },
           [](const Batch& x) {
             return Parts{{cat(each(x[0], [&](int64_t b) { return reshape(x[0][b], {-1, 2}); }), 0)}};
           }},
      };
      for (const HandCase& one : cases) check(one);
      const NestedTensor source = index_select(normal(shape, {2}), 0, nested::index_tensor(std::vector<int64_t>{1, 0, 1}));
      check(HandCase{"index_add",
                     {batch},
                     {normal(shape, {2}), source},
                     [](const Batch& x) {
                       return Parts{parts(index_add(x[0], 0, nested::index_tensor(std::vector<int64_t>{1, 0, 1}), x[1]))};
                     },
                     [](const Batch& x) {
                       return Parts{each(x[0], [&](int64_t b) {
                         return b == 0 ? x[0][0] + x[1][1] : b == 1 ? x[0][1] + x[1][0] + x[1][2] : x[0][b];
                       })};
                     }});
    });
  }
}

TEST(OverTheBatch, CatJoinsBatches) {
  for_patterns(1, [](const Ragged& shape) {
    check(HandCase{"cat",
                   {batch},
                   {normal(shape, {2}), normal(Ragged::from_lengths(std::vector<int64_t>{2, 0}), {2})},
                   [](const Batch& x) {
                     return Parts{parts(cat({x[0], x[1], x[0]}, 0))};
                   },
                   [](const Batch& x) {
                     Parts all = {parts(x[0])};
                     for (const Tensor& one : parts(x[1])) all[0].push_back(one);
                     for (const Tensor& one : parts(x[0])) all[0].push_back(one);
                     return all;
                   }});
  });
}

/// x as one dense tensor [B, longest sizes.., ...], with zeros in the rest.
Tensor padded(const NestedTensor& x, const Dims& longest) {
  return stack(each(x,
                    [&](int64_t b) {
                      Dims sizes = longest;
                      for (int64_t dim = 1; dim < x.values().dim(); ++dim) sizes.push_back(x.values().size(dim));
                      return pad_end(x[b], sizes);
                    }),
               0);
}

/// The component of `like` out of a padded one.
Tensor stripped(Tensor padded, const Ragged& like, int64_t b) {
  for (int dim = 0; dim < like->ragged_dims(); ++dim) padded = narrow(padded, dim, 0, like->size(b, dim));
  return padded;
}

Dims longest_sizes(const Ragged& a) {
  Dims result;
  for (int dim = 0; dim < a->ragged_dims(); ++dim) result.push_back(a->max_size(dim));
  return result;
}

/// For each place of `shape` a component that reaches it; an index for gather over the batch.
NestedTensor reaching_components(const Ragged& shape, int64_t columns) {
  NestedTensor index = integers(shape, 0, 1, {columns});
  auto* next = index.values().data<int64_t>();
  for (int64_t row = 0; row < shape->rows(); ++row) {
    const int64_t b = shape->row_map().components()[static_cast<size_t>(row)];
    std::vector<int64_t> reaching;
    for (int64_t other = 0; other < shape->components(); ++other) {
      bool reaches = true;
      for (int dim = 0; dim < shape->ragged_dims(); ++dim)
        reaches = reaches && shape->row_map().position(row, dim) < shape->size(other, dim);
      if (reaches) reaching.push_back(other);
    }
    for (int64_t i = 0; i < columns; ++i)
      *next++ = reaching[static_cast<size_t>((b + i) % static_cast<int64_t>(reaching.size()))];
  }
  return index;
}

TEST(OverTheBatch, GatherAndScatterByPosition) {
  for (const int ragged_dims : {1, 2}) {
    for_patterns(ragged_dims, [&](const Ragged& shape) {
      const NestedTensor index = reaching_components(shape, 2);
      const Dims longest = longest_sizes(shape);
      const Tensor dense_index = padded(index, longest);
      check(HandCase{"gather",
                     {batch},
                     {normal(shape, {2})},
                     [=](const Batch& x) { return Parts{parts(gather(x[0], 0, there(index, x)))}; },
                     [=](const Batch& x) {
                       const Tensor all = gather(padded(x[0], longest), 0, dense_index);
                       return Parts{each(x[0], [&](int64_t b) { return stripped(select(all, 0, b), shape, b); })};
                     }});
      // Places without an element write into a component of their own, which is left out.
      const Tensor inside = padded({ones_like(index.values()), shape}, longest);
      const Tensor target = where(eq(inside, 0), full_like(dense_index, shape->components()), dense_index);
      using Scatter = Tensor (*)(const Tensor&, int64_t, const Tensor&, const Tensor&);
      const auto reference = [=](Scatter scatter_) {
        return [=](const Batch& x) {
          const Tensor self = padded(x[0], longest);
          const Tensor all = scatter_(cat({self, zeros_like(narrow(self, 0, 0, 1))}, 0), 0, target, padded(x[1], longest));
          return Parts{each(x[0], [&](int64_t b) { return stripped(select(all, 0, b), shape, b); })};
        };
      };
      const Batch operands = {normal(shape, {2}), normal(shape, {2})};
      check(HandCase{
          "scatter_add",
          {batch},
          operands,
          [=](const Batch& x) { return Parts{parts(scatter_add(x[0], 0, there(index, x), x[1]))}; },
          reference([](const Tensor& a, int64_t dim, const Tensor& i, const Tensor& s) { return scatter_add(a, dim, i, s); })});
      check(HandCase{
          "scatter",
          {batch},
          operands,
          [=](const Batch& x) { return Parts{parts(scatter(x[0], 0, there(index, x), x[1]))}; },
          reference([](const Tensor& a, int64_t dim, const Tensor& i, const Tensor& s) { return scatter(a, dim, i, s); })});
    });
  }
}

TEST(OverTheBatch, TopkOfThePositions) {
  for_patterns(1, [](const Ragged& shape) {
    for (const int64_t k : {0, 2, 9}) {
      check(HandCase{"topk",
                     {batch},
                     {normal(shape, {2})},
                     [k](const Batch& x) {
                       const auto [values, places] = topk(x[0], k, 0);
                       return Parts{parts(values), parts(places)};
                     },
                     [k](const Batch& x) {
                       const int64_t count = std::min(k, x[0].components());
                       std::vector<Tensors> rows(static_cast<size_t>(count)), places(static_cast<size_t>(count));
                       for (int64_t at = 0; at < x[0].ragged()->max_size(); ++at) {
                         Tensors column;
                         std::vector<int64_t> from;
                         for (int64_t b = 0; b < x[0].components(); ++b) {
                           if (at >= x[0].ragged()->size(b)) continue;
                           column.push_back(select(x[0][b], 0, at));
                           from.push_back(b);
                         }
                         const auto [sorted, order] = sort(stack(column, 0), 0, {.descending = true});
                         for (size_t i = 0; i < std::min(rows.size(), column.size()); ++i) {
                           rows[i].push_back(select(sorted, 0, static_cast<int64_t>(i)));
                           places[i].push_back(
                               index_select(nested::index_tensor(from), 0, select(order, 0, static_cast<int64_t>(i))));
                         }
                       }
                       Parts result(2);
                       for (size_t i = 0; i < rows.size(); ++i) {
                         const Tensor none = narrow(x[0].values(), 0, 0, 0);
                         result[0].push_back(rows[i].empty() ? none : stack(rows[i], 0));
                         result[1].push_back(rows[i].empty() ? to(none, DType::int64) : stack(places[i], 0));
                       }
                       return result;
                     }});
    }
  });
}

}  // namespace
}  // namespace deckle::suite
