//! How a scripted server writes what it was told to.

use std::io;
use std::time::Duration;

use serde_json::Value;

use super::{Beat, Reaction, Shared, Turn, label_of};
use crate::support::server::Seen;
use crate::support::wire::Wire;

/// Writes the reply to one request; an error ends the connection.
pub(super) async fn perform(wire: &mut Wire, shared: &Shared, seen: &Seen, reaction: Reaction) -> io::Result<()> {
    let message = seen.json();
    let id = message["id"].to_string();
    match reaction {
        Reaction::Empty(status) => wire.send(&http(status, "", "")).await,
        Reaction::Result(result, header) => wire.send(&http(200, &header, &rpc(&id, "result", &result))).await,
        Reaction::Turn(Turn::Result(result)) => wire.send(&http(200, "", &rpc(&id, "result", &result))).await,
        Reaction::Turn(Turn::Error(status, error)) => wire.send(&http(status, "", &rpc(&id, "error", &error))).await,
        Reaction::Turn(Turn::Status(status)) => wire.send(&http(status, "", "something happened")).await,
        Reaction::Turn(Turn::Body(status, body)) => wire.send(&http(status, "", &body)).await,
        Reaction::Turn(Turn::Silence) => {
            wire.rest().await;
            shared.script().hung_up.push(label_of(&message));
            Err(io::ErrorKind::ConnectionAborted.into())
        }
        Reaction::Turn(Turn::Stream(beats)) => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
            wire.send(head.as_bytes()).await?;
            for beat in beats {
                play(wire, shared, &message, beat).await?;
            }
            wire.send(b"0\r\n\r\n").await
        }
    }
}

async fn play(wire: &mut Wire, shared: &Shared, message: &Value, beat: Beat) -> io::Result<()> {
    match beat {
        Beat::Tell(text) => wire.send(&chunk(&event(&filled(&text, message)))).await,
        Beat::Flood(times, text) => {
            let text = event(&filled(&text, message));
            for hundred in 0..times.div_ceil(100) {
                let numbers = hundred * 100..times.min((hundred + 1) * 100);
                let events: String = numbers.map(|n| text.replace("$n", &n.to_string())).collect();
                wire.send(&chunk(&events)).await?;
            }
            Ok(())
        }
        Beat::Ask(question) => {
            wire.send(&chunk(&event(&question.to_string()))).await?;
            let id = question["id"].to_string();
            tokio::time::timeout(Duration::from_secs(30), async {
                loop {
                    let heard = shared.heard.notified();
                    if shared.script().answers.contains_key(&id) {
                        return;
                    }
                    heard.await;
                }
            })
            .await
            .map_err(|_| io::ErrorKind::TimedOut.into())
        }
        Beat::Raw(text) => wire.send(&chunk(&filled(&text, message))).await,
        Beat::Wait(time) => {
            tokio::time::sleep(time).await;
            Ok(())
        }
        Beat::Until(notice) => {
            notice.notified().await;
            Ok(())
        }
        Beat::Since(said) => {
            let mut said = said.clone();
            let _ = said.wait_for(|said| *said).await;
            Ok(())
        }
        Beat::Break => Err(io::ErrorKind::ConnectionAborted.into()),
        Beat::Hold => {
            wire.rest().await;
            shared.script().hung_up.push(label_of(message));
            Err(io::ErrorKind::ConnectionAborted.into())
        }
    }
}

fn filled(text: &str, message: &Value) -> String {
    let token = message["params"]["_meta"]["progressToken"].to_string();
    text.replace("$id", &message["id"].to_string())
        .replace("$token", &token)
}

fn event(message: &str) -> String {
    format!("event: message\ndata: {message}\n\n")
}

fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

fn rpc(id: &str, member: &str, raw: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":{raw}}}"#)
}

fn http(status: u16, headers: &str, body: &str) -> Vec<u8> {
    let kind = if body.is_empty() {
        ""
    } else {
        "Content-Type: application/json\r\n"
    };
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\n{kind}{headers}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}
