//! Whether an address is the host's own. The kernel is asked at the moment of the decision, by the same lookup that
//! dialling would make, so that secondary and newly added addresses count and no cached list can be stale.

use std::io;
use std::net::IpAddr;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// Whether packets to this address stay on the host, or whether the kernel would not say: then it counts as own. An
/// address without a route is nobody's; dialling it fails by itself.
pub(crate) fn is_own(address: IpAddr) -> bool {
    match kind_of_route(address) {
        Ok(Route::Outward | Route::None) => false,
        Ok(Route::Other) | Err(_) => true,
    }
}

#[derive(PartialEq, Eq, Debug)]
enum Route {
    /// Unicast, to somewhere else.
    Outward,
    /// There is no route.
    None,
    /// Local, broadcast, anycast and the like.
    Other,
}

fn kind_of_route(address: IpAddr) -> io::Result<Route> {
    let netlink = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    send(&netlink, &question(address), SendFlags::empty())?;
    let mut answer = [0_u8; 1024];
    // The answer is in the queue when `send` returns; a kernel that has none must not hold us up.
    let (_, length) = recv(&netlink, answer.as_mut_slice(), RecvFlags::DONTWAIT)?;
    read(answer.get(..length).unwrap_or_default()).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// `RTM_GETROUTE` for one address: `nlmsghdr`, `rtmsg`, one `RTA_DST` attribute (rtnetlink(7)).
fn question(address: IpAddr) -> Vec<u8> {
    let (family, octets) = match address.to_canonical() {
        IpAddr::V4(address) => (libc::AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6, address.octets().to_vec()),
    };
    let bits = u8::try_from(octets.len() * 8).unwrap_or_default();
    let attribute = u16::try_from(4 + octets.len()).unwrap_or_default();
    let whole = u32::from(attribute) + 28;
    let mut message = Vec::new();
    message.extend_from_slice(&whole.to_ne_bytes());
    message.extend_from_slice(&libc::RTM_GETROUTE.to_ne_bytes());
    message.extend_from_slice(&1_u16.to_ne_bytes()); // NLM_F_REQUEST
    message.extend_from_slice(&[0; 8]); // sequence, port
    message.push(u8::try_from(family).unwrap_or_default());
    message.push(bits);
    message.extend_from_slice(&[0; 10]);
    message.extend_from_slice(&attribute.to_ne_bytes());
    message.extend_from_slice(&libc::RTA_DST.to_ne_bytes());
    message.extend_from_slice(&octets);
    message
}

fn read(answer: &[u8]) -> Option<Route> {
    let kind = u16::from_ne_bytes(*answer.get(4..)?.first_chunk()?);
    if kind == libc::RTM_NEWROUTE {
        let outward = *answer.get(16 + 7)? == libc::RTN_UNICAST;
        return Some(if outward { Route::Outward } else { Route::Other });
    }
    let error = i32::from_ne_bytes(*answer.get(16..)?.first_chunk()?).checked_neg()?;
    let absent = [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::ESRCH].contains(&error);
    (i32::from(kind) == libc::NLMSG_ERROR && absent).then_some(Route::None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_own_in_both_families() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        assert!(is_own("127.8.8.8".parse().unwrap()));
        assert!(is_own("::1".parse().unwrap()) || !std::path::Path::new("/proc/net/if_inet6").exists());
    }

    #[test]
    fn an_answer_that_is_not_understood_counts_as_own() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[0; 64]), None);
    }
}
