//! What a sandbox may reach. Its network namespace has no way out but these doors: listeners that were made inside it
//! and are served here, outside. A name must be on the list before it is resolved, every address it resolves to must be
//! public, exactly such an address is dialled, and what the client then says (SNI, `Host`) must name the same host
//! before its first byte goes out. Every attempt is told to a [`Witness`], whatever came of it.

mod address;
mod allow;
mod dial;
mod dns;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gate;
mod head;
mod hello;
mod host;
mod http;
mod own;
mod proxy;
mod record;
mod resolve;
mod socks;
mod stand_ins;
mod tap;
mod transparent;
mod tunnel;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

pub(crate) use self::allow::MOST_DOORS;
pub use self::allow::{AllowedDestination, Allowlist, AllowlistFault, FaultKind};
pub use self::gate::{GATE_PORT, Gate};
pub use self::record::{Attempt, Event, Reason, Verdict, Witness};
pub use self::resolve::{Answers, HostResolver, Resolve};
pub use vocabulary::Host;

use self::record::{Recorder, Target};
use self::stand_ins::StandIns;
use crate::sys::socket::Family;

/// The doors of one sandbox's network namespace, made inside it and handed out by the launcher.
#[derive(Debug)]
pub struct Doors {
    /// 127.0.0.1:3128: HTTP CONNECT, plain HTTP and SOCKS5.
    pub proxy: std::net::TcpListener,
    /// `[::]:443`, both families: whatever address the sandbox connects to.
    pub tls: std::net::TcpListener,
    /// `[::]:80`, both families.
    pub http: std::net::TcpListener,
    /// 0.0.0.0:53.
    pub dns: std::net::UdpSocket,
    /// `[::]:53`, IPv6 only.
    pub dns6: std::net::UdpSocket,
    /// 127.0.0.1:3129: the way to the gateway, for sandboxes that are given one; closed for all others.
    pub gate: Option<std::net::TcpListener>,
    /// Both families, one for each of [`Allowlist::door_ports`].
    pub others: Vec<std::net::TcpListener>,
    /// A packet socket whose filter passes UDP and refused TCP connections.
    pub tap: OwnedFd,
}

/// The doors of one sandbox, attended. Dropping it closes them.
pub struct Egress {
    lists: Option<watch::Sender<Arc<Allowlist>>>,
    room: Arc<Room>,
    tasks: Vec<JoinHandle<()>>,
    tap: Option<Arc<OwnedFd>>,
}

impl Egress {
    /// Attends the doors. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// A door that cannot be attended; the sandbox must not be let go then.
    pub fn serve(
        doors: Doors,
        allow: Arc<Allowlist>,
        names: Arc<dyn Resolve>,
        witness: Arc<dyn Witness>,
    ) -> io::Result<Self> {
        let (lists, list) = watch::channel(allow);
        let room = Arc::new(Room {
            list,
            names,
            recorder: Recorder::new(witness),
            stand_ins: StandIns::default(),
            seats: Arc::new(Semaphore::new(MOST_CONNECTIONS)),
        });
        let tap = Arc::new(doors.tap);
        let watched = tap::open(&tap)?;
        let mut listeners = vec![
            (Door::Proxy, listen(doors.proxy)?),
            (Door::Tls, listen(doors.tls)?),
            (Door::Http, listen(doors.http)?),
        ];
        for other in doors.others {
            listeners.push((Door::Other, listen(other)?));
        }
        let resolvers = [datagrams(doors.dns, Family::V4)?, datagrams(doors.dns6, Family::V6)?];
        let mut tasks = vec![
            tokio::spawn(tap::serve(watched, room.clone())),
            tokio::spawn(tick(room.clone())),
        ];
        let attended = listeners.into_iter();
        tasks.extend(attended.map(|(door, listener)| tokio::spawn(attend(listener, door, room.clone()))));
        tasks.extend(
            resolvers
                .into_iter()
                .map(|socket| tokio::spawn(dns::serve(socket, room.clone()))),
        );
        Ok(Self {
            lists: Some(lists),
            room,
            tasks,
            tap: Some(tap),
        })
    }

    /// Puts another list into force and closes every connection that was opened under the old one.
    pub fn swap(&self, allow: Allowlist) {
        if let Some(lists) = &self.lists {
            lists.send_replace(Arc::new(allow));
        }
    }

    /// Closes the doors and every connection, and tells what was not told yet.
    pub fn shut(self) {
        drop(self);
    }
}

impl Drop for Egress {
    fn drop(&mut self) {
        // Without a sender no list is in force: every connection ends.
        self.lists = None;
        self.room.recorder.tick();
        let tasks = std::mem::take(&mut self.tasks);
        for task in &tasks {
            task.abort();
        }
        let tap = self.tap.take();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                for task in tasks {
                    let _ = task.await;
                }
                // Closing a packet socket waits about 10 ms for the kernel: not on a thread that serves others.
                tokio::task::spawn_blocking(move || drop(tap));
            });
        }
    }
}

/// What all doors of one sandbox share.
pub(crate) struct Room {
    list: watch::Receiver<Arc<Allowlist>>,
    names: Arc<dyn Resolve>,
    recorder: Recorder,
    stand_ins: StandIns,
    seats: Arc<Semaphore>,
}

impl Room {
    /// The list in force now.
    fn list(&self) -> Arc<Allowlist> {
        self.list.borrow().clone()
    }
}

/// One connection's view of the room: the list it was accepted under. When that list goes, so does the connection.
pub(crate) struct Guest {
    room: Arc<Room>,
    allow: Arc<Allowlist>,
    /// The address it connected to, which is where it wants to go if it came by no proxy.
    door: SocketAddr,
}

#[derive(Clone, Copy)]
enum Door {
    Proxy,
    Tls,
    Http,
    Other,
}

impl Door {
    fn event(self) -> Event {
        match self {
            Self::Proxy => Event::Connect,
            Self::Tls => Event::Tls,
            Self::Http => Event::Http,
            Self::Other => Event::DirectTcp,
        }
    }
}

async fn attend(listener: TcpListener, door: Door, room: Arc<Room>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(BREATH).await;
            continue;
        };
        // Fails only for a connection that is already gone.
        let Ok(address) = stream.local_addr() else { continue };
        let Ok(seat) = room.seats.clone().try_acquire_owned() else {
            room.recorder
                .blocked(door.event(), Target::address(address), Reason::TooManyConnections);
            tunnel::reset(stream);
            continue;
        };
        let mut list = room.list.clone();
        let guest = Guest {
            room: room.clone(),
            allow: list.borrow_and_update().clone(),
            door: address,
        };
        tokio::spawn(async move {
            let _seat = seat;
            tokio::select! {
                () = receive(door, guest, stream) => {}
                _ = list.changed() => {}
            }
        });
    }
}

async fn receive(door: Door, guest: Guest, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    match door {
        Door::Proxy => proxy::serve(&guest, stream).await,
        Door::Tls | Door::Http | Door::Other => transparent::serve(&guest, stream, door.event()).await,
    }
}

async fn tick(room: Arc<Room>) {
    loop {
        tokio::time::sleep(record::TICK).await;
        room.recorder.tick();
    }
}

fn listen(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

fn datagrams(socket: std::net::UdpSocket, family: Family) -> io::Result<UdpSocket> {
    socket.set_nonblocking(true)?;
    crate::sys::socket::tell_destinations(socket.as_fd(), family)?;
    UdpSocket::from_std(socket)
}

/// Connections that one sandbox may hold at a time.
const MOST_CONNECTIONS: usize = 256;

/// After an error of the kernel's (no descriptors left), so that trying again does not spin.
const BREATH: Duration = Duration::from_millis(50);
