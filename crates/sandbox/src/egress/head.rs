//! The head of an HTTP request, read before anything is decided, and the refusals that answer it. Refusals are fixed
//! texts: nothing that the sandbox wrote comes back.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::egress::dial::STEP;
use crate::egress::record::Reason;

/// Reads until the empty line that ends a head; gives the length of the head. More may have been read than that.
pub(crate) async fn read_head(stream: &mut (impl AsyncRead + Unpin), said: &mut Vec<u8>) -> Result<usize, Reason> {
    let reading = async {
        let mut searched = 0_usize;
        loop {
            let from = searched.saturating_sub(3);
            let unseen = said.get(from..).unwrap_or_default();
            if let Some(at) = unseen.windows(4).position(|window| window == b"\r\n\r\n") {
                let end = from + at + 4;
                return if end > LONGEST_HEAD {
                    Err(Reason::HeaderTooLarge)
                } else {
                    Ok(end)
                };
            }
            if said.len() > LONGEST_HEAD {
                return Err(Reason::HeaderTooLarge);
            }
            searched = said.len();
            if !matches!(stream.read_buf(said).await, Ok(1..)) {
                return Err(Reason::NotAProxyRequest);
            }
        }
    };
    timeout(STEP, reading).await.unwrap_or(Err(Reason::NotAProxyRequest))
}

/// Method and target of a request line. One with a bare line feed or carriage return is none: that ends a line to some readers,
/// and they would read another request.
pub(crate) fn request_line(said: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = said.windows(2).position(|window| window == b"\r\n")?;
    let line = said.get(..end)?;
    if line.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return None;
    }
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    (words.next().is_none() && version.starts_with(b"HTTP/1.")).then_some((method, target))
}

/// The answer to a request that is refused.
pub(crate) fn refusal(reason: Reason) -> (u16, String) {
    let (status, advice) = match reason {
        Reason::DomainNotAllowlisted => (403, "an operator can add the host to `allow` of this server's sandbox"),
        Reason::PortNotAllowed => (
            403,
            "an operator can add the host with this port to `allow` of this server's sandbox",
        ),
        Reason::IpLiteralOrMalformedHost => (403, "hosts are reached by name; an operator can add names to `allow`"),
        Reason::ResolvedToPrivateAddress => (
            403,
            "the name leads to an address that is not public; an operator can add its range to `private`",
        ),
        Reason::HostHeaderMismatch => (403, "the Host header must name the host of the connection"),
        Reason::NotTlsOn443 => (403, "port 443 carries TLS only; use https"),
        Reason::HeaderTooLarge => (431, "the head of a request may have 16 KiB"),
        Reason::NotAProxyRequest => (400, "send CONNECT, or plain HTTP in absolute form"),
        Reason::DnsFailure => (502, "the host's resolver has no answer for this name"),
        Reason::UpstreamConnectFailed => (502, "the host could not be reached"),
        Reason::SniMismatch
        | Reason::TlsWithoutSni
        | Reason::SocksCommandNotAllowed
        | Reason::NoRouteOutOfSandbox
        | Reason::TooManyConnections
        | Reason::Allowlisted
        | Reason::AllowlistedPrivate => (403, "an operator can see the attempt in the activity log"),
    };
    (status, format!("portreeve: egress blocked ({reason}): {advice}\n"))
}

/// Answers with a refusal and closes.
pub(crate) async fn refuse(stream: TcpStream, reason: Reason) {
    let (status, body) = refusal(reason);
    let phrase = match status {
        400 => "Bad Request",
        431 => "Request Header Fields Too Large",
        502 => "Bad Gateway",
        _ => "Forbidden",
    };
    let answer = format!(
        "HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    dismiss(stream, answer.as_bytes()).await;
}

/// Sends last words and closes. What the caller is still sending is read for a moment, because closing over unread
/// bytes would reset the connection before the words arrive.
pub(crate) async fn dismiss(mut stream: TcpStream, words: &[u8]) {
    let parting = async {
        stream.write_all(words).await?;
        stream.shutdown().await?;
        let mut waste = [0_u8; 4096];
        let mut most = MOST_WASTE;
        while most > 0 {
            match stream.read(&mut waste).await? {
                0 => break,
                read => most = most.saturating_sub(read),
            }
        }
        std::io::Result::Ok(())
    };
    let _ = timeout(PARTING, parting).await;
}

/// The longest head of a request.
pub(crate) const LONGEST_HEAD: usize = 16 * 1024;
const MOST_WASTE: usize = 256 * 1024;
const PARTING: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_line_has_three_words() {
        assert_eq!(
            request_line(b"CONNECT a:1 HTTP/1.1\r\n\r\n"),
            Some((&b"CONNECT"[..], &b"a:1"[..]))
        );
        for line in [
            &b"CONNECT a:1\r\n"[..],
            b"CONNECT a b HTTP/1.1\r\n",
            b"PRI * HTTP/2.0\r\n",
            b"CONNECT a:1 HTTP/1.1",
            b"\r\n",
            b"\nCONNECT a:1 HTTP/1.1\r\n",
            b"GET / HTTP/1.1\nHost:b\r\n",
        ] {
            assert_eq!(request_line(line), None, "{line:?}");
        }
    }
}
