//! Plugs the rooms together and runs the gateway until it is told to stop.

mod approvals;
mod breather;
mod descriptors;
mod discovery;
mod identities;
mod incidents;
mod orders;
mod plan;
mod ports;
mod processes;
mod quotas;
mod reload;
mod running;
mod seen;
mod state_files;
mod suppose;
mod tier;
mod uids;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use control::ports::Ports;
use control::{ControlPlane, HostRule};
use gateway::edge::listen::Door;
use gateway::edge::tls::{self, ServingCertificate};
use store::StateLock;
use tokio::sync::watch;
use vocabulary::Clock;

pub(crate) use self::approvals::ApprovalDesk;
pub(crate) use self::discovery::note as inventory_note;
pub(crate) use self::incidents::{INCIDENT_FILE, IncidentDesk};
pub(crate) use self::orders::{Books, Configured, approve_item, heed_item};
pub(crate) use self::plan::{facts, ledger_settings, limit_rules, retention};
pub(crate) use self::ports::StatePayloads;
pub(crate) use self::ports::shown;
pub use self::ports::{StateActivity, StateTokens};
pub(crate) use self::processes::launcher_now;
pub use self::running::Running;
pub(crate) use self::state_files::make_dir;
pub use self::state_files::{Whereabouts, admin_token_file};
pub(crate) use self::suppose::supposing;
pub(crate) use self::tier::{Memory, probed};

use crate::config::{Config, Listen, Local, Tls};

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// Written once both listeners answer.
    pub ready_file: Option<PathBuf>,
}

/// Runs the gateway until SIGTERM or SIGINT, then drains and stops.
///
/// # Errors
/// When it cannot start.
pub async fn serve(config: Config, options: ServeOptions) -> anyhow::Result<()> {
    let started = Started::up(config).await?;
    started.announce(options.ready_file.as_deref())?;
    stop_signal().await;
    tracing::info!("stopping: calls in flight are finished first");
    started.down().await
}

/// A gateway that answers.
pub struct Started {
    running: Arc<Running>,
    whereabouts: Whereabouts,
    stop: watch::Sender<bool>,
    doors: Vec<tokio::task::JoinHandle<()>>,
    quotas: quotas::Keeper,
    _lock: StateLock,
}

/// Calls that outlive their connection have this long to end.
const LAST_CALLS: Duration = Duration::from_secs(30);

impl Started {
    /// Starts everything; both listeners answer when this returns.
    ///
    /// # Errors
    /// When the state directory is in use, a port is taken, or the ledger does not verify.
    pub async fn up(config: Config) -> anyhow::Result<Self> {
        let clock = Clock::system();
        let state = config.state.dir.clone();
        make_dir(&state)?;
        let lock = take_lock(&state).await?;
        let certificate = serving_certificate(&config, &clock)?;
        let (mcp_door, admin_door) = doors(&config.listen, certificate.as_ref()).await?;
        let scheme = if certificate.is_some() { "https" } else { "http" };
        let bound = |address: SocketAddr| format!("{scheme}://{address}");
        let public_url = config.listen.public_url.clone().unwrap_or(bound(mcp_door.address()?));
        let whereabouts = Whereabouts {
            mcp: format!("{}/mcp", bound(mcp_door.address()?)),
            admin: bound(admin_door.address()?),
            ca: matches!(config.listen.tls, Tls::Auto).then(|| tls::local_ca(&tls_dir(&config))),
        };
        let launcher = processes::launcher(&Local::from(&config), Memory::Keep).await;
        let running = Running::new(config, (clock.clone(), launcher), certificate, public_url)?;
        state_files::first_admin_token(&running.store, &state, &clock)?;
        running.note_start().await?;
        running.incidents.note_start().await?;
        running.note_barred(None).await?;
        running.meet_servers().await?;
        let limiter = running.with_current(|current| current.limiter.clone());
        let quotas = quotas::Keeper::start(limiter, running.store.clone())?;
        let ports = running.clone().ports(whereabouts.mcp.clone())?;
        let (stop, stopping) = watch::channel(false);
        running.approvals.keep_sweeping();
        running.approvals.tell(whereabouts.admin.clone())?;
        running.incidents.keep_looking(state);
        running.clone().start_discovery();
        tokio::spawn(running.clone().ask_the_stale());
        reload::watch(running.clone(), stopping.clone());
        let doors = vec![
            tokio::spawn(data_plane(running.clone(), mcp_door, stopping.clone())),
            tokio::spawn(control_plane(running.clone(), ports, admin_door, stopping)),
        ];
        Ok(Self {
            running,
            whereabouts,
            stop,
            doors,
            quotas,
            _lock: lock,
        })
    }

    /// Where it answers.
    #[must_use]
    pub fn whereabouts(&self) -> &Whereabouts {
        &self.whereabouts
    }

    /// The time, by the gateway's clock.
    #[must_use]
    pub fn now(&self) -> vocabulary::Timestamp {
        self.running.clock.now()
    }

    /// The tokens this gateway takes.
    #[must_use]
    pub fn tokens(&self) -> StateTokens {
        self.running.live_tokens()
    }

    /// Discovers a server again.
    ///
    /// # Errors
    /// When there is no such server.
    pub async fn refresh(&self, server: &str) -> anyhow::Result<()> {
        self.running
            .discover_again(&vocabulary::ServerId::parse(server)?)
            .await
            .context("no such server is configured")?;
        Ok(())
    }

    /// Tells people and programs where it answers.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn announce(&self, ready_file: Option<&std::path::Path>) -> anyhow::Result<()> {
        state_files::write_whereabouts(self.running.state_dir(), &self.whereabouts)?;
        if let Some(file) = ready_file {
            state_files::write_ready_file(file, &self.whereabouts)?;
        }
        tracing::info!(
            mcp = self.whereabouts.mcp,
            admin = self.whereabouts.admin,
            "the gateway answers"
        );
        Ok(())
    }

    /// Stops accepting, lets calls finish, closes the ledger.
    ///
    /// # Errors
    /// When a listener broke.
    pub async fn down(self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        self.running.gateway().end_streams();
        for door in self.doors {
            door.await.context("a listener broke")?;
        }
        let _ = tokio::time::timeout(LAST_CALLS, self.running.until_idle()).await;
        self.running.end_processes().await;
        let (ledger, quotas) = (self.running.ledger.clone(), self.quotas);
        let last = move || {
            quotas.close();
            ledger.shutdown();
        };
        tokio::task::spawn_blocking(last).await.context("the ledger broke")?;
        state_files::forget_whereabouts(self.running.state_dir());
        Ok(())
    }
}

/// A command may hold the state directory for a moment: its work is waited for.
async fn take_lock(state: &std::path::Path) -> Result<StateLock, store::LockError> {
    for _ in 0..20 {
        match StateLock::take(state) {
            Err(store::LockError::InUse(_)) => tokio::time::sleep(Duration::from_millis(100)).await,
            taken => return taken,
        }
    }
    StateLock::take(state)
}

async fn data_plane(running: Arc<Running>, door: Door, stopping: watch::Receiver<bool>) {
    let gateway = running.gateway().clone();
    let told = gateway.clone();
    let on_unparsable = move |address| drop(tokio::spawn(gateway::record_unparsable(told.clone(), address)));
    let door = door.on_unparsable(Arc::new(on_unparsable));
    door.serve(
        move |request, peer| gateway::handle(gateway.clone(), request, peer),
        stopped(stopping),
    )
    .await;
}

async fn control_plane(running: Arc<Running>, ports: Ports, door: Door, stopping: watch::Receiver<bool>) {
    let plane = ControlPlane::new(ports, Arc::new(running.ledger.clone()), running.clock.clone());
    let hosts: HostRule = Arc::new(move |uri, headers| running.gateway().in_force().admits(uri, headers));
    let handle = move |request, peer: gateway::edge::Peer| {
        let (plane, hosts) = (plane.clone(), hosts.clone());
        async move { plane.answer(request, peer.address, &hosts).await }
    };
    door.serve(handle, stopped(stopping)).await;
}

async fn stopped(mut stopping: watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await;
}

async fn doors(listen: &Listen, certificate: Option<&Arc<ServingCertificate>>) -> anyhow::Result<(Door, Door)> {
    let mcp_tls = certificate
        .map(|certificate| certificate.server_config(listen.client_ca.as_deref()))
        .transpose()?;
    let admin_tls = certificate
        .map(|certificate| certificate.server_config(None))
        .transpose()?;
    let mcp = Door::bind(listen.mcp, mcp_tls)
        .await
        .with_context(|| format!("cannot listen on {}", listen.mcp))?;
    let admin = Door::bind(listen.admin, admin_tls)
        .await
        .with_context(|| format!("cannot listen on {}", listen.admin))?;
    let shares = descriptors::Shares::of_this_process();
    upstream::bound_connections(shares.upstream);
    Ok((mcp.at_most(shares.connections), admin.at_most(shares.administration)))
}

fn serving_certificate(config: &Config, clock: &Clock) -> anyhow::Result<Option<Arc<ServingCertificate>>> {
    match plan::tls_source(config, &tls_dir(config)) {
        None => Ok(None),
        Some(source) => Ok(Some(ServingCertificate::load(source, clock.clone())?)),
    }
}

fn tls_dir(config: &Config) -> PathBuf {
    config.state.dir.join("tls")
}

/// Completes when the process is asked to stop.
pub(crate) async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
