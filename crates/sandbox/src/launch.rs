//! Starts a server through the launcher: sends the plan, takes the report and the doors, says "go", and kills the tree.

mod control;
pub(crate) mod launcher;
pub(crate) mod orders;
pub(crate) mod spawn;
mod steps;
mod watch;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use thiserror::Error;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use self::control::Control;
use self::orders::{Answer, GO, Orders, Walls};
use self::spawn::{Process, Spawned};
use crate::egress::Doors;
use crate::limits::{Delegated, Group, Limit, count};
use crate::plan::{FsPolicy, NetPolicy, Plan, UnixSockets};
use crate::probe::{self, Strength, Tier};
use crate::report::{Failure, LimitsKind, Report};

/// The first argument that makes the gateway's binary a launcher; `main` must look for it before anything else.
pub const LAUNCHER_WORD: &str = "sandbox-launch";

/// Starts servers with the strongest walls this host was found to give.
#[derive(Debug)]
pub struct Launcher {
    program: Program,
    strength: Strength,
    delegated: Option<Delegated>,
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
        let delegated = Delegated::find();
        let program = Program { executable, arguments };
        let strength = probe::probe(&program, delegated.as_ref()).await;
        Self {
            program,
            strength,
            delegated,
        }
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
        &self.strength
    }

    /// Builds the walls of `plan`; the server itself waits for [`Starting::go`].
    pub async fn start(&self, plan: &Plan) -> Result<Starting, LaunchFailure> {
        let tier = self.strength.tier;
        if tier != Tier::A && plan.unix_sockets == UnixSockets::Asked {
            return Err(LaunchFailure::NoUnixSockets {
                tier,
                missing: self.strength.missing_text(),
            });
        }
        if !tier.offers(plan.fs, plan.net) || (tier == Tier::B && plan.shows_part_of_workspace()) {
            return Err(LaunchFailure::TierTooWeak {
                tier,
                fs: plan.fs,
                net: plan.net,
                missing: self.strength.missing_text(),
            });
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
        memory: plan.limits.memory,
        passed: OnceLock::new(),
    };
    if let Some(group) = &cage.group {
        group
            .enter(cage.process.id())
            .map_err(failed("entering the control group"))?;
    }
    let (report, doors) = timeout(PATIENCE, cage.hand_over(&packet, handed))
        .await
        .map_err(|_| LaunchFailure::TimedOut)??;
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
    })
}

/// How long the launcher may take until it reports, and after "go" until the server's first instruction.
const PATIENCE: Duration = Duration::from_secs(20);

/// A sandbox that stands, with a server that waits: time to serve its doors and to record the report.
#[derive(Debug)]
pub struct Starting {
    instance: Instance,
    doors: Option<Doors>,
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
                watch::watch(&self.instance.cage);
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

/// The processes of one instance; they do not outlive it.
#[derive(Debug)]
struct Cage {
    control: Control,
    process: Process,
    /// The first process of the pid namespace; killing it kills all others, and the kernel waits for that.
    first: Option<OwnedFd>,
    walls: Walls,
    group: Option<Group>,
    /// Bytes that all of them may hold together.
    memory: u64,
    /// The limit they were killed for.
    passed: OnceLock<Limit>,
}

impl Cage {
    /// Sends the plan, waits for the report and takes what comes with it.
    async fn hand_over(
        &mut self,
        packet: &[u8],
        handed: Vec<OwnedFd>,
    ) -> Result<(Report, Option<Doors>), LaunchFailure> {
        let sent = self.control.send(packet, handed).await;
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
        let mut opened = None;
        if self.walls == Walls::Namespaces {
            self.first = Some(descriptors.next().ok_or(LaunchFailure::Silent)?);
            if report.net_policy != NetPolicy::Unconfined {
                opened = Some(doors(descriptors).ok_or(LaunchFailure::Silent)?);
            }
        }
        Ok((report, opened))
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

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this code. Codes above 128 may also stand for a signal, as in a shell.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It was killed for passing this limit.
    Passed(Limit),
}

impl fmt::Display for Ending {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code @ 129..=192) => {
                write!(out, "exited with code {code}, as by signal {}", signal_text(code - 128))
            }
            Self::Exited(code) => write!(out, "exited with code {code}"),
            Self::Signalled(signal) => write!(out, "was ended by signal {}", signal_text(*signal)),
            Self::Passed(limit) => write!(out, "was ended for passing its limit `{}`", limit.as_str()),
        }
    }
}

/// A signal with its name, where it is one that ends programs.
fn signal_text(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        31 => "SIGSYS",
        _ => return signal.to_string(),
    };
    format!("{signal} ({name})")
}

/// Why a server was not started. Nothing of it has run.
#[derive(Debug, Error)]
pub enum LaunchFailure {
    /// The plan asks for walls that this host cannot give.
    #[error("this host gives sandboxes of tier {tier}, which do not offer fs = \"{}\" with net = \"{}\": {missing}; see `portreeve doctor`", fs.as_str(), net.as_str(), tier = tier.as_str())]
    TierTooWeak {
        /// What the host gives.
        tier: Tier,
        /// What the plan asks for.
        fs: FsPolicy,
        /// What the plan asks for.
        net: NetPolicy,
        /// What the next tier would need.
        missing: String,
    },
    /// Only a file tree of its own keeps the host's sockets away from a server.
    #[error("this host gives sandboxes of tier {tier}, in which `unix_sockets` would reach those of the host: {missing}; see `portreeve doctor`", tier = tier.as_str())]
    NoUnixSockets {
        /// What the host gives.
        tier: Tier,
        /// What the next tier would need.
        missing: String,
    },
    /// A wall could not be built.
    #[error("the sandbox could not be built at step `{}` (error {}): {}", .0.layer.as_str(), .0.errno, .0.detail)]
    Layer(Failure),
    /// The gateway could not do its part.
    #[error("{what} did not work")]
    Start {
        /// What was tried.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The plan does not fit into a packet.
    #[error("command, environment and paths together are larger than 128 KiB; shorten them")]
    PlanTooLarge,
    /// Nobody would count its memory.
    #[error(
        "there is no control group here, and `/proc` does not show what a server starts, so that nobody would count its memory; mount `/proc` without `hidepid`, or give the gateway a control group of its own"
    )]
    Uncounted,
    /// The launcher ended or spoke out of turn.
    #[error("the launcher ended without a report")]
    Silent,
    /// The launcher took too long.
    #[error("the launcher did not report within 20 seconds")]
    TimedOut,
}
