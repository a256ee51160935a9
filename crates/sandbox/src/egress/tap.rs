//! Packets that went nowhere: UDP to any address, and TCP connections that were refused because no door is there. They
//! cannot leave; the tap is for the record.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::net::SocketType;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use vocabulary::Timestamp;

use crate::egress::record::{Event, Reason, Target};
use crate::egress::{BREATH, Room};
use crate::sys::socket::{packet_time, receive_packet, watch};

/// A tap that can be waited for.
pub(crate) struct Tap {
    packets: AsyncFd<Arc<OwnedFd>>,
    /// What stands before the IP header: nothing, or the link's own header.
    link_header: usize,
}

/// Makes a packet socket ready to be watched, raw or cooked.
pub(crate) fn open(tap: &Arc<OwnedFd>) -> io::Result<Tap> {
    rustix::io::ioctl_fionbio(tap, true)?;
    let link_header = match rustix::net::sockopt::socket_type(tap)? {
        SocketType::DGRAM => 0,
        _ => ETHERNET,
    };
    // From now on the kernel keeps the time of each packet.
    packet_time(tap.as_fd());
    let packets = watch(tap.clone())?;
    Ok(Tap { packets, link_header })
}

/// Records until the tap is closed.
pub(crate) async fn serve(tap: Tap, room: Arc<Room>) {
    let mut buffer = [0_u8; ENOUGH];
    let mut flows = Flows::default();
    loop {
        let read = |fd: &Arc<OwnedFd>| receive_packet(fd.as_fd(), &mut buffer);
        let Ok(got) = tap.packets.async_io(Interest::READABLE, read).await else {
            tokio::time::sleep(BREATH).await;
            continue;
        };
        // On loopback every packet passes twice.
        if got.outgoing {
            continue;
        }
        let at = packet_time(tap.packets.get_ref().as_fd());
        let packet = buffer.get(tap.link_header..got.length).unwrap_or_default();
        if let Some(attempt) = read_packet(packet).filter(|packet| flows.is_new(packet)) {
            note(&room, &attempt, at);
        }
    }
}

/// Whoever was refused may have told its caller before we hear of it, so the kernel's word on the time counts.
fn note(room: &Room, attempt: &Seen, at: Option<Timestamp>) {
    match attempt.kind {
        PacketKind::Udp => {
            let name = room.stand_ins.name_of(attempt.to.ip());
            let target = match &name {
                Some(host) => Target::new(host.as_str().as_bytes(), attempt.to.port()),
                None => Target::address(attempt.to),
            };
            room.recorder
                .blocked_at(Event::DirectUdp, target, Reason::NoRouteOutOfSandbox, at);
        }
        PacketKind::Refusal => {
            // A refusal travels back: its sender is where the attempt went.
            let place = attempt.from;
            let (target, reason) = match room.stand_ins.name_of(place.ip()) {
                Some(host) => {
                    let host = host.as_str().as_bytes();
                    let listed = room.list().check(host, place.port());
                    // On the list, but only the proxy leads there: its own port, or one that came later.
                    let reason = listed.err().unwrap_or(Reason::NoRouteOutOfSandbox);
                    (Target::new(host, place.port()), reason)
                }
                None => (Target::address(place), Reason::NoRouteOutOfSandbox),
            };
            room.recorder.blocked_at(Event::DirectTcp, target, reason, at);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PacketKind {
    Udp,
    /// TCP RST+ACK with sequence number 0: the answer to a SYN that nobody wanted.
    Refusal,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    pub(super) kind: PacketKind,
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
}

/// UDP conversations seen lately, so that an answer inside the sandbox does not count as an attempt.
#[derive(Default)]
pub(super) struct Flows(VecDeque<(SocketAddr, SocketAddr)>);

impl Flows {
    pub(super) fn is_new(&mut self, packet: &Seen) -> bool {
        if packet.kind == PacketKind::Refusal {
            return true;
        }
        // Questions to our resolver and its answers have records of their own.
        let dns = packet.from.port() == DNS_PORT || packet.to.port() == DNS_PORT;
        if dns || self.0.contains(&(packet.to, packet.from)) {
            return false;
        }
        if !self.0.contains(&(packet.from, packet.to)) {
            if self.0.len() >= MOST_FLOWS {
                self.0.pop_front();
            }
            self.0.push_back((packet.from, packet.to));
        }
        true
    }
}

/// Reads an IP packet; `None` for what is not of interest. The socket's filter is not relied upon.
pub(super) fn read_packet(packet: &[u8]) -> Option<Seen> {
    let (from, to, protocol, payload) = match packet.first()? >> 4 {
        4 => read_v4(packet)?,
        6 => read_v6(packet)?,
        _ => return None,
    };
    let [from_high, from_low, to_high, to_low] = *payload.first_chunk()?;
    let from = SocketAddr::new(from, u16::from_be_bytes([from_high, from_low]));
    let to = SocketAddr::new(to, u16::from_be_bytes([to_high, to_low]));
    let kind = match protocol {
        UDP => PacketKind::Udp,
        TCP if payload.get(4..8)? == [0; 4] && payload.get(13)? & RST_ACK == RST_ACK => PacketKind::Refusal,
        _ => return None,
    };
    Some(Seen { kind, from, to })
}

type Parts<'a> = (IpAddr, IpAddr, u8, &'a [u8]);

fn read_v4(packet: &[u8]) -> Option<Parts<'_>> {
    let header = packet.first_chunk::<20>()?;
    let [
        first,
        _,
        _,
        _,
        _,
        _,
        fragment0,
        fragment1,
        _,
        protocol,
        _,
        _,
        addresses @ ..,
    ] = *header;
    let length = usize::from(first & 15) * 4;
    // Only the first fragment has ports.
    if length < 20 || u16::from_be_bytes([fragment0, fragment1]) & 0x1fff != 0 {
        return None;
    }
    let [a, b, c, d, e, f, g, h] = addresses;
    let (from, to) = (Ipv4Addr::new(a, b, c, d), Ipv4Addr::new(e, f, g, h));
    Some((from.into(), to.into(), protocol, packet.get(length..)?))
}

fn read_v6(packet: &[u8]) -> Option<Parts<'_>> {
    let (header, mut rest) = packet.split_first_chunk::<40>()?;
    let from = Ipv6Addr::from(*header.get(8..)?.first_chunk::<16>()?);
    let to = Ipv6Addr::from(*header.get(24..)?.first_chunk::<16>()?);
    let mut next = *header.get(6)?;
    for _ in 0..MOST_EXTENSIONS {
        let [following, length, fragment0, fragment1] = *rest.first_chunk()?;
        let size = match next {
            // Hop-by-hop options, routing, destination options.
            0 | 43 | 60 => (usize::from(length) + 1) * 8,
            44 if u16::from_be_bytes([fragment0, fragment1]) >> 3 == 0 => 8,
            44 => return None,
            _ => return Some((from.into(), to.into(), next, rest)),
        };
        rest = rest.get(size..)?;
        next = following;
    }
    None
}

const ETHERNET: usize = 14;
const DNS_PORT: u16 = 53;
const UDP: u8 = 17;
const TCP: u8 = 6;
const RST_ACK: u8 = 0b0001_0100;
const MOST_EXTENSIONS: usize = 8;
const MOST_FLOWS: usize = 64;

/// Headers are at most 14 + 60 + 20 bytes; with extensions of IPv6 more, within reason.
const ENOUGH: usize = 256;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn v4(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![
            0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 8, 8, 8, 8,
        ];
        packet.extend_from_slice(payload);
        packet
    }

    fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, 64];
        packet.extend_from_slice(&Ipv6Addr::LOCALHOST.octets());
        packet.extend_from_slice(&"2606::1".parse::<Ipv6Addr>().unwrap().octets());
        packet.extend_from_slice(payload);
        packet
    }

    const PORTS: [u8; 8] = [0x10, 0, 0, 123, 0, 8, 0, 0];

    fn tcp(sequence: u8, flags: u8) -> Vec<u8> {
        vec![
            0, 22, 0x10, 0, 0, 0, 0, sequence, 0, 0, 0, 1, 0x50, flags, 0, 0, 0, 0, 0, 0,
        ]
    }

    #[test]
    fn udp_is_read_in_both_families_and_behind_extensions() {
        let expected = |from: &str, to: &str| {
            Some(Seen {
                kind: PacketKind::Udp,
                from: from.parse().unwrap(),
                to: to.parse().unwrap(),
            })
        };
        assert_eq!(read_packet(&v4(UDP, &PORTS)), expected("10.0.0.1:4096", "8.8.8.8:123"));
        assert_eq!(read_packet(&v6(UDP, &PORTS)), expected("[::1]:4096", "[2606::1]:123"));
        let options = [&[UDP, 0, 0, 0, 0, 0, 0, 0][..], &PORTS].concat();
        assert_eq!(read_packet(&v6(0, &options)), expected("[::1]:4096", "[2606::1]:123"));
        assert_eq!(read_packet(&v6(44, &options)), expected("[::1]:4096", "[2606::1]:123"));
    }

    #[test]
    fn only_the_refusal_of_a_syn_counts() {
        let refusal = read_packet(&v4(TCP, &tcp(0, RST_ACK))).unwrap();
        assert_eq!(
            (refusal.kind, refusal.from.to_string()),
            (PacketKind::Refusal, "10.0.0.1:22".to_owned())
        );
        for (sequence, flags) in [(1, RST_ACK), (0, 0b100), (0, 0b10), (0, 0b10010)] {
            assert_eq!(read_packet(&v4(TCP, &tcp(sequence, flags))), None);
        }
    }

    #[test]
    fn an_answer_inside_and_dns_are_no_attempts() {
        let mut flows = Flows::default();
        let seen = |from: &str, to: &str| Seen {
            kind: PacketKind::Udp,
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
        };
        assert!(flows.is_new(&seen("127.0.0.1:4000", "127.0.0.1:5000")));
        assert!(!flows.is_new(&seen("127.0.0.1:5000", "127.0.0.1:4000")));
        assert!(flows.is_new(&seen("127.0.0.1:4000", "127.0.0.1:5000")));
        assert!(!flows.is_new(&seen("127.0.0.1:4000", "8.8.8.8:53")));
        assert!(!flows.is_new(&seen("8.8.8.8:53", "127.0.0.1:4000")));
        for port in 1..1000 {
            flows.is_new(&seen(&format!("127.0.0.1:{}", 10_000 + port), "8.8.8.8:99"));
        }
        assert_eq!(flows.0.len(), MOST_FLOWS);
    }

    #[test]
    fn later_fragments_are_ignored() {
        let mut packet = v4(UDP, &PORTS);
        packet[7] = 1;
        assert_eq!(read_packet(&packet), None);
    }

    proptest! {
        #[test]
        fn arbitrary_packets_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), next in any::<u8>()) {
            let _ = read_packet(&bytes);
            let _ = read_packet(&v4(next, &bytes));
            let _ = read_packet(&v6(next, &bytes));
        }
    }
}
