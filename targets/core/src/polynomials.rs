//! Polynomials that approximate transcendental functions of `float32`, for code of every language.
//!
//! They were fitted by iteratively reweighted least squares (Lawson's algorithm) to the relative error of
//! the function, coefficient by coefficient rounded to `float32`. Coefficients are those of 1, `x`, `x²`
//! and so on. Those of sine and cosine are computed with in `float64`, after Cody and Waite's reduction.

/// `(e^r - 1 - r) / r²` of `r`, for `|r| ≤ ln(2) / 2`.
pub const EXP: [f32; 5] = [0.49999994, 0.16666521, 0.041668266, 0.008368677, 0.0013820734];

/// `(log(1 + f) - f + f² / 2) / f³` of `f`, for `√½ ≤ 1 + f < √2`.
pub const LOG: [f32; 9] = [
    0.33333313,
    -0.2500001,
    0.20002073,
    -0.1666799,
    0.14220312,
    -0.12406176,
    0.11883927,
    -0.116706274,
    0.067489125,
];

/// `(tanh(x) - x) / x³` of `x²`, for `|x| < 0.625`.
pub const TANH: [f32; 6] =
    [-0.3333333, 0.13333221, -0.05394818, 0.021706894, -0.0081900135, 0.0021526837];

/// `(atan(x) - x) / x³` of `x²`, for `|x| ≤ 1`.
pub const ATAN: [f32; 10] = [
    -0.33333328,
    0.19999716,
    -0.14280343,
    0.11061233,
    -0.08821462,
    0.06763649,
    -0.044983257,
    0.022777615,
    -0.0074253595,
    0.0011345203,
];

/// `erf(x) / x - 1` of `x²`, for `|x| < 0.9277`.
pub const ERF: [f32; 7] =
    [0.12837917, -0.3761263, 0.11283626, -0.02685573, 0.0051923934, -0.0008049545, 7.9952864e-5];

/// `1 + log(1 - erf(t)) / t` of `t`, for `0.9277 ≤ t ≤ 4`.
pub const ERF_LOG: [f32; 7] =
    [-0.12865236, -0.6351356, -0.10626288, 0.023784455, -0.0036530462, 0.000325408, -1.1491536e-5];

/// `(sin(r) / r - 1) / r²` of `r²`, for `|r| ≤ π / 4`, in double precision: its errors are far below those of
/// results in single precision.
pub const SIN: [f64; 4] =
    [-0.1666666664161, 0.008333329383578, -0.0001983933408191, 2.71830421943e-06];

/// `(cos(r) - 1 + r² / 2) / r⁴` of `r²`, for `|r| ≤ π / 4`, in double precision.
pub const COS: [f64; 3] = [0.0416666456701, -0.001388731561435, 2.443308246888e-05];

/// `ln(2)` as the difference of two numbers, the first of so few bits that its products with small whole
/// numbers are exact.
pub const LN_2: (f32, f32) = (0.693_359_4, 2.121_944_4e-4);
