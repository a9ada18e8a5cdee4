// What was made in a room under other lengths: its rows, those of its views, and its gradient.
#include <functional>
#include <utility>
#include <vector>

#include "deckle/core/tensor_impl.h"
#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

using Lengths = std::vector<int64_t>;

/// What an op gives without memory of its own: always the first 16 of them and split and unbind, others may copy.
const std::pair<const char*, std::function<NestedTensor(const NestedTensor&)>> kViews[] = {
    {"detach", [](const NestedTensor& x) { return x.detach(); }},
    {"detach of ops", [](const NestedTensor& x) { return detach(x); }},
    {"to its device", [](const NestedTensor& x) { return x.to(x.device()); }},
    {"to its dtype", [](const NestedTensor& x) { return x.to(x.dtype()); }},
    {"contiguous", [](const NestedTensor& x) { return contiguous(x); }},
    {"reshape",
     [](const NestedTensor& x) {
       return reshape(x, {3, -1, 6});
     }},
    {"view",
     [](const NestedTensor& x) {
       return view(x, {3, -1, 6});
     }},
    {"flatten", [](const NestedTensor& x) { return flatten(x, 2, 3); }},
    {"unsqueeze", [](const NestedTensor& x) { return unsqueeze(x, -1); }},
    {"squeeze", [](const NestedTensor& x) { return squeeze(unsqueeze(x, 2), 2); }},
    {"transpose", [](const NestedTensor& x) { return transpose(x, 2, 3); }},
    {"expand",
     [](const NestedTensor& x) {
       return expand(unsqueeze(x, -1), {3, -1, 2, 3, 4});
     }},
    {"select", [](const NestedTensor& x) { return select(x, -1, 1); }},
    {"slice", [](const NestedTensor& x) { return slice(x, -1, 1, 3); }},
    {"narrow", [](const NestedTensor& x) { return narrow(x, -1, 1, 2); }},
    {"diagonal", [](const NestedTensor& x) { return diagonal(x, 0, 2, 3); }},
    {"repeat",
     [](const NestedTensor& x) {
       return repeat(x, {1, 1, 1, 1});
     }},
    {"pad",
     [](const NestedTensor& x) {
       return pad(x, {0, 0});
     }},
    {"roll", [](const NestedTensor& x) { return roll(x, 0, -1); }},
    {"flip", [](const NestedTensor& x) { return flip(x, {}); }},
    {"cat", [](const NestedTensor& x) { return cat(std::vector<NestedTensor>{x}, -1); }},
    {"dropout of none", [](const NestedTensor& x) { return dropout(x, 0); }},
    {"split", [](const NestedTensor& x) { return split(x, 2, -1)[0]; }},
    {"unbind", [](const NestedTensor& x) { return unbind(x, -1)[2]; }},
};

TEST(CudaOlderBatches, KeepTheirRowsWhereViewsAreMade) {
  NEEDS_GPU();
  RaggedCapacity room({.components = 3, .rows = 8}, kGpu);
  int views = 0;
  for (const auto& [name, view] : kViews) {
    SCOPED_TRACE(name);
    room.set_lengths(Lengths{3, 0, 2});
    const Tensor leaf = (rand({8, 2, 3}) + 1).to(kGpu).detach().requires_grad_();
    const NestedTensor x(leaf.detach(), room.ragged()), recorded(leaf, room.ragged());
    const Tensor before = x.values().clone(), of_view = view(x).values().clone();
    testing::expect_equal(slice(of_view, 0, 5, 8), zeros_like(slice(of_view, 0, 5, 8)));
    room.set_lengths(Lengths{1, 2});
    const NestedTensor same = view(x);
    testing::expect_equal(x.values(), before);
    if (same.values().impl()->storage == x.values().impl()->storage) {
      testing::expect_equal(same.values(), of_view);
      ++views;
    }
    // What is computed has the rows of now, and so have its gradients.
    const Tensor twice = (same * 2.0).values();
    testing::expect_equal(slice(twice, 0, 0, 3), slice(of_view, 0, 0, 3) * 2.0);
    testing::expect_equal(slice(twice, 0, 3, 8), zeros_like(slice(twice, 0, 3, 8)));
    const Tensor result = deckle::sum((view(recorded) + 1).values() * 3);
    if (result.requires_grad()) {  // detach ends it
      result.backward();
      testing::expect_equal(slice(leaf.grad(), 0, 3, 8), zeros({5, 2, 3}, DType::float32, kGpu));
      EXPECT_GT(deckle::sum(leaf.grad()).item(), 0);
    }
    testing::expect_equal(x.values(), before);
  }
  EXPECT_GE(views, 18);
}

TEST(CudaOlderBatches, AGradientKeepsTheRowsOfAll) {
  NEEDS_GPU();
  RaggedCapacity room({.components = 2, .rows = 4}, kGpu);
  const NestedTensor x = NestedTensor(ones({4, 1}, DType::float32, kGpu), room.ragged()).requires_grad_();
  for (const Lengths& lengths : {Lengths{3}, Lengths{1, 1}, Lengths{1}}) {
    room.set_lengths(lengths);
    deckle::sum((x * 2.0).values()).backward();
    static_cast<void>(x.grad());
  }
  EXPECT_EQ(x.grad().values().to_vector(), (std::vector<double>{6, 4, 2, 0}));
  EXPECT_EQ(x.values().grad().to_vector(), (std::vector<double>{6, 4, 2, 0}));
}

}  // namespace
}  // namespace deckle
