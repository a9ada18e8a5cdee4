// What the checks of entries refuse, refused by the overloads for nested tensors that are written by hand: a case for each.
#include <gtest/gtest.h>

#include "deckle/nested/generated/arrange.h"
#include "deckle/nested/generated/conv.h"
#include "deckle/nested/generated/index.h"
#include "deckle/nested/generated/linalg.h"
#include "deckle/nested/generated/loss.h"
#include "deckle/nested/generated/matmul.h"
#include "deckle/nested/generated/norm.h"
#include "deckle/nested/generated/pointwise.h"
#include "deckle/nested/generated/shape.h"
#include "deckle/nested/generated/sort.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/pointwise.h"
#include "tests/ops/by_hand.h"
#include "tests/support/random.h"

namespace deckle::suite {
namespace {

const Ragged kShape = Ragged::from_lengths(std::vector<int64_t>{3, 0, 2});

NestedTensor x(Dims regular = {4}) { return normal(kShape, std::move(regular)); }
NestedTensor like_x(const Tensor& values) { return {values, kShape}; }
NestedTensor as(DType dtype, Dims regular = {4}) { return like_x(to(x(std::move(regular)).values(), dtype)); }
NestedTensor index(Dims regular = {}) { return integers(kShape, 0, 1, std::move(regular)); }
Tensor dense(Ints sizes) { return testing::random_tensor(sizes); }
/// A batch without ragged dims.
NestedTensor batch_of(Ints sizes) { return dense_normal(sizes); }

TEST(ChecksOfNested, Arrangements) {
  refuses("tril", 0, "components of shape [3, 0..3] have one dim", [] { tril(x({})); });
  refuses("triu", 0, "components of shape [3, 0..3] have one dim", [] { triu(x({})); });
  refuses("repeat_interleave", 0, "repeats is -1 (expected 0 or more)", [] { repeat_interleave(x(), -1, 1); });
  takes("repeat_interleave", 1, [] { repeat_interleave(batch_of({3}), 2, 0); });
  refuses("repeat_interleave", 2, "dim 3 is out of range for shape [3, 0..3, 4]", [] { repeat_interleave(x(), 2, 3); });
  refuses("narrow", 0, "1 positions from 4 on are more than dim 1", [] { narrow(x(), 1, 4, 1); });
  refuses("narrow", 1, "3 positions from 0 on are more than dim 1", [] { narrow(x(), 1, 0, 3); });
  refuses("split", 0, "split_size is 0 (expected 1 or more)", [] { split(x(), 0, 1); });
  refuses("chunk", 0, "chunks is 0 (expected 1 or more)", [] { chunk(x(), 0, 1); });
  refuses("topk", 0, "k is -1 (expected 0 or more)", [] { topk(x(), -1, 1); });
  takes("topk", 1, [] { topk(batch_of({3}), 1, 0); });
}

TEST(ChecksOfNested, WindowsAndImages) {
  refuses("conv1d", 0, "the last dim of shape [3] is the batch", [] { conv1d(batch_of({3}), dense({2, 4, 3})); });
  refuses("conv1d", 1, "weight has shape [2, 4] (expected [out, in / groups, kernel])", [] { conv1d(x(), dense({2, 4})); });
  refuses("conv1d", 2, "input has shape [3, 0..3, 4] for weight [2, 3, 2] in 1 groups", [] {
    conv1d(x(), dense({2, 3, 2}), {}, {.padding = Padding::same});
  });
  refuses("avg_pool1d", 0, "the last dim of shape [3] is the batch", [] { avg_pool1d(batch_of({3}), 2); });
  refuses("max_pool1d", 0, "the last dim of shape [3] is the batch", [] { max_pool1d(batch_of({3}), 2); });
  refuses("interpolate1d", 0, "the last dim of shape [3] is the batch", [] { interpolate1d(batch_of({3}), 2.0); });
  refuses("avg_pool2d", 0, "input has shape [3, 4] (expected [..., H, W, C], channels last)", [] {
    avg_pool2d(batch_of({3, 4}), 2);
  });
  refuses("max_pool2d", 0, "input has shape [3, 4] (expected [..., H, W, C], channels last)", [] {
    max_pool2d(batch_of({3, 4}), 2);
  });
}

TEST(ChecksOfNested, Indices) {
  const Tensor square = full({2, 2}, 0, DType::int64), one = full({1}, 0, DType::int64);
  const NestedTensor first = narrow(x(), 0, 0, 1);
  refuses("index_select", 0, "self has shape [3, 0..3, 4] and index [2, 2]", [&] { index_select(x(), 1, square); });
  refuses("index_add", 0, "index has shape [2, 2] and source [1, 3, 4]", [&] { index_add(x(), 0, square, first); });
  refuses("index_add", 1, "source has 3 components of lengths [3, 0, 2] (expected those of self at index",
          [&] { index_add(x(), 0, one, x()); });
  refuses("index_add", 2, "index 0 is out of range for dim 1 of component 1", [&] { index_add(x(), 1, one, x()); });
  refuses("index_add", 3, "self is float64, source is float32",
          [&] { index_add(x(), 0, one, NestedTensor(to(first.values(), DType::float32), first.ragged())); });
  refuses("gather", 0, "index has shape [3, 0..3] and self [3, 0..3, 4] (expected as many dims)",
          [] { gather(x(), 1, index()); });
  refuses("gather", 1, "", [] { gather(x(), 1, index({5})); });
  refuses("take_along_dim", 0, "indices have shape [3, 0..3] and self [3, 0..3, 4]", [] { take_along_dim(x(), index(), 1); });
  refuses("scatter_add", 0, "index has shape [3, 0..3], src [3, 0..3, 4] and self [3, 0..3, 4]",
          [] { scatter_add(x(), 1, index(), x()); });
  refuses("scatter_add", 1, "", [] { scatter_add(x(), 1, index({5}), x({5})); });
  refuses("scatter_add", 1, "", [] { scatter_add(x(), 1, index({4}), x({3})); });
  refuses("scatter_add", 2, "", [] { scatter_add(x({0}), 2, index({4}), x({4})); });
  refuses("scatter_add", 3, "self is float64, src is float32", [] { scatter_add(x(), 1, index({4}), as(DType::float32)); });
  refuses("scatter", 0, "index has shape [3, 0..3], src [3, 0..3, 4] and self [3, 0..3, 4]",
          [] { scatter(x(), 1, index(), x()); });
  refuses("scatter", 1, "", [] { scatter(x(), 1, index({5}), x({5})); });
  refuses("scatter", 1, "", [] { scatter(x(), 1, index({4}), x({3})); });
  refuses("scatter", 2, "", [] { scatter(x({0}), 2, index({4}), x({4})); });
  refuses("scatter", 3, "self is float64, src is float32", [] { scatter(x(), 1, index({4}), as(DType::float32)); });
  refuses("masked_select", 0, "mask is float64 (expected bool)", [] { masked_select(x(), x()); });
  refuses("masked_select", 1, "", [] { masked_select(x(), mask(kShape, {3})); });
  refuses("embedding_bag", 0, "indices has shape [3, 0..3, 2] (expected [B, L])", [] {
    embedding_bag(dense({5, 2}), index({2}));
  });
  refuses("embedding_bag", 1, "per_sample_weights are given for mode mean (expected sum)", [] {
    embedding_bag(dense({5, 2}), index(), x({}), BagMode::mean);
  });
}

/// Losses of two nested tensors of one shape: neither a regular nor a ragged dim of size 1 is repeated.
template <typename Loss>
void refuses_other_shapes(const char* name, size_t check, const Loss& loss) {
  refuses(name, check, "target has shape [3, 0..3, 1] (expected input's, [3, 0..3, 4])",
          [&] { loss(like_x(sigmoid(x().values())), like_x(sigmoid(x({1}).values()))); });
  refuses(name, check, "target has shape [3, 0..3] (expected input's, [3, 0..3, 4])",
          [&] { loss(like_x(sigmoid(x().values())), like_x(sigmoid(x({}).values()))); });
  refuses(name, check,
          "ragged shapes differ: input has 3 components of lengths [3, 0, 2], target has 3 components of lengths [1, 1,", [&] {
            loss(like_x(sigmoid(x().values())),
                 NestedTensor(sigmoid(dense({3, 4})), Ragged::from_lengths(std::vector<int64_t>{1, 1, 1})));
          });
}

TEST(ChecksOfNested, Losses) {
  refuses_other_shapes("mse_loss", 0, [](const auto& a, const auto& b) { mse_loss(a, b); });
  refuses_other_shapes("l1_loss", 0, [](const auto& a, const auto& b) { l1_loss(a, b); });
  refuses_other_shapes("smooth_l1_loss", 1, [](const auto& a, const auto& b) { smooth_l1_loss(a, b); });
  refuses_other_shapes("huber_loss", 1, [](const auto& a, const auto& b) { huber_loss(a, b); });
  refuses_other_shapes("binary_cross_entropy_with_logits", 0,
                       [](const auto& a, const auto& b) { binary_cross_entropy_with_logits(a, b); });
  refuses_other_shapes("binary_cross_entropy", 0, [](const auto& a, const auto& b) { binary_cross_entropy(a, b); });
  refuses_other_shapes("kl_div", 0, [](const auto& a, const auto& b) { kl_div(a, b); });
  refuses("smooth_l1_loss", 0, "beta is -1", [] { smooth_l1_loss(x(), x(), {.beta = -1}); });
  refuses("huber_loss", 0, "delta is 0", [] { huber_loss(x(), x(), {.delta = 0}); });
  const NestedTensor p = like_x(sigmoid(x().values()));
  refuses("binary_cross_entropy", 1, "input has values outside of 0 to 1", [&] { binary_cross_entropy(mul(p, 2.0), p); });
  refuses("binary_cross_entropy", 1, "input has values outside of 0 to 1", [&] { binary_cross_entropy(mul(p, -1.0), p); });
}

TEST(ChecksOfNested, LossesOfClasses) {
  const NestedTensor classes = index();
  refuses("cross_entropy", 0, "input has shape [5, 4] and target [5, 2]", [] { cross_entropy(x(), index({2})); });
  refuses("cross_entropy", 1, "target is bool", [&] { cross_entropy(x(), like_x(to(classes.values(), DType::bool_))); });
  refuses("cross_entropy", 2, "input is int64", [&] { cross_entropy(index({4}), classes); });
  refuses("cross_entropy", 3, "label_smoothing is 2", [&] { cross_entropy(x(), classes, {.label_smoothing = 2}); });
  takes("cross_entropy", 4, [&] { cross_entropy(x(), classes, {.reduction = Reduction::sequence}); });
  refuses("nll_loss", 0, "input has shape [5] and target [5]", [&] { nll_loss(x({}), classes); });
  takes("nll_loss", 1, [&] { nll_loss(x(), classes, {.reduction = Reduction::token}); });
}

TEST(ChecksOfNested, Products) {
  refuses("bmm", 0, "self has shape [3, 0..3, 4] and mat2 [4, 2] (expected two batches of matrices)", [] {
    bmm(x(), dense({4, 2}));
  });
  refuses("bmm", 1, "a dense operand of shape [2, 4, 2] for 3 components", [] { bmm(x(), dense({2, 4, 2})); });
  refuses("bmm", 2, "component 0 multiplies [3, 4] by [3, 2]", [] { bmm(x(), dense({3, 3, 2})); });
  refuses("bmm", 3, "self is float64, mat2 is float32", [] { bmm(x(), to(dense({3, 4, 2}), DType::float32)); });
  refuses("matmul", 0, "self has shape [3, 0..3, 4] and other [] (expected one dim or more each)",
          [] { matmul(x(), dense({})); });
  refuses("matmul", 1, "component 0 multiplies [3, 4] by [3, 2]", [] { matmul(x(), dense({3, 3, 2})); });
  refuses("linear", 0, "input has shape [5, 4] and weight [4] (expected [..., in] and [out, in])",
          [] { linear(x(), dense({4})); });
  refuses("linear", 1, "the last dim of input [5, 4] differs from that of weight [2, 3]", [] { linear(x(), dense({2, 3})); });
  refuses("linear", 1, "weight has shape [3, 2, 3] (expected [3, out, 4] or [out, 4])", [] { linear(x(), dense({3, 2, 3})); });
  refuses("linear", 2, "input is float64, weight is float32", [] { linear(x(), to(dense({2, 4}), DType::float32)); });
  refuses("linear", 3, "bias is float64 [3] (expected float64 [2], as weight)", [] { linear(x(), dense({2, 4}), dense({3})); });
}

TEST(ChecksOfNested, Norms) {
  const Tensor four = dense({4}), three = dense({3});
  refuses("group_norm", 0, "the last dim of shape [3] is the batch", [] { group_norm(batch_of({3}), 1); });
  refuses("normalize", 0, "self is int64 (expected a floating dtype)", [] { normalize(index({4}), -1); });
  refuses("cosine_similarity", 0, "x1 is int64 (expected a floating dtype)", [] { cosine_similarity(index({4}), x(), -1); });
  refuses("cosine_similarity", 1, "x2 is int64 (expected a floating dtype)", [] { cosine_similarity(x(), index({4}), -1); });
  refuses("batch_norm", 0, "self is int64 (expected a floating dtype)", [] { batch_norm(index({4})); });
  refuses("batch_norm", 1, "the last dim of shape [3] is the batch", [] { batch_norm(batch_of({3})); });
  refuses("batch_norm", 2, "eps is -1", [] { batch_norm(x(), {}, {}, {}, {}, -1.0); });
  refuses("batch_norm", 3, "one of mean and variance is given", [&] { batch_norm(x(), {}, {}, four); });
  refuses("batch_norm", 4, "weight has shape [3] (expected [4], the channels)", [&] { batch_norm(x(), three); });
  refuses("batch_norm", 5, "bias has shape [3] (expected [4], the channels)", [&] { batch_norm(x(), {}, three); });
  refuses("batch_norm", 6, "mean has shape [3] (expected [4], the channels)", [&] { batch_norm(x(), {}, {}, three, four); });
  refuses("batch_norm", 7, "variance has shape [3] (expected [4], the channels)", [&] { batch_norm(x(), {}, {}, four, three); });
}

}  // namespace
}  // namespace deckle::suite
