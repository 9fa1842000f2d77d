//! What instructions compute, by their names. A register is 64 bits, of which an instruction reads and
//! writes as many as its type has.

use half::{bf16, f16};

/// What an instruction computes of up to three operands.
pub(super) type Function = fn(u64, u64, u64) -> u64;

fn float(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn double(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// As many bits as the type of a number has.
trait Bits {
    fn bits(self) -> u64;
}

macro_rules! bits {
    ($($ty:ident $from:ident => $to:expr;)*) => {
        $(impl Bits for $ty {
            fn bits(self) -> u64 {
                let $from = self;
                $to
            }
        })*
    };
}

bits! {
    u16 n => n.into();
    u32 n => n.into();
    i32 n => (n as u32).into();
    u64 n => n;
    i64 n => n as u64;
    f32 n => n.to_bits().into();
    f64 n => n.to_bits();
    bool n => n.into();
    f16 n => n.to_bits().into();
    bf16 n => n.to_bits().into();
}

/// A function of numbers of one type.
macro_rules! of {
    (f32, |$($name:ident),*| $result:expr) => { of!(@ float, |$($name),*| $result) };
    (f64, |$($name:ident),*| $result:expr) => { of!(@ double, |$($name),*| $result) };
    ($ty:ty, |$a:ident| $result:expr) => { |a, _, _| { let $a = a as $ty; Bits::bits($result) } };
    ($ty:ty, |$a:ident, $b:ident| $result:expr) => {
        |a, b, _| { let ($a, $b) = (a as $ty, b as $ty); Bits::bits($result) }
    };
    ($ty:ty, |$a:ident, $b:ident, $c:ident| $result:expr) => {
        |a, b, c| { let ($a, $b, $c) = (a as $ty, b as $ty, c as $ty); Bits::bits($result) }
    };
    (@ $read:ident, |$a:ident| $result:expr) => { |a, _, _| { let $a = $read(a); Bits::bits($result) } };
    (@ $read:ident, |$a:ident, $b:ident| $result:expr) => {
        |a, b, _| { let ($a, $b) = ($read(a), $read(b)); Bits::bits($result) }
    };
    (@ $read:ident, |$a:ident, $b:ident, $c:ident| $result:expr) => {
        |a, b, c| { let ($a, $b, $c) = ($read(a), $read(b), $read(c)); Bits::bits($result) }
    };
}

/// The function of the instruction `name`, such as `add.rn.f32`; `None` for none that is known.
pub(super) fn function(name: &str) -> Option<Function> {
    let (operation, ty) = name.rsplit_once('.')?;
    match ty {
        "u32" => unsigned_32(operation),
        "s32" => signed_32(operation),
        "u64" => unsigned_64(operation),
        "s64" => signed_64(operation),
        "b32" => bits_32(operation),
        "b64" => bits_64(operation),
        "pred" => truth(operation),
        "f32" => floats(operation),
        "f64" => doubles(operation),
        "f16" if operation == "cvt.f32" => Some(|a, _, _| f16::from_bits(a as u16).to_f32().bits()),
        "u16" if operation == "cvt.u32" => Some(|a, _, _| u64::from(a as u16)),
        "b16" if operation == "mov" => Some(|a, _, _| u64::from(a as u16)),
        _ => None,
    }
}

fn unsigned_32(operation: &str) -> Option<Function> {
    let function: Function = match operation {
        "mov" | "cvt.u64" => of!(u32, |a| a),
        "add" => of!(u32, |a, b| a.wrapping_add(b)),
        "sub" => of!(u32, |a, b| a.wrapping_sub(b)),
        "mul.lo" => of!(u32, |a, b| a.wrapping_mul(b)),
        "mad.lo" => of!(u32, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        // By 0 the manual leaves it open.
        "div" => of!(u32, |a, b| a.checked_div(b).unwrap_or(u32::MAX)),
        "rem" => of!(u32, |a, b| a.checked_rem(b).unwrap_or(a)),
        "min" => of!(u32, |a, b| a.min(b)),
        "max" => of!(u32, |a, b| a.max(b)),
        "shr" => |a, b, _| (a as u32).checked_shr(b as u32).unwrap_or(0).bits(),
        "bfe" => |a, b, c| extracted(u64::from(a as u32), b, c),
        "setp.eq" => of!(u32, |a, b| a == b),
        "setp.ne" => of!(u32, |a, b| a != b),
        "setp.lt" => of!(u32, |a, b| a < b),
        "setp.le" => of!(u32, |a, b| a <= b),
        "setp.gt" => of!(u32, |a, b| a > b),
        "setp.ge" => of!(u32, |a, b| a >= b),
        "cvt.u16" => of!(u32, |a| a as u16),
        "cvt.rn.f32" => of!(u32, |a| a as f32),
        "cvt.rn.f64" => of!(u32, |a| f64::from(a)),
        _ => return None,
    };
    Some(function)
}

fn signed_32(operation: &str) -> Option<Function> {
    let function: Function = match operation {
        "add" => of!(i32, |a, b| a.wrapping_add(b)),
        "sub" => of!(i32, |a, b| a.wrapping_sub(b)),
        "neg" => of!(i32, |a| a.wrapping_neg()),
        "mul.lo" => of!(i32, |a, b| a.wrapping_mul(b)),
        "mul.wide" => of!(i32, |a, b| i64::from(a) * i64::from(b)),
        "mad.lo" => of!(i32, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        "mad.wide" => {
            |a, b, c| (i64::from(a as i32) * i64::from(b as i32)).wrapping_add(c as i64).bits()
        }
        "dp4a.u32" => |a, b, c| {
            let product = |from: u32| i32::from((a >> from) as u8) * i32::from((b >> from) as i8);
            [0, 8, 16, 24].map(product).iter().fold(c as i32, |sum, n| sum.wrapping_add(*n)).bits()
        },
        "div" => of!(i32, |a, b| if b == 0 { -1 } else { a.wrapping_div(b) }),
        "rem" => of!(i32, |a, b| if b == 0 { a } else { a.wrapping_rem(b) }),
        "min" => of!(i32, |a, b| a.min(b)),
        "max" => of!(i32, |a, b| a.max(b)),
        "shr" => |a, b, _| ((a as i32) >> (b as u32).min(31)).bits(),
        "bfe" => {
            |a, b, c| i64::from(extended(u64::from(a as u32), b, c) as i32).bits() & 0xffff_ffff
        }
        "setp.eq" => of!(i32, |a, b| a == b),
        "setp.ne" => of!(i32, |a, b| a != b),
        "setp.lt" => of!(i32, |a, b| a < b),
        "setp.le" => of!(i32, |a, b| a <= b),
        "setp.gt" => of!(i32, |a, b| a > b),
        "setp.ge" => of!(i32, |a, b| a >= b),
        "cvt.s64" => of!(i32, |a| i64::from(a)),
        "cvt.rn.f32" => of!(i32, |a| a as f32),
        "cvt.rn.f64" => of!(i32, |a| f64::from(a)),
        _ => return None,
    };
    Some(function)
}

fn unsigned_64(operation: &str) -> Option<Function> {
    let function: Function = match operation {
        "mov" | "cvta.to.global" => of!(u64, |a| a),
        "add" => of!(u64, |a, b| a.wrapping_add(b)),
        "sub" => of!(u64, |a, b| a.wrapping_sub(b)),
        "mul.lo" => of!(u64, |a, b| a.wrapping_mul(b)),
        "mul.hi" => of!(u64, |a, b| ((u128::from(a) * u128::from(b)) >> 64) as u64),
        "div" => of!(u64, |a, b| a.checked_div(b).unwrap_or(u64::MAX)),
        "rem" => of!(u64, |a, b| a.checked_rem(b).unwrap_or(a)),
        "min" => of!(u64, |a, b| a.min(b)),
        "max" => of!(u64, |a, b| a.max(b)),
        "shr" => |a, b, _| a.checked_shr(b as u32).unwrap_or(0),
        "bfe" => extracted,
        "setp.eq" => of!(u64, |a, b| a == b),
        "setp.ne" => of!(u64, |a, b| a != b),
        "setp.lt" => of!(u64, |a, b| a < b),
        "setp.le" => of!(u64, |a, b| a <= b),
        "setp.gt" => of!(u64, |a, b| a > b),
        "setp.ge" => of!(u64, |a, b| a >= b),
        "cvt.u32" => of!(u64, |a| a as u32),
        "cvt.rn.f32" => of!(u64, |a| a as f32),
        "cvt.rn.f64" => of!(u64, |a| a as f64),
        _ => return None,
    };
    Some(function)
}

fn signed_64(operation: &str) -> Option<Function> {
    let function: Function = match operation {
        "add" => of!(i64, |a, b| a.wrapping_add(b)),
        "sub" => of!(i64, |a, b| a.wrapping_sub(b)),
        "neg" => of!(i64, |a| a.wrapping_neg()),
        "mul.lo" => of!(i64, |a, b| a.wrapping_mul(b)),
        "mad.lo" => of!(i64, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        "div" => of!(i64, |a, b| if b == 0 { -1 } else { a.wrapping_div(b) }),
        "rem" => of!(i64, |a, b| if b == 0 { a } else { a.wrapping_rem(b) }),
        "min" => of!(i64, |a, b| a.min(b)),
        "max" => of!(i64, |a, b| a.max(b)),
        "shr" => |a, b, _| ((a as i64) >> (b as u32).min(63)).bits(),
        "bfe" => extended,
        "setp.eq" => of!(i64, |a, b| a == b),
        "setp.ne" => of!(i64, |a, b| a != b),
        "setp.lt" => of!(i64, |a, b| a < b),
        "setp.le" => of!(i64, |a, b| a <= b),
        "setp.gt" => of!(i64, |a, b| a > b),
        "setp.ge" => of!(i64, |a, b| a >= b),
        "cvt.rn.f32" => of!(i64, |a| a as f32),
        "cvt.rn.f64" => of!(i64, |a| a as f64),
        _ => return None,
    };
    Some(function)
}

fn bits_32(operation: &str) -> Option<Function> {
    let function: Function = match operation {
        "mov" => of!(u32, |a| a),
        "and" => of!(u32, |a, b| a & b),
        "or" => of!(u32, |a, b| a | b),
        "xor" => of!(u32, |a, b| a ^ b),
        "not" => of!(u32, |a| !a),
        "shl" => |a, b, _| (a as u32).checked_shl(b as u32).unwrap_or(0).bits(),
        "selp" => |a, b, c| u64::from(if c != 0 { a } else { b } as u32),
        "setp.ne" => of!(u32, |a, b| a != b),
        _ => return None,
    };
    Some(function)
}

fn bits_64(operation: &str) -> Option<Function> {
    let function: Function = match operation {
        "mov" => of!(u64, |a| a),
        "and" => of!(u64, |a, b| a & b),
        "or" => of!(u64, |a, b| a | b),
        "xor" => of!(u64, |a, b| a ^ b),
        "not" => of!(u64, |a| !a),
        "shl" => |a, b, _| a.checked_shl(b as u32).unwrap_or(0),
        "selp" => |a, b, c| if c != 0 { a } else { b },
        "setp.ne" => of!(u64, |a, b| a != b),
        _ => return None,
    };
    Some(function)
}

fn truth(operation: &str) -> Option<Function> {
    let function: Function = match operation {
        "mov" => |a, _, _| a,
        "and" => |a, b, _| a & b,
        "or" => |a, b, _| a | b,
        "xor" => |a, b, _| a ^ b,
        "not" => |a, _, _| a ^ 1,
        _ => return None,
    };
    Some(function)
}

fn floats(operation: &str) -> Option<Function> {
    let function: Function = match operation {
        "mov" => of!(f32, |a| a),
        "add.rn" | "add" => of!(f32, |a, b| a + b),
        "sub.rn" => of!(f32, |a, b| a - b),
        "mul.rn" => of!(f32, |a, b| a * b),
        "div.rn" => of!(f32, |a, b| a / b),
        "fma.rn" => of!(f32, |a, b, c| a.mul_add(b, c)),
        "sqrt.rn" => of!(f32, |a| a.sqrt()),
        "neg" => of!(f32, |a| -a),
        "abs" => of!(f32, |a| a.abs()),
        "copysign" => of!(f32, |a, b| b.copysign(a)),
        "min.NaN" => of!(f32, |a, b| if a.is_nan() || b.is_nan() { f32::NAN } else { a.min(b) }),
        "max.NaN" => of!(f32, |a, b| if a.is_nan() || b.is_nan() { f32::NAN } else { a.max(b) }),
        "selp" => |a, b, c| u64::from(if c != 0 { a } else { b } as u32),
        "setp.eq" => of!(f32, |a, b| a == b),
        "setp.neu" => of!(f32, |a, b| a != b),
        "setp.lt" => of!(f32, |a, b| a < b),
        "setp.le" => of!(f32, |a, b| a <= b),
        "setp.gt" => of!(f32, |a, b| a > b),
        "setp.ge" => of!(f32, |a, b| a >= b),
        "setp.nan" => of!(f32, |a, b| a.is_nan() || b.is_nan()),
        "cvt.f64" => of!(f32, |a| f64::from(a)),
        "cvt.rmi.f32" => of!(f32, |a| a.floor()),
        "cvt.rpi.f32" => of!(f32, |a| a.ceil()),
        "cvt.rzi.f32" => of!(f32, |a| a.trunc()),
        "cvt.rni.f32" => of!(f32, |a| a.round_ties_even()),
        "cvt.rn.f16" => of!(f32, |a| f16::from_f32(a)),
        "cvt.rn.bf16" => of!(f32, |a| bf16::from_f32(a)),
        "cvt.rzi.s32" => of!(f32, |a| a as i32),
        "cvt.rni.s32" => of!(f32, |a| a.round_ties_even() as i32),
        "cvt.rzi.s64" => of!(f32, |a| if a.is_nan() { i64::MIN } else { a as i64 }),
        "cvt.rzi.u64" => of!(f32, |a| if a.is_nan() { 1 << 63 } else { a as u64 }),
        _ => return None,
    };
    Some(function)
}

fn doubles(operation: &str) -> Option<Function> {
    let function: Function = match operation {
        "mov" => of!(f64, |a| a),
        "add.rn" | "add" => of!(f64, |a, b| a + b),
        "sub.rn" => of!(f64, |a, b| a - b),
        "mul.rn" => of!(f64, |a, b| a * b),
        "div.rn" => of!(f64, |a, b| a / b),
        "fma.rn" => of!(f64, |a, b, c| a.mul_add(b, c)),
        "sqrt.rn" => of!(f64, |a| a.sqrt()),
        "neg" => of!(f64, |a| -a),
        "abs" => of!(f64, |a| a.abs()),
        "copysign" => of!(f64, |a, b| b.copysign(a)),
        "selp" => |a, b, c| if c != 0 { a } else { b },
        "setp.eq" => of!(f64, |a, b| a == b),
        "setp.neu" => of!(f64, |a, b| a != b),
        "setp.lt" => of!(f64, |a, b| a < b),
        "setp.le" => of!(f64, |a, b| a <= b),
        "setp.gt" => of!(f64, |a, b| a > b),
        "setp.ge" => of!(f64, |a, b| a >= b),
        "setp.nan" => of!(f64, |a, b| a.is_nan() || b.is_nan()),
        "setp.num" => of!(f64, |a, b| !(a.is_nan() || b.is_nan())),
        "cvt.rn.f32" => of!(f64, |a| a as f32),
        "cvt.rz.f32" => of!(f64, |a| toward_zero(a)),
        "cvt.rmi.f64" => of!(f64, |a| a.floor()),
        "cvt.rpi.f64" => of!(f64, |a| a.ceil()),
        "cvt.rzi.f64" => of!(f64, |a| a.trunc()),
        "cvt.rni.f64" => of!(f64, |a| a.round_ties_even()),
        "cvt.rni.s32" => {
            of!(f64, |a| if a.is_nan() { i32::MIN } else { a.round_ties_even() as i32 })
        }
        "cvt.rzi.s32" => of!(f64, |a| if a.is_nan() { i32::MIN } else { a as i32 }),
        "cvt.rzi.s64" => of!(f64, |a| if a.is_nan() { i64::MIN } else { a as i64 }),
        "cvt.rzi.u64" => of!(f64, |a| if a.is_nan() { 1 << 63 } else { a as u64 }),
        _ => return None,
    };
    Some(function)
}

/// The `float32` of the greatest size that is at most that of `a`, with its sign.
fn toward_zero(a: f64) -> f32 {
    let near = a as f32;
    match f64::from(near).abs() > a.abs() {
        true => f32::from_bits(near.to_bits() - 1),
        false => near,
    }
}

/// `count` bits of `a` from `first` on.
fn extracted(a: u64, first: u64, count: u64) -> u64 {
    let shifted = a.checked_shr(first as u32 & 0xff).unwrap_or(0);
    match count & 0xff {
        64.. => shifted,
        count => shifted & ((1 << count) - 1),
    }
}

/// The same, extended by the last of them.
fn extended(a: u64, first: u64, count: u64) -> u64 {
    let unused = 64u32.saturating_sub(count as u32 & 0xff);
    match unused {
        64 => 0,
        unused => (((extracted(a, first, count) << unused) as i64) >> unused) as u64,
    }
}
