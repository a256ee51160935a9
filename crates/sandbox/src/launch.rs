//! Starts a server through the launcher: sends the plan, takes the report and the doors, says "go", and kills the tree.

mod control;
mod failure;
pub(crate) mod launcher;
pub(crate) mod orders;
pub(crate) mod spawn;
mod steps;
mod watch;

use std::ffi::OsString;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::time::timeout;

use self::control::Control;
pub use self::failure::{Ending, LaunchFailure};
use self::orders::{Answer, GO, Orders, Walls};
use self::spawn::{Process, Spawned};
use crate::egress::Doors;
use crate::limits::{self, Delegated, Group, Limit, Observer, count};
use crate::plan::{FsPolicy, NetPolicy, Plan, UnixSockets};
use crate::probe::{self, Standing, Strength, Tier};
use crate::report::{LimitsKind, Report};

/// The first argument that makes the gateway's binary a launcher; `main` must look for it before anything else.
pub const LAUNCHER_WORD: &str = "sandbox-launch";

/// Starts servers with the strongest walls this host was found to give.
#[derive(Debug)]
pub struct Launcher {
    program: Program,
    /// What the first look found.
    first: Strength,
    /// What a later look found, where the first could not tell.
    settled: OnceLock<Strength>,
    delegated: Option<Delegated>,
    /// Less than this is not used.
    least: Option<Tier>,
}

/// The launcher's binary and what makes it one.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) executable: PathBuf,
    pub(crate) arguments: Vec<OsString>,
}

impl Launcher {
    /// Probes this host by really starting processes, with this very binary as the launcher.
    pub async fn probe() -> Self {
        Self::probe_with(PathBuf::from("/proc/self/exe"), vec![LAUNCHER_WORD.into()]).await
    }

    /// Probes this host with another binary as the launcher.
    pub async fn probe_with(executable: PathBuf, arguments: Vec<OsString>) -> Self {
        limits::reach_for_descriptors();
        let delegated = Delegated::find();
        let program = Program { executable, arguments };
        let first = probe::probe(&program, delegated.as_ref()).await;
        Self {
            program,
            first,
            settled: OnceLock::new(),
            delegated,
            least: None,
        }
    }

    /// Refuses every server where the host gives less than `least`: what it gave before, or what the operator asks for.
    #[must_use]
    pub fn at_least(mut self, least: Tier) -> Self {
        self.least = Some(least);
        self
    }

    /// The same strength with another launcher; for tests of launchers that fail.
    #[doc(hidden)]
    #[must_use]
    pub fn with_arguments(mut self, arguments: Vec<OsString>) -> Self {
        self.program.arguments = arguments;
        self
    }

    /// What this host gives.
    #[must_use]
    pub fn strength(&self) -> &Strength {
        self.settled.get().unwrap_or(&self.first)
    }

    /// What this host gives, looked for again if it could not be told before.
    async fn settle(&self) -> &Strength {
        if self.strength().standing == Standing::Unsettled {
            let again = probe::probe(&self.program, self.delegated.as_ref()).await;
            if again.standing == Standing::Found {
                let _ = self.settled.set(again);
            }
        }
        self.strength()
    }

    /// Whether walls for such a plan can be had here, and are strong enough for who asks.
    ///
    /// # Errors
    /// What is missing.
    pub fn judge(&self, fs: FsPolicy, net: NetPolicy, least: Option<Tier>) -> Result<(), LaunchFailure> {
        let strength = self.strength();
        let (tier, missing) = (strength.tier, || strength.missing_text());
        if strength.standing == Standing::Unsettled {
            return Err(LaunchFailure::Unsettled { missing: missing() });
        }
        let mut least = least.into_iter().chain(self.least);
        if let Some(least) = least.find(|least| !tier.reaches(*least)) {
            let missing = missing();
            return Err(LaunchFailure::TierFell { tier, least, missing });
        }
        match tier.offers(fs, net) {
            true => Ok(()),
            false => Err(self.too_weak(fs, net)),
        }
    }

    fn too_weak(&self, fs: FsPolicy, net: NetPolicy) -> LaunchFailure {
        let strength = self.strength();
        LaunchFailure::TierTooWeak {
            tier: strength.tier,
            fs,
            net,
            missing: strength.missing_text(),
        }
    }

    /// Builds the walls of `plan`; the server itself waits for [`Starting::go`].
    pub async fn start(&self, plan: &Plan) -> Result<Starting, LaunchFailure> {
        let strength = self.settle().await;
        let tier = strength.tier;
        self.judge(plan.fs, plan.net, plan.tier)?;
        if tier != Tier::A && plan.unix_sockets == UnixSockets::Asked {
            let missing = strength.missing_text();
            return Err(LaunchFailure::NoUnixSockets { tier, missing });
        }
        if tier == Tier::B && plan.shows_part_of_workspace() {
            return Err(self.too_weak(plan.fs, plan.net));
        }
        start(&self.program, self.delegated.as_ref(), tier, plan).await
    }
}

/// Starts `plan` in `tier` without asking whether the tier offers it; the probe finds that out.
pub(crate) async fn start(
    program: &Program,
    delegated: Option<&Delegated>,
    tier: Tier,
    plan: &Plan,
) -> Result<Starting, LaunchFailure> {
    let instance = vocabulary::random_hex(8).map_err(|_| LaunchFailure::Start {
        what: "drawing a name for the instance",
        source: io::Error::other("no randomness"),
    })?;
    let kind = delegated.map_or(LimitsKind::Rlimit, |_| LimitsKind::Cgroup);
    let orders = Orders::of(plan, tier, kind, &instance);
    let packet = orders.to_packet().ok_or(LaunchFailure::PlanTooLarge)?;
    let failed = |what| move |source| LaunchFailure::Start { what, source };
    let group = delegated
        .map(|delegated| delegated.group(&instance, &plan.limits))
        .transpose()
        .map_err(failed("making a control group"))?;
    let Spawned {
        control,
        process,
        streams,
        handed,
    } = spawn::spawn(program).await.map_err(failed("starting the launcher"))?;
    // From here on, dropping the cage kills what was started.
    let mut cage = Cage {
        control,
        process,
        first: None,
        walls: orders.walls(),
        group,
        passed: OnceLock::new(),
    };
    let mut observer = Observer::of(cage.process.id(), plan.limits, kind);
    if plan.fs != FsPolicy::ReadOnly {
        observer = observer.writing(plan.workspace.clone());
    }
    if let Some(group) = &cage.group {
        group
            .enter(cage.process.id())
            .map_err(failed("entering the control group"))?;
    }
    let (report, doors, network) = timeout(PATIENCE, cage.hand_over(&packet, handed))
        .await
        .map_err(|_| LaunchFailure::TimedOut)??;
    observer.watch_network(network);
    if cage.group.is_none() && !count::can_see_below(cage.process.id()) {
        return Err(LaunchFailure::Uncounted);
    }
    Ok(Starting {
        instance: Instance {
            report,
            streams: Some(streams),
            cage: Arc::new(cage),
        },
        doors,
        observer,
    })
}

/// How long the launcher may take until it reports, and after "go" until the server's first instruction.
const PATIENCE: Duration = Duration::from_secs(20);

/// A sandbox that stands, with a server that waits: time to serve its doors and to record the report.
#[derive(Debug)]
pub struct Starting {
    instance: Instance,
    doors: Option<Doors>,
    /// Looks at it once it runs.
    observer: Observer,
}

impl Starting {
    /// What the launcher built.
    #[must_use]
    pub fn report(&self) -> &Report {
        self.instance.report()
    }

    /// The doors of the sandbox's network, once; there are none with [`NetPolicy::Unconfined`] and in tier B.
    pub fn take_doors(&mut self) -> Option<Doors> {
        self.doors.take()
    }

    /// Lets the server start and waits until its program was executed.
    pub async fn go(self) -> Result<Instance, LaunchFailure> {
        if let Some(unserved) = self.doors {
            // Closing the tap makes the kernel wait; the runtime's threads should not.
            tokio::task::spawn_blocking(move || drop(unserved));
        }
        let control = &self.instance.cage.control;
        control.send(GO, Vec::new()).await.map_err(broken)?;
        let answer = timeout(PATIENCE, control.receive())
            .await
            .map_err(|_| LaunchFailure::TimedOut)?
            .map_err(broken)?;
        match answer {
            None | Some((Answer::Running, _)) => {
                watch::watch(&self.instance.cage, self.observer);
                Ok(self.instance)
            }
            Some((Answer::Failed(failure), _)) => Err(LaunchFailure::Layer(failure)),
            Some((Answer::Ready(_), _)) => Err(LaunchFailure::Silent),
        }
    }
}

fn broken(source: io::Error) -> LaunchFailure {
    LaunchFailure::Start {
        what: "talking to the launcher",
        source,
    }
}

/// The doors in the order in which `network.rs` makes them.
fn doors(mut descriptors: impl Iterator<Item = OwnedFd>) -> Option<Doors> {
    Some(Doors {
        proxy: TcpListener::from(descriptors.next()?),
        tls: TcpListener::from(descriptors.next()?),
        http: TcpListener::from(descriptors.next()?),
        dns: UdpSocket::from(descriptors.next()?),
        dns6: UdpSocket::from(descriptors.next()?),
        gate: Some(TcpListener::from(descriptors.next()?)),
        tap: descriptors.next()?,
        others: descriptors.map(TcpListener::from).collect(),
    })
}

/// A running server; dropping it kills everything inside.
#[derive(Debug)]
pub struct Instance {
    report: Report,
    streams: Option<Streams>,
    cage: Arc<Cage>,
}

/// The server's standard streams.
#[derive(Debug)]
pub struct Streams {
    /// What the server reads.
    pub stdin: pipe::Sender,
    /// What the server writes.
    pub stdout: pipe::Receiver,
    /// What the server complains about.
    pub stderr: pipe::Receiver,
}

impl Instance {
    /// What the launcher built around it.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The server's standard streams, once.
    pub fn take_streams(&mut self) -> Option<Streams> {
        self.streams.take()
    }

    /// Kills everything inside; [`Instance::wait`] says when nothing is left.
    pub fn kill(&self) {
        self.cage.kill();
    }

    /// Waits until the server has ended and nothing of it is left.
    pub async fn wait(&self) -> Ending {
        self.cage.ended().await
    }
}

/// The report, the doors, and the socket that answers for all others of the network.
type HandedOver = (Report, Option<Doors>, Option<OwnedFd>);

/// The processes of one instance; they do not outlive it.
#[derive(Debug)]
struct Cage {
    control: Control,
    process: Process,
    /// The first process of the pid namespace; killing it kills all others, and the kernel waits for that.
    first: Option<OwnedFd>,
    walls: Walls,
    group: Option<Group>,
    /// The limit they were killed for.
    passed: OnceLock<Limit>,
}

impl Cage {
    /// Sends the plan, waits for the report and takes what comes with it.
    async fn hand_over(&mut self, packet: &[u8], handed: Vec<OwnedFd>) -> Result<HandedOver, LaunchFailure> {
        let sent = self.control.send(packet, handed).await;
        if let Err(error) = sent.as_ref()
            && !matches!(error.raw_os_error(), Some(libc::EPIPE | libc::ECONNRESET))
        {
            // It waits for what will not come.
            return sent.map_err(broken).and(Err(LaunchFailure::Silent));
        }
        // A launcher that failed before it listened has left its reason, which is worth more than ours.
        let received = self.control.receive().await.map_err(broken)?;
        let (answer, descriptors) = match (received, sent) {
            (Some(received), _) => received,
            (None, Err(error)) => return Err(broken(error)),
            (None, Ok(())) => return Err(LaunchFailure::Silent),
        };
        let report = match answer {
            Answer::Ready(report) => report,
            Answer::Failed(failure) => return Err(LaunchFailure::Layer(failure)),
            Answer::Running => return Err(LaunchFailure::Silent),
        };
        let mut descriptors = descriptors.into_iter();
        let (mut opened, mut network) = (None, None);
        if self.walls == Walls::Namespaces {
            self.first = Some(descriptors.next().ok_or(LaunchFailure::Silent)?);
            if report.net_policy != NetPolicy::Unconfined {
                network = Some(descriptors.next().ok_or(LaunchFailure::Silent)?);
                opened = Some(doors(descriptors).ok_or(LaunchFailure::Silent)?);
            }
        }
        Ok((report, opened, network))
    }

    fn kill(&self) {
        // A server that still waits for "go" sees the end of the socket, and so does a guardian.
        self.control.close();
        match (self.walls, &self.first) {
            (Walls::Namespaces, Some(first)) => spawn::kill(first),
            (Walls::Namespaces, None) => spawn::kill(&self.process),
            // A guardian must live until it has killed the tree; then it ends by itself.
            (Walls::Landlock | Walls::Bare, _) => {}
        }
        if let Some(group) = &self.group {
            group.kill();
        }
    }

    fn end_for(&self, limit: Limit) {
        let _ = self.passed.set(limit);
        self.kill();
    }

    async fn ended(&self) -> Ending {
        let mut ended = self.process.ended();
        let last = ended.wait_for(Option::is_some).await;
        // Whoever reaps is gone only with the whole runtime.
        let last = last.ok().and_then(|ending| *ending);
        let by_itself = last.unwrap_or(Ending::Signalled(libc::SIGKILL));
        let killed_by_kernel = self.group.as_ref().is_some_and(Group::is_out_of_memory);
        let passed = self.passed.get().copied().or(killed_by_kernel.then_some(Limit::Memory));
        passed.map_or(by_itself, Ending::Passed)
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        self.kill();
    }
}
