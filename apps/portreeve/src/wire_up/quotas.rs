//! Keeps quotas in the store, beside the calls: whatever may be called is on disk before it is. ADR 0073.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use policy::{CallLimits, KeptCount, LimitRules, QuotaStore};
use store::Store;

/// Where nothing is due, those of whom nothing counts any more are forgotten this often.
const PATIENCE: Duration = Duration::from_millis(300);
/// After a failure.
const PAUSE: Duration = Duration::from_millis(200);

/// A limiter that goes on from where the last run ended; what was kept of rules that are gone is forgotten.
pub(super) fn restored(rules: &LimitRules, clock: vocabulary::Clock, store: &Store) -> anyhow::Result<CallLimits> {
    let limits = CallLimits::new(rules, clock);
    let kept = store.counts().context("the quotas cannot be read")?;
    let in_force = limits.kept_rules();
    limits.restore(&kept, &in_force);
    let is_gone = |count: &&KeptCount| !in_force.contains(&count.rule);
    let gone: Vec<_> = kept
        .iter()
        .filter(is_gone)
        .map(|count| (count.rule.clone(), count.key))
        .collect();
    if !gone.is_empty() {
        store.keep_counts(&gone, &[]).context("the quotas cannot be written")?;
    }
    Ok(limits)
}

/// The same counts under other rules; of a quota that was not in force, what the store has of it.
pub(super) fn under(limits: &CallLimits, rules: &LimitRules, kept: &[KeptCount]) -> CallLimits {
    let before = limits.kept_rules();
    let limits = limits.with_rules(rules);
    let new = limits.kept_rules().difference(&before).cloned().collect();
    limits.restore(kept, &new);
    limits
}

/// Who writes; ends when dropped.
pub(super) struct Keeper {
    limits: CallLimits,
    store: Arc<Store>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// From now on quotas are counted with what is on disk.
    pub(super) fn start(limits: CallLimits, store: Arc<Store>) -> anyhow::Result<Self> {
        limits.keep();
        let (counted, kept) = (limits.clone(), store.clone());
        let thread = std::thread::Builder::new()
            .name("quotas".to_owned())
            .spawn(move || write_what_is_due(&counted, &kept))
            .context("no thread can be started")?;
        Ok(Self {
            limits,
            store,
            thread: Some(thread),
        })
    }

    /// Writes down what was counted to the last call. Blocks.
    pub(super) fn close(mut self) {
        let last = self.limits.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let Err(error) = self.store.keep_counts(&[], &last) {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the quotas could not be written: the next start counts a little more than was called"
            );
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if self.thread.is_some() {
            let _ = self.limits.close();
        }
    }
}

fn write_what_is_due(limits: &CallLimits, store: &Store) {
    while !limits.is_closed() {
        let due = limits.due(PATIENCE);
        if due.is_empty() {
            continue;
        }
        let written = store.keep_counts(&due.forgotten, &due.counts);
        limits.wrote(&due, written.is_ok());
        if let Err(error) = written {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "quotas cannot be written; calls that need it are refused"
            );
            std::thread::sleep(PAUSE);
        }
    }
}
