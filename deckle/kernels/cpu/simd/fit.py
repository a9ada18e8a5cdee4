"""Fits the polynomial coefficients of math/*.h by the Remez exchange and prints them with their errors.

Needs mpmath. Usage: python fit.py [NAME...]  (no names: all; erf_table: the tables). Each line of FITS says what is fitted,
where, and the weight that turns the absolute error of the polynomial into the relative error of the function it serves.
"""

import sys

from mpmath import cos, erf, erfc, exp, expm1, lu_solve, log, log1p, matrix, mp, mpf, pi, sin, sqrt, atan, tan, asin, linspace

mp.dps = 60


def remez(f, lo, hi, degree, weight, iterations=12):
    """Coefficients c[0..degree] that minimise the maximum of |weight (sum c_i x^i - f)| on [lo, hi], and that maximum."""
    lo, hi = mpf(lo), mpf(hi)
    count = degree + 2
    nodes = [(lo + hi) / 2 - (hi - lo) / 2 * cos(pi * i / (count - 1)) for i in range(count)]
    grid = [(lo + hi) / 2 - (hi - lo) / 2 * cos(pi * i / 1500) for i in range(1501)]
    f_grid = [f(x) for x in grid]
    floor = mpf(10) ** -12 * max(abs(weight(x)) for x in grid)  # a node where the weight vanishes would be singular
    weigh = lambda x: max(abs(weight(x)), floor)
    w_grid = [weigh(x) for x in grid]
    for _ in range(iterations):
        rows = matrix(count, count)
        values = matrix(count, 1)
        for i, x in enumerate(nodes):
            for j in range(degree + 1):
                rows[i, j] = x**j
            rows[i, degree + 1] = (-1) ** i / weigh(x)
            values[i] = f(x)
        solution = lu_solve(rows, values)
        coefficients = [solution[j] for j in range(degree + 1)]
        errors = [w * (polynomial(coefficients, x) - y) for x, y, w in zip(grid, f_grid, w_grid)]
        extrema = []
        for i, e in enumerate(errors):  # the largest error of each run of one sign
            if extrema and (e >= 0) == (errors[extrema[-1]] >= 0):
                if abs(e) > abs(errors[extrema[-1]]):
                    extrema[-1] = i
            else:
                extrema.append(i)
        while len(extrema) > count:  # keep the alternation of the largest errors
            extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
        worst = max(abs(e) for e in errors)
        if len(extrema) < count:
            break
        nodes = [grid[i] for i in extrema]
        if worst / min(abs(errors[i]) for i in extrema) < mpf("1.001"):
            break
    return coefficients, worst


def polynomial(coefficients, x):
    total = mpf(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def series(f, at_zero):
    """f with its removable singularity at 0 filled in; evaluated with spare digits near it."""

    def safe(x):
        if abs(x) < mpf(10) ** -25:
            return mpf(at_zero)
        return f(x)

    return safe


LN2 = log(2)
SQRT2 = sqrt(mpf(2))
F_LO, F_HI = 1 / SQRT2 - 1, SQRT2 - 1
S2 = ((SQRT2 - 1) / (SQRT2 + 1)) ** 2
K = mpf(4)


def erfcx(x):
    return exp(x * x) * erfc(x)


def of_t(g):  # x = K (1 + t) / (1 - t), the inverse of t = (x - K) / (x + K)
    return lambda t: g(K * (1 + t) / (1 - t))


def atanh_tail(z):  # (2 atanh(s) / s - 2) / s^2, z = s^2
    s = sqrt(z)
    return (log((1 + s) / (1 - s)) / s - 2) / z


def sqrt_arg(g):
    return lambda z: g(sqrt(z))


Q = pi / 4
T2 = (SQRT2 - 1) ** 2  # tan(pi/8)^2
R = LN2 / 2 * mpf("1.0005")
FITS = {
    # name: (function, lo, hi, degree, weight)
    "exp_f32": (series(lambda r: (exp(r) - 1 - r) / r**2, 0.5), -R, R, 4, lambda r: r * r / exp(r)),
    "exp_f64": (series(lambda r: (exp(r) - 1 - r) / r**2, 0.5), -R, R, 9, lambda r: r * r / exp(r)),
    "exp2_f32": (series(lambda r: (2**r - 1) / r, LN2), -mpf(1) / 2, mpf(1) / 2, 5,
                 lambda r: r / 2**r if r else mpf(0) + mpf(10) ** -20),
    "exp2_f64": (series(lambda r: (2**r - 1) / r, LN2), -mpf(1) / 2, mpf(1) / 2, 11, lambda r: r / 2**r if r else mpf(10) ** -20),
    "log_f32": (series(lambda f: (log1p(f) - f + f * f / 2) / f**3, mpf(1) / 3), F_LO, F_HI, 7,
                series(lambda f: abs(f**3 / log1p(f)), mpf(10) ** -20)),
    "log_for_float_f64": (series(lambda f: (log1p(f) - f + f * f / 2) / f**3, mpf(1) / 3), F_LO, F_HI, 11,
                          series(lambda f: abs(f**3 / log1p(f)), mpf(10) ** -20)),
    "exp_for_float_f64": (series(lambda r: (exp(r) - 1 - r) / r**2, 0.5), -R, R, 5, lambda r: r * r / exp(r)),
    "log_f64": (series(atanh_tail, mpf(2) / 3), 0, S2, 6, lambda z: z / 2 + mpf(10) ** -12),
    "log5_f64": (series(lambda z: (atanh_tail(z) - mpf(2) / 3) / z, mpf(2) / 5), 0, S2, 5, lambda z: z * z / 2 + mpf(10) ** -12),
    "sin_f32": (series(sqrt_arg(lambda x: (sin(x) / x - 1) / x**2), -mpf(1) / 6), 0, Q * Q, 2, lambda z: z),
    "cos_f32": (series(sqrt_arg(lambda x: (cos(x) - 1 + x * x / 2) / x**4), mpf(1) / 24), 0, Q * Q, 2, lambda z: z * z),
    "sin_f64": (series(sqrt_arg(lambda x: (sin(x) / x - 1) / x**2), -mpf(1) / 6), 0, Q * Q, 5, lambda z: z),
    "cos_f64": (series(sqrt_arg(lambda x: (cos(x) - 1 + x * x / 2) / x**4), mpf(1) / 24), 0, Q * Q, 5, lambda z: z * z),
    "atan_f32": (series(sqrt_arg(lambda x: (atan(x) / x - 1) / x**2), -mpf(1) / 3), 0, T2, 5, lambda z: z),
    "atan_short_f32": (series(sqrt_arg(lambda x: (atan(x) / x - 1) / x**2), -mpf(1) / 3), 0, T2, 4, lambda z: z),
    "atan_f64": (series(sqrt_arg(lambda x: (atan(x) / x - 1) / x**2), -mpf(1) / 3), 0, T2, 11, lambda z: z),
    "erf_f32": (series(sqrt_arg(lambda x: erf(x) / x), 2 / sqrt(pi)), 0, mpf(1), 6,
                lambda z: sqrt(z) / erf(sqrt(z)) if z else sqrt(pi) / 2),
    "erf_f64": (series(sqrt_arg(lambda x: erf(x) / x), 2 / sqrt(pi)), 0, mpf(1), 12,
                lambda z: sqrt(z) / erf(sqrt(z)) if z else sqrt(pi) / 2),
    "log_erfc_f32": (lambda x: log(erfc(x)), mpf(1), mpf("4.1"), 6, lambda x: erfc(x) / erf(x)),
    "erfcx_f32": (of_t(lambda x: (1 + 2 * x) * erfcx(x)), -1, (mpf(11) - K) / (11 + K), 10,
                  of_t(lambda x: 1 / ((1 + 2 * x) * erfcx(x)))),
    "erfcx_f64": (of_t(lambda x: (1 + 2 * x) * erfcx(x)), -1, (mpf(28) - K) / (28 + K), 23,
                  of_t(lambda x: 1 / ((1 + 2 * x) * erfcx(x)))),
}

# The tables of erf_table.h, at k / 64.
TABLES = {"kErfTable": erf, "kErfcTable": erfc, "kErfSlope": lambda x: 2 / sqrt(pi) * exp(-x * x)}

if __name__ == "__main__":
    if sys.argv[1:] == ["erf_table"]:
        for name, f in TABLES.items():
            print(f"inline constexpr double {name}[512] = {{" + ", ".join(repr(float(f(mpf(k) / 64))) for k in range(385)) + "};")
        sys.exit()
    for name in sys.argv[1:] or FITS:
        f, lo, hi, degree, weight = FITS[name]
        coefficients, worst = remez(f, lo, hi, degree, weight)
        single = name.endswith("f32")
        print(f"// {name}: degree {degree}, error 2^{mp.nstr(log(worst, 2), 4)}")
        print("  " + ", ".join(mp.nstr(c, 9 if single else 17, strip_zeros=False)
                               + ("f" if single else "") for c in coefficients))
