#include <gtest/gtest.h>

#include "deckle/core/cuda/counters.h"
#include "deckle/core/cuda/device.h"
#include "deckle/ops/generated/shape.h"
#include "tests/ops/semantic_support.h"
#include "tests/ops/suite_device.h"
#include "tests/ops/tolerances.h"

namespace deckle::suite {
namespace {

/// What derivatives are taken of and along, on one device.
struct Point {
  Function f;
  Tensors x, c, t, u;
};

Point moved(const Point& point, Function f) {
  return {std::move(f), on_gpu(point.x), on_gpu(point.c), on_gpu(point.t), on_gpu(point.u)};
}

Tensors gradient(const Point& p) { return vjp(p.f, p.x, p.c).second; }
Function gradient_of(const Point& p) {
  return [&p](const Tensors& at) { return vjp(p.f, at, p.c).second; };
}
Function slope_of(const Point& p) {
  return [&p](const Tensors& at) { return jvp(p.f, at, p.u).second; };
}

struct Mode {
  const char* name;
  Tensors (*derivative)(const Point& p);
};
constexpr Mode kModes[] = {
    {"reverse mode", gradient},
    {"forward mode", [](const Point& p) { return jvp(p.f, p.x, p.t).second; }},
    {"reverse over reverse", [](const Point& p) { return vjp(gradient_of(p), p.x, p.u).second; }},
    {"forward over reverse", [](const Point& p) { return jvp(gradient_of(p), p.x, p.u).second; }},
    {"reverse over forward", [](const Point& p) { return vjp(slope_of(p), p.x, p.c).second; }},
    {"forward over forward", [](const Point& p) { return jvp(slope_of(p), p.x, p.t).second; }},
};

/// The op in place, on a copy of its first tensor, which is the result.
Case in_place(const Case& op) {
  Case result = op;
  result.call = [inplace = op.inplace](const Tensors& tensors) {
    Tensors own = tensors;
    own[0] = clone(own[0]);
    inplace(own);
    return Tensors{own[0]};
  };
  return result;
}

void check_modes_of(const Case& op, const std::string& form) {
  Case there = op;
  there.tensors = on_gpu(op.tensors);
  const Function f = function_of(op);
  const Tensors x = differentiable(op), like = f(x);
  if (like.empty() || x.empty()) return;
  const Point host{f, x, random_like(like), random_like(x), random_like(x)};
  const Point gpu = moved(host, function_of(there));
  for (const Mode& mode : kModes) {
    const int64_t waits = cuda::counters(kGpu).waits;
    const std::function<Tensors()> call = [&] {
      const Tensors results = mode.derivative(gpu);
      if (!op.host) {
        EXPECT_EQ(cuda::counters(kGpu).waits, waits) << "the host waited for the GPU in " << mode.name << form;
      }
      return results;
    };
    expect_same_answer(
        call, [&] { return mode.derivative(host); }, 1e-9, mode.name + form);
  }
}

}  // namespace

void check_derivatives_on_device(const Case& op) {
  check_modes_of(op, "");
  if (op.inplace && op.differentiable[0]) check_modes_of(in_place(op), " in place");
}

void check_narrow_gradients_on_device(const Case& op) {
  for (const auto& [dtype, tolerance] : kNarrow) {
    Case narrow = op;
    narrow.tensors = mapped(op.tensors, [&, to = dtype](const Tensor& tensor) {
      return tensor.dtype() == DType::float64 ? converted(tensor, to) : tensor;
    });
    Case there = narrow;
    there.tensors = on_gpu(narrow.tensors);
    const Tensors x = differentiable(narrow), like = function_of(narrow)(x);
    if (like.empty() || x.empty()) return;
    const Point host{function_of(narrow), x, random_like(like), {}, {}}, gpu = moved(host, function_of(there));
    expect_same_answer([&] { return gradient(gpu); }, [&] { return gradient(host); }, tolerance,
                       "gradients in " + std::string(name(dtype)));
  }
}

}  // namespace deckle::suite
