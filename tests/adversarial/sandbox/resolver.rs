//! The stage's only resolver: the host's own for the gateway, and a canary for everybody inside. It answers every
//! question, puts the canary into every answer, and keeps the names it was asked for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tokio::net::UdpSocket;

use super::far_sides::{GOOD, METADATA, PRIVATE, PUBLIC};

/// See the module.
#[derive(Clone, Default)]
pub(super) struct Resolver {
    asked: Arc<Mutex<Vec<String>>>,
    turns: Arc<AtomicU32>,
}

impl Resolver {
    /// Answers on port 53 of every address.
    pub(super) async fn start(canary: &str) -> Self {
        let resolver = Self::default();
        for address in ["0.0.0.0:53", "[::]:53"] {
            let socket = super::far_sides::datagrams(address);
            let (resolver, canary) = (resolver.clone(), canary.to_owned());
            tokio::spawn(async move { resolver.serve(socket, &canary).await });
        }
        resolver
    }

    /// The names that were asked for since the last time.
    pub(super) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    async fn serve(&self, socket: UdpSocket, canary: &str) {
        let mut question = vec![0; 65_536];
        while let Ok((length, from)) = socket.recv_from(&mut question).await {
            if let Some(answer) = self.answer(&question[..length], canary) {
                let _ = socket.send_to(&answer, from).await;
            }
        }
    }

    fn answer(&self, question: &[u8], canary: &str) -> Option<Vec<u8>> {
        let (name, end) = name_at(question, 12)?;
        let kind = u16::from_be_bytes(question.get(end..end + 2)?.try_into().ok()?);
        self.asked.lock().unwrap().push(name.clone());
        let addresses: Vec<IpAddr> = match kind {
            1 | 28 => self
                .addresses(&name)
                .into_iter()
                .filter(|a| a.is_ipv4() == (kind == 1))
                .collect(),
            _ => Vec::new(),
        };
        let mut answer = question.get(..2)?.to_vec();
        answer.extend([0x81, 0x80, 0, 1, 0, u8::try_from(addresses.len()).unwrap(), 0, 0, 0, 1]);
        answer.extend_from_slice(question.get(12..end + 4)?);
        for address in addresses {
            let octets = match address {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            record(&mut answer, kind, &octets);
        }
        // The canary goes along as a further record, whatever was asked.
        let mut text = vec![u8::try_from(canary.len()).unwrap()];
        text.extend_from_slice(canary.as_bytes());
        record(&mut answer, 16, &text);
        Some(answer)
    }

    fn addresses(&self, name: &str) -> Vec<IpAddr> {
        let mapped: Ipv6Addr = "::ffff:10.0.0.1".parse().unwrap();
        let nat64: Ipv6Addr = "64:ff9b::a00:1".parse().unwrap();
        match name {
            "good.test" => vec![GOOD.into()],
            "loopback.test" => vec![Ipv4Addr::LOCALHOST.into()],
            "metadata.test" => vec![METADATA.into()],
            "private.test" => vec![PRIVATE.into()],
            "mapped.test" => vec![mapped.into()],
            "nat64.test" => vec![nat64.into()],
            "mixed.test" => vec![GOOD.into(), PRIVATE.into()],
            "rebind.test" if (self.turns.fetch_add(1, Ordering::Relaxed) / 2).is_multiple_of(2) => vec![GOOD.into()],
            "rebind.test" => vec![PRIVATE.into()],
            name if name.ends_with(".wild.test") => vec![GOOD.into()],
            _ => vec![PUBLIC.into()],
        }
    }
}

/// Appends a record about the name of the question.
fn record(answer: &mut Vec<u8>, kind: u16, data: &[u8]) {
    answer.extend([0xc0, 12]);
    answer.extend(kind.to_be_bytes());
    answer.extend([0, 1, 0, 0, 0, 0]);
    answer.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
    answer.extend_from_slice(data);
}

/// A name, and where it ends.
fn name_at(message: &[u8], mut at: usize) -> Option<(String, usize)> {
    let mut labels = Vec::new();
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            return Some((labels.join("."), at));
        }
        labels.push(String::from_utf8_lossy(message.get(at..at + length)?).into_owned());
        at += length;
    }
}
