//! What a process has cost so far, from /proc.

use std::time::Duration;

use anyhow::{Context, Result};

/// User and system time of all its threads, ended ones included.
pub(crate) fn spent_by(process: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).context("the measured process is gone")?;
    let ticks = ticks_in(&stat).context("/proc/…/stat has another shape")?;
    Ok(Duration::from_secs_f64(
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64,
    ))
}

/// The most memory it ever held, in kilobytes.
pub(crate) fn peak_memory_of(process: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).context("the measured process is gone")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().split(' ').next());
    kilobytes
        .and_then(|text| text.parse().ok())
        .context("/proc/…/status has another shape")
}

/// Fields 14 and 15; the name before them may hold blanks and brackets.
fn ticks_in(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_found_behind_any_name() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194304 100 0 0 0 250 31 0 0 20 0 3 0 99 1 2 3";
        assert_eq!(ticks_in(stat), Some(281));
        assert_eq!(ticks_in("7 (a"), None);
    }
}
