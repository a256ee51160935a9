//! A gateway that knows names of its own (`harbour.test`, `elsewhere.test`), through an `/etc/hosts` that it alone sees,
//! which takes root. Both names are one address of the loopback that is nobody else's.

use std::net::Ipv4Addr;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::environment::{command, not_here, portreeve};
use crate::support::records;
use crate::support::setup::Home;
use crate::support::{Gateway, Setup};

/// What the page says.
pub(super) const PAGE: &str = "high water at noon";

/// The address of this test alone.
pub(super) fn address() -> Ipv4Addr {
    let [.., a, b] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 77, a, b)
}

/// A web server on a port of the address; `/page.html` is HTML, `/away?URL` leads to that URL, everything else is plain text.
pub(super) async fn page(port: u16) {
    let listener = TcpListener::bind((address(), port)).await.unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
}

/// Answers one request.
pub(super) async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut asked = [0; 4096];
    let read = stream.read(&mut asked).await.unwrap_or(0);
    if let Some(away) = String::from_utf8_lossy(&asked[..read]).strip_prefix("GET /away?") {
        let place = away.split(' ').next().unwrap_or_default();
        let head = format!("HTTP/1.1 302 Found\r\nLocation: {place}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        let _ = stream.write_all(head.as_bytes()).await;
        let _ = stream.shutdown().await;
        return;
    }
    let body = match asked[..read].starts_with(b"GET /page.html ") {
        true => format!("<!doctype html><title>Tides</title><h1>Tides</h1><p>{PAGE}</p>"),
        false => PAGE.to_owned(),
    };
    let kind = if body.starts_with('<') { "html" } else { "plain" };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/{kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// Whether this is root; says so where it is not, and fails the test where it must be.
pub(super) fn is_possible() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        not_here("a name for one process takes root");
    }
    root
}

/// Starts the gateway of a configuration where it knows the names; nothing where that is impossible.
pub(super) async fn start(setup: Setup) -> Option<Gateway> {
    start_in(setup.home()).await
}

/// The same in a directory that is there already.
pub(super) async fn start_in(home: Home) -> Option<Gateway> {
    if !is_possible() {
        return None;
    }
    let address = address();
    let hosts = format!("127.0.0.1 localhost\n::1 localhost\n{address} harbour.test\n{address} elsewhere.test\n");
    std::fs::write(home.path("hosts"), hosts).unwrap();
    let mut program = command("unshare");
    program.args(["--mount", "sh", "-c", r#"mount --bind "$0" /etc/hosts && exec "$@""#]);
    program.arg(home.path("hosts")).arg(portreeve());
    Some(Gateway::start_as(home, program).await)
}

/// What the log says of attempts to reach a host: results and reasons.
pub(super) fn attempts(gateway: &Gateway, host: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let found = records::all(&gateway.home).into_iter();
    let found = found.filter(|record| record["type"] == "egress" && record["dst"]["host"] == host);
    found
        .map(|record| (text(&record["result"]), text(&record["reason"])))
        .collect()
}
