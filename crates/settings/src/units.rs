//! How people write lengths of time and sizes: `90s`, `15m`, `1h`, `7d`; `512KiB`, `10MiB`, plain bytes.

use std::time::Duration;

/// Reads a length of time: a whole number and one of `s`, `m`, `h`, `d`; never zero.
#[must_use]
pub fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    number
        .checked_mul(seconds)
        .filter(|total| (1..=MAX_SECONDS).contains(total))
        .map(Duration::from_secs)
}

/// Reads a size: a whole number of bytes, or one with `B`, `KiB`, `MiB`, `GiB`, `TiB`.
#[must_use]
pub fn size(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let factor: u64 = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(factor)
}

fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, unit))
}

/// A hundred years: longer is a slip of the pen, and leaves room for adding times.
const MAX_SECONDS: u64 = 100 * 366 * 86_400;
/// 1 EiB: leaves room for adding sizes.
pub(crate) const MAX_BYTES: u64 = 1 << 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_read_as_people_write_them() {
        for (text, seconds) in [("90s", 90), ("15m", 900), ("1h", 3_600), ("7d", 604_800)] {
            assert_eq!(duration(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for bad in [
            "",
            "5",
            "s",
            "0s",
            "-1s",
            "1.5h",
            "1 h",
            "1w",
            "99999999999999999999s",
            "18446744073709551615d",
        ] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn sizes_read_as_people_write_them() {
        for (text, bytes) in [
            ("512KiB", 524_288),
            ("10MiB", 10_485_760),
            ("7", 7),
            ("7B", 7),
            ("1GiB", 1 << 30),
        ] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for bad in ["", "KiB", "1KB", "1 KiB", "-1", "1.5MiB", "99999999999999TiB"] {
            assert_eq!(size(bad), None, "{bad}");
        }
    }
}
