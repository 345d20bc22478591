//! Floating-point numbers as PostgreSQL prints them (extra_float_digits 1 and above): the fewest digits that say which number it
//! is, but never a number that lies exactly between two, as ryu_common.h with STRICTLY_SHORTEST 0. It does not read them.

use std::fmt::Write;

/// As `float8out`.
pub fn print_float8(value: f64, out: &mut String) {
    let bits = value.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, power) = if exponent == 0 { (fraction, -1074) } else { (fraction | (1 << 52), exponent - 1075) };
    let exact = Exact { mantissa, power, edge: fraction == 0 && exponent > 1 };
    print(
        value,
        format!("{value:e}"),
        exact,
        15,
        out,
        |digits, value| format!("{value:.digits$e}"),
        |text| text.parse() == Ok(value),
    );
}

/// As `float4out`.
pub fn print_float4(value: f32, out: &mut String) {
    let bits = value.to_bits();
    let exponent = ((bits >> 23) & 0xff) as i32;
    let fraction = u64::from(bits & ((1 << 23) - 1));
    let (mantissa, power) = if exponent == 0 { (fraction, -149) } else { (fraction | (1 << 23), exponent - 150) };
    let exact = Exact { mantissa, power, edge: fraction == 0 && exponent > 1 };
    let parsed = |text: &str| text.parse::<f32>() == Ok(value);
    print(
        f64::from(value),
        format!("{value:e}"),
        exact,
        6,
        out,
        |digits, value| format!("{:.digits$e}", value as f32),
        parsed,
    );
}

/// The number is `mantissa * 2^power`.
#[derive(Clone, Copy)]
struct Exact {
    mantissa: u64,
    power: i32,
    /// The next smaller number is half as far as the next larger one.
    edge: bool,
}

fn print(
    value: f64,
    shortest: String,
    exact: Exact,
    fixed_below: i32,
    out: &mut String,
    with_digits: impl Fn(usize, f64) -> String,
    is_it: impl Fn(&str) -> bool,
) {
    if value.is_nan() {
        return out.push_str("NaN");
    }
    out.push_str(if value.is_sign_negative() { "-" } else { "" });
    if value.is_infinite() {
        return out.push_str("Infinity");
    }
    if value == 0.0 {
        return out.push('0');
    }
    // The fewest digits, nearest to the number, and the even one of two that are as near; it may be the middle of two numbers.
    let (mut digits, mut exponent) = parts(&shortest);
    let even = with_digits(digits.len() - 1, value);
    if is_it(&even) {
        (digits, exponent) = parts(&even);
    }
    if !exact.is_between(&digits, exponent) {
        return put(&digits, exponent, fixed_below, out);
    }
    for more in digits.len()..17 {
        let text = with_digits(more, value);
        let (digits, exponent) = parts(&text);
        if is_it(&text) && !exact.is_between(&digits, exponent) {
            return put(&digits, exponent, fixed_below, out);
        }
    }
    let (digits, exponent) = parts(&with_digits(16, value));
    put(&digits, exponent, fixed_below, out);
}

/// `-1.25e3` → (`125`, 3), without zeros at the end.
fn parts(text: &str) -> (String, i32) {
    let (mantissa, exponent) = text.trim_start_matches('-').split_once('e').unwrap_or((text, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_end_matches('0');
    (if digits.is_empty() { "0" } else { digits }.to_string(), exponent.parse().unwrap_or(0))
}

impl Exact {
    /// Whether a decimal is exactly in the middle between this number and one of its neighbours. Those of few enough digits are integers:
    /// digits * 10^k = odd * 2^n, so that what is odd of the digits, times 5^k, must be the odd number.
    fn is_between(self, digits: &str, exponent: i32) -> bool {
        let k = exponent - (digits.len() as i32 - 1);
        let (Ok(number), true) = (digits.parse::<u128>(), (0..=27).contains(&k)) else { return false };
        let twos = number.trailing_zeros() as i32;
        let odd = (number >> twos) * 5u128.pow(k as u32);
        let twos = twos + k;
        let m = u128::from(self.mantissa);
        let middle = |odd_number: u128, power: i32| odd == odd_number && twos == power;
        let below = match self.edge {
            true => middle(4 * m - 1, self.power - 2),
            false => m > 0 && middle(2 * m - 1, self.power - 1),
        };
        below || middle(2 * m + 1, self.power - 1)
    }
}

fn put(digits: &str, exponent: i32, fixed_below: i32, out: &mut String) {
    let len = digits.len() as i32;
    if !(-4..fixed_below).contains(&exponent) {
        out.push_str(&digits[..1]);
        if len > 1 {
            out.push('.');
            out.push_str(&digits[1..]);
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "e{sign}{:02}", exponent.abs());
    } else if exponent < 0 {
        out.push_str("0.");
        (0..-exponent - 1).for_each(|_| out.push('0'));
        out.push_str(digits);
    } else if len <= exponent + 1 {
        out.push_str(digits);
        (0..exponent + 1 - len).for_each(|_| out.push('0'));
    } else {
        let (whole, fraction) = digits.split_at(exponent as usize + 1);
        let _ = write!(out, "{whole}.{fraction}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_postgresql_prints_them() {
        for (value, text) in [
            (0.1, "0.1"),
            (-0.0, "-0"),
            (1e15, "1e+15"),
            (123456789012345.0, "123456789012345"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            // It is exactly in the middle between this number and the next.
            (1e23, "9.999999999999999e+22"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (9007199254740993.0, "9.007199254740992e+15"),
            // A power of two: it is nearer to its neighbour below.
            (2f64.powi(-957), "8.209073602596753e-289"),
        ] {
            let mut out = String::new();
            print_float8(value, &mut out);
            assert_eq!(out, text);
        }
        for (value, text) in [
            (0.1f32, "0.1"),
            (1234567.0, "1.234567e+06"),
            (16777216.0, "1.6777216e+07"),
            (1e-45, "1e-45"),
            (f32::from_bits(0x4a3b_18ad), "3.0653872e+06"),
        ] {
            let mut out = String::new();
            print_float4(value, &mut out);
            assert_eq!(out, text);
        }
    }
}
