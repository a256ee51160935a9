//! Processor time of all processes of an instance, where no control group counts it.

use std::collections::HashMap;
use std::fs;

/// What was used so far.
#[derive(Debug, Default)]
pub(super) struct Processor {
    /// Of processes that were there at the last look: their own time, by process and the moment it began.
    own: HashMap<(u32, u64), u64>,
    /// Of those that have gone since.
    gone: u64,
}

impl Processor {
    /// Seconds that `processes` and those before them have used.
    ///
    /// Two sums, of which the greater counts: what those there have used and what they were told of the children they waited
    /// for; and what every process had used when it was last seen. Neither knows of a process that nobody waits for and that
    /// came and went between two looks.
    pub(super) fn seconds(&mut self, processes: &[u32]) -> u64 {
        let mut there = HashMap::new();
        let mut with_children = 0;
        for process in processes {
            let stat = fs::read(format!("/proc/{process}/stat")).unwrap_or_default();
            if let Some(times) = Times::read(&String::from_utf8_lossy(&stat)) {
                with_children += times.own + times.children;
                there.insert((*process, times.began), times.own);
            }
        }
        let left = self.own.iter().filter(|(process, _)| !there.contains_key(process));
        self.gone += left.map(|(_, time)| time).sum::<u64>();
        self.own = there;
        let seen = self.gone + self.own.values().sum::<u64>();
        seen.max(with_children) / TICKS
    }
}

/// Ticks of one process.
#[derive(Debug, PartialEq, Eq)]
struct Times {
    own: u64,
    children: u64,
    began: u64,
}

impl Times {
    /// Reads a line of `/proc/PID/stat`; the name in it may hold anything, but no more than one `)` that is followed by fields.
    fn read(stat: &str) -> Option<Self> {
        let fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let numbers: Vec<u64> = fields.skip(1).map(|field| field.parse().unwrap_or(0)).collect();
        let at = |index: usize| numbers.get(index).copied();
        Some(Self {
            own: at(10)? + at(11)?,
            children: at(12)? + at(13)?,
            began: at(18)?,
        })
    }
}

/// USER_HZ: a hundred to the second on every architecture we know.
const TICKS: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_whatever_name() {
        let line =
            "42 (a) 1 (b)) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 30 20 20 0 1 0 777 4096 1 18446744073709551615";
        let times = Times {
            own: 300,
            children: 50,
            began: 777,
        };
        assert_eq!(Times::read(line), Some(times));
        assert_eq!(Times::read("nonsense"), None);
    }
}
