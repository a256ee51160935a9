//! The socket calls that no safe wrapper offers: datagrams with the address they were sent to, and packets with their
//! kind. Each block of `unsafe` is one system call, or one read of what that call wrote.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use vocabulary::Timestamp;

/// A datagram's length, its sender and the address it was sent to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Datagram {
    pub(crate) length: usize,
    pub(crate) from: SocketAddr,
    pub(crate) to: IpAddr,
}

/// The family of a socket's addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    V4,
    V6,
}

/// A packet's length and whether it is the copy made on its way out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Packet {
    pub(crate) length: usize,
    pub(crate) outgoing: bool,
}

/// Asks the kernel to say of each datagram which address it was sent to, and to let answers leave from there.
pub(crate) fn tell_destinations(socket: BorrowedFd<'_>, family: Family) -> io::Result<()> {
    match family {
        Family::V4 => switch_on(socket, libc::IPPROTO_IP, libc::IP_PKTINFO),
        Family::V6 => {
            // IPv6 sends only from addresses that an interface has, and every address of a sandbox is local by its
            // route alone; IPv4 is content with the route.
            switch_on(socket, libc::IPPROTO_IPV6, libc::IPV6_FREEBIND)?;
            switch_on(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)
        }
    }
}

fn switch_on(socket: BorrowedFd<'_>, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: setsockopt reads `optlen` bytes from `optval`; both describe `on`, which lives until the call returns.
    // The descriptor is borrowed, so it is open.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const on).cast(),
            length_of::<libc::c_int>(),
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Receives one datagram without waiting. A datagram without a destination is an error.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Datagram> {
    let mut from = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut control = Control::EMPTY;
    let mut piece = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let mut message = empty_message();
    message.msg_name = from.as_mut_ptr().cast();
    message.msg_namelen = length_of::<libc::sockaddr_storage>();
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = size_of::<Control>() as _;
    // SAFETY: recvmsg writes at most `msg_namelen`, `iov_len` and `msg_controllen` bytes to the three pointers of
    // `message`; each pair was set above from one live, exclusively borrowed buffer of that size.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the storage was zeroed, all-zero bytes are a valid `sockaddr_storage`, and recvmsg only wrote bytes to it.
    let from = unsafe { from.assume_init() };
    let from = address_of(&from).ok_or(io::ErrorKind::InvalidData)?;
    let to = destination(&message).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Datagram { length, from, to })
}

/// Sends one datagram without waiting, from the address that was asked.
pub(crate) fn send_from(socket: BorrowedFd<'_>, bytes: &[u8], from: IpAddr, to: SocketAddr) -> io::Result<()> {
    let (mut name, name_length) = storage_of(to);
    let mut control = Control::EMPTY;
    let mut piece = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut message = empty_message();
    message.msg_name = (&raw mut name).cast();
    message.msg_namelen = name_length;
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = size_of::<Control>() as _;
    match from {
        IpAddr::V4(from) => {
            let source = libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: libc::in_addr {
                    s_addr: u32::from_ne_bytes(from.octets()),
                },
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            attach(&mut message, libc::IPPROTO_IP, libc::IP_PKTINFO, source);
        }
        IpAddr::V6(from) => {
            let source = libc::in6_pktinfo {
                ipi6_addr: libc::in6_addr { s6_addr: from.octets() },
                ipi6_ifindex: 0,
            };
            attach(&mut message, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, source);
        }
    }
    // SAFETY: sendmsg only reads: `msg_namelen` bytes of `name`, `iov_len` bytes of `bytes` (the cast to a mutable
    // pointer is what `iovec` asks for) and `msg_controllen` bytes of `control`, all alive until it returns.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) };
    if sent < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Registers a descriptor with the runtime, to wait until it can be read.
pub(crate) fn watch(socket: Arc<OwnedFd>) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    // SAFETY: the descriptor must stay open and the same until the `AsyncFd` is dropped. It belongs to an `OwnedFd`,
    // which closes it only when dropped and always returns the same number; the `Arc` inside the `AsyncFd` keeps it alive.
    Ok(unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }?)
}

/// Receives the start of one packet from a packet socket without waiting; what does not fit is dropped.
pub(crate) fn receive_packet(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Packet> {
    let mut from = MaybeUninit::<libc::sockaddr_ll>::zeroed();
    let mut from_length = length_of::<libc::sockaddr_ll>();
    // SAFETY: recvfrom writes at most `buffer.len()` bytes to the exclusively borrowed `buffer` and at most
    // `from_length` bytes to `from`, which is that large.
    let length = unsafe {
        libc::recvfrom(
            socket.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            libc::MSG_DONTWAIT,
            from.as_mut_ptr().cast(),
            &raw mut from_length,
        )
    };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the structure was zeroed, all-zero bytes are a valid `sockaddr_ll`, and recvfrom only wrote bytes to it.
    let from = unsafe { from.assume_init() };
    Ok(Packet {
        length,
        outgoing: from.sll_pkttype == libc::PACKET_OUTGOING,
    })
}

/// When the kernel saw the packet that was received last. Asked before any packet came, it says nothing, but the kernel
/// keeps the time from then on.
pub(crate) fn packet_time(socket: BorrowedFd<'_>) -> Option<Timestamp> {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: this request writes one `timespec` of the C library's layout to its argument, which is that large.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), LAST_PACKET_TIME, time.as_mut_ptr()) };
    if done != 0 {
        return None;
    }
    // SAFETY: the structure was zeroed, all-zero bytes are a valid `timespec`, and the kernel only wrote bytes to it.
    let time = unsafe { time.assume_init() };
    let micros = time.tv_sec.checked_mul(1_000_000)?.checked_add(time.tv_nsec / 1000)?;
    Some(Timestamp::from_micros(micros))
}

/// SIOCGSTAMPNS, where `timespec` has 64 bits; libc does not name it.
const LAST_PACKET_TIME: libc::Ioctl = 0x8907;

/// Room for one control message of either family, aligned as `cmsghdr` wants it.
#[repr(C, align(8))]
struct Control([u8; 64]);

impl Control {
    const EMPTY: Self = Self([0; 64]);
}

fn empty_message() -> libc::msghdr {
    // SAFETY: `msghdr` is a C structure of integers and pointers; all zero is a valid value (no name, no buffers).
    unsafe { MaybeUninit::zeroed().assume_init() }
}

fn length_of<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}

/// Writes one control message into the (zeroed) control buffer of `message` and shortens the buffer to it.
///
/// INVARIANT: the callers set `msg_control` to a [`Control`], which has room for either `pktinfo`.
fn attach<T: Copy>(message: &mut libc::msghdr, level: libc::c_int, kind: libc::c_int, value: T) {
    let size = size_of::<T>() as libc::c_uint;
    // SAFETY: CMSG_FIRSTHDR needs `msg_control` to point to `msg_controllen` bytes that are aligned for `cmsghdr`: both
    // callers set it to a `Control`. The header and CMSG_LEN(size) bytes lie within its 64 bytes (16 + 20 at most), so
    // the writes through the header and CMSG_DATA stay inside; the value is written unaligned.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        if header.is_null() {
            return;
        }
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        (*header).cmsg_len = libc::CMSG_LEN(size) as _;
        libc::CMSG_DATA(header).cast::<T>().write_unaligned(value);
        message.msg_controllen = libc::CMSG_SPACE(size) as _;
    }
}

/// The address in the control messages of a received datagram.
fn destination(message: &libc::msghdr) -> Option<IpAddr> {
    // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR walk `msg_control` within `msg_controllen`, which the kernel set to what it
    // wrote; the buffer outlives `message`. A payload is read only when `cmsg_len` covers it, and unaligned.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(current) = header.as_ref() {
            let holds = |size: usize| current.cmsg_len >= libc::CMSG_LEN(size as libc::c_uint) as _;
            let data = libc::CMSG_DATA(header);
            if (current.cmsg_level, current.cmsg_type) == (libc::IPPROTO_IP, libc::IP_PKTINFO)
                && holds(size_of::<libc::in_pktinfo>())
            {
                let found = data.cast::<libc::in_pktinfo>().read_unaligned();
                return Some(IpAddr::V4(Ipv4Addr::from(found.ipi_addr.s_addr.to_ne_bytes())));
            }
            if (current.cmsg_level, current.cmsg_type) == (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO)
                && holds(size_of::<libc::in6_pktinfo>())
            {
                let found = data.cast::<libc::in6_pktinfo>().read_unaligned();
                return Some(IpAddr::V6(Ipv6Addr::from(found.ipi6_addr.s6_addr)));
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}

fn address_of(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let start = &raw const *storage;
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: `sockaddr_storage` is larger than and aligned for `sockaddr_in`; any bytes are a valid one.
            let address = unsafe { start.cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(address.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: `sockaddr_storage` is larger than and aligned for `sockaddr_in6`; any bytes are a valid one.
            let address = unsafe { start.cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            let port = u16::from_be(address.sin6_port);
            Some(SocketAddr::V6(SocketAddrV6::new(ip, port, 0, address.sin6_scope_id)))
        }
        _ => None,
    }
}

fn storage_of(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all-zero bytes are a valid `sockaddr_storage`.
    let mut storage: libc::sockaddr_storage = unsafe { MaybeUninit::zeroed().assume_init() };
    let start = &raw mut storage;
    match address {
        SocketAddr::V4(address) => {
            let written = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(address.ip().octets()),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: `sockaddr_storage` is larger than and aligned for `sockaddr_in`.
            unsafe { start.cast::<libc::sockaddr_in>().write(written) };
            (storage, length_of::<libc::sockaddr_in>())
        }
        SocketAddr::V6(address) => {
            let written = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr {
                    s6_addr: address.ip().octets(),
                },
                sin6_scope_id: address.scope_id(),
            };
            // SAFETY: `sockaddr_storage` is larger than and aligned for `sockaddr_in6`.
            unsafe { start.cast::<libc::sockaddr_in6>().write(written) };
            (storage, length_of::<libc::sockaddr_in6>())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::Duration;

    use super::*;

    fn echo(any: &str, family: Family, asked: IpAddr) {
        let door = UdpSocket::bind((any, 0)).unwrap();
        tell_destinations(door.as_fd(), family).unwrap();
        let caller = UdpSocket::bind((any, 0)).unwrap();
        caller.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let place = SocketAddr::new(asked, door.local_addr().unwrap().port());
        caller.send_to(b"hello", place).unwrap();
        let mut buffer = [0; 64];
        let got = loop {
            match receive(door.as_fd(), &mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                other => break other.unwrap(),
            }
        };
        assert_eq!((got.length, got.to), (5, asked));
        assert_eq!(got.from.port(), caller.local_addr().unwrap().port());
        send_from(door.as_fd(), b"there", got.to, got.from).unwrap();
        assert_eq!(caller.recv_from(&mut buffer).unwrap(), (5, place));
        assert_eq!(&buffer[..5], b"there");
    }

    #[test]
    fn an_answer_leaves_from_the_address_that_was_asked() {
        echo("0.0.0.0", Family::V4, "127.0.0.77".parse().unwrap());
        if UdpSocket::bind("[::1]:0").is_ok() {
            echo("::", Family::V6, "::1".parse().unwrap());
        }
    }

    #[test]
    fn nothing_to_receive_is_no_datagram() {
        let door = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(
            receive(door.as_fd(), &mut [0; 8]).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
    }

    #[test]
    fn a_datagram_without_a_destination_is_an_error() {
        let door = UdpSocket::bind("127.0.0.1:0").unwrap();
        let caller = UdpSocket::bind("127.0.0.1:0").unwrap();
        caller.send_to(b"hello", door.local_addr().unwrap()).unwrap();
        assert_eq!(
            receive(door.as_fd(), &mut [0; 8]).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }
}
