//! Posts to token endpoints: no redirect is followed, no proxy is asked, an answer is bounded in size and time.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use http::header;
use upstream::{Asking, NoAnswer, TokenAnswer, TokenClient, TokenEndpoint, TokenForm};
use vocabulary::{Digest, lock};

use super::form::{spelled, spelled_word};

/// See the module. One client for each set of trust roots.
#[derive(Default)]
pub struct TokenClients(Mutex<HashMap<Digest, reqwest::Client>>);

/// Everything an endpoint does takes no longer.
const PATIENCE: Duration = Duration::from_secs(10);
const LARGEST_ANSWER: usize = 128 * 1024;

impl TokenClients {
    /// Posts `form`, with the subject of an exchange where there is one.
    pub(super) async fn post(
        &self,
        endpoint: &TokenEndpoint,
        form: &TokenForm,
        subject: Option<(&str, &str)>,
    ) -> Result<TokenAnswer, NoAnswer> {
        let members = form.iter().map(|(name, value)| (*name, value.as_str()));
        let body = spelled(members.chain(subject));
        let request = self
            .client(endpoint)?
            .post(&endpoint.url)
            .basic_auth(
                spelled_word(&endpoint.client_id),
                Some(spelled_word(endpoint.client_secret.expose())),
            )
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, mcp::http::JSON)
            .body(body.expose().to_owned());
        let asked = tokio::time::timeout(PATIENCE, async { read(request.send().await.map_err(no_answer)?).await });
        asked.await.map_err(|_| NoAnswer::TimedOut)?
    }

    fn client(&self, endpoint: &TokenEndpoint) -> Result<reqwest::Client, NoAnswer> {
        let roots: Vec<&[u8]> = endpoint.extra_roots.iter().map(AsRef::as_ref).collect();
        let key = Digest::of(&roots.concat());
        if let Some(client) = lock(&self.0).get(&key) {
            return Ok(client.clone());
        }
        let roots = roots.into_iter().map(reqwest::Certificate::from_der);
        let roots = roots
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| NoAnswer::Unreachable)?;
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(PATIENCE);
        if !roots.is_empty() {
            builder = builder.tls_certs_merge(roots);
        }
        let client = builder.build().map_err(|_| NoAnswer::Unreachable)?;
        lock(&self.0).insert(key, client.clone());
        Ok(client)
    }
}

impl TokenClient for TokenClients {
    fn ask<'a>(&'a self, endpoint: &'a TokenEndpoint, form: &'a TokenForm) -> Asking<'a> {
        Box::pin(self.post(endpoint, form, None))
    }
}

async fn read(mut response: reqwest::Response) -> Result<TokenAnswer, NoAnswer> {
    let status = response.status().as_u16();
    let is_json =
        mcp::http::media_type(response.headers()).is_some_and(|kind| kind.eq_ignore_ascii_case(mcp::http::JSON));
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(no_answer)? {
        if body.len() + piece.len() > LARGEST_ANSWER {
            return Err(NoAnswer::TooLarge);
        }
        body.extend_from_slice(&piece);
    }
    Ok(TokenAnswer { status, is_json, body })
}

fn no_answer(error: reqwest::Error) -> NoAnswer {
    match error.is_timeout() {
        true => NoAnswer::TimedOut,
        false => NoAnswer::Unreachable,
    }
}
