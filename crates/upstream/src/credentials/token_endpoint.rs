//! What is asked of a token endpoint, and what came of it. Whoever asks is in another room: a client's credential is exchanged
//! where it is kept, so that it never comes here.

use std::future::Future;
use std::pin::Pin;

use rustls_pki_types::CertificateDer;
use vocabulary::Secret;

/// A token endpoint, and who we are there.
#[derive(Clone, Debug)]
pub struct TokenEndpoint {
    /// Its address: `https`, or `http` on loopback.
    pub url: String,
    /// Our name there.
    pub client_id: String,
    /// What proves it.
    pub client_secret: Secret,
    /// Further trust roots, for this endpoint alone.
    pub extra_roots: Vec<CertificateDer<'static>>,
}

/// Members of the form that is posted.
pub type TokenForm = Vec<(&'static str, String)>;

/// What a token endpoint answered, unread.
pub struct TokenAnswer {
    /// The HTTP status.
    pub status: u16,
    /// Whether it says that it is JSON.
    pub is_json: bool,
    /// The body: it holds a token.
    pub body: Vec<u8>,
}

/// Why a token endpoint gave no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoAnswer {
    /// It cannot be reached, or the connection broke.
    Unreachable,
    /// It took too long.
    TimedOut,
    /// It said more than any answer needs.
    TooLarge,
}

/// An answer that is waited for.
pub type Asking<'a> = Pin<Box<dyn Future<Output = Result<TokenAnswer, NoAnswer>> + Send + 'a>>;

/// Asks token endpoints on the gateway's own behalf. Follows no redirect, takes a bounded answer in a bounded time.
pub trait TokenClient: Send + Sync {
    /// Posts a form.
    fn ask<'a>(&'a self, endpoint: &'a TokenEndpoint, form: &'a TokenForm) -> Asking<'a>;
}
