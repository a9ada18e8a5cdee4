#include "cases.h"

#include <tuple>

namespace dense_ops {

namespace dk = deckle;

namespace {

dk::Tensor first(const dk::Tensor& result) { return result; }
dk::Tensor first(const std::tuple<dk::Tensor, dk::Tensor>& results) { return std::get<0>(results); }

using Call = std::function<dk::Tensor(const Operands&)>;

template <typename Op>
Call of(const Op& op) {
  return [op](const Operands& d) { return first(op(d)); };
}

template <typename Op>
std::pair<std::string, Call> entry(std::string name, const Op& op) {
  return {std::move(name), of(op)};
}

// What most ops are called with, and any expression.
#define ONE(op) entry(#op, [](const Operands& d) { return dk::op(d.x); })
#define POSITIVE(op) entry(#op, [](const Operands& d) { return dk::op(d.positive); })
#define TWO(op) entry(#op, [](const Operands& d) { return dk::op(d.x, d.y); })
#define ROWS(op) entry(#op, [](const Operands& d) { return dk::op(d.x, {1}); })
#define ROW(op) entry(#op, [](const Operands& d) { return dk::op(d.x, 1); })
#define CALL(name, ...) entry(name, [](const Operands& d) { return __VA_ARGS__; })

struct Family {
  Kind kind;
  std::vector<std::pair<std::string, Call>> ops;
};

std::vector<Family> pointwise_families() {
  return {
      {Kind::pointwise,
       {TWO(add),
        TWO(sub),
        TWO(mul),
        CALL("div", dk::div(d.x, d.positive)),
        TWO(maximum),
        TWO(minimum),
        TWO(atan2),
        TWO(hypot),
        CALL("pow", dk::pow(d.positive, d.y)),
        CALL("fmod", dk::fmod(d.x, d.positive)),
        CALL("remainder", dk::remainder(d.x, d.positive)),
        CALL("floor_divide", dk::floor_divide(d.x, d.positive)),
        CALL("lerp", dk::lerp(d.x, d.y, 0.3)),
        CALL("add_scalar", dk::add(d.x, 2)),
        CALL("mul_scalar", dk::mul(d.x, 2)),
        CALL("pow_scalar", dk::pow(d.x, 3)),
        CALL("add_row", dk::add(d.x, d.bias)),
        CALL("mul_row", dk::mul(d.x, d.bias)),
        ONE(neg),
        ONE(abs),
        ONE(sign),
        ONE(square),
        POSITIVE(reciprocal),
        POSITIVE(sqrt),
        POSITIVE(rsqrt),
        ONE(floor),
        ONE(ceil),
        ONE(round),
        ONE(trunc),
        ONE(nan_to_num),
        ONE(exp),
        ONE(exp2),
        ONE(expm1),
        POSITIVE(log),
        POSITIVE(log2),
        POSITIVE(log10),
        POSITIVE(log1p),
        ONE(sin),
        ONE(cos),
        ONE(tan),
        ONE(atan),
        ONE(erf),
        ONE(erfc),
        ONE(tanh),
        ONE(sigmoid),
        ONE(log_sigmoid),
        ONE(softplus),
        ONE(relu),
        ONE(leaky_relu),
        ONE(elu),
        ONE(silu),
        ONE(gelu),
        ONE(gelu_tanh),
        CALL("clamp", dk::clamp(d.x, -1, 1)),
        CALL("clamp_min", dk::clamp_min(d.x, 0)),
        CALL("clamp_max", dk::clamp_max(d.x, 0)),
        CALL("where", dk::where(d.mask, d.x, d.y)),
        CALL("masked_fill", dk::masked_fill(d.x, d.mask, 2)),
        ONE(clone),
        CALL("to_float64", dk::to(d.x, dk::DType::float64)),
        TWO(bitwise_and),
        TWO(bitwise_or),
        TWO(bitwise_xor),
        ONE(bitwise_not),
        CALL("bitwise_left_shift", dk::bitwise_left_shift(d.x, d.positive)),
        CALL("bitwise_right_shift", dk::bitwise_right_shift(d.x, d.positive))}},
      {Kind::compare,
       {TWO(eq), TWO(ne), TWO(lt), TWO(le), TWO(gt), TWO(ge), CALL("gt_scalar", dk::gt(d.x, 0)), TWO(logical_and),
        TWO(logical_or), TWO(logical_xor), ONE(logical_not), ONE(isnan), ONE(isinf), ONE(isfinite), TWO(isclose)}},
  };
}

std::vector<Family> reducing_families() {
  return {
      {Kind::reduction,
       {ONE(sum),
        CALL("sum_rows", dk::sum(d.x, {1})),
        CALL("sum_columns", dk::sum(d.x, {0})),
        ROWS(mean),
        ROWS(amax),
        ROWS(amin),
        ROW(max),
        ROW(min),
        CALL("max_columns", dk::max(d.x, 0)),
        ROW(argmax),
        ROW(argmin),
        ROWS(prod),
        ROWS(var),
        CALL("std", dk::std(d.x, {1})),
        ROWS(norm),
        CALL("any", dk::any(d.mask, {1})),
        CALL("all", dk::all(d.mask, {1})),
        ROW(logsumexp),
        ROW(softmax),
        CALL("softmax_columns", dk::softmax(d.x, 0)),
        ROW(log_softmax),
        ROW(cumsum),
        CALL("cumsum_columns", dk::cumsum(d.x, 0))}},
      {Kind::norm,
       {CALL("layer_norm", dk::layer_norm(d.x, d.bias, d.bias)), CALL("rms_norm", dk::rms_norm(d.x, d.bias)),
        CALL("group_norm", dk::group_norm(d.x, 4)), CALL("batch_norm", dk::batch_norm(d.x))}},
      {Kind::loss,
       {TWO(mse_loss), TWO(l1_loss), TWO(smooth_l1_loss), TWO(huber_loss),
        CALL("binary_cross_entropy_with_logits", dk::binary_cross_entropy_with_logits(d.x, d.positive)),
        CALL("kl_div", dk::kl_div(d.x, d.positive)), CALL("cross_entropy", dk::cross_entropy(d.x, d.classes)),
        CALL("nll_loss", dk::nll_loss(d.x, d.classes))}},
      {Kind::product,
       {CALL("mm", dk::mm(d.x, d.square)), CALL("matmul", dk::matmul(d.x, d.square)),
        CALL("matmul_transposed", dk::matmul(d.x, dk::transpose(d.square, 0, 1))),
        CALL("bmm", dk::bmm(d.signal, dk::transpose(d.signal, 1, 2))), CALL("linear", dk::linear(d.x, d.square, d.bias)),
        CALL("addmm", dk::addmm(d.bias, d.x, d.square)), CALL("dot", dk::dot(dk::flatten(d.x), dk::flatten(d.y))),
        CALL("outer", dk::outer(d.bias, d.bias)), CALL("matrix_times_vector", dk::matmul(d.x, d.bias)),
        CALL("mm_of_few_rows", dk::mm(d.few, d.square)), CALL("mm_of_few_columns", dk::mm(d.x, d.narrow)),
        CALL("mm_of_short_sums", dk::mm(d.narrow, d.few)),
        CALL("grouped_mm", dk::matmul(dk::NestedTensor(d.x, d.grouped), d.experts).values())}},
      {Kind::window,
       {CALL("conv1d", dk::conv1d(d.signal, d.kernel)), CALL("avg_pool1d", dk::avg_pool1d(d.signal, 3)),
        CALL("max_pool1d", dk::max_pool1d(d.signal, 3)), CALL("interpolate1d", dk::interpolate1d(d.signal, 2))}},
  };
}

std::vector<Family> moving_families() {
  return {
      {Kind::index,
       {CALL("index_select", dk::index_select(d.x, 0, d.ids)), CALL("index_select_columns", dk::index_select(d.x, 1, d.classes)),
        CALL("index_add", dk::index_add(d.x, 0, d.ids, d.y)), CALL("gather", dk::gather(d.x, 1, d.columns)),
        CALL("gather_columns", dk::gather(d.x, 0, d.rows)), CALL("take_along_dim", dk::take_along_dim(d.x, d.columns, 1)),
        CALL("scatter_add", dk::scatter_add(d.x, 1, d.columns, d.y)),
        CALL("scatter_add_columns", dk::scatter_add(d.x, 0, d.rows, d.y)), CALL("scatter", dk::scatter(d.x, 1, d.columns, d.y)),
        CALL("one_hot", dk::one_hot(d.classes, d.x.size(1))), CALL("nonzero", dk::nonzero(d.mask)),
        CALL("masked_select", dk::masked_select(d.x, d.mask)), CALL("index_put", dk::index_put(d.x, {d.ids}, d.y, true)),
        CALL("embedding", dk::embedding(d.x, d.ids)), CALL("embedding_bag", dk::embedding_bag(d.x, dk::view(d.ids, {-1, 4})))}},
      {Kind::sort,
       {ROW(sort), CALL("sort_columns", dk::sort(d.x, 0)), ROW(argsort), CALL("topk", dk::topk(d.x, 10, 1)),
        CALL("topk_columns", dk::topk(d.x, 10, 0)), CALL("topk_half", dk::topk(d.x, d.x.size(1) / 2, 1))}},
      {Kind::structure,
       {CALL("transpose", dk::contiguous(dk::transpose(d.x, 0, 1))),
        CALL("permute", dk::contiguous(dk::permute(d.signal, {2, 0, 1}))), CALL("select", dk::contiguous(dk::select(d.x, 1, 3))),
        CALL("slice", dk::contiguous(dk::slice(d.x, 1, 1, 50))), CALL("expand", dk::contiguous(dk::expand(d.bias, d.x.sizes()))),
        CALL("chunk", dk::contiguous(dk::chunk(d.x, 2, 1).front())), CALL("view_of_rows", dk::transpose(d.x, 0, 1)),
        CALL("cat", dk::cat({d.x, d.y}, 0)), CALL("cat_columns", dk::cat({d.x, d.y}, 1)), CALL("stack", dk::stack({d.x, d.y}, 0)),
        CALL("flip", dk::flip(d.x, {1})), CALL("roll", dk::roll(d.x, 3, 1)), CALL("repeat", dk::repeat(d.x, {2, 1})),
        CALL("repeat_interleave", dk::repeat_interleave(d.x, 2, 1)), ONE(tril), ONE(triu),
        CALL("diagonal", dk::contiguous(dk::diagonal(d.x))), CALL("pad", dk::pad(d.x, {1, 2}))}},
      {Kind::random,
       {CALL("rand", dk::rand(d.x.sizes())), CALL("randn", dk::randn(d.x.sizes())),
        CALL("randint", dk::randint(0, 100, d.x.sizes())), CALL("randperm", dk::randperm(d.x.numel())),
        CALL("bernoulli", dk::bernoulli(dk::clamp(d.positive, 0, 1))), CALL("dropout", dk::dropout(d.x, 0.1))}},
  };
}

}  // namespace

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> result;
    for (const auto& families : {pointwise_families(), reducing_families(), moving_families()}) {
      for (const Family& family : families) {
        for (const auto& [name, call] : family.ops) result.push_back({name, family.kind, call});
      }
    }
    return result;
  }();
  return all;
}

}  // namespace dense_ops
