//! Floats of at most eight bits.

/// A format of floats of at most eight bits, by the digits of its exponent and mantissa. `FN` has no
/// infinity, `UZ` no negative zero: its pattern is the only NaN. Sources: *FP8 Formats for Deep
/// Learning* (arXiv 2209.05433), *8-bit Numerical Formats for Deep Neural Networks* (arXiv
/// 2206.02915), and the OCP specification of microscaling formats 1.0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SmallFloat {
    /// Up to 448; exponent and mantissa of ones are NaN.
    E4M3FN,
    /// Up to 240.
    E4M3FNUZ,
    /// Up to 57344, with infinities, as the upper half of a binary16.
    E5M2,
    /// Up to 57344.
    E5M2FNUZ,
    /// Powers of two from 2⁻¹²⁷ to 2¹²⁷, and NaN; no sign, no zero.
    E8M0FNU,
    /// Four bits, up to 6; what is too large becomes the greatest, and what is no number negative zero.
    E2M1FN,
}

impl SmallFloat {
    /// All formats.
    pub const ALL: [SmallFloat; 6] = [
        SmallFloat::E4M3FN,
        SmallFloat::E4M3FNUZ,
        SmallFloat::E5M2,
        SmallFloat::E5M2FNUZ,
        SmallFloat::E8M0FNU,
        SmallFloat::E2M1FN,
    ];

    /// The name of the element type, such as `float8_e4m3fn`.
    pub fn name(self) -> &'static str {
        match self {
            SmallFloat::E4M3FN => "float8_e4m3fn",
            SmallFloat::E4M3FNUZ => "float8_e4m3fnuz",
            SmallFloat::E5M2 => "float8_e5m2",
            SmallFloat::E5M2FNUZ => "float8_e5m2fnuz",
            SmallFloat::E8M0FNU => "float8_e8m0fnu",
            SmallFloat::E2M1FN => "float4_e2m1fn",
        }
    }

    /// Width in bits.
    pub const fn bits(self) -> u8 {
        if matches!(self, SmallFloat::E2M1FN) { 4 } else { 8 }
    }

    /// Digits of the mantissa, and what is subtracted from the exponent.
    fn layout(self) -> (u32, i32) {
        match self {
            SmallFloat::E4M3FN => (3, 7),
            SmallFloat::E4M3FNUZ => (3, 8),
            SmallFloat::E5M2 => (2, 15),
            SmallFloat::E5M2FNUZ => (2, 16),
            SmallFloat::E8M0FNU => (0, 127),
            SmallFloat::E2M1FN => (1, 1),
        }
    }

    /// The pattern of the greatest number.
    fn greatest(self) -> u8 {
        match self {
            SmallFloat::E4M3FN => 0x7e,
            SmallFloat::E5M2 => 0x7b,
            SmallFloat::E4M3FNUZ | SmallFloat::E5M2FNUZ => 0x7f,
            SmallFloat::E8M0FNU => 0xfe,
            SmallFloat::E2M1FN => 0x7,
        }
    }

    /// The pattern that stands for what is no number.
    fn nan(self) -> u8 {
        match self {
            SmallFloat::E4M3FN => 0x7f,
            SmallFloat::E5M2 => 0x7e,
            SmallFloat::E4M3FNUZ | SmallFloat::E5M2FNUZ => 0x80,
            SmallFloat::E8M0FNU => 0xff,
            SmallFloat::E2M1FN => 0x8,
        }
    }

    /// The greatest number.
    pub fn max(self) -> f64 {
        self.read(self.greatest())
    }

    /// The greatest exponent of two, and how many binary digits follow the first.
    pub(super) fn float_format(self) -> (i32, i32) {
        let exponent = match self {
            SmallFloat::E4M3FN => 8,
            SmallFloat::E4M3FNUZ => 7,
            SmallFloat::E5M2 | SmallFloat::E5M2FNUZ => 15,
            SmallFloat::E8M0FNU => 127,
            SmallFloat::E2M1FN => 2,
        };
        (exponent, self.layout().0 as i32)
    }

    /// The number with this pattern, in the lowest bits.
    pub fn read(self, pattern: u8) -> f64 {
        let (digits, bias) = self.layout();
        if self == SmallFloat::E8M0FNU {
            let power = f64::from(i32::from(pattern) - bias).exp2();
            return if pattern == 0xff { f64::NAN } else { power };
        }
        let sign_place = self.bits() - 1;
        let (sign, magnitude) = (pattern >> sign_place & 1, pattern & ((1 << sign_place) - 1));
        match self {
            SmallFloat::E5M2 if magnitude > 0x7c => return f64::NAN,
            SmallFloat::E5M2 if magnitude == 0x7c => {
                return if sign == 0 { f64::INFINITY } else { f64::NEG_INFINITY };
            }
            SmallFloat::E4M3FN if magnitude == 0x7f => return f64::NAN,
            SmallFloat::E4M3FNUZ | SmallFloat::E5M2FNUZ if pattern == 0x80 => return f64::NAN,
            _ => {}
        }
        let exponent = i32::from(magnitude >> digits);
        let mantissa = f64::from(magnitude & ((1 << digits) - 1));
        let step = f64::from(exponent.max(1) - bias - digits as i32).exp2();
        let leading = if exponent == 0 { 0.0 } else { f64::from(1 << digits) };
        let value = (leading + mantissa) * step;
        if sign == 0 { value } else { -value }
    }

    /// The pattern of the number nearest to `value`, of two the one whose last digit is even. What is
    /// too large becomes infinity, else NaN, else the greatest; what a format without negative
    /// numbers cannot hold becomes NaN.
    pub fn pattern(self, value: f64) -> u8 {
        let sign_bit = match self {
            SmallFloat::E8M0FNU => 0,
            _ if value.is_sign_negative() => 1 << (self.bits() - 1),
            _ => 0,
        };
        let unsigned = self == SmallFloat::E8M0FNU;
        if value.is_nan() || unsigned && value <= 0.0 {
            return self.nan();
        }
        let magnitude = value.abs();
        let greatest = self.greatest();
        // Patterns are ordered as their numbers are; the number after the last one would be a step on.
        let (max, before) = (self.read(greatest), self.read(greatest - 1));
        let beyond = if unsigned { 2.0 * max } else { max + (max - before) };
        let middle = max + (beyond - max) / 2.0;
        let is_even = greatest & 1 == 0;
        if magnitude > middle || magnitude == middle && !is_even {
            return match self {
                SmallFloat::E5M2 => sign_bit | 0x7c,
                SmallFloat::E2M1FN => sign_bit | greatest,
                SmallFloat::E4M3FN => sign_bit | self.nan(),
                _ => self.nan(),
            };
        }
        // The last pattern whose number is not above.
        let (mut below, mut above) = (0, greatest);
        while below < above {
            let between = below + (above - below).div_ceil(2);
            match self.read(between) <= magnitude {
                true => below = between,
                false => above = between - 1,
            }
        }
        let (low, next) = (self.read(below), self.read((below + 1).min(greatest)));
        let middle = low + (next - low) / 2.0;
        let rounds_up = magnitude > middle || magnitude == middle && below & 1 == 1;
        let pattern = if below < greatest && rounds_up { below + 1 } else { below };
        match self {
            // Their negative zero is NaN.
            SmallFloat::E4M3FNUZ | SmallFloat::E5M2FNUZ if pattern == 0 => 0,
            _ => sign_bit | pattern,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_round_trip() {
        for format in SmallFloat::ALL {
            for pattern in 0..=((1u16 << format.bits()) - 1) as u8 {
                let value = format.read(pattern);
                let back = format.pattern(value);
                match value.is_nan() {
                    true => assert!(format.read(back).is_nan(), "{format:?} {pattern:#x}"),
                    false => assert_eq!(back, pattern, "{format:?} {value}"),
                }
            }
        }
    }

    #[test]
    fn numbers_are_rounded_to_the_nearest() {
        use SmallFloat::*;
        let cast = |format: SmallFloat, value: f64| format.read(format.pattern(value));
        for (format, value, expected) in [
            (E4M3FN, 464.0, 448.0),
            (E4M3FN, -0.0009765625, -0.0),
            (E4M3FN, 0.0009765626, 0.001953125),
            (E4M3FN, 17.0, 16.0),
            (E4M3FN, 19.0, 20.0),
            (E4M3FNUZ, -247.0, -240.0),
            (E5M2, 61439.0, 57344.0),
            (E5M2, 61440.0, f64::INFINITY),
            (E5M2, f64::NEG_INFINITY, f64::NEG_INFINITY),
            (E2M1FN, 2.5, 2.0),
            (E2M1FN, -1e9, -6.0),
            (E2M1FN, 0.25, 0.0),
            (E8M0FNU, 3.1, 4.0),
            (E8M0FNU, 2.9, 2.0),
        ] {
            assert_eq!(cast(format, value), expected, "{format:?} {value}");
        }
        for (format, value) in
            [(E4M3FN, 465.0), (E4M3FNUZ, 248.0), (E5M2FNUZ, 1e9), (E8M0FNU, -1.0)]
        {
            assert!(cast(format, value).is_nan(), "{format:?} {value}");
        }
        assert_eq!(E4M3FNUZ.pattern(-0.0), 0);
        assert_eq!(
            SmallFloat::ALL.map(SmallFloat::max),
            [448., 240., 57344., 57344., 2f64.powi(127), 6.]
        );
    }
}
