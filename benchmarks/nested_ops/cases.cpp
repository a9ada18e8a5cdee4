#include "cases.h"

#include <tuple>

namespace nested_ops {

namespace dk = deckle;

namespace {

dk::Tensor first(const dk::Tensor& result) { return result; }
dk::Tensor first(const dk::NestedTensor& result) { return result.values(); }
template <typename X>
dk::Tensor first(const std::tuple<X, X>& results) {
  return first(std::get<0>(results));
}
template <typename X>
dk::Tensor first(const std::vector<X>& results) {
  return first(results.front());
}

template <typename Op>
Case both(std::string name, Kind kind, Op op, Work work = Work::rows, bool for_many = true) {
  return {std::move(name), kind, [op](const auto& d) { return first(op(d)); }, [op](const auto& d) { return first(op(d)); }, work,
          for_many};
}

template <typename Nested, typename Dense>
Case each(std::string name, Kind kind, Nested nested, Dense dense, Work work = Work::rows, bool for_many = true) {
  return {std::move(name),
          kind,
          [nested](const auto& d) { return first(nested(d)); },
          [dense](const auto& d) { return first(dense(d)); },
          work,
          for_many};
}

template <typename Nested>
Case nested_only(std::string name, Kind kind, Nested nested, bool for_many = true) {
  return {std::move(name), kind, [nested](const auto& d) { return first(nested(d)); }, nullptr, Work::rows, for_many};
}

std::vector<Case> make_cases() {
  using enum Kind;
  return {
      both("add", pointwise, [](const auto& d) { return add(d.x, d.y); }),
      both("mul", pointwise, [](const auto& d) { return mul(d.x, d.y); }),
      both("add_scalar", pointwise, [](const auto& d) { return add(d.x, 1.5); }),
      both("mul_features", pointwise, [](const auto& d) { return mul(d.x, d.bias); }),
      both("add_per_component", pointwise, [](const auto& d) { return add(d.x, d.per_component); }),
      both("exp", pointwise, [](const auto& d) { return exp(d.x); }),
      both("tanh", pointwise, [](const auto& d) { return tanh(d.x); }),
      both("sigmoid", pointwise, [](const auto& d) { return sigmoid(d.x); }),
      both("relu", pointwise, [](const auto& d) { return relu(d.x); }),
      both("silu", pointwise, [](const auto& d) { return silu(d.x); }),
      both("gelu", pointwise, [](const auto& d) { return gelu(d.x); }),
      both("clamp", pointwise, [](const auto& d) { return clamp(d.x, -1, 1); }),
      both("eq", pointwise, [](const auto& d) { return eq(d.x, d.y); }),
      both("where", pointwise, [](const auto& d) { return where(d.mask, d.x, d.y); }),
      both("masked_fill", pointwise, [](const auto& d) { return masked_fill(d.x, d.mask, 0.5); }),
      both("dropout", pointwise, [](const auto& d) { return dropout(d.x, 0.1); }),
      both("clone", pointwise, [](const auto& d) { return clone(d.x); }),
      both("to_float64", pointwise, [](const auto& d) { return to(d.x, dk::DType::float64); }),
      both("mse_loss", reduction, [](const auto& d) { return mse_loss(d.x, d.y); }),

      both("layer_norm", norm, [](const auto& d) { return layer_norm(d.x, d.bias, d.bias); }),
      both("rms_norm", norm, [](const auto& d) { return rms_norm(d.x, d.bias); }),
      both("group_norm", norm, [](const auto& d) { return group_norm(d.x, 8); }),
      both("batch_norm", norm, [](const auto& d) { return batch_norm(d.x); }),

      both("linear", linear, [](const auto& d) { return dk::linear(d.x, d.weight, d.bias); }),
      both("linear_down", linear, [](const auto& d) { return dk::linear(d.x, d.down); }),

      both("sum", reduction, [](const auto& d) { return sum(d.x); }),
      both("sum_ragged", reduction, [](const auto& d) { return sum(d.x, {1}); }),
      both("sum_batch", reduction, [](const auto& d) { return sum(d.x, {0}); }),
      both("sum_regular", reduction, [](const auto& d) { return sum(d.x, {2}, true); }),
      both("mean_ragged", reduction, [](const auto& d) { return mean(d.x, {1}); }),
      both("amax_ragged", reduction, [](const auto& d) { return amax(d.x, {1}); }),
      both("max_ragged", reduction, [](const auto& d) { return max(d.x, 1); }),
      both("argmax_ragged", reduction, [](const auto& d) { return argmax(d.x, 1); }),
      both("prod_ragged", reduction, [](const auto& d) { return prod(d.x, {1}); }),
      both("var_ragged", reduction, [](const auto& d) { return var(d.x, {1}); }),
      both("std_ragged", reduction, [](const auto& d) { return dk::std(d.x, {1}); }),
      both("norm_ragged", reduction, [](const auto& d) { return dk::norm(d.x, {1}); }),
      both("any_ragged", reduction, [](const auto& d) { return any(d.mask, {1}); }),
      both("logsumexp_ragged", reduction, [](const auto& d) { return logsumexp(d.x, 1); }),

      both("softmax_ragged", segment, [](const auto& d) { return softmax(d.x, 1); }),
      both("softmax_regular", segment, [](const auto& d) { return softmax(d.x, 2); }),
      both("log_softmax_ragged", segment, [](const auto& d) { return log_softmax(d.x, 1); }),
      both("cumsum_ragged", segment, [](const auto& d) { return cumsum(d.x, 1); }),

      both(
          "sort_ragged", Kind::sort, [](const auto& d) { return dk::sort(d.narrow, 1); }, Work::order),
      both("topk_ragged", Kind::sort, [](const auto& d) { return dk::topk(d.narrow, 1, 1); }),

      each(
          "matmul_scores", product, [](const auto& d) { return matmul(d.x, d.y, dk::MatmulOptions{.transpose_other = true}); },
          [](const auto& d) { return matmul(d.x, transpose(d.y, 1, 2)); }, Work::pairs, false),
      each(
          "matmul_contraction", product,
          [](const auto& d) { return matmul(d.x, d.narrow, dk::MatmulOptions{.transpose_self = true}); },
          [](const auto& d) { return matmul(transpose(d.x, 1, 2), d.narrow); }, Work::rows, false),
      both("matmul_shared", product, [](const auto& d) { return matmul(d.x, d.weight); }),
      each(
          "linear_own", product, [](const auto& d) { return dk::linear(d.x, d.own); },
          [](const auto& d) { return matmul(d.x, transpose(d.own, 1, 2)); }, Work::rows, false),
      both("conv1d", product, [](const auto& d) { return conv1d(d.x, d.kernel, {}, {.padding = dk::Padding::same}); }),
      both("avg_pool1d", segment, [](const auto& d) { return avg_pool1d(d.x, 3, {.stride = 1, .padding = dk::Padding::same}); }),
      both("max_pool1d", segment, [](const auto& d) { return max_pool1d(d.x, 3, {.stride = 1, .padding = dk::Padding::same}); }),

      both("cat_batch", structure,
           [](const auto& d) {
             return dk::cat({d.x, d.y}, 0);
           }),
      both("cat_ragged", structure,
           [](const auto& d) {
             return dk::cat({d.x, d.y}, 1);
           }),
      both("cat_regular", structure,
           [](const auto& d) {
             return dk::cat({d.x, d.y}, 2);
           }),
      both("flip_ragged", structure, [](const auto& d) { return flip(d.x, {1}); }),
      both("roll_ragged", structure, [](const auto& d) { return roll(d.x, 1, 1); }),
      each(
          "transpose", structure, [](const auto& d) { return transpose(d.x, 1, 2); },
          [](const auto& d) { return contiguous(transpose(d.x, 1, 2)); }),
      both("select_ragged", structure, [](const auto& d) { return contiguous(select(d.x, 1, 0)); }),
      both("slice_ragged", structure, [](const auto& d) { return contiguous(slice(d.x, 1, 1, 1'000'000)); }),
      both("chunk_regular", structure, [](const auto& d) { return contiguous(chunk(d.x, 2, 2).front()); }),
      both(
          "unbind", structure, [](const auto& d) { return unbind(d.x, 0); }, Work::rows, false),
      both("gather_ragged", structure, [](const auto& d) { return gather(d.x, 1, d.places); }),
      both("masked_select", structure, [](const auto& d) { return masked_select(d.x, d.keep); }),
      both("embedding", structure, [](const auto& d) { return embedding(d.table, d.ids); }),
      nested_only("to_padded", structure, [](const auto& d) { return d.x.to_padded(); }),
  };
}

}  // namespace

const std::vector<Case>& cases() {
  static const std::vector<Case> all = make_cases();
  return all;
}

}  // namespace nested_ops
