//! SOCKS5 (RFC 1928): CONNECT to a name, without authentication. Addresses are read in order to be refused by the same
//! rule as everywhere.

use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::egress::Guest;
use crate::egress::dial::{STEP, open};
use crate::egress::head::dismiss;
use crate::egress::host::Asked;
use crate::egress::record::{Event, Reason, Target};
use crate::egress::tunnel::{Caller, carry};

/// The first byte of every SOCKS5 connection.
pub(crate) const VERSION: u8 = 5;

/// Serves one connection.
pub(crate) async fn serve(guest: &Guest, mut stream: TcpStream) {
    let request = timeout(STEP, negotiate(&mut stream)).await.ok().flatten();
    let Some(request) = request else {
        let target = Target::address(guest.door);
        guest
            .room
            .recorder
            .blocked(Event::Socks5, target, Reason::NotAProxyRequest);
        return dismiss(stream, &NO_METHOD).await;
    };
    let target = Target::from(&request.asked);
    let opened = match request.command {
        CONNECT => open(&guest.room, &guest.allow, &request.asked).await,
        _ => Err(Reason::SocksCommandNotAllowed),
    };
    match opened {
        Ok(passage) => {
            let answered = timeout(STEP, stream.write_all(&reply(0))).await;
            if matches!(answered, Ok(Ok(()))) {
                let caller = Caller::new(stream, Event::Socks5, target);
                carry(guest, caller, passage).await;
            } else {
                guest
                    .room
                    .recorder
                    .blocked(Event::Socks5, target, Reason::NotAProxyRequest);
            }
        }
        Err(reason) => {
            guest.room.recorder.blocked(Event::Socks5, target, reason);
            dismiss(stream, &reply(code(reason))).await;
        }
    }
}

/// What a caller asks for.
pub(super) struct Request {
    pub(super) command: u8,
    pub(super) asked: Asked,
}

/// Reads greeting and request; `None` for what is neither.
pub(super) async fn negotiate(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Option<Request> {
    let [_, count] = read::<2>(stream).await?;
    let methods = read_some(stream, count).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        return None;
    }
    stream.write_all(&[VERSION, NO_AUTHENTICATION]).await.ok()?;
    let [version, command, _, kind] = read::<4>(stream).await?;
    if version != VERSION {
        return None;
    }
    let host = match kind {
        1 => Ipv4Addr::from(read::<4>(stream).await?).to_string().into_bytes(),
        3 => {
            let [length] = read::<1>(stream).await?;
            read_some(stream, length).await?
        }
        4 => Ipv6Addr::from(read::<16>(stream).await?).to_string().into_bytes(),
        _ => return None,
    };
    let port = u16::from_be_bytes(read::<2>(stream).await?);
    let asked = Asked { host, port };
    Some(Request { command, asked })
}

async fn read<const N: usize>(stream: &mut (impl AsyncRead + Unpin)) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await.ok()?;
    Some(bytes)
}

async fn read_some(stream: &mut (impl AsyncRead + Unpin), length: u8) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::from(length)];
    stream.read_exact(&mut bytes).await.ok()?;
    Some(bytes)
}

/// The reply codes of RFC 1928 §6.
fn code(reason: Reason) -> u8 {
    match reason {
        Reason::DnsFailure => 4,
        Reason::UpstreamConnectFailed => 5,
        Reason::SocksCommandNotAllowed => 7,
        Reason::DomainNotAllowlisted
        | Reason::IpLiteralOrMalformedHost
        | Reason::PortNotAllowed
        | Reason::ResolvedToPrivateAddress
        | Reason::SniMismatch
        | Reason::TlsWithoutSni
        | Reason::NotTlsOn443
        | Reason::HostHeaderMismatch
        | Reason::NotAProxyRequest
        | Reason::HeaderTooLarge
        | Reason::NoRouteOutOfSandbox
        | Reason::TooManyConnections
        | Reason::Allowlisted
        | Reason::AllowlistedPrivate => 2,
    }
}

/// A reply without a bound address: there is none that the sandbox could use.
fn reply(code: u8) -> [u8; 10] {
    [VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

const CONNECT: u8 = 1;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: [u8; 2] = [VERSION, 0xff];
