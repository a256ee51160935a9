//! A network of its own for a server: every address is local, and all that can be reached are doors of the gateway.

mod route;
mod tap;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::OwnedFd;

use rustix::net::sockopt::{set_ipv6_v6only, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};

use crate::egress::GATE_PORT;
use crate::environment::PROXY_PORT;
use crate::sys;

pub(crate) use self::tap::tap;

/// The sockets the gateway serves, in the order in which `launch.rs` unpacks them.
#[derive(Debug)]
pub(crate) struct Listeners {
    proxy: OwnedFd,
    tls: OwnedFd,
    http: OwnedFd,
    dns: OwnedFd,
    dns6: OwnedFd,
    gate: OwnedFd,
    others: Vec<OwnedFd>,
}

impl Listeners {
    /// All doors in their order.
    pub(crate) fn with_tap(self, tap: OwnedFd) -> Vec<OwnedFd> {
        let fixed = [self.proxy, self.tls, self.http, self.dns, self.dns6, self.gate, tap];
        fixed.into_iter().chain(self.others).collect()
    }
}

/// Makes every address local and opens the doors, one for each of `ports` among them. Must be called inside the new network namespace.
pub(crate) fn open_doors(ports: &[u16]) -> io::Result<Listeners> {
    route::make_everything_local()?;
    Ok(Listeners {
        proxy: tcp(SocketAddrV4::new(Ipv4Addr::LOCALHOST, PROXY_PORT).into())?,
        tls: tcp_everywhere(443)?,
        http: tcp_everywhere(80)?,
        dns: dns()?,
        dns6: dns6()?,
        gate: tcp(SocketAddrV4::new(Ipv4Addr::LOCALHOST, GATE_PORT).into())?,
        others: ports.iter().copied().map(tcp_everywhere).collect::<io::Result<_>>()?,
    })
}

/// Both families; where the host has no IPv6, nothing inside can speak it either and IPv4 is everything.
fn tcp_everywhere(port: u16) -> io::Result<OwnedFd> {
    match tcp(SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0).into()) {
        Err(error) if has_no_ipv6(&error) => tcp(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port).into()),
        other => other,
    }
}

fn tcp(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = open(&address, SocketType::STREAM)?;
    set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        set_ipv6_v6only(&socket, false)?;
    }
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn dns() -> io::Result<OwnedFd> {
    let address = SocketAddr::from(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 53));
    let socket = open(&address, SocketType::DGRAM)?;
    sys::set_option(&socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
    bind(&socket, &address)?;
    Ok(socket)
}

/// Where the host has no IPv6 there is nobody to ask; an unused socket takes the place.
fn dns6() -> io::Result<OwnedFd> {
    match dns6_everywhere() {
        Err(error) if has_no_ipv6(&error) => {
            let address = SocketAddr::from(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));
            let socket = open(&address, SocketType::DGRAM)?;
            bind(&socket, &address)?;
            Ok(socket)
        }
        other => other,
    }
}

fn dns6_everywhere() -> io::Result<OwnedFd> {
    let address = SocketAddr::from(SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 53, 0, 0));
    let socket = open(&address, SocketType::DGRAM)?;
    set_ipv6_v6only(&socket, true)?;
    sys::set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
    bind(&socket, &address)?;
    Ok(socket)
}

fn open(address: &SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = if address.is_ipv6() {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    // Not blocking: the gateway serves them from a runtime.
    Ok(socket_with(
        family,
        kind,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?)
}

fn has_no_ipv6(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    number == Some(libc::EAFNOSUPPORT) || number == Some(libc::EADDRNOTAVAIL)
}

/// The kernel cuts it to its own maximum.
const BACKLOG: i32 = 1024;
