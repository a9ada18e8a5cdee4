// What each op of a random program is.
#include <algorithm>
#include <cmath>
#include <limits>

#include "deckle/attention/attention.h"
#include "deckle/nested/generated/all.h"
#include "deckle/nested/operators.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/matmul.h"
#include "deckle/ops/generated/norm.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/scan.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/generated/sort.h"
#include "tests/nested/program.h"

namespace deckle::testing {
namespace {

template <typename A, typename B>
auto binary_of(const std::string& op, const A& a, const B& b) {
  if (op == "add") return add(a, b);
  if (op == "sub") return sub(a, b);
  if (op == "mul") return mul(a, b);
  if (op == "maximum") return maximum(a, b);
  return div(a, add(square(b), 1.0));
}
bool is_binary(const std::string& op) { return op == "add" || op == "sub" || op == "mul" || op == "maximum" || op == "div"; }

template <typename X>
X reduced(const std::string& op, const X& x, const std::vector<int64_t>& dims, bool keepdim) {
  if (op == "sum") return sum(x, dims, keepdim);
  if (op == "mean") return mean(x, dims, keepdim);
  if (op == "amax") return amax(x, dims, keepdim);
  if (op == "amin") return amin(x, dims, keepdim);
  if (op == "prod") return prod(x, dims, keepdim);
  if (op == "var") return var(x, dims, {.correction = 0, .keepdim = keepdim});
  if (op == "norm") return norm(x, dims, keepdim);
  return logsumexp(x, dims[0], keepdim);
}
bool is_reduction(const std::string& op) {
  static const std::vector<std::string> kOps = {"sum", "mean", "amax", "amin", "prod", "var", "norm", "logsumexp"};
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

std::vector<int64_t> inner(std::vector<int64_t> dims) {
  for (int64_t& dim : dims) --dim;
  return dims;
}

/// The sum or mean of the components position by position, of those that reach it.
Tensor over_batch(const std::string& op, const Parts& parts) {
  Dims longest(parts[0].sizes());
  for (const Tensor& part : parts) {
    for (int64_t d = 0; d < part.dim(); ++d)
      longest[static_cast<size_t>(d)] = std::max(longest[static_cast<size_t>(d)], part.size(d));
  }
  Tensor total = zeros(longest, parts[0].dtype()), count = zeros(longest, parts[0].dtype());
  for (const Tensor& part : parts) {
    Tensor padded = part, ones = ones_like(part);
    for (int64_t d = 0; d < part.dim(); ++d) {
      Dims rest(padded.sizes());
      rest[static_cast<size_t>(d)] = longest[static_cast<size_t>(d)] - part.size(d);
      padded = cat({padded, zeros(rest, part.dtype())}, d);
      ones = cat({ones, zeros(rest, part.dtype())}, d);
    }
    total = total + padded;
    count = count + ones;
  }
  return op == "mean" ? total / count : total;
}

/// How attention's step is spelled: which mask, whether logits are capped, whether they have a ragged bias.
enum : int64_t { kEveryKey, kCausal, kWindow };

AttentionMask mask_of(int64_t kind) {
  return kind == kCausal ? AttentionMask(masks::causal()) : kind == kWindow ? AttentionMask(masks::window(1, 1)) : masks::full();
}

/// One head where a row has no dim of heads.
NestedTensor with_heads(const NestedTensor& x) { return x.dim() == 3 ? unsqueeze(x, 2) : x; }
Tensor with_heads(const Tensor& x) { return x.dim() == 2 ? unsqueeze(x, 1) : x; }

NestedTensor nested_attention(const Step& step, const NestedTensor& q, const NestedTensor& k, const NestedTensor& v) {
  AttentionOptions options{.mask = mask_of(step.first), .soft_cap = step.second == 1 ? 1.5 : 0.0};
  if (step.third == 1) options.ragged_bias = matmul(sum(q, {2}), transpose(sum(k, {2}), 1, 2));
  return attention(q, k, v, options);
}

/// Attention of one component by its definition, q [M, H, D]. A row that sees no key is 0.
Tensor attention_by_definition(const Step& step, const Tensor& q, const Tensor& k, const Tensor& v) {
  const int64_t rows = q.size(0), keys = k.size(0);
  if (keys == 0) return zeros({rows, q.size(1), v.size(2)}, q.dtype());
  const Tensor unseen = zeros({rows, keys}, DType::bool_), blind = zeros({rows, 1}, DType::bool_);
  for (int64_t i = 0; i < rows; ++i) {
    bool any = false;
    for (int64_t j = 0; j < keys; ++j) {
      const int64_t distance = j - (i + keys - rows);
      const bool sees = step.first == kCausal ? distance <= 0 : step.first == kWindow ? distance >= -1 && distance <= 1 : true;
      unseen.data<bool>()[i * keys + j] = !sees;
      any |= sees;
    }
    blind.data<bool>()[i] = !any;
  }
  const auto by_head = [](const Tensor& x) { return transpose(x, 0, 1); };
  Tensor logits = mul(matmul(by_head(q), transpose(by_head(k), 1, 2)), 1 / std::sqrt(static_cast<double>(q.size(2))));
  if (step.second == 1) logits = mul(tanh(div(logits, 1.5)), 1.5);
  if (step.third == 1) logits = add(logits, matmul(sum(q, {1}), transpose(sum(k, {1}), 0, 1)));
  const Tensor seen = masked_fill(masked_fill(logits, unseen, -std::numeric_limits<double>::infinity()), blind, 0.0);
  return by_head(matmul(masked_fill(softmax(seen, -1), blind, 0.0), by_head(v)));
}

/// A convolution by its definition: for each place of the weight the rows that it is multiplied with, added up. x [..., L, in].
Tensor conv1d_by_definition(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t stride, Padding padding) {
  const int64_t length = x.size(-2), reach = weight.size(2) - 1, all = padding == Padding::valid ? length : length + reach;
  const int64_t windows = length == 0 || all <= reach ? 0 : (all - reach - 1) / stride + 1;
  const int64_t before = padding == Padding::same ? reach / 2 : padding == Padding::causal ? reach : 0;
  Dims sizes(x.sizes());
  if (windows == 0) {
    sizes[sizes.size() - 2] = 0;
    sizes.back() = weight.size(0);
    return zeros(sizes, x.dtype());
  }
  sizes[sizes.size() - 2] = reach;
  const Tensor beside = zeros(sizes, x.dtype()), padded = cat({beside, x, beside}, -2);
  Tensor result;
  for (int64_t k = 0; k <= reach; ++k) {
    const int64_t first = reach - before + k;
    const Tensor term =
        matmul(slice(padded, -2, first, first + (windows - 1) * stride + 1, stride), transpose(select(weight, 2, k), 0, 1));
    result = result.defined() ? add(result, term) : term;
  }
  return add(result, bias);
}

/// The same of images [..., H, W, in]: a convolution of each row of the weight, added up over rows of the image.
Tensor conv2d_by_definition(const Tensor& x, const Tensor& weight, const Tensor& bias, Padding padding) {
  const int64_t height = x.size(-3), reach = weight.size(2) - 1;
  const int64_t before = padding == Padding::same ? reach / 2 : 0;
  const int64_t rows = padding == Padding::valid ? std::max<int64_t>(0, height - reach) : height;
  Dims sizes(x.sizes());
  sizes[sizes.size() - 3] = reach;
  const Tensor beside = zeros(sizes, x.dtype()), padded = cat({beside, x, beside}, -3);
  const Tensor nothing = zeros({weight.size(0)}, x.dtype());
  Tensor result;
  for (int64_t k = 0; k <= reach; ++k) {
    const int64_t first = reach - before + k;
    const Tensor term = conv1d_by_definition(slice(padded, -3, first, first + rows), select(weight, 2, k), nothing, 1, padding);
    result = result.defined() ? add(result, term) : term;
  }
  return add(result, bias);
}

/// Writes into y, a copy of its own: `other` and `own` are a second operand of y's shape and a dense one.
template <typename X>
X written(const std::string& op, const X& y, const X& other, const Tensor& own) {
  if (op == "scaled_and_added_") return y.mul_(0.5).add_(other);
  if (op == "tanh_of_product_") return y.mul_(own).tanh_();
  return y.masked_fill_(lt(other, 0.1), -0.5).square_();
}
bool is_written(const std::string& op) {
  return op == "scaled_and_added_" || op == "tanh_of_product_" || op == "filled_and_squared_";
}

}  // namespace

const std::map<std::string, Unary>& unary_ops() {
#define PAIR(op)                                                                         \
  {                                                                                      \
#op, {                                                                               \
      [](const NestedTensor& x) { return op(x); }, [](const Tensor& x) { return op(x); } \
    }                                                                                    \
  }
  static const std::map<std::string, Unary> kOps = {PAIR(tanh), PAIR(sin),  PAIR(sigmoid), PAIR(silu),  PAIR(softplus),
                                                    PAIR(neg),  PAIR(gelu), PAIR(erf),     PAIR(square)};
#undef PAIR
  return kOps;
}

NestedTensor run_nested(const Step& step, const std::vector<Value>& values, const std::vector<Tensor>& dense) {
  const NestedTensor& x = values[step.from[0]].nested;
  const std::string& op = step.op;
  if (const auto unary = unary_ops().find(op); unary != unary_ops().end()) return unary->second.first(x);
  if (is_binary(op))
    return step.from.size() > 1 ? binary_of(op, x, values[step.from[1]].nested)
           : step.first == 0    ? binary_of(op, x, dense[0])
                                : binary_of(op, dense[0], x);
  if (op == "scale") return sub(mul(x, 0.75), 0.5);
  if (op == "minus_from") return sub(1.5, x);
  if (op == "where") return where(gt(x, 0.2), values[step.from[1]].nested, 0.25);
  if (op == "masked_fill") return masked_fill(x, lt(values[step.from[1]].nested, 0.1), -0.5);
  if (op == "batch_sum") return sum(x, {0});
  if (op == "batch_mean") return mean(x, {0});
  if (is_reduction(op)) return reduced(op, x, step.dims, step.keepdim);
  if (op == "softmax") return softmax(x, step.dims[0]);
  if (op == "log_softmax") return log_softmax(x, step.dims[0]);
  if (op == "cumsum") return cumsum(x, step.dims[0], step.keepdim);
  if (op == "matmul") return matmul(x, dense[0]);
  if (op == "linear") return linear(x, dense[0], dense[1]);
  if (op == "layer_norm") return layer_norm(x, dense[0], dense[1], 0.1);
  if (op == "rms_norm") return rms_norm(x, dense[0], 0.1);
  if (op == "scores") return matmul(x, transpose(values[step.from[1]].nested, 1, 2));
  if (op == "mix") return matmul(x, values[step.from[1]].nested);
  if (op == "transpose") return transpose(x, step.dims[0], step.dims[1]);
  if (op == "select") return select(x, step.dims[0], step.first);
  if (op == "slice") return slice(x, step.dims[0], step.first, step.second, step.third);
  if (op == "narrow") return narrow(x, step.dims[0], step.first, step.second);
  if (op == "flip") return flip(x, step.dims);
  if (op == "roll") return roll(x, step.first, step.dims[0]);
  if (op == "index_select") return index_select(x, step.dims[0], integers({step.first, step.second, step.first}));
  if (op == "cat") return cat({x, values[step.from[1]].nested}, step.dims[0]);
  if (op == "stack") return stack({x, values[step.from[1]].nested}, step.dims[0]);
  if (op == "unsqueeze") return unsqueeze(x, step.dims[0]);
  if (op == "attention")
    return nested_attention(step, with_heads(x), with_heads(values[step.from[1]].nested),
                            with_heads(values[step.from[2]].nested));
  if (op == "sort") return sort(x, step.dims[0], {.descending = step.keepdim}).values;
  if (op == "topk") return topk(x, step.first, step.dims[0], {.largest = step.keepdim}).values;
  if (op == "cummax") return cummax(x, step.dims[0]).values;
  if (op == "conv1d") return conv1d(x, dense[0], dense[1], {.stride = step.first, .padding = static_cast<Padding>(step.second)});
  if (op == "conv2d") return conv2d(x, dense[0], dense[1], {.padding = static_cast<Padding>(step.second)});
  if (is_written(op)) return written(op, clone(x), values[step.from.back()].nested, dense.empty() ? Tensor() : dense[0]);
  if (op == "component_times_") {
    const NestedTensor y = clone(x);
    y[step.first].mul_(-1.5);
    return y;
  }
  if (op == "place_plus_") {
    const NestedTensor y = clone(x);
    select(y, step.dims[0], step.first).add_(dense[0]);
    return y;
  }
  throw std::logic_error("no op " + op);
}

Parts run_loop(const Step& step, const std::vector<Value>& values, const std::vector<Tensor>& dense) {
  const Value& x = values[step.from[0]];
  const std::string& op = step.op;
  if (op == "batch_sum") return {over_batch("sum", x.parts)};
  if (op == "batch_mean") return {over_batch("mean", x.parts)};
  const int64_t count = static_cast<int64_t>(x.parts.size());
  if (!step.dims.empty() && step.dims[0] == 0) {  // the batch
    Parts parts = x.parts;
    if (op == "flip") std::reverse(parts.begin(), parts.end());
    if (op == "roll") {
      for (int64_t b = 0; b < count; ++b)
        parts[static_cast<size_t>(((b + step.first) % count + count) % count)] = x.parts[static_cast<size_t>(b)];
    }
    if (op == "cat") parts.insert(parts.end(), values[step.from[1]].parts.begin(), values[step.from[1]].parts.end());
    if (op == "index_select")
      parts = {x.parts[static_cast<size_t>(step.first)], x.parts[static_cast<size_t>(step.second)],
               x.parts[static_cast<size_t>(step.first)]};
    return parts;
  }
  Parts parts;
  for (size_t b = 0; b < x.parts.size(); ++b) {
    const Tensor& part = x.parts[b];
    const auto other = [&] { return values[step.from[1]].parts.at(b); };
    const int64_t dim = step.dims.empty() ? 0 : step.dims[0] - 1;
    if (const auto unary = unary_ops().find(op); unary != unary_ops().end()) {
      parts.push_back(unary->second.second(part));
    } else if (is_binary(op) && step.from.size() > 1) {
      // Of fewer dims: the ragged ones correspond from the left, the regular ones from the right.
      Tensor left = part, right = other();
      while (left.dim() < right.dim()) left = left.unsqueeze(x.ragged_dims());
      while (right.dim() < left.dim()) right = right.unsqueeze(values[step.from[1]].ragged_dims());
      parts.push_back(binary_of(op, left, right));
    } else if (is_binary(op)) {
      const Tensor own = step.second == 1 ? dense[0][static_cast<int64_t>(b)] : dense[0];
      parts.push_back(step.first == 0 ? binary_of(op, part, own) : binary_of(op, own, part));
    } else if (op == "scale") {
      parts.push_back(sub(mul(part, 0.75), 0.5));
    } else if (op == "minus_from") {
      parts.push_back(sub(1.5, part));
    } else if (op == "where") {
      parts.push_back(where(gt(part, 0.2), other(), 0.25));
    } else if (op == "masked_fill") {
      parts.push_back(masked_fill(part, lt(other(), 0.1), -0.5));
    } else if (is_reduction(op)) {
      parts.push_back(reduced(op, part, inner(step.dims), step.keepdim));
    } else if (op == "softmax") {
      parts.push_back(softmax(part, dim));
    } else if (op == "log_softmax") {
      parts.push_back(log_softmax(part, dim));
    } else if (op == "cumsum") {
      parts.push_back(cumsum(part, dim, step.keepdim));
    } else if (op == "matmul") {
      parts.push_back(matmul(part, dense[0]));
    } else if (op == "linear") {
      parts.push_back(linear(part, dense[0], dense[1]));
    } else if (op == "layer_norm") {
      parts.push_back(layer_norm(part, dense[0], dense[1], 0.1));
    } else if (op == "rms_norm") {
      parts.push_back(rms_norm(part, dense[0], 0.1));
    } else if (op == "scores") {
      parts.push_back(matmul(part, transpose(other(), 0, 1)));
    } else if (op == "mix") {
      parts.push_back(matmul(part, other()));
    } else if (op == "transpose") {
      parts.push_back(transpose(part, dim, step.dims[1] - 1));
    } else if (op == "select") {
      parts.push_back(select(part, dim, step.first));
    } else if (op == "slice") {
      parts.push_back(slice(part, dim, step.first, step.second, step.third));
    } else if (op == "narrow") {
      parts.push_back(narrow(part, dim, step.first, step.second));
    } else if (op == "flip") {
      parts.push_back(flip(part, inner(step.dims)));
    } else if (op == "roll") {
      parts.push_back(roll(part, step.first, dim));
    } else if (op == "index_select") {
      parts.push_back(index_select(part, dim, integers({step.first, step.second, step.first})));
    } else if (op == "cat") {
      parts.push_back(cat({part, other()}, dim));
    } else if (op == "stack") {
      parts.push_back(stack({part, other()}, dim));
    } else if (op == "unsqueeze") {
      parts.push_back(unsqueeze(part, dim));
    } else if (op == "attention") {
      parts.push_back(
          attention_by_definition(step, with_heads(part), with_heads(other()), with_heads(values[step.from[2]].parts.at(b))));
    } else if (op == "sort") {
      parts.push_back(sort(part, dim, {.descending = step.keepdim}).values);
    } else if (op == "topk") {
      parts.push_back(topk(part, std::min(step.first, part.size(dim)), dim, {.largest = step.keepdim}).values);
    } else if (op == "cummax") {
      parts.push_back(cummax(part, dim).values);
    } else if (op == "conv1d") {
      parts.push_back(conv1d_by_definition(part, dense[0], dense[1], step.first, static_cast<Padding>(step.second)));
    } else if (op == "conv2d") {
      parts.push_back(conv2d_by_definition(part, dense[0], dense[1], static_cast<Padding>(step.second)));
    } else if (is_written(op)) {
      parts.push_back(written(op, part.clone(), values[step.from.back()].parts.at(b), dense.empty() ? Tensor() : dense[0]));
    } else if (op == "component_times_") {
      parts.push_back(static_cast<int64_t>(b) == step.first ? mul(part, -1.5) : part);
    } else if (op == "place_plus_") {
      const Tensor y = part.clone();
      select(y, dim, step.first).add_(dense[0]);
      parts.push_back(y);
    } else {
      throw std::logic_error("no op " + op);
    }
  }
  return parts;
}

}  // namespace deckle::testing
