//! How long a call counts: for a length of time after it was made, or until the day or month ends in which it was.

use std::fmt;
use std::time::Duration;

use vocabulary::Timestamp;

/// How long a call counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Window {
    /// So long after it was made.
    Rolling(Duration),
    /// Until the end of its day, in UTC.
    Day,
    /// Until the end of its month, in UTC.
    Month,
}

/// Milliseconds since 1970-01-01 UTC.
pub(super) type Millis = i64;

/// The time in milliseconds.
pub(super) fn millis(time: Timestamp) -> Millis {
    time.as_micros().div_euclid(1000)
}

/// The moment.
pub(super) fn moment(at: Millis) -> Timestamp {
    Timestamp::from_micros(at.saturating_mul(1000))
}

impl Window {
    /// No window is longer: a leap year.
    pub const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

    /// When a call that was made at `at` counts no more.
    pub(super) fn frees(self, at: Millis) -> Millis {
        match self {
            Self::Rolling(length) => at.saturating_add(in_millis(length)),
            Self::Day => (at.div_euclid(DAY) + 1) * DAY,
            Self::Month => next_month(at),
        }
    }

    /// Calls of this stretch of time are counted as one group, if a window is told in `groups` of them. A group counts until
    /// its last call does not.
    pub(super) fn grain(self, groups: i64) -> Millis {
        match self {
            Self::Rolling(length) => in_millis(length) / groups,
            Self::Day | Self::Month => Millis::MAX,
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rolling(length) => {
                let seconds = length.as_secs();
                if length.subsec_millis() > 0 {
                    return write!(f, "{}ms", length.as_millis());
                }
                let units = [(86_400, "d"), (3_600, "h"), (60, "m")];
                match units.iter().find(|(unit, _)| seconds > 0 && seconds % unit == 0) {
                    Some((unit, name)) => write!(f, "{}{name}", seconds / unit),
                    None => write!(f, "{seconds}s"),
                }
            }
            Self::Day => f.write_str("day"),
            Self::Month => f.write_str("month"),
        }
    }
}

fn in_millis(length: Duration) -> Millis {
    Millis::try_from(length.min(Window::LONGEST).as_millis()).unwrap_or(Millis::MAX)
}

/// When the month ends in which `at` lies: the proleptic Gregorian calendar, counted from the first of March of year 0 so that
/// a leap day is the last of its year.
fn next_month(at: Millis) -> Millis {
    let days = at.div_euclid(DAY) + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    // January and February belong to the year before, which begins in March: the month after February begins the next.
    let first_of_next = match month {
        11 => year_begins(era * 400 + year_of_era + 1),
        month => year_begins(era * 400 + year_of_era) + (153 * (month + 1) + 2) / 5,
    };
    (first_of_next - 719_468) * DAY
}

/// Days from the first of March of year 0 to that of `year`.
fn year_begins(year: i64) -> i64 {
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400)
}

const DAY: Millis = 24 * 60 * 60 * 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn frees(window: Window, at: &str) -> String {
        let at = Timestamp::parse(at).expect("a time");
        let text = moment(window.frees(millis(at))).to_string();
        text.trim_end_matches(".000000Z").to_owned()
    }

    #[test]
    fn months_end_where_the_calendar_says() {
        for (at, end) in [
            ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00"),
            ("2026-01-31T23:59:59.999Z", "2026-02-01T00:00:00"),
            ("2026-02-28T12:00:00Z", "2026-03-01T00:00:00"),
            ("2028-02-28T23:59:59Z", "2028-03-01T00:00:00"),
            ("2028-02-29T23:59:59Z", "2028-03-01T00:00:00"),
            ("2028-03-01T00:00:00Z", "2028-04-01T00:00:00"),
            ("2100-02-28T23:59:59Z", "2100-03-01T00:00:00"),
            ("2000-02-29T00:00:00Z", "2000-03-01T00:00:00"),
            ("2026-04-30T23:59:59.999Z", "2026-05-01T00:00:00"),
            ("2026-12-31T23:59:59.999Z", "2027-01-01T00:00:00"),
            ("1969-12-31T23:59:59Z", "1970-01-01T00:00:00"),
        ] {
            assert_eq!(frees(Window::Month, at), end, "{at}");
        }
    }

    // Every day of eight years, by the calendar of another implementation.
    #[test]
    fn every_day_of_some_years_is_in_its_month() {
        let mut at = millis(Timestamp::parse("2096-01-01T00:00:00Z").expect("a time"));
        for _ in 0..8 * 366 {
            let here = moment(at).to_string();
            let next = moment(Window::Month.frees(at)).to_string();
            let last = moment(Window::Month.frees(at) - 1).to_string();
            assert!(
                next.get(8..) == Some("01T00:00:00.000000Z") && next > here,
                "{here}: {next}"
            );
            assert_eq!(last.get(..7), here.get(..7), "{here}");
            at += DAY;
        }
    }

    #[test]
    fn days_end_at_midnight_in_utc_and_lengths_of_time_when_they_are_over() {
        assert_eq!(frees(Window::Day, "2028-02-28T23:59:59.999Z"), "2028-02-29T00:00:00");
        assert_eq!(frees(Window::Day, "2028-02-29T00:00:00Z"), "2028-03-01T00:00:00");
        let rolling = Window::Rolling(Duration::from_secs(86_400));
        assert_eq!(frees(rolling, "2028-02-28T13:00:00Z"), "2028-02-29T13:00:00");
    }

    #[test]
    fn no_window_is_longer_than_a_leap_year() {
        for length in [Window::LONGEST, Duration::from_secs(10 * 366 * 86_400), Duration::MAX] {
            let end = frees(Window::Rolling(length), "2028-01-01T00:00:00Z");
            assert_eq!(end, "2029-01-01T00:00:00", "{length:?}");
        }
    }

    #[test]
    fn windows_are_shown_as_they_are_written() {
        let shown = |seconds| Window::Rolling(Duration::from_secs(seconds)).to_string();
        assert_eq!(
            [shown(90), shown(60), shown(7_200), shown(86_400)],
            ["90s", "1m", "2h", "1d"]
        );
        let shorter = Window::Rolling(Duration::from_millis(1_500));
        assert_eq!([shorter.to_string(), shown(0)], ["1500ms", "0s"]);
        assert_eq!(
            (Window::Day.to_string(), Window::Month.to_string()),
            ("day".into(), "month".into())
        );
    }
}
