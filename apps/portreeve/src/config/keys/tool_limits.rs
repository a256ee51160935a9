//! The keys of limits that hold for single tools.

use settings::Standing::{Optional, Required};
use settings::{Key, key};

pub(super) const KEYS: &[Key] = &[
    key(
        "servers.*.tools.*.limits.rate",
        "How many calls of this tool in how long, beside what holds for all.",
        Optional,
    ),
    key(
        "servers.*.tools.*.limits.rate[].per",
        "Whose calls: `principal`, `client` or `session`, or a list of them; everybody's together, if not said.",
        Optional,
    ),
    key(
        "servers.*.tools.*.limits.rate[].calls",
        "Number of calls.",
        Required("write a whole number"),
    ),
    key(
        "servers.*.tools.*.limits.rate[].window",
        "As for `limits.rate`.",
        Required("write `90s`, `15m`, `1h` or `7d`, or `day` or `month`"),
    ),
    key(
        "servers.*.tools.*.limits.quota",
        "As `rate`, counted across restarts.",
        Optional,
    ),
    key("servers.*.tools.*.limits.quota[].per", "As for `rate`.", Optional),
    key(
        "servers.*.tools.*.limits.quota[].calls",
        "Number of calls.",
        Required("write a whole number"),
    ),
    key(
        "servers.*.tools.*.limits.quota[].window",
        "As for `rate`.",
        Required("write `1h` or `7d`, or `day` or `month`"),
    ),
    key(
        "servers.*.tools.*.limits.concurrency",
        "Calls of this tool at a time, of everybody together.",
        Optional,
    ),
    key(
        "servers.*.tools.*.limits.timeout",
        "How long a call of this tool may take, instead of `limits.timeout`.",
        Optional,
    ),
];
