//! Three proxies to compare with, on the gateway's HTTP stack (`crates/upstream/src/http.rs` and
//! `crates/gateway/src/edge/listen.rs`). None of them protects anything.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use mcp::{envelope, server};

use crate::door;

/// The depth the gateway allows a client and a server.
const CLIENT_DEPTH: usize = 64;
const SERVER_DEPTH: usize = 512;

/// The work a floor does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Streams both bodies unseen.
    Bare,
    /// Buffers both bodies and splits both envelopes into raw spans.
    Split,
    /// Builds a tree of both bodies and writes them again.
    Tree,
}

/// Serves until standard input ends.
pub(crate) fn run(kind: Kind, upstream: Uri) -> Result<ExitCode> {
    let floor = Arc::new(Floor::new(kind, upstream));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(door::serve(move |request| {
        let floor = floor.clone();
        async move { floor.answer(request).await }
    }))?;
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

type AnyBody = Either<Incoming, Full<Bytes>>;

struct Floor {
    kind: Kind,
    upstream: Uri,
    client: Client<HttpConnector, AnyBody>,
}

impl Floor {
    fn new(kind: Kind, upstream: Uri) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(60))
            .retry_canceled_requests(false)
            .build(connector);
        Self { kind, upstream, client }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<AnyBody> {
        let passed = match self.kind {
            Kind::Bare => self.stream(request).await,
            Kind::Split => self.rewrite(request, split_request, split_answer).await,
            Kind::Tree => self.rewrite(request, write_again, write_again).await,
        };
        passed.unwrap_or_else(|_| {
            let mut broken = Response::new(Either::Right(Full::default()));
            *broken.status_mut() = StatusCode::BAD_GATEWAY;
            broken
        })
    }

    async fn stream(&self, request: Request<Incoming>) -> Result<Response<AnyBody>> {
        let (mut head, body) = request.into_parts();
        head.uri = self.upstream.clone();
        drop_connection_headers(&mut head.headers);
        let response = self
            .client
            .request(Request::from_parts(head, Either::Left(body)))
            .await?;
        Ok(response.map(Either::Left))
    }

    async fn rewrite(
        &self,
        request: Request<Incoming>,
        outward: fn(&Bytes) -> Result<Bytes>,
        inward: fn(&Bytes) -> Result<Bytes>,
    ) -> Result<Response<AnyBody>> {
        let (mut head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let body = if body.is_empty() { body } else { outward(&body)? };
        head.uri = self.upstream.clone();
        drop_connection_headers(&mut head.headers);
        head.headers.remove(header::CONTENT_LENGTH);
        let request = Request::from_parts(head, Either::Right(Full::new(body)));
        let (mut head, body) = self.client.request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        let body = if body.is_empty() { body } else { inward(&body)? };
        head.headers.remove(header::CONTENT_LENGTH);
        Ok(Response::from_parts(head, Either::Right(Full::new(body))))
    }
}

fn drop_connection_headers(headers: &mut HeaderMap) {
    headers.remove(header::HOST);
    headers.remove(header::CONNECTION);
}

fn split_request(body: &Bytes) -> Result<Bytes> {
    std::hint::black_box(envelope::parse(body, CLIENT_DEPTH)?);
    Ok(body.clone())
}

fn split_answer(body: &Bytes) -> Result<Bytes> {
    std::hint::black_box(server::parse(body, SERVER_DEPTH)?);
    Ok(body.clone())
}

fn write_again(body: &Bytes) -> Result<Bytes> {
    let tree: serde_json::Value = serde_json::from_slice(body)?;
    Ok(serde_json::to_vec(&tree)?.into())
}
