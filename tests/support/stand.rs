//! Something that stands where a gateway would and does what a test tells it, on the wire of one.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpListener;

use super::wire::{Headers, Wire};

/// A stand-in for a gateway.
pub(crate) struct Stand {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<Heard>>>,
}

/// One request that came.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub verb: String,
    pub target: String,
    pub headers: Headers,
    pub body: Value,
    /// The other side closed the stream before it ended.
    pub was_closed: bool,
}

impl Heard {
    /// The JSON-RPC method.
    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    /// The id, spelled as JSON.
    pub(crate) fn id(&self) -> String {
        self.body["id"].to_string()
    }
}

/// What is done about a request, step by step.
pub(crate) enum Step {
    Send(String),
    Wait(Duration),
    /// Ends the connection.
    Close,
    /// Waits until the other side ends it.
    UntilClosed,
}

impl Stand {
    /// Starts it; `react` gets every request, with the number of those that came before.
    pub(crate) async fn start(react: impl Fn(&Heard, usize) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heard: Arc<Mutex<Vec<Heard>>> = Arc::default();
        let (log, react) = (Arc::clone(&heard), Arc::new(react));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, react) = (Arc::clone(&log), Arc::clone(&react));
                tokio::spawn(async move { converse(Wire::over(stream), &log, react.as_ref()).await });
            }
        });
        Self { address, heard }
    }

    /// The URL of its `/mcp`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Everything that came.
    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    /// The requests by this method of JSON-RPC.
    pub(crate) fn heard_of(&self, method: &str) -> Vec<Heard> {
        self.heard().into_iter().filter(|one| one.method() == method).collect()
    }
}

async fn converse(mut wire: Wire, log: &Mutex<Vec<Heard>>, react: &(impl Fn(&Heard, usize) -> Vec<Step> + Sync)) {
    while let Ok((start, headers, body)) = wire.request().await {
        let mut words = start.split(' ').map(str::to_owned);
        let heard = Heard {
            verb: words.next().unwrap_or_default(),
            target: words.next().unwrap_or_default(),
            headers,
            body: serde_json::from_slice(&body).unwrap_or_default(),
            was_closed: false,
        };
        let number = {
            let mut log = log.lock().unwrap();
            log.push(heard.clone());
            log.len() - 1
        };
        for step in react(&heard, number) {
            match step {
                Step::Send(text) => drop(wire.send(text.as_bytes()).await),
                Step::Wait(time) => tokio::time::sleep(time).await,
                Step::Close => return wire.close().await,
                Step::UntilClosed => {
                    wire.rest().await;
                    log.lock().unwrap()[number].was_closed = true;
                    return;
                }
            }
        }
    }
}

/// An answer with a body of JSON.
pub(crate) fn json_answer(status: u16, headers: &str, body: &str) -> Vec<Step> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{headers}Content-Length: {length}\r\n");
    vec![Step::Send(format!("{head}\r\n{body}"))]
}

/// The beginning of an event stream.
pub(crate) fn stream_answer(events: &str) -> Step {
    Step::Send(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n{events}"
    ))
}

/// A result.
pub(crate) fn result_of(heard: &Heard, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, heard.id())
}
