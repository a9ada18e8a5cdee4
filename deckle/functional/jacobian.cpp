#include "deckle/functional/jacobian.h"

#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {
namespace {

/// 1 at element i, else 0.
Tensor one_at(int64_t i, const Tensor& like) {
  const Tensor result = zeros(like.sizes(), like.dtype());
  fill_(select(view(result, {result.numel()}), 0, i), 1);
  return result;
}

Dims both(IntSpan a, IntSpan b) {
  Dims sizes(a);
  for (const int64_t size : b) sizes.push_back(size);
  return sizes;
}

using Map = std::function<Tensor(const Tensor&)>;

/// Column by column: d f / d x_i for each i.
Tensor by_columns(const Map& f, const Tensor& x, const Tensor& y) {
  std::vector<Tensor> columns;
  for (int64_t i = 0; i < x.numel(); ++i) columns.push_back(flatten(jvp(f, x, one_at(i, x)).second));
  return view(contiguous(transpose(stack(columns), 0, 1)), both(y.sizes(), x.sizes()));
}

}  // namespace

Tensor jacobian(const Map& f, const Tensor& x) {
  return call_as("jacobian", [&] {
    check(x.defined() && is_floating(x.dtype()), "x has no gradient (expected a tensor of a floating dtype)");
    const bool recorded = grad_enabled();
    const functional::ReverseScope scope(x);
    const Tensor y = f(scope.variables()[0]);
    const GradMode as_before(recorded);
    if (x.numel() == 0 || y.numel() == 0) return zeros(both(y.sizes(), x.sizes()), y.dtype());
    if (x.numel() < y.numel()) return by_columns(f, x, y);
    std::vector<Tensor> rows;
    for (int64_t i = 0; i < y.numel(); ++i) rows.push_back(scope.gradients({y}, {one_at(i, y)}, true)[0]);
    return reshape(stack(rows), both(y.sizes(), x.sizes()));
  });
}

Tensor hessian(const Map& f, const Tensor& x) {
  return call_as("hessian", [&] {
    check(x.defined() && is_floating(x.dtype()), "x has no gradient (expected a tensor of a floating dtype)");
    if (x.numel() == 0) return zeros(both(x.sizes(), x.sizes()), x.dtype());
    return by_columns([&](const Tensor& at) { return grad(f, at); }, x, x);
  });
}

}  // namespace deckle
