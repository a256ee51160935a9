//! A fast MCP server: one session, one tool, results made beforehand. It does as little as a
//! server can, so that the proxies in front of it are what a run measures.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use http::{HeaderValue, Method as Verb, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use mcp::http::{JSON, SESSION_ID};
use mcp::{Message, Method};
use serde_json::json;

use crate::{door, sample};

const DEEPEST: usize = 64;
const SESSION: HeaderValue = HeaderValue::from_static("0123456789abcdef0123456789abcdef");

struct Server {
    small: Bytes,
    large: Bytes,
    tools: Bytes,
    greeting: Bytes,
}

/// Serves until standard input ends.
pub(crate) fn run() -> Result<ExitCode> {
    let server = Arc::new(Server::new()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(door::serve(move |request| {
        let server = server.clone();
        async move { server.answer(request).await }
    }))?;
    Ok(ExitCode::SUCCESS)
}

impl Server {
    fn new() -> Result<Self> {
        let about = json!({"name": "portreeve-load", "version": "1"});
        let greeting = json!({"capabilities": {"tools": {}}, "protocolVersion": sample::VERSION, "serverInfo": about});
        Ok(Self {
            small: sample::result(sample::SMALL)?,
            large: sample::result(sample::LARGE)?,
            tools: sample::tools().to_string().into(),
            greeting: greeting.to_string().into(),
        })
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if request.method() == Verb::DELETE {
            return empty(StatusCode::OK);
        }
        if request.method() != Verb::POST {
            return empty(StatusCode::METHOD_NOT_ALLOWED);
        }
        let in_session = request.headers().get(SESSION_ID) == Some(&SESSION);
        let Ok(body) = request.into_body().collect().await else {
            return empty(StatusCode::BAD_REQUEST);
        };
        let request = match mcp::envelope::parse(&body.to_bytes(), DEEPEST) {
            Ok(Message::Request(request)) => request,
            Ok(Message::Notification(_) | Message::Response(_)) => return empty(StatusCode::ACCEPTED),
            Err(_) => return empty(StatusCode::BAD_REQUEST),
        };
        if !in_session && *request.method() != Method::Initialize {
            return empty(StatusCode::NOT_FOUND);
        }
        let result: &[u8] = match request.method_name() {
            "initialize" => &self.greeting,
            "tools/list" => &self.tools,
            "tools/call" if request.params().raw("arguments").is_some_and(sample::asks_for_large) => &self.large,
            "tools/call" => &self.small,
            "ping" => b"{}",
            _ => return empty(StatusCode::BAD_REQUEST),
        };
        let id = request.id().as_raw();
        let body = [
            br#"{"id":"#.as_slice(),
            id,
            br#","jsonrpc":"2.0","result":"#,
            result,
            b"}",
        ]
        .concat();
        let mut response = Response::new(Full::from(body));
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        if *request.method() == Method::Initialize {
            response.headers_mut().insert(SESSION_ID, SESSION);
        }
        response
    }
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
