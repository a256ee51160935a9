//! Memory that the kernel holds in the sockets of an instance, where no control group counts it.
//!
//! With a network of its own the kernel is asked, by a socket that was made in there (`sock_diag`): it knows every socket, also
//! one that is on its way to another process and in nobody's hands. Without, or where the kernel does not know how, each open
//! socket counts as if it were full.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

/// A socket that answers for all others of its network. Must be called inside it.
pub(crate) fn observer() -> io::Result<OwnedFd> {
    Ok(socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?)
}

/// Bytes in the sockets of an instance.
pub(super) fn held(observer: Option<&OwnedFd>, processes: &[u32]) -> u64 {
    let asked = observer.and_then(|observer| ask(observer).ok());
    asked.unwrap_or_else(|| open_sockets(processes) * full())
}

fn ask(observer: &OwnedFd) -> io::Result<u64> {
    let full = full();
    let mut bytes = dump(observer, &unix_request(), |message| unix_bytes(message, full))?;
    for family in [libc::AF_INET, libc::AF_INET6] {
        for protocol in [libc::IPPROTO_TCP, libc::IPPROTO_UDP] {
            match dump(observer, &internet_request(family, protocol), |message| {
                internet_bytes(message)
            }) {
                Ok(more) => bytes += more,
                // A host without this family or kind has no such sockets.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(bytes)
}

/// Adds up what `bytes` says of each message of an answer.
fn dump(observer: &OwnedFd, request: &[u8], bytes: impl Fn(&[u8]) -> u64) -> io::Result<u64> {
    let length = u32::try_from(HEADER + request.len()).map_err(io::Error::other)?;
    let mut packet = length.to_ne_bytes().to_vec();
    packet.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    packet.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    packet.extend([0; 8]);
    packet.extend(request);
    send(observer, &packet, SendFlags::empty())?;
    let mut buffer = vec![0; 64 << 10];
    let mut sum = 0;
    loop {
        let (received, _) = recv(observer, &mut buffer, RecvFlags::empty())?;
        let mut rest = buffer.get(..received).unwrap_or_default();
        if rest.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while let (Some(length), Some(kind)) = (number(rest, 0), short(rest, 4)) {
            let length = usize::try_from(length).map_err(io::Error::other)?;
            let body = rest.get(HEADER..length).ok_or(io::ErrorKind::InvalidData)?;
            match kind {
                NLMSG_DONE => return Ok(sum),
                NLMSG_ERROR => {
                    let code = number(body, 0).map_or(0, |code| code.cast_signed());
                    return Err(io::Error::from_raw_os_error(-code));
                }
                _ => sum += bytes(body),
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

/// `unix_diag_req`: all states; what is in each, and how much memory that takes.
fn unix_request() -> Vec<u8> {
    let mut request = vec![1, 0, 0, 0];
    request.extend(u32::MAX.to_ne_bytes());
    request.extend(0u32.to_ne_bytes());
    request.extend((UDIAG_SHOW_RQLEN | UDIAG_SHOW_MEMINFO).to_ne_bytes());
    request.extend([0; 8]);
    request
}

/// `inet_diag_req_v2`: all states, memory.
fn internet_request(family: i32, protocol: i32) -> Vec<u8> {
    let narrow = |number: i32| u8::try_from(number).unwrap_or_default();
    let mut request = vec![narrow(family), narrow(protocol), 1 << (INET_DIAG_SKMEMINFO - 1), 0];
    request.extend(u32::MAX.to_ne_bytes());
    request.extend([0; 48]);
    request
}

fn unix_bytes(message: &[u8], full: u64) -> u64 {
    let attributes = message.get(16..).unwrap_or_default();
    let memory = attribute(attributes, UNIX_DIAG_MEMINFO).unwrap_or_default();
    let waiting = attribute(attributes, UNIX_DIAG_RQLEN).and_then(|lengths| number(lengths, 0));
    let shut = attribute(attributes, UNIX_DIAG_SHUTDOWN).and_then(|bits| bits.first().copied());
    let held = counted(memory);
    match (waiting, shut) {
        // What is read here was paid for by a socket that is closed and in no list; it was full at most.
        (Some(1..), Some(1..)) => held + full,
        _ => held,
    }
}

fn internet_bytes(message: &[u8]) -> u64 {
    let attributes = message.get(72..).unwrap_or_default();
    counted(attribute(attributes, u16::from(INET_DIAG_SKMEMINFO)).unwrap_or_default())
}

/// What was received, what is to be sent, and what is set aside for either.
fn counted(memory: &[u8]) -> u64 {
    let at = |index| u64::from(number(memory, index).unwrap_or(0));
    at(RMEM_ALLOC) + at(WMEM_ALLOC).max(at(WMEM_QUEUED)) + at(FWD_ALLOC)
}

fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(short(attributes, 0)?);
        let kind = short(attributes, 2)?;
        let value = attributes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Sockets that processes have open, each once.
fn open_sockets(processes: &[u32]) -> u64 {
    let mut known = HashSet::new();
    for process in processes {
        let open = fs::read_dir(format!("/proc/{process}/fd"))
            .into_iter()
            .flatten()
            .flatten();
        let leads = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        known.extend(leads.filter(|to| to.to_string_lossy().starts_with("socket:")));
    }
    known.len() as u64
}

/// As much as a socket can have to send: twice the setting, as the kernel takes it.
fn full() -> u64 {
    let setting = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/net/core/{name}")).unwrap_or_default();
        text.trim().parse::<u64>().unwrap_or(212_992)
    };
    setting("wmem_default").max(2 * setting("wmem_max"))
}

const HEADER: usize = 16;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const UDIAG_SHOW_RQLEN: u32 = 0x10;
const UDIAG_SHOW_MEMINFO: u32 = 0x20;
const UNIX_DIAG_RQLEN: u16 = 4;
const UNIX_DIAG_MEMINFO: u16 = 5;
const UNIX_DIAG_SHUTDOWN: u16 = 6;
const INET_DIAG_SKMEMINFO: u8 = 7;
/// Places in the list of a socket's memory, in bytes.
const RMEM_ALLOC: usize = 0;
const WMEM_ALLOC: usize = 8;
const FWD_ALLOC: usize = 16;
const WMEM_QUEUED: usize = 20;

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_lies_in_a_socket_is_seen_also_when_its_writer_is_gone() {
        let observer = observer().unwrap();
        let (mut near, _far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        while near.write(&[0; 4096]).is_ok() {}
        // Other tests have sockets too, but none of this process.
        let full = ask(&observer).unwrap();
        assert!(full > 100_000, "{full}");
        drop(near);
        assert!(ask(&observer).unwrap() > 100_000);
    }

    #[test]
    fn an_answer_that_is_cut_is_no_answer() {
        assert_eq!(attribute(&[8, 0, 5, 0, 1], 5), None);
        assert_eq!(
            attribute(&[8, 0, 4, 0, 1, 2, 3, 4, 8, 0, 5, 0, 9, 9, 9, 9], 5),
            Some(&[9; 4][..])
        );
        assert_eq!(unix_bytes(&[], 7), 0);
        assert_eq!(internet_bytes(&[0; 90]), 0);
    }
}
