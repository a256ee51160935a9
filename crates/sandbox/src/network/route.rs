//! Brings the loopback device up and makes every address of both families one of its own, by route netlink.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// After this nothing can leave: whatever address a packet bears, it has arrived.
pub(super) fn make_everything_local() -> io::Result<()> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // NETLINK_ROUTE is protocol 0.
        None,
    )?;
    request(&socket, RTM_NEWLINK, 0, &link_up())?;
    let create = NLM_F_CREATE | NLM_F_EXCL;
    request(&socket, RTM_NEWROUTE, create, &local_route(libc::AF_INET))?;
    match request(&socket, RTM_NEWROUTE, create, &local_route(libc::AF_INET6)) {
        // A host without IPv6, or with it switched off: there is nothing to route, and nothing gets anywhere.
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP | libc::EACCES)
            ) =>
        {
            Ok(())
        }
        other => other,
    }
}

/// `ifinfomsg`: the first device of a network namespace is the loopback.
fn link_up() -> Vec<u8> {
    let mut message = vec![0u8; 4];
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    message
}

/// `rtmsg` and the attribute for the device: `local 0.0.0.0/0 dev lo`, or the same of IPv6.
fn local_route(family: i32) -> Vec<u8> {
    let family = u8::try_from(family).unwrap_or_default();
    let (destination_length, source_length, service) = (0, 0, 0);
    let mut message = vec![
        family,
        destination_length,
        source_length,
        service,
        RT_TABLE_LOCAL,
        RTPROT_BOOT,
        RT_SCOPE_HOST,
        RTN_LOCAL,
    ];
    message.extend(0u32.to_ne_bytes());
    message.extend(8u16.to_ne_bytes());
    message.extend(RTA_OIF.to_ne_bytes());
    message.extend(LOOPBACK.to_ne_bytes());
    message
}

/// One request and the kernel's answer to it.
fn request(socket: &OwnedFd, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(HEADER + body.len()).map_err(io::Error::other)?;
    let mut packet = Vec::with_capacity(HEADER + body.len());
    packet.extend(length.to_ne_bytes());
    packet.extend(kind.to_ne_bytes());
    packet.extend((NLM_F_REQUEST | NLM_F_ACK | flags).to_ne_bytes());
    packet.extend([0u8; 8]);
    packet.extend(body);
    send(socket, &packet, SendFlags::empty())?;
    let mut answer = [0u8; 4096];
    let (received, _) = recv(socket, &mut answer, RecvFlags::empty())?;
    match verdict(answer.get(..received).unwrap_or_default()) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::Error::from_raw_os_error(libc::EPROTO)),
    }
}

/// The error number of an acknowledgement, 0 for success; `None` if it is none.
fn verdict(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let code = i32::from_ne_bytes(answer.get(HEADER..HEADER + 4)?.try_into().ok()?);
    (kind == NLMSG_ERROR).then_some(code)
}

const HEADER: usize = 16;
const LOOPBACK: u32 = 1;
const IFF_UP: u32 = 1;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const RTM_NEWLINK: u16 = 16;
const RTM_NEWROUTE: u16 = 24;
const RT_TABLE_LOCAL: u8 = 255;
const RTPROT_BOOT: u8 = 3;
const RT_SCOPE_HOST: u8 = 254;
const RTN_LOCAL: u8 = 2;
const RTA_OIF: u16 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_is_told_from_other_answers() {
        let answer = |kind: u16, code: i32| {
            let mut bytes = 36u32.to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend([0u8; 10]);
            bytes.extend(code.to_ne_bytes());
            bytes
        };
        assert_eq!(verdict(&answer(NLMSG_ERROR, 0)), Some(0));
        assert_eq!(verdict(&answer(NLMSG_ERROR, -17)), Some(-17));
        assert_eq!(verdict(&answer(RTM_NEWLINK, 0)), None);
        assert_eq!(verdict(&[]), None);
    }
}
