//! The resolver inside a sandbox. It answers for names on the list, with addresses that mean something only there, and
//! refuses the rest. It never asks anyone, so no name can carry data out.

use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::egress::record::{Event, Reason, Target};
use crate::egress::{BREATH, Room};
use crate::sys::socket::{Datagram, receive, send_from};

/// Answers until the socket is closed.
pub(crate) async fn serve(socket: UdpSocket, room: Arc<Room>) {
    let mut buffer = [0_u8; 2048];
    loop {
        let read = |buffer: &mut [u8]| receive(socket.as_fd(), buffer);
        let Ok(got) = socket.async_io(Interest::READABLE, || read(&mut buffer)).await else {
            tokio::time::sleep(BREATH).await;
            continue;
        };
        let packet = buffer.get(..got.length).unwrap_or_default();
        if let Some(answer) = answer(&room, packet, &got) {
            // A full queue drops the answer, as the network would; the client asks again.
            let _ = send_from(socket.as_fd(), &answer, got.to, got.from);
        }
    }
}

/// Decides and records one question; `None` for what is no question.
fn answer(room: &Room, packet: &[u8], got: &Datagram) -> Option<Vec<u8>> {
    let Some(question) = Question::parse(packet) else {
        let target = Target::new(got.to.to_canonical().to_string().as_bytes(), DNS_PORT);
        room.recorder
            .blocked(Event::Dns, target, Reason::IpLiteralOrMalformedHost);
        return None;
    };
    let target = Target::new(&question.name, DNS_PORT);
    let known = match question.class {
        INTERNET => room.list().knows(&question.name),
        _ => Err(Reason::IpLiteralOrMalformedHost),
    };
    match known {
        Ok(host) => {
            room.recorder.allowed(Event::Dns, target, Reason::Allowlisted);
            // No AAAA and no HTTPS record: clients then use the A record, which leads to our doors.
            let address = (question.kind == A).then(|| room.stand_ins.address_of(&host));
            Some(question.answered(address))
        }
        Err(reason) => {
            room.recorder.blocked(Event::Dns, target, reason);
            Some(question.refused())
        }
    }
}

/// The one question of a query (RFC 1035 §4).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Question<'a> {
    id: [u8; 2],
    recursion_desired: u8,
    /// Dotted. Dots and backslashes inside a label are escaped, so that no label can pass for two.
    pub(super) name: Vec<u8>,
    kind: u16,
    class: u16,
    /// As it was asked, to be repeated.
    raw: &'a [u8],
}

impl<'a> Question<'a> {
    pub(super) fn parse(packet: &'a [u8]) -> Option<Self> {
        let (header, rest) = packet.split_first_chunk::<12>()?;
        let [id0, id1, flags, _, count0, count1, ..] = *header;
        let is_query = flags & 0b1111_1000 == 0;
        if !is_query || [count0, count1] != [0, 1] {
            return None;
        }
        let mut name = Vec::new();
        let mut at = 0;
        loop {
            let length = usize::from(*rest.get(at)?);
            if length == 0 {
                break;
            }
            // The whole name, with the zero that ends it.
            if length > LONGEST_LABEL || at + 1 + length + 1 > LONGEST_NAME {
                return None;
            }
            if !name.is_empty() {
                name.push(b'.');
            }
            for byte in rest.get(at + 1..at + 1 + length)? {
                if b".\\".contains(byte) {
                    name.push(b'\\');
                }
                name.push(*byte);
            }
            at += 1 + length;
        }
        let [kind0, kind1, class0, class1] = *rest.get(at + 1..)?.first_chunk()?;
        Some(Self {
            id: [id0, id1],
            recursion_desired: flags & 1,
            name,
            kind: u16::from_be_bytes([kind0, kind1]),
            class: u16::from_be_bytes([class0, class1]),
            raw: rest.get(..at + 5)?,
        })
    }

    pub(super) fn answered(&self, address: Option<Ipv4Addr>) -> Vec<u8> {
        let mut reply = self.reply(NO_ERROR, u8::from(address.is_some()));
        if let Some(address) = address {
            reply.extend_from_slice(&[0xc0, 12]); // the name of the question
            reply.extend_from_slice(&A.to_be_bytes());
            reply.extend_from_slice(&INTERNET.to_be_bytes());
            reply.extend_from_slice(&LIFE.to_be_bytes());
            reply.extend_from_slice(&[0, 4]);
            reply.extend_from_slice(&address.octets());
        }
        reply
    }

    pub(super) fn refused(&self) -> Vec<u8> {
        self.reply(REFUSED, 0)
    }

    fn reply(&self, code: u8, answers: u8) -> Vec<u8> {
        let [id0, id1] = self.id;
        let mut reply = vec![id0, id1, 0x80 | self.recursion_desired, 0x80 | code];
        reply.extend_from_slice(&[0, 1, 0, answers, 0, 0, 0, 0]);
        reply.extend_from_slice(self.raw);
        reply
    }
}

const DNS_PORT: u16 = 53;
const A: u16 = 1;
const INTERNET: u16 = 1;
const NO_ERROR: u8 = 0;
const REFUSED: u8 = 5;
const LONGEST_LABEL: usize = 63;
const LONGEST_NAME: usize = 255;

/// Seconds that a client may keep an answer.
const LIFE: u32 = 60;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn query(labels: &[&[u8]], kind: u16) -> Vec<u8> {
        let mut packet = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in labels {
            packet.push(u8::try_from(label.len()).unwrap());
            packet.extend_from_slice(label);
        }
        packet.push(0);
        packet.extend_from_slice(&kind.to_be_bytes());
        packet.extend_from_slice(&[0, 1]);
        packet
    }

    #[test]
    fn a_question_is_read_and_answered() {
        let packet = query(&[b"Good", b"test"], A);
        let question = Question::parse(&packet).unwrap();
        assert_eq!((question.name.as_slice(), question.kind), (&b"Good.test"[..], A));
        let reply = question.answered(Some(Ipv4Addr::new(198, 18, 0, 1)));
        let mut expected = vec![0xab, 0xcd, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
        expected.extend_from_slice(&packet[12..]);
        expected.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 18, 0, 1]);
        assert_eq!(reply, expected);
        assert_eq!(&question.refused()[..8], &[0xab, 0xcd, 0x81, 0x85, 0, 1, 0, 0]);
    }

    #[test]
    fn a_dot_inside_a_label_is_not_a_dot() {
        let packet = query(&[b"good.test"], A);
        assert_eq!(Question::parse(&packet).unwrap().name, b"good\\.test");
        let packet = query(&[b"good\\", b"test"], A);
        assert_eq!(Question::parse(&packet).unwrap().name, b"good\\\\.test");
    }

    #[test]
    fn what_is_no_single_question_is_dropped() {
        let whole = query(&[b"good", b"test"], A);
        for length in 0..whole.len() {
            assert_eq!(Question::parse(&whole[..length]), None, "{length}");
        }
        let mut response = whole.clone();
        response[2] = 0x81;
        let mut two = whole.clone();
        two[5] = 2;
        let mut update = whole.clone();
        update[2] = 5 << 3;
        let mut pointer = whole;
        pointer[12] = 0xc0;
        for packet in [response, two, update, pointer, query(&[[b'a'; 63].as_slice(); 6], A)] {
            assert_eq!(Question::parse(&packet), None);
        }
    }

    #[test]
    fn a_name_has_at_most_255_bytes() {
        let label = [b'a'; 63];
        let longest = [&label[..], &label, &label, &[b'b'; 61]];
        assert!(Question::parse(&query(&longest, A)).is_some());
        for long in [&[b'b'; 62][..], &label] {
            assert_eq!(Question::parse(&query(&[&label, &label, &label, long], A)), None);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_packets_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let mut framed = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            framed.extend_from_slice(&bytes);
            for packet in [bytes, framed] {
                if let Some(question) = Question::parse(&packet) {
                    prop_assert!(question.refused().len() <= packet.len());
                    prop_assert!(question.name.len() <= 2 * 320);
                }
            }
        }
    }
}
