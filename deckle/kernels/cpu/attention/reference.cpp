// The definition of attention and its derivatives, term by term. Letters as in docs/attention.md: x raw logit, y before the cap,
// z final logit, P probability, R dropout factor, d* gradient, t* tangent. Slow, O(M N) memory, no tricks.

#include "deckle/kernels/cpu/attention/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "deckle/base/philox.h"

namespace deckle::kernels::cpu::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double get(DType dtype, const void* data, int64_t i) {
  return visit_floating(dtype,
                        [&](auto tag) { return static_cast<double>(static_cast<const typename decltype(tag)::type*>(data)[i]); });
}

void put(DType dtype, void* data, int64_t i, double value) {
  visit_floating(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (sizeof(T) == 2) {
      static_cast<T*>(data)[i] = T(static_cast<float>(value));
    } else {
      static_cast<T*>(data)[i] = static_cast<T>(value);
    }
  });
}

using Matrix = std::vector<double>;  // row-major; the shape is in the names: [M, N], [M, D], ...

/// One query head of one sequence, dense. A tangent or gradient reads its operands through the same functions.
struct Head {
  const AttentionProblem& p;
  int64_t b, h, kv, M, N, q0, k0, off;
  DType statistics;

  Head(const AttentionProblem& problem, int64_t sequence, int64_t head)
      : p(problem),
        b(sequence),
        h(head),
        kv(head / problem.group()),
        M(p.rows(b)),
        N(p.keys(b)),
        q0(p.q_offsets[b]),
        k0(p.k_offsets[b]),
        off(p.diagonal(b)),
        statistics(p.dtype == DType::float64 ? DType::float64 : DType::float32) {}

  Matrix rows(const AttentionRows& r, int64_t first, int64_t count, int64_t head, int64_t n) const {
    Matrix m(count * n, 0.0);
    if (r.data == nullptr) return m;
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t d = 0; d < n; ++d) m[i * n + d] = get(p.dtype, r.data, (first + i) * r.row_stride + head * r.head_stride + d);
    }
    return m;
  }
  Matrix q(const AttentionOperands& x) const { return rows(x.q, q0, M, h, p.head_dim); }
  Matrix k(const AttentionOperands& x) const { return rows(x.k, k0, N, kv, p.head_dim); }
  Matrix v(const AttentionOperands& x) const { return rows(x.v, k0, N, kv, p.value_dim); }
  Matrix out(const AttentionResults& r) const { return rows(r.out, q0, M, h, p.value_dim); }
  double lse(const AttentionResults& r, int64_t i) const { return r.lse ? get(statistics, r.lse, (q0 + i) * p.heads + h) : 0.0; }
  double per_head(const void* data) const { return data ? get(statistics, data, h) : 0.0; }

  int64_t plane_index(const AttentionPlane& plane, const int64_t* offsets, int64_t i, int64_t j) const {
    if (offsets == nullptr)
      return b * plane.sequence_stride + h * plane.head_stride + i * plane.row_stride + j * plane.column_stride;
    const int64_t columns = plane.column_stride ? N : 1, plane_rows = plane.row_stride ? M : 1;
    return offsets[b] + (plane.head_stride ? h * plane_rows * columns : 0) + (plane.row_stride ? i * columns : 0) +
           (plane.column_stride ? j : 0);
  }
  double bias(const AttentionOperands& x, int64_t i, int64_t j) const {
    return x.bias.data ? get(p.dtype, x.bias.data, plane_index(x.bias, p.bias_offsets, i, j)) : 0.0;
  }
  int64_t table_index(int64_t i, int64_t j) const {
    const int64_t distance = std::clamp<int64_t>(j - i - off, -p.table_reach, p.table_reach);
    return h * (2 * p.table_reach + 1) + distance + p.table_reach;
  }
  /// The contribution of slopes and table to z: linear in them, so also their tangent.
  double positional(const AttentionOperands& x, int64_t i, int64_t j) const {
    double sum = 0.0;
    if (x.slopes) sum -= per_head(x.slopes) * static_cast<double>(std::abs(i + off - j));
    if (x.table) sum += get(statistics, x.table, table_index(i, j));
    return sum;
  }
  bool is_allowed(int64_t i, int64_t j) const {
    const int64_t distance = i + off - j;
    if (p.causal && distance < 0) return false;
    if (p.window_left >= 0 && distance > p.window_left) return false;
    if (p.window_right >= 0 && -distance > p.window_right) return false;
    if (p.ranges.bounds) {
      bool inside = false;
      for (int r = 0; r < p.ranges.count; ++r) {
        const int32_t* bounds = p.ranges.bounds + ((q0 + i) * p.ranges.count + r) * 2;
        inside |= j >= bounds[0] && j < bounds[1];
      }
      if (!inside) return false;
    }
    return p.mask.data == nullptr || static_cast<const uint8_t*>(p.mask.data)[plane_index(p.mask, nullptr, i, j)] != 0;
  }
  double dropout(int64_t i, int64_t j) const {
    const AttentionDropout& d = p.dropout;
    if (d.threshold == 0) return 1.0;
    return dropout_keeps(d, b, h, i, j) ? 256.0 / (256 - d.threshold) : 0.0;
  }
};

Matrix products(const Matrix& a, const Matrix& b, int64_t m, int64_t n, int64_t d) {
  Matrix c(m * n);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0.0;
      for (int64_t e = 0; e < d; ++e) sum += a[i * d + e] * b[j * d + e];
      c[i * n + j] = sum;
    }
  }
  return c;
}

/// The primal quantities of a head.
struct Primal : Head {
  Matrix q_, k_, v_, f1, f2, P, R, O, L;
  std::vector<char> dead;
  std::vector<double> p_sink;

  Primal(const AttentionProblem& problem, const AttentionOperands& x, int64_t b, int64_t h) : Head(problem, b, h) {
    q_ = q(x), k_ = k(x), v_ = v(x);
    Matrix z = products(q_, k_, M, N, p.head_dim);
    f1.assign(M * N, 1.0), f2.assign(M * N, 0.0), R.assign(M * N, 0.0), P.assign(M * N, 0.0);
    O.assign(M * p.value_dim, 0.0), L.assign(M, -kInfinity), dead.assign(M, 1), p_sink.assign(M, 0.0);
    for (int64_t i = 0; i < M; ++i) {
      double top = x.sinks ? per_head(x.sinks) : -kInfinity;
      for (int64_t j = 0; j < N; ++j) {
        const int64_t e = i * N + j;
        double y = p.scale * z[e] + (p.bias_before_cap ? bias(x, i, j) : 0.0);
        if (p.soft_cap != 0.0) {
          const double w = std::tanh(y / p.soft_cap);
          f1[e] = 1 - w * w;
          f2[e] = -2 / p.soft_cap * w * f1[e];
          y = p.soft_cap * w;
        }
        z[e] = y + (p.bias_before_cap ? 0.0 : bias(x, i, j)) + positional(x, i, j);
        if (!is_allowed(i, j)) z[e] = -kInfinity;
        R[e] = dropout(i, j);
        if (z[e] != -kInfinity) top = std::isnan(z[e]) || z[e] > top ? z[e] : top;
      }
      if (top == -kInfinity) continue;
      dead[i] = 0;
      double sum = x.sinks ? std::exp(per_head(x.sinks) - top) : 0.0;
      for (int64_t j = 0; j < N; ++j) sum += std::exp(z[i * N + j] - top);
      L[i] = top + std::log(sum);
      if (x.sinks) p_sink[i] = std::exp(per_head(x.sinks) - L[i]);
      for (int64_t j = 0; j < N; ++j) {
        P[i * N + j] = std::exp(z[i * N + j] - L[i]);
        if (P[i * N + j] == 0.0) continue;
        for (int64_t d = 0; d < p.value_dim; ++d) O[i * p.value_dim + d] += R[i * N + j] * P[i * N + j] * v_[j * p.value_dim + d];
      }
    }
  }

  void write(const AttentionResults& r, const Matrix& out, const Matrix& lse_values) const {
    for (int64_t i = 0; i < M; ++i) {
      for (int64_t d = 0; d < p.value_dim && r.out.data; ++d) {
        put(p.dtype, r.out.data, (q0 + i) * r.out.row_stride + h * r.out.head_stride + d, out[i * p.value_dim + d]);
      }
      if (r.lse) put(statistics, r.lse, (q0 + i) * p.heads + h, lse_values[i]);
    }
  }
};

/// First order with a cotangent: dP, Delta, dZ.
struct Cotangent : Primal {
  Matrix dO, dL, dP, Delta, dZ;

  Cotangent(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& g, int64_t b, int64_t h)
      : Primal(problem, x, b, h), dO(out(g)), dL(M), Delta(M), dZ(M * N) {
    for (int64_t i = 0; i < M; ++i) {
      dL[i] = dead[i] ? 0.0 : lse(g, i);
      for (int64_t d = 0; d < p.value_dim; ++d) {
        if (dead[i]) dO[i * p.value_dim + d] = 0.0;
        Delta[i] += dO[i * p.value_dim + d] * O[i * p.value_dim + d];
      }
      Delta[i] -= dL[i];
    }
    dP = products(dO, v_, M, N, p.value_dim);
    for (int64_t i = 0; i < M; ++i) {
      for (int64_t j = 0; j < N; ++j) {
        dP[i * N + j] *= R[i * N + j];
        if (P[i * N + j] != 0.0) dZ[i * N + j] = P[i * N + j] * (dP[i * N + j] - Delta[i]);
      }
    }
  }
};

/// First order with a tangent: ty, tz, tL, tO.
struct Tangent {
  Matrix tq, tk, tv, ty, tz, tL, tO;

  Tangent(const Primal& s, const AttentionOperands& x, const AttentionOperands& t)
      : tq(s.q(t)), tk(s.k(t)), tv(s.v(t)), tz(s.M * s.N), tL(s.M), tO(s.M * s.p.value_dim) {
    const int64_t M = s.M, N = s.N, Dv = s.p.value_dim;
    ty = products(tq, s.k_, M, N, s.p.head_dim);
    const Matrix other = products(s.q_, tk, M, N, s.p.head_dim);
    for (int64_t i = 0; i < M; ++i) {
      for (int64_t j = 0; j < N; ++j) {
        const int64_t e = i * N + j;
        ty[e] = s.p.scale * (ty[e] + other[e]) + (s.p.bias_before_cap ? s.bias(t, i, j) : 0.0);
        tz[e] = s.f1[e] * ty[e] + (s.p.bias_before_cap ? 0.0 : s.bias(t, i, j)) + s.positional(t, i, j);
        if (s.P[e] != 0.0) tL[i] += s.P[e] * tz[e];
      }
      if (x.sinks && t.sinks && s.p_sink[i] != 0.0) tL[i] += s.p_sink[i] * s.per_head(t.sinks);
      for (int64_t j = 0; j < N; ++j) {
        const int64_t e = i * N + j;
        if (s.P[e] == 0.0) continue;
        for (int64_t d = 0; d < Dv; ++d)
          tO[i * Dv + d] += s.R[e] * s.P[e] * ((tz[e] - tL[i]) * s.v_[j * Dv + d] + tv[j * Dv + d]);
      }
    }
  }
};

/// Gradients in float64 until every head has been added, because heads, sequences and rows may share them.
struct Sum {
  void* target;
  DType dtype;
  std::vector<double> total;
  std::vector<char> touched;

  Sum(void* data, DType type) : target(data), dtype(type) {}
  void add(int64_t at, double value) {
    if (target == nullptr) return;
    if (at >= static_cast<int64_t>(total.size())) total.resize(at + 1, 0.0), touched.resize(at + 1, 0);
    total[at] += value;
    touched[at] = 1;
  }
  ~Sum() {
    for (size_t i = 0; i < total.size(); ++i) {
      if (touched[i]) put(dtype, target, static_cast<int64_t>(i), total[i]);
    }
  }
};

struct Gradient {
  const AttentionProblem& p;
  const AttentionOperands& g;
  DType statistics = p.dtype == DType::float64 ? DType::float64 : DType::float32;
  Sum q{g.q.data, p.dtype}, k{g.k.data, p.dtype}, v{g.v.data, p.dtype}, bias{g.bias.data, p.dtype};
  Sum slopes{g.slopes, statistics}, sinks{g.sinks, statistics}, table{g.table, statistics};

  /// Every element is written: those that no (row, key) uses are 0. A bias shared by the sequences is as large as the longest of
  /// them.
  void clear() {
    for (int64_t h = 0; h < p.heads; ++h) slopes.add(h, 0.0), sinks.add(h, 0.0);
    for (int64_t c = 0; c < p.heads * (2 * p.table_reach + 1); ++c) table.add(c, 0.0);
    if (g.bias.data == nullptr) return;
    const bool shared = p.bias_offsets == nullptr && g.bias.sequence_stride == 0;
    int64_t most_rows = 0, most_keys = 0;
    for (int64_t b = 0; b < p.sequences; ++b)
      most_rows = std::max(most_rows, p.rows(b)), most_keys = std::max(most_keys, p.keys(b));
    for (int64_t b = 0; b < p.sequences; ++b) {
      const int64_t m = shared ? most_rows : p.rows(b), n = shared ? most_keys : p.keys(b);
      for (int64_t h = 0; h < p.heads; ++h) {
        const Head head(p, b, h);
        for (int64_t i = 0; i < (g.bias.row_stride ? m : 1); ++i) {
          for (int64_t j = 0; j < (g.bias.column_stride ? n : 1); ++j)
            bias.add(head.plane_index(g.bias, p.bias_offsets, i, j), 0.0);
        }
      }
    }
  }
  void rows(Sum& sum, const AttentionRows& r, int64_t row, int64_t head, int64_t d, double value) {
    sum.add(row * r.row_stride + head * r.head_stride + d, value);
  }
  /// Contributions of one head from its dY, dZ and R P (or their tangents), without the products with the operands.
  void logits(const Head& s, const Matrix& dY, const Matrix& dZ) {
    for (int64_t i = 0; i < s.M; ++i) {
      for (int64_t j = 0; j < s.N; ++j) {
        const int64_t e = i * s.N + j;
        if (g.bias.data) bias.add(s.plane_index(g.bias, p.bias_offsets, i, j), p.bias_before_cap ? dY[e] : dZ[e]);
        slopes.add(s.h, -dZ[e] * static_cast<double>(std::abs(i + s.off - j)));
        table.add(s.table_index(i, j), dZ[e]);
      }
    }
  }
  /// dQ += dY k, dK += dY^T q, times the scale.
  void qk(const Head& s, const Matrix& dY, const Matrix& q_rows, const Matrix& k_rows) {
    for (int64_t d = 0; d < p.head_dim; ++d) {
      for (int64_t i = 0; i < s.M; ++i) rows(q, g.q, s.q0 + i, s.h, d, 0.0);
      for (int64_t j = 0; j < s.N; ++j) rows(k, g.k, s.k0 + j, s.kv, d, 0.0);
      for (int64_t i = 0; i < s.M; ++i) {
        for (int64_t j = 0; j < s.N; ++j) {
          const double dy = p.scale * dY[i * s.N + j];
          if (dy == 0.0) continue;
          rows(q, g.q, s.q0 + i, s.h, d, dy * k_rows[j * p.head_dim + d]);
          rows(k, g.k, s.k0 + j, s.kv, d, dy * q_rows[i * p.head_dim + d]);
        }
      }
    }
  }
  /// dV += W^T dO.
  void values(const Head& s, const Matrix& W, const Matrix& dO) {
    for (int64_t d = 0; d < p.value_dim; ++d) {
      for (int64_t j = 0; j < s.N; ++j) rows(v, g.v, s.k0 + j, s.kv, d, 0.0);
      for (int64_t i = 0; i < s.M; ++i) {
        for (int64_t j = 0; j < s.N; ++j) {
          if (W[i * s.N + j] != 0.0) rows(v, g.v, s.k0 + j, s.kv, d, W[i * s.N + j] * dO[i * p.value_dim + d]);
        }
      }
    }
  }
};

Matrix times(const Matrix& a, const Matrix& b) {
  Matrix c(a.size());
  for (size_t i = 0; i < a.size(); ++i) c[i] = a[i] == 0.0 || b[i] == 0.0 ? 0.0 : a[i] * b[i];
  return c;
}

}  // namespace

void attention_forward(const AttentionProblem& problem, const AttentionOperands& operands, const AttentionResults& result) {
  for (int64_t b = 0; b < problem.sequences; ++b) {
    for (int64_t h = 0; h < problem.heads; ++h) {
      const Primal s(problem, operands, b, h);
      s.write(result, s.O, s.L);
    }
  }
}

void attention_backward(const AttentionProblem& problem, const AttentionOperands& operands, const AttentionResults& cotangent,
                        const AttentionOperands& gradient) {
  Gradient g{problem, gradient};
  g.clear();
  for (int64_t b = 0; b < problem.sequences; ++b) {
    for (int64_t h = 0; h < problem.heads; ++h) {
      const Cotangent s(problem, operands, cotangent, b, h);
      const Matrix dY = times(s.dZ, s.f1);
      g.qk(s, dY, s.q_, s.k_);
      g.values(s, times(s.R, s.P), s.dO);
      g.logits(s, dY, s.dZ);
      for (int64_t i = 0; i < s.M; ++i) g.sinks.add(h, -s.p_sink[i] * s.Delta[i]);
    }
  }
}

void attention_jvp(const AttentionProblem& problem, const AttentionOperands& operands, const AttentionOperands& tangent,
                   const AttentionResults& result, const AttentionResults& result_tangent) {
  for (int64_t b = 0; b < problem.sequences; ++b) {
    for (int64_t h = 0; h < problem.heads; ++h) {
      const Primal s(problem, operands, b, h);
      const Tangent t(s, operands, tangent);
      s.write(result, s.O, s.L);
      s.write(result_tangent, t.tO, t.tL);
    }
  }
}

void attention_mixed(const AttentionProblem& problem, const AttentionOperands& operands, const AttentionOperands& a,
                     const AttentionOperands& b, const AttentionOperands& ab, const AttentionResults& mixed) {
  const int64_t Dv = problem.value_dim;
  for (int64_t n = 0; n < problem.sequences; ++n) {
    for (int64_t h = 0; h < problem.heads; ++h) {
      const Primal s(problem, operands, n, h);
      const Tangent ta(s, operands, a), tb(s, operands, b), tab(s, operands, ab);
      const Matrix first = products(ta.tq, tb.tk, s.M, s.N, problem.head_dim),
                   second = products(tb.tq, ta.tk, s.M, s.N, problem.head_dim);
      const auto sink = [&](const AttentionOperands& t) { return operands.sinks && t.sinks ? s.per_head(t.sinks) : 0.0; };
      Matrix out(s.M * Dv), lse(s.M), c(s.N);
      for (int64_t i = 0; i < s.M; ++i) {
        if (s.p_sink[i] != 0.0) lse[i] += s.p_sink[i] * ((sink(a) - ta.tL[i]) * (sink(b) - tb.tL[i]) + sink(ab));
        for (int64_t j = 0; j < s.N; ++j) {
          const int64_t e = i * s.N + j;
          if (s.P[e] == 0.0) continue;
          const double zab = tab.tz[e] + s.f1[e] * problem.scale * (first[e] + second[e]) + s.f2[e] * ta.ty[e] * tb.ty[e];
          c[j] = (ta.tz[e] - ta.tL[i]) * (tb.tz[e] - tb.tL[i]) + zab;
          lse[i] += s.P[e] * c[j];
        }
        for (int64_t j = 0; j < s.N; ++j) {
          const int64_t e = i * s.N + j;
          if (s.P[e] == 0.0) continue;
          for (int64_t d = 0; d < Dv; ++d) {
            const int64_t v = j * Dv + d;
            out[i * Dv + d] +=
                s.R[e] * s.P[e] *
                ((c[j] - lse[i]) * s.v_[v] + (ta.tz[e] - ta.tL[i]) * tb.tv[v] + (tb.tz[e] - tb.tL[i]) * ta.tv[v] + tab.tv[v]);
          }
        }
      }
      s.write(mixed, out, lse);
    }
  }
}

void attention_second(const AttentionProblem& problem, const AttentionOperands& operands, const AttentionOperands& tangent,
                      const AttentionResults& cotangent, const AttentionResults& cotangent_tangent,
                      const AttentionOperands& gradient_tangent) {
  Gradient g{problem, gradient_tangent};
  g.clear();
  const int64_t Dv = problem.value_dim;
  for (int64_t b = 0; b < problem.sequences; ++b) {
    for (int64_t h = 0; h < problem.heads; ++h) {
      const Cotangent s(problem, operands, cotangent, b, h);
      const Tangent t(s, operands, tangent);
      Matrix tdO = s.out(cotangent_tangent), tDelta(s.M, 0.0);
      for (int64_t i = 0; i < s.M; ++i) {
        for (int64_t d = 0; d < Dv; ++d) {
          if (s.dead[i]) tdO[i * Dv + d] = 0.0;
          tDelta[i] += tdO[i * Dv + d] * s.O[i * Dv + d] + s.dO[i * Dv + d] * t.tO[i * Dv + d];
        }
        if (!s.dead[i]) tDelta[i] -= s.lse(cotangent_tangent, i);
      }
      Matrix tdP = products(tdO, s.v_, s.M, s.N, Dv);
      const Matrix other = products(s.dO, t.tv, s.M, s.N, Dv);
      Matrix tdZ(s.M * s.N), tdY(s.M * s.N), moved(s.M * s.N);
      for (int64_t i = 0; i < s.M; ++i) {
        for (int64_t j = 0; j < s.N; ++j) {
          const int64_t e = i * s.N + j;
          if (s.P[e] == 0.0) continue;
          tdP[e] = s.R[e] * (tdP[e] + other[e]);
          const double centred = t.tz[e] - t.tL[i];
          tdZ[e] = s.P[e] * (centred * (s.dP[e] - s.Delta[i]) + tdP[e] - tDelta[i]);
          tdY[e] = s.f1[e] * tdZ[e] + s.f2[e] * t.ty[e] * s.dZ[e];
          moved[e] = s.R[e] * s.P[e] * centred;
        }
      }
      const Matrix dY = times(s.dZ, s.f1);
      g.qk(s, tdY, s.q_, s.k_);
      g.qk(s, dY, t.tq, t.tk);
      g.values(s, moved, s.dO);
      g.values(s, times(s.R, s.P), tdO);
      g.logits(s, tdY, tdZ);
      const double tsink = operands.sinks && tangent.sinks ? s.per_head(tangent.sinks) : 0.0;
      for (int64_t i = 0; i < s.M; ++i) {
        if (s.p_sink[i] != 0.0) g.sinks.add(h, -s.p_sink[i] * ((tsink - t.tL[i]) * s.Delta[i] + tDelta[i]));
      }
    }
  }
}

bool dropout_keeps(const AttentionDropout& d, int64_t sequence, int64_t head, int64_t row, int64_t column) {
  const auto key = d.key();
  const int64_t i = row + d.first_row, j = column + d.first_column, h = head + d.first_head, b = sequence + d.first_sequence;
  const auto a = static_cast<uint32_t>((i & 7) >> 1), c = static_cast<uint32_t>((j & 7) >> 1);
  const auto words = Philox<7>::generate({static_cast<uint32_t>(i >> 4), static_cast<uint32_t>(j >> 4),
                                          static_cast<uint32_t>(h) << 4 | a << 2 | c, static_cast<uint32_t>(b)},
                                         key[0], key[1]);
  const auto byte = ((i >> 3) & 1) + 2 * ((j >> 3) & 1);
  return static_cast<int>(words[(i & 1) + 2 * (j & 1)] >> (8 * byte) & 255) >= d.threshold;
}

}  // namespace deckle::kernels::cpu::reference
