// Ops on nested tensors by ragged index or mask, other shapes, and writes: what they mean for each component.
#include <gtest/gtest.h>

#include <algorithm>

#include "deckle/core/from_data.h"
#include "deckle/core/generator.h"
#include "deckle/nested/generated/factory.h"
#include "deckle/nested/generated/index.h"
#include "deckle/nested/generated/pointwise.h"
#include "deckle/nested/generated/random.h"
#include "deckle/nested/generated/shape.h"
#include "deckle/nested/rows.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/random.h"
#include "deckle/ops/generated/shape.h"
#include "tests/ops/by_hand.h"
#include "tests/support/expect.h"

namespace deckle::suite {
namespace {

TEST(ByRaggedIndex, GatherAndScatterWithLengthsOfTheirOwn) {
  for_patterns(1, [](const Ragged& shape) {
    const NestedTensor rows = indices(shape, 4, [&](int64_t b) { return shape->size(b); });
    const NestedTensor index = {stack({rows.values(), flip(rows.values(), {0})}, 1), rows.ragged()};
    // Each column of an index that keeps to its component.
    std::vector<int64_t> safe = index.values().to_vector<int64_t>();
    for (int64_t b = 0, at = 0; b < shape->components(); ++b) {
      for (int64_t i = 0; i < 2 * rows.ragged()->size(b); ++i, ++at) safe[static_cast<size_t>(at)] %= shape->size(b);
    }
    const NestedTensor own = {reshape(nested::index_tensor(safe), index.values().sizes()), rows.ragged()};
    check(HandCase{"gather",
                   {ragged},
                   {normal(shape, {2})},
                   [=](const Batch& x) { return Parts{parts(gather(x[0], 1, there(own, x)))}; },
                   [=](const Batch& x) { return Parts{each(x[0], [&](int64_t b) { return gather(x[0][b], 0, own[b]); })}; }});
    const Batch operands = {normal(shape, {2}), normal(own.ragged(), {2})};
    check(HandCase{
        "scatter_add",
        {ragged},
        operands,
        [=](const Batch& x) { return Parts{parts(scatter_add(x[0], 1, there(own, x), x[1]))}; },
        [=](const Batch& x) { return Parts{each(x[0], [&](int64_t b) { return scatter_add(x[0][b], 0, own[b], x[1][b]); })}; }});
    check(HandCase{
        "scatter",
        {ragged},
        operands,
        [=](const Batch& x) { return Parts{parts(scatter(x[0], 1, there(own, x), x[1]))}; },
        [=](const Batch& x) { return Parts{each(x[0], [&](int64_t b) { return scatter(x[0][b], 0, own[b], x[1][b]); })}; }});
  });
}

TEST(ByRaggedIndex, IndexPutWritesOrAdds) {
  for (const bool accumulate : {false, true}) {
    for (const int ragged_dims : {1, 2}) {
      for_patterns(ragged_dims, [&](const Ragged& shape) {
        const auto size = [&](int64_t b, int dim) { return shape->rows() == 0 ? 0 : shape->size(b, dim); };
        const auto room = [&](int64_t b) { return size(b, 0) * (ragged_dims == 2 ? size(b, 1) : 1); };
        const NestedTensor flat = indices(shape, 5, room);
        std::vector<NestedTensor> index = {flat};
        if (ragged_dims == 2) {
          std::vector<int64_t> rows, columns;
          for (int64_t b = 0; b < shape->components(); ++b) {
            for (const int64_t at : flat[b].to_vector<int64_t>()) {
              rows.push_back(at / shape->size(b, 1));
              columns.push_back(at % shape->size(b, 1));
            }
          }
          index = {{nested::index_tensor(rows), flat.ragged()}, {nested::index_tensor(columns), flat.ragged()}};
        }
        check(HandCase{"index_put",
                       kAll,
                       {normal(shape, {2}), normal(flat.ragged(), {2})},
                       [=](const Batch& x) {
                         Batch places;
                         for (const NestedTensor& one : index) places.push_back(there(one, x));
                         return Parts{parts(index_put(x[0], places, x[1], accumulate))};
                       },
                       [=](const Batch& x) {
                         return Parts{each(x[0], [&](int64_t b) {
                           Tensors own;
                           for (const NestedTensor& one : index) own.push_back(one[b]);
                           return index_put(x[0][b], own, x[1][b], accumulate);
                         })};
                       }});
      });
    }
  }
}

TEST(Masks, KeepElementsAsOneRaggedDim) {
  for (const int ragged_dims : {1, 2}) {
    for_patterns(ragged_dims, [&](const Ragged& shape) {
      for (const Dims& regular : {Dims{}, Dims{3}}) {
        const NestedTensor kept = mask(shape, regular);
        check(HandCase{
            "masked_select",
            kAll,
            {normal(shape, {3, 2})},
            [=](const Batch& x) { return Parts{parts(masked_select(x[0], there(kept, x)))}; },
            [=](const Batch& x) { return Parts{each(x[0], [&](int64_t b) { return masked_select(x[0][b], kept[b]); })}; }});
      }
    });
  }
}

TEST(Bags, OfRaggedIndices) {
  for_patterns(1, [](const Ragged& shape) {
    const NestedTensor bags = integers(shape, 0, 7);
    for (const BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
      check(HandCase{"embedding_bag",
                     kAll,
                     {dense_normal({7, 3})},
                     [=](const Batch& x) { return Parts{parts(embedding_bag(x[0].values(), there(bags, x), Tensor(), mode))}; },
                     [=](const Batch& x) {
                       return Parts{each(bags, [&](int64_t b) {
                         const Tensor bag = unsqueeze(bags[b], 0);
                         return bag.numel() == 0 ? zeros_like(select(x[0].values(), 0, 0))
                                                 : select(embedding_bag(x[0].values(), bag, Tensor(), mode), 0, 0);
                       })};
                     }});
    }
    check(HandCase{"embedding_bag",
                   kAll,
                   {dense_normal({7, 3}), normal(shape)},
                   [=](const Batch& x) { return Parts{parts(embedding_bag(x[0].values(), there(bags, x), x[1], BagMode::sum))}; },
                   [=](const Batch& x) {
                     return Parts{each(bags, [&](int64_t b) {
                       return select(embedding_bag(x[0].values(), unsqueeze(bags[b], 0), unsqueeze(x[1][b], 0), BagMode::sum), 0,
                                     0);
                     })};
                   }});
  });
}

TEST(Shapes, RegularDimsChangeTheOthersStay) {
  for (const int ragged_dims : {1, 2}) {
    for_patterns(ragged_dims, [&](const Ragged& shape) {
      const auto stays = [ragged_dims](std::initializer_list<int64_t> regular) {
        Dims sizes(static_cast<size_t>(ragged_dims) + 1, -1);
        for (const int64_t size : regular) sizes.push_back(size);
        return sizes;
      };
      const auto component = [](const NestedTensor& x, int64_t b, std::initializer_list<int64_t> regular) {
        Dims sizes(Ints(x[b].sizes()).first(static_cast<size_t>(x.ragged_dims())));
        for (const int64_t size : regular) sizes.push_back(size);
        return sizes;
      };
      const Batch x = {normal(shape, {6, 2})};
      check(HandCase{"view", kAll, x,
                     [=](const Batch& x) {
                       return Parts{parts(view(x[0], stays({3, -1})))};
                     },
                     [=](const Batch& x) {
                       return Parts{each(x[0], [&](int64_t b) { return view(x[0][b], component(x[0], b, {3, 4})); })};
                     }});
      check(HandCase{"reshape", kAll, x, [=](const Batch& x) { return Parts{parts(reshape(x[0], stays({-1})))}; },
                     [=](const Batch& x) {
                       return Parts{each(x[0], [&](int64_t b) { return reshape(x[0][b], component(x[0], b, {12})); })};
                     }});
      check(HandCase{"expand",
                     kAll,
                     {normal(shape, {1, 2})},
                     [=](const Batch& x) {
                       return Parts{parts(expand(x[0], stays({3, -1})))};
                     },
                     [=](const Batch& x) {
                       return Parts{each(x[0], [&](int64_t b) { return expand(x[0][b], component(x[0], b, {3, 2})); })};
                     }});
    });
  }
}

TEST(Shapes, EveryOrderOfDimsButTheBatch) {
  for (const int ragged_dims : {1, 2}) {
    for_patterns(ragged_dims, [&](const Ragged& shape) {
      std::vector<int64_t> order = {0, 1, 2};  // of a component
      do {
        const Batch x = {normal(shape, ragged_dims == 1 ? Dims{2, 3} : Dims{3})};
        std::vector<int64_t> dims = {0};
        for (const int64_t dim : order) dims.push_back(dim + 1);
        check(HandCase{"permute", kAll, x, [=](const Batch& x) { return Parts{parts(permute(x[0], dims))}; },
                       [=](const Batch& x) { return Parts{each(x[0], [&](int64_t b) { return permute(x[0][b], order); })}; }});
      } while (std::next_permutation(order.begin(), order.end()));
    });
  }
}

TEST(Shapes, RaggedDimsOfSizeOneGo) {
  for_patterns(1, [](const Ragged& shape) {
    for (const int along : {0, 1}) {
      std::vector<int64_t> sizes;
      for (const int64_t length : shape->sizes()) {
        if (along == 0) sizes.push_back(1);
        sizes.push_back(length);
        if (along == 1) sizes.push_back(1);
      }
      check(HandCase{"squeeze",
                     {ragged},
                     {normal(Ragged(std::make_shared<const RaggedShape>(sizes, 2)), {2})},
                     [=](const Batch& x) { return Parts{parts(squeeze(x[0], along + 1))}; },
                     [=](const Batch& x) { return Parts{each(x[0], [&](int64_t b) { return squeeze(x[0][b], along); })}; }});
    }
  });
}

TEST(Writes, ReachEveryComponent) {
  for (const int ragged_dims : {1, 2}) {
    for_patterns(ragged_dims, [&](const Ragged& shape) {
      const auto written = [](const NestedTensor& x, const std::function<void(const NestedTensor&)>& write) {
        const NestedTensor copy = mul(x, 1.0);
        write(copy);
        return Parts{parts(copy)};
      };
      const auto all = [](double value) {
        return [value](const Batch& x) { return Parts{each(x[0], [&](int64_t b) { return full_like(x[0][b], value); })}; };
      };
      const Batch x = {normal(shape, {2}), normal(shape, {2})};
      check(HandCase{"zero_", kAll, x, [=](const Batch& x) { return written(x[0], [](const NestedTensor& y) { zero_(y); }); },
                     all(0)});
      check(HandCase{"fill_", kAll, x, [=](const Batch& x) { return written(x[0], [](const NestedTensor& y) { fill_(y, 3); }); },
                     all(3)});
      check(HandCase{"copy_", kAll, x,
                     [=](const Batch& x) { return written(x[0], [&](const NestedTensor& y) { copy_(y, x[1]); }); },
                     [](const Batch& x) { return Parts{parts(x[1])}; }});
    });
  }
}

TEST(Draws, AreThoseOfThePackedRows) {
  for (const int ragged_dims : {1, 2}) {
    for_patterns(ragged_dims, [&](const Ragged& shape) {
      // The rows of `values` as components.
      const auto cut = [=](const Tensor& values) { return Parts{parts(NestedTensor(values, shape))}; };
      const Batch x = {normal(shape, {2})};
      const NestedTensor likely = {sigmoid(normal(shape, {2}).values()), shape};
      check(HandCase{"dropout", kAll, x,
                     [](const Batch& x) {
                       Generator generator(7);
                       return Parts{parts(dropout(x[0], 0.4, {.generator = &generator}))};
                     },
                     [=](const Batch& x) {
                       Generator generator(7);
                       return cut(dropout(x[0].values(), 0.4, {.generator = &generator}));
                     }});
      check(HandCase{"dropout_masked", kAll, x,
                     [](const Batch& x) {
                       Generator generator(7);
                       const auto [out, kept] = dropout_masked(x[0], 0.4, &generator);
                       return Parts{parts(out), parts(kept)};
                     },
                     [=](const Batch& x) {
                       Generator generator(7);
                       const auto [out, kept] = dropout_masked(x[0].values(), 0.4, &generator);
                       return Parts{parts(NestedTensor(out, shape)), parts(NestedTensor(kept, shape))};
                     }});
      check(HandCase{"bernoulli",
                     kAll,
                     {likely},
                     [](const Batch& x) {
                       Generator generator(7);
                       return Parts{parts(bernoulli(x[0], {.generator = &generator}))};
                     },
                     [=](const Batch& x) {
                       Generator generator(7);
                       return cut(bernoulli(x[0].values(), {.generator = &generator}));
                     }});
      check(HandCase{"rand_like", kAll, x,
                     [](const Batch& x) {
                       Generator generator(7);
                       return Parts{parts(rand_like(x[0], {.generator = &generator}))};
                     },
                     [=](const Batch& x) {
                       Generator generator(7);
                       return cut(rand_like(x[0].values(), {.generator = &generator}));
                     }});
      check(HandCase{"randn_like", kAll, x,
                     [](const Batch& x) {
                       Generator generator(7);
                       return Parts{parts(randn_like(x[0], {.generator = &generator}))};
                     },
                     [=](const Batch& x) {
                       Generator generator(7);
                       return cut(randn_like(x[0].values(), {.generator = &generator}));
                     }});
    });
  }
}

TEST(Refused, WithTheReason) {
  const NestedTensor x = normal(Ragged::from_lengths(std::vector<int64_t>{2, 1}), {1});
  testing::expect_error(
      [&] { squeeze(x, 0); },
      "squeeze: dim 0 is the batch of shape [2, 1..2, 1] (expected a ragged dim, 1, or a regular dim, 2): whether it goes");
  covered("squeeze", batch);
}

}  // namespace

TEST(IndexSelect, OfAViewWhoseRowsLieAtAnyOffset) {  // the undefined-behaviour sanitizer sees a row read as one misaligned number
  for (const DType dtype : {DType::bfloat16, DType::float32, DType::int32, DType::uint8}) {
    for (const int64_t columns : {1, 2, 4}) {
      const Tensor memory = arange(1 + 6 * columns, dtype);
      const Tensor rows = memory.narrow(0, 1, 6 * columns).view({6, columns});
      const Tensor taken = rows.index_select(0, tensor({4, 0, 5, 5}));
      for (int64_t i = 0; i < 4; ++i) {
        const int64_t row = std::vector<int64_t>{4, 0, 5, 5}[static_cast<size_t>(i)];
        for (int64_t c = 0; c < columns; ++c) EXPECT_EQ(taken.select(0, i).select(0, c).item<double>(), 1 + row * columns + c);
      }
    }
  }
}

}  // namespace deckle::suite
