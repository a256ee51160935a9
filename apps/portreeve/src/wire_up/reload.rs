//! Reads the configuration again, on SIGHUP, on file change and when an operator asks: the whole
//! new one or nothing, for live sessions too.

pub(super) mod eyes;
mod loosened;
mod stillness;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use control::ports::{Reload, ReloadWhen};
use ledger::{Event, Note};
use policy::{KeptCount, QuotaStore as _};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use super::plan;
use super::quotas;
use super::running::{Running, lines};
use crate::config::Config;

/// Editors write in several steps; a change counts when this long nothing followed it.
const SETTLED: Duration = Duration::from_millis(150);
const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Reloads when told by signal or by a changed file, and renews the certificate daily.
pub(super) fn watch(running: Arc<Running>, mut stopping: watch::Receiver<bool>) {
    tokio::spawn(async move {
        let (changed, mut changes) = mpsc::channel(1);
        let mut eyes = open_eyes(&running, changed.clone());
        let Ok(mut hangup) = signal(SignalKind::hangup()) else {
            return;
        };
        loop {
            let when = tokio::select! {
                _ = stopping.changed() => return,
                _ = hangup.recv() => ReloadWhen::Always,
                _ = changes.recv() => {
                    settle(&mut changes).await;
                    ReloadWhen::Changed
                }
                () = tokio::time::sleep(A_DAY) => {
                    renew(&running);
                    continue;
                }
            };
            running.clone().reload("system", when).await;
            eyes = open_eyes(&running, changed.clone()).or(eyes);
        }
    });
}

fn open_eyes(running: &Running, changed: mpsc::Sender<()>) -> Option<notify::RecommendedWatcher> {
    let files = running.with_current(|current| current.config.files().to_vec());
    eyes::watch(files, running.open_files.clone(), changed)
}

async fn settle(changes: &mut mpsc::Receiver<()>) {
    while tokio::time::timeout(SETTLED, changes.recv())
        .await
        .is_ok_and(|change| change.is_some())
    {}
}

fn renew(running: &Running) {
    if let Some(certificate) = &running.certificate
        && let Err(error) = certificate.renew()
    {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "the certificate could not be renewed"
        );
    }
}

impl Running {
    /// Reads the configuration again and puts it in force if it has no fault. A command that changed a file and the watch on
    /// that file both ask for it: the second finds it in force.
    pub(super) async fn reload(self: Arc<Self>, actor: &str, when: ReloadWhen) -> Reload {
        let _reading = self.reading.lock().await;
        if when == ReloadWhen::Changed
            && let Some(warnings) = self.warnings_in_force().await
        {
            return Reload::Done { warnings };
        }
        let before = self.with_current(|current| current.config.clone());
        let (in_force, open) = (before.clone(), self.open_files.clone());
        let loaded = tokio::task::spawn_blocking(move || stillness::read(in_force.file(), &in_force, &open)).await;
        let mut looser = Vec::new();
        let outcome = match loaded {
            Ok(Ok(config)) => {
                looser = loosened::by(&before, &config);
                self.clone().take_over(config).await
            }
            Ok(Err(faults)) => Err(faults.as_slice().iter().map(ToString::to_string).collect()),
            Err(_) => Err(vec!["the configuration could not be read".to_owned()]),
        };
        let (note, reload) = match outcome {
            Ok(warnings) => {
                let message = match looser.is_empty() {
                    true => "the configuration was read again and is in force".to_owned(),
                    false => format!(
                        "the configuration was read again and is in force; it is looser in: {}",
                        looser.join(", ")
                    ),
                };
                (
                    Note::done("gateway.reload", actor, None, &message),
                    Reload::Done { warnings },
                )
            }
            Err(faults) => {
                let message = format!(
                    "the configuration has {} fault(s); the old one stays in force",
                    faults.len()
                );
                (
                    Note::refused("gateway.reload", actor, None, &message),
                    Reload::Refused { faults },
                )
            }
        };
        tracing::info!(message = note.message, "reload");
        let recorded = match self.ledger.append_event(Event::Admin(note)).await {
            Ok(_) => self.note_barred(Some(&before)).await.and(self.meet_servers().await),
            Err(error) => Err(error.into()),
        };
        if let Err(error) = recorded {
            tracing::error!(error = format!("{error:#}"), "a reload could not be recorded");
        }
        self.clone().start_discovery();
        reload
    }

    /// What the store has of quotas.
    async fn kept_counts(&self) -> anyhow::Result<Vec<KeptCount>> {
        let store = self.store.clone();
        let read = tokio::task::spawn_blocking(move || store.counts()).await?;
        read.context("the quotas cannot be read")
    }

    /// The warnings of the configuration in force, if its files say the same as when they were read.
    async fn warnings_in_force(&self) -> Option<Vec<String>> {
        let config = self.with_current(|current| current.config.clone());
        let read = tokio::task::spawn_blocking(move || config.is_as_read().then_some(config));
        let config = read.await.ok().flatten()?;
        Some(told(&config))
    }

    /// Puts `config` in force; the faults are those that only show here.
    async fn take_over(self: Arc<Self>, config: Config) -> Result<Vec<String>, Vec<String>> {
        let _building = self.building.lock().await;
        let one = |error: anyhow::Error| vec![format!("{error:#}")];
        let before = self.with_current(|current| current.identity.clone());
        let identity =
            plan::identity(&config, &self.public_url, &self.tokens, &self.clock, Some(&before)).map_err(one)?;
        let mut warnings = told(&config);
        let harbour = self.harbour(&config).await;
        let lines = self
            .with_current(|current| lines(&config, Some(current), (harbour.as_ref(), &self.grants)))
            .map_err(one)?;
        let limit_rules = plan::limit_rules(&config.limits, &config.servers);
        let kept = self.kept_counts().await.map_err(one)?;
        // The last step that can fail; a running gateway keeps its state directory.
        let tls_dir = self.state_dir().join("tls");
        if let Some((certificate, source)) = self.certificate.as_ref().zip(plan::tls_source(&config, &tls_dir)) {
            certificate.replace(source).map_err(|error| one(error.into()))?;
        }
        self.with_current(|current| {
            warnings.extend(needs_restart(&current.config, &config));
            current.limiter = quotas::under(&current.limiter, &limit_rules, &kept);
            let before = std::mem::replace(&mut current.servers, lines);
            for line in before.values().chain(current.servers.values()) {
                line.bell.notify_one();
            }
            current.epoch += 1;
            current.identity = Arc::new(identity);
            current.rules = config.policy.rules.clone();
            current.screening = Arc::new(plan::screening(&config));
            self.approvals.follow(config.approvals.clone());
            self.incidents.follow(config.incident.end_by);
            current.config = Arc::new(config);
        });
        self.rebuild();
        Ok(warnings)
    }
}

/// What is to be said of a configuration that can be in force: the servers that do not start first.
fn told(config: &Config) -> Vec<String> {
    let remarks = config.obstacles().iter().chain(config.warnings());
    remarks.map(ToString::to_string).collect()
}

/// Settings that a running gateway cannot change.
fn needs_restart(old: &Config, new: &Config) -> Vec<String> {
    let kind = |tls: &crate::config::Tls| std::mem::discriminant(tls);
    let listens_elsewhere = old.listen.mcp != new.listen.mcp
        || old.listen.admin != new.listen.admin
        || old.listen.public_url != new.listen.public_url
        || kind(&old.listen.tls) != kind(&new.listen.tls)
        || old.listen.client_ca != new.listen.client_ca;
    let changes = [
        (
            listens_elsewhere,
            "`[listen]` addresses, `tls.mode`, `client_ca` and `public_url`",
        ),
        (old.state.dir != new.state.dir, "`state.dir`"),
        (old.audit != new.audit, "`[audit]`"),
    ];
    let late = changes.into_iter().filter(|(changed, _)| *changed);
    late.map(|(_, what)| format!("changes of {what} take effect at the next start"))
        .collect()
}
