//! Those who wait outside: canaries that nobody inside may reach, here and, in `abroad.py`, in a network of their own, and
//! there the far sides of the names that are allowed.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket, UnixDatagram, UnixListener};

use super::resolver::Resolver;
use super::stage::Stage;

pub(super) const PUBLIC: Ipv4Addr = Ipv4Addr::new(93, 184, 216, 34);
pub(super) const PUBLIC_SIX: &str = "2606:4700::1111";
pub(super) const GOOD: Ipv4Addr = Ipv4Addr::new(93, 184, 216, 40);
pub(super) const RESOLVER: Ipv4Addr = Ipv4Addr::new(9, 9, 9, 9);
pub(super) const PRIVATE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(super) const PRIVATE_SIX: &str = "fd00::1";
pub(super) const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);

/// Where canaries listen on every address.
pub(super) const PORT: u16 = 7777;
pub(super) const UDP_PORT: u16 = 7778;

/// Everybody outside, and what they noticed.
#[derive(Clone)]
pub(super) struct FarSides {
    canary: String,
    /// What those in a network of their own noticed, and how much of it was read.
    abroad: PathBuf,
    read: Arc<Mutex<usize>>,
    /// Who came to a canary.
    touched: Arc<Mutex<Vec<String>>>,
    /// What arrived at the far side of an allowed name.
    arrived: Arc<Mutex<Vec<String>>>,
    resolver: Resolver,
}

impl FarSides {
    /// Lets everybody take their places.
    pub(super) async fn start(stage: &Stage, canary: &str) -> Self {
        let sides = Self {
            canary: canary.to_owned(),
            abroad: stage.path("abroad"),
            read: Arc::default(),
            touched: Arc::default(),
            arrived: Arc::default(),
            resolver: Resolver::start(canary).await,
        };
        sides.forget();
        sides.canaries(&format!("0.0.0.0:{PORT}"));
        sides.canaries(&format!("[::]:{PORT}"));
        for address in [Ipv4Addr::LOCALHOST, PRIVATE, METADATA] {
            sides.canaries(&format!("{address}:80"));
            sides.canaries(&format!("{address}:443"));
        }
        sides.canaries(&format!("{RESOLVER}:53"));
        sides.datagrams(&format!("0.0.0.0:{UDP_PORT}"));
        sides.datagrams(&format!("[::]:{UDP_PORT}"));
        sides
    }

    /// Who came to a canary since the last time.
    pub(super) fn touches(&self) -> Vec<String> {
        self.hear_from_abroad();
        std::mem::take(&mut *self.touched.lock().unwrap())
    }

    /// What arrived at the far side of an allowed name since the last time.
    pub(super) fn arrivals(&self) -> Vec<String> {
        self.hear_from_abroad();
        std::mem::take(&mut *self.arrived.lock().unwrap())
    }

    fn hear_from_abroad(&self) {
        let text = std::fs::read_to_string(&self.abroad).unwrap();
        let mut read = self.read.lock().unwrap();
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        for line in text.get(*read..whole).unwrap_or_default().lines() {
            let list = match line.starts_with("touched") {
                true => &self.touched,
                false => &self.arrived,
            };
            list.lock().unwrap().push(line.to_owned());
        }
        *read = whole;
    }

    /// The names that the host's resolver was asked for since the last time.
    pub(super) fn asked(&self) -> Vec<String> {
        self.resolver.asked()
    }

    /// Forgets everything.
    pub(super) fn forget(&self) {
        drop((self.touches(), self.arrivals(), self.asked()));
    }

    fn canaries(&self, address: &str) {
        let (listener, sides) = (listen(address), self.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                sides.touch(&stream.local_addr().unwrap().to_string());
                let canary = sides.canary.clone();
                tokio::spawn(async move { say(stream, &canary).await });
            }
        });
    }

    fn datagrams(&self, address: &str) {
        let (socket, sides, name) = (datagrams(address), self.clone(), address.to_owned());
        tokio::spawn(async move {
            let mut heard = vec![0; 2048];
            while let Ok((_, from)) = socket.recv_from(&mut heard).await {
                sides.touch(&format!("udp {name}"));
                let _ = socket.send_to(sides.canary.as_bytes(), from).await;
            }
        });
    }

    /// A canary on a unix socket.
    pub(super) fn unix(&self, path: &Path) {
        let listener = UnixListener::bind(path).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
        self.attend(listener, path.display().to_string());
    }

    /// The same with a name that is no file.
    pub(super) fn abstract_unix(&self, name: &str) {
        use std::os::linux::net::SocketAddrExt as _;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap();
        let listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
        listener.set_nonblocking(true).unwrap();
        self.attend(UnixListener::from_std(listener).unwrap(), format!("@{name}"));
    }

    fn attend(&self, listener: UnixListener, name: String) {
        let sides = self.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                sides.touch(&name);
                let canary = sides.canary.clone();
                tokio::spawn(async move {
                    let _ = stream.write_all(canary.as_bytes()).await;
                    let _ = stream.read(&mut [0; 64]).await;
                });
            }
        });
    }

    /// The same for datagrams.
    pub(super) fn unix_datagrams(&self, path: &Path) {
        let socket = UnixDatagram::bind(path).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
        let (sides, name) = (self.clone(), path.display().to_string());
        tokio::spawn(async move {
            let mut heard = vec![0; 2048];
            while socket.recv(&mut heard).await.is_ok() {
                sides.touch(&name);
            }
        });
    }

    fn touch(&self, whom: &str) {
        self.touched.lock().unwrap().push(whom.to_owned());
    }
}

/// Says something, and waits a little for the other side to have heard it.
async fn say(mut stream: TcpStream, text: &str) {
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
    let mut rest = [0; 1024];
    let until_closed = async { while let Ok(1..) = stream.read(&mut rest).await {} };
    let _ = tokio::time::timeout(Duration::from_secs(5), until_closed).await;
}

fn listen(address: &str) -> TcpListener {
    let address: SocketAddr = address.parse().unwrap();
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4().unwrap(),
        SocketAddr::V6(_) => {
            let socket = TcpSocket::new_v6().unwrap();
            rustix::net::sockopt::set_ipv6_v6only(&socket, true).unwrap();
            socket
        }
    };
    socket.set_reuseaddr(true).unwrap();
    socket
        .bind(address)
        .unwrap_or_else(|error| panic!("{address}: {error}"));
    socket.listen(1024).unwrap()
}

/// A socket for datagrams, of its own family only.
pub(super) fn datagrams(address: &str) -> UdpSocket {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
    let address: SocketAddr = address.parse().unwrap();
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::DGRAM, flags, None).unwrap();
    if address.is_ipv6() {
        rustix::net::sockopt::set_ipv6_v6only(&socket, true).unwrap();
    }
    bind(&socket, &address).unwrap_or_else(|error| panic!("{address}: {error}"));
    UdpSocket::from_std(std::net::UdpSocket::from(socket)).unwrap()
}
