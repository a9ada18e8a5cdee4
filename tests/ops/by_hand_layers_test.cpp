// Losses, products and norms of nested tensors: what they mean for each component.
#include <gtest/gtest.h>

#include "deckle/nested/generated/conv.h"
#include "deckle/nested/generated/linalg.h"
#include "deckle/nested/generated/loss.h"
#include "deckle/nested/generated/matmul.h"
#include "deckle/nested/generated/norm.h"
#include "deckle/nested/generated/shape.h"
#include "deckle/ops/generated/conv.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/linalg.h"
#include "deckle/ops/generated/loss.h"
#include "deckle/ops/generated/matmul.h"
#include "deckle/ops/generated/norm.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/ops/by_hand.h"

namespace deckle::suite {
namespace {

using NestedLoss = std::function<Tensor(const NestedTensor&, const NestedTensor&, Reduction)>;
using DenseLoss = std::function<Tensor(const Tensor&, const Tensor&, Reduction)>;

/// The mean of a row over its regular dims, [rows].
Tensor per_token(const Tensor& losses) {
  if (losses.dim() == 1) return losses;
  return mean(flatten(losses, 1), {1});
}

/// A loss of two nested tensors in all reductions; of classes, those that are -100 do not count.
void check_loss(const std::string& name, const Batch& operands, const NestedLoss& nested, const DenseLoss& dense,
                const NestedTensor* classes = nullptr) {
  const auto target = [classes](const Batch& x) { return classes ? there(*classes, x) : x[1]; };
  for (const Reduction reduction : {Reduction::none, Reduction::token, Reduction::sequence, Reduction::sum, Reduction::mean}) {
    SCOPED_TRACE(to_string(reduction));
    check(HandCase{name, kAll, operands, [&](const Batch& x) { return Parts{{nested(x[0], target(x), reduction)}}; },
                   [&](const Batch& x) {
                     Tensors all, sequences;
                     for (int64_t b = 0; b < x[0].components(); ++b) {
                       all.push_back(dense(x[0][b], target(x)[b], Reduction::none));
                       const Tensor tokens = per_token(all.back());
                       Tensor count = full({}, static_cast<double>(tokens.numel()), DType::float64);
                       if (classes) count = to(sum(to(ne((*classes)[b], -100), DType::int64)), DType::float64);
                       sequences.push_back(sum(tokens) / to(clamp_min(count, 1.0), tokens.dtype()));
                     }
                     const Tensor losses = cat(all, 0);
                     if (reduction == Reduction::none) return Parts{{losses}};
                     if (reduction == Reduction::token) return Parts{{per_token(losses)}};
                     if (reduction == Reduction::sequence) return Parts{{stack(sequences, 0)}};
                     return Parts{{dense(x[0].values(), target(x).values(), reduction)}};
                   }});
  }
}

// clang-format off
#define LOSS(op, ...)                                                                             \
  #op, operands,                                                                                             \
  [](const NestedTensor& a, const NestedTensor& b, Reduction reduction) {                                    \
    return op(a, b, {__VA_ARGS__ __VA_OPT__(, ).reduction = reduction});                                                  \
  },                                                                                                         \
  [](const Tensor& a, const Tensor& b, Reduction reduction) {                                                \
    return op(a, b, {__VA_ARGS__ __VA_OPT__(, ).reduction = reduction});                                                  \
  }
// clang-format on

TEST(Losses, InAllReductions) {
  for (const Dims& regular : {Dims{}, Dims{2}, Dims{2, 3}}) {
    for_patterns(1, [&](const Ragged& shape) {
      if (shape->rows() == 0) return;  // the mean of nothing is NaN
      const NestedTensor probabilities = {sigmoid(normal(shape, regular).values()), shape};
      const Batch operands = {normal(shape, regular), probabilities};
      check_loss(LOSS(mse_loss));
      check_loss(LOSS(l1_loss));
      check_loss(LOSS(smooth_l1_loss, .beta = 0.7));
      check_loss(LOSS(huber_loss, .delta = 0.7));
      check_loss(LOSS(binary_cross_entropy_with_logits));
      check_loss(LOSS(kl_div));
      check_loss(
          "binary_cross_entropy", {probabilities, {sigmoid(normal(shape, regular).values()), shape}},
          [](const NestedTensor& a, const NestedTensor& b, Reduction reduction) {
            return binary_cross_entropy(a, b, {.reduction = reduction});
          },
          [](const Tensor& a, const Tensor& b, Reduction reduction) {
            return binary_cross_entropy(a, b, {.reduction = reduction});
          });
    });
  }
}

TEST(Losses, OfClassesCountWhatIsNotIgnored) {
  for_patterns(1, [&](const Ragged& shape) {
    if (shape->rows() == 0) return;
    const NestedTensor classes = integers(shape, 0, 4);
    if (shape->rows() > 2) classes.values().data<int64_t>()[1] = -100;
    const Batch operands = {normal(shape, {4})};
    check_loss(LOSS(cross_entropy, .label_smoothing = 0.1), &classes);
    check_loss(LOSS(nll_loss, .ignore_index = -100), &classes);
  });
}

TEST(Cosines, OverTheBatchAreThoseOfPaddedZeros) {
  // Away from 0, as second derivatives of a column of one number are its inverse square times what is left of rounding.
  const auto operand = [](const Ragged& shape) {
    const Tensor x = normal(shape, {3}).values();
    return NestedTensor(where(x < 0, x - 0.5, x + 0.5), shape);
  };
  for_patterns(1, [&](const Ragged& shape) {
    check(HandCase{"cosine_similarity",
                   {batch},
                   {operand(shape), operand(shape)},
                   [](const Batch& x) { return Parts{{cosine_similarity(x[0], x[1], 0).values()}}; },
                   [](const Batch& x) { return Parts{{cosine_similarity(x[0].to_padded(), x[1].to_padded(), 0)}}; }});
  });
}

TEST(Images, OfRaggedHeightsAndWidthsAreConvolvedOneByOne) {
  for_patterns(2, [](const Ragged& shape) {
    const Batch images = {normal(shape, {2}), dense_normal({3, 2, 2, 1})};
    check(HandCase{"conv2d", kAll, images,
                   [](const Batch& x) { return Parts{parts(conv2d(x[0], x[1].values(), {}, {.padding = Padding::same}))}; },
                   [](const Batch& x) {
                     return Parts{
                         each(x[0], [&](int64_t b) { return conv2d(x[0][b], x[1].values(), {}, {.padding = Padding::same}); })};
                   }});
    check(HandCase{"avg_pool2d",
                   kAll,
                   {images[0]},
                   [](const Batch& x) { return Parts{parts(avg_pool2d(x[0], 2))}; },
                   [](const Batch& x) { return Parts{each(x[0], [&](int64_t b) { return avg_pool2d(x[0][b], 2); })}; }});
    check(HandCase{
        "max_pool2d",
        kAll,
        {images[0]},
        [](const Batch& x) { return Parts{parts(max_pool2d(x[0], 2, {.stride = 1}))}; },
        [](const Batch& x) { return Parts{each(x[0], [&](int64_t b) { return max_pool2d(x[0][b], 2, {.stride = 1}); })}; }});
  });
}

TEST(Products, OfRaggedRowsColumnsAndInnerDims) {
  for_patterns(2, [](const Ragged& matrices) {  // [rows, columns] of each component
    std::vector<int64_t> rows, columns, transposed;
    for (int64_t b = 0; b < matrices->components(); ++b) {
      rows.push_back(matrices->size(b, 0));
      columns.push_back(matrices->size(b, 1));
      transposed.insert(transposed.end(), {columns.back(), rows.back()});
    }
    const Ragged of_rows = Ragged::from_lengths(rows), of_columns = Ragged::from_lengths(columns),
                 back(std::make_shared<const RaggedShape>(transposed, 2));
    const int64_t count = matrices->components();
    const std::pair<NestedTensor, NestedTensor> both[] = {{normal(matrices), normal(back)},
                                                          {normal(matrices), normal(of_columns, {3})},
                                                          {dense_normal({count, 2, 3}), dense_normal({count, 3, 4})}};
    for (const auto& [a, b] : both) {
      const auto loop = [](const Batch& x) { return Parts{each(x[0], [&](int64_t b) { return matmul(x[0][b], x[1][b]); })}; };
      check(HandCase{"matmul", kAll, {a, b}, [](const Batch& x) { return Parts{parts(matmul(x[0], x[1]))}; }, loop});
      check(HandCase{"bmm", kAll, {a, b}, [](const Batch& x) { return Parts{parts(bmm(x[0], x[1]))}; }, loop});
    }
    // A dense operand for each component, on either side.
    check(HandCase{"bmm",
                   kAll,
                   {normal(of_rows, {3}), dense_normal({count, 3, 2})},
                   [](const Batch& x) { return Parts{parts(bmm(x[0], x[1].values()))}; },
                   [](const Batch& x) { return Parts{each(x[0], [&](int64_t b) { return matmul(x[0][b], x[1][b]); })}; }});
    const NestedTensor wide = transpose(normal(of_rows, {3}), 1, 2);  // [B, 3, rows]
    check(HandCase{"bmm",
                   kAll,
                   {dense_normal({count, 2, 3}), wide},
                   [](const Batch& x) { return Parts{parts(bmm(x[0].values(), x[1]))}; },
                   [](const Batch& x) { return Parts{each(x[1], [&](int64_t b) { return matmul(x[0][b], x[1][b]); })}; }});
    check(HandCase{"matmul",
                   kAll,
                   {dense_normal({count, 2, 3}), wide},
                   [](const Batch& x) { return Parts{parts(matmul(x[0].values(), x[1]))}; },
                   [](const Batch& x) { return Parts{each(x[1], [&](int64_t b) { return matmul(x[0][b], x[1][b]); })}; }});
    // Regular matrices, a batch of them in each row; one matrix or vector for all.
    check(HandCase{"matmul",
                   kAll,
                   {normal(of_rows, {2, 3}), normal(of_rows, {3, 4})},
                   [](const Batch& x) { return Parts{parts(matmul(x[0], x[1]))}; },
                   [](const Batch& x) { return Parts{each(x[0], [&](int64_t b) { return matmul(x[0][b], x[1][b]); })}; }});
    for (const Dims& shared : {Dims{3, 2}, Dims{3}}) {
      for (const NestedTensor& self : {normal(of_rows, {3}), normal(of_rows, {2, 3}), normal(matrices, {3})}) {
        check(HandCase{
            "matmul",
            kAll,
            {self, dense_normal(shared)},
            [](const Batch& x) { return Parts{parts(matmul(x[0], x[1].values()))}; },
            [](const Batch& x) { return Parts{each(x[0], [&](int64_t b) { return matmul(x[0][b], x[1].values()); })}; }});
      }
    }
  });
}

TEST(Linear, WeightsOfEachComponent) {
  for (const int ragged_dims : {1, 2}) {
    for_patterns(ragged_dims, [](const Ragged& shape) {
      const int64_t count = shape->components();
      for (const Dims& regular : {Dims{3}, Dims{2, 3}}) {
        for (const NestedTensor& bias : {dense_normal({4}), dense_normal({count, 4})}) {
          check(HandCase{"linear",
                         kAll,
                         {normal(shape, regular), dense_normal({count, 4, 3}), bias},
                         [](const Batch& x) { return Parts{parts(linear(x[0], x[1].values(), x[2].values()))}; },
                         [](const Batch& x) {
                           const auto own = [&](int64_t b) { return x[2].values().dim() == 1 ? x[2].values() : x[2][b]; };
                           return Parts{each(x[0], [&](int64_t b) { return linear(x[0][b], x[1][b], own(b)); })};
                         }});
        }
      }
    });
  }
}

/// What is left of weight and bias.
struct Given {
  bool weight, bias;
  Tensor of_weight(const Batch& x) const { return weight ? x[1].values() : Tensor(); }
  Tensor of_bias(const Batch& x) const { return bias ? x[2].values() : Tensor(); }
};
constexpr Given kGiven[] = {{true, true}, {true, false}, {false, true}, {false, false}};

TEST(Norms, ReachOverPositions) {
  for (const int ragged_dims : {1, 2}) {
    for (const Given given : kGiven) {
      for (const Dims& regular : {Dims{4}, Dims{3, 4}}) {
        for_patterns(ragged_dims, [&](const Ragged& shape) {
          const Batch operands = {normal(shape, regular), dense_normal({4}), dense_normal({4})};
          check(HandCase{
              "group_norm", kAll, operands,
              [=](const Batch& x) { return Parts{parts(group_norm(x[0], 2, given.of_weight(x), given.of_bias(x), 0.1))}; },
              [=](const Batch& x) {
                return Parts{each(x[0], [&](int64_t b) {
                  return select(group_norm(unsqueeze(x[0][b], 0), 2, given.of_weight(x), given.of_bias(x), 0.1), 0, 0);
                })};
              }});
          if (shape->rows() == 0) return;
          // The rows of all components, normed together, then given back.
          check(HandCase{"batch_norm", kAll, operands,
                         [=](const Batch& x) {
                           return Parts{parts(batch_norm(x[0], given.of_weight(x), given.of_bias(x), Tensor(), Tensor(), 0.1))};
                         },
                         [=](const Batch& x) {
                           const Tensor rows = cat(each(x[0], [&](int64_t b) { return reshape(x[0][b], {-1, 4}); }), 0);
                           const Tensor centred = rows - mean(rows, {0}, true);
                           Tensor normed = centred * rsqrt(mean(square(centred), {0}, true) + 0.1);
                           if (given.weight) normed = normed * x[1].values();
                           if (given.bias) normed = normed + x[2].values();
                           int64_t first = 0;
                           return Parts{each(x[0], [&](int64_t b) {
                             const Tensor own = narrow(normed, 0, first, x[0][b].numel() / 4);
                             first += x[0][b].numel() / 4;
                             return reshape(own, x[0][b].sizes());
                           })};
                         }});
        });
      }
    }
  }
}

}  // namespace
}  // namespace deckle::suite
