#include "tests/ops/semantic_checks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/shape.h"
#include "tests/ops/semantic_cells.h"
#include "tests/ops/semantic_support.h"
#include "tests/support/random.h"

namespace deckle::suite {

/// In place on a tensor with history, and on a part of one: what the functional form says.
void check_inplace(const Case& op) {
  if (!op.inplace || !floating(op.tensors[0])) return;
  Tensors x = differentiable(op);
  const bool self_wants = op.differentiable[0];
  if (!self_wants) x.insert(x.begin(), op.tensors[0]);
  const auto tensors_of = [&op, self_wants](const Tensors& v) {
    if (self_wants) return with(op, v);
    Tensors tensors = with(op, Tensors(v.begin() + 1, v.end()));
    tensors[0] = v[0];
    return tensors;
  };
  const Function functional = [&](const Tensors& v) {
    const Tensors results = op.call(tensors_of(v));
    return Tensors{to(results[0], op.tensors[0].dtype())};
  };
  const Function inplace = [&](const Tensors& v) {
    Tensors tensors = tensors_of(v);
    tensors[0] = clone(tensors[0]);
    op.inplace(tensors);
    return Tensors{tensors[0]};
  };
  expect_alike(inplace, functional, x, " in place");
  compared(op, Cell::inplace);
  const auto whole_of = [](const Tensor& part) {
    Dims sizes(part.sizes());
    sizes.push_back(3);
    return expand(unsqueeze(part, -1), sizes) * 1.0;
  };
  const Function on_view = [&](const Tensors& v) {
    Tensors tensors = tensors_of(v);
    const Tensor whole = whole_of(tensors[0]);
    const Tensor before = select(whole, -1, 1);
    tensors[0] = select(whole, -1, 1);
    op.inplace(tensors);
    return Tensors{whole, before * 1.0};
  };
  const Function beside = [&](const Tensors& v) {
    const Tensor result = functional(v)[0], start = tensors_of(v)[0];
    return Tensors{stack({start, result, start}, -1), result};
  };
  expect_alike(on_view, beside, x, " in place on a view");
  compared(op, Cell::inplace_view);
}

void check_inplace_operands(const Case& op) {
  if (!op.inplace) return;
  for_pairs(op, [&](size_t i, size_t j) {
    if (i != 0) return;
    const auto place = [&op, j](const Tensor& a, const Tensor& b) {
      Tensors tensors = op.tensors;
      tensors[0] = a;
      tensors[j] = b;
      return tensors;
    };
    const Function inplace = [&](const Tensors& v) {
      const Tensor own = clone(v[0]);
      op.inplace(place(own, own));
      return Tensors{own};
    };
    const Function functional = [&](const Tensors& v) { return op.call(place(v[0], v[0])); };
    const Tensor x = positive(op.tensors[0]);
    expect_alike(inplace, functional, {x}, fmt::format(" in place with itself as operand {}", j));
    compared(op, Cell::inplace_self);

    if (x.dim() == 0 || x.numel() == 0) return;
    // self is all rows but the last of a base, the operand all but the first.
    Dims sizes(x.sizes());
    const int64_t rows = sizes[0]++;
    const Tensor base = positive(testing::random_tensor(sizes));
    const Function shifted = [&](const Tensors& v) {
      const Tensor whole = clone(v[0]);
      op.inplace(place(slice(whole, 0, 0, rows), slice(whole, 0, 1, rows + 1)));
      return Tensors{whole};
    };
    const Function apart = [&](const Tensors& v) {
      const Tensor result = op.call(place(slice(v[0], 0, 0, rows), slice(v[0], 0, 1, rows + 1)))[0];
      return Tensors{cat({result, slice(v[0], 0, rows, rows + 1)}, 0)};
    };
    expect_alike(shifted, apart, {base}, fmt::format(" in place with an overlapping view as operand {}", j));
    compared(op, Cell::inplace_overlap);
  });
}

void check_out_refuses(const Case& op) {
  if (!op.out || !op.derivatives) return;
  const Tensor like = called(op, op.tensors)[0];
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    if (!op.differentiable[i]) continue;
    const Tensor target = empty(like.sizes(), like.dtype(), {});
    Tensors tensors = op.tensors;
    tensors[i] = tensors[i].detach().requires_grad_();
    std::string message;
    const auto call_out = [&] {
      try {
        op.out(tensors, target);
        message = "no error";
      } catch (const Error& error) {
        message = error.message();
      }
    };
    call_out();
    EXPECT_NE(message.find("an out= variant"), std::string::npos) << message;
    {
      const NoGrad quiet;
      call_out();
      EXPECT_EQ(message, "no error");
    }
    jvp(
        [&](const Tensors& v) {
          tensors[i] = v[0];
          call_out();
          return v;
        },
        Tensors{op.tensors[i]}, Tensors{ones_like_each({op.tensors[i]})});
    EXPECT_NE(message.find("an out= variant"), std::string::npos) << message;
    compared(op, Cell::out_refuses);
  }
}

}  // namespace deckle::suite
