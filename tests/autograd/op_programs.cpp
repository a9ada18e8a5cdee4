#include "tests/autograd/op_programs.h"

#include <algorithm>
#include <any>

#include "deckle/deckle.h"

namespace deckle::op_programs {
namespace {

using Unary = Tensor (*)(Draw&, const Tensor&);
using Binary = Tensor (*)(Draw&, const Tensor&, const Tensor&);
using Arranged = Tensor (*)(Draw&, const Tensor&, int64_t, int64_t);
using Reduced = Tensor (*)(const Tensor&, int64_t, int64_t, bool);
using Joined = Tensor (*)(Draw&, const Tensor&, const Tensor&);
using Write = void (*)(Draw&, const Tensor&, const Tensor&, const Tensor&);

Tensor with_a_dim(const Tensor& x) { return x.dim() > 0 ? x : x.unsqueeze(0); }
Tensor matrix(const Tensor& x) {
  if (x.dim() == 2) return x;
  return x.dim() < 2 ? x.reshape({1, -1}) : x.reshape({x.size(0), -1});
}
Dims both(const Tensor& a, const Tensor& b) { return Dims((a + b).sizes()); }
/// Whether b broadcasts with a, of as many dims at least.
bool broadcasts(const Tensor& a, const Tensor& b) {
  for (int64_t d = 1; d <= std::min(a.dim(), b.dim()); ++d) {
    const int64_t m = a.size(-d), n = b.size(-d);
    if (m != n && m != 1 && n != 1) return false;
  }
  return a.dim() >= b.dim();
}
Dims expanded(const Tensor& x, int64_t dim) {
  Dims sizes(x.sizes());
  sizes.insert(sizes.begin() + dim, 2);
  return sizes;
}
Dims rows(const Tensor& a, int64_t count) {
  Dims sizes(a.sizes());
  sizes[0] = count;
  return sizes;
}

// The first kDeterministic draw nothing, so that a checkpoint may run them again.
/// Of one tensor, of its shape or nearly.
const Unary kUnary[] = {
    [](Draw&, const Tensor& x) { return tanh(x); },
    [](Draw&, const Tensor& x) { return sin(x); },
    [](Draw&, const Tensor& x) { return exp(tanh(x)); },
    [](Draw&, const Tensor& x) { return sigmoid(x); },
    [](Draw&, const Tensor& x) { return softplus(x); },
    [](Draw&, const Tensor& x) { return square(tanh(x)); },
    [](Draw&, const Tensor& x) { return erf(x); },
    [](Draw&, const Tensor& x) { return gelu(x); },
    [](Draw&, const Tensor& x) { return silu(x); },
    [](Draw&, const Tensor& x) { return sqrt(square(x) + 1.0); },
    [](Draw&, const Tensor& x) { return log(square(x) + 1.0); },
    [](Draw&, const Tensor& x) { return reciprocal(square(x) + 1.5); },
    [](Draw&, const Tensor& x) { return rsqrt(square(x) + 0.5); },
    [](Draw&, const Tensor& x) { return pow(square(x) + 0.3, 1.5); },
    [](Draw&, const Tensor& x) { return pow(tanh(x), 3); },
    [](Draw&, const Tensor& x) { return atan(x); },
    [](Draw&, const Tensor& x) { return gelu_tanh(x); },
    [](Draw&, const Tensor& x) { return log1p(square(x)); },
    [](Draw&, const Tensor& x) { return expm1(tanh(x)); },
    [](Draw&, const Tensor& x) { return cos(x) * x; },
    [](Draw&, const Tensor& x) { return softmax(with_a_dim(x), -1); },
    [](Draw&, const Tensor& x) { return log_softmax(with_a_dim(x), 0); },
    [](Draw&, const Tensor& x) { return cumsum(with_a_dim(x), -1) * 0.4; },
    [](Draw&, const Tensor& x) { return elu(x - 3.0); },
    [](Draw&, const Tensor& x) { return clamp(x, -30, 30) * 0.7; },
    [](Draw& draw, const Tensor& x) { return where(draw.constant(x.sizes()) > 0, x, tanh(x)); },
    [](Draw& draw, const Tensor& x) { return masked_fill(x, draw.constant(x.sizes()) > 0.4, draw.number()); },
    [](Draw&, const Tensor& x) { return tan(tanh(x) * 0.5); },
    [](Draw&, const Tensor& x) { return pow(2.0, tanh(x)); },
    [](Draw&, const Tensor& x) { return x / (square(x) + 1.0); },
};
constexpr size_t kDeterministic = 20;

/// Of two that broadcast, which may be one.
const Binary kBinary[] = {
    [](Draw&, const Tensor& a, const Tensor& b) { return a + b; },
    [](Draw&, const Tensor& a, const Tensor& b) { return a - b; },
    [](Draw&, const Tensor& a, const Tensor& b) { return tanh(a) * b; },
    [](Draw&, const Tensor& a, const Tensor& b) { return a / (square(b) + 1.0); },
    [](Draw&, const Tensor& a, const Tensor& b) { return hypot(a, b + 3.0); },
    [](Draw&, const Tensor& a, const Tensor& b) { return atan2(a, square(b) + 1.0); },
    [](Draw&, const Tensor& a, const Tensor& b) { return pow(square(a) + 0.5, tanh(b)); },
    [](Draw&, const Tensor& a, const Tensor& b) { return lerp(a, b, 0.3); },
    [](Draw&, const Tensor& a, const Tensor& b) { return lerp(a, b, sigmoid(b)); },
    [](Draw& draw, const Tensor& a, const Tensor& b) { return where(draw.constant(a.sizes()) > 0, a, b); },
    [](Draw& draw, const Tensor& a, const Tensor& b) {
      return a * tensor({1, 0, 2}).select(0, draw.index(3)) + b;
    },  // int64
    [](Draw&, const Tensor& a, const Tensor& b) {
      return mse_loss(a.expand(both(a, b)), b.expand(both(a, b)), {.reduction = Reduction::none});
    },
    [](Draw&, const Tensor&, const Tensor& b) {
      return addmm(matrix(b).mm(matrix(b).t()).tanh(), tanh(matrix(b)), matrix(b).t(), 0.5, 0.25);
    },
    [](Draw&, const Tensor& a, const Tensor&) { return matmul(matrix(tanh(a)), matrix(tanh(a)).t()); },
};

/// Views and copies along a dim of size n.
const Arranged kArranged[] = {
    [](Draw&, const Tensor& x, int64_t dim, int64_t) { return x.transpose(0, dim); },
    [](Draw&, const Tensor& x, int64_t, int64_t) { return x.flatten(); },
    [](Draw& draw, const Tensor& x, int64_t dim, int64_t n) { return x.select(dim, draw.index(n)); },
    [](Draw&, const Tensor& x, int64_t dim, int64_t n) { return x.slice(dim, n > 1 ? 1 : 0, n); },
    [](Draw&, const Tensor& x, int64_t dim, int64_t n) { return x.slice(dim, 0, n, 2); },
    [](Draw&, const Tensor& x, int64_t dim, int64_t) { return x.unsqueeze(dim).expand(expanded(x, dim)).tanh(); },
    [](Draw&, const Tensor& x, int64_t dim, int64_t) { return flip(x, {dim}); },
    [](Draw&, const Tensor& x, int64_t dim, int64_t) { return roll(x, 1, dim); },
    [](Draw&, const Tensor& x, int64_t dim, int64_t n) {
      return index_select(x, dim, tensor({0, 0, static_cast<int>(n - 1)}));
    },
    [](Draw& draw, const Tensor& x, int64_t, int64_t) { return tril(matrix(x), draw.index(3) - 1); },
    [](Draw& draw, const Tensor& x, int64_t, int64_t) { return triu(matrix(x), draw.index(3) - 1); },
    [](Draw&, const Tensor& x, int64_t, int64_t) { return diagonal(matrix(x)); },
    [](Draw& draw, const Tensor& x, int64_t, int64_t) {
      return pad(x, {1, 2}, draw.flip() ? PadMode::constant : PadMode::replicate, 0.5);
    },
    [](Draw&, const Tensor& x, int64_t, int64_t) { return x.flatten().repeat({2}); },
    [](Draw& draw, const Tensor& x, int64_t dim, int64_t n) { return x.unbind(dim)[draw.choose(static_cast<size_t>(n))]; },
    [](Draw&, const Tensor& x, int64_t dim, int64_t) { return x.chunk(2, dim).back(); },
    [](Draw&, const Tensor& x, int64_t dim, int64_t) { return gather(x, dim, zeros_like(x).to(DType::int64)); },
    [](Draw&, const Tensor& x, int64_t dim, int64_t) { return x.unsqueeze(dim); },
    [](Draw&, const Tensor& x, int64_t dim, int64_t) { return x.repeat_interleave(2, dim); },
    [](Draw&, const Tensor& x, int64_t dim, int64_t) { return take_along_dim(x, argsort(x.detach(), dim), dim); },
};

/// Along a dim.
const Reduced kReduced[] = {
    [](const Tensor& x, int64_t dim, int64_t, bool keep) { return sum(x, {dim}, keep) * 0.5; },
    [](const Tensor& x, int64_t dim, int64_t, bool keep) { return mean(x, {dim}, keep); },
    [](const Tensor& x, int64_t dim, int64_t, bool keep) { return var(x, {dim}, {.correction = 0, .keepdim = keep}); },
    [](const Tensor& x, int64_t dim, int64_t, bool keep) { return logsumexp(x, dim, keep); },
    [](const Tensor& x, int64_t dim, int64_t, bool keep) { return prod(tanh(x) + 0.2, {dim}, keep); },
    [](const Tensor& x, int64_t dim, int64_t, bool keep) { return norm(square(x) + 0.5, {dim}, keep); },
    [](const Tensor& x, int64_t dim, int64_t, bool keep) {
      return std(cat({x, x * 0.3 + 2.0}, dim), {dim}, {.keepdim = keep});
    },
    [](const Tensor& x, int64_t, int64_t, bool) { return sum(x * x); },
    [](const Tensor& x, int64_t, int64_t, bool) {
      return layer_norm(cat({x, sin(x) + 2.0}, -1), {}, {}, 1e-2);
    },
    [](const Tensor& x, int64_t, int64_t, bool) { return rms_norm(x, {}, 1e-1); },
    [](const Tensor& x, int64_t dim, int64_t, bool) { return std::get<0>(sort(x, dim)); },
    [](const Tensor& x, int64_t dim, int64_t, bool keep) { return amax(x, {dim}, keep); },
    [](const Tensor& x, int64_t dim, int64_t, bool keep) { return std::get<0>(max(x, dim, keep)); },
    [](const Tensor& x, int64_t, int64_t, bool) {
      return cross_entropy(matrix(x), zeros({matrix(x).size(0)}, DType::int64), {.label_smoothing = 0.1});
    },
    [](const Tensor& x, int64_t dim, int64_t n, bool) { return std::get<0>(topk(x, n > 1 ? n - 1 : 1, dim)); },
};

/// Of any two with dims.
const Joined kJoined[] = {
    [](Draw& draw, const Tensor& a, const Tensor&) {
      return cat({a, a}, draw.index(a.dim()));
    },
    [](Draw& draw, const Tensor& a, const Tensor&) {
      return stack({a, a * 0.5, a}, draw.index(a.dim()));
    },
    [](Draw&, const Tensor& a, const Tensor& b) {
      return cat({a.flatten(), b.flatten()});
    },
    [](Draw&, const Tensor& a, const Tensor& b) {
      return outer(tanh(a.flatten()).slice(0, 0, 5), tanh(b.flatten()).slice(0, 0, 4));
    },
    [](Draw& draw, const Tensor& a, const Tensor&) {
      return linear(tanh(a).to(DType::float64), draw.constant({3, a.size(-1)}), draw.constant({3}));
    },
    [](Draw&, const Tensor& a, const Tensor&) {
      return linear(tanh(a), tanh(a).reshape({-1, a.size(-1)}));
    },
    [](Draw&, const Tensor& a, const Tensor&) {
      return index_add(a, 0, tensor({0, 0}), a.slice(0, 0, 1).expand(rows(a, 2)));
    },
    [](Draw&, const Tensor& a, const Tensor&) { return scatter_add(a, 0, zeros_like(a).to(DType::int64), a * 0.5); },
};

/// In place; target is a view of base, source broadcasts to it.
const Write kWrites[] = {
    [](Draw&, const Tensor& target, const Tensor& source, const Tensor&) { target.add_(source); },
    [](Draw&, const Tensor& target, const Tensor& source, const Tensor&) { target.mul_(tanh(source)); },
    [](Draw&, const Tensor& target, const Tensor& source, const Tensor&) { target.copy_(source); },
    [](Draw&, const Tensor& target, const Tensor&, const Tensor&) { tanh_(target); },
    [](Draw&, const Tensor& target, const Tensor&, const Tensor&) { target.sub_(target * 0.5); },
    [](Draw&, const Tensor& target, const Tensor&, const Tensor&) { target.mul_(target); },
    [](Draw& draw, const Tensor& target, const Tensor&, const Tensor&) {
      target.masked_fill_(draw.constant(target.sizes()) > 0, 0.3);
    },
    [](Draw&, const Tensor& target, const Tensor&, const Tensor&) { target.fill_(0.7); },
    [](Draw&, const Tensor& target, const Tensor&, const Tensor&) { exp_(target.copy_(tanh(target))); },
    [](Draw&, const Tensor& target, const Tensor& source, const Tensor&) { target.div_(square(source) + 1.0); },
    [](Draw&, const Tensor& target, const Tensor&, const Tensor&) { target.clamp_(-20, 20); },
    [](Draw&, const Tensor& target, const Tensor&, const Tensor&) { sigmoid_(target); },
    [](Draw&, const Tensor& target, const Tensor& source, const Tensor&) { target += target.clone() * source; },
    [](Draw&, const Tensor& target, const Tensor& source, const Tensor&) { target.lerp_(source.expand(target.sizes()), 0.25); },
    [](Draw&, const Tensor& target, const Tensor&, const Tensor& base) {
      target.add_(base.dim() > 0 ? base.flatten().select(0, 0) : base);
    },  // reads what it writes
    [](Draw&, const Tensor& target, const Tensor&, const Tensor& base) {
      target.copy_(Dims(base.sizes()) == Dims(target.sizes()) ? base * 2.0 : target * 2.0);
    },
};

using Tensors = std::vector<Tensor>;

const Function kCube{.name = "cube",
                     .forward =
                         [](const Tensors& x) {
                           return Tensors{x[0] * x[0] * x[0] * 0.2, x[0] * x[1]};
                         },
                     .backward =
                         [](const Tensors& x, const Tensors&, const Tensors& dy) {
                           Tensors dx(2);
                           if (dy[0].defined()) dx[0] = 0.6 * x[0] * x[0] * dy[0];
                           if (dy[1].defined()) {
                             dx[0] = dx[0].defined() ? dx[0] + x[1] * dy[1] : x[1] * dy[1];
                             dx[1] = x[0] * dy[1];
                           }
                           return dx;
                         },
                     .tangent =
                         [](const Tensors& x, const Tensors&, const Tensors& dx) {
                           const Tensor a = dx[0].defined() ? dx[0] : zeros_like(x[0]),
                                        b = dx[1].defined() ? dx[1] : zeros_like(x[1]);
                           return Tensors{0.6 * x[0] * x[0] * a, a * x[1] + x[0] * b};
                         }};

template <typename Steps>
const auto& one_of(Draw& draw, const Steps& steps) {
  return steps[draw.choose(std::size(steps))];
}

}  // namespace

Tensor Draw::constant(Ints sizes) {
  const Tensor t = empty(sizes, DType::float64);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<double>()[i] = number();
  return t.to(factory_device());
}

Tensor Program::operator()(const Tensor& x) {
  draw_ = Draw(seed_);
  pool_ = {x.slice(0, 0, 6).view({2, 3}), x.slice(0, 4, 12).reshape({2, 4}), x};
  if (draw_.flip()) pool_.push_back(x * 1.0);
  const size_t count = 3 + draw_.choose(7);
  for (size_t step = 0; step < count; ++step) add_step();
  Tensor total = zeros({}, DType::float64);
  for (size_t i = 0; i < pool_.size(); ++i) {
    if (i + 3 < pool_.size() && !draw_.flip()) continue;
    total = total + sum(pool_[i] * draw_.constant(pool_[i].sizes()));
  }
  return total;
}

void Program::add_step() {
  switch (draw_.choose(8)) {
    case 0:
    case 1:
      return push(one_of(draw_, kUnary)(draw_, any()));
    case 2: {
      const Tensor a = any(), b = draw_.flip() ? a : any(), one = draw_.flip() ? sum(b) * 0.3 : b.flatten().slice(0, 0, 1);
      return push(one_of(draw_, kBinary)(draw_, a, broadcasts(a, b) ? b : one));
    }
    case 3: {
      const Tensor x = with_a_dim(any());
      const int64_t dim = draw_.index(x.dim());
      return push(one_of(draw_, kArranged)(draw_, x, dim, x.size(dim)));
    }
    case 4: {
      const Tensor x = with_a_dim(any());
      const int64_t dim = draw_.index(x.dim());
      return push(one_of(draw_, kReduced)(x, dim, x.size(dim), draw_.flip()));
    }
    case 5: {
      const Tensor a = with_a_dim(any()), b = draw_.flip() ? a : with_a_dim(any());
      return push(one_of(draw_, kJoined)(draw_, a, b));
    }
    case 6:
      return write();
    default:
      return push(special());
  }
}

void Program::push(const Tensor& t) {
  const Tensor small = t.numel() > 60 ? t.flatten().slice(0, 0, 60) : t;
  pool_.push_back(narrow_ && draw_.choose(4) == 0 ? small.to(DType::float32) : small);
}

/// In place, on a result's clone or on a view of it, which stays in the pool.
void Program::write() {
  const Tensor base = draw_.flip() ? any().clone() : any() * 1.0;
  Tensor target = base;
  for (size_t views = draw_.choose(3); views > 0 && target.dim() > 0; --views) {
    const int64_t dim = draw_.index(target.dim());
    const size_t kind = draw_.choose(3);
    target = kind == 0 ? target.slice(dim, 0, target.size(dim), 2) : kind == 1 ? target.select(dim, 0) : target.transpose(0, dim);
  }
  const Tensor before = any();
  const bool fits = broadcasts(target, before) && both(target, before) == Dims(target.sizes());
  const Tensor kept = target * 1.5;  // read before the write
  one_of(draw_, kWrites)(draw_, target, fits ? before : sum(before) * 0.2, base);
  pool_.push_back(base);
  if (draw_.flip()) pool_.push_back(target);
  if (draw_.flip()) pool_.push_back(kept);
}

Tensor Program::special() {
  const Tensor x = any();
  const Unary inner = kUnary[draw_.choose(kDeterministic)], outer = kUnary[draw_.choose(kDeterministic)];
  const auto twice = [inner, outer](const Tensor& t) {
    Draw nothing(0);
    return outer(nothing, inner(nothing, t));
  };
  switch (draw_.choose(7)) {
    case 0:
      return checkpoint(twice, x);
    case 1:
      return checkpoint([twice](const Tensor& t) { return checkpoint(twice, t) * t; }, x);
    case 2:
      return kCube({x, tanh(x)})[draw_.choose(2)];
    case 3: {
      const Tensors y = kCube({x, x});
      return y[0] + y[1];
    }
    case 4: {
      const SavedTensorHooks hooks([](const Tensor& t) { return std::any(t.clone()); },
                                   [](const std::any& kept) { return std::any_cast<Tensor>(kept); });
      return twice(x);
    }
    case 5: {
      const Tensor y = twice(x);
      if (y.requires_grad()) register_hook(y, [](const Tensor& g) { return g * 1.0; });
      return y;
    }
    default:  // a derivative inside
      return grad([&](const Tensor& t) { return sum(twice(t)); }, x) * 0.3;
  }
}

}  // namespace deckle::op_programs
