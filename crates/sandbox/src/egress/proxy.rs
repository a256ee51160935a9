//! The door for clients that know they have a proxy: CONNECT and plain HTTP, or SOCKS5, told apart by the first byte.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::egress::dial::{STEP, open};
use crate::egress::head::{read_head, refuse, request_line};
use crate::egress::host::Asked;
use crate::egress::http::{self, Form};
use crate::egress::record::{Event, Reason, Target};
use crate::egress::tunnel::{Caller, carry, reset};
use crate::egress::{Guest, socks};

/// Serves one connection.
pub(crate) async fn serve(guest: &Guest, stream: TcpStream) {
    let mut first = [0_u8];
    let seen = timeout(STEP, stream.peek(&mut first)).await;
    let [first] = match seen {
        Ok(Ok(1..)) => first,
        Ok(_) | Err(_) => [0],
    };
    if first == socks::VERSION {
        socks::serve(guest, stream).await;
    } else if first.is_ascii_alphabetic() {
        serve_http(guest, stream).await;
    } else {
        let target = Target::address(guest.door);
        guest
            .room
            .recorder
            .blocked(Event::Connect, target, Reason::NotAProxyRequest);
        reset(stream);
    }
}

async fn serve_http(guest: &Guest, mut stream: TcpStream) {
    let mut said = Vec::new();
    let head = read_head(&mut stream, &mut said).await;
    let request = request_line(&said).map_or(Request::Other, |(method, target)| Request::read(method, target));
    let (mut event, target) = request.described(guest);
    if matches!(request, Request::Other) && said.starts_with(b"CONNECT ") {
        event = Event::Connect;
    }
    let end = match (head, &request) {
        (Ok(_), Request::Other) => Err(Reason::NotAProxyRequest),
        (Ok(end), Request::Connect(_) | Request::Plain { .. }) => Ok(end),
        (Err(reason), _) => Err(reason),
    };
    let outcome = match end {
        Ok(end) => proceed(guest, &request, end).await,
        Err(reason) => Err(reason),
    };
    let (passage, end) = match outcome {
        Ok(opened) => opened,
        Err(reason) => {
            guest.room.recorder.blocked(event, target, reason);
            return refuse(stream, reason).await;
        }
    };
    match request {
        Request::Connect(_) => {
            let greeting = timeout(ANSWER, stream.write_all(ESTABLISHED)).await;
            if !matches!(greeting, Ok(Ok(()))) {
                return guest.room.recorder.blocked(event, target, Reason::NotAProxyRequest);
            }
            let said = said.split_off(end.min(said.len()));
            let caller = Caller {
                stream,
                said,
                event,
                target,
            };
            carry(guest, caller, passage).await;
        }
        Request::Plain { authority, .. } => {
            let caller = Caller {
                stream,
                said,
                event,
                target,
            };
            http::relay(guest, caller, passage, Form::Absolute(authority)).await;
        }
        Request::Other => {}
    }
}

async fn proceed(
    guest: &Guest,
    request: &Request,
    end: usize,
) -> Result<(crate::egress::dial::Passage, usize), Reason> {
    let asked = match request {
        Request::Connect(asked) => asked,
        Request::Plain { asked, .. } if asked.port == 443 => return Err(Reason::NotTlsOn443),
        Request::Plain { asked, .. } => asked,
        Request::Other => return Err(Reason::NotAProxyRequest),
    };
    Ok((open(&guest.room, &guest.allow, asked).await?, end))
}

/// What a request line asks of a proxy.
enum Request {
    Connect(Asked),
    Plain {
        asked: Asked,
        authority: Vec<u8>,
    },
    /// Origin form, `https://`, `file://` and everything else.
    Other,
}

impl Request {
    fn read(method: &[u8], target: &[u8]) -> Self {
        if method == b"CONNECT" {
            return Self::Connect(Asked::parse(target, None));
        }
        let scheme = target
            .first_chunk::<7>()
            .is_some_and(|start| start.eq_ignore_ascii_case(b"http://"));
        if !scheme {
            return Self::Other;
        }
        let rest = target.get(7..).unwrap_or_default();
        let authority = rest.split(|byte| b"/?#".contains(byte)).next().unwrap_or_default();
        Self::Plain {
            asked: Asked::parse(authority, Some(80)),
            authority: authority.to_vec(),
        }
    }

    fn described(&self, guest: &Guest) -> (Event, Target) {
        match self {
            Self::Connect(asked) => (Event::Connect, asked.into()),
            Self::Plain { asked, .. } => (Event::Http, asked.into()),
            Self::Other => (Event::Http, Target::address(guest.door)),
        }
    }
}

const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";
const ANSWER: Duration = Duration::from_secs(5);
