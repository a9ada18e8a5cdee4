// A function and all its derivatives to second order, on a device of choice.
#pragma once

#include <vector>

#include "deckle/functional/transforms.h"
#include "tests/support/random.h"

namespace deckle::testing {

using Leaves = std::vector<Tensor>;

inline Leaves to(const Leaves& x, Device device) {
  Leaves result;
  for (const Tensor& part : x) result.push_back(part.to(device).detach());
  return result;
}

/// Random numbers of the shapes and dtypes of x.
inline Leaves like(const Leaves& x) {
  Leaves result;
  for (const Tensor& part : x) result.push_back(random_tensor(part.sizes(), part.dtype()));
  return result;
}

constexpr const char* kDerivatives[] = {
    "result", "gradient", "tangent", "double backward", "forward over reverse", "reverse over forward", "forward over forward"};

/// What f and its derivatives are at x on a device, in the order of kDerivatives.
template <typename F>
std::vector<Leaves> every_derivative(F&& f, const Leaves& x, const Leaves& t, const Leaves& u, const Leaves& dy, const Leaves& du,
                                     Device device) {
  const Leaves on = to(x, device), along = to(t, device), other = to(u, device), cotangent = to(dy, device),
               back = to(du, device);
  const auto gradient = [&](const Leaves& at) { return vjp(f, at, cotangent).second; };
  const auto pushforward = [&](const Leaves& at) { return jvp(f, at, along).second; };
  return {f(on),
          gradient(on),
          pushforward(on),
          vjp(gradient, on, back).second,
          jvp(gradient, on, along).second,
          vjp(pushforward, on, cotangent).second,
          jvp(pushforward, on, other).second};
}

}  // namespace deckle::testing
