//! How commands reach the state: through the admin API of the running gateway or, where none runs, through
//! the same API in this process, on the state directory and under its lock.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::body::Body;
use control::{ControlPlane, Operator};
use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use serde_json::value::RawValue;
use store::{LockError, StateLock};
use vocabulary::Secret;

use super::offline;
use crate::config::{Local, variable};
use crate::reach::{Reach, read, whereabouts};
use crate::wire_up::{Whereabouts, admin_token_file};

/// A way to the state of a gateway.
pub(super) struct Access(Way);

enum Way {
    Running(Client),
    Offline {
        plane: ControlPlane,
        closing: offline::Closing,
        _lock: StateLock,
    },
}

struct Client {
    http: reqwest::Client,
    address: SocketAddr,
    base: String,
    token: Secret,
}

/// The API's answer to something it did not do.
#[derive(Debug, thiserror::Error)]
#[error("{message}{}", self.tail())]
pub(super) struct Refused {
    pub(super) status: u16,
    message: String,
    faults: Vec<String>,
}

impl Refused {
    fn tail(&self) -> String {
        self.faults.iter().map(|fault| format!("\n{fault}")).collect()
    }
}

impl Access {
    /// Finds the way: the lock of the state directory if it is free, else the gateway that holds it.
    pub(super) async fn open(config: &Local) -> anyhow::Result<Self> {
        let began = Instant::now();
        loop {
            match StateLock::take(&config.state.dir) {
                Ok(lock) => return Self::offline(config, lock),
                Err(LockError::InUse(_)) => {}
                Err(error @ LockError::Disk { .. }) => return Err(error.into()),
            }
            if let Some(whereabouts) = whereabouts(&config.state.dir) {
                let client = Client::new(config, &whereabouts)?;
                match client.knock().await {
                    Ok(()) => return Ok(Self(Way::Running(client))),
                    Err(error) if began.elapsed() >= PATIENCE => return Err(error),
                    Err(_) => {}
                }
            }
            // Another command, or a gateway that has just begun or is about to end: it will not be long.
            anyhow::ensure!(
                began.elapsed() < PATIENCE,
                "the state directory is in use, but no gateway answers"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The way through a gateway that runs now; `None` where none does. The lock is not kept: a gateway may be about to start.
    pub(super) async fn running(config: &Local) -> anyhow::Result<Option<Self>> {
        match StateLock::take(&config.state.dir) {
            Ok(_) => return Ok(None),
            Err(LockError::InUse(_)) => {}
            Err(error @ LockError::Disk { .. }) => return Err(error.into()),
        }
        let Some(whereabouts) = whereabouts(&config.state.dir) else {
            return Ok(None);
        };
        let client = Client::new(config, &whereabouts)?;
        Ok(client.knock().await.is_ok().then_some(Self(Way::Running(client))))
    }

    /// Whether a gateway runs.
    pub(super) fn is_running(&self) -> bool {
        match &self.0 {
            Way::Running(_) => true,
            Way::Offline { .. } => false,
        }
    }

    /// `GET`, as parsed JSON.
    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        Ok(serde_json::from_slice(&self.ask(Method::GET, path, None).await?)?)
    }

    /// `GET`, as the bytes that came.
    pub(super) async fn get_raw(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        self.ask(Method::GET, path, None).await
    }

    /// `POST`, as parsed JSON.
    pub(super) async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        Ok(serde_json::from_slice(
            &self.ask(Method::POST, path, Some(body)).await?,
        )?)
    }

    /// `DELETE`, as parsed JSON.
    pub(super) async fn delete(&self, path: &str) -> anyhow::Result<Value> {
        Ok(serde_json::from_slice(&self.ask(Method::DELETE, path, None).await?)?)
    }

    /// Ends the access: what an offline command recorded is on disk when this returns.
    pub(super) async fn close(self) -> anyhow::Result<()> {
        match self.0 {
            Way::Running(_) => Ok(()),
            Way::Offline { plane, closing, _lock } => {
                drop(plane);
                Ok(tokio::task::spawn_blocking(move || closing.close()).await?)
            }
        }
    }

    fn offline(config: &Local, lock: StateLock) -> anyhow::Result<Self> {
        let (plane, closing) = offline::plane(config)?;
        Ok(Self(Way::Offline {
            plane,
            closing,
            _lock: lock,
        }))
    }

    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Vec<u8>> {
        let body = body.map(Value::to_string);
        let (status, bytes) = match &self.0 {
            Way::Running(client) => client.ask(method, path, body).await?,
            Way::Offline { plane, .. } => {
                let request = Request::builder().method(method).uri(format!("{BASE}{path}"));
                let request = request.header(header::CONTENT_TYPE, "application/json");
                let request = request.body(body.map_or_else(Body::empty, Body::from))?;
                let response = plane.act(request, &Operator::at_the_machine()).await;
                (
                    response.status().as_u16(),
                    response.into_body().collect().await?.to_bytes().to_vec(),
                )
            }
        };
        if (200..300).contains(&status) {
            Ok(bytes)
        } else {
            Err(refused(status, &bytes).into())
        }
    }
}

impl Client {
    /// A client for the gateway that runs on this configuration's state directory.
    fn new(config: &Local, whereabouts: &Whereabouts) -> anyhow::Result<Self> {
        let token = match variable("PORTREEVE_ADMIN_TOKEN") {
            Some(token) => Secret::new(token),
            None => Secret::new(read(&admin_token_file(&config.state.dir))?.trim().to_owned()),
        };
        let reach = Reach::local(config.listen.as_ref(), &whereabouts.admin, whereabouts.ca.as_deref())?;
        Ok(Self {
            http: reach.builder.timeout(DEADLINE).build()?,
            address: reach.address,
            base: format!("{}{BASE}", reach.origin),
            token,
        })
    }

    /// Whether anybody is there.
    async fn knock(&self) -> anyhow::Result<()> {
        tokio::net::TcpStream::connect(self.address)
            .await
            .map(drop)
            .context("the gateway does not answer")
    }

    async fn ask(&self, method: Method, path: &str, body: Option<String>) -> anyhow::Result<(u16, Vec<u8>)> {
        let url = format!("{}{path}", self.base);
        let mut request = self.http.request(method, url).bearer_auth(self.token.expose());
        if let Some(body) = body {
            request = request.header(header::CONTENT_TYPE, "application/json").body(body);
        }
        let response = request.send().await.context("the gateway does not answer")?;
        let status = response.status().as_u16();
        let bytes = response.bytes().await.context("the gateway's answer broke off")?;
        Ok((status, bytes.to_vec()))
    }
}

/// A part of a listing, each record exactly as stored.
#[derive(serde::Deserialize)]
pub(super) struct Page<'a> {
    #[serde(borrow)]
    pub(super) records: Vec<&'a RawValue>,
    /// The newest may be missing.
    #[serde(default)]
    pub(super) index_behind: bool,
}

/// Reads a part of a listing.
pub(super) fn page(body: &[u8]) -> anyhow::Result<Page<'_>> {
    serde_json::from_slice(body).context("the answer cannot be read")
}

/// A part of a path or a query, percent-encoded.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

fn refused(status: u16, body: &[u8]) -> Refused {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = match (status, answer.pointer("/error/message").and_then(Value::as_str)) {
        (401, _) => "the gateway does not take this admin token".to_owned(),
        (_, Some(message)) => message.to_owned(),
        (_, None) => format!("the gateway answered {status}"),
    };
    let faults = answer.pointer("/error/faults").and_then(Value::as_array);
    let faults = faults
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    Refused {
        status,
        message,
        faults,
    }
}

const BASE: &str = "/api/v1";
/// How long a command waits for another one, or for a gateway that is starting.
const PATIENCE: Duration = Duration::from_secs(10);
/// Discovery of a slow server is the longest thing a command waits for.
const DEADLINE: Duration = Duration::from_secs(120);

/// Everything that RFC 3986 does not call unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_travel_in_paths_whatever_they_hold() {
        assert_eq!(encoded("get/weather v2é"), "get%2Fweather%20v2%C3%A9");
        assert_eq!(encoded("a-b.c_d~e%&+"), "a-b.c_d~e%25%26%2B");
    }
}
