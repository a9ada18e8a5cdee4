#include "deckle/optim/clip.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "deckle/autograd/grad_mode.h"
#include "deckle/base/check.h"
#include "deckle/ops/generated/bitwise.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/foreach.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/optim/parameter_list.h"

namespace deckle::optim {

namespace {

/// Multiplies every gradient once: two parameters may hold one tensor, which counts for both in the norm.
template <typename Factor>
void scale(const std::vector<Tensor>& gradients, const Factor& factor) {
  std::vector<Tensor> different;
  std::multimap<std::pair<const Storage*, int64_t>, const Tensor*> seen;  // by the place of the first element
  for (const Tensor& gradient : gradients) {
    const std::pair place{gradient.storage().get(), gradient.offset()};
    const auto [begin, end] = seen.equal_range(place);
    if (std::any_of(begin, end, [&](const auto& entry) {
          return entry.second->sizes() == gradient.sizes() && entry.second->strides() == gradient.strides();
        }))
      continue;
    seen.emplace(place, &gradient);
    different.push_back(gradient);
  }
  foreach_scale_(different, factor);
}

/// The norm of all gradients as one vector, from the norm of each: in units of the largest's power of two, which changes no bit
/// of a usual result and whose squares neither overflow nor vanish.
double combine_norms(std::span<const double> norms) {
  double largest = 0, sum = 0;
  for (const double norm : norms) largest = std::max(largest, norm);  // a NaN is passed over here and meets the sum
  const int exponent = largest > 0 && std::isfinite(largest) ? std::ilogb(largest) : 0;
  for (const double norm : norms) {
    const double scaled = std::ldexp(norm, -exponent);
    sum += scaled * scaled;
  }
  return std::ldexp(std::sqrt(sum), exponent);
}

}  // namespace

Tensor gradient_norms(TensorList parameters) {
  return call_as("gradient_norms", [&] {
    const NoGrad no_grad;
    const std::vector<Tensor> gradients = gradients_of(parameters);
    return gradients.empty() ? zeros({0}, DType::float64) : foreach_norm(gradients);
  });
}

double gradient_norm(TensorList parameters) {
  return call_as("gradient_norm", [&] { return combine_norms(gradient_norms(parameters).to_vector()); });
}

double clip_gradient_norm(TensorList parameters, double max_norm, std::span<const double> norms) {
  return call_as("clip_gradient_norm", [&] {
    const NoGrad no_grad;
    const std::vector<Tensor> gradients = gradients_of(parameters);
    check(max_norm > 0, Argument{"max_norm"}, "is {} (expected more than 0)", max_norm);
    check(gradients.size() == norms.size(), Argument{"norms"}, "are {} for {} gradients (expected one for each)", norms.size(),
          gradients.size());
    const double norm = combine_norms(norms);
    if (std::isfinite(norm) && norm > max_norm) scale(gradients, max_norm / norm);
    return norm;
  });
}

double clip_gradient_norm(TensorList parameters, double max_norm) {
  const std::vector<double> norms = call_as("clip_gradient_norm", [&] { return gradient_norms(parameters).to_vector(); });
  return clip_gradient_norm(parameters, max_norm, norms);
}

Tensor clip_gradient_norm_on_device(TensorList parameters, double max_norm) {
  return call_as("clip_gradient_norm_on_device", [&] {
    const NoGrad no_grad;
    check(max_norm > 0, Argument{"max_norm"}, "is {} (expected more than 0)", max_norm);
    const Tensor norm = deckle::norm(gradient_norms(parameters));
    const Tensor factor = where(bitwise_and(isfinite(norm), gt(norm, max_norm)), max_norm / norm, 1.0);
    scale(gradients_of(parameters), factor);
    return norm;
  });
}

}  // namespace deckle::optim
