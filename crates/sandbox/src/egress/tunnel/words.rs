//! What is spoken on ports that have no protocol of their own. Whoever begins with TLS or HTTP must name the host that was
//! allowed, as on ports 443 and 80; everything else was allowed by its port alone. ADR 0066.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::IDLE;
use crate::egress::dial::STEP;
use crate::egress::head::{LONGEST_HEAD, read_head};
use crate::egress::hello::{self, Hello};
use crate::egress::record::Reason;

/// What the first words of a caller are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Words {
    /// It is too early to tell.
    Short,
    /// A `ClientHello`, with what it names.
    Tls(Hello),
    /// A request of HTTP/1.
    Http,
    /// A request of HTTP/1 of which a part has gone out already.
    Late,
    /// A request line that does not end.
    Endless,
    /// Anything else.
    Other,
}

impl Words {
    /// Reads the first bytes of a connection.
    pub(super) fn of(said: &[u8]) -> Self {
        if said.first() == Some(&TLS) {
            return match hello::read(said) {
                Hello::Short(_) => Self::Short,
                Hello::NotTls => Self::Other,
                hello @ (Hello::For(_) | Hello::Misnamed | Hello::Nameless) => Self::Tls(hello),
            };
        }
        // Servers skip empty lines before a request, and some take a bare line feed for the end of one.
        let skipped = said.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let line = said.get(skipped..).unwrap_or_default();
        match line.iter().position(|byte| *byte == b'\n') {
            Some(end) if is_request(line.get(..end).unwrap_or_default()) => Self::Http,
            Some(_) => Self::Other,
            None if !could_be_request(line) => Self::Other,
            None if said.len() > LONGEST_HEAD => Self::Endless,
            None => Self::Short,
        }
    }
}

fn is_request(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    could_be_request(line) && line.windows(8).any(|window| window == b" HTTP/1.")
}

/// Whether a line that is not complete could become a request line: a method, and then whatever can be seen.
fn could_be_request(line: &[u8]) -> bool {
    let method = line.iter().take_while(|byte| byte.is_ascii_graphic()).count();
    let seen = |byte: &u8| *byte == b'\r' || *byte == b'\t' || *byte >= b' ';
    let named = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    method <= LONGEST_METHOD && line.iter().take(method).all(named) && line.iter().all(seen)
}

/// Reads until the first words tell what is spoken, and takes from `said` what has gone out. The far side may speak first: what it
/// says is passed on meanwhile, and `heard` is called, as it is when nobody says anything for a moment.
///
/// Who says half a line and waits for an answer is let go on, but is still listened to: a line that turns out to be a request
/// then goes no further.
pub(super) async fn listen(
    (near, said): (&mut TcpStream, &mut Vec<u8>),
    far: &mut TcpStream,
    mut heard: impl FnMut(),
) -> io::Result<Words> {
    let mut buffer = vec![0; 16 << 10];
    let (mut sent, mut told) = (0, false);
    loop {
        let words = match Words::of(said) {
            Words::Http if sent > 0 => Words::Late,
            Words::Endless if sent > 0 => Words::Other,
            words @ (Words::Short | Words::Tls(_) | Words::Http | Words::Late | Words::Endless | Words::Other) => words,
        };
        if words != Words::Short {
            said.drain(..sent);
            return Ok(words);
        }
        let is_tls = said.first() == Some(&TLS);
        let waits = said.len() > sent && !is_tls;
        let pause = match is_tls {
            true => STEP,
            false if waits || !told => A_MOMENT,
            false => IDLE,
        };
        tokio::select! {
            read = near.read_buf(said) => if read? == 0 { return Ok(gone(said, sent)) },
            read = far.read(&mut buffer) => match buffer.get(..read?).unwrap_or_default() {
                [] => return Ok(gone(said, sent)),
                words => near.write_all(words).await?,
            },
            () = sleep(pause) => match waits {
                true => {
                    far.write_all(said.get(sent..).unwrap_or_default()).await?;
                    sent = said.len();
                }
                false if told || is_tls => return Err(io::ErrorKind::TimedOut.into()),
                false => {}
            },
        }
        if sent > 0 || said.is_empty() {
            heard();
            told = true;
        }
    }
}

/// Nothing more comes from one side: what is there can become nothing else.
fn gone(said: &mut Vec<u8>, sent: usize) -> Words {
    said.drain(..sent);
    Words::Other
}

/// Whether a request wants to go on in another protocol. Its head is read for that.
pub(super) async fn wants_upgrade(stream: &mut TcpStream, said: &mut Vec<u8>) -> Result<Option<Vec<u8>>, Reason> {
    let end = read_head(stream, said).await?;
    let head = said.get(..end).unwrap_or_default();
    let mut fields = head.split(|byte| *byte == b'\n').skip(1);
    let upgrades = fields.any(|field| {
        let name = field.split(|byte| *byte == b':').next().unwrap_or_default();
        name.eq_ignore_ascii_case(b"upgrade")
    });
    Ok(upgrades.then(|| head.to_vec()))
}

/// The one `Host` of a head; none where there is not exactly one, or where the head could be read in two ways.
pub(super) fn only_host(head: &[u8]) -> Option<&[u8]> {
    let mut lines = head.strip_suffix(b"\r\n\r\n")?.split(|byte| *byte == b'\n');
    let request = lines.next()?;
    let origin_form = request.split(|byte| *byte == b' ').nth(1)?.starts_with(b"/");
    let mut hosts = Vec::new();
    for line in lines {
        let at = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at_checked(at)?;
        if name.is_empty() || !name.iter().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        if name.eq_ignore_ascii_case(b"host") {
            hosts.push(value.get(1..)?.trim_ascii());
        }
    }
    match hosts.as_slice() {
        [host] if origin_form => Some(host),
        _ => None,
    }
}

/// The first byte of a `ClientHello`.
const TLS: u8 = 0x16;
/// After this much silence a connection counts as made.
const A_MOMENT: Duration = Duration::from_millis(300);
/// No method is longer.
const LONGEST_METHOD: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_words_tell_what_is_spoken() {
        let cases: [(&[u8], Words); 19] = [
            (b"", Words::Short),
            (b"GE", Words::Short),
            (b"GET / HTTP/1.1", Words::Short),
            (b"GET / HTTP/1.1\r\n", Words::Http),
            (b"\r\n\nODD-method / HTTP/1.0\n", Words::Http),
            (b"get /a b HTTP/1.1\r\n", Words::Http),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Words::Other),
            (b"*1\r\n$4\r\nPING\r\n", Words::Other),
            (b"get key\r\n", Words::Other),
            (b"\x00\x00\x00\x08\x04\xd2\x16\x2f", Words::Other),
            (b"0\x0c", Words::Other),
            (b"AMQP\x00\x00\x09\x01", Words::Other),
            (b"SSH-2.0-x\r\n", Words::Other),
            (b"\x16", Words::Short),
            (b"\x16\x03\x01", Words::Short),
            (b"\x16\x02\x01\x00\x05", Words::Other),
            (b"{\"id\":1}", Words::Other),
            (b"GET /\x00 HTTP/1.1\r\n", Words::Other),
            (b"<?xml version", Words::Other),
        ];
        for (said, words) in cases {
            assert_eq!(Words::of(said), words, "{}", said.escape_ascii());
        }
        let endless = [b"GET /".to_vec(), vec![b'a'; LONGEST_HEAD]].concat();
        assert_eq!(Words::of(&endless), Words::Endless);
    }

    #[test]
    fn a_head_names_one_host_or_none() {
        for (head, host) in [
            ("GET / HTTP/1.1\r\nHost: a:1\r\nUpgrade: x\r\n\r\n", Some("a:1")),
            ("GET / HTTP/1.1\r\nHost: a\r\nhOST: b\r\n\r\n", None),
            ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", None),
            ("GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", None),
            ("GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", None),
            ("CONNECT b:1 HTTP/1.1\r\nHost: a\r\n\r\n", None),
            ("GET / HTTP/1.1\r\n\r\n", None),
        ] {
            let found = only_host(head.as_bytes()).map(|host| String::from_utf8_lossy(host).into_owned());
            assert_eq!(found.as_deref(), host, "{head}");
        }
    }
}
