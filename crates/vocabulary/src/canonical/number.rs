//! Numbers as ECMAScript prints them, or with their exact digits where that would change the value.

use std::fmt::Write as _;

use super::Spelling;

/// Appends the canonical spelling of the JSON number `text`.
pub(super) fn write(text: &str, out: &mut Vec<u8>) -> Spelling {
    // Up to fifteen digits every whole number is a double and its own spelling.
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.len() <= 15 && text != "-0" && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        out.extend_from_slice(text.as_bytes());
        return Spelling::Jcs;
    }
    let exact = Decimal::read(text);
    let rounded = text
        .parse::<f64>()
        .ok()
        .filter(|value| value.is_finite())
        .map(Decimal::of_double);
    exact.lay_out(out);
    // Equal value, equal layout: only what would have been rounded needs the extension.
    if rounded.is_some_and(|rounded| rounded == exact) {
        Spelling::Jcs
    } else {
        Spelling::JcsExact
    }
}

/// `0.<digits> * 10^point`, digits without leading and trailing zeros; zero has none and no sign.
#[derive(PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    point: i64,
}

impl Decimal {
    fn read(text: &str) -> Self {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        let leading = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..leading);
        while digits.last() == Some(&b'0') {
            digits.pop();
        }
        if digits.is_empty() {
            return Self {
                negative: false,
                digits,
                point: 0,
            };
        }
        // INVARIANT: exponents have at most nine digits (`json::read` upholds it), so this is exact.
        let exponent: i64 = exponent.parse().unwrap_or_default();
        let length = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let point = exponent
            .saturating_add(length(whole.len()))
            .saturating_sub(length(leading));
        Self {
            negative,
            digits,
            point,
        }
    }

    /// The shortest decimal that reads back as `value`; of those the nearest; of two as near the even one.
    fn of_double(value: f64) -> Self {
        let mut text = String::with_capacity(32);
        let mut shortest = match write!(text, "{value:e}") {
            Ok(()) => Self::read(&text),
            Err(_) => {
                return Self {
                    negative: false,
                    digits: Vec::new(),
                    point: 0,
                };
            }
        };
        if let Some(even) = shortest.even_neighbour(value.abs()) {
            shortest.digits = even.to_string().into_bytes();
        }
        shortest
    }

    /// Rust's shortest digits do not break ties as ECMA-262 wants (1424953923781206.25 gives …6.3):
    /// the even neighbour, where it is exactly as near to `value` and reads back as it too.
    fn even_neighbour(&self, value: f64) -> Option<u64> {
        let digits: u64 = std::str::from_utf8(&self.digits).ok()?.parse().ok()?;
        let exponent = self.point - i64::try_from(self.digits.len()).ok()?;
        if digits.is_multiple_of(2) {
            return None;
        }
        let half_of = |other: u64| (digits + other) * 5;
        [digits - 1, digits + 1]
            .into_iter()
            .find(|even| is_exactly(value, half_of(*even), exponent - 1))
            .filter(|even| format!("{even}e{exponent}").parse() == Ok(value))
    }

    /// ECMA-262 Number::toString, steps 6 to 10.
    fn lay_out(&self, out: &mut Vec<u8>) {
        let count = i64::try_from(self.digits.len()).unwrap_or(i64::MAX);
        if self.negative {
            out.push(b'-');
        }
        match self.point {
            _ if self.digits.is_empty() => out.push(b'0'),
            point if count <= point && point <= 21 => {
                out.extend_from_slice(&self.digits);
                out.extend(zeros(point - count));
            }
            point @ 1..=21 => {
                let (whole, fraction) = self.digits.split_at(usize::try_from(point).unwrap_or_default());
                out.extend_from_slice(whole);
                out.push(b'.');
                out.extend_from_slice(fraction);
            }
            point @ -5..=0 => {
                out.extend_from_slice(b"0.");
                out.extend(zeros(-point));
                out.extend_from_slice(&self.digits);
            }
            point => self.lay_out_with_exponent(point - 1, out),
        }
    }

    fn lay_out_with_exponent(&self, exponent: i64, out: &mut Vec<u8>) {
        if let Some((first, rest)) = self.digits.split_first() {
            out.push(*first);
            if !rest.is_empty() {
                out.push(b'.');
                out.extend_from_slice(rest);
            }
        }
        out.extend_from_slice(format!("e{exponent:+}").as_bytes());
    }
}

/// Whether `value` is exactly `digits * 10^exponent`; both are positive.
fn is_exactly(value: f64, digits: u64, exponent: i64) -> bool {
    // Beyond these powers of five no double below 2^53 * 2^n is a decimal of 18 digits.
    let Some(fives) = u32::try_from(exponent.unsigned_abs()).ok().filter(|fives| *fives <= 25) else {
        return false;
    };
    let fives = 5_u128.pow(fives);
    let (mantissa, power) = halves_of(value);
    let (left, right) = match exponent {
        0.. => (u128::from(mantissa), u128::from(digits) * fives),
        _ => (u128::from(mantissa) * fives, u128::from(digits)),
    };
    let odd = |number: u128| {
        (
            number >> number.trailing_zeros().min(127),
            i64::from(number.trailing_zeros()),
        )
    };
    let ((left, left_twos), (right, right_twos)) = (odd(left), odd(right));
    left == right && left_twos + power == right_twos + exponent
}

/// `value` as a whole number times a power of two.
fn halves_of(value: f64) -> (u64, i64) {
    let bits = value.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    match i64::try_from((bits >> 52) & 0x7ff).unwrap_or_default() {
        0 => (fraction, -1074),
        exponent => (fraction | 1 << 52, exponent - 1075),
    }
}

fn zeros(count: i64) -> impl Iterator<Item = u8> {
    std::iter::repeat_n(b'0', usize::try_from(count).unwrap_or_default())
}
