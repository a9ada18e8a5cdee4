#pragma once

#include <array>
#include <cmath>

namespace deckle::random_entries {

using Real = long double;

/// A number with its derivatives along three directions e1, e2, e3, ei * ei = 0: part[m] belongs to the product of the ei of the
/// bits of m. part[1] is the first derivative along the first direction, part[3] the second along the first and second, part[7]
/// the third.
struct Jet {
  static constexpr int kParts = 8;
  std::array<Real, kParts> part{};

  Jet() = default;
  Jet(Real value) { part[0] = value; }  // NOLINT: numbers are jets
  Real value() const { return part[0]; }
};

inline Jet operator+(Jet a, const Jet& b) {
  for (int m = 0; m < Jet::kParts; ++m) a.part[m] += b.part[m];
  return a;
}
inline Jet operator-(Jet a) {
  for (Real& part : a.part) part = -part;
  return a;
}
inline Jet operator-(const Jet& a, const Jet& b) { return a + -b; }
inline Jet operator*(const Jet& a, const Jet& b) {
  Jet product;
  for (int m = 0; m < Jet::kParts; ++m) {
    for (int s = m;; s = (s - 1) & m) {  // all subsets of m
      product.part[m] += a.part[s] * b.part[m & ~s];
      if (s == 0) break;
    }
  }
  return product;
}

/// A function of x by its value and first three derivatives at x.value().
inline Jet chain(const Jet& x, Real f, Real f1, Real f2, Real f3) {
  Jet n = x;
  n.part[0] = 0;
  const Jet n2 = n * n, n3 = n2 * n;
  return Jet(f) + Jet(f1) * n + Jet(f2 / 2) * n2 + Jet(f3 / 6) * n3;
}

inline Jet power(const Jet& x, Real p) {
  const Real v = x.value();
  const auto term = [&](Real factor, Real exponent) { return factor == 0 ? Real(0) : factor * std::pow(v, exponent); };
  return chain(x, std::pow(v, p), term(p, p - 1), term(p * (p - 1), p - 2), term(p * (p - 1) * (p - 2), p - 3));
}
inline Jet operator/(const Jet& a, const Jet& b) { return a * power(b, -1); }
inline Jet exp(const Jet& x) {
  const Real e = std::exp(x.value());
  return chain(x, e, e, e, e);
}
inline Jet log(const Jet& x) {
  const Real v = x.value();
  return chain(x, std::log(v), 1 / v, -1 / (v * v), 2 / (v * v * v));
}
inline Jet log1p(const Jet& x) {
  const Real v = 1 + x.value();
  return chain(x, std::log1p(x.value()), 1 / v, -1 / (v * v), 2 / (v * v * v));
}
inline Jet sin(const Jet& x) {
  const Real s = std::sin(x.value()), c = std::cos(x.value());
  return chain(x, s, c, -s, -c);
}
inline Jet cos(const Jet& x) {
  const Real s = std::sin(x.value()), c = std::cos(x.value());
  return chain(x, c, -s, -c, s);
}
inline Jet tanh(const Jet& x) {
  const Real t = std::tanh(x.value()), t1 = 1 - t * t, t2 = -2 * t * t1;
  return chain(x, t, t1, t2, -2 * (t1 * t1 + t * t2));
}
inline Jet sigmoid(const Jet& x) {
  const Real s = 1 / (1 + std::exp(-x.value())), s1 = s * (1 - s), s2 = s1 * (1 - 2 * s);
  return chain(x, s, s1, s2, s2 * (1 - 2 * s) - 2 * s1 * s1);
}
inline Jet softplus(const Jet& x) {
  const Real s = 1 / (1 + std::exp(-x.value())), s1 = s * (1 - s);
  return chain(x, std::log1p(std::exp(x.value())), s, s1, s1 * (1 - 2 * s));
}
inline Jet erf(const Jet& x) {
  const Real v = x.value(), slope = 2 / std::sqrt(std::acos(Real(-1))) * std::exp(-v * v);
  return chain(x, std::erf(v), slope, -2 * v * slope, (4 * v * v - 2) * slope);
}
inline Jet power(const Jet& x, const Jet& y) {
  bool constant = true;
  for (int m = 1; m < Jet::kParts; ++m) constant = constant && y.part[m] == 0;
  return constant ? power(x, y.value()) : exp(y * log(x));
}

}  // namespace deckle::random_entries
